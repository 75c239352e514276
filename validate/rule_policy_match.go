package validate

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var policyMatchesNoType = Rule{
	Code: "policy-matches-no-type", Severity: diag.Error,
	Summary: "A policy's keys cannot act together: no type of queue knows all of them.",
	Doc: "The broker accepts the policy. It ignores a policy as a whole for every queue whose type does not know one of its " +
		"keys: `max-age` (streams) with `message-ttl` (classic and quorum) acts on no queue at all.",
	Fix: "Write one policy for each type of queue.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			if policy.ApplyTo == "exchanges" || len(policy.Definition) == 0 || p.onlyForExchanges(policy) {
				continue
			}
			p.onVersions(policy, policy.Position, func(v catalog.Version) problem {
				for _, t := range topology.QueueTypes {
					if appliesToType(policy, t, v) {
						return problem{}
					}
				}
				for _, key := range policy.Definition.Keys() {
					if row := catalog.LookupPolicyKey(key); row == nil || !row.TakesPolicy(v) {
						return problem{} // policy-key-unknown says so
					}
				}
				return problemf("%s acts on no queue: no type of queue that it applies to knows all of its keys", policyName(policy))
			})
		}
	},
}

// onlyForExchanges reports whether a policy only says something about exchanges.
func (p *Pass) onlyForExchanges(policy *topology.Policy) bool {
	for _, key := range policy.Definition.Keys() {
		if row := catalog.LookupPolicyKey(key); row == nil || !row.Exchange {
			return false
		}
	}
	return true
}

// appliesToType reports whether a policy can be in force on queues of a type.
func appliesToType(p *topology.Policy, t topology.QueueType, v catalog.Version) bool {
	return policy.AppliesTo(p.ApplyTo, t) && policy.Supports(v, t, p.Definition)
}

var policyIgnoredForType = Rule{
	Code: "policy-ignored-for-type", Severity: diag.Warning,
	Summary: "A policy matches a queue by name and is ignored for it, because the queue's type does not know one of its keys.",
	Doc: "The broker ignores the policy as a whole for that queue, also the keys that its type knows; a policy of lower " +
		"priority then acts.",
	Fix: "Narrow the policy with apply_to or its pattern, and write another one for the other type.",
	Check: func(p *Pass) {
		for _, q := range p.vhost.Queues {
			t := p.typeOf(q)
			p.onVersions(q, q.Position, func(v catalog.Version) problem {
				for _, ignored := range p.match(q, v).Ignored {
					if !p.isWritten(ignored) || !p.actsSomewhere(ignored, v) {
						continue // policy-matches-no-type says so
					}
					return problemf("%s matches queue %q and is ignored for it: %s queues do not know all of its keys", policyName(ignored), q.Name, t).
						like("match %s, which is ignored for them: %s queues do not know all of its keys", policyName(ignored), t)
				}
				return problem{}
			})
		}
	},
}

func (p *Pass) actsSomewhere(policy *topology.Policy, v catalog.Version) bool {
	return slices.ContainsFunc(topology.QueueTypes, func(t topology.QueueType) bool { return appliesToType(policy, t, v) })
}

// matched is what acts on one queue or exchange.
type matched struct {
	object topology.Object
	name   string
	policy.Match
}

// matches lists what acts on each queue and exchange on a version.
func (s *state) matches(v catalog.Version) []matched {
	if known, ok := s.matched[v]; ok {
		return known
	}
	set := s.policySet(v)
	var all []matched
	for _, q := range s.vhost.Queues {
		all = append(all, matched{q, q.Name, s.match(q, v)})
	}
	for _, e := range s.vhost.Exchanges {
		all = append(all, matched{e, e.Name, set.Exchange(e.Name)})
	}
	s.matched[v] = all
	return all
}

var policyPriorityTie = Rule{
	Code: "policy-priority-tie", Severity: diag.Error,
	Summary: "Two policies of the same priority match one object.",
	Doc: "Which of them acts is not defined: with three equal ones it was the third, the second and the third on 3.10.8, " +
		"4.0.5 and 4.3.6, whatever their names and the order in which they were made.",
	Fix: "Give them different priorities.",
	Check: func(p *Pass) {
		type pair struct{ a, b *topology.Policy }
		seen := map[pair]bool{}
		for _, v := range p.versions {
			for _, m := range p.matches(v) {
				for _, h := range m.Hidden {
					if m.Policy == nil || h.Priority != m.Policy.Priority || seen[pair{m.Policy, h}] || isExchangeByAll(m, h) {
						continue
					}
					seen[pair{m.Policy, h}] = true
					first, second := m.Policy, h
					if !p.isWritten(first) {
						first, second = second, first
					}
					k := m.object.Key()
					b := problemf("%s and %s have the same priority %d and both match %s %q", policyName(first), policyName(second), first.Priority, k.Kind.Title(), m.name)
					b.related = related(second.Position, policyName(second))
					p.report(first, first.Position, b)
				}
			}
		}
	},
}

func related(at topology.Position, text string) []diag.Related {
	if at.IsZero() {
		return nil
	}
	return []diag.Related{{Position: at, Text: text}}
}

// isExchangeByAll reports whether an exchange is matched only because a policy
// for queues applies to all: neither says anything about exchanges.
func isExchangeByAll(m matched, h *topology.Policy) bool {
	_, isExchange := m.object.(*topology.Exchange)
	_, a := m.Policy.Definition["alternate-exchange"]
	_, b := h.Definition["alternate-exchange"]
	return isExchange && !a && !b
}

