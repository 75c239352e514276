package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Setting is one setting in effect.
type Setting struct {
	Name string `json:"name"` // RabbitMQ's, without x-
	Source
	// Overrides are values from elsewhere that do not count.
	Overrides []Source `json:"overrides"`
}

// Source is a value and where it is set.
type Source struct {
	Value any `json:"value"`
	// Text is the value for people, with its unit.
	Text string `json:"text"`
	// From is argument, policy, operator policy or default (RabbitMQ's own).
	From   string `json:"from"`
	Policy string `json:"policy,omitempty"`
	// Why says why an overridden value does not count.
	Why string `json:"why,omitempty"`
}

// String is the source in words.
func (s Source) String() string {
	switch s.From {
	case string(policy.FromPolicy), string(policy.FromOperator):
		return fmt.Sprintf("%s %q", s.From, s.Policy)
	case string(policy.FromDefault):
		return "RabbitMQ's default"
	}
	return s.From
}

// Idle is an argument that does nothing.
type Idle struct {
	Argument string `json:"argument"`
	Value    any    `json:"value"`
	Why      string `json:"why"`
}

func source(row *catalog.Setting, v policy.Value) Source {
	s := Source{Value: v.Value, Text: valueText(row, v.Value), From: string(v.Origin)}
	if v.Policy != nil {
		s.Policy = v.Policy.Name
	}
	return s
}

// settings lists what is in effect, in the order of the names, and arguments that are
// of no use.
func (e *Explainer) settings(q *topology.Queue, m policy.Match, effective map[string]policy.Value) ([]Setting, []Idle) {
	names := make([]string, 0, len(effective))
	for name := range effective {
		names = append(names, name)
	}
	slices.Sort(names)
	all := make([]Setting, 0, len(names))
	for _, name := range names {
		row, winner := catalog.Lookup(name), effective[name]
		s := Setting{Name: name, Source: source(row, winner), Overrides: []Source{}}
		for _, other := range e.sources(q, m, row) {
			if other.Origin == winner.Origin && other.Policy == winner.Policy {
				continue
			}
			o := source(row, other)
			o.Why = e.why(row, q.Type, winner, other)
			s.Overrides = append(s.Overrides, o)
		}
		all = append(all, s)
	}
	idle := []Idle{}
	for _, name := range q.Arguments.Keys() {
		row := catalog.LookupArgument(name)
		why := ""
		switch {
		case row == nil:
			why = "RabbitMQ does not know it and keeps it without a word"
		case row.TakesArgument(q.Type, e.version):
			continue
		case row.IgnoresArgument(q.Type, e.version):
			why = fmt.Sprintf("%s queues of RabbitMQ %s take it and do nothing with it", q.Type, e.version)
		default:
			why = fmt.Sprintf("RabbitMQ %s refuses it on %s queues", e.version, q.Type)
		}
		idle = append(idle, Idle{name, q.Arguments[name], why})
	}
	return all, idle
}

// sources lists every value that is set for one setting: argument, policy, operator
// policy, and the default where RabbitMQ has one.
func (e *Explainer) sources(q *topology.Queue, m policy.Match, row *catalog.Setting) []policy.Value {
	var all []policy.Value
	if row == nil {
		return nil
	}
	if value, ok := q.Arguments[row.Argument]; ok && row.Argument != "" && row.TakesArgument(q.Type, e.version) {
		all = append(all, policy.Value{Value: value, Origin: policy.FromArgument})
	}
	if row.PolicyKey != "" && (row.PolicyActsOn(q.Type, e.version) || row.Plugin != "") {
		if m.Policy != nil {
			if value, ok := m.Policy.Definition[row.PolicyKey]; ok {
				all = append(all, policy.Value{Value: value, Origin: policy.FromPolicy, Policy: m.Policy})
			}
		}
		if m.Operator != nil {
			if value, ok := m.Operator.Definition[row.PolicyKey]; ok {
				all = append(all, policy.Value{Value: value, Origin: policy.FromOperator, Policy: m.Operator})
			}
		}
	}
	// Other defaults say nothing that is not there without them.
	if value := row.DefaultFor(q.Type, e.version); value != nil && row.Name == "delivery-limit" {
		all = append(all, policy.Value{Value: value, Origin: policy.FromDefault})
	}
	return all
}

