package specs

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// categoryHeader is the header that carries the category when none is named.
const categoryHeader = "x-opt-dead-letter-category"

// routeWay is how a part of the dead-letter route reaches the broker:
// dead_letter.settings_by goes before what the queue says.
func (e *expansion) routeWay(q *Queue, name string) topology.By {
	if q.DeadLetter != nil && q.DeadLetter.SettingsBy != "" && !q.DeclaredByClients {
		return q.DeadLetter.SettingsBy
	}
	return wayOf(q, name)
}

// deriveDeadLetter works out what a queue's dead_letter stands for.
func (e *expansion) deriveDeadLetter(q *Queue, d *derived) {
	dl, t := q.DeadLetter, e.typeOf(q)
	pos := q.At.place(q.Pos, "dead_letter.queue", "dead_letter.exchange", "dead_letter.categories", "dead_letter")
	if t == topology.Stream {
		e.fail(q, "setting-not-for-type", pos, fmt.Sprintf("queue %q: a stream does not know dead_letter", q.Name),
			"A stream never gives a message up; queue types that know it: classic, quorum.")
		return
	}
	if !e.checkTarget(q, pos) {
		return
	}
	d.deadLetter = &topology.DeadLetter{Via: dl.Via, Strategy: dl.Strategy, Method: dl.Method}
	switch {
	case dl.Categories != nil:
		e.deriveCategories(q, d)
	case dl.Queue != nil:
		key := *dl.Queue
		if dl.RoutingKey != nil {
			key = *dl.RoutingKey
		}
		d.deadLetter.Queue, d.deadLetter.Exchange, d.deadLetter.RoutingKey = *dl.Queue, dl.Via, &key
		if dl.Via != "" {
			d.bindings = append(d.bindings, &topology.Binding{
				VirtualHost: e.spec.Name, Source: dl.Via, Destination: *dl.Queue, DestinationType: topology.ToQueue,
				RoutingKey: key, Generated: fmt.Sprintf("dead_letter of queue %q", q.Name), Position: pos,
			})
		}
	default:
		d.deadLetter.Exchange = *dl.Exchange
		if dl.RoutingKey != nil {
			key := *dl.RoutingKey
			d.deadLetter.RoutingKey = &key
		}
	}
	if d.retry != nil {
		e.checkNotWaiting(q, d, pos)
		if d.retry.Mechanism == topology.MechanismRejectCycle {
			return // the route is the wait queue
		}
	}
	e.addRoute(q, d, t, pos)
}

// addRoute adds the settings of the queue's own dead-letter route.
func (e *expansion) addRoute(q *Queue, d *derived, t topology.QueueType, pos topology.Position) {
	add := func(name string, value any, pos topology.Position, why string) {
		d.settings = append(d.settings, wanted{name: name, value: value, by: e.routeWay(q, name), pos: pos, why: why})
	}
	add("dead-letter-exchange", d.deadLetter.Exchange, pos, "dead_letter")
	if d.deadLetter.RoutingKey != nil {
		add("dead-letter-routing-key", *d.deadLetter.RoutingKey, q.At.place(pos, "dead_letter.routing_key"), "dead_letter")
	}
	strategy := q.DeadLetter.Strategy
	if strategy == "" || strategy == "at-most-once" && t == topology.Classic {
		return // a classic queue knows no other way and refuses the setting
	}
	at := q.At.place(pos, "dead_letter.strategy")
	add("dead-letter-strategy", strategy, at, "dead_letter.strategy")
	if strategy == "at-least-once" && t != topology.Classic {
		// Without it the broker falls back to at-most-once and says so only in
		// its log.
		add("overflow", "reject-publish", at, "dead_letter.strategy at-least-once")
	}
}

