package validate

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// resolved is what has been worked out of one queue, by version.
type resolved struct {
	versions []catalog.Version
	settings []settings
	matches  []*policy.Match
}

// resolve is the place of a version.
func (s *state) resolve(q *topology.Queue, v catalog.Version) (*resolved, int) {
	r := s.resolved[q]
	if r == nil {
		n := len(s.versions)
		r = &resolved{make([]catalog.Version, 0, n), make([]settings, 0, n), make([]*policy.Match, 0, n)}
		s.resolved[q] = r
	}
	i := slices.Index(r.versions, v)
	if i < 0 {
		i = len(r.versions)
		r.versions, r.settings, r.matches = append(r.versions, v), append(r.settings, nil), append(r.matches, nil)
	}
	return r, i
}

// settings are the values in effect on a queue, by canonical name.
type settings map[string]policy.Value

func (s settings) has(name string) bool { _, ok := s[name]; return ok }

func (s settings) text(name string) (string, bool) {
	text, ok := s[name].Value.(string)
	return text, ok
}

func (s settings) number(name string) (int64, bool) {
	n, ok := s[name].Value.(int64)
	return n, ok
}

// from says in brackets which policy gives a setting; empty for arguments and
// generated policies, which the queue itself stands for.
func (s settings) from(name string) string {
	p := s[name].Policy
	if p == nil || p.Queue != "" {
		return ""
	}
	return " (by " + policyName(p) + ")"
}

// policyName names a policy for a sentence.
func policyName(p *topology.Policy) string {
	if p.Queue != "" {
		return fmt.Sprintf("the policy of queue %q", p.Queue)
	}
	return fmt.Sprintf("%s %q", p.Key().Kind.Title(), p.Name)
}

// effective returns the values in effect on a queue of a version: arguments,
// policies and operator policies together.
func (s *state) effective(q *topology.Queue, v catalog.Version) settings {
	r, i := s.resolve(q, v)
	if r.settings[i] != nil {
		return r.settings[i]
	}
	adapted := *q
	adapted.Type = s.typeOf(q)
	if v.Below(catalog.V(4, 0)) && isUnlimitedSetting(q) {
		adapted.Arguments = q.Arguments.Clone()
		delete(adapted.Arguments, "x-delivery-limit")
	}
	result := settings(s.policySet(v).Effective(&adapted, s.match(q, v)))
	r.settings[i] = result
	return result
}

// match is which policies act on a queue of a version. Matching is what takes the
// time where there are thousands of queues and hundreds of policies.
func (s *state) match(q *topology.Queue, v catalog.Version) policy.Match {
	r, i := s.resolve(q, v)
	if r.matches[i] == nil {
		m := s.policySet(v).Queue(q.Name, s.typeOf(q))
		r.matches[i] = &m
	}
	return *r.matches[i]
}

// isUnlimitedSetting reports whether the argument x-delivery-limit -1 comes from
// delivery_limit: unlimited, which is left out for brokers below 4.0.
func isUnlimitedSetting(q *topology.Queue) bool {
	_, raw := intent(q).At["arguments.x-delivery-limit"]
	_, wanted := intent(q).Settings["delivery-limit"]
	return wanted && !raw && topology.Equal(q.Arguments["x-delivery-limit"], int64(-1))
}

// policySet is the policies that act on version v: those of the spec, and what
// the broker has besides.
func (s *state) policySet(v catalog.Version) *policy.Set {
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
	set := policy.New(v, policies, operators)
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

// limit is the delivery limit in effect on a quorum queue: how many returns it
// allows, whether somebody sets it, and whether there is one at all. From 4.0 on
// it is 20 when nobody sets it, and -1 is none.
func (s *state) limit(q *topology.Queue, v catalog.Version) (n int64, set, limited bool) {
	value, ok := s.effective(q, v)["delivery-limit"]
	n, _ = value.Value.(int64)
	return n, ok && value.Origin != policy.FromDefault, ok && n >= 0
}
