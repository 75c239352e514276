package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var deprecatedSetting = Rule{
	Code: "deprecated-setting", Severity: diag.Warning,
	Summary: "A setting is deprecated, or no longer does anything.",
	Doc: "`queue-mode` does nothing from 3.12 on, `max-in-memory-*` from 4.0 on. `queue-master-locator` is refused from 4.3 " +
		"on, the `ha-*` policy keys are from 4.0 on.",
	Fix: "Leave it out, or use what replaces it.",
	Check: func(p *Pass) {
		p.eachArgument(func(q *topology.Queue, row *catalog.Setting, _ any, at topology.Position) {
			t := p.typeOf(q)
			p.onVersions(q, at, func(v catalog.Version) problem {
				return deprecated(q, row, v, row.TakesArgument(t, v), row.IgnoresArgument(t, v))
			})
		})
		for _, policy := range p.specPolicies() {
			for _, key := range policy.Definition.Keys() {
				row := catalog.LookupPolicyKey(key)
				if row == nil || key != alike(policy, row)[0] {
					continue
				}
				p.onVersions(policy, policy.Position, func(v catalog.Version) problem {
					acts := false
					for _, t := range topology.QueueTypes {
						acts = acts || row.PolicyActsOn(t, v)
					}
					return deprecated(policy, row, v, acts, row.TakesPolicy(v), alike(policy, row)...)
				})
			}
		}
	},
}

// deprecated words the finding: the setting works, or is only taken. Names are those
// of the settings, more than one where the same replaces them.
func deprecated(o topology.Object, row *catalog.Setting, v catalog.Version, works, taken bool, names ...string) problem {
	if !row.IsDeprecated(v) || !works && !taken {
		return problem{}
	}
	if len(names) < 2 {
		names = []string{row.Name}
	}
	what, verbs := list(names, "and")+", which ", [2]string{"is deprecated", "does nothing"}
	if len(names) > 1 {
		verbs = [2]string{"are deprecated", "do nothing"}
	}
	if works {
		what += verbs[0]
	} else {
		what += verbs[1]
	}
	k := o.Key()
	return problemf("%s %q sets %s", k.Kind.Title(), k.Name, what).like("set %s", what).do("%s", leaveOut(row))
}
