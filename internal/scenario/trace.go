package scenario

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// Result is what became of every message.
type Result struct {
	Messages []*Message
	Lost     int // messages of which a copy is gone without an acknowledgement
}

// Message is the path of one message, its copies by consumers included.
type Message struct {
	ID     string
	Events []Event
	// End says in words where it is now.
	End  string
	Lost bool

	deliveries, acknowledged, gone int
}

// Event is one thing that happened to a message, at a time after the beginning.
type Event struct {
	After time.Duration
	Kind  string
	Text  string
}

type trace struct {
	mu    sync.Mutex
	begin time.Time
	all   []*Message
	byID  map[string]*Message
}

func newTrace() *trace { return &trace{byID: map[string]*Message{}} }

func (t *trace) note(e simulator.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.byID[e.ID]
	if m == nil {
		m = &Message{ID: e.ID}
		t.byID[e.ID] = m
		t.all = append(t.all, m)
	}
	switch e.Kind {
	case simulator.EventDelivered:
		m.deliveries++
	case simulator.EventAcknowledged:
		m.acknowledged++
	case simulator.EventDeleted, simulator.EventUnroutable, simulator.EventRefused:
		m.gone++
	}
	m.Events = append(m.Events, Event{After: e.At.Sub(t.begin), Kind: string(e.Kind), Text: words(e)})
}

func words(e simulator.Event) string {
	to := fmt.Sprintf("exchange %q with key %q", e.Exchange, e.RoutingKey)
	if e.Exchange == "" {
		to = fmt.Sprintf("the default exchange with key %q", e.RoutingKey)
	}
	because := ""
	if e.Reason != "" {
		because = " (" + e.Reason + ")"
	}
	switch e.Kind {
	case simulator.EventPublished:
		return "published to " + to
	case simulator.EventUnroutable:
		return "LOST: " + e.Reason
	case simulator.EventQueued:
		return fmt.Sprintf("in queue %q", e.Queue)
	case simulator.EventRefused:
		return fmt.Sprintf("refused by queue %q%s", e.Queue, because)
	case simulator.EventDelivered:
		return fmt.Sprintf("delivered from %q", e.Queue)
	case simulator.EventAcknowledged:
		return fmt.Sprintf("acknowledged to %q%s", e.Queue, because)
	case simulator.EventRejected:
		return fmt.Sprintf("rejected to %q", e.Queue)
	case simulator.EventReturned:
		return fmt.Sprintf("back in %q%s", e.Queue, because)
	case simulator.EventWaiting:
		return fmt.Sprintf("waits in %q: %s", e.Queue, e.Reason)
	case simulator.EventDeadLettered:
		return fmt.Sprintf("dead-lettered from %q%s to %s", e.Queue, because, to)
	case simulator.EventDeleted:
		return fmt.Sprintf("LOST from %q: %s", e.Queue, e.Reason)
	}
	return string(e.Kind)
}

// lost counts messages of which something is gone.
func (t *trace) lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, m := range t.all {
		if m.gone > 0 {
			n++
		}
	}
	return n
}

func (t *trace) result(places map[string][]string) *Result {
	n := t.lost()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Result{Messages: t.all, Lost: n}
	for _, m := range t.all {
		m.End, m.Lost = m.end(places[m.ID]), m.gone > 0
	}
	return r
}

func (m *Message) end(in []string) string {
	var parts []string
	if m.gone > 0 {
		parts = append(parts, "LOST")
	}
	if len(in) > 0 {
		quoted := make([]string, len(in))
		for i, q := range in {
			quoted[i] = fmt.Sprintf("%q", q)
		}
		parts = append(parts, "in "+strings.Join(quoted, ", "))
	}
	if len(parts) == 0 {
		return "acknowledged"
	}
	return strings.Join(parts, ", also ")
}

// Text writes the paths; messages with the same path stand together.
func (r *Result) Text() string {
	type group struct {
		ids  []string
		body string
	}
	var groups []*group
	at := map[string]*group{}
	ends := map[string]int{}
	for _, m := range r.Messages {
		var b strings.Builder
		for _, e := range m.Events {
			fmt.Fprintf(&b, "  %8s  %s\n", e.After, text.Line(e.Text))
		}
		fmt.Fprintf(&b, "  %8s  %s\n", "end", text.Line(m.End))
		ends[m.End]++
		g := at[b.String()]
		if g == nil {
			g = &group{body: b.String()}
			at[g.body] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, m.ID)
	}
	var out strings.Builder
	for _, g := range groups {
		out.WriteString(text.Line(g.ids[0]))
		if n := len(g.ids) - 1; n > 0 {
			fmt.Fprintf(&out, " and %d more", n)
		}
		out.WriteString("\n" + g.body + "\n")
	}
	fmt.Fprintf(&out, "%s", text.Plural(len(r.Messages), "message", "messages"))
	var words []string
	for end := range ends {
		words = append(words, end)
	}
	slices.Sort(words)
	for i, end := range words {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&out, "%s%d %s", sep, ends[end], text.Line(end))
	}
	out.WriteString("\n")
	return out.String()
}
