package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var argumentNotForType = Rule{
	Code: "argument-not-for-type", Severity: diag.Error,
	Summary: "A queue has an argument that queues of its type do not take.",
	Doc: "The broker refuses to declare the queue: 406, `invalid arg`. `x-queue-master-locator` on 4.3 gives 541 and closes " +
		"the whole connection.",
	Fix: "Remove the argument, or give the queue a type that takes it.",
	Check: func(p *Pass) {
		p.eachArgument(func(q *topology.Queue, row *catalog.Setting, _ any, at topology.Position) {
			t := p.typeOf(q)
			p.onVersions(q, at, func(v catalog.Version) problem {
				if accepts(row, t, v) {
					return problem{}
				}
				b := problemf("queue %q has the argument %s, which the broker refuses on %s queues", q.Name, row.Argument, t)
				if types := p.typesThat(row.TakesArgument); len(types) > 0 && !row.IsDeprecated(v) {
					return b.do("Remove it, or make the queue one of type %s.", list(types, "or"))
				}
				return b.do("%s", leaveOut(row))
			})
		})
	},
}
