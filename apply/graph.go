package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// graph says which change waits for which. Its nodes are the changes, numbered
// as in the plan, and then the routes: a node of their own for each keeps the
// graph linear in size when thousands of queues need one route.
type graph struct {
	changes    []*plan.Change
	needs      [][]int // by node: what it waits for
	dependents [][]int // by node: what waits for it
	order      []int   // all nodes, each after what it needs
}

func newGraph(p *plan.Plan) (*graph, error) {
	if p == nil {
		return nil, &PlanError{Problems: []string{"there is none"}}
	}
	node := make(map[string]int, len(p.Changes)+len(p.Routes))
	var problems []string
	for i, c := range p.Changes {
		if problem := malformed(c); problem != "" {
			problems = append(problems, problem)
			continue
		}
		if _, twice := node[c.ID]; twice {
			problems = append(problems, fmt.Sprintf("two changes have the ID %q", c.ID))
		}
		node[c.ID] = i
	}
	if problems != nil {
		return nil, &PlanError{Problems: problems}
	}
	routes := routeGroups(p.Routes)
	for i, group := range routes {
		for _, id := range group {
			if _, isChange := node[id]; isChange {
				return nil, &PlanError{Problems: []string{fmt.Sprintf("a change and a route have the ID %q", id)}}
			}
			node[id] = len(p.Changes) + i
		}
	}

	size := len(p.Changes) + len(routes)
	g := &graph{changes: p.Changes, needs: make([][]int, size), dependents: make([][]int, size)}
	connect := func(n int, ids []string) {
		for _, id := range ids {
			m, ok := node[id]
			// What the plan does not change is there already.
			if ok && (m != n || n < len(p.Changes)) {
				g.needs[n] = append(g.needs[n], m)
				g.dependents[m] = append(g.dependents[m], n)
			}
		}
	}
	for i, c := range p.Changes {
		if len(c.Blocked) == 0 {
			connect(i, c.Needs)
		}
	}
	for i, group := range routes {
		for _, id := range group {
			connect(len(p.Changes)+i, p.Routes[id])
		}
	}
	return g, g.sort()
}

// malformed says what is wrong with one change, whatever a plan file held.
func malformed(c *plan.Change) string {
	switch {
	case c == nil:
		return "a change is empty"
	case len(c.Blocked) > 0:
		return "" // never carried out
	case c.Action != plan.Delete && c.After == nil,
		c.Action == plan.Delete && c.Before == nil:
		return fmt.Sprintf("%s %s: the object is missing", c.Action, c.Key)
	}
	switch c.Action {
	case plan.Create, plan.Update, plan.Replace, plan.Delete:
		return ""
	}
	return fmt.Sprintf("%s: unknown action %q", c.Key, string(c.Action))
}

// sort fills order, or names changes that wait for each other.
func (g *graph) sort() error {
	open := make([]int, len(g.needs))
	for n, needs := range g.needs {
		open[n] = len(needs)
		if len(needs) == 0 {
			g.order = append(g.order, n)
		}
	}
	for i := 0; i < len(g.order); i++ {
		for _, d := range g.dependents[g.order[i]] {
			if open[d]--; open[d] == 0 {
				g.order = append(g.order, d)
			}
		}
	}
	if len(g.order) == len(g.needs) {
		return nil
	}
	return &PlanError{Problems: []string{"changes wait for each other: " + strings.Join(g.cycle(open), ", ")}}
}

// cycle walks from need to need among the nodes that were not reached, each of
// which has such a need, until it comes back.
func (g *graph) cycle(open []int) []string {
	n := slices.IndexFunc(open, func(count int) bool { return count > 0 })
	at := map[int]int{}
	var path []int
	for {
		if start, back := at[n]; back {
			path = path[start:]
			break
		}
		at[n] = len(path)
		path = append(path, n)
		n = g.needs[n][slices.IndexFunc(g.needs[n], func(m int) bool { return open[m] > 0 })]
	}
	var list []string
	for _, n := range path {
		if n < len(g.changes) {
			list = append(list, g.changes[n].Key.String())
		}
	}
	return list
}

// isPolicy reports whether a change is a policy's, of which one runs at a time:
// the broker matches all queues anew for each.
func (g *graph) isPolicy(i int) bool {
	k := g.changes[i].Key.Kind
	return k == topology.KindPolicy || k == topology.KindOperatorPolicy
}

// routeGroups returns the routes in groups: routes that contain each other, as
// those of exchanges bound in a circle, are done together and form one group.
// (Tarjan's strongly connected components.)
func routeGroups(routes map[string][]string) [][]string {
	var (
		groups [][]string
		stack  []string
		number = make(map[string]int, len(routes)) // order of discovery, from 1
		low    = make(map[string]int, len(routes)) // smallest number reached
		onPath = make(map[string]bool, len(routes))
		visit  func(id string)
	)
	visit = func(id string) {
		number[id] = len(number) + 1
		low[id] = number[id]
		stack = append(stack, id)
		onPath[id] = true
		for _, member := range routes[id] {
			if _, isRoute := routes[member]; !isRoute {
				continue
			}
			if number[member] == 0 {
				visit(member)
				low[id] = min(low[id], low[member])
			} else if onPath[member] {
				low[id] = min(low[id], number[member])
			}
		}
		if low[id] != number[id] {
			return
		}
		start := len(stack) - 1
		for stack[start] != id {
			start--
		}
		group := slices.Clone(stack[start:])
		stack = stack[:start]
		for _, member := range group {
			onPath[member] = false
		}
		groups = append(groups, group)
	}
	for _, id := range slices.Sorted(maps.Keys(routes)) {
		if number[id] == 0 {
			visit(id)
		}
	}
	return groups
}
