package plan

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// edgeKind says why a node waits for another.
type edgeKind int

const (
	hard       edgeKind = iota // the broker refuses it otherwise
	byPolicy                   // a new queue for the policies that match it
	deadLetter                 // whatever points at a route for that route
)

type edge struct {
	to   int
	kind edgeKind
}

// node is a change or, with change nil, a route.
type node struct {
	id     string
	change *Change
	edges  []edge
	// fallback are edges that hold once it no longer waits for its policies: then
	// any of those that match it may act, in their old or new form.
	fallback []edge
	// component numbers the strongly connected components found last.
	component int
}

// graph says what has to be done before what. Routes are nodes of their own, so
// that thousands of queues with one dead-letter exchange need one edge each.
type graph struct {
	nodes []*node
	index map[string]int
}

func (g *graph) add(id string, change *Change) int {
	g.index[id] = len(g.nodes)
	g.nodes = append(g.nodes, &node{id: id, change: change})
	return len(g.nodes) - 1
}

// connect adds an edge; a negative target is nothing to wait for.
func (g *graph) connect(from, to int, kind edgeKind) {
	if to < 0 || from < 0 {
		return
	}
	// A policy is connected once for each queue that it matches, mostly to the same
	// few routes; beyond those a second edge does no harm.
	edges := g.nodes[from].edges
	if len(edges) <= 16 && slices.ContainsFunc(edges, func(e edge) bool { return e.to == to }) {
		return
	}
	g.nodes[from].edges = append(edges, edge{to, kind})
}

// components finds the strongly connected components (Tarjan's algorithm), over
// routes alone or over everything, and returns their members.
func (g *graph) components(routesOnly bool) [][]int {
	var (
		groups  [][]int
		stack   []int
		count   int
		number  = make([]int, len(g.nodes)) // order of discovery, from 1
		low     = make([]int, len(g.nodes))
		onStack = make([]bool, len(g.nodes))
		visit   func(n int)
	)
	visit = func(n int) {
		count++
		number[n], low[n] = count, count
		stack = append(stack, n)
		onStack[n] = true
		for _, e := range g.nodes[n].edges {
			switch {
			case routesOnly && g.nodes[e.to].change != nil:
			case number[e.to] == 0:
				visit(e.to)
				low[n] = min(low[n], low[e.to])
			case onStack[e.to]:
				low[n] = min(low[n], number[e.to])
			}
		}
		if low[n] != number[n] {
			return
		}
		start := len(stack) - 1
		for stack[start] != n {
			start--
		}
		group := slices.Clone(stack[start:])
		stack = stack[:start]
		for _, m := range group {
			onStack[m] = false
			g.nodes[m].component = len(groups)
		}
		groups = append(groups, group)
	}
	for n := range g.nodes {
		if number[n] == 0 && !(routesOnly && g.nodes[n].change != nil) {
			visit(n)
		}
	}
	return groups
}

// joinRoutes makes routes that contain each other, as those of exchanges bound in
// a circle, one: the first by name gets all members, the others only it.
func (g *graph) joinRoutes() {
	for _, group := range g.components(true) {
		if len(group) == 1 {
			g.drop(group[0], func(e edge) bool { return e.to == group[0] })
			continue
		}
		slices.SortFunc(group, func(a, b int) int { return strings.Compare(g.nodes[a].id, g.nodes[b].id) })
		inside := make(map[int]bool, len(group))
		for _, n := range group {
			inside[n] = true
		}
		first := g.nodes[group[0]]
		var all []edge
		seen := map[int]bool{}
		for _, n := range group {
			for _, e := range g.nodes[n].edges {
				if !inside[e.to] && !seen[e.to] {
					seen[e.to] = true
					all = append(all, e)
				}
			}
			g.nodes[n].edges = []edge{{to: group[0], kind: deadLetter}}
		}
		first.edges = all
	}
}

func (g *graph) drop(n int, which func(edge) bool) bool {
	before := len(g.nodes[n].edges)
	g.nodes[n].edges = slices.DeleteFunc(g.nodes[n].edges, which)
	return len(g.nodes[n].edges) < before
}

// dropEmptyRoutes takes away routes in which nothing is to be done.
func (g *graph) dropEmptyRoutes() {
	// A route is worth waiting for when a change can be reached from it through
	// routes; joinRoutes has left no circles among them.
	state := make([]int, len(g.nodes)) // 0 unknown, 1 empty, 2 not
	var full func(n int) bool
	full = func(n int) bool {
		if g.nodes[n].change != nil {
			return true
		}
		if state[n] == 0 {
			state[n] = 1
			for _, e := range g.nodes[n].edges {
				if full(e.to) {
					state[n] = 2
				}
			}
		}
		return state[n] == 2
	}
	for n := range g.nodes {
		g.drop(n, func(e edge) bool { return !full(e.to) })
		g.nodes[n].fallback = slices.DeleteFunc(g.nodes[n].fallback, func(e edge) bool { return !full(e.to) })
	}
}

// breakCycles drops edges until nothing waits for itself. What gives way first is
// the least harmful: that a queue waits for its policies, then the routes of wait
// queues (nothing feeds them yet), of dead-letter queues, of exchanges to their
// alternate exchange, of other queues.
func (g *graph) breakCycles() {
	for {
		broken := false
		groups := g.components(false)
		for _, group := range groups {
			if len(group) == 1 {
				n := group[0]
				broken = g.drop(n, func(e edge) bool { return e.to == n }) || broken
				continue
			}
			slices.SortFunc(group, func(a, b int) int { return strings.Compare(g.nodes[a].id, g.nodes[b].id) })
			broken = true
			if !g.relax(group) {
				// Cannot happen: without the edges that relax drops only bindings wait
				// for exchanges and queues. The order stays defined all the same.
				n := group[0]
				g.drop(n, func(e edge) bool { return g.nodes[e.to].component == g.nodes[n].component })
			}
		}
		if !broken {
			return
		}
	}
}

