package validate

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var policyKeyUnknown = Rule{
	Code: "policy-key-unknown", Severity: diag.Error,
	Summary: "A policy has a key that RabbitMQ does not know, or not in a policy of that kind, or not in that version.",
	Doc: "The broker refuses the whole policy with 400, `are not recognised policy settings`. Policy keys have no `x-`; " +
		"`max-priority` and `single-active-consumer` exist as arguments only; `ha-*` keys are gone since 4.0.",
	Fix: "Correct or remove the key.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			for _, key := range policy.Definition.Keys() {
				row := catalog.LookupPolicyKey(key)
				if row == nil {
					p.report(policy, keyAt(policy, key), unknownPolicyKey(policy, key))
					continue
				}
				together := alike(policy, row)
				p.onVersions(policy, keyAt(policy, key), func(v catalog.Version) problem {
					switch {
					case !row.TakesPolicy(v) && key != together[0]:
						return problem{} // told with the first of them
					case !row.TakesPolicy(v) && len(together) > 1:
						return problemf("%s has the keys %s, which do not exist", policyName(policy), list(together, "and")).do("%s", leaveOut(row))
					case !row.TakesPolicy(v):
						return problemf("%s has the key %s, which does not exist", policyName(policy), key).do("%s", leaveOut(row))
					case policy.Operator && !row.TakesOperatorPolicy(v):
						return problemf("%s has the key %s, which only policies may have", policyName(policy), key).
							do("Set it in a policy or as an argument.")
					}
					return problem{}
				})
			}
		}
	},
}

var policyNeedsPlugin = Rule{
	Code: "policy-needs-plugin", Severity: diag.Info, Together: true,
	Summary: "A policy has a key that only a plugin knows.",
	Doc:     "Where the plugin is not enabled, the broker refuses the whole policy with 400, `are not recognised policy settings`.",
	Fix:     "See that the plugin is enabled on every broker that gets the spec, and name it in `requires: {plugins: [...]}`.",
	Check: func(p *Pass) {
		if p.live == nil && p.exchangeTypes != nil {
			return // a broker has them
		}
		known := slices.Clone(p.vhost.Plugins)
		for component, plugin := range componentPlugins {
			if len(keepParameters(p.vhost.Parameters, component)) > 0 {
				known = append(known, plugin) // parameter-needs-plugin says so
			}
		}
		if p.live != nil {
			for _, policy := range p.live.Policies {
				for key := range policy.Definition {
					if row := catalog.LookupPolicyKey(key); row != nil {
						known = append(known, row.Plugin)
					}
				}
			}
		}
		for _, policy := range p.specPolicies() {
			for _, key := range policy.Definition.Keys() {
				if row := catalog.LookupPolicyKey(key); row != nil && row.Plugin != "" && !slices.Contains(known, row.Plugin) {
					p.report(policy, keyAt(policy, key), problemf("%s has the key %s, which needs the plugin %s", policyName(policy), key, row.Plugin).
						like("have keys that need the plugin %s", row.Plugin))
					break
				}
			}
		}
	},
}

// alike are the keys of a policy that came and go with one and that the same replaces,
// itself among them: ha-mode, ha-params and ha-sync-mode are one mistake.
func alike(policy *topology.Policy, row *catalog.Setting) []string {
	return slices.DeleteFunc(policy.Definition.Keys(), func(key string) bool {
		other := catalog.LookupPolicyKey(key)
		return other == nil || other != row && (row.Instead == "" || other.Instead != row.Instead || !slices.Equal(other.Policy, row.Policy))
	})
}

// keyAt is where the spec has a key of a policy's definition.
func keyAt(p *topology.Policy, key string) topology.Position { return p.At["definition."+key] }

