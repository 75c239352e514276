package validate

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var argumentWithoutEffect = Rule{
	Code: "argument-without-effect", Severity: diag.Error,
	Summary: "A queue or exchange has an argument that the broker knows and does not act on for this type or version.",
	Doc: "The broker accepts the declaration, stores the argument and does nothing with it. Delayed retry, for example, is " +
		"taken as arguments by 3.10 and 4.0 and works from 4.3 on.",
	Fix: "Remove the argument, or use a type and a version of RabbitMQ that act on it.",
	Check: func(p *Pass) {
		p.eachArgument(func(q *topology.Queue, row *catalog.Setting, _ any, at topology.Position) {
			t := p.typeOf(q)
			p.onVersions(q, at, func(v catalog.Version) problem {
				if !row.IgnoresArgument(t, v) || row.IsDeprecated(v) {
					return problem{}
				}
				return problemf("the argument %s of queue %q does nothing on %s queues", row.Argument, q.Name, t)
			})
		})
		for _, e := range p.ourExchanges() {
			for _, name := range e.Arguments.Keys() {
				a := catalog.LookupExchangeArgument(name)
				if a == nil || a.Types == nil || slices.Contains(a.Types, e.Type) || catalog.LookupExchangeType(e.Type) == nil {
					continue
				}
				p.report(e, exchangeAt(e, "arguments."+name), problemf(
					"the argument %s of exchange %q does nothing on exchanges of type %s", name, e.Name, e.Type).
					do("Remove it; it is for exchanges of type %s.", list(a.Types, "or")))
			}
		}
	},
}

// exchangeAt is the place of the first of some spec keys below an exchange that
// is written.
func exchangeAt(e *topology.Exchange, keys ...string) topology.Position {
	if e.Intent != nil {
		for _, k := range keys {
			if at, ok := e.Intent.At[k]; ok {
				return at
			}
		}
	}
	return e.Position
}