// checkTarget tells when dead_letter names no target, or two.
func (e *expansion) checkTarget(q *Queue, pos topology.Position) bool {
	dl := q.DeadLetter
	var targets []string
	if dl.Queue != nil {
		targets = append(targets, "queue")
	}
	if dl.Exchange != nil {
		targets = append(targets, "exchange")
	}
	if dl.Categories != nil {
		targets = append(targets, "categories")
	}
	switch {
	case len(targets) == 0:
		e.fail(q, "dead-letter-target", pos, fmt.Sprintf("queue %q: dead_letter names no target", q.Name),
			"Write queue, exchange or categories.")
	case len(targets) > 1:
		e.fail(q, "dead-letter-target", pos,
			fmt.Sprintf("queue %q: dead_letter has both %s and %s", q.Name, targets[0], targets[1]),
			"Write one of them; for a queue behind an exchange, queue and via.")
	case dl.Via != "" && dl.Queue == nil:
		e.fail(q, "dead-letter-target", pos, fmt.Sprintf("queue %q: dead_letter has via, but no queue", q.Name),
			"via binds the queue of dead_letter to that exchange; write queue too.")
	default:
		return true
	}
	return false
}

// checkNotWaiting tells when the last station is a wait queue of the same queue:
// a limit that sends messages there makes a cycle, which the broker drops
// silently, and a copy would be tried for ever.
func (e *expansion) checkNotWaiting(q *Queue, d *derived, pos topology.Position) {
	if d.deadLetter.Exchange == "" && slices.Contains(d.retry.WaitQueues, d.deadLetter.Queue) {
		e.fail(q, "dead-letter-into-wait-queue", pos,
			fmt.Sprintf("queue %q gives messages up into its own wait queue %q", q.Name, d.deadLetter.Queue),
			"RabbitMQ drops them as a cycle when they come back; name a dead-letter queue.")
	}
}

// deriveCategories makes the exchanges, bindings and queues that route dead
// letters by a header. The match is all-with-x: all and any skip headers that
// begin with x- and so match every message.
func (e *expansion) deriveCategories(q *Queue, d *derived) {
	c := *q.DeadLetter.Categories
	pos := q.At.place(q.Pos, "dead_letter.categories", "dead_letter")
	text := fmt.Sprintf("dead_letter.categories of queue %q", q.Name)
	if c.Header == "" {
		c.Header = categoryHeader
	}
	c.Exchange, c.AlternateExchange = q.Name+".dead-letter", q.Name+".dead-letter.otherwise"
	c.Routes = slices.Clone(c.Routes)
	d.deadLetter.Categories, d.deadLetter.Exchange = &c, c.Exchange
	if !e.checkName(q, "exchange", c.AlternateExchange, pos) {
		return
	}
	intent := func() *topology.ExchangeIntent { return &topology.ExchangeIntent{Generated: text} }
	d.exchanges = append(d.exchanges,
		&topology.Exchange{
			VirtualHost: e.spec.Name, Name: c.AlternateExchange, Type: "fanout", Durable: true, Intent: intent(), Position: pos,
		},
		&topology.Exchange{
			VirtualHost: e.spec.Name, Name: c.Exchange, Type: "headers", Durable: true, Intent: intent(), Position: pos,
			Arguments: topology.Arguments{"alternate-exchange": c.AlternateExchange},
		})
	route := func(r topology.CategoryRoute, source string, args topology.Arguments, keys ...string) {
		at := q.At.place(pos, keys...)
		e.claimDeadLetterQueue(q, r, at)
		d.bindings = append(d.bindings, &topology.Binding{
			VirtualHost: e.spec.Name, Source: source, Destination: r.Queue, DestinationType: topology.ToQueue,
			Arguments: args, Generated: text, Position: at,
		})
	}
	for _, r := range c.Routes {
		key := "dead_letter.categories.routes." + r.Name
		route(r, c.Exchange, topology.Arguments{"x-match": "all-with-x", c.Header: r.Name}, key, key+".queue")
	}
	if c.Otherwise.Queue == "" {
		e.fail(q, "categories-otherwise", pos,
			fmt.Sprintf("queue %q: dead letters without a known category would be lost", q.Name),
			"Write otherwise: {queue: NAME} under categories; expired messages and those over a limit have no category.")
		return
	}
	key := "dead_letter.categories.otherwise"
	route(c.Otherwise, c.AlternateExchange, nil, key, key+".queue")
}
