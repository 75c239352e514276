package export

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

const (
	// generatedPrefix begins the names of policies that rabbitctl makes of a
	// queue's settings.
	generatedPrefix = "rabbitctl:"
	// usualPriority is theirs unless the spec says another.
	usualPriority = 1000
)

// usualPriority is the priority that most generated policies have.
func (h *host) usualPriority() int64 {
	count := map[int64]int{}
	for _, p := range h.source.Policies {
		if name, ok := strings.CutPrefix(p.Name, generatedPrefix); ok && h.index.Queues[name] != nil {
			count[p.Priority]++
		}
	}
	usual := int64(usualPriority)
	for _, n := range slices.Sorted(maps.Keys(count)) {
		if count[n] > count[usual] {
			usual = n
		}
	}
	return usual
}

// foldCategories finds dead letters that are sorted by a header, as
// dead_letter.categories does it.
func (h *host) foldCategories() {
	users := map[string]int{}
	for _, p := range h.plans {
		if x, ok := p.settings["dead-letter-exchange"].(string); ok {
			users[x]++
		}
	}
	for _, q := range h.source.Queues {
		p := h.plans[q.Name]
		x, other := h.index.Exchanges[q.Name+".dead-letter"], h.index.Exchanges[q.Name+".dead-letter.otherwise"]
		_, keyed := p.settings["dead-letter-routing-key"]
		if x == nil || other == nil || keyed || p.settings["dead-letter-exchange"] != x.Name || h.forms[q.Name] >= unrouted || p.waits != nil && p.waits.cycle ||
			!isGenerated(x, "headers", topology.Arguments{"alternate-exchange": other.Name}) || !isGenerated(other, "fanout", nil) ||
			len(h.index.To[topology.End{Type: topology.ToExchange, Name: x.Name}]) > 0 || len(h.index.To[topology.End{Type: topology.ToExchange, Name: other.Name}]) > 0 {
			continue
		}
		t, bindings := h.categories(q, h.bindingsFrom(x.Name), h.bindingsFrom(other.Name))
		if t == nil {
			continue
		}
		p.categories = t
		h.hide(x.Key(), q.Name)
		h.hide(other.Key(), q.Name)
		for _, b := range bindings {
			h.hide(b.Key(), q.Name)
		}
	}
}

func isGenerated(x *topology.Exchange, kind string, args topology.Arguments) bool {
	return x.Type == kind && x.Durable && !x.AutoDelete && !x.Internal && args.Equal(x.Arguments)
}

// categories writes the routes; nil: they are not what categories make.
func (h *host) categories(q *topology.Queue, routes, otherwise []*topology.Binding) (table, []*topology.Binding) {
	if len(otherwise) != 1 || otherwise[0].RoutingKey != "" || len(otherwise[0].Arguments) > 0 {
		return nil, nil
	}
	header, names := "", map[string]*topology.Binding{}
	all := append(slices.Clone(routes), otherwise...)
	for _, b := range all {
		d := h.index.Queues[b.Destination]
		if b.DestinationType != topology.ToQueue || d == nil || d.Name == q.Name || h.forms[d.Name] != folded || !h.canBeDeadLetterQueue(d) {
			return nil, nil
		}
	}
	for _, b := range routes {
		if len(b.Arguments) != 2 || b.Arguments["x-match"] != "all-with-x" || b.RoutingKey != "" {
			return nil, nil
		}
		for _, k := range b.Arguments.Keys() {
			v, ok := b.Arguments[k].(string)
			if k == "x-match" {
				continue
			}
			if !ok || header != "" && header != k || names[v] != nil {
				return nil, nil
			}
			header, names[v] = k, b
		}
	}
	var t, list table
	if header != "" && header != usualHeader {
		t.add("header", text(header))
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		list.add(name(n), h.category(q, names[n].Destination, all))
	}
	t.add("routes", list)
	t.add("otherwise", h.category(q, otherwise[0].Destination, all))
	for _, b := range all {
		h.setRole(b.Destination)
	}
	return t, all
}

// category writes one route. A queue of which there is no more to say than its
// type stands there alone.
func (h *host) category(q *topology.Queue, queue string, routes []*topology.Binding) table {
	t := table{{"queue", text(queue), ""}}
	d, p := h.index.Queues[queue], h.plans[queue]
	for s, v := range p.settings {
		if s != "delivery-limit" || v != int64(-1) { // which the role takes in
			return t
		}
	}
	others := slices.ContainsFunc(h.index.To[topology.End{Type: topology.ToQueue, Name: queue}], func(b *topology.Binding) bool { return !slices.Contains(routes, b) })
	if others || !d.Durable || d.AutoDelete || len(p.rest) > 0 {
		return t
	}
	h.hide(d.Key(), q.Name)
	if g := h.policies[queue]; g != nil {
		h.hide(g.Key(), q.Name)
	}
	if d.Type != q.Type {
		t.add("type", text(string(d.Type)))
	}
	return t
}

// usualHeader carries the category unless the spec names another.
const usualHeader = "x-opt-dead-letter-category"

func (h *host) bindingsFrom(x string) []*topology.Binding {
	if h.from == nil {
		h.from = map[string][]*topology.Binding{}
		for _, b := range h.source.Bindings {
			h.from[b.Source] = append(h.from[b.Source], b)
		}
	}
	return h.from[x]
}

