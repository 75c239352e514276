package export

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
	display "github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
)

// queuePlan is how one queue is written.
type queuePlan struct {
	settings map[string]any         // by canonical name
	by       map[string]topology.By // of each of them
	rest     topology.Arguments     // what stays under arguments
	unknown  []string
	waits    *waits // its wait queues; nil: none
	// via is the dead-letter queue behind the dead-letter exchange; nil: none.
	via        *topology.Binding
	categories table
	role       topology.Role
	// hides are written policies over which the generated one has its way.
	hides []string
}

// prepare works out the short forms that are left.
func (h *host) prepare() {
	h.byFold, h.hidden = map[topology.Key][]string{}, map[topology.Key]bool{}
	h.from = nil
	h.policies, h.plans, h.fill = map[string]*topology.Policy{}, map[string]*queuePlan{}, map[string]bool{}
	h.priority = h.usualPriority()
	for _, p := range h.source.Policies {
		q := h.index.Queues[strings.TrimPrefix(p.Name, generatedPrefix)]
		if q == nil || p.Name != generatedPrefix+q.Name || h.forms[q.Name] == rawly || p.Priority != h.priority ||
			p.Pattern != "^"+regexp.QuoteMeta(q.Name)+"$" || !isPolicyOf(p, q) {
			continue
		}
		h.policies[q.Name] = p
		h.hide(p.Key(), q.Name)
	}
	for _, q := range h.source.Queues {
		h.plans[q.Name] = h.planQueue(q)
	}
	h.foldWaitQueues()
	h.foldCategories()
	h.foldVia()
	h.foldRoles()
	h.foldHides()
}

// hide says that a queue's short form stands for an object.
func (h *host) hide(k topology.Key, queue string) {
	h.hidden[k] = true
	h.byFold[k] = append(h.byFold[k], queue)
}

// isPolicyOf reports whether every key can be written as a setting of the queue.
func isPolicyOf(p *topology.Policy, q *topology.Queue) bool {
	for key, v := range p.Definition {
		row := catalog.LookupPolicyKey(key)
		if row == nil || row.Exchange || row.CheckValue(v) != "" {
			return false
		}
		if _, both := q.Arguments[row.Argument]; both {
			return false
		}
	}
	return len(p.Definition) > 0
}

func (h *host) planQueue(q *topology.Queue) *queuePlan {
	p := &queuePlan{settings: map[string]any{}, by: map[string]topology.By{}, rest: topology.Arguments{}}
	for _, arg := range q.Arguments.Keys() {
		row := catalog.LookupArgument(arg)
		if row == nil || row.Exchange {
			p.unknown = append(p.unknown, arg)
		}
		if row == nil || row.Exchange || h.forms[q.Name] == rawly || row.CheckValue(q.Arguments[arg]) != "" {
			p.rest[arg] = q.Arguments[arg]
			continue
		}
		p.settings[row.Name], p.by[row.Name] = q.Arguments[arg], topology.ByArgument
	}
	if g := h.policies[q.Name]; g != nil {
		for key, v := range g.Definition {
			row := catalog.LookupPolicyKey(key)
			p.settings[row.Name], p.by[row.Name] = v, topology.ByPolicy
		}
	}
	return p
}

// mostly is what most queues have, so that it need not be written at each.
func (h *host) mostly() (t topology.QueueType, by topology.By) {
	types, ways := map[topology.QueueType]int{}, map[topology.By]int{}
	for _, q := range h.source.Queues {
		if h.hidden[q.Key()] {
			continue
		}
		types[q.Type]++
		for _, b := range ownWays(h.plans[q.Name]) {
			ways[b]++
		}
	}
	for _, candidate := range topology.QueueTypes {
		if types[candidate] > types[t] {
			t = candidate
		}
	}
	if types[t] < 2 {
		t = ""
	}
	by = topology.ByPolicy
	if ways[topology.ByArgument] > ways[topology.ByPolicy] {
		by = topology.ByArgument
	}
	return t, by
}

