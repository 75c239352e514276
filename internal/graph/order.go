package graph

import (
	"cmp"
	"math"
	"slices"
)

// sweeps is how often the order of the layers is gone through; more changes
// little.
const sweeps = 12

// reorder sorts each layer by the middle of its neighbours, to and fro, and keeps
// the order with the fewest crossings.
func (p *part) reorder() {
	p.number()
	best, fewest := p.snapshot(), p.crossings()
	for i := 0; i < sweeps && fewest > 0; i++ {
		if i%2 == 0 {
			for _, layer := range p.layers {
				sortBy(layer, func(s *slot) []*slot { return s.left })
			}
		} else {
			for l := len(p.layers) - 1; l >= 0; l-- {
				sortBy(p.layers[l], func(s *slot) []*slot { return s.right })
			}
		}
		if n := p.crossings(); n < fewest {
			best, fewest = p.snapshot(), n
		}
	}
	for s, order := range best {
		p.slots[s].order = order
	}
	for _, layer := range p.layers {
		slices.SortFunc(layer, func(a, b *slot) int { return cmp.Compare(a.order, b.order) })
	}
}

func (p *part) number() {
	for _, layer := range p.layers {
		for i, s := range layer {
			s.order = i
		}
	}
}

func (p *part) snapshot() []int {
	all := make([]int, len(p.slots))
	for i, s := range p.slots {
		all[i] = s.order
	}
	return all
}

func sortBy(layer []*slot, neighbours func(*slot) []*slot) {
	for _, s := range layer {
		s.key = float64(s.order)
		if list := neighbours(s); len(list) > 0 {
			sum := 0
			for _, n := range list {
				sum += n.order
			}
			s.key = float64(sum) / float64(len(list))
		}
	}
	slices.SortStableFunc(layer, func(a, b *slot) int { return cmp.Compare(a.key, b.key) })
	for i, s := range layer {
		s.order = i
	}
}

// crossings counts the pairs of wires that cross between two layers, with a tree
// of sums: near linear in the number of wires.
func (p *part) crossings() int {
	n := 0
	for l := 0; l+1 < len(p.layers); l++ {
		left := slices.Clone(p.layers[l])
		slices.SortFunc(left, func(a, b *slot) int { return cmp.Compare(a.order, b.order) })
		size := len(p.layers[l+1])
		tree, seen := make([]int, size+1), 0
		for _, s := range left {
			orders := make([]int, len(s.right))
			for i, r := range s.right {
				orders[i] = r.order
			}
			slices.Sort(orders)
			for _, o := range orders {
				notAfter := 0
				for i := o + 1; i > 0; i -= i & -i {
					notAfter += tree[i]
				}
				n += seen - notAfter
			}
			for _, o := range orders {
				for i := o + 1; i <= size; i += i & -i {
					tree[i]++
				}
				seen++
			}
		}
	}
	return n
}

// align moves the slots of each layer towards their neighbours.
func (p *part) align() {
	for _, layer := range p.layers {
		y := 0.0
		for _, s := range layer {
			s.y = y + float64(s.height)/2
			y += float64(s.height)
		}
	}
	for i := range 2 * sweeps {
		for l := range p.layers {
			if i%2 == 1 {
				l = len(p.layers) - 1 - l
			}
			settle(p.layers[l])
		}
	}
	top := math.Inf(1)
	for _, s := range p.slots {
		top = math.Min(top, s.y-float64(s.height)/2)
	}
	for _, s := range p.slots {
		s.y -= top
		p.height = max(p.height, int(math.Ceil(s.y+float64(s.height)/2)))
	}
}

