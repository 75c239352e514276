package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Delivery limits below smallLimit are told when a consumer takes several messages
// at once, those below tinyLimit as a warning: so few crashes are not rare.
const (
	tinyLimit  = 3
	smallLimit = 5
)

var prefetchOverLimit = Rule{
	Code: "prefetch-over-limit", Severity: diag.Warning,
	Summary: "A consumer takes several messages at once from a quorum queue with a small delivery limit.",
	Doc: "A channel that closes, as in a crash, costs one return for each message that it has not acknowledged, also for those " +
		"that no handler saw: under the limit 1, five healthy messages in the buffer were dead-lettered by the second closed " +
		"channel (measured). Under a limit of 3 or 4 this is a note.",
	Fix: "Set the prefetch to 1, or raise the limit (max_attempts).",
	Check: func(p *Pass) {
		for _, c := range p.vhost.Consumers {
			q := p.index.Queues[c.Queue]
			if q == nil || c.Prefetch < 2 || p.typeOf(q) != topology.Quorum {
				continue
			}
			p.onVersions(q, c.Position, func(v catalog.Version) problem {
				n, _, limited := p.limit(q, v)
				if !limited || n >= smallLimit {
					return problem{}
				}
				b := problemf("consumer %q takes %d messages of queue %q at once, whose delivery limit is %d: after %s of its channel all of them are given up, handled or not",
					c.Name, c.Prefetch, q.Name, n, times(n+1, "crash", "crashes"))
				if n >= tinyLimit {
					b = b.as(diag.Info)
				}
				return b
			})
		}
	},
}

var nackNotCounted = Rule{
	Code: "nack-not-counted", Severity: diag.Info, Together: true,
	Summary: "From RabbitMQ 4.3 on messages returned by basic.nack do not count towards the delivery limit.",
	Doc: "basic.nack and basic.recover with requeue, and AMQP 1.0 released and modified without delivery-failed, bring a message " +
		"back without counting: under a limit of 5 it came 6 times on 3.10.8 and 4.0.5 and without end on 4.3.6. basic.reject " +
		"with requeue and a closed channel count on all (measured). Where the spec says `retry:` nothing is said: consumers know " +
		"what is expected of them. Of upgrades upgrade-nack-not-counted tells.",
	Fix: "Let consumers return messages that failed by basic.reject with requeue (AMQP 1.0: modified with delivery-failed).",
	Check: func(p *Pass) {
		if len(p.from) > 0 {
			return
		}
		for _, q := range p.ours() {
			if retry := intent(q).Retry; p.typeOf(q) != topology.Quorum || role(q) != topology.RoleWork || retry != nil && retry.MaxAttempts > 0 {
				continue
			}
			p.onVersions(q, place(q, "delivery-limit"), func(v catalog.Version) problem {
				if _, set, limited := p.limit(q, v); !set || !limited || v.Below(catalog.V(4, 3)) {
					return problem{}
				}
				return problemf("queue %q has a delivery limit: messages that its consumer returns by basic.nack never reach it", q.Name).
					like("have a delivery limit: messages that their consumers return by basic.nack never reach it")
			})
		}
	},
}

var classicCapDoesNotCountCrashes = Rule{
	Code: "classic-cap-does-not-count-crashes", Severity: diag.Warning, Together: true,
	Summary: "A classic queue has a cap on attempts, which the consumer counts: crashes are not counted.",
	Doc: "A crash brings the same message back with the same headers, as often as it happens: a message that kills its consumer " +
		"goes round for ever (measured). A copy joins the tail of the queue, so that the order changes; and where the queue has a " +
		"maximum length a copy can push out another message, or not be taken. Nothing is said where the contract answers " +
		"`redelivered_after_crash`.",
	Fix: "Make it a quorum queue, where the broker counts and crashes with it; or answer `redelivered_after_crash` in the contract.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			retry, c := intent(q).Retry, intent(q).Contract
			if p.typeOf(q) != topology.Classic || retry == nil || retry.MaxAttempts == 0 || c != nil && (c.None || c.RedeliveredAfterCrash != nil) {
				continue
			}
			p.report(q, at(q, "retry.max_attempts", "retry"), problemf("queue %q is a classic queue: a crash of its consumer does not count towards max_attempts", q.Name).
				like("are classic queues: a crash of a consumer does not count towards max_attempts"))
		}
	},
}