// why says why one value beats another.
func (e *Explainer) why(row *catalog.Setting, t topology.QueueType, winner, other policy.Value) string {
	if other.Origin == policy.FromDefault {
		return "a default counts only where nothing is set"
	}
	w, ok := winner.Value.(int64)
	o, both := other.Value.(int64)
	if ok && both {
		switch {
		case row.IsUnlimited(o, e.version):
			return "no limit gives way to a limit"
		case w == o:
			return "the same value"
		case w < o:
			rule, operator := row.Wins(t, e.version)
			if winner.Origin == policy.FromOperator || other.Origin == policy.FromOperator {
				rule = operator
			}
			if rule == catalog.SmallerWins || row.Merge == catalog.SmallerWins {
				return "of two numbers the smaller counts"
			}
		case row.Merge == catalog.LargerWins:
			return "of two numbers the larger counts"
		}
	}
	return fmt.Sprintf("here %s beats %s", article(winner.Origin), article(other.Origin))
}

func article(o policy.Origin) string {
	if o == policy.FromPolicy {
		return "a policy"
	}
	return "an " + string(o)
}

// Policy is a policy that matches the queue by name.
type Policy struct {
	Name     string `json:"name"`
	Operator bool   `json:"operator"`
	// State is acts, hidden, ignored or undecided.
	State      string             `json:"state"`
	Priority   int64              `json:"priority"`
	Pattern    string             `json:"pattern"`
	ApplyTo    string             `json:"apply_to"`
	Definition topology.Arguments `json:"definition"`
	Why        string             `json:"why,omitempty"`
	Position   topology.Position  `json:"position,omitzero"`
}

// policies lists what matches the queue: first what acts.
func (e *Explainer) policies(q *topology.Queue, m policy.Match) []Policy {
	all := []Policy{}
	add := func(p *topology.Policy, state, why string) {
		all = append(all, Policy{
			Name: p.Name, Operator: p.Operator, State: state, Priority: p.Priority, Pattern: p.Pattern, ApplyTo: p.ApplyTo,
			Definition: p.Definition, Why: why, Position: p.Position,
		})
	}
	tied := func(tie bool) string {
		if tie {
			return "another one has the same priority: which of them acts is not defined, and can change with the version"
		}
		return ""
	}
	if m.Policy != nil {
		add(m.Policy, "acts", tied(m.Tie))
	}
	if m.Operator != nil {
		add(m.Operator, "acts", tied(m.OperatorTie))
	}
	for _, p := range m.Hidden {
		acting := m.Policy
		if p.Operator {
			acting = m.Operator
		}
		if acting == nil {
			continue
		}
		why := fmt.Sprintf("%q has priority %d, this one %d; a queue has one policy, and the keys of others do not count", acting.Name, acting.Priority, p.Priority)
		if acting.Priority == p.Priority {
			why = fmt.Sprintf("%q has the same priority: which of them acts is not defined", acting.Name)
		}
		add(p, "hidden", why)
	}
	for _, p := range m.Ignored {
		var keys []string
		for _, key := range p.Definition.Keys() {
			if row := catalog.LookupPolicyKey(key); row != nil && !row.PolicyMatchesType(q.Type, e.version) {
				keys = append(keys, key)
			}
		}
		add(p, "ignored", fmt.Sprintf("as a whole, since %s queues of RabbitMQ %s do not know %s", q.Type, e.version, strings.Join(keys, ", ")))
	}
	for _, p := range m.Undecided {
		add(p, "undecided", e.set.Problem(p))
	}
	return all
}

// bindingText is a binding in words.
func bindingText(b *topology.Binding) string {
	text := exchangeText(b.Source)
	if b.RoutingKey != "" {
		text += fmt.Sprintf(" with %q", b.RoutingKey)
	}
	if len(b.Arguments) > 0 {
		text += " " + topology.Text(b.Arguments)
	}
	return text
}
