package flow

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Message is one message as it is published.
type Message struct {
	Exchange string
	// Keys are its routing key and those of its CC and BCC headers.
	Keys []string
	// Headers are all that it has; values as topology.Canonical has them.
	Headers map[string]any
	// Deaths are those that it has behind it, the newest first.
	Deaths []Death
}

// Step is one exchange on a message's way and what hands it on from there: a
// binding, the alternate exchange, or, at the default exchange, neither.
type Step struct {
	Exchange  string
	Binding   *topology.Binding
	Alternate bool
}

// Delivery is a queue that gets a message.
type Delivery struct {
	Queue string
	// Path is the first way found, from the exchange published to.
	Path []Step
	// Chance: an exchange on the way hands the message to one of its bindings only,
	// by a hash or by chance, and this may be another one. Unknown: the way leads
	// through an exchange of which it is not known how it routes.
	Chance, Unknown bool
}

// Routing is where one message goes.
type Routing struct {
	// Missing: there is no such exchange. The broker closes the channel.
	Missing bool
	// Deliveries are the queues, each once, in the order found.
	Deliveries []Delivery
	// Unmatched are the exchanges at which no binding takes the message and that
	// have no alternate exchange to hand it on.
	Unmatched []string
	// Open: the message comes to an exchange to which more may be bound than is
	// known.
	Open bool
}

// Route follows one message, as the broker does: every exchange is visited once, and
// the alternate exchange gets what an exchange's own bindings do not take.
func (g *Graph) Route(m Message) Routing {
	r := g.router
	var out Routing
	if r.exchange(m.Exchange) == nil {
		out.Missing = true
		return out
	}
	type stop struct {
		x               *exchange
		path            []Step
		chance, unknown bool
	}
	at := map[string]int{}
	seen := map[string]bool{m.Exchange: true}
	next := []stop{{x: r.exchange(m.Exchange)}}
	deliver := func(queue string, s stop, by *topology.Binding, chance, unknown bool) {
		if !r.isQueue(queue) {
			return
		}
		path := append(slices.Clone(s.path), Step{Exchange: s.x.name, Binding: by})
		d := Delivery{queue, path, s.chance || chance, s.unknown || unknown}
		if i, ok := at[queue]; ok {
			// A way that is certain counts more than one that is not.
			if old := out.Deliveries[i]; (old.Chance || old.Unknown) && !d.Chance && !d.Unknown {
				out.Deliveries[i] = d
			}
			return
		}
		at[queue] = len(out.Deliveries)
		out.Deliveries = append(out.Deliveries, d)
	}
	for len(next) > 0 {
		s := next[0]
		next = next[1:]
		follow := func(name string, step Step, chance, unknown bool) {
			to := r.exchange(name)
			if to == nil || seen[name] {
				return
			}
			seen[name] = true
			next = append(next, stop{to, append(slices.Clone(s.path), step), s.chance || chance, s.unknown || unknown})
		}
		out.Open = out.Open || s.x.open
		if s.x.name == "" {
			// As an alternate exchange the default exchange takes nothing (measured).
			if len(s.path) == 0 {
				for _, key := range m.Keys {
					deliver(key, s, nil, false, false)
				}
			}
			continue
		}
		taken := g.taking(s.x, m)
		chance := s.x.kind == oneOf && len(taken) > 1
		unknown := s.x.kind == unknownKind
		for _, i := range taken {
			b := s.x.bindings[i]
			if b.DestinationType == topology.ToExchange {
				follow(b.Destination, Step{Exchange: s.x.name, Binding: b}, chance, unknown)
			} else {
				deliver(b.Destination, s, b, chance, unknown)
			}
		}
		switch {
		case len(taken) > 0 && !unknown:
		case s.x.hasAlternate && r.exchange(s.x.alternate) != nil:
			follow(s.x.alternate, Step{Exchange: s.x.name, Alternate: true}, false, unknown)
		case len(taken) == 0:
			out.Unmatched = append(out.Unmatched, s.x.name)
		}
	}
	return out
}

// taking lists the bindings of an exchange that can take a message, in order.
func (g *Graph) taking(x *exchange, m Message) []int {
	var list []int
	switch x.kind {
	case direct:
		for _, key := range m.Keys {
			list = append(list, x.byKey[key]...)
		}
	case topic:
		for _, key := range m.Keys {
			list = append(list, x.trie.match(key)...)
		}
	case headers:
		for i, b := range x.bindings {
			if headersMatch(b.Arguments, m.Headers, true, g.version) == always {
				list = append(list, i)
			}
		}
	default:
		for i := range x.bindings {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// match lists the patterns that match one key.
func (t *trie) match(key string) []int {
	if len(t.nodes) == 0 {
		return nil
	}
	set := t.close([]int32{0})
	for _, w := range words(key) {
		var next []int32
		for _, n := range set {
			from := &t.nodes[n]
			if from.loops {
				next = append(next, n)
			}
			if from.star != 0 {
				next = append(next, from.star)
			}
			if to, ok := from.words[w]; ok {
				next = append(next, to)
			}
		}
		set = t.close(next)
	}
	var ends []int
	for _, n := range set {
		ends = append(ends, t.nodes[n].ends...)
	}
	return ends
}

// meeting lists the patterns that have a key in common with a set, in order.
func (t *trie) meeting(k *Keys, left *int) []int {
	if len(t.nodes) == 0 || k.Empty() {
		return nil
	}
	type pair struct {
		node  int32
		state int32
	}
	seen := map[pair]bool{}
	var todo []pair
	meet := func(node, state int32) {
		if p := (pair{node, state}); state != nowhere && !seen[p] {
			seen[p] = true
			todo = append(todo, p)
		}
	}
	var ends []int
	meet(0, 0)
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n, s := &t.nodes[p.node], &k.states[p.state]
		if s.accept {
			ends = append(ends, n.ends...)
		}
		if n.hash != 0 {
			meet(n.hash, p.state)
		}
		*left -= len(s.words) + 1
		for _, to := range []int32{n.star, loop(n, p.node)} {
			if to == 0 {
				continue
			}
			meet(to, s.other)
			for _, e := range s.words {
				meet(to, e.to)
			}
		}
		if s.other == nowhere && len(s.words) < len(n.words) {
			for _, e := range s.words {
				if to, ok := n.words[e.word]; ok {
					meet(to, e.to)
				}
			}
			continue
		}
		for w, to := range n.words {
			meet(to, s.next(w))
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

// loop is the node itself where it stands for #.
func loop(n *node, number int32) int32 {
	if n.loops {
		return number
	}
	return 0
}