// ownWays are the ways that have to be said of a queue's settings: what can only
// be an argument needs no word.
func ownWays(p *queuePlan) map[string]topology.By {
	ways := map[string]topology.By{}
	for name, by := range p.by {
		if row := catalog.Lookup(name); row.PolicyKey != "" && (by == topology.ByPolicy || row.Effect != catalog.AtDeclaration) {
			ways[name] = by
		}
	}
	return ways
}

// usual is what the queues of the document take unless they say otherwise.
func (h *host) usual() table {
	t, by := h.mostly()
	var queue table
	if t != "" {
		queue.add("type", text(string(t)))
	}
	if by != topology.ByPolicy {
		queue.add("settings_by", text(string(by)))
	}
	return queue
}

func (h *host) defaults(queue table) table {
	var all table
	if len(queue) > 0 {
		all.add("queue", queue)
	}
	if h.priority != usualPriority {
		all.add("policy_priority", integer(h.priority))
	}
	return all
}

// written is one entry under queues.
type written struct {
	name   string
	family bool // stands for several queues
	table  table
}

func (h *host) queues() []written {
	var all []written
	for _, q := range h.source.Queues {
		if !h.hidden[q.Key()] {
			all = append(all, written{name: q.Name, table: h.queue(q)})
		}
	}
	return all
}

func (h *host) queue(q *topology.Queue) table {
	p := h.plans[q.Name]
	usual, way := h.mostly()
	var t table
	if q.Type != usual {
		t.add("type", text(string(q.Type)))
	}
	if p.role != "" {
		t.add("role", text(string(p.role)))
	}
	if !q.Durable {
		t.add("durable", boolean(false))
	}
	if q.AutoDelete {
		t.add("auto_delete", boolean(true))
	}
	if by := settingsBy(ownWays(p), way); by != nil {
		t.add("settings_by", by)
	}
	if len(p.hides) == 1 {
		t.add("hides_policy", text(p.hides[0]))
	} else if len(p.hides) > 1 {
		t.add("hides_policy", texts(p.hides))
	}
	if list := h.bindings(topology.End{Type: topology.ToQueue, Name: q.Name}); len(list) > 0 {
		t.add("bindings", list)
	}
	left := maps.Clone(p.settings)
	route := deadLetter(q, p, left)
	if retry := h.retry(q, p, left, route != nil); len(retry) > 0 {
		t.add("retry", retry)
	}
	if route != nil {
		t.add("dead_letter", route)
	}
	for _, s := range slices.Sorted(maps.Keys(left)) {
		row := catalog.Lookup(s)
		t.add(row.SpecKey(), settingValue(row, left[s]))
	}
	var rest table
	for _, arg := range p.rest.Keys() {
		rest.add(name(arg), raw(p.rest[arg]))
	}
	addArguments(&t, rest, p.unknown)
	return t
}

// settingsBy says how settings are sent where that is not the usual way; nil: it
// is.
func settingsBy(ways map[string]topology.By, usual topology.By) value {
	var other []string
	for s, by := range ways {
		if by != usual {
			other = append(other, s)
		}
	}
	slices.Sort(other)
	if len(other) == 0 {
		return nil
	}
	by := ways[other[0]]
	if len(other) == len(ways) {
		return text(string(by))
	}
	t := table{{"default", text(string(usual)), ""}}
	for _, s := range other {
		t.add(catalog.Lookup(s).SpecKey(), text(string(by)))
	}
	return t
}

