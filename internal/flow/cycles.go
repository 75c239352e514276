package flow

import (
	"slices"
)

// Cycle is a circle of dead-letter routes: each queue's dead letters come into the
// next, those of the last into the first.
type Cycle struct {
	Hops []Hop
	// Dropped: every queue gives up messages by itself, so that one can go all the
	// way round with no consumer rejecting it. The broker drops it when it would
	// come back; from a queue that dead-letters at least once it does not leave, and
	// stays there for ever (both measured). Otherwise a consumer must reject it
	// somewhere, and it goes round for ever.
	Dropped bool
	// Certain: nothing but the routing key decides that messages go round.
	Certain bool
	// Keys are routing keys of messages that come back to the first queue.
	Keys *Keys
}

// Hop is one queue of a cycle.
type Hop struct {
	Queue string
	// Causes are those for which the queue gives up messages by itself; none: only a
	// consumer makes it.
	Causes []Cause
	// AtLeastOnce is that of the queue's route.
	AtLeastOnce bool
}

// Queues are the names of the queues on a cycle.
func (c *Cycle) Queues() []string {
	names := make([]string, len(c.Hops))
	for i, h := range c.Hops {
		names[i] = h.Queue
	}
	return names
}

// Has reports whether a hop is there that needs a certain cause: no other makes that
// queue give up messages by itself.
func (c *Cycle) Has(only Cause) bool {
	return slices.ContainsFunc(c.Hops, func(h Hop) bool { return len(h.Causes) == 1 && h.Causes[0] == only })
}

// Cycles lists circles of dead-letter routes: those that the broker breaks by
// dropping messages first, then those that go on for ever. Every queue on some
// circle is on one that is listed; not all circles are, of which there can be
// endlessly many.
func (g *Graph) Cycles() []Cycle {
	var all []Cycle
	seen := map[string]bool{}
	known := map[string]bool{} // on some circle, listed or not
	looked := &g.looked
	for _, dropped := range []bool{true, false} {
		group := g.circles(func(s *queueState) bool {
			return s.route != nil && (!dropped || len(s.causes()) > 0)
		})
		for _, s := range g.states {
			name := s.queue.Name
			if group[s] == 0 || seen[name] || *looked > maxLooked && known[name] || *looked > 128*maxLooked {
				continue
			}
			c, ok := g.circle(s, group, looked)
			if !ok {
				continue
			}
			for _, h := range c.Hops {
				known[h.Queue] = true
				seen[h.Queue] = seen[h.Queue] || dropped == c.Dropped
			}
			if dropped != c.Dropped {
				continue
			}
			all = append(all, c)
		}
		clear(seen)
	}
	return all
}

// circles numbers groups of queues that lead to each other, from 1, over the queues
// that take part; queues on no circle have no number. Queues and the reaches that
// they share are the nodes, so that the edges stay few.
func (g *Graph) circles(part func(*queueState) bool) map[*queueState]int {
	var nodes []any
	number := map[any]int{}
	meet := func(n any) int {
		i, ok := number[n]
		if !ok {
			i = len(nodes)
			number[n] = i
			nodes = append(nodes, n)
		}
		return i
	}
	for _, s := range g.states {
		if part(s) {
			meet(s)
		}
	}
	var edges [][]int
	for i := 0; i < len(nodes); i++ {
		var to []int
		switch n := nodes[i].(type) {
		case *queueState:
			reach, _ := g.deadReach(n)
			to = append(to, meet(reach))
		case *Reach:
			for _, t := range n.Targets {
				if s := g.byName[t.Queue]; s != nil && part(s) {
					to = append(to, meet(s))
				}
			}
		}
		edges = append(edges, to)
	}
	group := map[*queueState]int{}
	for i, component := range components(edges) {
		if len(component) < 2 { // a queue that leads to itself does so through a reach
			continue
		}
		for _, n := range component {
			if s, ok := nodes[n].(*queueState); ok {
				group[s] = i + 1
			}
		}
	}
	return group
}

// deadReach is where the dead letters of a queue go, one value for queues alike.
func (g *Graph) deadReach(s *queueState) (*Reach, bool) {
	classes := g.deadClasses(s)
	if len(classes) == 1 {
		return g.spread(s.route.Exchange, classes[0], deadHeaders), true
	}
	reach, _ := g.DeadLetters(s.queue.Name)
	return reach, len(classes) > 0
}

