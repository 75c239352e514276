package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// eachRoute calls check for every queue with a dead-letter route, per version.
func (p *Pass) eachRoute(check func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem) {
	for _, q := range p.ours() {
		p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
			r := p.graph(v).DeadLetter(q.Name)
			if r == nil {
				return problem{}
			}
			return check(q, r, v)
		})
	}
}

// routeAt is where the spec gives a queue its dead-letter route.
func routeAt(q *topology.Queue) topology.Position {
	keys := []string{
		"dead_letter.queue", "dead_letter.Exchange", "dead_letter",
		"arguments.x-dead-letter-exchange", "arguments.x-dead-letter-routing-key",
	}
	for _, k := range keys {
		if at, ok := intent(q).At[k]; ok {
			return at
		}
	}
	return place(q, "dead-letter-exchange")
}

var deadLetterExchangeMissing = Rule{
	Code: "dead-letter-exchange-missing", Severity: diag.Error,
	Summary: "A queue's dead-letter exchange is not declared, or has no binding.",
	Doc: "The broker accepts the queue. Messages that die are deleted without a trace, with the strategy at-most-once; with " +
		"at-least-once they stay in the queue and are tried every three minutes.",
	Fix: "Declare the exchange and bind a dead-letter queue to it, or mark it `external: true`.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem {
			if r.Exchange == "" {
				return problem{}
			}
			from := p.effective(q, v).from("dead-letter-exchange")
			e, known := p.exchange(r.Exchange)
			switch known {
			case missing:
				b := problemf("the dead-letter exchange %q of queue %q%s is not declared: its dead messages are lost", r.Exchange, q.Name, from)
				if near := p.nearestExchange(r.Exchange); near != "" {
					b = b.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
				}
				return b
			case liveOnly:
				return problemf("the dead-letter exchange %q of queue %q%s is on the broker and not in the spec", r.Exchange, q.Name, from).
					as(diag.Warning).do("Declare it, or mark it external: true so that it is checked.")
			case declared:
				if _, _, ae := p.alternate(e); !ae && len(p.index.From[r.Exchange]) == 0 {
					return problemf("the dead-letter exchange %q of queue %q%s has no binding: its dead messages are lost", r.Exchange, q.Name, from).
						do("Bind the dead-letter queue to it.")
				}
			}
			return problem{}
		})
	},
}

var deadLetterQueueMissing = Rule{
	Code: "dead-letter-queue-missing", Severity: diag.Error,
	Summary: "Dead messages are sent to a queue that is not declared.",
	Doc: "A dead-letter route through the default exchange is the name of a queue. The broker accepts the route without the " +
		"queue; messages that die are then deleted without a trace, and a consumer's last copy is returned as unroutable.",
	Fix: "Declare the queue with `role: dead-letter` and an owner, or mark it `external: true`.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem {
			if r.Exchange != "" || !r.Fixed {
				return problem{}
			}
			return p.targetQueue(q, r.Key, "the dead-letter queue")
		})
		for _, q := range p.ours() {
			d := intent(q).DeadLetter
			if d == nil || d.Queue == "" {
				continue
			}
			if r := p.graph(p.newest()).DeadLetter(q.Name); r != nil && r.Exchange == "" && r.Fixed && r.Key == d.Queue {
				continue // told above
			}
			p.report(q, routeAt(q), p.targetQueue(q, d.Queue, "the dead-letter queue"))
		}
	},
}

// targetQueue says what is wrong with a queue that another one leads to.
func (p *Pass) targetQueue(q *topology.Queue, name, what string) problem {
	switch _, known := p.queue(name); known {
	case missing:
		b := problemf("%s %q of queue %q is not declared: its dead messages are lost", what, name, q.Name)
		if near := p.nearestQueue(name); near != "" {
			return b.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
		}
		return b
	case liveOnly:
		return problemf("%s %q of queue %q is on the broker and not in the spec", what, name, q.Name).
			as(diag.Warning).do("Declare it, or mark it external: true so that it is checked.")
	}
	return problem{}
}

