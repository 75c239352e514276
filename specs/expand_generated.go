package specs

import (
	"fmt"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// generated are the queues that others stand in need of.
type generated struct {
	queues map[string]*claim
	// by lists the names that are not written under queues:, by the queue that
	// first needed them.
	by map[*Queue][]string
}

// claim is one queue that another needs.
type claim struct {
	queue *Queue // as it is when it is not written under queues:
	// typed says that the type was asked for and not taken over.
	typed bool
	maker *Queue
	text  string
	// settings are those that a queue of the type needs.
	settings func(topology.QueueType) []wanted
}

func newGenerated() *generated {
	return &generated{queues: map[string]*claim{}, by: map[*Queue][]string{}}
}

// claimWaitQueue asks for the wait queue of one delay. ttl 0 leaves the time to
// the messages.
func (e *expansion) claimWaitQueue(q *Queue, name string, ttl time.Duration, pos topology.Position) {
	w := q.Retry.WaitQueue
	if w.Type == topology.Stream {
		e.fail(q, "wait-queue-type", q.At.place(pos, "retry.wait_queue.type", "retry.wait_queue"),
			fmt.Sprintf("queue %q: a stream cannot be a wait queue", q.Name), "A stream never gives messages on; write classic or quorum.")
		return
	}
	c := &claim{maker: q, typed: w.Type != "", text: fmt.Sprintf("retry of queue %q", q.Name)}
	t := w.Type
	if t == "" {
		t = e.typeOf(q)
	}
	c.queue = &Queue{
		Name: name, Pos: pos, Type: t, Durable: true, Role: topology.RoleWait,
		SettingsBy: SettingsBy{Default: topology.ByArgument}, PolicyPriority: q.PolicyPriority,
	}
	// Always arguments: a policy that hides another would strand the messages.
	c.settings = func(t topology.QueueType) []wanted {
		list := []wanted{{name: "dead-letter-exchange", value: ""}, {name: "dead-letter-routing-key", value: q.Name}}
		if ttl > 0 {
			list = append(list, wanted{name: "message-ttl", value: ttl.Milliseconds()})
		}
		if t == topology.Quorum {
			list = append(list,
				wanted{name: "dead-letter-strategy", value: "at-least-once"}, wanted{name: "overflow", value: "reject-publish"})
		}
		for i := range list {
			list[i].by, list[i].pin, list[i].pos, list[i].why = topology.ByArgument, true, pos, c.text
		}
		return list
	}
	e.claim(c)
}

// claimDeadLetterQueue asks for the queue of one category.
func (e *expansion) claimDeadLetterQueue(q *Queue, r topology.CategoryRoute, pos topology.Position) {
	t := r.Type
	if t == "" {
		t = e.typeOf(q)
	}
	e.claim(&claim{
		maker: q, typed: r.Type != "", text: fmt.Sprintf("dead_letter.categories of queue %q", q.Name),
		queue: &Queue{
			Name: r.Queue, Pos: pos, Type: t, Durable: true, Role: topology.RoleDeadLetter, Owner: r.Owner,
			SettingsBy: q.SettingsBy, PolicyPriority: q.PolicyPriority, InheritPolicy: q.InheritPolicy,
		},
		settings: func(topology.QueueType) []wanted { return nil },
	})
}

// claim records that a queue is needed. Equal claims are one; different ones are
// an error that names both places.
func (e *expansion) claim(c *claim) {
	name := c.queue.Name
	if !e.checkName(c.maker, "queue", name, c.queue.Pos) {
		return
	}
	if name == c.maker.Name {
		e.fail(c.maker, "generated-differs", c.queue.Pos,
			fmt.Sprintf("queue %q cannot be its own wait or dead-letter queue", name), "Give the other queue a name of its own.")
		return
	}
	first, twice := e.generated.queues[name]
	if !twice {
		e.generated.queues[name] = c
		if e.queues[name] == nil {
			e.generated.by[c.maker] = append(e.generated.by[c.maker], name)
		}
		return
	}
	if what := first.differs(c, e.queues[name] != nil); what != "" {
		e.differ(c, first.queue.Pos, fmt.Sprintf("queue %q is needed by queue %q and by queue %q with a different %s",
			name, first.maker.Name, c.maker.Name, what))
		return
	}
	if first.queue.Owner == "" {
		first.queue.Owner = c.queue.Owner
	}
}

// differs names what two claims disagree on, "" when they can be one. A type that
// was only taken over from the maker does not count where the queue is written.
func (c *claim) differs(d *claim, written bool) string {
	switch {
	case c.queue.Role != d.queue.Role:
		return "role"
	case c.queue.Type != d.queue.Type && (!written || c.typed && d.typed):
		return "type"
	case c.queue.Owner != "" && d.queue.Owner != "" && c.queue.Owner != d.queue.Owner:
		return "owner"
	}
	other := map[string]any{}
	for _, s := range d.settings(d.queue.Type) {
		other[s.name] = s.value
	}
	mine := c.settings(c.queue.Type)
	for _, s := range mine {
		if v, ok := other[s.name]; !ok || v != s.value {
			return specKey(s.name)
		}
	}
	if len(other) != len(mine) {
		return "message_ttl"
	}
	return ""
}

func (e *expansion) differ(c *claim, first topology.Position, summary string) {
	e.found.Add(diag.Diagnostic{
		Severity: diag.Error, Code: "generated-differs", Summary: summary,
		Detail:   "Make both equal, or give one of them another name.",
		Object:   topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: c.queue.Name},
		Position: c.queue.Pos, Related: []diag.Related{{Position: first, Text: "the other place"}},
	})
}

