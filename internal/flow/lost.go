package flow

import (
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Lost are the keys of messages that come to no queue.
type Lost struct {
	// Certain are those that certainly come to none, Possible all that may not:
	// where a header, a hash or something unknown decides. Where sets are too costly
	// to work out, Certain holds only some, and Possible more than there are.
	Certain, Possible *Keys
}

// delivers are the keys with which a message at an exchange comes to a queue.
type delivers struct{ sure, may *Keys }

// lost works out which of some messages come to no queue from an exchange.
func (r *router) lost(from string, c class, w *view) Lost {
	key := spreadKey{from, c, w}
	lost, ok := r.losses[key]
	if !ok {
		lost = r.findLost(from, c, w)
		if lost.Certain.wide {
			lost.Certain = r.proved(from, lost.Certain, c, w)
		}
		r.losses[key] = lost
	}
	return lost
}

// proved are some keys of a set too costly to work out that are certainly lost, each
// looked up by itself; none when even which keys there are is too costly.
func (r *router) proved(from string, k *Keys, c class, w *view) *Keys {
	if c.keys.wide {
		return r.none
	}
	var lost []string
	some, _ := k.Some(maxNamed)
	for _, key := range some {
		if c.keys.Contains(key) && !r.findLost(from, class{r.literal(key), c.cc}, w).Certain.Empty() {
			lost = append(lost, key)
		}
	}
	return r.literals(lost)
}

func (r *router) findLost(from string, c class, w *view) Lost {
	x := r.exchange(from)
	if x == nil {
		return Lost{c.keys, c.keys}
	}
	if c.cc == "" {
		return r.lostKeys(x, c.keys, w)
	}
	// With CC keys one exchange may take the message for one key and the next for
	// another: the whole way must be followed.
	reach := r.spread(from, c, w)
	sure, may := make([]*Keys, 0, len(reach.Targets)), make([]*Keys, 0, len(reach.Targets))
	for _, t := range reach.Targets {
		sure, may = append(sure, t.Certain), append(may, t.Keys)
	}
	lost := Lost{r.minus(c.keys, r.unions(may)), r.minus(c.keys, r.unions(sure))}
	if reach.Open {
		lost.Certain = r.none
	}
	return lost
}

func (r *router) lostKeys(x *exchange, k *Keys, w *view) Lost {
	if keys, finite := k.few(maxNamed); finite {
		var certain, possible []string
		for _, key := range keys {
			reach := r.spread(x.name, class{keys: r.literal(key)}, w)
			if reach.Nowhere() {
				certain = append(certain, key)
			}
			// Where only headers or chance decide, each way may still lead somewhere.
			if !reach.somewhere() && (len(reach.Targets) == 0 || x.name == "" || !r.deliveredFrom(x, w).sure.Contains(key)) {
				possible = append(possible, key)
			}
		}
		return Lost{r.literals(certain), r.literals(possible)}
	}
	if x.name == "" {
		may := r.names
		if len(r.vhost.External) > 0 {
			may = r.all
		}
		return Lost{r.minus(k, may), r.minus(k, r.names)}
	}
	d := r.deliveredFrom(x, w)
	return Lost{r.minus(k, d.may), r.minus(k, d.sure)}
}

// somewhere reports whether some of the messages certainly come to a queue.
func (r *Reach) somewhere() bool {
	for i := range r.Targets {
		if !r.Targets[i].Certain.Empty() {
			return true
		}
	}
	return false
}

// deliveredFrom works out what every exchange delivers, from the last to the first,
// again and again where there are circles.
func (r *router) deliveredFrom(x *exchange, w *view) delivers {
	known, ok := r.delivered[w]
	if !ok {
		known = map[*exchange]delivers{}
		r.delivered[w] = known
	}
	if d, ok := known[x]; ok {
		return d
	}
	// All exchanges that x leads to, in order.
	reached := r.leadsTo(x)
	for changed := true; changed; {
		changed = false
		for i := len(reached) - 1; i >= 0; i-- {
			at := reached[i]
			d := r.deliversOnce(at, w, known)
			if old, ok := known[at]; !ok || old != d {
				known[at] = d
				changed = true
			}
		}
	}
	return known[x]
}

func (r *router) leadsTo(x *exchange) []*exchange {
	seen := map[*exchange]bool{x: true}
	todo := []*exchange{x}
	for i := 0; i < len(todo); i++ {
		for _, to := range r.followers(todo[i]) {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	var list []*exchange
	for _, e := range r.inOrder {
		if seen[e] {
			list = append(list, e)
		}
	}
	return list
}

// deliversOnce works out one exchange from what is known of those after it.
func (r *router) deliversOnce(x *exchange, w *view, known map[*exchange]delivers) delivers {
	after := func(to *exchange) delivers {
		if d, ok := known[to]; ok {
			return d
		}
		return delivers{r.none, r.none}
	}
	d := delivers{r.none, r.none}
	if x.name == "" {
		return d // it takes nothing from other exchanges
	}
	if x.kind == direct || x.kind == topic {
		d = delivers{r.boundQueues(x), r.boundQueues(x)}
	}
	chances := delivers{r.all, r.none} // of an exchange that chooses one binding
	// What headers do not let through one binding goes through another one or to the
	// alternate exchange: it arrives where all of these deliver.
	either := r.all
	r.step(x, flow{r.all, r.all}, "", w, func(b *topology.Binding, f flow) {
		part := delivers{f.sure, f.may}
		if b.DestinationType == topology.ToExchange {
			to := r.exchange(b.Destination)
			if to == nil {
				return
			}
			next := after(to)
			part = delivers{r.intersect(f.sure, next.sure), r.intersect(f.may, next.may)}
			if x.kind == oneOf {
				part.sure = next.sure
			}
			either = r.intersect(either, next.sure)
		} else if x.kind == direct || x.kind == topic {
			return // boundQueues has it
		} else if x.kind == oneOf {
			part.sure = r.all
		}
		if x.kind == oneOf {
			chances.sure = r.intersect(chances.sure, part.sure)
			chances.may = r.union(chances.may, part.may)
			return
		}
		d.sure = r.union(d.sure, part.sure)
		d.may = r.union(d.may, part.may)
	}, func(to *exchange, f flow) {
		next := after(to)
		d.sure = r.union(d.sure, r.intersect(f.sure, next.sure))
		d.may = r.union(d.may, r.intersect(f.may, next.may))
		if x.kind == headers {
			d.sure = r.union(d.sure, r.intersect(either, next.sure))
		}
	})
	if x.kind == oneOf && len(x.bindings) > 0 {
		d = delivers{chances.sure, chances.may}
	}
	if x.open || x.kind == unknownKind {
		d.may = r.all
	}
	return d
}

// boundQueues is the set of keys that some binding of a queue takes, at a direct or
// topic exchange.
func (r *router) boundQueues(x *exchange) *Keys {
	if x.toQueues == nil {
		var keys []string
		for _, b := range x.bindings {
			if b.DestinationType == topology.ToQueue {
				keys = append(keys, b.RoutingKey)
			}
		}
		if x.kind == topic {
			x.toQueues = r.patterns(keys)
		} else {
			x.toQueues = r.literals(keys)
		}
	}
	return x.toQueues
}
