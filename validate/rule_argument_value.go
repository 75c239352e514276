package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var argumentValue = Rule{
	Code: "argument-value", Severity: diag.Error,
	Summary: "An argument has a value of the wrong type or out of range.",
	Doc: "Most are refused with 406: a text or a fraction where an integer is wanted, negative times, unknown words. A wrong " +
		"`x-max-age` closes the connection (541) before 4.3. `x-delivery-limit`, `x-delayed-retry-*` and " +
		"`x-quorum-target-group-size` are not checked at all: the broker takes any value and then does something else.",
	Fix: "Correct the value. RabbitMQ wants times as integers in milliseconds and sizes in bytes; settings written as keys of " +
		"the queue take units.",
	Check: func(p *Pass) {
		p.eachArgument(func(q *topology.Queue, row *catalog.Setting, value any, at topology.Position) {
			t := p.typeOf(q)
			known := func(v catalog.Version) bool { return accepts(row, t, v) }
			if !slices.ContainsFunc(p.versions, known) {
				return // argument-not-for-type says so
			}
			if wrong := row.CheckValue(value); wrong != "" {
				p.report(q, at, problemf("the argument %s of queue %q %s", row.Argument, q.Name, wrong))
				return
			}
			p.onVersions(q, at, func(v catalog.Version) problem {
				n := narrowed(row, value, t, v, topology.ByArgument)
				if n == nil || row.Name == "delivery-limit" || row.Name == "overflow" {
					return problem{} // these have rules of their own
				}
				return problemf("queue %q has %s %s: %s", q.Name, row.Argument, topology.Text(value), consequence(n)).
					do("%s", allowed(n))
			})
		})
		for _, e := range p.ourExchanges() {
			p.exchangeArguments(e)
		}
	},
}

// exchangeArguments checks those of one exchange.
func (p *Pass) exchangeArguments(e *topology.Exchange) {
	for i := range catalog.ExchangeArguments {
		a := &catalog.ExchangeArguments[i]
		if a.Types != nil && !slices.Contains(a.Types, e.Type) {
			continue
		}
		value, given := e.Arguments[a.Name]
		switch {
		case given:
			row := catalog.Setting{Value: a.Value, Min: a.Min, Enum: a.Enum}
			if wrong := row.CheckValue(value); wrong != "" {
				p.report(e, exchangeAt(e, "arguments."+a.Name, strings.ReplaceAll(a.Name, "-", "_")),
					problemf("the argument %s of exchange %q %s", a.Name, e.Name, wrong))
			}
		case a.Required:
			p.report(e, e.Position, problemf("exchange %q of type %s has no argument %s", e.Name, e.Type, a.Name).
				do("Give it: %s", a.Doc))
		}
	}
}

// narrowed finds why a value that is right in general is wrong for a queue type
// on a version; nil: it is right.
func narrowed(row *catalog.Setting, value any, t topology.QueueType, v catalog.Version, by topology.By) *catalog.Narrow {
	for i := range row.Narrow {
		n := &row.Narrow[i]
		if n.QueueType != t || !n.Has(v) || by == topology.ByArgument && !n.ByArgument || by == topology.ByPolicy && !n.ByPolicy {
			continue
		}
		tight := *row
		tight.Min, tight.Max = n.Min, n.Max
		if n.Enum != nil {
			tight.Enum = n.Enum
		}
		if tight.CheckValue(value) != "" {
			return n
		}
	}
	return nil
}

// consequence says what becomes of other values.
func consequence(n *catalog.Narrow) string {
	if n.Refused {
		return "the broker refuses it"
	}
	return n.Why
}

// allowed says which values are right there.
func allowed(n *catalog.Narrow) string {
	switch {
	case n.Enum != nil:
		return "Use " + list(n.Enum, "or") + "."
	case n.Min == n.Max:
		return fmt.Sprintf("Use %d.", n.Min)
	}
	return fmt.Sprintf("Use at least %d.", n.Min)
}
