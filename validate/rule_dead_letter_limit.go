package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var capWithoutDeadLetter = Rule{
	Code: "cap-without-dead-letter", Severity: diag.Error,
	Summary: "A queue has a delivery limit or max_attempts and no dead-letter route.",
	Doc: "The message that reaches the limit is deleted: with a limit of 2 after three deliveries, on every version " +
		"(measured).",
	Fix: "Give the queue a dead_letter, or say in `loses: {delivery_limit: REASON}` that the loss is meant.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if role(q) == topology.RoleDeadLetter || accepted(q, "delivery_limit") {
				continue
			}
			retry := intent(q).Retry
			p.onVersions(q, at(q, "retry.max_attempts", "delivery_limit", "arguments.x-delivery-limit"), func(v catalog.Version) problem {
				routed := p.routed(q, v)
				if retry != nil && retry.MaxAttempts > 0 {
					if intent(q).DeadLetter != nil || routed && retry.Mechanism != topology.MechanismRejectCycle {
						return problem{}
					}
					return problemf("queue %q gives a message up after %s and has no dead_letter: it is deleted", q.Name, times(retry.MaxAttempts, "attempt", "attempts"))
				}
				if n, set, limited := p.limit(q, v); !routed && set && limited {
					return problemf("queue %q has the delivery limit %d%s and no dead-letter route: a message is deleted after %s",
						q.Name, n, p.effective(q, v).from("delivery-limit"), times(n+1, "delivery", "deliveries"))
				}
				return problem{}
			})
		}
	},
}

var deadLetterWithoutCap = Rule{
	Code: "dead-letter-without-cap", Severity: diag.Warning,
	Summary: "A quorum queue has a dead-letter route and no delivery limit.",
	Doc: "A message that always fails and is always requeued goes round for ever and never reaches the dead-letter queue. " +
		"Without a limit of its own a quorum queue has 20 from 4.0 on and none before; -1 is none.",
	Fix: "Say `retry: {max_attempts: N}`, or delivery_limit.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			retry := intent(q).Retry
			if role(q) != topology.RoleWork || p.typeOf(q) != topology.Quorum || retry != nil && retry.MaxAttempts > 0 {
				continue
			}
			p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
				routed := p.routed(q, v)
				_, _, limited := p.limit(q, v)
				// What expires does not go round for ever.
				if !routed || limited || p.effective(q, v).has("message-ttl") {
					return problem{}
				}
				return problemf("queue %q has a dead-letter route and no delivery limit: a message that is always requeued never gets there", q.Name).
					like("have a dead-letter route and no delivery limit: a message that is always requeued never gets there")
			})
		}
	},
}

var quorumDefaultLimitWithoutDLX = Rule{
	Code: "quorum-default-limit-without-dlx", Severity: diag.Warning,
	Summary: "A quorum queue has neither a delivery limit of its own nor a dead-letter route.",
	Doc: "From 4.0 on the limit is 20 when nobody sets it: a message that comes back 21 times is deleted (measured: still " +
		"there after 30 returns on 3.10.8, gone after the 21st delivery on 4.0.5 and 4.3.6).",
	Fix: "Give the queue a dead_letter; or `delivery_limit: unlimited` when messages must stay.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if p.typeOf(q) != topology.Quorum || role(q) != topology.RoleWork || accepted(q, "delivery_limit") {
				continue
			}
			if retry := intent(q).Retry; retry != nil && retry.MaxAttempts > 0 {
				continue // cap-without-dead-letter
			}
			if c := intent(q).Contract; c != nil && c.None || p.isDeadLetterTarget(q) {
				continue // of a target dead-letter-target-without-role says it
			}
			p.onVersions(q, q.Position, func(v catalog.Version) problem {
				routed := p.routed(q, v)
				if _, set, limited := p.limit(q, v); routed || set || !limited {
					return problem{}
				}
				return problemf("queue %q has no dead-letter route and the default delivery limit of 20: a message is deleted after 21 deliveries", q.Name).
					like("have no dead-letter route and the default delivery limit of 20: a message is deleted after 21 deliveries")
			})
		}
	},
}

var dropIsLoss = Rule{
	Code: "drop-is-loss", Severity: diag.Warning,
	Summary: "A classic queue has no dead-letter route: what a consumer rejects is deleted.",
	Doc: "basic.reject and basic.nack without requeue delete the message where no dead-letter exchange is set. Quorum queues " +
		"have quorum-default-limit-without-dlx.",
	Fix: "Give the queue a dead_letter, or say in `loses: {rejected: REASON}` that the loss is meant.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			c := intent(q).Contract
			if p.typeOf(q) != topology.Classic || role(q) != topology.RoleWork || accepted(q, "rejected") || p.isDeadLetterTarget(q) {
				continue
			}
			if c != nil && c.None || meantToVanish(q) || isEphemeral(q) {
				continue
			}
			p.onVersions(q, q.Position, func(v catalog.Version) problem {
				if p.routed(q, v) {
					return problem{}
				}
				if c != nil && c.AfterFailureQueue != "" {
					return problemf("queue %q has no dead-letter route, and its contract promises rejected messages to %q", q.Name, c.AfterFailureQueue).as(diag.Error)
				}
				return problemf("queue %q has no dead-letter route: what a consumer rejects is deleted", q.Name).
					like("have no dead-letter route: what a consumer rejects is deleted")
			})
		}
	},
}

var unlimitedLimitBefore4 = Rule{
	Code: "unlimited-limit-before-4", Severity: diag.Error,
	Summary: "The argument x-delivery-limit is -1, which means the opposite on older brokers.",
	Doc: "-1 is no limit from 4.0 on. 3.10.8 takes it as 0: the first message that comes back is dead-lettered or deleted " +
		"(measured).",
	Fix: "Write `delivery_limit: unlimited` as a key of the queue: it is sent only where it means that.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			n, ok := q.Arguments["x-delivery-limit"].(int64)
			if !ok || n >= 0 || p.typeOf(q) != topology.Quorum || isUnlimitedSetting(q) {
				continue
			}
			p.onVersions(q, argumentAt(q, "x-delivery-limit"), func(v catalog.Version) problem {
				if v.AtLeast(catalog.V(4, 0)) {
					return problem{}
				}
				return problemf("queue %q has x-delivery-limit %d: the first return of a message is its last", q.Name, n)
			})
		}
	},
}

func times(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
