package validate

import (
	"slices"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var maxAgeInMonths = Rule{
	Code: "max-age-in-months", Severity: diag.Info, Together: true,
	Summary: "A stream's maximum age is given in months.",
	Doc: "The units are Y M D h m s: `1M` is a month of 30 days, `1m` a minute. Brokers before 4.3 compare the argument as text, " +
		"so that `30D` for a stream made with `1M` is another value to them (406); 4.3 compares the length (measured).",
	Fix: "Nothing, when months are meant; a minute is `1m`.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			p.onVersions(q, place(q, "max-age"), func(v catalog.Version) problem {
				age, _ := p.effective(q, v).text("max-age")
				length, err := catalog.ParseAge(age)
				if err != nil || !strings.HasSuffix(age, "M") {
					return problem{}
				}
				return problemf("queue %q keeps its messages for %s, which is %d days and no minutes", q.Name, age, length/(24*time.Hour)).
					like("have a maximum age in months (1M is 30 days, 1m would be a minute)")
			})
		}
	},
}

const year = 365 * 24 * time.Hour

var messageTTLOverAYear = Rule{
	Code: "message-ttl-over-a-year", Severity: diag.Info, Together: true,
	Summary: "Messages stay for more than a year.",
	Doc: "The broker takes up to ten years (315360000000 ms; measured). So long a time is often one that was meant in " +
		"another unit: raw arguments and policies count in milliseconds.",
	Fix: "Nothing, when it is meant.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			p.onVersions(q, place(q, "message-ttl"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				if ttl, _ := set.number("message-ttl"); ttl > year.Milliseconds() {
					return problemf("queue %q has a message TTL of %.1f years (%d ms)%s", q.Name, float64(ttl)/float64(year.Milliseconds()), ttl, set.from("message-ttl")).
						like("have a message TTL of more than a year")
				}
				return problem{}
			})
		}
	},
}

var limitCountsReturns = Rule{
	Code: "limit-counts-returns", Severity: diag.Info, Together: true,
	Summary: "A delivery limit is given: a message is delivered once more than that.",
	Doc: "The limit counts returns, and the first delivery is none: with the limit 5 a message is delivered 6 times before it is " +
		"dead-lettered (measured). `retry: {max_attempts: N}` counts deliveries.",
	Fix: "Nothing, when it is meant; otherwise write `retry: {max_attempts: N}` for N deliveries.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if retry := intent(q).Retry; p.typeOf(q) != topology.Quorum || role(q) != topology.RoleWork || retry != nil && retry.MaxAttempts > 0 {
				continue
			}
			p.onVersions(q, place(q, "delivery-limit"), func(v catalog.Version) problem {
				n, set, limited := p.limit(q, v)
				if !set || !limited {
					return problem{}
				}
				return problemf("the delivery limit %d of queue %q%s means %s", n, q.Name, p.effective(q, v).from("delivery-limit"), times(n+1, "delivery", "deliveries")).
					like("have a delivery limit, which allows one delivery more than its number")
			})
		}
	},
}

var policyRepeatsArguments = Rule{
	Code: "policy-repeats-arguments", Severity: diag.Info,
	Summary: "A policy sets what a queue's arguments already say.",
	Doc: "No conflict: both give the same value. A change needs both, though, and arguments are fixed when the queue is " +
		"declared. A policy for queues acts on streams, or on any one type, as long as that type knows all of its keys; a further " +
		"key can switch it off as a whole (measured).",
	Fix: "Keep one of the two: the policy, which can be changed later.",
	Check: func(p *Pass) {
		type repeated struct{ queues, keys []string }
		by := map[*topology.Policy]*repeated{}
		v := p.newest()
		for _, q := range p.ours() {
			if len(q.Arguments) == 0 {
				continue
			}
			acting := p.match(q, v).Policy
			if acting == nil || !p.isWritten(acting) || p.match(q, p.versions[0]).Policy != acting {
				continue
			}
			for key, value := range acting.Definition {
				row := catalog.LookupPolicyKey(key)
				if row == nil || row.Argument == "" {
					continue
				}
				if argument, given := q.Arguments[row.Argument]; !given || !topology.Equal(argument, value) {
					continue
				}
				r := by[acting]
				if r == nil {
					r = &repeated{}
					by[acting] = r
				}
				if len(r.queues) == 0 || r.queues[len(r.queues)-1] != q.Name {
					r.queues = append(r.queues, q.Name)
				}
				if !slices.Contains(r.keys, key) {
					r.keys = append(r.keys, key)
				}
			}
		}
		for _, policy := range p.specPolicies() {
			r := by[policy]
			if r == nil {
				continue
			}
			slices.Sort(r.keys)
			names := quoted(r.queues, "and")
			if len(r.queues) > shownNames {
				names = times(int64(len(r.queues)), "queue", "queues")
			}
			p.report(policy, policy.Position, problemf("%s repeats arguments of %s: %s", policyName(policy), names, list(r.keys, "and")))
		}
	},
}
