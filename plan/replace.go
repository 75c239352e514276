package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/replace"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// replaceQueue replaces a queue, or finishes a replacement that was begun: then there
// is a holding queue, and have is that when the queue itself is not there.
func (c *computation) replaceQueue(h *host, want, have *topology.Queue, fields []Field, wayOut string) {
	change := c.replace(want, have, fields)
	bindings := h.toRestore(want.Name, want.Name)
	if hold := h.have.Queues[replace.Holding(want.Name)]; hold != nil {
		change.Reasons = append(change.Reasons, Reason{
			"replacement-unfinished",
			fmt.Sprintf("a replacement was begun and not finished: queue %q holds messages and bindings of it", hold.Name),
		})
		if held := h.toRestore(hold.Name, want.Name); len(held) > len(bindings) {
			bindings = held
		}
		wayOut = ""
	}
	change.Cost.Bindings = len(bindings)
	c.describeReplacement(change, want.Intent != nil && want.Intent.DeclaredByClients && len(fields) > 0)
	foreign := 0
	for _, b := range bindings {
		if !h.managed[b.Key()] {
			foreign++
		}
	}
	if foreign > 0 {
		change.Reasons = append(change.Reasons, Reason{"foreign-bindings-kept", fmt.Sprintf("%s not in the spec and kept", isOrAre(foreign, "binding"))})
	}
	if len(change.Blocked) > 0 {
		return
	}
	if why, remedy := replace.Unfit(have, want); why != "" && len(fields) > 0 {
		change.block("replace", orElse(remedy, wayOut), "%s can only be changed by deleting it and creating it again, and is not replaced without loss: %s", change.Key, why)
		return
	}
	change.Reasons = append(change.Reasons, Reason{"queue-missing-briefly", missingBriefly(h.deadLettersTo()[want.Name])})
	if c.allows("replace", change.Key) {
		return
	}
	how := fmt.Sprintf("rabbitctl replace %s SPEC moves its messages to a new queue without loss, or apply %s", inShell(change.Key.Name), flagFor("--allow", "replace", change.Key))
	if len(fields) == 0 {
		change.block("replace", how, "%s is being replaced: run the same again to finish it", change.Key)
		return
	}
	change.block("replace", orElse(how, wayOut), "%s can only be changed by deleting it and creating it again: %s", change.Key, fieldNames(fields))
}

// missingBriefly says who loses something in the moment between deleting and declaring.
func missingBriefly(sources []string) string {
	s := "for a moment there is no queue of the name: what is published to it by the default exchange just then is returned or lost"
	if len(sources) > 0 {
		s += ", so are at-most-once dead letters of queue " + strings.Join(firstFew(sources), ", ")
	}
	return s
}

// deadLettersTo lists by queue the live queues that send it their dead letters by the
// default exchange and at most once.
func (h *host) deadLettersTo() map[string][]string {
	if h.sources != nil {
		return h.sources
	}
	h.sources = map[string][]string{}
	for _, q := range h.live.Queues {
		settings := h.before.Effective(q, h.before.Queue(q.Name, q.Type))
		exchange, ok := settings["dead-letter-exchange"].Value.(string)
		target, fixed := settings["dead-letter-routing-key"].Value.(string)
		if ok && exchange == "" && fixed && !atLeastOnce(q.Type, settings) {
			h.sources[target] = append(h.sources[target], fmt.Sprintf("%q", q.Name))
		}
	}
	for _, names := range h.sources {
		slices.Sort(names)
	}
	return h.sources
}

// toRestore lists the live bindings to a queue as they are when they lead to another.
func (h *host) toRestore(from, to string) []*topology.Binding {
	var list []*topology.Binding
	for _, b := range h.have.To[topology.End{Type: topology.ToQueue, Name: from}] {
		if b.Source != replace.Holding(to) && b.Source != replace.Returning(to) {
			other := *b
			other.Destination = to
			list = append(list, &other)
		}
	}
	return list
}

