package graph

import (
	"testing"

	"pgregory.net/rapid"
)

// TestLayoutHoldsApart: whatever the graph, no box overlaps another, all are in the
// sheet, and each wire runs from the side of one box to that of another.
func TestLayoutHoldsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "boxes")
		boxes := make([]box, n)
		for i := range boxes {
			boxes[i] = box{width: rapid.IntRange(10, 200).Draw(t, "width"), height: rapid.IntRange(10, 80).Draw(t, "height")}
		}
		wires := make([]wire, rapid.IntRange(0, 60).Draw(t, "wires"))
		for i := range wires {
			wires[i] = wire{
				from: rapid.IntRange(0, n-1).Draw(t, "from"), to: rapid.IntRange(0, n-1).Draw(t, "to"),
				label: rapid.IntRange(0, 1).Draw(t, "labelled") * 60, back: rapid.Bool().Draw(t, "back"),
			}
		}
		width, height := layout(boxes, wires, 1.7)
		for i, a := range boxes {
			if a.x < 0 || a.y < 0 || a.x+a.width > width || a.y+a.height > height {
				t.Fatalf("box %d %+v is outside of %d x %d", i, a, width, height)
			}
			for j, b := range boxes[:i] {
				if a.x < b.x+b.width && b.x < a.x+a.width && a.y < b.y+b.height && b.y < a.y+a.height {
					t.Fatalf("boxes %d %+v and %d %+v overlap", i, a, j, b)
				}
			}
		}
		for i, w := range wires {
			if w.from == w.to {
				if w.points != nil {
					t.Fatalf("wire %d to itself has points", i)
				}
				continue
			}
			first, last := w.points[0], w.points[len(w.points)-1]
			if !atSide(boxes[w.from], first) || !atSide(boxes[w.to], last) {
				t.Fatalf("wire %d %+v runs from %+v to %+v", i, w, boxes[w.from], boxes[w.to])
			}
		}
	})
}

func atSide(b box, p point) bool {
	return (p.x == b.x || p.x == b.x+b.width) && p.y >= b.y && p.y <= b.y+b.height
}

// TestLayoutReads: a retry ladder reads from left to right, with what returns drawn
// back.
func TestLayoutReads(t *testing.T) {
	boxes := make([]box, 4) // exchange, queue, wait queue, dead-letter queue
	for i := range boxes {
		boxes[i] = box{width: 100, height: 40}
	}
	wires := []wire{{from: 2, to: 1, back: true}, {from: 0, to: 1}, {from: 1, to: 2}, {from: 1, to: 3}}
	layout(boxes, wires, 1.7)
	if boxes[0].x >= boxes[1].x || boxes[1].x >= boxes[2].x || boxes[2].x != boxes[3].x {
		t.Errorf("the boxes stand at %+v", boxes)
	}
	if p := wires[0].points; p[0].x <= p[len(p)-1].x {
		t.Errorf("what returns is drawn forward: %+v", p)
	}
}
