package flow

import (
	"maps"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// Death is one entry of a message's x-death header: how often a queue gave it up
// for one cause.
type Death struct {
	Queue string
	Cause Cause
	Count int
}

// Die follows one message that a queue gives up: the message as it is published to
// the dead-letter exchange, and where it goes from there. Queues in which it would
// only go round are left out of the routing and named in cycles: the broker drops
// it there. ok is false where the queue has no dead-letter route: the message is
// deleted.
//
// A message that gets a routing key loses its CC keys. Its deaths are headers too,
// by which headers exchanges can route it (measured).
func (g *Graph) Die(queue string, cause Cause, m Message) (dead Message, routing Routing, cycles []string, ok bool) {
	s := g.byName[queue]
	if s == nil || s.route == nil {
		return Message{}, Routing{}, nil, false
	}
	dead = Message{Exchange: s.route.Exchange, Keys: m.Keys, Headers: maps.Clone(m.Headers), Deaths: g.died(m.Deaths, queue, cause)}
	if dead.Headers == nil {
		dead.Headers = map[string]any{}
	}
	if s.route.Fixed {
		dead.Keys = []string{s.route.Key}
		delete(dead.Headers, "CC")
	}
	if len(m.Deaths) == 0 {
		dead.Headers["x-first-death-queue"] = queue
		dead.Headers["x-first-death-reason"] = string(cause)
		dead.Headers["x-first-death-exchange"] = m.Exchange
	}
	if g.version.AtLeast(catalog.V(4, 0)) {
		dead.Headers["x-last-death-queue"] = queue
		dead.Headers["x-last-death-reason"] = string(cause)
		dead.Headers["x-last-death-exchange"] = m.Exchange
	}
	routing = g.Route(dead)
	routing.Deliveries = slices.DeleteFunc(routing.Deliveries, func(d Delivery) bool {
		if cause == Rejected || !goesRound(dead.Deaths, d.Queue) {
			return false
		}
		cycles = append(cycles, d.Queue)
		return true
	})
	return dead, routing, cycles, true
}

// died adds a death: one entry for each queue and cause, the newest first. Before
// 3.13 each new one turns the order of the others round (measured on 3.10.8: after
// the queues 0, 1, 2, 3 the header has 3, 1, 0, 2), so that the broker there does not
// always see who rejected a message since when.
func (g *Graph) died(deaths []Death, queue string, cause Cause) []Death {
	now := Death{queue, cause, 1}
	var others []Death
	for _, d := range deaths {
		if d.Queue == queue && d.Cause == cause {
			now.Count = d.Count + 1
			continue
		}
		others = append(others, d)
	}
	if g.version.Below(catalog.V(3, 13)) {
		slices.Reverse(others)
	}
	return append([]Death{now}, others...)
}

// goesRound reports whether a message has died in a queue before and nobody
// rejected it since.
func goesRound(deaths []Death, queue string) bool {
	for _, d := range deaths {
		switch {
		case d.Cause == Rejected:
			return false
		case d.Queue == queue:
			return true
		}
	}
	return false
}
