package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var upgradeDefaultDeliveryLimit = Rule{
	Code: "upgrade-default-delivery-limit", Severity: diag.Warning, Upgrade: true,
	Summary: "A quorum queue has no delivery limit now and gets the default of 20 by the upgrade.",
	Doc: "Before 4.0 a quorum queue without a limit returns a message as often as it is asked to; from 4.0 on the message is " +
		"dead-lettered after 21 deliveries (measured: 30 returns on 3.10.8 left it in the queue). Of queues without a " +
		"dead-letter route quorum-default-limit-without-dlx tells.",
	Fix: "Set the limit that is meant: `retry: {max_attempts: N}` or a policy with delivery-limit; -1 is no limit, from 4.0 on only.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if p.typeOf(q) != topology.Quorum || role(q) == topology.RoleWait {
				continue
			}
			p.onUpgrade(q, q.Position, func(from, to catalog.Version) problem {
				_, _, before := p.limit(q, from)
				_, set, after := p.limit(q, to)
				if before || set || !after || !p.routed(q, to) {
					return problem{}
				}
				return problemf("queue %q has no delivery limit now: from RabbitMQ 4.0 on a message is dead-lettered after 21 deliveries", q.Name).
					like("have no delivery limit now: from RabbitMQ 4.0 on a message is dead-lettered after 21 deliveries")
			})
		}
	},
}

var upgradeNackNotCounted = Rule{
	Code: "upgrade-nack-not-counted", Severity: diag.Warning, Upgrade: true,
	Summary: "From 4.3 on basic.nack does not count towards a queue's delivery limit any more.",
	Doc: "Before 4.3 every return counts. From 4.3 on basic.nack and basic.recover with requeue, and AMQP 1.0 released and " +
		"modified without delivery-failed, do not: under a limit of 5 a message that is always returned by nack was delivered " +
		"6 times on 3.10.8 and 4.0.5 and without end on 4.3.6. basic.reject with requeue and a closed channel count on all " +
		"(measured). Where the spec says retry: this is a note, since consumers know what is expected of them.",
	Fix: "Let consumers return messages that failed by basic.reject with requeue (AMQP 1.0: modified with delivery-failed).",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if p.typeOf(q) != topology.Quorum || role(q) == topology.RoleWait {
				continue
			}
			p.onUpgrade(q, q.Position, func(from, to catalog.Version) problem {
				_, _, before := p.limit(q, from)
				_, _, after := p.limit(q, to)
				if from.AtLeast(catalog.V(4, 3)) || to.Below(catalog.V(4, 3)) || !before || !after {
					return problem{}
				}
				b := problemf("queue %q has a delivery limit: from RabbitMQ 4.3 on a message that a consumer returns by basic.nack never reaches it", q.Name).
					like("have a delivery limit: from RabbitMQ 4.3 on a message that a consumer returns by basic.nack never reaches it")
				if retry := intent(q).Retry; retry != nil && retry.MaxAttempts > 0 {
					b = b.as(diag.Info)
				}
				return b
			})
		}
	},
}
