package export

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
)

// waits are the wait queues of one queue.
type waits struct {
	delays []time.Duration // ascending, each once
	queues []*topology.Queue
	names  string // template of several; empty: the usual names
	// cycle says that the queue's own dead-letter route leads into the only one.
	cycle bool
}

// write is the part of retry that makes them.
func (w *waits) write(q *topology.Queue) table {
	var t, queue table
	list := make(sequence, len(w.delays))
	for i, d := range w.delays {
		list[i] = text(specs.FormatDuration(d))
	}
	t.add("delays", list)
	if w.cycle {
		t.add("mechanism", text(string(topology.MechanismRejectCycle)))
	}
	switch {
	case w.names != "":
		queue.add("names", text(w.names))
	case len(w.queues) == 1 && w.queues[0].Name != q.Name+".retry":
		queue.add("name", text(w.queues[0].Name))
	}
	if w.queues[0].Type != q.Type {
		queue.add("type", text(string(w.queues[0].Type)))
	}
	if len(queue) > 0 {
		t.add("wait_queue", queue)
	}
	return t
}

// waitWord finds names of queues in which messages only wait.
var waitWord = regexp.MustCompile(`(?i)(^|[^\pL])(retry|retries|wait|waiting|delay|delayed|later|backoff)([^\pL]|$)`)

// maxDelay is the longest time that brokers take, in milliseconds.
const maxDelay = 315_360_000_000

// waitsFor names the queue to which a queue gives all its messages back after a
// fixed time, as retry makes it; empty: none. Bound to nothing, such a queue gets
// only what is published to it by name or dead-lettered into it.
func (h *host) waitsFor(w *topology.Queue) string {
	back, _ := w.Arguments["x-dead-letter-routing-key"].(string)
	ttl, _ := w.Arguments["x-message-ttl"].(int64)
	want := topology.Arguments{"x-message-ttl": ttl, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
	if w.Type == topology.Quorum {
		want["x-dead-letter-strategy"], want["x-overflow"] = "at-least-once", "reject-publish"
	}
	if back == w.Name || h.index.Queues[back] == nil || ttl < 1 || ttl > maxDelay || !want.Equal(w.Arguments) ||
		h.forms[w.Name] >= plainly || h.forms[back] >= plainly || len(h.plans[w.Name].rest) > 0 || h.policies[w.Name] != nil ||
		len(h.index.To[topology.End{Type: topology.ToQueue, Name: w.Name}]) > 0 || !w.Durable || w.AutoDelete {
		return ""
	}
	return back
}

// foldWaitQueues finds the wait queues of each queue.
func (h *host) foldWaitQueues() {
	// What dead letters are sent to by name waits for somebody, unless they come
	// from the queue to which it leads back.
	from := map[string][]string{}
	for _, q := range h.source.Queues {
		p := h.plans[q.Name]
		if key, ok := p.settings["dead-letter-routing-key"].(string); ok && p.settings["dead-letter-exchange"] == "" {
			from[key] = append(from[key], q.Name)
		}
	}
	of := map[string][]*topology.Queue{}
	for _, w := range h.source.Queues {
		back := h.waitsFor(w)
		makers := slices.DeleteFunc(slices.Clone(from[w.Name]), func(n string) bool { return n == back })
		cycle := slices.Contains(from[w.Name], back)
		if back != "" && len(makers) == 0 && (cycle || strings.Contains(w.Name, back) || waitWord.MatchString(w.Name)) {
			of[back] = append(of[back], w)
		}
	}
	for _, q := range h.source.Queues {
		list := of[q.Name]
		if len(list) == 0 || h.waitsFor(q) != "" && of[h.waitsFor(q)] != nil {
			continue
		}
		w := h.foldWaits(q, list, slices.ContainsFunc(list, func(w *topology.Queue) bool { return slices.Contains(from[w.Name], q.Name) }))
		if w == nil {
			continue
		}
		h.plans[q.Name].waits = w
		for _, queue := range w.queues {
			h.hide(queue.Key(), q.Name)
		}
	}
}

// foldWaits chooses those of a queue's wait queues that one retry can make; nil:
// none. cycle says that the queue's own route leads into one.
func (h *host) foldWaits(q *topology.Queue, list []*topology.Queue, cycle bool) *waits {
	if cycle {
		if len(list) > 1 || !h.isRejectCycle(q) {
			return nil
		}
		return &waits{delays: []time.Duration{delayOf(list[0])}, queues: list, cycle: true}
	}
	// The usual names first, then those of the queue's own type.
	rank := func(w *topology.Queue) int {
		switch {
		case w.Type != q.Type:
			return 2
		case w.Name != q.Name+".retry" && w.Name != q.Name+".retry."+specs.FormatDuration(delayOf(w)):
			return 1
		}
		return 0
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *topology.Queue) int { return rank(a) - rank(b) })
	w := &waits{}
	for _, queue := range list {
		if d := delayOf(queue); queue.Type == list[0].Type && !slices.Contains(w.delays, d) {
			w.delays, w.queues = append(w.delays, d), append(w.queues, queue)
		}
	}
	slices.Sort(w.delays)
	slices.SortFunc(w.queues, func(a, b *topology.Queue) int { return int(min(max(delayOf(a)-delayOf(b), -1), 1)) })
	if len(w.queues) == 1 {
		return w
	}
	if w.named(q, "{queue}.retry.{delay}") {
		return w
	}
	for _, template := range w.templates(q) {
		if w.named(q, template) {
			w.names = template
			return w
		}
	}
	return nil
}

