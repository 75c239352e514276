package validate

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// keyKind says what is known of a routing key.
type keyKind int

const (
	literal keyKind = iota // exactly this key
	pattern                // keys that match this topic pattern
	anyKey                 // nothing is known
)

// routingKey is what is known of the keys of some messages.
type routingKey struct {
	kind keyKind
	text string
}

type reachKey struct {
	exchange string
	key      routingKey
}

// reach is where messages can end up.
type reach struct {
	// queues are those that messages can get to, in the order found.
	queues []string
	// certain are those that no header and no unknown exchange type can keep them
	// from: at least one of the keys in question gets there.
	certain map[string]bool
	// open says that the way leads through something that the spec does not
	// describe, so that more may be reached.
	open bool
}

func (r reach) nowhere() bool { return len(r.queues) == 0 && !r.open }

// route is the dead-letter route in effect on a queue.
type route struct {
	exchange string
	fixed    bool   // key is set; otherwise messages keep their own
	key      string // where fixed
}

// route returns the dead-letter route in effect on a version.
func (s *state) route(q *topology.Queue, v catalog.Version) (route, bool) {
	set := s.effective(q, v)
	exchange, ok := set.text("dead-letter-exchange")
	if !ok {
		return route{}, false
	}
	key, fixed := set.text("dead-letter-routing-key")
	return route{exchange: exchange, key: key, fixed: fixed}, true
}

// reaches returns where the dead letters of a queue can end up.
func (s *state) reaches(q *topology.Queue, r route) reach {
	if r.fixed {
		return s.reach(r.exchange, routingKey{literal, r.key})
	}
	total := reach{certain: map[string]bool{}}
	for _, k := range s.keysInto(q) {
		one := s.reach(r.exchange, k)
		for _, name := range one.queues {
			if !slices.Contains(total.queues, name) {
				total.queues = append(total.queues, name)
			}
			total.certain[name] = total.certain[name] || one.certain[name]
		}
		total.open = total.open || one.open
	}
	return total
}