var policyOverGenerated = Rule{
	Code: "policy-over-generated", Severity: diag.Error,
	Summary: "A policy matches a queue whose own settings are in a generated policy.",
	Doc: "Only one policy acts on a queue. If the written one has the higher priority, the queue gets none of its own " +
		"settings; if not, it gets nothing of the written one.",
	Fix: "Say `inherit_policy: true` on the queue, which copies the written policy's keys into its own; narrow the pattern; or " +
		"set `settings_by: arguments`.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			in := intent(q)
			if in.InheritPolicy {
				continue
			}
			p.onVersions(q, q.Position, func(v catalog.Version) problem {
				m := p.match(q, v)
				policies := append([]*topology.Policy{m.Policy}, m.Hidden...)
				if m.Policy == nil {
					return problem{}
				}
				generated := slices.ContainsFunc(policies, func(c *topology.Policy) bool { return c.Queue == q.Name })
				for _, written := range policies {
					if !generated || written.Queue != "" || slices.Contains(in.HidesPolicy, written.Name) {
						continue
					}
					if !p.isWritten(written) {
						continue // plan looks at the broker's own
					}
					b := problemf("%s matches queue %q, whose settings are in a generated policy", policyName(written), q.Name)
					b.related = related(written.Position, policyName(written))
					return b
				}
				return problem{}
			})
		}
	},
}

var policyHidden = Rule{
	Code: "policy-hidden", Severity: diag.Warning,
	Summary: "A policy is hidden by one of higher priority that does not set all of its keys.",
	Doc:     "Policies are not merged: on each queue only the one of the highest priority acts, and the keys of the others are lost.",
	Fix:     "Write the missing keys into the policy of higher priority, or narrow its pattern.",
	Check: func(p *Pass) {
		on := map[catalog.Version]map[*topology.Policy][]matched{}
		acts := map[catalog.Version]map[*topology.Policy]bool{}
		for _, v := range p.versions {
			on[v], acts[v] = map[*topology.Policy][]matched{}, map[*topology.Policy]bool{}
			for _, m := range p.matches(v) {
				acts[v][m.Policy] = true
				for _, h := range m.Hidden {
					on[v][h] = append(on[v][h], m)
				}
			}
		}
		for _, hidden := range p.vhost.Policies {
			if hidden.Queue == "" {
				p.onVersions(hidden, hidden.Position, func(v catalog.Version) problem {
					return hides(hidden, on[v][hidden], acts[v][hidden])
				})
			}
		}
	},
}

// hides says where a policy is hidden: an error when it can act nowhere.
func hides(hidden *topology.Policy, where []matched, acts bool) problem {
	var names, lost []string
	var by *topology.Policy
	for _, m := range where {
		if m.Policy.Queue != "" || m.Policy.Priority == hidden.Priority {
			continue // generated policies and ties have rules of their own
		}
		_, isExchange := m.object.(*topology.Exchange)
		before := len(lost)
		for _, key := range hidden.Definition.Keys() {
			row := catalog.LookupPolicyKey(key)
			if _, set := m.Policy.Definition[key]; !set && row != nil && isExchange == row.Exchange {
				lost = append(lost, key)
			}
		}
		if len(lost) > before {
			names, by = append(names, m.name), m.Policy
		}
	}
	if len(names) == 0 {
		return problem{}
	}
	slices.Sort(lost)
	lost = slices.Compact(lost)
	has := "has"
	if len(lost) > 1 {
		has = "have"
	}
	what := list(lost, "and")
	on := quoted(names, "and")
	if len(names) > shownNames {
		on = quoted(names[:shownNames], ",") + " and more"
	}
	b := problemf("%s is hidden by %s on %s: %s %s no effect there", policyName(hidden), policyName(by), on, what, has)
	if !acts && by.Pattern == hidden.Pattern && (by.ApplyTo == hidden.ApplyTo || by.ApplyTo == "" || by.ApplyTo == "all") {
		// Objects that the spec does not name cannot change that.
		b = problemf("%s is hidden by %s on everything that it matches: %s %s no effect", policyName(hidden), policyName(by), what, has).as(diag.Error)
	}
	b.related = related(by.Position, policyName(by))
	return b
}

var policiesSlow = Rule{
	Code: "policies-slow", Severity: diag.Warning,
	Summary: "So many queues and policies that each change of a policy keeps the broker busy for more than a second.",
	Doc:     "On every change of a policy the broker compares every queue with every policy: about 2.5 microseconds for each pair.",
	Fix:     "Use `settings_by: arguments`, or one policy with a common pattern under `policies:` in place of one per queue.",
	Check: func(p *Pass) {
		const microseconds = 2.5
		queues, policies := len(p.vhost.Queues), len(p.vhost.Policies)
		if p.live != nil {
			policies += len(others(p.live.Policies, p.vhost.Policies))
			for _, q := range p.live.Queues {
				if p.index.Queues[q.Name] == nil {
					queues++
				}
			}
		}
		if seconds := float64(queues) * float64(policies) * microseconds / 1e6; seconds > 1 {
			p.reportVirtualHost(problemf("%d queues and %d policies: each change of a policy takes the broker about %.0f s", queues, policies, seconds))
		}
	},
}
