package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// eachRoute calls check for every queue with a dead-letter route, per version.
func (p *Pass) eachRoute(check func(q *topology.Queue, r route, v catalog.Version) problem) {
	for _, q := range p.ours() {
		p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
			r, ok := p.route(q, v)
			if !ok {
				return problem{}
			}
			return check(q, r, v)
		})
	}
}

// routeAt is where the spec gives a queue its dead-letter route.
func routeAt(q *topology.Queue) topology.Position {
	keys := []string{
		"dead_letter.queue", "dead_letter.exchange", "dead_letter",
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
		p.eachRoute(func(q *topology.Queue, r route, v catalog.Version) problem {
			if r.exchange == "" {
				return problem{}
			}
			from := p.effective(q, v).from("dead-letter-exchange")
			e, known := p.exchange(r.exchange)
			switch known {
			case missing:
				b := problemf("the dead-letter exchange %q of queue %q%s is not declared: its dead messages are lost", r.exchange, q.Name, from)
				if near := p.nearestExchange(r.exchange); near != "" {
					b = b.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
				}
				return b
			case liveOnly:
				return problemf("the dead-letter exchange %q of queue %q%s is on the broker and not in the spec", r.exchange, q.Name, from).
					as(diag.Warning).do("Declare it, or mark it external: true so that it is checked.")
			case declared:
				if _, _, ae := p.alternate(e); !ae && len(p.index.From[r.exchange]) == 0 {
					return problemf("the dead-letter exchange %q of queue %q%s has no binding: its dead messages are lost", r.exchange, q.Name, from).
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
		p.eachRoute(func(q *topology.Queue, r route, v catalog.Version) problem {
			if r.exchange != "" || !r.fixed {
				return problem{}
			}
			return p.targetQueue(q, r.key, "the dead-letter queue")
		})
		for _, q := range p.ours() {
			d := intent(q).DeadLetter
			if d == nil || d.Queue == "" {
				continue
			}
			if r, ok := p.route(q, p.newest()); ok && r.exchange == "" && r.fixed && r.key == d.Queue {
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
		"their own keys; where only publishers that add keys with CC could be right, this is a warning.",
	Fix: "Bind the dead-letter queue with the key that dead messages have, or set the routing key of the route to one that is bound.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r route, v catalog.Version) problem {
			from := p.effective(q, v).from("dead-letter-exchange")
			e, known := p.exchange(r.exchange)
			if r.exchange != "" && (known != declared || len(p.index.From[r.exchange]) == 0 && !p.hasAlternate(e)) {
				return problem{} // dead-letter-exchange-missing says so
			}
			if r.fixed {
				if r.exchange == "" || !p.reaches(q, r).nowhere() {
					return problem{}
				}
				return problemf("queue %q dead-letters to exchange %q with the routing key %q%s, which leads to no queue", q.Name, r.exchange, r.key, from)
			}
			return p.ownKeys(q, r, from)
		})
	},
}

func (s *state) hasAlternate(e *topology.Exchange) bool {
	if e == nil {
		return false
	}
	_, _, ok := s.alternate(e)
	return ok
}

// ownKeys looks at a route on which messages keep their own keys.
func (p *Pass) ownKeys(q *topology.Queue, r route, from string) problem {
	var lost []string
	keys := p.keysInto(q)
	for _, k := range keys {
		if k.kind != anyKey && p.reach(r.exchange, k).nowhere() {
			lost = append(lost, k.text)
		}
	}
	if len(lost) == 0 {
		return problem{}
	}
	shown := quoted(lost, "and")
	if len(lost) > shownNames {
		shown = fmt.Sprintf("%s and %d more", quoted(lost[:shownNames], ","), len(lost)-shownNames)
	}
	if r.exchange == "" {
		return problemf("queue %q dead-letters to the default exchange without a routing key%s: no queue has the name of a message's own key (%s)", q.Name, from, shown).
			do("Set the routing key of the route to the name of the dead-letter queue.")
	}
	return problemf("queue %q dead-letters to exchange %q without a routing key%s: messages keep theirs, and nothing there takes %s", q.Name, r.exchange, from, shown).
		as(diag.Warning)
}

var deadLettersToItself = Rule{
	Code: "dead-letters-to-itself", Severity: diag.Error,
	Summary: "A queue's dead messages come back into the same queue.",
	Doc: "A message that expires, overflows or reaches the delivery limit is dropped by the broker as a cycle; one that is " +
		"rejected comes back at once, for ever (measured).",
	Fix: "Lead the route to another queue; a dead-letter queue needs no route of its own.",
	Check: func(p *Pass) {
		p.eachRoute(func(q *topology.Queue, r route, v catalog.Version) problem {
			if !p.reaches(q, r).certain[q.Name] {
				return problem{}
			}
			through := "the default exchange"
			if r.exchange != "" {
				through = fmt.Sprintf("exchange %q", r.exchange)
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
		p.eachRoute(func(q *topology.Queue, r route, v catalog.Version) problem {
			e := p.isDeclaredExchange(r.exchange)
			if e == nil || p.hasAlternate(e) || len(p.index.From[e.Name]) == 0 || accepted(q, "rejected", "expired") {
				return problem{}
			}
			switch {
			case e.Type == "headers" && !p.takesEverything(e):
			case e.Type == "topic" && !r.fixed && !p.takesEverything(e):
				if p.ownKeys(q, r, "").summary != "" {
					return problem{} // dead-letter-unroutable says more
				}
				if p.ownKeysTaken(q, r) {
					return problem{}
				}
			default:
				return problem{}
			}
			b := problemf("exchange %q takes the dead messages of queue %q and has no alternate exchange: those that no binding takes are lost", e.Name, q.Name).
				like("dead-letter to exchange %q, which has no alternate exchange: dead messages that no binding takes are lost", e.Name)
			if c := intent(q).Contract; c != nil && !c.None && c.AfterFailureQueue != "" {
				b = b.as(diag.Error)
				b.summary += fmt.Sprintf(", and the contract promises them to %q", c.AfterFailureQueue)
			}
			return b
		})
	},
}

// takesEverything reports whether some binding of a topic or headers exchange
// matches every message.
func (s *state) takesEverything(e *topology.Exchange) bool {
	for _, b := range s.index.From[e.Name] {
		match, isText := b.Arguments["x-match"].(string)
		switch {
		case e.Type == "topic" && b.RoutingKey == "#":
			return true
		case e.Type == "headers" && len(b.Arguments) == 0:
			return true
		case e.Type == "headers" && len(b.Arguments) == 1 && isText && (match == "all" || match == "all-with-x"):
			return true
		}
	}
	return false
}

// ownKeysTaken reports whether every key with which messages can come is known
// and certainly taken.
func (s *state) ownKeysTaken(q *topology.Queue, r route) bool {
	for _, k := range s.keysInto(q) {
		if k.kind != literal || s.reach(r.exchange, k).nowhere() {
			return false
		}
	}
	return true
}