// foldVia finds dead-letter exchanges that bring a queue's dead letters to one
// queue by their key.
func (h *host) foldVia() {
	for _, q := range h.source.Queues {
		p := h.plans[q.Name]
		source, _ := p.settings["dead-letter-exchange"].(string)
		key, keyed := p.settings["dead-letter-routing-key"].(string)
		x := h.index.Exchanges[source]
		if x == nil || !keyed || h.hidden[q.Key()] || h.forms[q.Name] >= unrouted || p.by["dead-letter-routing-key"] != p.by["dead-letter-exchange"] ||
			x.Type != "direct" && (x.Type != "topic" || strings.ContainsAny(key, "*#")) {
			continue
		}
		var to []*topology.Binding
		for _, b := range h.bindingsFrom(source) {
			if b.RoutingKey == key || x.Type == "topic" && strings.ContainsAny(b.RoutingKey, "*#") {
				to = append(to, b)
			}
		}
		if len(to) != 1 || to[0].RoutingKey != key || to[0].DestinationType != topology.ToQueue || len(to[0].Arguments) > 0 || to[0].Destination == q.Name {
			continue
		}
		p.via = to[0]
		h.hide(to[0].Key(), q.Name)
	}
}

// foldRoles says which queues dead letters end in, and in which messages wait.
func (h *host) foldRoles() {
	for _, q := range h.source.Queues {
		p := h.plans[q.Name]
		if h.hidden[q.Key()] {
			continue
		}
		targets := h.targets(q)
		_, ttl := p.settings["message-ttl"]
		if ttl && p.role == "" && h.forms[q.Name] == folded && h.isWaiting(q, targets) {
			p.role = topology.RoleWait
			continue
		}
		for _, t := range targets {
			// What expires may go on to be worked on.
			d := h.index.Queues[t]
			dead := !ttl || deadWord.MatchString(t) || h.isBound(q) && !h.isBound(d)
			if dead && t != q.Name && h.forms[t] == folded && !h.hidden[d.Key()] && h.canBeDeadLetterQueue(d) {
				h.setRole(t)
			}
		}
	}
}

// deadWord finds names of queues in which dead letters end.
var deadWord = regexp.MustCompile(`(?i)dead|dl[qx]|fail|error|reject|poison|parking`)

// isWaiting reports whether messages only wait in a queue with a TTL: it is named
// so, or they come back to where they were given up.
func (h *host) isWaiting(q *topology.Queue, targets []string) bool {
	if slices.ContainsFunc(targets, func(t string) bool { return slices.Contains(h.targets(h.index.Queues[t]), q.Name) }) {
		return true
	}
	x, _ := h.plans[q.Name].settings["dead-letter-exchange"].(string)
	return waitWord.MatchString(q.Name) && !deadWord.MatchString(q.Name) && (len(targets) > 0 || len(h.bindingsFrom(x)) > 0)
}

// isBound reports whether bindings lead to a queue that are its own.
func (h *host) isBound(q *topology.Queue) bool {
	return slices.ContainsFunc(h.index.To[topology.End{Type: topology.ToQueue, Name: q.Name}], func(b *topology.Binding) bool { return !h.hidden[b.Key()] })
}

// targets are the queues to which a queue's dead letters go, as far as the
// default exchange, direct and fanout exchanges tell.
func (h *host) targets(q *topology.Queue) []string {
	p := h.plans[q.Name]
	source, set := p.settings["dead-letter-exchange"].(string)
	key, keyed := p.settings["dead-letter-routing-key"].(string)
	if set && source == "" && h.index.Queues[key] != nil {
		return []string{key}
	}
	x := h.index.Exchanges[source]
	if !set || x == nil || x.Type != "fanout" && (x.Type != "direct" || !keyed) {
		return nil
	}
	var all []string
	for _, b := range h.bindingsFrom(source) {
		if b.DestinationType == topology.ToQueue && h.index.Queues[b.Destination] != nil && (x.Type == "fanout" || b.RoutingKey == key) {
			all = append(all, b.Destination)
		}
	}
	return all
}

// canBeDeadLetterQueue reports whether the role changes nothing on the broker:
// it means no delivery limit, by policy. Where messages leave again somebody
// works on them.
func (h *host) canBeDeadLetterQueue(q *topology.Queue) bool {
	p := h.plans[q.Name]
	if _, onward := p.settings["dead-letter-exchange"]; onward || p.waits != nil {
		return false
	}
	limited := q.Type == topology.Quorum && (h.version.IsZero() || !h.version.Below(catalog.V(4, 0)))
	unlimited := p.role == topology.RoleDeadLetter || p.settings["delivery-limit"] == int64(-1) && p.by["delivery-limit"] == topology.ByPolicy
	return limited == unlimited || p.role == topology.RoleDeadLetter
}

func (h *host) setRole(queue string) {
	p := h.plans[queue]
	if p.settings["delivery-limit"] == int64(-1) && p.by["delivery-limit"] == topology.ByPolicy {
		delete(p.settings, "delivery-limit")
		delete(p.by, "delivery-limit")
	}
	p.role = topology.RoleDeadLetter
	h.fill["owner"] = true
}

// foldHides names the policies that a queue's generated policy hides: they are
// an error unless they are meant.
func (h *host) foldHides() {
	if len(h.policies) == 0 || len(h.policies) == len(h.source.Policies) {
		return
	}
	set := policy.New(h.version, h.source.Policies, nil)
	for _, q := range h.source.Queues {
		own := h.policies[q.Name]
		if own == nil {
			continue
		}
		for _, other := range set.Candidates(q.Name, q.Type).Policies {
			if h.policies[strings.TrimPrefix(other.Name, generatedPrefix)] != other && other.Priority < own.Priority {
				h.plans[q.Name].hides = append(h.plans[q.Name].hides, other.Name)
			}
		}
	}
}
