package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var overflowNotDeadLettered = Rule{
	Code: "overflow-not-dead-lettered", Severity: diag.Warning, Together: true,
	Summary: "A queue has a dead-letter route, a maximum length and the overflow reject-publish: what does not fit is not dead-lettered.",
	Doc: "A full queue does not take the message (basic.nack to a publisher that uses confirms); its dead-letter exchange never sees " +
		"it. A publisher without confirms loses it without a word (measured). With the dead-letter strategy at-least-once it " +
		"must be so, and nothing is said.",
	Fix: "Let publishers use confirms and send again what is refused, and say so: `contract: {publisher_may_retry: true}`; or " +
		"`overflow: drop-head` (on a classic queue also `reject-publish-dlx`), which dead-letters.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			c := intent(q).Contract
			if role(q) == topology.RoleWait || accepted(q, "overflow") || c != nil && c.PublisherMayRetry != nil && *c.PublisherMayRetry {
				continue
			}
			p.onVersions(q, place(q, "overflow"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				overflow, _ := set.text("overflow")
				strategy, _ := set.text("dead-letter-strategy")
				if overflow != "reject-publish" || strategy == "at-least-once" || !p.routed(q, v) ||
					!set.has("max-length") && !set.has("max-length-bytes") {
					return problem{}
				}
				return problemf("queue %q refuses messages when it is full%s: its dead-letter route never gets them, and publishers without confirms lose them",
					q.Name, set.from("overflow")).
					like("refuse messages when they are full: their dead-letter route never gets them, and publishers without confirms lose them")
			})
		}
	},
}
