package explain

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// ToQuorum says what making a classic queue a quorum queue means. A queue's type
// cannot change: it is deleted and declared again, and its messages go by way of a
// holding queue.
type ToQuorum struct {
	// Changes are what is different afterwards, or refused.
	Changes []string `json:"changes"`
	// Steps lose no message, in this order.
	Steps []string `json:"steps"`
}

// toQuorum explains the way to a quorum queue; nil for other types.
func (e *Explainer) toQuorum(q *topology.Queue, settings map[string]policy.Value) *ToQuorum {
	if q.Type != topology.Classic || q.Exclusive {
		return nil
	}
	return &ToQuorum{Changes: e.quorumChanges(q, settings), Steps: e.quorumSteps(q)}
}

func (e *Explainer) quorumChanges(q *topology.Queue, settings map[string]policy.Value) []string {
	changes := []string{}
	add := func(format string, args ...any) { changes = append(changes, fmt.Sprintf(format, args...)) }
	if !q.Durable || q.AutoDelete {
		add("Quorum queues are durable and never auto-delete.")
	}
	for _, name := range q.Arguments.Keys() {
		row := catalog.LookupArgument(name)
		if row != nil && !row.TakesArgument(topology.Quorum, e.version) && !row.IgnoresArgument(topology.Quorum, e.version) {
			add("The argument %s is refused on quorum queues: leave it out.", name)
		}
	}
	if overflow, _ := settings["overflow"].Value.(string); overflow == "reject-publish-dlx" {
		add("overflow reject-publish-dlx acts as drop-head on quorum queues.")
	}
	now, then := e.set.Queue(q.Name, topology.Classic), e.set.Queue(q.Name, topology.Quorum)
	for _, c := range []struct {
		what      string
		now, then *topology.Policy
	}{{"policy", now.Policy, then.Policy}, {"operator policy", now.Operator, then.Operator}} {
		switch {
		case c.now == c.then:
		case c.now != nil && c.now.Queue == q.Name: // made by the spec, anew for the new type
		case c.then == nil:
			add("The %s %q no longer acts: %s is lost unless another policy or an argument says it.", c.what, c.now.Name, strings.Join(c.now.Definition.Keys(), ", "))
		case c.now == nil:
			add("The %s %q begins to act: %s.", c.what, c.then.Name, topology.Text(c.then.Definition))
		default:
			add("The %s %q acts in place of %q: %s.", c.what, c.then.Name, c.now.Name, topology.Text(c.then.Definition))
		}
	}
	quorum := *q
	quorum.Type = topology.Quorum
	after := e.set.Effective(&quorum, then)
	switch limit, ok := number(after, "delivery-limit"); {
	case !ok || limit < 0:
	case after["delivery-limit"].Origin == policy.FromDefault:
		add("Messages get the default delivery limit of %d: after %d deliveries a message is dead-lettered, or deleted without a dead-letter route.", limit, limit+1)
	default:
		add("The delivery limit %d acts: after %d deliveries a message is dead-lettered, or deleted without a dead-letter route.", limit, limit+1)
	}
	add("Returned messages are counted, and each message is kept on the disks of a majority of the members.")
	if e.version.Below(catalog.V(4, 3)) {
		add("Consumers with a shared prefetch (basic.qos with global) are refused.")
	}
	add("Programs that declare the queue as classic, or without its type, get 406: change them first.")
	return changes
}

func (e *Explainer) quorumSteps(q *topology.Queue) []string {
	hold := "rabbitctl.hold:" + q.Name
	declare := fmt.Sprintf("Declare the durable quorum queue %q without TTL, length limit and delivery limit", hold)
	if e.version.AtLeast(catalog.V(4, 0)) {
		declare += " (x-delivery-limit -1: the default is 20)"
	}
	bindings := e.index.To[topology.End{Type: topology.ToQueue, Name: q.Name}]
	list := make([]string, 0, len(bindings))
	for i, b := range bindings {
		if i == maxIncoming {
			list = append(list, fmt.Sprintf("and %d more", len(bindings)-maxIncoming))
			break
		}
		list = append(list, bindingText(b))
	}
	steps := []string{}
	add := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }
	if len(list) == 0 {
		add("%s. Nothing is bound to %q: publishers reach it by name, through the default exchange only.", declare, q.Name)
		add("Stop these publishers: while the queue is gone the broker drops what they publish, and tells only those that use mandatory.")
	} else {
		add("%s, and bind it like %q: %s.", declare, q.Name, strings.Join(list, "; "))
		add("Only then remove these bindings from %q. What is published in between is in both queues: consumers must know duplicates.", q.Name)
		add("Publishers that name the queue through the default exchange have no such way: stop them, or let them use mandatory and try again.")
	}
	add("Stop the consumers and move what is left in %q to %q: publish with confirms, acknowledge after the confirm; order and properties stay.", q.Name, hold)
	add("Count again: nothing ready, nothing unacknowledged, no consumers. Only then delete %q with if-empty. Stop here, and delete nothing, when a count is not zero.", q.Name)
	add("Put the policies that the new queue needs, then declare %q with x-queue-type quorum.", q.Name)
	if len(list) > 0 {
		add("Bind %q again before the bindings of %q are removed.", q.Name, hold)
	}
	add("Move the messages of %q back to %q in the same way, start the consumers, and delete %q when it is empty: quorum queues refuse if-empty, so count first.", hold, q.Name, hold)
	return steps
}
