package flow

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// inflow is what can come into a queue.
type inflow struct {
	classes []class // one for each list of CC keys, sorted
	// reached: something leads here. Otherwise only publishers who name the queue at
	// the default exchange can be meant.
	reached bool
}

// publish is what one publisher publishes to an exchange.
type publish struct {
	by *topology.Publisher
	// keys are its routing keys, one set each in their order.
	keys  []*Keys
	class class
	view  *view
}

// publishers sorts what the spec says of publishers by exchange. A routing key of a
// publisher may be a topic pattern: any key that matches it. None is the empty key.
func (r *router) publishers() map[string][]publish {
	all := map[string][]publish{}
	for _, p := range r.vhost.Publishers {
		keys := p.RoutingKeys
		if len(keys) == 0 {
			keys = []string{""}
		}
		pub := publish{by: p, view: anyHeaders}
		for _, key := range keys {
			pub.keys = append(pub.keys, r.patterns([]string{key}))
		}
		pub.class = class{r.unions(pub.keys), ccOf(p.CC)}
		if len(p.Headers) > 0 {
			pub.view = &view{known: p.Headers}
		}
		all[p.Exchange] = append(all[p.Exchange], pub)
	}
	return all
}

// inflows works out what can come into every queue, as a whole: what is published
// spreads, what queues give up spreads on, until nothing new comes.
//
// Where no publisher is named for an exchange, every key is published to it. But an
// exchange that takes dead letters, or what another one cannot route, is taken to
// get those only: otherwise each would be said to lose keys that nobody publishes.
func (g *Graph) inflows() map[string]*inflow {
	if g.inflow != nil {
		return g.inflow
	}
	t := &tide{
		Graph: g, at: map[place]*Keys{}, coming: map[place][]*Keys{}, arrived: map[string]bool{},
		queues: map[string]map[string]*Keys{}, landing: map[string]map[string][]*Keys{}, reached: map[string]bool{},
	}
	t.publish(func(x *exchange) bool { return !t.isTarget(x) })
	for _, s := range g.states {
		if !t.isBound(s.queue.Name) {
			t.land(s.queue.Name, class{keys: g.literal(s.queue.Name)})
		}
	}
	for _, name := range t.shovelled() {
		t.land(name, class{keys: g.literal(name)})
		t.reached[name] = true
	}
	t.run()
	// What is left is fed in circles only. It begins where somebody works, not
	// where messages wait.
	t.publish(t.feedsWork)
	t.run()
	// Of the rest the first in the spec counts: what follows may get the first's.
	for _, e := range t.vhost.Exchanges {
		t.publishTo([]*exchange{t.exchanges[e.Name]}, func(*exchange) bool { return true })
		t.run()
	}
	t.publish(func(*exchange) bool { return true })
	t.run()
	for _, s := range g.states {
		if len(t.queues[s.queue.Name]) == 0 {
			t.land(s.queue.Name, class{keys: g.literal(s.queue.Name)})
		}
	}
	t.run()

	g.inflow = make(map[string]*inflow, len(t.queues))
	for name, byCC := range t.queues {
		in := &inflow{reached: t.reached[name]}
		for _, cc := range slices.Sorted(maps.Keys(byCC)) {
			in.classes = append(in.classes, class{byCC[cc], cc})
		}
		g.inflow[name] = in
	}
	return g.inflow
}

// tide is one run of inflows.
type tide struct {
	*Graph
	at      map[place]*Keys // what has come to exchanges
	coming  map[place][]*Keys
	arrived map[string]bool // exchanges that something has come to
	todo    placesByOrder

	queues  map[string]map[string]*Keys // by queue and CC
	landing map[string]map[string][]*Keys
	landed  []string // keys of landing, in order
	reached map[string]bool
	bound   map[string]bool
}

// place is an exchange and what is known of some messages there.
type place struct {
	x    *exchange
	cc   string
	view *view
}

// publish puts in what is published to the exchanges that nothing has come to yet.
func (t *tide) publish(may func(*exchange) bool) {
	t.publishTo(t.inOrder, may)
}

