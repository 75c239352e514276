package validate

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var deadLetterTargetWithoutRole = Rule{
	Code: "dead-letter-target-without-role", Severity: diag.Warning,
	Summary: "A quorum queue takes dead messages and has a delivery limit, without a route of its own.",
	Doc: "A quorum queue has the limit 20 from 4.0 on when nobody sets another: looking at a message 21 times deletes it. 4.3 " +
		"carries the count of deliveries along, so that a message can arrive with its limit used up: where the source's " +
		"limit is at or above that of the target, the first return deletes it (measured). A queue that other messages come to as " +
		"well is a work queue, of which other rules tell.",
	Fix: "Give the queue `role: dead-letter`, which sets its limit to unlimited by policy.",
	Check: func(p *Pass) {
		done := map[string]bool{}
		for _, target := range p.ours() {
			if role(target) != topology.RoleWork || p.typeOf(target) != topology.Quorum {
				continue
			}
			for _, source := range p.sources(target) {
				p.onVersions(target, target.Position, func(v catalog.Version) problem {
					b := p.targetLimit(source, target, v)
					// Of the warnings, which name no source, one is enough.
					key := fmt.Sprint(target.Name, v, b.summary)
					if done[key] {
						return problem{}
					}
					done[key] = true
					return b
				})
			}
		}
	},
}

// targetLimit says what a target's limit does to messages from a source.
func (p *Pass) targetLimit(source, target *topology.Queue, v catalog.Version) problem {
	limit, _, limited := p.limit(target, v)
	if p.routed(target, v) || !limited || v.Below(catalog.V(4, 0)) {
		return problem{}
	}
	// Where nobody set a limit to a queue whose messages expire, nobody returns them.
	_, set, _ := p.limit(source, v)
	waits := !set && p.effective(source, v).has("message-ttl")
	if _, carried, loses := p.graph(v).LimitLoses(source.Name, target.Name); loses && carried > 0 && !waits {
		return problemf("queue %q takes the dead messages of %q, whose delivery limit %d is not below its own of %d: they arrive with their limit used up, and the first return deletes them",
			target.Name, source.Name, carried-1, limit).as(diag.Error)
	}
	if !p.takesDeadLetters(target) {
		return problem{} // quorum-default-limit-without-dlx or cap-without-dead-letter says so
	}
	return problemf("queue %q takes dead messages and has the delivery limit %d: after %d returns a message is deleted", target.Name, limit, limit+1).
		like("take dead messages and have the delivery limit %d: after %d returns a message is deleted", limit, limit+1)
}

var deadLetterQueueWithoutOwner = Rule{
	Code: "dead-letter-queue-without-owner", Severity: diag.Warning, Strict: diag.Error,
	Summary: "A dead-letter queue has no owner.",
	Doc:     "Nothing of the broker's: a dead-letter queue that nobody looks at is a loss in slow motion.",
	Fix:     "Write `owner:` with the team that looks at it.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if role(q) == topology.RoleDeadLetter && q.Intent.Owner == "" {
				p.report(q, at(q, "role"), problemf("nobody owns the dead-letter queue %q", q.Name).
					like("take dead messages and have no owner"))
			}
		}
	},
}

var categoryRoutingNeedsQuorum = Rule{
	Code: "category-routing-needs-quorum", Severity: diag.Error,
	Summary: "Dead letters are routed by category from a queue that is no quorum queue.",
	Doc: "The category is an annotation of AMQP 1.0's modified outcome. Classic queues take the outcome and drop the " +
		"annotation without a word, so that everything ends in the queue for what has no category (measured on 4.0.5 and 4.3.6).",
	Fix: "Make it a quorum queue, or say `method: republish`: the consumer then publishes a copy with the category as header.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			d := intent(q).DeadLetter
			if d == nil || d.Categories == nil || p.typeOf(q) == topology.Quorum || d.Method == "republish" || d.Method == "auto" {
				continue
			}
			p.report(q, at(q, "dead_letter.method", "dead_letter.categories", "dead_letter"),
				problemf("queue %q routes dead letters by category and is a %s queue, which drops the category", q.Name, p.typeOf(q)))
		}
	},
}

var categoryHeaderPrefix = Rule{
	Code: "category-header-prefix", Severity: diag.Warning,
	Summary: "The header by which dead letters are routed by category does not begin with x-.",
	Doc: "The category is an annotation of AMQP 1.0's modified outcome, whose key must begin with x-. The broker answers any other " +
		"key with `amqp:internal-error` and ends the session, with all of its links; the message comes back (measured on 4.0.5 and 4.3.6).",
	Fix: "Name it x-opt-..., such as x-opt-dead-letter-category; or say `method: republish`, with which the consumer writes it as a header.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			d := intent(q).DeadLetter
			if d == nil || d.Categories == nil || strings.HasPrefix(d.Categories.Header, "x-") || d.Method == "republish" ||
				p.typeOf(q) != topology.Quorum {
				continue
			}
			b := problemf("queue %q routes dead letters by the header %q, which AMQP 1.0 refuses as an annotation", q.Name, d.Categories.Header)
			if d.Method == "modified" {
				b = b.as(diag.Error)
			}
			p.report(q, at(q, "dead_letter.categories.header", "dead_letter.categories", "dead_letter"), b)
		}
	},
}
