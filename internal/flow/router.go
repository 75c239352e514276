package flow

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// kind is how an exchange chooses among its bindings.
type kind int

const (
	unknownKind kind = iota // what the type does is not known
	direct
	fanout
	topic
	headers
	oneOf // one of its bindings: by a hash or by chance
)

// kinds are the types of exchanges. x-delayed-message is as its x-delayed-type.
var kinds = map[string]kind{
	"direct": direct, "fanout": fanout, "topic": topic, "headers": headers, "x-recent-history": fanout,
	"x-consistent-hash": oneOf, "x-modulus-hash": oneOf, "x-local-random": oneOf, "x-random": oneOf,
}

// builtIn are the exchanges that every virtual host has.
var builtIn = map[string]string{
	"": "direct", "amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
	"amq.match": "headers", "amq.rabbitmq.trace": "topic", "amq.rabbitmq.log": "topic",
}

// exchange is an exchange with its bindings laid out for look-up.
type exchange struct {
	name     string
	object   *topology.Exchange // nil: known by name alone
	kind     kind
	open     bool // others may have bound more to it than is known
	internal bool
	// alternate is the alternate exchange in effect.
	alternate    string
	hasAlternate bool

	bindings []*topology.Binding // whose destinations exist
	byKey    map[string][]int
	trie     trie
	patterns []*Keys // of each binding, when asked for
	matched  *Keys   // what some binding takes, when asked for
	toQueues *Keys   // what some binding of a queue takes, when asked for
	order    int     // place in an order in which sources come first, circles aside
}

// router routes within one virtual host. It does not depend on the version: queues
// and policies of queues do.
type router struct {
	*algebra
	vhost     *topology.VirtualHost
	queues    map[string]*topology.Queue // nil values: known by name alone
	exchanges map[string]*exchange
	inOrder   []*exchange
	names     *Keys                // of all queues
	published map[string][]publish // by exchange, from publishers
	spreads   map[spreadKey]*Reach
	spent     int                // targets in all spreads
	visits    int                // of exchanges in all spreads
	toOpen    map[*exchange]bool // lead to an open one; nil until asked for
	losses    map[spreadKey]Lost
	delivered map[*view]map[*exchange]delivers
}

func newRouter(vhost *topology.VirtualHost, o Options) *router {
	r := &router{
		algebra: newAlgebra(), vhost: vhost,
		queues: map[string]*topology.Queue{}, exchanges: map[string]*exchange{},
		spreads: map[spreadKey]*Reach{}, losses: map[spreadKey]Lost{}, delivered: map[*view]map[*exchange]delivers{},
	}
	whole := isWhole(vhost)
	for _, q := range vhost.Queues {
		r.queues[q.Name] = q
	}
	for _, e := range vhost.Exchanges {
		external := e.Intent != nil && e.Intent.External
		r.add(e.Name, e, e.Type, external || !whole && strings.HasPrefix(e.Name, "amq."))
	}
	for name, t := range builtIn {
		if r.exchanges[name] == nil {
			r.add(name, &topology.Exchange{VirtualHost: vhost.Name, Name: name, Type: t, Durable: true}, t, !whole && name != "")
		}
	}
	if o.Live != nil {
		for _, q := range o.Live.Queues {
			if _, ok := r.queues[q.Name]; !ok {
				r.queues[q.Name] = nil
			}
		}
		for _, e := range o.Live.Exchanges {
			if r.exchanges[e.Name] == nil {
				r.add(e.Name, e, e.Type, true)
			}
		}
	}
	r.addLeftOut()
	if o.Live != nil {
		r.takeLive(o.Live)
	}
	alternate := o.alternates()
	for _, x := range r.exchanges {
		// A policy may name the default exchange too, and does nothing (measured).
		if x.object != nil && x.name != "" {
			x.alternate, x.hasAlternate = alternate(x.object)
		}
	}
	for _, b := range vhost.Bindings {
		r.bind(b)
	}
	if o.Live != nil {
		r.bindLive(o.Live)
	}
	names := make([]string, 0, len(r.queues))
	for name := range r.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	r.names = r.literals(names)
	r.published = r.publishers()
	r.sort()
	return r
}

// takeLive takes the exchanges that others make as they are on the broker, with
// the alternate exchanges that they have there.
func (r *router) takeLive(live *topology.VirtualHost) {
	for _, e := range live.Exchanges {
		if x := r.exchanges[e.Name]; x != nil && x.open {
			r.add(e.Name, e, e.Type, true)
		}
	}
}

// bindLive adds the broker's bindings of exchanges that others make: with them it
// is known where those lead. Exchanges of the spec's own have the bindings that
// the spec says.
func (r *router) bindLive(live *topology.VirtualHost) {
	written := make(map[topology.Key]bool, len(r.vhost.Bindings))
	for _, b := range r.vhost.Bindings {
		written[b.Key()] = true
	}
	for _, b := range live.Bindings {
		if x := r.exchanges[b.Source]; x != nil && x.open && !written[b.Key()] {
			r.bind(b)
		}
	}
	for _, e := range live.Exchanges {
		if x := r.exchanges[e.Name]; x != nil {
			x.open = false
		}
	}
}

