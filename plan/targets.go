package plan

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// restrict fills the plan with the changes, all of them or those that the targets
// need, and with the routes that they wait for.
func (c *computation) restrict(g *graph, changes []*Change) {
	keep := make([]bool, len(g.nodes))
	var todo []int
	need := func(n int) {
		if !keep[n] {
			keep[n] = true
			todo = append(todo, n)
		}
	}
	wanted := c.wanted
	for n, node := range g.nodes {
		if node.change != nil && (wanted == nil || wanted[node.change.Key]) || isTarget(node) {
			need(n)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range g.nodes[n].edges {
			need(e.to)
		}
	}
	for n, node := range g.nodes {
		if keep[n] && node.change == nil && !isTarget(node) {
			c.plan.Routes[node.id] = g.names(n)
		}
	}
	if wanted == nil {
		c.plan.Changes = changes
		return
	}
	kept := map[topology.Key]*Change{}
	for _, change := range changes {
		if keep[g.index[change.ID]] {
			c.plan.Changes = append(c.plan.Changes, change)
			kept[change.Key] = change
		}
	}
	c.changes = kept
	c.plan.Notes = slices.DeleteFunc(c.plan.Notes, func(n Note) bool { return !wanted[n.Key] && kept[n.Key] == nil })
	for _, h := range c.hosts {
		c.setAfter(h, func(*Change) bool { return true })
	}
}

// targets are the objects that the plan is limited to; nil: it is not. A queue or
// exchange stands for all that is written with it: its bindings, its generated
// policy, its wait queues.
func (c *computation) targets() map[topology.Key]bool {
	if len(c.in.Targets) == 0 {
		return nil
	}
	wanted := map[topology.Key]bool{}
	for _, t := range c.in.Targets {
		found := false
		for _, h := range c.hosts {
			if t.VirtualHost == "" || t.VirtualHost == h.name {
				found = h.target(t, wanted) || found
			}
		}
		if !found {
			c.findings.Add(diag.Diagnostic{
				Severity: diag.Error, Structural: true, Code: "target-unknown",
				Summary: fmt.Sprintf("there is no %s %q in the spec", t.Kind.Title(), targetName(t)),
				Detail:  "Correct the name: a target is an object of the spec, such as queue/orders.",
			})
		}
	}
	return wanted
}

func targetName(k topology.Key) string {
	if k.Kind == topology.KindVirtualHost {
		return k.VirtualHost
	}
	return k.Name
}

// target marks an object and what is written with it.
func (h *host) target(t topology.Key, wanted map[topology.Key]bool) bool {
	k := topology.Key{Kind: t.Kind, VirtualHost: h.name, Name: t.Name}
	if t.Kind == topology.KindVirtualHost {
		k.Name = ""
		wanted[k] = true
		return true
	}
	if h.leaving[k] != nil {
		return true // it is deleted alone, see findDeletes
	}
	if !h.managed[k] || wanted[k] {
		return wanted[k]
	}
	if !slices.ContainsFunc(h.desired.Objects(), func(o topology.Object) bool { return o.Key() == k }) {
		return false
	}
	wanted[k] = true
	end := topology.End{Type: topology.ToExchange, Name: t.Name}
	if t.Kind == topology.KindQueue {
		end.Type = topology.ToQueue
		if p := h.generated[t.Name]; p != nil {
			wanted[p.Key()] = true
		}
		if q := h.want.Queues[t.Name]; q.Intent != nil && q.Intent.Retry != nil {
			for _, name := range q.Intent.Retry.WaitQueues {
				h.target(topology.Key{Kind: topology.KindQueue, Name: name}, wanted)
			}
		}
	}
	if t.Kind == topology.KindQueue || t.Kind == topology.KindExchange {
		for _, b := range h.want.To[end] {
			wanted[b.Key()] = true
		}
	}
	return true
}
