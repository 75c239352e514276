package graph

import (
	"cmp"
	"math"
	"slices"
)

// The layout is layered, from left to right: edges that close a cycle are turned
// round, nodes get layers, edges over several layers get a place in each, the
// order within layers is improved to cross less, and each place moves as near to
// its neighbours as the order allows. Parts that are not connected are laid out
// on their own and packed in rows.

// box is a node for the layout.
type box struct {
	width, height int
	x, y          int // upper left corner, the result
}

// wire is an edge for the layout.
type wire struct {
	from, to int // indexes of boxes
	label    int // the width that its label needs, 0 for none
	back     bool
	points   []point // the result: from the side of one box to that of the other
}

type point struct{ x, y int }

const (
	rowGap     = 18 // between boxes of a layer
	lineGap    = 10 // beside an edge that passes a layer
	layerGap   = 56 // between layers, besides the labels in it
	partGap    = 44 // between parts
	portGap    = 16 // between labelled ends of edges at one side of a box
	labelSpace = 14
)

// layout places boxes and routes wires; the result is the size of everything.
// aspect is the wanted ratio of width to height for many small parts.
func layout(boxes []box, wires []wire, aspect float64) (width, height int) {
	var parts []*part
	of := make([]*part, len(boxes))
	for _, members := range connected(len(boxes), wires) {
		p := &part{boxes: boxes, wires: wires, members: members, chains: map[int][]*slot{}}
		parts = append(parts, p)
		for _, m := range members {
			of[m] = p
		}
	}
	for i, w := range wires {
		of[w.from].own = append(of[w.from].own, i)
	}
	for _, p := range parts {
		p.place()
	}
	return pack(parts, aspect)
}

// connected finds the parts that no wire connects, in the order of their first
// box.
func connected(n int, wires []wire) [][]int {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	find := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	for _, w := range wires {
		a, b := find(w.from), find(w.to)
		parent[max(a, b)] = min(a, b)
	}
	index := map[int]int{}
	var parts [][]int
	for i := range n {
		root := find(i)
		at, ok := index[root]
		if !ok {
			at = len(parts)
			index[root] = at
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], i)
	}
	return parts
}

// pack puts parts into rows of about the width that gives the wanted aspect, the
// high ones first.
func pack(parts []*part, aspect float64) (width, height int) {
	area, widest := 0, 0
	for _, p := range parts {
		area += (p.width + partGap) * (p.height + partGap)
		widest = max(widest, p.width)
	}
	limit := max(widest, int(math.Sqrt(float64(area)*aspect)))
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(b.height, a.height) })
	x, y, row := 0, 0, 0
	for _, p := range parts {
		if x > 0 && x+p.width > limit {
			x, y, row = 0, y+row+partGap, 0
		}
		p.moveTo(x, y)
		x += p.width + partGap
		row = max(row, p.height)
		width, height = max(width, x-partGap), max(height, y+row)
	}
	return width, height
}

// part is a connected part while it is laid out. A slot is a box, or the place
// where a wire passes a layer.
type part struct {
	boxes []box
	wires []wire

	members []int
	own     []int // indexes of wires
	slots   []*slot
	layers  [][]*slot
	chains  map[int][]*slot // by wire: the slots that it goes through, left to right
	width   int
	height  int
}

type slot struct {
	box         int // index, -1 for a passing wire
	layer       int
	order       int
	y           float64 // of the middle
	height      int
	left, right []*slot
	key         float64
}

func (p *part) place() {
	flipped := p.flips()
	p.grow(flipped)
	p.layer(flipped)
	p.reorder()
	p.align()
	p.route(flipped)
}

