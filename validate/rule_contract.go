package validate

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var contractIncomplete = Rule{
	Code: "contract-incomplete", Severity: diag.Error, OnlyStrict: true,
	Summary: "A queue does not say what it promises.",
	Doc: "Nothing of the broker's: whether messages may be lost or come twice is a decision, and where nobody made it the " +
		"incident does. Asked of every queue that is not external, generated or a dead-letter queue. `loses:` with " +
		"`rejected` or `delivery_limit` answers the fourth question too.",
	Fix: "Answer all four under `contract:` (`publisher_may_retry`, `survives`, `redelivered_after_crash`, `after_failure` with an " +
		"owner), or write `contract: none` and a `reason:`.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if q.Intent == nil || q.Intent.Generated != "" || q.Intent.Role == topology.RoleDeadLetter {
				continue
			}
			c := q.Intent.Contract
			place := at(q, "contract")
			switch {
			case c == nil:
				p.report(q, place, problemf("queue %q has no contract", q.Name))
			case c.None && strings.TrimSpace(c.Reason) == "":
				p.report(q, place, problemf("queue %q has no contract and gives no reason", q.Name).
					do("Write a `reason:` beside `contract: none`."))
			case !c.None:
				if open := p.unanswered(q); len(open) > 0 {
					p.report(q, place, problemf("the contract of queue %q does not say %s", q.Name, list(open, "and")))
				}
			}
		}
	},
}

// unanswered are the questions that a queue's contract leaves open.
func (p *Pass) unanswered(q *topology.Queue) []string {
	c := q.Intent.Contract
	var open []string
	if c.PublisherMayRetry == nil {
		open = append(open, "whether the publisher may send a message again (publisher_may_retry)")
	}
	if c.Survives == "" {
		open = append(open, "what messages survive (survives)")
	}
	if c.RedeliveredAfterCrash == nil {
		open = append(open, "whether a message comes again after a crash of its consumer (redelivered_after_crash)")
	}
	lost := q.Intent.Loses["rejected"] != "" || q.Intent.Loses["delivery_limit"] != ""
	switch target := p.index.Queues[c.AfterFailureQueue]; {
	case lost:
	case c.AfterFailureQueue == "":
		open = append(open, "where a message goes that keeps failing (after_failure)")
	case c.AfterFailureOwner == "" && (target == nil || target.Intent == nil || target.Intent.Owner == ""):
		open = append(open, "who looks at messages that keep failing (owner of after_failure)")
	}
	return open
}