func fieldNames(fields []Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = text.Line(f.Name)
	}
	return strings.Join(names, ", ")
}

// orElse puts what costs least first.
func orElse(how, wayOut string) string {
	switch wayOut {
	case "":
		return how
	case keepLive:
		return how + "; or " + wayOut
	}
	return wayOut + "; or " + how
}

// describeReplacement says what a replacement would take, and blocks one that clients
// would be refused after.
func (c *computation) describeReplacement(change *Change, byClients bool) {
	if n := change.Cost.Bindings; n > 0 {
		change.Reasons = append(change.Reasons, Reason{"bindings-restored", fmt.Sprintf("a replacement has to re-create %s", plural(n, "binding"))})
	}
	if byClients {
		change.block("declared-by-clients", "change what the applications declare, or the spec, so that both are equal",
			"%s is declared by clients: replacing it would have them refused with 406 (PRECONDITION_FAILED)", change.Key)
	}
}

// replaced is the change that replaces a queue, when nothing blocks it.
func (c *computation) replaced(vhost, queue string) *Change {
	change := c.changes[topology.Key{Kind: topology.KindQueue, VirtualHost: vhost, Name: queue}]
	if change == nil || change.Action != Replace || len(change.Blocked) > 0 {
		return nil
	}
	return change
}

// holdingQueues are the queues that the replacements of the plan will make.
func (c *computation) holdingQueues(h *host) []*topology.Queue {
	var list []*topology.Queue
	for _, want := range h.desired.Queues {
		have := h.have.Queues[want.Name]
		if have != nil && c.replaced(h.name, want.Name) != nil && h.have.Queues[replace.Holding(want.Name)] == nil {
			list = append(list, replace.HoldingQueue(c.version, h.before, have))
		}
	}
	return list
}

// judgeReplacements blocks replacements that were agreed to and would lose messages
// all the same: those that come back to a queue which keeps less, or that somebody
// consumes.
func (c *computation) judgeReplacements(h *host) {
	for _, want := range h.desired.Queues {
		change := c.replaced(h.name, want.Name)
		have := h.have.Queues[want.Name]
		if change == nil || have == nil {
			continue
		}
		counts := c.in.Counts[change.Key]
		if n := counts.Consumers; n != nil && *n > 0 && !c.in.ConsumersLeave && len(change.Fields) > 0 {
			change.block("has-consumers", "stop them, or have them waited for with --wait-consumers 5m",
				"%s is in use by %s", change.Key, plural(int(*n), "consumer"))
		}
		before := h.before.Effective(have, h.before.Queue(have.Name, have.Type))
		after := h.after.Effective(want, h.after.Queue(want.Name, want.Type))
		var losses []string
		for _, name := range []string{"expires", "max-length", "max-length-bytes", "message-ttl"} {
			old, wasSet := number(before[name].Value)
			now, isSet := number(after[name].Value)
			if strings.HasPrefix(name, "max-length") && rejects(want.Type, after) {
				continue // a full queue stops the replacement
			}
			if isSet && (!wasSet || now < old) {
				losses = append(losses, describe(Field{Name: name, Old: before[name].Value, New: after[name].Value}))
			}
		}
		switch {
		case len(losses) == 0 || c.allows("lossy", change.Key):
		case counts.Messages != nil && *counts.Messages == 0:
			change.NeedsEmpty = append(change.NeedsEmpty, have.Name)
		default:
			change.block("lossy", "empty the queue first, or allow it with "+flagFor("--allow", "lossy", change.Key),
				"what %s holds comes back to a queue that keeps less: %s", change.Key, strings.Join(losses, ", "))
		}
	}
}

// inShell quotes a word for a shell where it needs it.
func inShell(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(plainInShell, r) }) {
		return "'" + strings.ReplaceAll(text.Line(s), "'", `'\''`) + "'"
	}
	return s
}
