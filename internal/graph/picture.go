package graph

import (
	"strconv"
	"strings"
)

const (
	// manyNodes is the number from which on a drawing is taken apart.
	manyNodes = 60
	// A hub is an exchange with more bindings than wideHub; each of its copies
	// leads to at most hubShare of what it is bound to.
	wideHub  = 40
	hubShare = 24
)

// picture is a drawing with its layout. What is large is taken apart so that it
// can be packed into a sheet instead of one endless column: an exchange with many
// bindings is drawn several times, and what leads from one group of queues to
// another only on failure ends in a reference, a name with an arrow.
type picture struct {
	drawing       *Drawing
	items         []item
	boxes         []box
	wires         []wire // one for each edge of the drawing
	labels        []string
	width, height int
}

// item is a node as it is drawn, once or several times.
type item struct {
	node         *Node
	reference    bool
	copy, copies int
}

// text is what a reference shows.
func (i item) text() string { return "→ " + shorten(i.node.Name, maxLabel) }

// part says which of several copies this is.
func (i item) part() string {
	return " (" + strconv.Itoa(i.copy+1) + " of " + strconv.Itoa(i.copies) + ")"
}

func newPicture(d *Drawing) *picture {
	p := &picture{drawing: d}
	index := map[*Node]int{}
	for i, n := range d.Nodes {
		index[n] = i
		p.items = append(p.items, item{node: n})
		p.boxes = append(p.boxes, d.boxOf(n))
	}
	for _, e := range d.Edges {
		label := e.label()
		if marked(e.Findings) {
			label = strings.TrimSpace(label + " " + strings.Join(codeLines(e.Findings), ", "))
		}
		w := wire{from: index[e.From], to: index[e.To], back: e.Link == LinkReturn && e.To.Class != ClassExchange}
		if label != "" {
			w.label = textWidth(label, 10) + 6
		}
		p.labels = append(p.labels, label)
		p.wires = append(p.wires, w)
	}
	if len(d.Nodes) > manyNodes {
		p.copyHubs()
		p.cutFailures()
	}
	p.width, p.height = layout(p.boxes, p.wires, 1.7)
	return p
}

// copyHubs draws exchanges with many bindings several times.
func (p *picture) copyHubs() {
	out := map[int][]int{}
	for i, e := range p.drawing.Edges {
		if e.Link == LinkBinding && e.From != e.To {
			out[p.wires[i].from] = append(out[p.wires[i].from], i)
		}
	}
	for hub := range len(p.drawing.Nodes) {
		list := out[hub]
		if len(list) <= wideHub {
			continue
		}
		copies := (len(list) + hubShare - 1) / hubShare
		p.items[hub].copies = copies
		p.boxes[hub].width += textWidth(p.items[hub].part(), 10)
		for k := 1; k < copies; k++ {
			at := len(p.items)
			p.items = append(p.items, item{node: p.items[hub].node, copy: k, copies: copies})
			p.boxes = append(p.boxes, p.boxes[hub])
			for _, i := range list[k*hubShare : min((k+1)*hubShare, len(list))] {
				p.wires[i].from = at
			}
		}
	}
}

// cutFailures ends alternate and dead-letter routes in references where they are
// all that connects two groups.
func (p *picture) cutFailures() {
	var kept []wire
	failure := func(i int) bool {
		e := p.drawing.Edges[i]
		return e.Link == LinkAlternate || e.Link == LinkDeadLetter || e.Link == LinkReturn && e.To.Class == ClassExchange
	}
	fed := map[int]bool{} // by something else than failures
	for i, w := range p.wires {
		if !failure(i) {
			kept = append(kept, w)
			fed[w.to] = true
		}
	}
	// A dead-letter queue of one queue alone stays with it.
	sources := map[int]map[int]bool{}
	for i, w := range p.wires {
		if failure(i) {
			if sources[w.to] == nil {
				sources[w.to] = map[int]bool{}
			}
			sources[w.to][w.from] = true
		}
	}
	for i, w := range p.wires {
		if failure(i) && len(sources[w.to]) == 1 && !fed[w.to] {
			kept = append(kept, w)
		}
	}
	group := make([]int, len(p.items))
	for g, members := range connected(len(p.items), kept) {
		for _, m := range members {
			group[m] = g
		}
	}
	type ends struct{ from, to int }
	references := map[ends]int{}
	for i := range p.wires {
		w := &p.wires[i]
		if !failure(i) || group[w.from] == group[w.to] {
			continue
		}
		at, ok := references[ends{w.from, w.to}]
		if !ok {
			at = len(p.items)
			references[ends{w.from, w.to}] = at
			it := item{node: p.items[w.to].node, reference: true}
			p.items = append(p.items, it)
			p.boxes = append(p.boxes, box{width: textWidth(it.text(), 11) + 10, height: 20})
		}
		w.to = at
	}
}