// addLeftOut adds what an export of 4.3 leaves out and its bindings name: internal
// exchanges and exclusive queues. Nothing more is known of them.
func (r *router) addLeftOut() {
	partial := slices.ContainsFunc(r.vhost.Exchanges, func(e *topology.Exchange) bool { return e.InternalUnknown })
	if !partial {
		return
	}
	exchange := func(name string) {
		if name != "" && r.exchanges[name] == nil {
			r.add(name, nil, "", true)
			r.exchanges[name].internal = true
		}
	}
	for _, b := range r.vhost.Bindings {
		exchange(b.Source)
		if b.DestinationType == topology.ToExchange {
			exchange(b.Destination)
		} else if _, ok := r.queues[b.Destination]; !ok {
			r.queues[b.Destination] = nil
		}
	}
}

// isWhole reports whether a topology is a broker's state, which has all there is,
// and not a spec, beside which others may bind to the broker's own exchanges.
func isWhole(v *topology.VirtualHost) bool {
	return !slices.ContainsFunc(v.Queues, func(q *topology.Queue) bool { return q.Intent != nil }) &&
		!slices.ContainsFunc(v.Exchanges, func(e *topology.Exchange) bool { return e.Intent != nil })
}

func (r *router) add(name string, object *topology.Exchange, exchangeType string, open bool) {
	x := &exchange{name: name, object: object, kind: kinds[exchangeType], open: open, byKey: map[string][]int{}}
	if object != nil {
		x.internal = object.Internal
		if exchangeType == "x-delayed-message" {
			inner, _ := object.Arguments["x-delayed-type"].(string)
			x.kind = kinds[inner]
		}
	}
	r.exchanges[name] = x
}

// bind lays out a binding. One whose source or destination is missing does not
// exist: the broker refuses it. The default exchange has no bindings but its own.
func (r *router) bind(b *topology.Binding) {
	x := r.exchanges[b.Source]
	if x == nil || b.Source == "" || !r.isEnd(b) {
		return
	}
	i := len(x.bindings)
	x.bindings = append(x.bindings, b)
	switch x.kind {
	case direct:
		x.byKey[b.RoutingKey] = append(x.byKey[b.RoutingKey], i)
	case topic:
		x.trie.add(b.RoutingKey, i)
	}
}

func (r *router) isEnd(b *topology.Binding) bool {
	if b.DestinationType == topology.ToExchange {
		return b.Destination != "" && (r.exchanges[b.Destination] != nil || r.isExternal(b.Destination))
	}
	return r.isQueue(b.Destination)
}

// isQueue reports whether a queue of that name exists or may exist.
func (r *router) isQueue(name string) bool {
	_, ok := r.queues[name]
	return ok || r.isExternal(name)
}

func (r *router) isExternal(name string) bool {
	return slices.ContainsFunc(r.vhost.External, func(p topology.ExternalPattern) bool {
		return p.Pattern != nil && p.Pattern.MatchString(name)
	})
}

// exchange finds an exchange; one that only a pattern of external objects covers
// routes somewhere unknown. Nil: it does not exist.
func (r *router) exchange(name string) *exchange {
	if x, ok := r.exchanges[name]; ok {
		return x
	}
	if r.isExternal(name) {
		r.add(name, nil, "", true)
		x := r.exchanges[name]
		x.order = len(r.inOrder)
		r.inOrder = append(r.inOrder, x)
		return x
	}
	return nil
}

// pattern is the set of keys that a binding of a direct or topic exchange takes.
func (r *router) pattern(x *exchange, i int) *Keys {
	if x.patterns == nil {
		x.patterns = make([]*Keys, len(x.bindings))
	}
	if x.patterns[i] == nil {
		key := x.bindings[i].RoutingKey
		if x.kind == topic {
			x.patterns[i] = r.algebra.patterns([]string{key})
		} else {
			x.patterns[i] = r.literal(key)
		}
	}
	return x.patterns[i]
}

// sort numbers the exchanges so that what an exchange leads to comes after it,
// except within circles.
func (r *router) sort() {
	names := make([]string, 0, len(r.exchanges))
	for name := range r.exchanges {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[*exchange]bool{}
	// A walk with a stack of its own: chains of exchanges can be long.
	type frame struct {
		x    *exchange
		next []*exchange
	}
	for _, name := range names {
		if seen[r.exchanges[name]] {
			continue
		}
		seen[r.exchanges[name]] = true
		stack := []frame{{r.exchanges[name], r.followers(r.exchanges[name])}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.next) == 0 {
				r.inOrder = append(r.inOrder, top.x)
				stack = stack[:len(stack)-1]
				continue
			}
			x := top.next[0]
			top.next = top.next[1:]
			if !seen[x] {
				seen[x] = true
				stack = append(stack, frame{x, r.followers(x)})
			}
		}
	}
	slices.Reverse(r.inOrder)
	for i, x := range r.inOrder {
		x.order = i
	}
}

// followers are the exchanges that an exchange hands messages on to.
func (r *router) followers(x *exchange) []*exchange {
	var all []*exchange
	for _, b := range x.bindings {
		if b.DestinationType == topology.ToExchange {
			if to := r.exchanges[b.Destination]; to != nil {
				all = append(all, to)
			}
		}
	}
	if to := r.exchanges[x.alternate]; x.hasAlternate && to != nil {
		all = append(all, to)
	}
	return all
}
