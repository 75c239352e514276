package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var settingNotOnVersion = Rule{
	Code: "setting-not-on-version", Severity: diag.Error,
	Summary: "A setting of a queue is not known to a version of RabbitMQ that the spec is for.",
	Doc: "Policies are checked by the broker: a key that it does not know is refused with 400, and the queue would get none " +
		"of the policy's other keys either.",
	Fix: "Leave the setting out, or say in `requires` that the spec needs a newer RabbitMQ.",
	Check: func(p *Pass) {
		p.eachPolicySetting(func(q *topology.Queue, row *catalog.Setting, s topology.SettingValue) {
			t := p.typeOf(q)
			p.onVersions(q, s.Position, func(v catalog.Version) problem {
				if row.PolicyActsOn(t, v) || row.TakesArgument(t, v) || isDeprecated(row, v) && row.TakesPolicy(v) {
					return problem{}
				}
				return problemf("queue %q sets %s, which does not exist for %s queues", q.Name, row.SpecKey(), t)
			})
		})
	},
}