func (t *tide) publishTo(exchanges []*exchange, may func(*exchange) bool) {
	for _, x := range exchanges {
		if t.arrived[x.name] || x.name == "" && len(t.published[""]) == 0 {
			continue
		}
		if list := t.published[x.name]; len(list) > 0 {
			for _, p := range list {
				t.arrive(x, p.class, p.view)
			}
			continue
		}
		if !x.internal && len(x.bindings) > 0 && may(x) {
			t.arrive(x, class{keys: t.all}, anyHeaders)
		}
	}
}

// isTarget reports whether an exchange gets what others give up: dead letters and
// unroutable messages, and, where publishers are named, what other exchanges hand on.
func (g *Graph) isTarget(x *exchange) bool {
	if g.targets == nil {
		g.targets = map[string]bool{}
		for _, s := range g.states {
			if s.route != nil {
				g.targets[s.route.Exchange] = true
			}
		}
		for _, e := range g.inOrder {
			if e.hasAlternate {
				g.targets[e.alternate] = true
			}
			for _, b := range e.bindings {
				if b.DestinationType == topology.ToExchange && len(g.published) > 0 {
					g.targets[b.Destination] = true
				}
			}
		}
	}
	return g.targets[x.name]
}

// isBound reports whether a queue has a binding.
func (t *tide) isBound(queue string) bool {
	if t.bound == nil {
		t.bound = map[string]bool{}
		for _, x := range t.inOrder {
			for _, b := range x.bindings {
				if b.DestinationType == topology.ToQueue {
					t.bound[b.Destination] = true
				}
			}
		}
	}
	return t.bound[queue]
}

// feedsWork reports whether an exchange has a binding to a queue that is no wait
// queue, or to an exchange.
func (t *tide) feedsWork(x *exchange) bool {
	return slices.ContainsFunc(x.bindings, func(b *topology.Binding) bool {
		s := t.byName[b.Destination]
		return b.DestinationType == topology.ToExchange || s == nil || !s.waits()
	})
}

// waits reports whether a queue is there for messages to wait in: it gives them a
// TTL and hands them on.
func (s *queueState) waits() bool {
	if s.queue.Intent != nil && s.queue.Intent.Role == topology.RoleWait {
		return true
	}
	_, ttl := s.number("message-ttl")
	return ttl && s.route != nil
}

// shovelled lists the queues that a shovel or a federation link writes to.
func (t *tide) shovelled() []string {
	var names []string
	for _, p := range t.vhost.Parameters {
		if value, ok := p.Value.(map[string]any); ok && p.Component == "shovel" {
			if name, ok := value["dest-queue"].(string); ok && t.byName[name] != nil {
				names = append(names, name)
			}
		}
	}
	for _, s := range t.states {
		for _, key := range []string{"federation-upstream", "federation-upstream-set"} {
			if _, ok := s.settings[key]; ok {
				names = append(names, s.queue.Name)
			}
		}
	}
	return names
}

func (t *tide) arrive(x *exchange, c class, w *view) {
	if c.keys.Empty() {
		return
	}
	t.arrived[x.name] = true
	p := place{x, c.cc, w}
	if t.coming[p] == nil {
		heap.Push(&t.todo, p)
	}
	t.coming[p] = append(t.coming[p], c.keys)
}

func (t *tide) land(queue string, c class) {
	if c.keys.Empty() {
		return
	}
	if t.landing[queue] == nil {
		t.landing[queue] = map[string][]*Keys{}
		t.landed = append(t.landed, queue)
	}
	t.landing[queue][c.cc] = append(t.landing[queue][c.cc], c.keys)
}

