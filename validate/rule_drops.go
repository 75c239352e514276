package validate

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var dropsSilently = Rule{
	Code: "drops-silently", Severity: diag.Warning,
	Summary: "A queue deletes messages when they expire or it is full, and has no dead-letter route.",
	Doc: "A message whose TTL is over is deleted, and a full queue with drop-head, which is the default, deletes its oldest one; " +
		"the publisher of the new one gets a confirm all the same (measured). In a dead-letter queue that is the second loss of " +
		"what somebody meant to look at.",
	Fix: "Give the queue a dead_letter; or say in `loses: {expired: REASON}` or `{overflow: REASON}` that the loss is meant. With " +
		"overflow reject-publish publishers learn that a queue is full.",
	Check: func(p *Pass) {
		waits := map[string]bool{} // wait-queue-without-return says so
		for _, w := range p.waitQueues() {
			waits[w.queue.Name] = true
		}
		for _, q := range p.ours() {
			c := intent(q).Contract
			if waits[q.Name] || role(q) == topology.RoleWait || c != nil && c.None || meantToVanish(q) || isEphemeral(q) {
				continue
			}
			p.onVersions(q, p.dropsAt(q), func(v catalog.Version) problem { return p.drops(q, v) })
		}
	},
}

// dropsAt is where the spec sets what makes a queue drop messages.
func (p *Pass) dropsAt(q *topology.Queue) topology.Position {
	set := p.effective(q, p.newest())
	for _, name := range []string{"message-ttl", "max-length", "max-length-bytes"} {
		if set.has(name) {
			return place(q, name)
		}
	}
	return q.Position
}

func (p *Pass) drops(q *topology.Queue, v catalog.Version) problem {
	if p.routed(q, v) {
		return problem{}
	}
	set := p.effective(q, v)
	shown := p.effective(q, p.newest()) // one text for all versions, so that alike findings merge
	var ways []string
	causes := p.graph(v).Causes(q.Name)
	if slices.Contains(causes, flow.Expired) && !accepted(q, "expired") {
		way := "messages that expire"
		if ttl, ok := shown.number("message-ttl"); ok {
			way = fmt.Sprintf("messages after %d ms%s", ttl, shown.from("message-ttl"))
		}
		ways = append(ways, way)
	}
	// A classic queue with reject-publish-dlx and no route refuses, as with
	// reject-publish.
	overflow, _ := set.text("overflow")
	if slices.Contains(causes, flow.Overflow) && !accepted(q, "overflow") && (overflow != "reject-publish-dlx" || p.typeOf(q) == topology.Quorum) {
		name := "max-length"
		if !shown.has(name) {
			name = "max-length-bytes"
		}
		ways = append(ways, "its oldest when it is full"+shown.from(name))
	}
	if len(ways) == 0 {
		return problem{}
	}
	b := problemf("queue %q has no dead-letter route and deletes %s", q.Name, list(ways, "and")).
		like("have no dead-letter route and delete messages that expire, or their oldest when they are full")
	if role(q) == topology.RoleDeadLetter || p.takesDeadLetters(q) {
		b = problemf("queue %q takes dead messages and deletes %s", q.Name, list(ways, "and")).
			like("take dead messages and delete those that expire, or their oldest when they are full")
	}
	if c := intent(q).Contract; c != nil && (c.Survives == "restart" || c.Survives == "node-loss") {
		b.related = related(c.Position, fmt.Sprintf("the contract of queue %q", q.Name))
	}
	return b
}

var rejectPublishAndDeadLetters = Rule{
	Code: "reject-publish-and-dead-letters", Severity: diag.Warning,
	Summary: "A queue that takes dead messages has a maximum length and refuses what is too much.",
	Doc: "A dead message has no publisher that could hear of the refusal. A full classic queue lets it be lost; a quorum queue " +
		"takes it all the same and grows past its limit, ten messages where two were allowed (both measured). Only from a queue " +
		"with the strategy at-least-once do dead messages wait until there is room. The work queue behind a wait queue is " +
		"such a target too.",
	Fix: "Set dead_letter.strategy to at-least-once on the quorum queue that dead messages come from, let the target drop its " +
		"oldest (drop-head) or use a stream, or remove the maximum.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if len(p.sources(q)) == 0 || accepted(q, "overflow") {
				continue
			}
			p.onVersions(q, place(q, "overflow"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				overflow, _ := set.text("overflow")
				if overflow != "reject-publish" || !set.has("max-length") && !set.has("max-length-bytes") {
					return problem{}
				}
				for _, source := range p.sources(q) {
					r := p.graph(v).DeadLetter(source.Name)
					if r == nil || r.AtLeastOnce {
						continue
					}
					if p.typeOf(q) == topology.Quorum {
						return problemf("queue %q takes the dead messages of %q past its maximum length: overflow reject-publish%s does not stop them", q.Name, source.Name, set.from("overflow")).
							like("take dead messages past their maximum length: overflow reject-publish does not stop them")
					}
					return problemf("dead messages of queue %q are lost while queue %q is full: its overflow is reject-publish%s, and nobody hears of it", source.Name, q.Name, set.from("overflow")).
						like("take dead messages and have overflow reject-publish: while they are full the messages are lost")
				}
				return problem{}
			})
		}
	},
}
