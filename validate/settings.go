package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

type settingsKey struct {
	queue   *topology.Queue
	version catalog.Version
}

// settings are the values in effect on a queue, by canonical name.
type settings map[string]value

// value is a setting in effect and where it comes from.
type value struct {
	value  any
	origin string // "", or what else than an argument gives it: policy "x"
}

func (s settings) has(name string) bool { _, ok := s[name]; return ok }

func (s settings) text(name string) (string, bool) {
	text, ok := s[name].value.(string)
	return text, ok
}

func (s settings) number(name string) (int64, bool) {
	n, ok := s[name].value.(int64)
	return n, ok
}

// effective returns the values in effect on a queue of a version: arguments,
// policies and operator policies together.
func (s *state) effective(q *topology.Queue, v catalog.Version) settings {
	key := settingsKey{q, v}
	if known, ok := s.settings[key]; ok {
		return known
	}
	result := s.policySet(v).effective(q, s.typeOf(q), v)
	s.settings[key] = result
	return result
}

// policySet is the policies that act on version v: those of the spec, and what
// the broker has besides.
func (s *state) policySet(v catalog.Version) *policySet {
	if set, ok := s.policies[v]; ok {
		return set
	}
	policies := make([]*topology.Policy, 0, len(s.vhost.Policies))
	for _, p := range s.vhost.Policies {
		policies = append(policies, s.adapted(p, v))
	}
	operators := s.vhost.OperatorPolicies
	if s.live != nil {
		policies = append(policies, others(s.live.Policies, s.vhost.Policies)...)
		operators = append(operators[:len(operators):len(operators)], others(s.live.OperatorPolicies, operators)...)
	}
	set := newPolicySet(v, policies, operators)
	s.policies[v] = set
	return set
}

// others are the policies of a list whose names are not in the other list.
func others(all, known []*topology.Policy) []*topology.Policy {
	names := make(map[string]bool, len(known))
	for _, p := range known {
		names[p.Name] = true
	}
	var rest []*topology.Policy
	for _, p := range all {
		if !names[p.Name] {
			rest = append(rest, p)
		}
	}
	return rest
}

// adapted is a generated policy as the expansion would write it for version v:
// the one at hand is written for one of the versions only.
func (s *state) adapted(p *topology.Policy, v catalog.Version) *topology.Policy {
	if p.Queue == "" {
		return p
	}
	q := s.index.Queues[p.Queue]
	if q == nil {
		return p
	}
	a := *p
	a.ApplyTo = catalog.ApplyToType(s.typeOf(q), v)
	a.Definition = make(topology.Arguments, len(p.Definition))
	for _, k := range p.Definition.Keys() {
		value := p.Definition[k]
		row := catalog.LookupPolicyKey(k)
		if row != nil && !row.TakesPolicy(v) || k == "delivery-limit" && topology.Equal(value, int64(-1)) && v.Below(catalog.V(4, 0)) {
			continue
		}
		a.Definition[k] = value
	}
	return &a
}

// origin names what gives a setting, for a sentence: ` (by policy "x")`.
func (v value) from() string {
	if v.origin == "" {
		return ""
	}
	return fmt.Sprintf(" (by %s)", v.origin)
}

// limit is the delivery limit in effect on a quorum queue: how many returns it
// allows, whether somebody sets it, and whether there is one at all. From 4.0 on
// it is 20 when nobody sets it; -1 is none from 4.0 on and 0 before.
func (s *state) limit(q *topology.Queue, v catalog.Version) (n int64, set, limited bool) {
	n, set = s.effective(q, v).number("delivery-limit")
	switch {
	case !set && v.AtLeast(catalog.V(4, 0)):
		return 20, false, true
	case !set:
		return 0, false, false
	case n < 0 && v.AtLeast(catalog.V(4, 0)):
		return n, true, false
	case n < 0:
		return 0, true, true
	}
	return n, true, true
}