// run spreads all that is coming.
func (t *tide) run() {
	for len(t.todo) > 0 || len(t.landed) > 0 {
		for len(t.todo) > 0 {
			p := heap.Pop(&t.todo).(place)
			parts := t.coming[p]
			delete(t.coming, p)
			old := t.at[p]
			if old != nil {
				parts = append(parts, old)
			}
			if sum := t.unions(parts); sum != old {
				t.at[p] = sum
				t.visit(p, sum)
			}
		}
		landed := t.landed
		t.landed = nil
		for _, queue := range landed {
			grown := t.queues[queue] == nil
			if grown {
				t.queues[queue] = map[string]*Keys{}
			}
			parts := t.landing[queue]
			delete(t.landing, queue)
			for _, cc := range slices.Sorted(maps.Keys(parts)) {
				old := t.queues[queue][cc]
				list := parts[cc]
				if old != nil {
					list = append(list, old)
				}
				if sum := t.unions(list); sum != old {
					t.queues[queue][cc] = sum
					t.giveUp(queue, class{sum, cc}, grown)
				}
			}
		}
	}
}

func (t *tide) visit(p place, k *Keys) {
	hit := func(queue string, keys *Keys) {
		t.reached[queue] = true
		t.land(queue, class{keys, p.cc})
	}
	if p.x.name == "" {
		t.visitDefault(p, k, hit)
		return
	}
	t.step(p.x, flow{k, k}, p.cc, p.view, func(b *topology.Binding, f flow) {
		if b.DestinationType == topology.ToQueue {
			hit(b.Destination, f.may)
		} else if to := t.exchange(b.Destination); to != nil {
			t.arrive(to, class{f.may, p.cc}, p.view)
		}
	}, func(to *exchange, f flow) {
		if to.name != "" {
			t.arrive(to, class{f.may, p.cc}, p.view)
		}
	})
}

// visitDefault delivers to the queues that keys name.
func (t *tide) visitDefault(p place, k *Keys, hit func(string, *Keys)) {
	for _, key := range (class{cc: p.cc}).ccKeys() {
		if t.byName[key] != nil {
			hit(key, k)
		}
	}
	names, finite := k.few(maxNamed)
	if !finite {
		names, _ = t.intersect(k, t.names).Some(len(t.router.queues))
	}
	for _, name := range names {
		if t.byName[name] != nil {
			hit(name, t.literal(name))
		}
	}
}

// giveUp sends on what a queue can give up: its dead letters, and the copies that
// its consumers publish; first: this is the first that comes to the queue.
func (t *tide) giveUp(queue string, c class, first bool) {
	s := t.byName[queue]
	if s == nil {
		return
	}
	byName := func(name string) {
		if t.byName[name] != nil {
			t.reached[name] = true
			t.land(name, class{keys: t.literal(name)})
		}
	}
	send := func(exchange string, key string, fixed bool) {
		switch x := t.exchange(exchange); {
		case fixed && !first || x == nil:
		case fixed && exchange == "":
			byName(key)
		case fixed:
			t.arrive(x, class{keys: t.literal(key)}, deadHeaders)
		default:
			t.arrive(x, c, deadHeaders)
		}
	}
	if s.route != nil {
		send(s.route.Exchange, s.route.Key, s.route.Fixed)
	}
	in := s.queue.Intent
	if in == nil {
		return
	}
	if in.Retry != nil && first {
		for _, name := range in.Retry.WaitQueues {
			byName(name)
		}
		if in.Retry.Exchange != "" {
			send(in.Retry.Exchange, queue, true)
		}
	}
	switch d := in.DeadLetter; {
	case d == nil:
	case d.Categories != nil:
		send(d.Categories.Exchange, "", false)
	case d.Queue != "" && d.Via == "":
		send("", d.Queue, true)
	case d.RoutingKey != nil:
		send(d.Exchange, *d.RoutingKey, true)
	}
}

// placesByOrder is a heap of places.
type placesByOrder []place

func (h placesByOrder) Len() int           { return len(h) }
func (h placesByOrder) Less(i, j int) bool { return h[i].x.order < h[j].x.order }
func (h placesByOrder) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *placesByOrder) Push(p any)        { *h = append(*h, p.(place)) }
func (h *placesByOrder) Pop() any {
	old := *h
	p := old[len(old)-1]
	*h = old[:len(old)-1]
	return p
}
