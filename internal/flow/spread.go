package flow

import (
	"container/heap"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// view is what is known of the headers of messages.
type view struct {
	// known are headers that they have; they may have others.
	known map[string]any
	// dead: they are dead letters.
	dead bool
}

func (w *view) match(b *topology.Binding) verdict {
	if w.dead {
		return deadHeadersMatch(b.Arguments, catalog.Newest)
	}
	return headersMatch(b.Arguments, w.known, false, catalog.Newest)
}

// class is a set of messages: their routing keys, and further keys by CC or BCC
// that all of them have.
type class struct {
	keys *Keys
	cc   string // joined by NUL, which no list of names has twice in a row
}

func ccOf(keys []string) string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return strings.Join(slices.Compact(keys), "\x00")
}

func (c class) ccKeys() []string {
	if c.cc == "" {
		return nil
	}
	return strings.Split(c.cc, "\x00")
}

// flow is the messages of a class that are at some place: may holds all routing
// keys that can come there, sure those that certainly do.
type flow struct{ may, sure *Keys }

func (f flow) none() bool { return f.may.Empty() }

func (a *algebra) sum(x, y flow) flow {
	return flow{a.union(x.may, y.may), a.union(x.sure, y.sure)}
}

// part is what a binding takes of a flow; sure: nothing but the key decides.
func (a *algebra) part(f flow, k *Keys, sure bool) flow {
	p := flow{a.intersect(f.may, k), a.none}
	switch {
	case !sure:
	case f.sure == f.may:
		p.sure = p.may
	default:
		p.sure = a.intersect(f.sure, k)
	}
	return p
}

// rest is what a flow keeps when bindings that certainly take one set and possibly
// take another have had theirs.
func (a *algebra) rest(f flow, certainly, possibly *Keys) flow {
	rest := flow{may: a.minus(f.may, certainly)}
	if f.sure == f.may && certainly == possibly {
		rest.sure = rest.may
		return rest
	}
	rest.sure = a.minus(f.sure, possibly)
	return rest
}

// step hands a flow on from an exchange: take is called for each binding that can
// take some of it, else for the alternate exchange (nil when there is none) with
// what no binding takes.
func (r *router) step(x *exchange, f flow, cc string, w *view, take func(b *topology.Binding, f flow), rest func(to *exchange, f flow)) {
	all := func(i int, sure bool) { take(x.bindings[i], r.part(f, r.all, sure)) }
	certainly, possibly := r.none, r.none
	switch x.kind {
	case fanout, oneOf, unknownKind:
		for i := range x.bindings {
			all(i, x.kind == fanout || x.kind == oneOf && len(x.bindings) == 1)
		}
		if len(x.bindings) > 0 {
			possibly = r.all
			if x.kind != unknownKind {
				certainly = r.all
			}
		}
	case headers:
		for i, b := range x.bindings {
			switch w.match(b) {
			case always:
				all(i, true)
				certainly, possibly = r.all, r.all
			case perhaps:
				all(i, false)
				possibly = r.all
			}
		}
	case direct, topic:
		byCC := map[int]bool{}
		for _, key := range (class{cc: cc}).ccKeys() {
			for _, i := range x.keyed(key) {
				byCC[i] = true
			}
		}
		// One key needs no set of a pattern, which may be wide.
		key, single := f.may.only()
		if single {
			for _, i := range x.keyed(key) {
				byCC[i] = true
			}
		}
		var list []int
		if single {
			list = slices.Sorted(maps.Keys(byCC))
		} else {
			list = r.meeting(x, f.may, byCC)
		}
		for _, i := range list {
			if byCC[i] {
				all(i, true)
				continue
			}
			take(x.bindings[i], r.part(f, r.pattern(x, i), true))
		}
		switch {
		case len(byCC) > 0:
			certainly, possibly = r.all, r.all
		case !single && x.hasAlternate:
			certainly = r.matched(x)
			possibly = certainly
		}
	}
	if !x.hasAlternate {
		return
	}
	if to := r.exchange(x.alternate); to != nil {
		if left := r.rest(f, certainly, possibly); !left.none() {
			rest(to, left)
		}
	}
}

// keyed lists the bindings of a direct or topic exchange that take one key.
func (x *exchange) keyed(key string) []int {
	if x.kind == topic {
		return x.trie.match(key)
	}
	return x.byKey[key]
}