// keysInto is what is known of the keys with which messages come into a queue.
// It leaves out what publishers add with CC.
func (s *state) keysInto(q *topology.Queue) []routingKey {
	var keys []routingKey
	for _, b := range s.index.To[topology.End{Type: topology.ToQueue, Name: q.Name}] {
		k := routingKey{kind: anyKey}
		switch s.exchangeType(b.Source) {
		case "direct":
			k = routingKey{literal, b.RoutingKey}
		case "topic":
			k = routingKey{literal, b.RoutingKey}
			if isPattern(b.RoutingKey) {
				k.kind = pattern
			}
		}
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	own := routingKey{literal, q.Name}
	// A consumer's copies come back through the default exchange.
	if len(keys) == 0 || intent(q).Retry != nil && len(intent(q).Retry.Delays) > 0 && !slices.Contains(keys, own) {
		keys = append(keys, own)
	}
	return keys
}

// exchangeType is the type of an exchange, "" when it is unknown.
func (s *state) exchangeType(name string) string {
	if t := builtIn[name]; t != "" {
		return t
	}
	if e, _ := s.exchange(name); e != nil {
		return e.Type
	}
	return ""
}

// alternate is the alternate exchange in effect, and in brackets which policy
// sets it. Policies act alike on exchanges in all versions.
func (s *state) alternate(e *topology.Exchange) (name, from string, ok bool) {
	set := s.policySet(s.newest())
	in := settings(set.EffectiveExchange(e, set.Exchange(e.Name)))
	name, ok = in.text("alternate-exchange")
	return name, in.from("alternate-exchange"), ok
}

// reach follows messages with a key from an exchange. Every exchange is visited
// at most twice, however many paths there are.
func (s *state) reach(exchange string, key routingKey) reach {
	cacheKey := reachKey{exchange, key}
	if known, ok := s.reached[cacheKey]; ok {
		return known
	}
	w := walk{state: s, key: key, seen: map[string]int{}}
	w.certain = map[string]bool{}
	w.exchange(exchange, true)
	for len(w.next) > 0 {
		step := w.next[0]
		w.next = w.next[1:]
		w.exchange(step.exchange, step.certain)
	}
	s.reached[cacheKey] = w.reach
	return w.reach
}

type walk struct {
	*state
	reach
	key  routingKey
	seen map[string]int
	next []step
}

type step struct {
	exchange string
	certain  bool
}

func (w *walk) add(queue string, certain bool) {
	if _, known := w.reach.certain[queue]; !known {
		w.queues = append(w.queues, queue)
	}
	w.reach.certain[queue] = w.reach.certain[queue] || certain
}

func (w *walk) exchange(name string, certain bool) {
	level := 1
	if certain {
		level = 2
	}
	if w.seen[name] >= level {
		return
	}
	w.seen[name] = level
	if name == "" {
		w.defaultExchange(certain)
		return
	}
	e, known := w.state.exchange(name)
	if known == missing {
		return
	}
	if known != declared {
		w.open = true
	}
	bindings, sure := w.matching(name)
	for _, b := range bindings {
		if b.DestinationType == topology.ToExchange {
			w.next = append(w.next, step{b.Destination, certain && sure})
			continue
		}
		if _, there := w.state.queue(b.Destination); there != missing {
			w.add(b.Destination, certain && sure)
		}
	}
	if e == nil || len(bindings) > 0 && sure && w.key.kind == literal {
		return
	}
	if ae, _, ok := w.alternate(e); ok {
		w.next = append(w.next, step{ae, certain && len(bindings) == 0})
	}
}

// defaultExchange routes to the queue of the key's name.
func (w *walk) defaultExchange(certain bool) {
	switch w.key.kind {
	case literal:
		q, known := w.state.queue(w.key.text)
		switch {
		case q != nil:
			w.add(w.key.text, certain)
		case known != missing:
			w.open = true
		}
	case pattern:
		for _, q := range w.vhost.Queues {
			if topicMatches(w.key.text, q.Name) {
				w.add(q.Name, certain)
			}
		}
		w.open = w.open || len(w.vhost.External) > 0
	default:
		w.open = true
	}
}

// matching lists the bindings of an exchange that can take messages with the
// key; sure says that they certainly do for one of the keys in question.
func (w *walk) matching(name string) (bindings []*topology.Binding, sure bool) {
	all := w.index.From[name]
	switch w.exchangeType(name) {
	case "fanout":
		return all, true
	case "direct":
		switch w.key.kind {
		case literal:
			return w.directBindings(name)[w.key.text], true
		case pattern:
			return keep(all, func(b *topology.Binding) bool { return topicMatches(w.key.text, b.RoutingKey) }), true
		}
	case "topic":
		switch w.key.kind {
		case literal:
			return keep(all, func(b *topology.Binding) bool { return topicMatches(b.RoutingKey, w.key.text) }), true
		case pattern:
			return keep(all, func(b *topology.Binding) bool { return patternsMeet(b.RoutingKey, w.key.text) }), true
		}
	}
	return all, false
}

func (s *state) directBindings(exchange string) map[string][]*topology.Binding {
	table, ok := s.direct[exchange]
	if !ok {
		table = map[string][]*topology.Binding{}
		for _, b := range s.index.From[exchange] {
			table[b.RoutingKey] = append(table[b.RoutingKey], b)
		}
		s.direct[exchange] = table
	}
	return table
}

func keep(all []*topology.Binding, want func(*topology.Binding) bool) []*topology.Binding {
	var kept []*topology.Binding
	for _, b := range all {
		if want(b) {
			kept = append(kept, b)
		}
	}
	return kept
}

// isPattern reports whether a topic binding key has a word * or #.
func isPattern(key string) bool {
	return slices.ContainsFunc(strings.Split(key, "."), func(w string) bool { return w == "*" || w == "#" })
}

// topicMatches reports whether a routing key matches a topic pattern: * stands
// for one word, # for any number of words.
func topicMatches(pattern, key string) bool {
	if !strings.ContainsAny(pattern, "*#") {
		return pattern == key
	}
	return wordsMeet(strings.Split(pattern, "."), strings.Split(key, "."), false)
}

// patternsMeet reports whether some key matches both topic patterns.
func patternsMeet(a, b string) bool {
	return wordsMeet(strings.Split(a, "."), strings.Split(b, "."), true)
}

// wordsMeet fills one row per word of a; both says that b is a pattern too.
func wordsMeet(a, b []string, both bool) bool {
	row := make([]bool, len(b)+1)
	row[0] = true
	for j, w := range b {
		row[j+1] = row[j] && both && w == "#"
	}
	for _, w := range a {
		above := row
		row = make([]bool, len(b)+1)
		row[0] = above[0] && w == "#"
		for j, x := range b {
			switch {
			case w == "#":
				row[j+1] = above[j+1] || row[j]
			case both && x == "#":
				row[j+1] = row[j] || above[j+1]
			default:
				row[j+1] = above[j] && (w == x || w == "*" || both && x == "*")
			}
		}
	}
	return row[len(b)]
}
