package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var deadLetterAtMostOnce = Rule{
	Code: "dead-letter-at-most-once", Severity: diag.Warning, Together: true,
	Summary: "A queue hands its dead messages on at most once.",
	Doc: "The broker deletes a dead message from its queue as it publishes it to the dead-letter exchange, without a confirm: " +
		"where the target has no room for it (overflow reject-publish) or is not available at that moment, it is lost (measured " +
		"with a full target). Quorum queues can do better, with the strategy at-least-once; classic ones cannot. Nothing is said of a " +
		"queue with a contract: somebody has thought about what it may lose. Of a classic queue in a spec and of the retry mechanism reject-cycle, which have no other way, it is a note.",
	Fix: "Where its dead messages matter make it a quorum queue with `strategy: at-least-once` under dead_letter; otherwise say in " +
		"its contract what it promises.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			t := p.typeOf(q)
			if role(q) == topology.RoleWait || t == topology.Stream || intent(q).Contract != nil {
				continue
			}
			p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
				if !p.routed(q, v) || p.effective(q, v).has("dead-letter-strategy") {
					return problem{}
				}
				if reach, _ := p.graph(v).DeadLetters(q.Name); reach.Nowhere() {
					return problem{} // they are lost in any case, as other rules say
				}
				b := problemf("queue %q is a %s queue that hands its dead messages on at most once: one that its target cannot take at that moment is lost", q.Name, t).
					like("are %s queues that hand their dead messages on at most once: one that its target cannot take at that moment is lost", t)
				if t == topology.Quorum {
					b = b.do("Say `strategy: at-least-once` under dead_letter, or `strategy: at-most-once` where the loss is acceptable.")
				}
				// What has no other way is chosen by whoever writes a spec.
				switch r := intent(q).Retry; {
				case r != nil && r.Mechanism == topology.MechanismRejectCycle:
					b = b.as(diag.Info).do("The mechanism reject-cycle has no other way. Where a lost retry matters use `mechanism: wait-queue`, and `strategy: at-least-once` on a quorum queue.")
				case t == topology.Classic && q.Intent != nil:
					b = b.as(diag.Info)
				}
				return b
			})
		}
	},
}

// manySources is how many queues may share a dead-letter queue without an owner
// before something is said.
const manySources = 3

var sharedDeadLetterQueue = Rule{
	Code: "shared-dead-letter-queue", Severity: diag.Warning,
	Summary: "One dead-letter queue takes the dead messages of many queues, and nobody owns it.",
	Doc: "Which queue a message comes from, and so who has to look at it and where it could be replayed to, stands only in its " +
		"header x-death (x-first-death-queue), which clients that send the message on do not keep by themselves.",
	Fix: "Give each team a dead-letter queue of its own, or say `role: dead-letter` with the `owner` that looks at all of them; " +
		"`rabbitctl dlq replay` finds the origin.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if intent(q).Owner != "" {
				continue
			}
			n := 0
			for _, source := range p.gathered(q) {
				if role(source) != topology.RoleWait {
					n++
				}
			}
			if n <= manySources {
				continue
			}
			count := fmt.Sprintf("%d queues", n)
			if n >= maxSources {
				count = fmt.Sprintf("%d queues or more", n)
			}
			p.report(q, q.Position, problemf("queue %q takes the dead messages of %s and has no owner: who has to look at one stands only in its x-death", q.Name, count))
		}
	},
}
