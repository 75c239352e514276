package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// policyOrigin names a policy for a sentence.
func policyOrigin(p *topology.Policy) string {
	return fmt.Sprintf("%s %q", p.Key().Kind.Title(), p.Name)
}

// policySet is the policies that act on one version.
type policySet struct{ *policy.Set }

func newPolicySet(v catalog.Version, policies, operators []*topology.Policy) *policySet {
	return &policySet{policy.New(v, policies, operators)}
}

func (s *policySet) effective(q *topology.Queue, t topology.QueueType, v catalog.Version) settings {
	out := settings{}
	for k, val := range q.Arguments {
		if row := catalog.LookupArgument(k); row != nil && row.TakesArgument(t, v) {
			out[row.Name] = value{value: val}
		}
	}
	m := s.Queue(q.Name, t)
	for _, p := range []*topology.Policy{m.Policy, m.Operator} {
		if p == nil {
			continue
		}
		for k, val := range p.Definition {
			row := catalog.LookupPolicyKey(k)
			if row == nil || !row.PolicyActsOn(t, v) {
				continue
			}
			old, ok := out[row.Name]
			w, o := row.Wins(t, v)
			if p.Operator {
				w = o
			}
			if ok && (w == catalog.ArgumentWins || w == catalog.SmallerWins && less(old.value, val)) {
				continue
			}
			origin := policyOrigin(p)
			if p.Queue != "" {
				origin = ""
			}
			out[row.Name] = value{value: val, origin: origin}
		}
	}
	return out
}

func less(a, b any) bool {
	x, ok1 := a.(int64)
	y, ok2 := b.(int64)
	return ok1 && ok2 && (x < y && x >= 0 || y < 0)
}