func unknownPolicyKey(policy *topology.Policy, key string) problem {
	b := problemf("%s has the key %q, which RabbitMQ does not know", policyName(policy), key)
	plain := strings.TrimPrefix(strings.ReplaceAll(key, "_", "-"), "x-")
	row := catalog.LookupArgument(key)
	for _, name := range []string{plain, strings.TrimPrefix(key, "x-")} {
		if row == nil {
			row = catalog.Lookup(name)
		}
	}
	switch {
	case row != nil && row.PolicyKey != "":
		return b.do("In a policy the key is %s.", row.PolicyKey)
	case row != nil:
		return b.do("It can be set as the argument %s of a queue only.", row.Argument)
	}
	var names []string
	for i := range catalog.Settings {
		if k := catalog.Settings[i].PolicyKey; k != "" {
			names = append(names, k)
		}
	}
	if near := nearest(plain, names); near != "" {
		return b.do("Did you mean %s?", near)
	}
	return b
}

var policyValue = Rule{
	Code: "policy-value", Severity: diag.Error,
	Summary: "A policy key has a value of the wrong type or out of range.",
	Doc: "The broker refuses the whole policy with 400, such as `is not a valid maximum length` for a number written as a " +
		"text. `max-age` of another type than text gives 500.",
	Fix: "Correct the value: times are integers in milliseconds, sizes integers in bytes.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			for _, key := range policy.Definition.Keys() {
				row := catalog.LookupPolicyKey(key)
				if row == nil {
					continue
				}
				value := policy.Definition[key]
				if wrong := row.CheckValue(value); wrong != "" {
					p.report(policy, keyAt(policy, key), problemf("the key %s of %s %s", key, policyName(policy), wrong))
					continue
				}
				p.onVersions(policy, keyAt(policy, key), func(v catalog.Version) problem {
					for _, t := range topology.QueueTypes {
						n := narrowed(row, value, t, v, topology.ByPolicy)
						// What is only another meaning for one queue type is not refused.
						if n != nil && row.Name != "overflow" {
							return problemf("%s has %s %s: %s", policyName(policy), key, topology.Text(value), consequence(n)).do("%s", allowed(n))
						}
					}
					return problem{}
				})
			}
		}
	},
}

var policyApplyTo = Rule{
	Code: "policy-apply-to", Severity: diag.Error,
	Summary: "A policy applies to something that does not exist, or not in that version.",
	Doc:     "The broker refuses the policy with 400, `apply-to ... unrecognised`. `classic_queues`, `quorum_queues` and `streams` exist since 3.12.",
	Fix:     "Use all, queues, exchanges, classic_queues, quorum_queues or streams.",
	Check: func(p *Pass) {
		known := catalog.ApplyTo(catalog.Newest)
		for _, policy := range p.specPolicies() {
			if policy.ApplyTo == "" {
				continue // counts as all
			}
			if !slices.Contains(known, policy.ApplyTo) {
				b := problemf("%s applies to %q, which does not exist", policyName(policy), policy.ApplyTo)
				if near := nearest(policy.ApplyTo, known); near != "" {
					b = b.do("Did you mean %s?", near)
				}
				p.report(policy, policy.At["apply_to"], b)
				continue
			}
			p.onVersions(policy, policy.At["apply_to"], func(v catalog.Version) problem {
				if slices.Contains(catalog.ApplyTo(v), policy.ApplyTo) {
					return problem{}
				}
				return problemf("%s applies to %s, which does not exist", policyName(policy), policy.ApplyTo).
					do("Use queues: a policy acts only on the queue types that know all of its keys.")
			})
		}
	},
}