// deadLetter takes the route out of the settings; nil: there is none.
func deadLetter(q *topology.Queue, p *queuePlan, left map[string]any) value {
	x, ok := left["dead-letter-exchange"].(string)
	if !ok || q.Type == topology.Stream {
		return nil
	}
	key, keyed := left["dead-letter-routing-key"].(string)
	if keyed && p.by["dead-letter-routing-key"] != p.by["dead-letter-exchange"] {
		return nil
	}
	delete(left, "dead-letter-exchange")
	delete(left, "dead-letter-routing-key")
	var t table
	switch {
	case p.waits != nil && p.waits.cycle:
		return nil // the wait queue
	case p.categories != nil:
		t.add("categories", p.categories)
	case p.via != nil:
		t.add("queue", text(p.via.Destination))
		t.add("via", text(x))
		if key != p.via.Destination {
			t.add("routing_key", text(key))
		}
	case x == "" && keyed:
		t.add("queue", text(key))
	default:
		t.add("exchange", text(x))
		if keyed {
			t.add("routing_key", text(key))
		}
	}
	if left["dead-letter-strategy"] == "at-least-once" && left["overflow"] == "reject-publish" && q.Type == topology.Quorum {
		delete(left, "dead-letter-strategy")
		delete(left, "overflow")
		t.add("strategy", text("at-least-once"))
	}
	if len(t) == 1 && x == "" && keyed {
		return t[0].value
	}
	return t
}

func (h *host) retry(q *topology.Queue, p *queuePlan, left map[string]any, route bool) table {
	var t table
	if p.waits != nil && p.waits.cycle {
		delete(left, "delivery-limit") // -1, without which the limit would end the cycle
	}
	// A limit is the number of attempts where the broker counts them, and means
	// nothing without a route.
	if n, ok := left["delivery-limit"].(int64); ok && n >= 0 && route && q.Type == topology.Quorum && h.forms[q.Name] < plainly {
		delete(left, "delivery-limit")
		t.add("max_attempts", integer(n+1))
	}
	if p.waits != nil {
		t = append(t, p.waits.write(q)...)
	}
	return t
}

// settingValue writes a value in the unit that reads best.
func settingValue(row *catalog.Setting, v any) value {
	n, ok := v.(int64)
	switch {
	case row.Name == "delivery-limit" && n == -1:
		return text("unlimited")
	case ok && n >= 0 && row.Value == catalog.Milliseconds && n < 1e13:
		return text(specs.FormatDuration(time.Duration(n) * time.Millisecond))
	case ok && n >= 0 && row.Value == catalog.Seconds && n < 1e10:
		return text(specs.FormatDuration(time.Duration(n) * time.Second))
	case ok && row.Value == catalog.Bytes:
		return size(n)
	}
	return raw(v)
}

func size(n int64) value {
	for _, u := range []struct {
		name string
		n    int64
	}{{"TiB", 1 << 40}, {"TB", 1e12}, {"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"kB", 1e3}} {
		if n > 0 && n%u.n == 0 {
			return scalar(string(integer(n/u.n)) + u.name)
		}
	}
	return integer(n)
}

// maxComments is how many objects the comments over a document name.
const maxComments = 20

// header writes the comments over the document.
func (h *host) header(b *strings.Builder, first bool) {
	if !first {
		b.WriteString("---\n")
	} else {
		b.WriteString(jsonschema.Modeline + "\n")
		from := "definitions of an unknown version"
		if !h.version.IsZero() {
			from = "RabbitMQ " + h.version.String()
		}
		b.WriteString("# Exported by rabbitctl from " + from + ".\n")
	}
	b.WriteString("# To fill in: stack, the name of the team or service that owns all this")
	if h.fill["owner"] {
		b.WriteString(";\n# owner at each queue with role dead-letter, who looks after it")
	}
	b.WriteString(".\n")
	if n := len(h.ofConnections); n > 0 {
		b.WriteString("# Left out: " + display.Plural(n, "queue", "queues") + " of connections, exclusive or named by the server.\n")
	}
	for i, d := range h.found {
		if i == maxComments {
			b.WriteString(fmt.Sprintf("# and %d more.\n", len(h.found)-i))
			break
		}
		b.WriteString("# Note: " + display.Line(d.Summary) + ".\n")
	}
}
