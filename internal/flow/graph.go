package flow

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Options are what a Graph needs beside the virtual host.
type Options struct {
	// Live is the broker's state: its objects may be led to. Nil: none.
	Live *topology.VirtualHost
	// Effective gives the settings in effect on a queue by canonical name, Alternate
	// the alternate exchange in effect. Nil: worked out from the virtual host's own
	// arguments and policies.
	Effective func(*topology.Queue) map[string]policy.Value
	Alternate func(*topology.Exchange) (string, bool)

	set *policy.Set
}

func (o *Options) alternates() func(*topology.Exchange) (string, bool) {
	if o.Alternate != nil {
		return o.Alternate
	}
	return func(e *topology.Exchange) (string, bool) {
		name, ok := o.set.EffectiveExchange(e, o.set.Exchange(e.Name))["alternate-exchange"].Value.(string)
		return name, ok
	}
}

func (o *Options) effective() func(*topology.Queue) map[string]policy.Value {
	if o.Effective != nil {
		return o.Effective
	}
	return func(q *topology.Queue) map[string]policy.Value {
		return o.set.Effective(q, o.set.Queue(q.Name, q.Type))
	}
}

// Graph is where messages go in one virtual host on one version of RabbitMQ. It
// remembers what it has worked out and is not for several goroutines at once.
type Graph struct {
	*router
	version catalog.Version
	// states are what is known of each queue, in the order of the virtual host.
	states []*queueState
	byName map[string]*queueState

	inflow  map[string]*inflow // nil until asked for
	targets map[string]bool    // exchanges that get what others give up; nil until asked for
	looked  int                // queues that the search for circles has looked at
}

// queueState is a queue with what is in effect on it.
type queueState struct {
	queue    *topology.Queue
	queued   topology.QueueType
	settings map[string]policy.Value
	route    *DeadLetter
	dead     []class // what it publishes, where its key is fixed; nil until asked for
}

// DeadLetter is the dead-letter route in effect on a queue.
type DeadLetter struct {
	Exchange string // "" is the default exchange
	// Key is the routing key that dead letters get; without Fixed they keep their
	// own, and CC keys too.
	Key   string
	Fixed bool
	// AtLeastOnce: the strategy acts. A message that cannot be delivered stays in
	// the queue.
	AtLeastOnce bool
}

// What is known of headers in general.
var (
	anyHeaders  = &view{}
	deadHeaders = &view{dead: true}
)

// New makes the graph of a virtual host for a version of RabbitMQ; the zero Version
// counts as the newest known. The virtual host must not change afterwards.
func New(vhost *topology.VirtualHost, version catalog.Version, o Options) *Graph {
	if version.IsZero() {
		version = catalog.Newest
	}
	if o.Effective == nil || o.Alternate == nil {
		o.set = policy.New(version, vhost.Policies, vhost.OperatorPolicies)
	}
	return newGraph(newRouter(vhost, o), version, o.effective())
}

// At is the graph of the same virtual host on another version. It shares what does
// not depend on the version: alternate exchanges are those of the first.
func (g *Graph) At(version catalog.Version, effective func(*topology.Queue) map[string]policy.Value) *Graph {
	if effective == nil {
		o := Options{set: policy.New(version, g.vhost.Policies, g.vhost.OperatorPolicies)}
		effective = o.effective()
	}
	other := newGraph(g.router, version, effective)
	// Where every route is the same, so is what comes to each queue.
	same := slices.EqualFunc(g.states, other.states, func(a, b *queueState) bool {
		if a.route == nil || b.route == nil {
			return a.route == b.route
		}
		return a.route.Exchange == b.route.Exchange && a.route.Key == b.route.Key && a.route.Fixed == b.route.Fixed
	})
	if same {
		other.inflow = g.inflows()
	}
	return other
}

func newGraph(r *router, version catalog.Version, effective func(*topology.Queue) map[string]policy.Value) *Graph {
	g := &Graph{router: r, version: version, byName: map[string]*queueState{}}
	for _, q := range r.vhost.Queues {
		s := &queueState{queue: q, queued: r.typeOf(q), settings: effective(q)}
		s.route = s.deadLetter()
		g.states = append(g.states, s)
		g.byName[q.Name] = s
	}
	return g
}

// typeOf is a queue's type, the virtual host's default where none is written.
func (r *router) typeOf(q *topology.Queue) topology.QueueType {
	switch {
	case q.Type != "":
		return q.Type
	case r.vhost.DefaultQueueType != "" && q.Durable && !q.AutoDelete && !q.Exclusive:
		return r.vhost.DefaultQueueType
	}
	return topology.Classic
}

func (s *queueState) deadLetter() *DeadLetter {
	exchange, ok := s.text("dead-letter-exchange")
	if !ok || s.queued == topology.Stream {
		return nil
	}
	d := &DeadLetter{Exchange: exchange}
	d.Key, d.Fixed = s.text("dead-letter-routing-key")
	strategy, _ := s.text("dead-letter-strategy")
	overflow, _ := s.text("overflow")
	d.AtLeastOnce = s.queued == topology.Quorum && strategy == "at-least-once" && overflow == "reject-publish"
	return d
}

func (s *queueState) text(name string) (string, bool) {
	text, ok := s.settings[name].Value.(string)
	return text, ok
}

func (s *queueState) number(name string) (int64, bool) {
	n, ok := s.settings[name].Value.(int64)
	return n, ok
}