// relax drops the first class of edges that the component has.
func (g *graph) relax(group []int) bool {
	isQueue := func(n *node) bool { return n.change != nil && n.change.Key.Kind == topology.KindQueue }
	role := func(n *node) topology.Role {
		if isQueue(n) {
			if q, ok := n.change.After.(*topology.Queue); ok && q.Intent != nil {
				return q.Intent.Role
			}
		}
		return topology.RoleWork
	}
	any := func(*node) bool { return true }
	routing := func(e edge) bool { return e.kind == deadLetter }
	isRoute := func(e edge) bool { return g.nodes[e.to].change == nil }
	for _, class := range []struct {
		from func(*node) bool
		edge func(edge) bool
		one  bool // from one node at a time
	}{
		{from: any, edge: func(e edge) bool { return e.kind == byPolicy }},
		{from: func(n *node) bool { return role(n) == topology.RoleWait }, edge: routing},
		{from: func(n *node) bool { return role(n) == topology.RoleDeadLetter }, edge: routing},
		{from: func(n *node) bool { return !isQueue(n) && n.change != nil }, edge: routing},
		{from: isQueue, edge: func(e edge) bool { return routing(e) && isRoute(e) }},
		{from: isQueue, edge: routing, one: true},
	} {
		dropped := false
		for _, n := range group {
			if !class.from(g.nodes[n]) {
				continue
			}
			inside := func(e edge) bool {
				return g.nodes[e.to].component == g.nodes[n].component && class.edge(e)
			}
			var routes []edge
			for _, e := range g.nodes[n].edges {
				if inside(e) && isRoute(e) {
					routes = append(routes, e)
				}
			}
			if g.drop(n, inside) {
				dropped = true
				g.nodes[n].edges = append(g.nodes[n].edges, g.nodes[n].fallback...)
				g.nodes[n].fallback = nil
				for _, e := range routes {
					g.connect(n, g.partial(e.to), deadLetter)
				}
				if class.one {
					return true
				}
			}
		}
		if dropped {
			return true
		}
	}
	return false
}

// partial is a route without those members that wait for whoever needs it, which
// are in the route's component; -1 when nothing is left.
func (g *graph) partial(route int) int {
	name := "partial-" + g.nodes[route].id
	if n, ok := g.index[name]; ok {
		return n
	}
	component := g.nodes[route].component
	var outside []edge
	seen := map[int]bool{}
	var walk func(n int)
	walk = func(n int) {
		for _, e := range g.nodes[n].edges {
			if seen[e.to] {
				continue
			}
			seen[e.to] = true
			switch {
			case g.nodes[e.to].component != component:
				outside = append(outside, e)
			case g.nodes[e.to].change == nil:
				walk(e.to)
			}
		}
	}
	walk(route)
	if len(outside) == 0 {
		return -1
	}
	n := g.add(name, nil)
	g.nodes[n].component = -1
	g.nodes[n].edges = outside
	return n
}

// order sorts the changes so that each comes after what it needs and fills Needs
// and the routes that are used.
func (g *graph) order() []*Change {
	waiting := make([]int, len(g.nodes))
	dependents := make([][]int, len(g.nodes))
	for n, node := range g.nodes {
		waiting[n] = len(node.edges)
		for _, e := range node.edges {
			dependents[e.to] = append(dependents[e.to], n)
		}
	}
	ready := &readyHeap{graph: g}
	for n := range g.nodes {
		if waiting[n] == 0 {
			heap.Push(ready, n)
		}
	}
	var changes []*Change
	for ready.Len() > 0 {
		n := heap.Pop(ready).(int)
		if c := g.nodes[n].change; c != nil {
			changes = append(changes, c)
			c.Needs = g.names(n)
		}
		for _, d := range dependents[n] {
			if waiting[d]--; waiting[d] == 0 {
				heap.Push(ready, d)
			}
		}
	}
	return changes
}

// names are the IDs of what a node waits for, sorted.
func (g *graph) names(n int) []string {
	var ids []string
	for _, e := range g.nodes[n].edges {
		ids = append(ids, g.nodes[e.to].id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// readyHeap gives routes first, which cost nothing, and then changes by virtual
// host, kind and name.
type readyHeap struct {
	graph *graph
	nodes []int
}

func (h *readyHeap) Len() int { return len(h.nodes) }

func (h *readyHeap) Less(i, j int) bool {
	a, b := h.graph.nodes[h.nodes[i]], h.graph.nodes[h.nodes[j]]
	switch {
	case a.change == nil && b.change == nil:
		return a.id < b.id
	case a.change == nil || b.change == nil:
		return a.change == nil
	}
	return cmp.Or(compareKeys(a.change.Key, b.change.Key), cmp.Compare(a.id, b.id)) < 0
}

func (h *readyHeap) Swap(i, j int) { h.nodes[i], h.nodes[j] = h.nodes[j], h.nodes[i] }
func (h *readyHeap) Push(x any)    { h.nodes = append(h.nodes, x.(int)) }

func (h *readyHeap) Pop() any {
	last := h.nodes[len(h.nodes)-1]
	h.nodes = h.nodes[:len(h.nodes)-1]
	return last
}