// meeting lists the bindings of a direct or topic exchange that take some of the
// keys, and those in more, in order.
func (r *router) meeting(x *exchange, k *Keys, more map[int]bool) []int {
	var list []int
	if x.kind == topic {
		list = x.trie.meeting(k, &r.left)
	} else {
		keys, finite := k.few(maxNamed)
		if !finite {
			keys, _ = r.intersect(k, r.matched(x)).Some(len(x.byKey))
		}
		for _, key := range keys {
			list = append(list, x.byKey[key]...)
		}
	}
	for i := range more {
		list = append(list, i)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// matched is the set of keys that some binding of a direct or topic exchange takes.
func (r *router) matched(x *exchange) *Keys {
	if x.matched == nil {
		if x.kind == direct {
			keys := make([]string, 0, len(x.byKey))
			for key := range x.byKey {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			x.matched = r.literals(keys)
		} else {
			raw, ok := x.trie.determine(&r.left)
			if ok {
				x.matched = r.intern(raw, false)
			} else {
				x.matched = r.tooCostly(r.all)
			}
		}
	}
	return x.matched
}

// Target is a queue that messages can come to.
type Target struct {
	Queue string
	// Keys are the routing keys of the messages that can come there; Certain are
	// those of which all certainly do. A message that came by a CC key counts under
	// its routing key.
	Keys, Certain *Keys

	from *arrival
	by   *topology.Binding // nil at the default exchange
	more []flow            // what came by other ways, until the spread is done
}

// Path is the first way found.
func (t *Target) Path() []Step {
	path := []Step{{Exchange: t.from.x.name, Binding: t.by}}
	for a := t.from; a.from != nil; a = a.from {
		path = append(path, a.step)
	}
	slices.Reverse(path)
	return path
}

// Reach is where the messages of a set can go.
type Reach struct {
	// Targets are in the order found.
	Targets []Target
	// Open: the way leads through something of which not all is known, so that they
	// may go elsewhere too.
	Open bool
	// Missing: the exchange itself does not exist.
	Missing bool

	byQueue map[string]int // where there are many
}

// Target finds what comes to a queue; nil: nothing does.
func (r *Reach) Target(queue string) *Target {
	if r.byQueue != nil {
		if i, ok := r.byQueue[queue]; ok {
			return &r.Targets[i]
		}
		return nil
	}
	for i := range r.Targets {
		if r.Targets[i].Queue == queue {
			return &r.Targets[i]
		}
	}
	return nil
}

// add appends a target.
func (r *Reach) add(t Target) {
	r.Targets = append(r.Targets, t)
	switch n := len(r.Targets); {
	case r.byQueue != nil:
		r.byQueue[t.Queue] = n - 1
	case n > 8:
		r.byQueue = make(map[string]int, 2*n)
		for i := range r.Targets {
			r.byQueue[r.Targets[i].Queue] = i
		}
	}
}

// Certainly reports whether some of the messages certainly come to the queue.
func (r *Reach) Certainly(queue string) bool {
	t := r.Target(queue)
	return t != nil && !t.Certain.Empty()
}

// Nowhere reports whether the messages certainly come to no queue.
func (r *Reach) Nowhere() bool { return len(r.Targets) == 0 && !r.Open }

// spreadKey names a spread; sets and views are compared by their pointers.
type spreadKey struct {
	exchange string
	class    class
	view     *view
}

// maxTargets is how many targets all spreads together list exactly. Where every queue
// leads to every other there would be the square of their number.
const maxTargets = 1 << 20

// maxVisits is how many exchanges all spreads together visit, some seconds' worth.
// Where thousands of exchanges lead to each other there would be the square of their
// number. What is asked beyond may go anywhere.
const maxVisits = 1 << 21

// spread follows a set of messages from an exchange. Exchanges are visited in the
// order of router.sort, so that each is visited once where there are no circles.
func (r *router) spread(from string, c class, w *view) *Reach {
	key := spreadKey{from, c, w}
	if known, ok := r.spreads[key]; ok {
		return known
	}
	if r.visits > maxVisits {
		r.rough = true
		reach := &Reach{Open: true}
		r.spreads[key] = reach
		return reach
	}
	begin := flow{c.keys, c.keys}
	if r.spent > maxTargets {
		// From here on one answer for all keys must do.
		rough := spreadKey{from, class{r.tooCostly(r.all), c.cc}, w}
		if rough != key {
			reach := r.spread(rough.exchange, rough.class, w)
			r.spreads[key] = reach
			return reach
		}
		begin.sure = r.none
	}
	reach := &Reach{}
	r.spreads[key] = reach
	start := r.exchange(from)
	if start == nil {
		reach.Missing = true
		return reach
	}
	s := spreading{router: r, reach: reach, at: map[*exchange]*arrival{}, cc: c.cc, view: w}
	s.arrive(start, begin, nil, Step{})
	s.run()
	return reach
}

// spreading is one run of spread.
type spreading struct {
	*router
	reach *Reach
	at    map[*exchange]*arrival
	todo  byOrder
	cc    string
	view  *view
}

// run follows what has arrived.
func (s *spreading) run() {
	for len(s.todo) > 0 {
		x := heap.Pop(&s.todo).(*exchange)
		a := s.at[x]
		a.queued = false
		s.visit(x, a)
		s.visits++
	}
	for i := range s.reach.Targets {
		s.gather(&s.reach.Targets[i])
	}
}

// arrival is what has come to an exchange.
type arrival struct {
	flow
	x      *exchange
	from   *arrival
	step   Step
	queued bool
}

func (s *spreading) arrive(x *exchange, f flow, from *arrival, by Step) {
	a, ok := s.at[x]
	if !ok {
		a = &arrival{flow: flow{s.none, s.none}, x: x, from: from, step: by}
		s.at[x] = a
	}
	sum := s.sum(a.flow, f)
	if sum == a.flow && ok {
		return
	}
	a.flow = sum
	if !a.queued {
		a.queued = true
		heap.Push(&s.todo, x)
	}
}

func (s *spreading) deliver(queue string, f flow, from *arrival, by *topology.Binding) {
	t := s.reach.Target(queue)
	if t == nil {
		s.reach.add(Target{Queue: queue, Keys: f.may, Certain: f.sure, from: from, by: by})
		s.spent++
		return
	}
	t.more = append(t.more, f)
}

// gather unites what came to a queue by all ways: one by one, thousands of bindings
// of one queue would take the square of their number.
func (s *spreading) gather(t *Target) {
	if len(t.more) == 0 {
		return
	}
	may, sure := []*Keys{t.Keys}, []*Keys{t.Certain}
	for _, f := range t.more {
		may, sure = append(may, f.may), append(sure, f.sure)
	}
	t.more = nil
	t.Keys = s.unions(may)
	if t.Certain = t.Keys; !slices.Equal(may, sure) {
		t.Certain = s.unions(sure)
	}
}

func (s *spreading) visit(x *exchange, a *arrival) {
	s.reach.Open = s.reach.Open || x.open || x.kind == unknownKind
	if x.name == "" {
		if a.from == nil {
			s.byName(a)
		}
		return
	}
	s.step(x, a.flow, s.cc, s.view, func(b *topology.Binding, f flow) {
		by := Step{Exchange: x.name, Binding: b}
		if b.DestinationType == topology.ToExchange {
			if to := s.exchange(b.Destination); to != nil {
				s.arrive(to, f, a, by)
			}
			return
		}
		s.deliver(b.Destination, f, a, b)
	}, func(to *exchange, f flow) {
		s.arrive(to, f, a, Step{Exchange: x.name, Alternate: true})
	})
}

// byName delivers at the default exchange: to the queue that a key names.
func (s *spreading) byName(a *arrival) {
	whole := flow{a.may, a.may}
	for _, key := range (class{cc: s.cc}).ccKeys() {
		if s.isQueue(key) {
			s.deliver(key, whole, a, nil)
		}
	}
	// All names that are among the keys; external names are not all known.
	keys, finite := a.may.few(maxNamed)
	if !finite {
		keys, _ = s.intersect(a.may, s.names).Some(len(s.queues))
		s.reach.Open = s.reach.Open || len(s.vhost.External) > 0
	}
	for _, key := range keys {
		if s.isQueue(key) {
			k := s.literal(key)
			s.deliver(key, flow{k, k}, a, nil)
		}
	}
}

// maxNamed is up to how many keys are looked up one by one.
const maxNamed = 64

// byOrder is a heap of exchanges.
type byOrder []*exchange

func (h byOrder) Len() int           { return len(h) }
func (h byOrder) Less(i, j int) bool { return h[i].order < h[j].order }
func (h byOrder) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byOrder) Push(x any)        { *h = append(*h, x.(*exchange)) }
func (h *byOrder) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