// merge gives a written queue what others need of it. What it states itself
// stays, and must agree.
func (g *generated) merge(e *expansion, q *Queue, d *derived) *Queue {
	c := g.queues[q.Name]
	if c == nil || e.queues[q.Name] != q {
		return q
	}
	t := e.typeOf(q)
	disagree := func(what, here, there string) {
		e.differ(c, q.Pos, fmt.Sprintf("queue %q has %s %s, but queue %q needs it with %s", q.Name, what, here, c.maker.Name, there))
	}
	if c.typed && (q.Type != "" || !q.External) && c.queue.Type != t {
		disagree("type", string(t), string(c.queue.Type))
	}
	copied := *q
	switch {
	case q.Role == topology.RoleWork:
		copied.Role = c.queue.Role
	case q.Role != c.queue.Role:
		disagree("role", string(q.Role), string(c.queue.Role))
	}
	switch {
	case q.Owner == "":
		copied.Owner = c.queue.Owner
	case c.queue.Owner != "" && c.queue.Owner != q.Owner:
		disagree("owner", fmt.Sprintf("%q", q.Owner), fmt.Sprintf("%q", c.queue.Owner))
	}
	d.settings = append(d.settings, c.settings(t)...)
	return &copied
}

// addGeneratedExchange writes an exchange that retry or categories need. One
// that is written too keeps its own settings; type and alternate exchange must
// be what is needed.
func (e *expansion) addGeneratedExchange(x *topology.Exchange) {
	w := e.exchanges[x.Name]
	if w == nil {
		e.out.Exchanges = append(e.out.Exchanges, x)
		return
	}
	differ := func(what, here, there string) {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "generated-differs",
			Summary: fmt.Sprintf("exchange %q has %s %s, but %s needs it with %s", x.Name, what, here, x.Intent.Generated, there),
			Detail:  "Make both equal, or leave the exchange out: it is generated.",
			Object:  x.Key(), Position: w.Pos,
			Related: []diag.Related{{Position: x.Position, Text: "needed here"}},
		})
	}
	if w.Type != x.Type {
		differ("type", w.Type, x.Type)
	}
	for _, arg := range x.Arguments.Keys() {
		if !topology.Equal(w.Arguments[arg], x.Arguments[arg]) {
			differ(arg, topology.Text(w.Arguments[arg]), topology.Text(x.Arguments[arg]))
		}
	}
}