// settle moves slots to the mean of their neighbours, as near as order and
// heights allow: the least sum of squared distances, by pooling slots that would
// overlap (isotonic regression). A neighbour counts the less the more neighbours
// it has itself, so that a queue stands beside its own wait queue and not beside
// the exchange of a hundred queues; passing wires weigh more, so that they are
// straight.
func settle(layer []*slot) {
	type pool struct {
		sum, weight float64
		first       int
	}
	offsets := make([]float64, len(layer)) // of each middle, when all are packed
	var pools []pool
	at := 0.0
	for i, s := range layer {
		offsets[i] = at + float64(s.height)/2
		at += float64(s.height)
		want, weight := s.y, 0.01
		sum, total := 0.0, 0.0
		for _, side := range [][]*slot{s.left, s.right} {
			for _, n := range side {
				w := 1 / float64(len(n.left)+len(n.right))
				sum, total = sum+w*n.y, total+w
			}
		}
		if total > 0 {
			want, weight = sum/total, total
			if s.box < 0 {
				weight *= 4
			}
		}
		pools = append(pools, pool{(want - offsets[i]) * weight, weight, i})
		for len(pools) > 1 {
			a, b := &pools[len(pools)-2], pools[len(pools)-1]
			if a.sum/a.weight < b.sum/b.weight {
				break
			}
			a.sum, a.weight = a.sum+b.sum, a.weight+b.weight
			pools = pools[:len(pools)-1]
		}
	}
	for k, q := range pools {
		end := len(layer)
		if k+1 < len(pools) {
			end = pools[k+1].first
		}
		for i := q.first; i < end; i++ {
			layer[i].y = q.sum/q.weight + offsets[i]
		}
	}
}

// route gives boxes their places and wires their points.
func (p *part) route(flipped map[int]bool) {
	columns := p.columns()
	for _, s := range p.slots {
		if s.box >= 0 {
			b := &p.boxes[s.box]
			b.x, b.width = columns[s.layer].x, columns[s.layer].width
			b.y = int(math.Round(s.y)) - b.height/2
		}
	}
	right, left := p.ports(true), p.ports(false)
	for _, i := range p.own {
		chain := p.chains[i]
		if chain == nil {
			continue
		}
		first, last := p.boxes[chain[0].box], p.boxes[chain[len(chain)-1].box]
		points := []point{{first.x + first.width, right[i]}}
		for _, s := range chain[1 : len(chain)-1] {
			c, y := columns[s.layer], int(math.Round(s.y))
			points = append(points, point{c.x - c.gap, y}, point{c.x + c.width, y})
		}
		end := columns[chain[len(chain)-1].layer]
		points = append(points, point{end.x - end.gap, left[i]}, point{last.x, left[i]})
		if flipped[i] {
			slices.Reverse(points)
		}
		p.wires[i].points = points
	}
}

// column is the place of a layer; gap is the room for labels left of it.
type column struct{ x, width, gap int }

// columns places the layers side by side, with room for the labels between them.
func (p *part) columns() []column {
	columns := make([]column, len(p.layers))
	for l, layer := range p.layers {
		for _, s := range layer {
			if s.box >= 0 {
				columns[l].width = max(columns[l].width, p.boxes[s.box].width)
			}
		}
	}
	for _, i := range p.own {
		if chain := p.chains[i]; chain != nil && p.wires[i].label > 0 {
			c := &columns[chain[len(chain)-1].layer]
			c.gap = max(c.gap, p.wires[i].label+labelSpace)
		}
	}
	x := 0
	for l := range columns {
		if l > 0 {
			x += layerGap + columns[l].gap
		}
		columns[l].x = x
		x += columns[l].width
	}
	p.width = x + loopRoom(p)
	return columns
}

// loopRoom is the room right of the last layer for wires from a box to itself.
func loopRoom(p *part) int {
	for _, i := range p.own {
		if p.wires[i].from == p.wires[i].to {
			return loopSize
		}
	}
	return 0
}

const loopSize = 30

// ports spreads the ends of wires over the right (or left) sides of the boxes, in
// the order of where they lead.
func (p *part) ports(right bool) map[int]int {
	type end struct {
		wire  int
		other float64
	}
	ends := map[int][]end{}
	for _, i := range p.own {
		chain := p.chains[i]
		if chain == nil {
			continue
		}
		if right {
			ends[chain[0].box] = append(ends[chain[0].box], end{i, chain[1].y})
		} else {
			box := chain[len(chain)-1].box
			ends[box] = append(ends[box], end{i, chain[len(chain)-2].y})
		}
	}
	at := map[int]int{}
	for box, list := range ends {
		slices.SortStableFunc(list, func(a, b end) int { return cmp.Compare(a.other, b.other) })
		b := p.boxes[box]
		step := float64(b.height) / float64(len(list)+1)
		for k, e := range list {
			at[e.wire] = b.y + int(math.Round(step*float64(k+1)))
		}
	}
	return at
}
