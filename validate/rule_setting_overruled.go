package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var settingOverruled = Rule{
	Code: "setting-overruled", Severity: diag.Error,
	Summary: "A setting of a queue does not take effect, because an argument or a policy gives another value.",
	Doc: "Of an argument, a policy and an operator policy the smaller number wins; of texts the argument, but for `overflow` " +
		"on quorum queues, where the policy wins. A delivery limit of -1 gives way to any number.",
	Fix: "Set the value in one place only, or narrow the policy's pattern.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			in := intent(q)
			for _, name := range sortedKeys(in.Settings) {
				want := in.Settings[name]
				p.onVersions(q, want.Position, func(v catalog.Version) problem { return p.overruled(q, name, want, v) })
			}
		}
	},
}

// overruled says which value is in effect in place of the one that is wanted.
func (p *Pass) overruled(q *topology.Queue, name string, want topology.SettingValue, v catalog.Version) problem {
	got, ok := p.effective(q, v)[name]
	row := catalog.Lookup(name)
	if !ok || row == nil || topology.Equal(got.Value, want.Value) || got.Origin == policy.FromDefault || row.CheckValue(want.Value) != "" {
		return problem{} // what has no effect at all has rules of its own
	}
	if got.Policy == nil || got.Policy.Queue != "" {
		return problem{} // its own: the value is written otherwise for this version
	}
	if want.By == topology.ByPolicy && got.Origin == policy.FromPolicy {
		return problem{} // policy-over-generated
	}
	b := problemf("%s of queue %q is %s in effect and not %s: %s sets it", row.SpecKey(), q.Name, topology.Text(got.Value), topology.Text(want.Value), policyName(got.Policy))
	if !p.isWritten(got.Policy) {
		// Of somebody else, on the broker: plan blocks what could lose messages.
		b = b.as(diag.Warning)
	}
	return b
}
