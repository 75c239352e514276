package validate

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var deadLetterRouteMixed = Rule{
	Code: "dead-letter-route-mixed", Severity: diag.Warning,
	Summary: "A queue's dead-letter exchange is an argument and the routing key comes from a policy.",
	Doc: "The broker uses both together: dead messages get a key that whoever declared the queue did not write, and end " +
		"elsewhere than meant (measured). Without the policy they keep their own keys.",
	Fix: "Set both as arguments, or both in the policy.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
				set := p.effective(q, v)
				exchange, key := set["dead-letter-exchange"], set["dead-letter-routing-key"]
				if exchange.Origin != policy.FromArgument || key.Origin != policy.FromPolicy {
					return problem{}
				}
				name, _ := exchange.Value.(string)
				word, _ := key.Value.(string)
				return problemf("queue %q dead-letters to %s by argument, with the routing key %q of %s", q.Name, exchangeName(name), word, policyName(key.Policy))
			})
		}
	},
}

// brokerCounts are headers with which the broker says how often it delivered a
// message.
var brokerCounts = []string{"x-delivery-count", "x-acquired-count"}

var countHeaderNeverMatches = Rule{
	Code: "count-header-never-matches", Severity: diag.Error,
	Summary: "A binding of a dead-letter exchange compares the broker's own count of deliveries.",
	Doc: "The broker writes x-delivery-count and x-acquired-count when it delivers a message of a quorum queue. They are not " +
		"there yet when it routes a dead one, so that the comparison never matches (measured).",
	Fix: "Compare a header that the consumer sets, or x-first-death-reason: delivery_limit is the reason where the limit was reached.",
	Check: func(p *Pass) {
		takes := map[string]bool{}
		for _, q := range p.vhost.Queues {
			if r := p.graph(p.newest()).DeadLetter(q.Name); r != nil {
				takes[r.Exchange] = true
			}
		}
		p.headersBindings(func(b *topology.Binding, match string, known bool) {
			if !known || !takes[b.Source] || match != "all-with-x" && match != "any-with-x" {
				return
			}
			var counts []string
			others := 0
			for _, name := range b.Arguments.Keys() {
				if slices.Contains(brokerCounts, name) {
					counts = append(counts, name)
				} else if name != "x-match" {
					others++
				}
			}
			switch {
			case len(counts) == 0:
			case match == "any-with-x" && others > 0:
				p.report(b, b.Position, problemf("the binding of %s compares %s, which no dead message has: that part never matches", endsOf(b), quoted(counts, "and")).
					as(diag.Warning))
			default:
				p.report(b, b.Position, problemf("the binding of %s compares %s, which no dead message has: it never matches", endsOf(b), quoted(counts, "and")))
			}
		})
	},
}