// flips finds the wires to turn round so that no cycle is left: those that lead
// back by their nature, then those that lead to a box on the way to them.
func (p *part) flips() map[int]bool {
	flipped := map[int]bool{}
	out := map[int][]int{}
	for _, i := range p.own {
		w := p.wires[i]
		if w.from == w.to {
			continue
		}
		if w.back {
			flipped[i] = true
			out[w.to] = append(out[w.to], i)
		} else {
			out[w.from] = append(out[w.from], i)
		}
	}
	target := func(i int) int {
		if flipped[i] {
			return p.wires[i].from
		}
		return p.wires[i].to
	}
	const white, grey, black = 0, 1, 2
	color := map[int]int{}
	type frame struct{ box, next int }
	visit := func(root int) {
		stack := []frame{{root, 0}}
		color[root] = grey
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(out[f.box]) {
				color[f.box] = black
				stack = stack[:len(stack)-1]
				continue
			}
			i := out[f.box][f.next]
			f.next++
			switch to := target(i); color[to] {
			case white:
				color[to] = grey
				stack = append(stack, frame{to, 0})
			case grey:
				flipped[i] = !flipped[i]
			}
		}
	}
	// Boxes that nothing leads to come first: the natural beginning.
	entered := map[int]bool{}
	for _, i := range p.own {
		if p.wires[i].from != p.wires[i].to {
			entered[target(i)] = true
		}
	}
	for _, first := range []bool{true, false} {
		for _, m := range p.members {
			if color[m] == white && entered[m] != first {
				visit(m)
			}
		}
	}
	return flipped
}

// ends are the left and the right box of a wire.
func (p *part) ends(i int, flipped map[int]bool) (left, right int) {
	w := p.wires[i]
	if flipped[i] {
		return w.to, w.from
	}
	return w.from, w.to
}

// grow makes boxes high enough for the labels at their left sides.
func (p *part) grow(flipped map[int]bool) {
	labels := map[int]int{}
	for _, i := range p.own {
		if p.wires[i].label > 0 && p.wires[i].from != p.wires[i].to {
			_, right := p.ends(i, flipped)
			labels[right]++
		}
	}
	for _, m := range p.members {
		if n := labels[m]; n > 1 {
			p.boxes[m].height = max(p.boxes[m].height, (n+1)*portGap)
		}
	}
}

// layer gives each box the layer right of everything that leads to it, then moves
// beginnings to the right until they stand beside what they lead to.
func (p *part) layer(flipped map[int]bool) {
	at := map[int]int{}
	next, waiting := map[int][]int{}, map[int]int{}
	for _, i := range p.own {
		if l, r := p.ends(i, flipped); l != r {
			next[l] = append(next[l], r)
			waiting[r]++
		}
	}
	var ready []int
	for _, m := range p.members {
		if waiting[m] == 0 {
			ready = append(ready, m)
		}
	}
	starts := len(ready)
	for k := 0; k < len(ready); k++ {
		for _, r := range next[ready[k]] {
			at[r] = max(at[r], at[ready[k]]+1)
			if waiting[r]--; waiting[r] == 0 {
				ready = append(ready, r)
			}
		}
	}
	for _, m := range ready[:starts] {
		nearest := math.MaxInt
		for _, r := range next[m] {
			nearest = min(nearest, at[r])
		}
		if nearest != math.MaxInt {
			at[m] = nearest - 1
		}
	}
	slots := map[int]*slot{}
	for _, m := range p.members {
		s := &slot{box: m, layer: at[m], height: p.boxes[m].height + rowGap}
		slots[m] = s
		p.slots = append(p.slots, s)
	}
	for _, i := range p.own {
		if l, r := p.ends(i, flipped); l != r {
			p.chain(i, slots[l], slots[r])
		}
	}
	for _, s := range p.slots {
		for len(p.layers) <= s.layer {
			p.layers = append(p.layers, nil)
		}
		p.layers[s.layer] = append(p.layers[s.layer], s)
	}
}

// chain leads a wire through every layer between its ends.
func (p *part) chain(i int, left, right *slot) {
	chain := []*slot{left}
	for l := left.layer + 1; l < right.layer; l++ {
		s := &slot{box: -1, layer: l, height: lineGap}
		p.slots = append(p.slots, s)
		chain = append(chain, s)
	}
	chain = append(chain, right)
	for k := range len(chain) - 1 {
		chain[k].right = append(chain[k].right, chain[k+1])
		chain[k+1].left = append(chain[k+1].left, chain[k])
	}
	p.chains[i] = chain
}

func (p *part) moveTo(x, y int) {
	for _, m := range p.members {
		p.boxes[m].x += x
		p.boxes[m].y += y
	}
	for _, i := range p.own {
		for k := range p.wires[i].points {
			p.wires[i].points[k].x += x
			p.wires[i].points[k].y += y
		}
	}
}
