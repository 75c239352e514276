package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// judgeHidden notes where a policy of others acts in place of one that the spec
// writes, such as the overrides that operators put up for a while. It is told and
// not fought: who put it there knows why.
func (c *computation) judgeHidden(h *host) {
	written := map[string]*topology.Policy{} // by name
	for _, p := range h.desired.Policies {
		if p.Queue == "" {
			written[p.Name] = p
		}
	}
	foreign := slices.ContainsFunc(h.live.Policies, func(p *topology.Policy) bool { return !h.managed[p.Key()] })
	if len(written) == 0 || !foreign {
		return
	}
	type pair struct{ hidden, by string }
	on := map[pair][]string{}
	see := func(name string, acts *topology.Policy, hidden []*topology.Policy) {
		if acts == nil || h.managed[acts.Key()] {
			return
		}
		for _, p := range hidden {
			if written[p.Name] != nil {
				on[pair{p.Name, acts.Name}] = append(on[pair{p.Name, acts.Name}], name)
			}
		}
	}
	for _, q := range allQueues(h) {
		m := h.after.Queue(q.Name, q.Type)
		see(fmt.Sprintf("queue %q", q.Name), m.Policy, m.Hidden)
	}
	pairs := make([]pair, 0, len(on))
	for p := range on {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.hidden, b.hidden), cmp.Compare(a.by, b.by)) })
	for _, p := range pairs {
		where := on[p]
		what := where[0]
		if len(where) > 1 {
			what = text.Plural(len(where), "queue", "queues")
		}
		c.note(written[p.hidden].Key(), "policy-hidden", "hidden by the policy %q, which is not in the spec, on %s: it has no effect there", p.by, what)
	}
}

// allQueues are the queues that are there or will be, those on the broker as they
// are.
func allQueues(h *host) []*topology.Queue {
	all := slices.Clone(h.live.Queues)
	for _, q := range h.desired.Queues {
		if h.have.Queues[q.Name] == nil {
			all = append(all, q)
		}
	}
	return all
}