func delayOf(w *topology.Queue) time.Duration {
	ttl, _ := w.Arguments["x-message-ttl"].(int64)
	return time.Duration(ttl) * time.Millisecond
}

// named reports whether the template gives every wait queue its name.
func (w *waits) named(q *topology.Queue, template string) bool {
	for i, queue := range w.queues {
		r := strings.NewReplacer("{queue}", q.Name, "{name}", q.Name, "{delay}", specs.FormatDuration(w.delays[i]), "{n}", strconv.Itoa(i+1))
		if r.Replace(template) != queue.Name {
			return false
		}
	}
	return true
}

// templates are guesses at how the names were made, from the first of them.
func (w *waits) templates(q *topology.Queue) []string {
	first := w.queues[0].Name
	bases := []string{first}
	if q.Name != "" && strings.Contains(first, q.Name) {
		bases = []string{strings.Replace(first, q.Name, "{queue}", 1), first}
	}
	var all []string
	for _, base := range bases {
		for _, p := range [][2]string{{specs.FormatDuration(w.delays[0]), "{delay}"}, {"1", "{n}"}} {
			for i := strings.LastIndex(base, p[0]); i >= 0; i = strings.LastIndex(base[:i], p[0]) {
				all = append(all, base[:i]+p[1]+base[i+len(p[0]):])
			}
		}
	}
	return all
}

// isRejectCycle reports whether a queue's settings are those of the mechanism
// reject-cycle: nothing but a reject sends a message into the wait queue.
func (h *host) isRejectCycle(q *topology.Queue) bool {
	p := h.plans[q.Name]
	for _, s := range []string{"message-ttl", "max-length", "max-length-bytes", "dead-letter-strategy"} {
		if _, set := p.settings[s]; set {
			return false
		}
	}
	if len(p.rest) > 0 || p.by["dead-letter-exchange"] != p.by["dead-letter-routing-key"] || h.forms[q.Name] >= unrouted {
		return false
	}
	limit, limited := p.settings["delivery-limit"]
	if q.Type != topology.Quorum || !h.version.IsZero() && h.version.Below(catalog.V(4, 0)) {
		return !limited
	}
	return limit == int64(-1) && p.by["delivery-limit"] == topology.ByPolicy
}
