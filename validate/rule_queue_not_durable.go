package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var queueNotDurable = Rule{
	Code: "queue-not-durable", Severity: diag.Error,
	Summary: "A quorum queue or stream is not durable, is exclusive or deletes itself.",
	Doc:     "The broker refuses it: 406, `invalid property 'non-durable'`, `'auto-delete'` or `'exclusive-owner'`.",
	Fix:     "Remove the property, or make the queue a classic one.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if t := p.typeOf(q); t == topology.Classic {
				continue
			}
			var wrong []string
			keys := []string{}
			if !q.Durable {
				wrong, keys = append(wrong, "not durable"), append(keys, "durable")
			}
			if q.AutoDelete {
				wrong, keys = append(wrong, "auto-delete"), append(keys, "auto_delete")
			}
			if q.Exclusive {
				wrong, keys = append(wrong, "exclusive"), append(keys, "exclusive")
			}
			if len(wrong) > 0 {
				p.report(q, at(q, keys...), problemf("queue %q is %s, which a %s queue cannot be", q.Name, list(wrong, "and"), p.typeOf(q)))
			}
		}
	},
}
