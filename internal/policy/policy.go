// Package policy works out which policy and operator policy act on a queue or
// exchange, and which value of each setting is then in effect, as RabbitMQ does
// it (measured on 3.10.8, 4.0.5 and 4.3.6). It is pure.
//
// The rules: a policy matches by an unanchored regular expression on the name and
// by apply-to; one that holds a key which the queue's type does not support is
// ignored for that queue as a whole; of those left the highest priority acts
// alone. Operator policies are chosen in the same way and merged with it.
package policy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Set holds the policies and operator policies of one virtual host, ready to be
// matched. It may be used by several goroutines.
type Set struct {
	version   catalog.Version
	policies  *group
	operators *group
}

// New prepares the policies of a virtual host for a broker of the given version;
// the zero Version counts as the newest one known. Neither list is changed.
func New(v catalog.Version, policies, operatorPolicies []*topology.Policy) *Set {
	if v.IsZero() {
		v = catalog.Newest
	}
	return &Set{version: v, policies: newGroup(v, policies), operators: newGroup(v, operatorPolicies)}
}

// Match says what acts on one queue or exchange.
type Match struct {
	// Policy and Operator act on it; nil: none does.
	Policy, Operator *topology.Policy
	// Ignored match by name but hold a key that the queue's type does not support,
	// so that RabbitMQ ignores them for it as a whole. Operator policies are among
	// them.
	Ignored []*topology.Policy
	// Hidden would act if there were none of a higher priority.
	Hidden []*topology.Policy
	// Tie: another policy has the same, highest priority; RabbitMQ then chooses in
	// an undefined way. Policy is the first by name.
	Tie bool
	// OperatorTie is the same for operator policies.
	OperatorTie bool
	// Undecided are policies of which it is not known whether they match: their
	// pattern cannot be read as RabbitMQ does, or took too long. They are in no
	// other field.
	Undecided []*topology.Policy
}

// Queue says what acts on a queue of that name and type. An empty type counts as
// classic.
func (s *Set) Queue(name string, t topology.QueueType) Match {
	if t == "" {
		t = topology.Classic
	}
	return s.choose(name, t, false)
}

// Exchange says what acts on an exchange. Operator policies hold no keys for
// exchanges and never act.
func (s *Set) Exchange(name string) Match { return s.choose(name, "", true) }

func (s *Set) choose(name string, t topology.QueueType, exchange bool) Match {
	found, undecided := s.policies.find(name, t, exchange)
	m := Choose(s.version, t, found)
	m.Undecided = undecided
	if exchange || len(s.operators.all) == 0 {
		return m
	}
	found, undecided = s.operators.find(name, t, false)
	o := Choose(s.version, t, found)
	m.Operator, m.OperatorTie = o.Policy, o.Tie
	m.Ignored = append(m.Ignored, o.Ignored...)
	m.Undecided = append(m.Undecided, undecided...)
	return m
}

// Candidates are the policies that match a queue by name and apply-to, whether or
// not they then act, sorted by name.
type Candidates struct {
	Policies, Operators []*topology.Policy
	// Undecided are those of which it is not known (see Match.Undecided).
	Undecided []*topology.Policy
}

// Candidates lists what matches a queue of that name and type.
func (s *Set) Candidates(name string, t topology.QueueType) Candidates {
	var c Candidates
	c.Policies, c.Undecided = s.policies.find(name, t, false)
	operators, undecided := s.operators.find(name, t, false)
	c.Operators = operators
	c.Undecided = append(c.Undecided, undecided...)
	return c
}

// Problem says why a policy of Match.Undecided is there.
func (s *Set) Problem(p *topology.Policy) string {
	for _, g := range []*group{s.policies, s.operators} {
		for i, q := range g.all {
			if q == p {
				if g.budget.over() && g.patterns[i].decides() {
					return tooSlow()
				}
				return g.patterns[i].problem()
			}
		}
	}
	return ""
}

// Choose picks from policies (or operator policies) that match a queue of type t
// by name and apply-to the one that acts. An empty type stands for an exchange,
// for which no policy is ignored.
func Choose(v catalog.Version, t topology.QueueType, matching []*topology.Policy) Match {
	var m Match
	for _, p := range matching {
		switch {
		case t != "" && !Supports(v, t, p.Definition):
			m.Ignored = append(m.Ignored, p)
		case m.Policy == nil:
			m.Policy = p
		case p.Priority > m.Policy.Priority:
			m.Hidden = append(m.Hidden, m.Policy)
			m.Policy, m.Tie = p, false
		default:
			m.Tie = m.Tie || p.Priority == m.Policy.Priority
			m.Hidden = append(m.Hidden, p)
		}
	}
	if len(m.Hidden) > 1 {
		slices.SortStableFunc(m.Hidden, func(a, b *topology.Policy) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
		})
	}
	return m
}

