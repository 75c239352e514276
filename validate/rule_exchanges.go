package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var reservedName = Rule{
	Code: "reserved-name", Severity: diag.Error,
	Summary: "A queue or exchange has a name that begins with amq. and is not one of the broker's own.",
	Doc:     "The broker refuses it: 403, `contains reserved prefix 'amq.*'`. Declaring one of its own exactly as it is is allowed.",
	Fix:     "Choose another name. The broker's own exchanges may be bound to without being declared.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if q.Intent != nil && strings.HasPrefix(q.Name, "amq.") {
				p.report(q, q.Position, problemf("the name of queue %q begins with amq., which is the broker's", q.Name))
			}
		}
		for _, e := range p.ourExchanges() {
			if e.Intent == nil || !strings.HasPrefix(e.Name, "amq.") {
				continue
			}
			asIs := builtIn[e.Name] == e.Type && e.Durable && !e.AutoDelete && len(e.Arguments) == 0
			switch {
			case builtIn[e.Name] == "":
				p.report(e, e.Position, problemf("the name of exchange %q begins with amq., which is the broker's", e.Name))
			case !asIs || strings.HasPrefix(e.Name, "amq.rabbitmq."):
				p.report(e, e.Position, problemf("exchange %q is the broker's own and cannot be declared like this", e.Name).
					do("Remove it: it is there, and may be bound to."))
			}
		}
	},
}

var exchangeTypeUnknown = Rule{
	Code: "exchange-type-unknown", Severity: diag.Error,
	Summary: "No release of RabbitMQ that the spec is for has this exchange type, and no known plugin brings it.",
	Doc: "Declaring the exchange is refused: 406, `unknown exchange type`. On 3.10 it is 503, which closes the whole " +
		"connection with all its channels.",
	Fix: "Correct the type: direct, fanout, headers, topic, or one that a plugin brings.",
	Check: func(p *Pass) {
		for _, e := range p.ourExchanges() {
			at := exchangeAt(e, "type")
			t := catalog.LookupExchangeType(e.Type)
			unknown := problemf("exchange %q has the unknown type %q", e.Name, e.Type)
			switch {
			case p.exchangeTypes != nil:
				if !slices.Contains(p.exchangeTypes, e.Type) {
					p.report(e, at, problemf("exchange %q has the type %q, which the broker does not have", e.Name, e.Type).do("%s", pluginAdvice(t)))
				}
			case t == nil:
				if near := nearest(e.Type, exchangeTypeNames()); near != "" {
					p.report(e, at, unknown.do("Did you mean %s?", near))
				} else if strings.HasPrefix(e.Type, "x-") {
					p.report(e, at, unknown.as(diag.Warning).do("It works only where a plugin brings it."))
				} else {
					p.report(e, at, unknown)
				}
			case t.Plugin == "":
				p.onVersions(e, at, func(v catalog.Version) problem {
					if slices.Contains(catalog.ExchangeTypes(v), e.Type) {
						return problem{}
					}
					return problemf("exchange %q has the type %s, which does not exist", e.Name, e.Type)
				})
			}
		}
	},
}

var exchangeTypeNeedsPlugin = Rule{
	Code: "exchange-type-needs-plugin", Severity: diag.Info,
	Summary: "An exchange has a type that only a plugin brings.",
	Doc: "Without the plugin the declaration is refused (406; on 3.10 503, which closes the connection). plan looks at the " +
		"broker's list of exchange types first and never tries.",
	Fix: "See that the plugin is enabled on every broker that gets the spec.",
	Check: func(p *Pass) {
		if p.exchangeTypes != nil {
			return // exchange-type-unknown knows
		}
		for _, e := range p.ourExchanges() {
			t := catalog.LookupExchangeType(e.Type)
			if t == nil || t.Plugin == "" {
				continue
			}
			p.onVersions(e, exchangeAt(e, "type"), func(v catalog.Version) problem {
				if slices.Contains(catalog.ExchangeTypes(v), e.Type) {
					return problem{}
				}
				return problemf("exchange %q of type %s needs the plugin %s", e.Name, e.Type, t.Plugin).
					like("need the plugin %s for their type %s", t.Plugin, e.Type).do("%s", pluginAdvice(t))
			})
		}
	},
}

// pluginAdvice says how to get an exchange type.
func pluginAdvice(t *catalog.ExchangeType) string {
	switch {
	case t == nil || t.Plugin == "":
		return "Use a type that the broker has."
	case t.Name == "x-delayed-message":
		return fmt.Sprintf("Enable %s on the broker, or use wait queues (mechanism: wait-queue), which need no plugin.", t.Plugin)
	}
	return fmt.Sprintf("Enable %s on the broker.", t.Plugin)
}

func exchangeTypeNames() []string {
	var names []string
	for _, t := range catalog.ExchangeTypeTable {
		names = append(names, t.Name)
	}
	return names
}

var alternateExchangeMissing = Rule{
	Code: "alternate-exchange-missing", Severity: diag.Error,
	Summary: "An alternate exchange is not declared, or leads to no queue.",
	Doc:     "The broker accepts it, the exchange itself as its own alternate and the default exchange too, which then delivers nothing (measured). What cannot be routed is lost as without one.",
	Fix:     "Declare the exchange and bind a queue to it, or mark it `external: true`.",
	Check: func(p *Pass) {
		for _, e := range p.ourExchanges() {
			name, from, ok := p.alternate(e)
			if !ok {
				continue
			}
			at := exchangeAt(e, "alternate_exchange", "arguments.alternate-exchange")
			_, known := p.exchange(name)
			switch {
			case name == "":
				p.report(e, at, problemf("the alternate exchange of exchange %q is the default exchange%s, which takes nothing from another one", e.Name, from))
			case known == missing:
				p.report(e, at, problemf("the alternate exchange %q of exchange %q%s is not declared", name, e.Name, from))
			case known == declared && p.graph(p.newest()).Unroutable(name, p.graph(p.newest()).AllKeys()).Certain == p.graph(p.newest()).AllKeys():
				p.report(e, at, problemf("the alternate exchange %q of exchange %q%s leads to no queue", name, e.Name, from))
			case name == e.Name:
				p.report(e, at, problemf("exchange %q is its own alternate exchange%s: what it cannot route stays unrouted", e.Name, from))
			}
		}
	},
}

// isDeclaredExchange is for rules that need the exchange's own properties.
func (s *state) isDeclaredExchange(name string) *topology.Exchange {
	if e, known := s.exchange(name); known == declared {
		return e
	}
	return nil
}
