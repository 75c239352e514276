package validate

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var unknownArgument = Rule{
	Code: "unknown-argument", Severity: diag.Error,
	Summary: "An argument has a name that no release of RabbitMQ knows.",
	Doc: "The broker accepts the declaration, stores the argument and does nothing with it: `x-delivery-limt: 5` limits " +
		"nothing, and neither does `max-length: 1` without `x-`. A later declaration with another value is accepted too.",
	Fix: "Correct the name. What a plugin or an application reads is listed in `allow_unknown_arguments`.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			for _, name := range q.Arguments.Keys() {
				if catalog.LookupArgument(name) == nil && !slices.Contains(intent(q).AllowUnknownArguments, name) {
					p.report(q, argumentAt(q, name), unknownQueueArgument(q, name))
				}
			}
		}
		for _, e := range p.ourExchanges() {
			if catalog.LookupExchangeType(e.Type) == nil {
				continue // a plugin's own type has arguments of its own
			}
			for _, name := range e.Arguments.Keys() {
				if catalog.LookupExchangeArgument(name) != nil || e.Intent != nil && slices.Contains(e.Intent.AllowUnknownArguments, name) {
					continue
				}
				b := problemf("exchange %q has the argument %q, which RabbitMQ does not know", e.Name, name)
				if near := nearExchangeArgument(name); near != "" {
					b = b.do("Did you mean %s?", near)
				} else if !strings.HasPrefix(name, "x-") {
					b = b.as(diag.Warning)
				}
				p.report(e, exchangeAt(e, "arguments."+name), b)
			}
		}
	},
}

// nearExchangeArgument is the argument of exchanges that a name is a misspelling
// of, such as one with x- too many or too few.
func nearExchangeArgument(name string) string {
	var names []string
	plain := strings.TrimPrefix(strings.ReplaceAll(name, "_", "-"), "x-")
	for _, a := range catalog.ExchangeArguments {
		if strings.TrimPrefix(a.Name, "x-") == plain {
			return a.Name
		}
		names = append(names, a.Name)
	}
	if near := nearest(name, names); near != "" {
		return near
	}
	return nearest(plain, names)
}

func unknownQueueArgument(q *topology.Queue, name string) problem {
	b := problemf("queue %q has the argument %q, which RabbitMQ does not know", q.Name, name)
	plain := strings.TrimPrefix(strings.ReplaceAll(name, "_", "-"), "x-")
	row := catalog.Lookup(plain)
	if row == nil {
		row = catalog.LookupPolicyKey(plain)
	}
	switch {
	case row != nil && row.Argument != "":
		return b.do("The argument is %s; as a key of the queue it is %s.", row.Argument, row.SpecKey())
	case row != nil:
		return b.do("%s is a policy key; it has no argument.", row.PolicyKey)
	}
	var names []string
	for i := range catalog.Settings {
		if a := catalog.Settings[i].Argument; a != "" {
			names = append(names, a)
		}
	}
	if near := nearest(name, names); near != "" {
		return b.do("Did you mean %s? What a plugin or an application reads is listed in allow_unknown_arguments.", near)
	}
	if near := nearest("x-"+plain, names); near != "" {
		return b.do("Did you mean %s?", near)
	}
	if !strings.HasPrefix(name, "x-") {
		return b.as(diag.Warning) // a note of the team's own perhaps
	}
	return b
}
