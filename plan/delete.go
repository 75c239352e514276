package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// findDeletes lists the live objects of a virtual host that are ours and left the
// spec, and generated policies whose queue no longer needs them. They are judged
// when all other changes are known.
func (c *computation) findDeletes(h *host) {
	seen := map[topology.Key]bool{}
	for _, o := range h.live.Objects() {
		k := o.Key()
		if h.managed[k] || seen[k] && h.leaving[k] == nil || k.Kind == topology.KindVirtualHost && !c.in.Destroy || !c.isTargeted(k) {
			continue
		}
		if change := h.leaving[k]; change != nil {
			change.block("look-alike", "delete it by hand, by its properties key",
				"several bindings look alike and differ only in the AMQP types of their arguments; one of them may be another's")
			continue
		}
		seen[k] = true
		reason, ok := c.leaves(h, o)
		if !ok {
			continue
		}
		h.leaving[k] = &Change{ID: id(k), Key: k, Action: Delete, Before: o, Reasons: []Reason{reason}}
	}
}

// isTargeted reports whether a plan with targets names the object itself: what a
// target needs is made with it, but nothing is deleted on the way.
func (c *computation) isTargeted(k topology.Key) bool {
	return len(c.in.Targets) == 0 || slices.ContainsFunc(c.in.Targets, func(t topology.Key) bool {
		return t.Kind == k.Kind && t.Name == k.Name && (t.VirtualHost == "" || t.VirtualHost == k.VirtualHost)
	})
}

// leaves reports whether a live object that the spec does not name is to be
// deleted.
func (c *computation) leaves(h *host, o topology.Object) (Reason, bool) {
	k := o.Key()
	switch o := o.(type) {
	case *topology.Exchange:
		if predeclared(o.Name) || h.external(o.Name) {
			return Reason{}, false
		}
	case *topology.Queue:
		if o.Exclusive || h.external(o.Name) {
			return Reason{}, false
		}
		if h.owner.Owns(k) && c.drains(h, o) {
			return Reason{}, false
		}
	case *topology.Policy:
		if q := h.generatedFor(o); q != "" && !h.owned(k) {
			return Reason{"settings-left", fmt.Sprintf("queue %q no longer has what it sets: %s", q, settingsOf(o))}, true
		}
		// The generated policy of a queue that stays for now stays with it.
		if q := h.have.Queues[queueOf(o)]; q != nil && !h.managed[q.Key()] {
			if _, goes := c.leaves(h, q); !goes {
				return Reason{}, false
			}
		}
	}
	if !h.owner.Owns(k) {
		return Reason{}, false
	}
	if c.in.Destroy {
		return Reason{"destroy", fmt.Sprintf("stack %q made it", h.owner.Stack)}, true
	}
	return Reason{"left-spec", fmt.Sprintf("stack %q made it, and it is not in the spec any more", h.owner.Stack)}, true
}

// generatedFor is the queue of the spec that a live policy was generated for and
// that has none now; "": none. Such a policy belongs to whoever declares the
// queue, with a record or without.
func (h *host) generatedFor(p *topology.Policy) string {
	name := queueOf(p)
	q := h.want.Queues[name]
	if q == nil || q.Intent != nil && q.Intent.External || h.generated[name] != nil || h.owned(q.Key()) {
		return ""
	}
	return name
}

// queueOf is the queue that a live policy was generated for, going by its name; "":
// it was not.
func queueOf(p *topology.Policy) string {
	name, ok := strings.CutPrefix(p.Name, generatedPrefix)
	if !ok || p.Operator {
		return ""
	}
	return name
}

// drains reports whether a queue that left the spec still empties itself: what
// waits in it expires and goes on to a queue that stays, as in the wait queue of a
// delay that was changed. It is deleted by a later run, when it is empty.
func (c *computation) drains(h *host, q *topology.Queue) bool {
	if !goesBack(h, q) || c.allows("delete", q.Key()) {
		return false
	}
	counts := c.count(q)
	if counts.Messages == nil || *counts.Messages == 0 || counts.Consumers == nil || *counts.Consumers > 0 {
		return false
	}
	c.note(q.Key(), "left-until-empty", "it left the spec and still holds %s, which %s to queue %q after the delay; a later run deletes it when it is empty",
		plural(int(*counts.Messages), "message"), map[bool]string{true: "goes", false: "go"}[*counts.Messages == 1], q.Arguments["x-dead-letter-routing-key"])
	return true
}

// goesBack reports whether messages of a queue expire and go by the default
// exchange to a queue of the spec.
func goesBack(h *host, q *topology.Queue) bool {
	target, ok := q.Arguments["x-dead-letter-routing-key"].(string)
	_, expires := q.Arguments["x-message-ttl"]
	return ok && expires && q.Arguments["x-dead-letter-exchange"] == "" && h.want.Queues[target] != nil
}

// count is what is known of a live queue; the plan then wants to know.
func (c *computation) count(q *topology.Queue) Counts {
	counts, known := c.in.Counts[q.Key()]
	if !known && !c.in.Offline {
		c.wants[q.Key()] = true
	}
	return counts
}

// addDeletes puts the deletes of a virtual host behind its other changes.
func (c *computation) addDeletes(h *host) {
	for _, o := range h.live.Objects() {
		change := h.leaving[o.Key()]
		if change == nil || c.changes[change.Key] == change {
			continue
		}
		c.changes[change.Key] = change
		c.plan.Changes = append(c.plan.Changes, change)
		if q, ok := o.(*topology.Queue); ok {
			c.judgeQueueDelete(change, q)
		}
	}
}

// judgeQueueDelete blocks the delete of a queue that holds messages or has
// consumers, or may.
func (c *computation) judgeQueueDelete(change *Change, q *topology.Queue) {
	counts := c.count(q)
	change.Cost.Counts = counts
	if q.Type == topology.Stream {
		change.Cost.Messages = nil // a passive declaration says 0, whatever it holds
	}
	if c.allows("delete", change.Key) {
		return
	}
	allow := "or delete it with them: " + flagFor("--allow", "delete", change.Key)
	switch {
	case q.Type == topology.Stream:
		change.block("not-empty", "delete it with what it holds: "+flagFor("--allow", "delete", change.Key),
			"%s is a stream, which is never taken for empty", change.Key)
		return
	case counts.Messages == nil || counts.Consumers == nil:
		change.block("not-empty", "let it be counted over AMQP, "+allow, "how many messages and consumers %s has is unknown", change.Key)
		return
	}
	if *counts.Messages > 0 {
		change.block("not-empty", "let its consumers empty it (--skip-blocked does the rest), "+allow,
			"%s holds %s, which would be lost", change.Key, plural(int(*counts.Messages), "message"))
	}
	if *counts.Consumers > 0 {
		change.block("has-consumers", "stop them first, "+allow, "%s has %s", change.Key, plural(int(*counts.Consumers), "consumer"))
	}
	change.NeedsEmpty = []string{q.Name}
}
