package validate

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// losesUnrouted reports whether the spec says with a reason that an exchange loses
// what it cannot route.
func losesUnrouted(e *topology.Exchange) bool {
	return e.Intent != nil && e.Intent.Loses["unrouted"] != ""
}

var publishUnroutable = Rule{
	Code: "publish-unroutable", Severity: diag.Error,
	Summary: "No queue gets what a publisher of the spec publishes.",
	Doc: "A message that no binding takes is confirmed and deleted; one that is published mandatory is returned first " +
		"(measured). An alternate exchange counts as a route. Publishing to an exchange that does not exist closes the channel.",
	Fix: "Bind a queue with that key, correct the key, or remove the publisher.",
	Check: func(p *Pass) {
		for _, pub := range p.graph(p.newest()).Published() {
			by := pub.By
			e, known := p.exchange(by.Exchange)
			if e == nil {
				e = &topology.Exchange{VirtualHost: p.vhost.Name, Name: by.Exchange}
			}
			switch {
			case pub.Missing && known == missing:
				b := problemf("publisher %q publishes to exchange %q, which is not declared", by.Name, by.Exchange)
				if near := p.nearestExchange(by.Exchange); near != "" {
					b = b.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
				}
				p.report(e, by.Position, b)
			case pub.Missing || losesUnrouted(e) || pub.Lost.Certain != pub.Keys:
			case by.Mandatory:
				p.report(e, by.Position, problemf("publisher %q publishes to %s with the routing key %q, which no queue takes: every message is returned",
					by.Name, exchangeName(by.Exchange), pub.Key).as(diag.Warning))
			default:
				p.report(e, by.Position, problemf("publisher %q publishes to %s with the routing key %q, which no queue takes: every message is lost",
					by.Name, exchangeName(by.Exchange), pub.Key))
			}
		}
	},
}

func exchangeName(name string) string {
	if name == "" {
		return "the default exchange"
	}
	return fmt.Sprintf("exchange %q", name)
}

var unroutableUnguarded = Rule{
	Code: "unroutable-unguarded", Severity: diag.Warning,
	Summary: "An exchange can get messages that no queue takes, and neither an alternate exchange nor the mandatory flag guards them.",
	Doc: "Such a message is confirmed and deleted. With the mandatory flag the publisher gets it back; with an alternate exchange " +
		"it goes there, and counts as routed (measured). What a binding hands to another exchange counts as taken, even when that " +
		"one routes it nowhere. Without `publishers:` every key is possible.",
	Fix: "Give the exchange an alternate_exchange with a queue behind it, say under `publishers:` who publishes there and that it " +
		"is mandatory, or say in `loses: {unrouted: REASON}` that the loss is meant.",
	Check: func(p *Pass) {
		g, told := p.graph(p.newest()), 0
		for _, e := range p.ourExchanges() {
			if e.Internal || e.Intent != nil && e.Intent.Generated != "" || losesUnrouted(e) || len(p.index.From[e.Name]) == 0 {
				continue
			}
			lost := g.Unguarded(e.Name)
			// Of types that choose by chance or that nobody knows, nothing certain can be said.
			if lost.Certain.Empty() && e.Type != "headers" || lost.Possible.Empty() || g.Open(e.Name) {
				continue
			}
			b := p.unguarded(e, lost)
			if told++; told <= maxSources { // among thousands nobody looks for it
				if q := p.promisedFrom(e.Name); q != nil {
					b.related = related(intent(q).Contract.Position, fmt.Sprintf("the contract of queue %q, which gets its messages here", q.Name))
				}
			}
			p.report(e, e.Position, b)
		}
	},
}

func (p *Pass) unguarded(e *topology.Exchange, lost flow.Lost) problem {
	which := "whose headers no binding takes"
	if !lost.Certain.Empty() {
		key := lost.Certain.Example()
		which = fmt.Sprintf("with a key that no queue takes, such as %q,", key)
	}
	if p.hasAlternate(e) {
		return problemf("exchange %q can get messages that neither its bindings nor its alternate exchange bring to a queue: one %s is lost unless it is published mandatory", e.Name, which)
	}
	return problemf("exchange %q has no alternate exchange: a message %s is lost unless it is published mandatory", e.Name, which).
		like("can get messages that no queue takes, and have no alternate exchange: they are lost unless they are published mandatory")
}

var exchangeWithoutBinding = Rule{
	Code: "exchange-without-binding", Severity: diag.Warning,
	Summary: "Nothing is bound to an exchange.",
	Doc: "Everything that is published to it is confirmed and deleted, or returned where it is mandatory (measured). " +
		"Where it gets its messages from another exchange, as with one exchange for each type of message, it is a note.",
	Fix: "Bind a queue to it, remove it, or say in `loses: {unrouted: REASON}` that the loss is meant.",
	Check: func(p *Pass) {
		told := map[string]bool{} // by dead-letter-exchange-missing and alternate-exchange-missing
		for _, q := range p.ours() {
			if r := p.graph(p.newest()).DeadLetter(q.Name); r != nil {
				told[r.Exchange] = true
			}
		}
		for _, e := range p.vhost.Exchanges {
			if ae, _, ok := p.alternate(e); ok {
				told[ae] = true
			}
		}
		for _, e := range p.ourExchanges() {
			if len(p.index.From[e.Name]) > 0 || told[e.Name] || p.hasAlternate(e) || losesUnrouted(e) || e.Intent != nil && e.Intent.Generated != "" {
				continue
			}
			// Another type may route without bindings.
			if e.Type != "x-delayed-message" && !slices.Contains([]string{"direct", "fanout", "topic", "headers"}, e.Type) {
				continue
			}
			b := problemf("nothing is bound to exchange %q: what is published to it is lost", e.Name).
				like("have no binding: what is published to them is lost")
			if by := p.index.To[topology.End{Type: topology.ToExchange, Name: e.Name}]; len(by) > 0 {
				// What is lost by that is said of the exchange that it comes from.
				b = problemf("nothing is bound to exchange %q: what it gets from exchange %q goes no further", e.Name, by[0].Source).
					like("have no binding: what they get from other exchanges goes no further").as(diag.Info)
			}
			p.report(e, e.Position, b)
		}
	},
}

var queueUnreachable = Rule{
	Code: "queue-unreachable", Severity: diag.Warning,
	Summary: "No publisher of the spec reaches a queue, and nothing else leads to it.",
	Doc: "Nothing of the broker's: the spec names publishers, and none of them publishes what a binding of the queue takes, or to " +
		"the default exchange with its name; no dead-letter route, wait queue or shovel leads to it.",
	Fix: "Bind the queue with a key that is published, name its publisher under `publishers:`, or remove it.",
	Check: func(p *Pass) {
		if len(p.vhost.Publishers) == 0 {
			return
		}
		for _, q := range p.ours() {
			if p.graph(p.newest()).Reached(q.Name) || intent(q).Generated != "" {
				continue
			}
			p.report(q, q.Position, problemf("nothing leads to queue %q: no publisher of the spec reaches it", q.Name).
				like("are reached by no publisher of the spec, and nothing else leads to them"))
		}
	},
}