// Supports reports whether a policy with that definition can act on queues of
// type t at all. Keys that the catalog does not know count as supported: those of
// plugins are.
func Supports(v catalog.Version, t topology.QueueType, definition topology.Arguments) bool {
	for key := range definition {
		if s := catalog.LookupPolicyKey(key); s != nil && !s.PolicyMatchesType(t, v) {
			return false
		}
	}
	return true
}

// AppliesTo reports whether a policy's apply-to covers queues of type t, or
// exchanges when t is empty.
func AppliesTo(applyTo string, t topology.QueueType) bool {
	switch applyTo {
	case "", "all":
		return true
	case "exchanges":
		return t == ""
	case "queues":
		return t != ""
	case "classic_queues":
		return t == topology.Classic
	case "quorum_queues":
		return t == topology.Quorum
	case "streams":
		return t == topology.Stream
	}
	return false
}

// group is a list of policies in name order with their patterns.
type group struct {
	all      []*topology.Policy
	patterns []*pattern
	exact    map[string][]int // by the names that patterns of the form ^name$ or ^(one|other)$ mean
	// beginning are those that match only names that begin with a text, by that text;
	// lengths are those of the texts.
	beginning map[string][]int
	lengths   []int
	others    []int
	budget    budget
}

func newGroup(v catalog.Version, policies []*topology.Policy) *group {
	g := &group{all: slices.Clone(policies), exact: map[string][]int{}, beginning: map[string][]int{}}
	slices.SortStableFunc(g.all, func(a, b *topology.Policy) int { return cmp.Compare(a.Name, b.Name) })
	g.patterns = make([]*pattern, len(g.all))
	g.budget.of = make([]atomic.Int64, len(g.all))
	for i, p := range g.all {
		g.patterns[i] = compile(p.Pattern, v)
		switch text := g.patterns[i].literal; {
		case g.patterns[i].kind == exact:
			g.exact[text] = append(g.exact[text], i)
		case g.patterns[i].kind == oneOf:
			for name := range g.patterns[i].names {
				g.exact[name] = append(g.exact[name], i)
			}
		case text != "" && g.patterns[i].err == nil && g.patterns[i].kind != anywhere:
			g.beginning[text] = append(g.beginning[text], i)
			g.lengths = append(g.lengths, len(text))
		default:
			g.others = append(g.others, i)
		}
	}
	slices.Sort(g.lengths)
	g.lengths = slices.Compact(g.lengths)
	return g
}

// match tries a pattern as long as it and the others do not take too long.
func (g *group) match(i int, name string) verdict {
	p := g.patterns[i]
	if p.kind != engine {
		return p.match(name)
	}
	if g.budget.over() {
		if g.budget.of[i].Load() > 0 {
			p.cut.Store(true) // other versions need not find out again
		}
		return unknown
	}
	start := time.Now()
	v := p.match(name)
	if g.budget.spend(i, time.Since(start)) {
		p.cut.Store(true)
	}
	return v
}

func (g *group) find(name string, t topology.QueueType, exchange bool) (found, undecided []*topology.Policy) {
	if exchange {
		t = ""
	}
	var indexes []int
	for _, i := range g.exact[name] {
		if AppliesTo(g.all[i].ApplyTo, t) {
			indexes = append(indexes, i)
		}
	}
	var doubts []int
	try := func(some []int) {
		for _, i := range some {
			if !AppliesTo(g.all[i].ApplyTo, t) {
				continue
			}
			switch g.match(i, name) {
			case yes:
				indexes = append(indexes, i)
			case unknown:
				doubts = append(doubts, i)
			}
		}
	}
	for _, n := range g.lengths {
		if n > len(name) {
			break
		}
		try(g.beginning[name[:n]])
	}
	try(g.others)
	slices.Sort(doubts)
	for _, i := range doubts {
		undecided = append(undecided, g.all[i])
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		found = append(found, g.all[i])
	}
	return found, undecided
}