// components are the strongly connected ones of a graph (Tarjan), with a stack of
// its own: chains can be long.
func components(edges [][]int) [][]int {
	const unseen = -1
	index := make([]int, len(edges))
	low := make([]int, len(edges))
	onStack := make([]bool, len(edges))
	for i := range index {
		index[i] = unseen
	}
	type frame struct{ node, next int }
	var stack []int
	var result [][]int
	count := 0
	for root := range edges {
		if index[root] != unseen {
			continue
		}
		calls := []frame{{node: root}}
		for len(calls) > 0 {
			f := &calls[len(calls)-1]
			n := f.node
			if f.next == 0 && index[n] == unseen {
				index[n], low[n] = count, count
				count++
				stack = append(stack, n)
				onStack[n] = true
			}
			if f.next < len(edges[n]) {
				to := edges[n][f.next]
				f.next++
				if index[to] == unseen {
					calls = append(calls, frame{node: to})
				} else if onStack[to] {
					low[n] = min(low[n], index[to])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				up := calls[len(calls)-1].node
				low[up] = min(low[up], low[n])
			}
			if low[n] != index[n] {
				continue
			}
			var component []int
			for {
				top := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				onStack[top] = false
				component = append(component, top)
				if top == n {
					break
				}
			}
			slices.Sort(component)
			result = append(result, component)
		}
	}
	return result
}

// maxHops bounds the search for one circle, in queues looked at. When all searches
// together have looked at maxLooked, queues that are on a circle already are left
// out: of a ring of thousands each would find the same one.
const (
	maxHops   = 10000
	maxLooked = 1 << 17
)

// circle finds a shortest way from a queue back to it, within its group, that some
// message really takes: its routing key is followed. Ways that are certain are
// looked for first.
func (g *Graph) circle(s *queueState, group map[*queueState]int, looked *int) (Cycle, bool) {
	for _, certain := range []bool{true, false} {
		for _, c := range g.startClasses(s) {
			if cycle, ok := g.circleOf(s, c, group, certain, looked); ok {
				cycle.Certain = certain
				return cycle, true
			}
		}
	}
	return Cycle{}, false
}

// startClasses are the messages in a queue.
func (g *Graph) startClasses(s *queueState) []class {
	if in := g.inflows()[s.queue.Name]; in != nil {
		return in.classes
	}
	return nil
}

func (g *Graph) circleOf(start *queueState, c class, group map[*queueState]int, certain bool, total *int) (Cycle, bool) {
	type stop struct {
		s    *queueState
		c    class
		from int
	}
	type visited struct {
		s *queueState
		c class
	}
	todo := []stop{{start, c, -1}}
	seen := map[visited]bool{{start, c}: true}
	looked := 0
	defer func() { *total += looked }()
	for i := 0; i < len(todo) && looked < maxHops; i++ {
		at := todo[i]
		next := at.c
		if at.s.route.Fixed {
			next = class{keys: g.literal(at.s.route.Key)}
		}
		reach := g.spread(at.s.route.Exchange, next, deadHeaders)
		looked += len(reach.Targets) + 1
		for _, t := range g.within(reach, group, group[start]) {
			keys := t.Keys
			if certain {
				keys = t.Certain
			}
			if keys.Empty() {
				continue
			}
			to := stop{g.byName[t.Queue], class{keys, next.cc}, i}
			if to.s == start {
				return g.cycle(func(yield func(*queueState) bool) {
					for j := i; j >= 0 && yield(todo[j].s); j = todo[j].from {
					}
				}, keys), true
			}
			if v := (visited{to.s, to.c}); !seen[v] {
				seen[v] = true
				todo = append(todo, to)
			}
		}
	}
	return Cycle{}, false
}

// within lists the targets of a reach that are in a group.
func (g *Graph) within(r *Reach, group map[*queueState]int, number int) []*Target {
	var all []*Target
	for i := range r.Targets {
		if s := g.byName[r.Targets[i].Queue]; s != nil && group[s] == number && s.route != nil {
			all = append(all, &r.Targets[i])
		}
	}
	return all
}

// cycle makes a Cycle of queues that are given backwards.
func (g *Graph) cycle(backwards func(func(*queueState) bool), keys *Keys) Cycle {
	c := Cycle{Dropped: true, Keys: keys}
	for s := range backwards {
		causes := s.causes()
		c.Dropped = c.Dropped && len(causes) > 0
		c.Hops = append(c.Hops, Hop{s.queue.Name, causes, s.route.AtLeastOnce})
	}
	slices.Reverse(c.Hops)
	return c
}