var policyPattern = Rule{
	Code: "policy-pattern", Severity: diag.Error,
	Summary: "A policy's pattern is no regular expression, or too long.",
	Doc: "The broker refuses the policy with 400, `pattern should be regular expression but is invalid`. 4.3 refuses more " +
		"than 1,024 bytes, older versions a pattern that compiles to too much.",
	Fix: "Correct the pattern. It is matched anywhere in the name unless it begins with ^ and ends with $.",
	Check: func(p *Pass) {
		refused := map[*topology.Policy]bool{}
		for _, policy := range p.specPolicies() {
			if _, err := syntax.Parse(policy.Pattern, syntax.Perl); err != nil && refusedByPCRE(err) {
				p.report(policy, policy.At["pattern"], problemf("the pattern of %s is no regular expression: %s", policyName(policy), syntaxError(err)))
				refused[policy] = true
				continue
			}
			p.onVersions(policy, policy.At["pattern"], func(v catalog.Version) problem {
				if len(policy.Pattern) <= 1024 || v.Below(catalog.V(4, 3)) {
					return problem{}
				}
				return problemf("the pattern of %s has %d bytes, and 1,024 is the most", policyName(policy), len(policy.Pattern)).
					do("Use several policies of the same definition with shorter patterns.")
			})
		}
		set := p.policySet(p.newest())
		told := refused
		for _, m := range p.matches(p.newest()) {
			for _, policy := range m.Undecided {
				if told[policy] || !p.isWritten(policy) {
					continue
				}
				told[policy] = true
				p.report(policy, policy.At["pattern"], problemf("the pattern of %s cannot be compared with names here: %s", policyName(policy), text.Line(set.Problem(policy))).
					as(diag.Warning).do("The broker may understand it. What it does to queues is not checked."))
			}
		}
	},
}

// refusedByPCRE tells the faults that every engine refuses from what only Go's
// does.
func refusedByPCRE(err error) bool {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen, syntax.ErrMissingBracket, syntax.ErrTrailingBackslash,
		syntax.ErrMissingRepeatArgument, syntax.ErrInvalidCharRange:
		return true
	}
	return false
}

func syntaxError(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s in %q", e.Code, e.Expr)
	}
	return err.Error()
}

var policyEmpty = Rule{
	Code: "policy-empty", Severity: diag.Error,
	Summary: "A policy has no definition.",
	Doc:     "The broker refuses it with 400, `no policy provided`.",
	Fix:     "Give it a key, or remove it.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			if len(policy.Definition) == 0 {
				p.report(policy, policy.At["definition"], problemf("%s defines nothing", policyName(policy)))
			}
		}
	},
}

var delayedRetryIncomplete = Rule{
	Code: "delayed-retry-incomplete", Severity: diag.Error,
	Summary: "Delayed retry has a type and no shortest delay, or its longest delay is below the shortest.",
	Doc: "In a policy the broker (4.3) refuses both with 400. As arguments it takes them: without a minimum nothing is " +
		"delayed, with a maximum below it the maximum is used.",
	Fix: "Give both: the n-th return waits n times the minimum, at most the maximum.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			p.report(policy, keyAt(policy, "delayed-retry-type"), delayedRetry(policyName(policy), policy.Definition, ""))
		}
		for _, q := range p.ours() {
			b := delayedRetry(fmt.Sprintf("queue %q", q.Name), q.Arguments, "x-")
			p.report(q, argumentAt(q, "x-delayed-retry-type"), b)
		}
		for _, policy := range p.vhost.Policies {
			if q := p.index.Queues[policy.Queue]; policy.Queue != "" && q != nil {
				p.report(q, place(q, "delayed-retry-type"), delayedRetry(fmt.Sprintf("queue %q", q.Name), policy.Definition, ""))
			}
		}
	},
}

func delayedRetry(who string, table topology.Arguments, prefix string) problem {
	kind, isText := table[prefix+"delayed-retry-type"].(string)
	lo, hasMin := table[prefix+"delayed-retry-min"].(int64)
	hi, hasMax := table[prefix+"delayed-retry-max"].(int64)
	switch {
	case isText && kind != "disabled" && table[prefix+"delayed-retry-min"] == nil:
		return problemf("%s has %sdelayed-retry-type %q without %sdelayed-retry-min", who, prefix, kind, prefix)
	case hasMin && hasMax && hi < lo:
		return problemf("%s has %sdelayed-retry-max %d, below %sdelayed-retry-min %d", who, prefix, hi, prefix, lo)
	}
	return problem{}
}