var deadLetterUnroutable = Rule{
	Code: "dead-letter-unroutable", Severity: diag.Error,
	Summary: "No binding of the dead-letter exchange takes a queue's dead messages.",
	Doc: "The broker accepts the route and deletes the messages (measured). Without a dead-letter routing key messages keep " +
		"their own keys, of which each that can come into the queue is followed; where only publishers that add keys with CC " +
		"could be right, this is a warning.",
	Fix: "Bind the dead-letter queue with the key that dead messages have, or set the routing key of the route to one that is bound.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem {
			e, known := p.exchange(r.Exchange)
			if r.Exchange != "" && (known == missing || known == declared && len(p.index.From[r.Exchange]) == 0 && !p.hasAlternate(e)) {
				return problem{} // dead-letter-exchange-missing says so
			}
			reach, lost := p.graph(v).DeadLetters(q.Name)
			if lost.Certain.Empty() || accepted(q, "rejected", "expired") && accepted(q, "overflow", "delivery_limit") {
				return problem{}
			}
			from := p.effective(q, v).from("dead-letter-exchange")
			switch {
			case r.Fixed && r.Exchange == "":
				return problem{} // dead-letter-queue-missing says so
			case e != nil && e.Type == "headers" && reach.Nowhere():
				return problemf("queue %q dead-letters to the headers exchange %q%s, where no binding matches: its dead messages are lost", q.Name, r.Exchange, from).
					do("Bind the dead-letter queue by what dead messages have, such as x-first-death-reason with all-with-x, or give the exchange an alternate exchange.")
			case r.Fixed:
				return problemf("queue %q dead-letters to exchange %q with the routing key %q%s, which leads to no queue", q.Name, r.Exchange, r.Key, from)
			case r.Exchange == "":
				return problemf("queue %q dead-letters to the default exchange without a routing key%s: no queue has the name of a message's own key (%s)", q.Name, from, some(lost.Certain)).
					do("Set the routing key of the route to the name of the dead-letter queue.")
			case p.elseMissing(q, e, v):
				return problem{} // dlx-without-else says so
			}
			if reach.Nowhere() {
				return problemf("queue %q dead-letters to exchange %q without a routing key%s: messages keep theirs, and nothing there takes a key that comes into the queue (%s), unless publishers add one with CC", q.Name, r.Exchange, from, some(lost.Certain)).
					as(diag.Warning)
			}
			return problemf("queue %q dead-letters to exchange %q without a routing key%s: messages keep theirs, and one with a key that nothing there takes is lost (%s)", q.Name, r.Exchange, from, some(lost.Certain)).
				as(diag.Warning)
		})
	},
}

// elseMissing reports whether a topic or headers exchange takes some of a queue's
// dead letters, and others neither it nor an alternate exchange.
func (p *Pass) elseMissing(q *topology.Queue, e *topology.Exchange, v catalog.Version) bool {
	if e == nil || e.Type != "topic" && e.Type != "headers" || p.isDeclaredExchange(e.Name) == nil {
		return false
	}
	reach, lost := p.graph(v).DeadLetters(q.Name)
	if reach.Nowhere() {
		return false
	}
	keys := p.graph(v).Keys(q.Name)
	switch {
	case e.Type == "headers":
		return !lost.Possible.Empty()
	case p.graph(v).DeadLetter(q.Name).Fixed || lost.Certain == keys:
		return false
	}
	// Keys that are all named can be told one by one.
	return !lost.Certain.Empty() && !keys.Listable()
}

var deadLettersToItself = Rule{
	Code: "dead-letters-to-itself", Severity: diag.Error,
	Summary: "A queue's dead messages come back into the same queue.",
	Doc: "A message that expires, overflows or reaches the delivery limit is dropped by the broker as a cycle; one that is " +
		"rejected comes back at once, for ever (measured).",
	Fix: "Lead the route to another queue; a dead-letter queue needs no route of its own.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem {
			if reach, _ := p.graph(v).DeadLetters(q.Name); !reach.Certainly(q.Name) {
				return problem{}
			}
			through := "the default exchange"
			if r.Exchange != "" {
				through = fmt.Sprintf("exchange %q", r.Exchange)
			}
			return problemf("the dead messages of queue %q come back into it through %s%s", q.Name, through, p.effective(q, v).from("dead-letter-exchange"))
		})
	},
}

var dlxWithoutElse = Rule{
	Code: "dlx-without-else", Severity: diag.Warning,
	Summary: "A headers or topic exchange takes dead messages and has no alternate exchange for those that no binding takes.",
	Doc: "What no binding matches is deleted: messages that expired or reached the limit have no category header, and those " +
		"that keep their own keys may have one that nobody thought of.",
	Fix: "Give the exchange an alternate exchange with a queue behind it, or a binding that takes everything.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r *flow.DeadLetter, v catalog.Version) problem {
			e := p.isDeclaredExchange(r.Exchange)
			if !p.elseMissing(q, e, v) || accepted(q, "rejected", "expired") {
				return problem{}
			}
			b := problemf("exchange %q takes the dead messages of queue %q and has no alternate exchange: those that no binding takes are lost", e.Name, q.Name).
				like("dead-letter to exchanges without an alternate exchange: dead messages that no binding takes there are lost")
			if p.hasAlternate(e) {
				b = problemf("exchange %q takes the dead messages of queue %q: those that neither its bindings nor its alternate exchange take are lost", e.Name, q.Name).
					like("dead-letter to exchanges where neither bindings nor an alternate exchange take every dead message: the others are lost")
			}
			if _, lost := p.graph(v).DeadLetters(q.Name); e.Type == "topic" {
				b.summary += fmt.Sprintf(" (%s)", some(lost.Certain))
			}
			if c := intent(q).Contract; c != nil && !c.None && c.AfterFailureQueue != "" {
				b = b.as(diag.Error)
				b.summary += fmt.Sprintf(", and the contract promises them to %q", c.AfterFailureQueue)
			}
			return b
		})
	},
}