// DeadLetter is the dead-letter route in effect on a queue; nil: it has none.
func (g *Graph) DeadLetter(queue string) *DeadLetter {
	if s := g.byName[queue]; s != nil {
		return s.route
	}
	return nil
}

// DeadLetters follows the dead letters of a queue: where they can go, and which are
// lost. A queue without a route has none, and both are empty.
func (g *Graph) DeadLetters(queue string) (*Reach, Lost) {
	s := g.byName[queue]
	none := Lost{g.none, g.none}
	if s == nil || s.route == nil {
		return &Reach{}, none
	}
	classes := g.deadClasses(s)
	if len(classes) == 1 {
		return g.spread(s.route.Exchange, classes[0], deadHeaders), g.lost(s.route.Exchange, classes[0], deadHeaders)
	}
	total := &Reach{}
	for _, c := range classes {
		one := g.spread(s.route.Exchange, c, deadHeaders)
		total.Open, total.Missing = total.Open || one.Open, total.Missing || one.Missing
		for _, t := range one.Targets {
			if all := total.Target(t.Queue); all != nil {
				all.Keys, all.Certain = g.union(all.Keys, t.Keys), g.union(all.Certain, t.Certain)
				continue
			}
			total.add(t)
		}
		l := g.lost(s.route.Exchange, c, deadHeaders)
		none = Lost{g.union(none.Certain, l.Certain), g.union(none.Possible, l.Possible)}
	}
	return total, none
}

// deadClasses are the messages that a queue's dead-letter route publishes. Messages
// that get a key lose those of CC (measured).
func (g *Graph) deadClasses(s *queueState) []class {
	if s.route.Fixed {
		if s.dead == nil {
			s.dead = []class{{keys: g.literal(s.route.Key)}}
		}
		return s.dead
	}
	in := g.inflows()[s.queue.Name]
	if in == nil {
		return nil
	}
	return in.classes
}

// Reach follows published messages with some keys from an exchange.
func (g *Graph) Reach(exchange string, keys *Keys) *Reach {
	return g.spread(exchange, class{keys: keys}, anyHeaders)
}

// ReachedFrom lists the queues that messages published to any of some exchanges can
// come to, all followed together.
func (g *Graph) ReachedFrom(exchanges []string) []string {
	s := spreading{router: g.router, reach: &Reach{}, at: map[*exchange]*arrival{}, view: anyHeaders}
	for _, name := range exchanges {
		if x := g.exchange(name); x != nil {
			s.arrive(x, flow{g.all, g.all}, nil, Step{})
		}
	}
	s.run()
	names := make([]string, len(s.reach.Targets))
	for i := range s.reach.Targets {
		names[i] = s.reach.Targets[i].Queue
	}
	return names
}

// Open reports whether messages published to an exchange may come to one of which not
// all is known.
func (g *Graph) Open(exchange string) bool {
	x := g.exchange(exchange)
	// Mostly that needs no look at keys.
	return x != nil && g.leadsToOpen(x) && g.Reach(exchange, g.all).Open
}

// Rough reports whether something of what the graph was asked so far was too costly to
// work out exactly: it then said that more may go somewhere, or may not, than does.
func (g *Graph) Rough() bool { return g.rough || g.left < 0 || g.looked > 128*maxLooked }

// leadsToOpen reports whether bindings and alternate exchanges lead from an exchange
// to an open one, whatever their keys.
func (r *router) leadsToOpen(x *exchange) bool {
	if r.toOpen == nil {
		r.toOpen = map[*exchange]bool{}
		before := map[*exchange][]*exchange{}
		var todo []*exchange
		meet := func(x *exchange) {
			if !r.toOpen[x] {
				r.toOpen[x] = true
				todo = append(todo, x)
			}
		}
		for _, from := range r.inOrder {
			if from.open || from.kind == unknownKind {
				meet(from)
			}
			for _, to := range r.followers(from) {
				before[to] = append(before[to], from)
			}
			for _, b := range from.bindings {
				if b.DestinationType == topology.ToExchange && r.exchanges[b.Destination] == nil {
					meet(from) // an exchange that only a pattern of external objects covers
				}
			}
		}
		for len(todo) > 0 {
			last := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, from := range before[last] {
				meet(from)
			}
		}
	}
	return r.toOpen[x]
}

// Unroutable works out which messages with some keys, published to an exchange, come
// to no queue.
func (g *Graph) Unroutable(exchange string, keys *Keys) Lost {
	return g.lost(exchange, class{keys: keys}, anyHeaders)
}

// AllKeys is the set of every key.
func (g *Graph) AllKeys() *Keys { return g.all }

// Key is the set of one key.
func (g *Graph) Key(key string) *Keys { return g.literal(key) }

// Pattern is the set of the keys that match a topic pattern.
func (g *Graph) Pattern(pattern string) *Keys { return g.patterns([]string{pattern}) }

// Minus is the set of the keys that are in one set and not in another.
func (g *Graph) Minus(x, y *Keys) *Keys { return g.minus(x, y) }

// Keys are the routing keys with which messages can come into a queue, empty when
// none can.
func (g *Graph) Keys(queue string) *Keys {
	in := g.inflows()[queue]
	if in == nil {
		return g.none
	}
	sets := make([]*Keys, len(in.classes))
	for i, c := range in.classes {
		sets[i] = c.keys
	}
	return g.unions(sets)
}
