package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var atLeastOnceIncomplete = Rule{
	Code: "at-least-once-incomplete", Severity: diag.Error,
	Summary: "The dead-letter strategy is at-least-once and something that it needs is missing.",
	Doc: "It works only where the overflow in effect is reject-publish and there is a dead-letter exchange. Otherwise the " +
		"broker accepts the queue, falls back to at-most-once or to no dead-lettering at all, and only its log says so " +
		"(measured). On classic queues the argument is refused, and a policy with it is ignored as a whole.",
	Fix: "Set overflow to reject-publish and give the queue a dead-letter exchange, or leave the strategy out.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			p.onVersions(q, place(q, "dead-letter-strategy"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				if s, _ := set.text("dead-letter-strategy"); s != "at-least-once" {
					return problem{}
				}
				if takenForDropHead(p.typeOf(q), set) && set.has("dead-letter-exchange") {
					return problem{} // reject-publish-dlx-on-quorum says so
				}
				var lacks []string
				overflow, given := set.text("overflow")
				switch {
				case !given:
					lacks = append(lacks, "overflow reject-publish")
				case overflow != "reject-publish":
					lacks = append(lacks, fmt.Sprintf("overflow reject-publish (it is %q%s)", overflow, set.from("overflow")))
				}
				if !set.has("dead-letter-exchange") {
					lacks = append(lacks, "a dead-letter exchange")
				}
				if len(lacks) == 0 {
					return problem{}
				}
				return problemf("queue %q has the dead-letter strategy at-least-once%s and lacks %s", q.Name, set.from("dead-letter-strategy"), list(lacks, "and"))
			})
		}
	},
}

var atLeastOnceUnbounded = Rule{
	Code: "at-least-once-unbounded", Severity: diag.Info,
	Summary: "A queue with at-least-once dead-lettering has no maximum length.",
	Doc: "Dead messages stay in the queue until their target has them. When the target cannot take them for long they pile " +
		"up, and they count against the maximum length.",
	Fix: "Set max_length to what the broker can hold; publishers then see that the queue is full.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if intent(q).Generated != "" || role(q) == topology.RoleWait {
				continue
			}
			p.onVersions(q, place(q, "dead-letter-strategy"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				if s, _ := set.text("dead-letter-strategy"); s != "at-least-once" || set.has("max-length") || set.has("max-length-bytes") {
					return problem{}
				}
				return problemf("queue %q keeps dead messages until their target has them and has no max_length", q.Name).
					like("keep dead messages until their target has them and have no max_length")
			})
		}
	},
}

var rejectPublishDLXOnQuorum = Rule{
	Code: "reject-publish-dlx-on-quorum", Severity: diag.Error,
	Summary: "A quorum queue has the overflow reject-publish-dlx.",
	Doc:     "The broker accepts it and acts as with drop-head: a full queue loses its oldest message and confirms the new one (measured).",
	Fix:     "Use reject-publish, or drop-head when the oldest may go.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			p.onVersions(q, place(q, "overflow"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				if !takenForDropHead(p.typeOf(q), set) {
					return problem{}
				}
				return problemf("queue %q has the overflow reject-publish-dlx%s, which quorum queues take for drop-head", q.Name, set.from("overflow"))
			})
		}
	},
}

func takenForDropHead(t topology.QueueType, set settings) bool {
	overflow, _ := set.text("overflow")
	return t == topology.Quorum && overflow == "reject-publish-dlx"
}
