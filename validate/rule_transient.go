package validate

import "github.com/rabbitctl/rabbitctl/internal/diag"

var transientQueue = Rule{
	Code: "transient-queue", Severity: diag.Warning,
	Summary: "A classic queue is not durable.",
	Doc: "The queue and its messages are gone after a restart of the broker. It is accepted on all versions; 4.x lists it " +
		"among the deprecated features (`transient_nonexcl_queues`), which a later release will refuse.",
	Fix: "Remove durable: false, or say contract: {survives: nothing, ...} when the loss is meant.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if q.Durable || q.Exclusive || p.typeOf(q) != "classic" || meantToVanish(q) {
				continue
			}
			p.report(q, at(q, "durable"), problemf("queue %q is not durable: a restart of the broker deletes it with its messages", q.Name).
				like("are not durable: a restart of the broker deletes them with their messages"))
		}
	},
}

var transientExchange = Rule{
	Code: "transient-exchange", Severity: diag.Warning,
	Summary: "An exchange is not durable.",
	Doc:     "The exchange and its bindings are gone after a restart of the broker; publishers then get 404. All versions accept it.",
	Fix:     "Remove durable: false.",
	Check: func(p *Pass) {
		for _, e := range p.ourExchanges() {
			if e.Durable {
				continue
			}
			p.report(e, exchangeAt(e, "durable"), problemf("exchange %q is not durable: a restart of the broker deletes it with its bindings", e.Name).
				like("are not durable: a restart of the broker deletes them with their bindings"))
		}
	},
}
