package validate

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
)

var routingKeyButNoDLX = Rule{
	Code: "routing-key-but-no-dlx", Severity: diag.Error,
	Summary: "A dead-letter routing key has no dead-letter exchange.",
	Doc: "As an argument the key is refused (406, `routing_key_but_no_dlx_defined`) unless the exchange is an argument too, " +
		"even where a matching policy sets the exchange. In a policy it is taken and does nothing.",
	Fix: "Write both where the key is: as arguments or in the policy. The empty exchange is the default exchange.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			_, key := q.Arguments["x-dead-letter-routing-key"]
			_, exchange := q.Arguments["x-dead-letter-exchange"]
			if key && !exchange {
				b := problemf("queue %q has the argument x-dead-letter-routing-key without x-dead-letter-exchange", q.Name)
				if dlx := p.effective(q, p.newest())["dead-letter-exchange"].Policy; dlx != nil {
					b.summary += "; that of a policy does not count"
					b = b.do("Write both keys in the same place: the exchange comes from %s.", policyName(dlx))
				}
				p.report(q, argumentAt(q, "x-dead-letter-routing-key"), b)
				continue
			}
			p.onVersions(q, place(q, "dead-letter-routing-key"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				if !set.has("dead-letter-routing-key") || set.has("dead-letter-exchange") {
					return problem{}
				}
				return problemf("queue %q has a dead-letter routing key%s and no dead-letter exchange, so nothing is dead-lettered",
					q.Name, set.from("dead-letter-routing-key"))
			})
		}
	},
}
