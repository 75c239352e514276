package graph

import (
	"bufio"
	"fmt"
	"io"

	"github.com/rabbitctl/rabbitctl/internal/diag"
)

const (
	margin    = 24
	lineStep  = 14 // from one line of a node to the next
	textStep  = 17 // from one line of the texts around the drawing to the next
	slant     = 12 // of hexagons and parallelograms
	codesShow = 3  // codes of findings written into a node
)

// SVG writes the drawing as one SVG file with its texts, a legend and the
// findings. Colours follow the light or dark preference of the viewer.
func SVG(out io.Writer, d *Drawing) error {
	p := newPicture(d)
	head := []string{d.Title}
	head = append(head, d.Notes...)
	top := margin + len(head)*textStep + 14
	width := max(p.width+2*margin, 760)
	var list []listed
	for _, f := range d.findings() {
		for i, l := range wrapWidth(sentence(f.Diagnostic), 11, width-2*margin-14) {
			list = append(list, listed{l, i == 0, f.Severity})
		}
	}
	legend := legendHeight(d, width-2*margin)
	height := top + p.height + legend + len(list)*textStep + 3*margin

	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(w, "<title>%s</title>\n<style>\n%s</style>\n", markup(d.Title), styles())
	fmt.Fprintf(w, `<rect class="ground" width="%d" height="%d"/>`+"\n", width, height)
	for i, l := range head {
		class := "text"
		if i == 0 {
			class = "title"
		}
		fmt.Fprintf(w, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, margin, margin+(i+1)*textStep-4, markup(shorten(l, 200)))
	}
	fmt.Fprintf(w, `<g transform="translate(%d %d)">`+"\n", margin, top)
	p.write(w, true)
	fmt.Fprintf(w, "</g>\n")
	y := top + p.height + margin
	writeLegend(w, d, margin, y, width-2*margin)
	y += legend + margin
	for _, l := range list {
		class, x := "text", margin+14
		if l.severity != diag.Info {
			class = "text bad"
		}
		if l.first {
			x = margin
		}
		fmt.Fprintf(w, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, x, y, markup(l.text))
		y += textStep
	}
	fmt.Fprintf(w, "</svg>\n")
	return w.Flush()
}

// listed is a line of the list of findings.
type listed struct {
	text     string
	first    bool
	severity diag.Severity
}

// boxOf measures a node.
func (d *Drawing) boxOf(n *Node) box {
	lines := d.lines(n)
	width := textWidth(lines[0], 12)
	for _, l := range lines[1:] {
		width = max(width, textWidth(l, 10))
	}
	codes := codeLines(n.Findings)
	for _, l := range codes {
		width = max(width, textWidth(l, 10))
	}
	width += 22
	if n.Class == ClassExchange || n.Class == ClassWait {
		width += 2 * slant
	}
	height := 12 + lineStep*(len(lines)+len(codes))
	if n.Class == ClassStream {
		height += 12
	}
	return box{width: width, height: height}
}

// codeLines are the findings of a node in short.
func codeLines(list diag.List) []string {
	var lines []string
	n := 0
	for _, f := range list {
		if f.Severity == diag.Info {
			continue
		}
		if n++; n <= codesShow {
			lines = append(lines, codeLine(f))
		}
	}
	if n > codesShow {
		lines = append(lines, fmt.Sprintf("and %d more findings", n-codesShow))
	}
	return lines
}

func codeLine(f diag.Diagnostic) string { return string(f.Severity) + " " + shorten(f.Code, maxName) }

// write draws edges, then nodes. With tips each has a title, which viewers show on
// hover; without, nodes can have the focus.
func (p *picture) write(w io.Writer, tips bool) {
	for i, e := range p.drawing.Edges {
		class := "edge " + string(e.Link)
		if marked(e.Findings) {
			class += " marked"
		}
		fmt.Fprintf(w, `<g class="%s" id="%s">`, class, e.ID)
		if tips {
			tip := e.describe()
			for _, f := range e.Findings {
				tip += "\n" + sentence(f)
			}
			fmt.Fprintf(w, "<title>%s</title>", multiline(tip))
		}
		p.writeWire(w, i)
		fmt.Fprintf(w, "</g>\n")
	}
	for i, item := range p.items {
		n, b := item.node, p.boxes[i]
		if item.reference {
			fmt.Fprintf(w, `<g class="ref" data-node="%s">`, n.ID)
			fmt.Fprintf(w, `<text x="%d" y="%d">%s</text></g>`+"\n", b.x+4, b.y+b.height/2+4, markup(item.text()))
			continue
		}
		class := "node " + string(n.Class)
		if marked(n.Findings) {
			class += " marked"
		}
		if item.copy > 0 {
			fmt.Fprintf(w, `<g class="%s copy" data-node="%s">`, class, n.ID)
		} else {
			fmt.Fprintf(w, `<g class="%s" id="%s"`, class, n.ID)
			if tips {
				fmt.Fprintf(w, "><title>%s</title>", multiline(p.drawing.tooltip(n)))
			} else {
				fmt.Fprintf(w, ` tabindex="0" role="button" aria-label="%s">`, markup(n.Kind+" "+n.Name))
			}
		}
		writeShape(w, n.Class, b)
		p.writeText(w, item, b)
		fmt.Fprintf(w, "</g>\n")
	}
}

func (p *picture) writeText(w io.Writer, item item, b box) {
	n := item.node
	x, y := b.x+11, b.y+(b.height-lineStep*(len(p.drawing.lines(n))+len(codeLines(n.Findings))))/2+11
	if n.Class == ClassExchange || n.Class == ClassWait {
		x += slant
	}
	if n.Class == ClassStream {
		y += 5
	}
	for i, l := range p.drawing.lines(n) {
		class := "kind"
		if i == 0 {
			class = "name"
		}
		if i == 1 && item.copies > 1 {
			l += item.part()
		}
		fmt.Fprintf(w, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, markup(l))
		y += lineStep
	}
	for _, l := range codeLines(n.Findings) {
		fmt.Fprintf(w, `<text class="code" x="%d" y="%d">%s</text>`, x, y, markup(l))
		y += lineStep
	}
}

func (p *picture) writeWire(w io.Writer, i int) {
	wire := p.wires[i]
	if wire.from == wire.to {
		b := p.boxes[wire.from]
		x, y := b.x+b.width, b.y+b.height
		fmt.Fprintf(w, `<path class="line" d="M%d %dC%d %d %d %d %d %d"/>`, x, y-12, x+loopSize, y-14, x+loopSize, y+16, x-12, y+7)
		fmt.Fprintf(w, `<path class="head" d="M%d %dl-4 9h8z"/>`, x-12, y)
		if p.labels[i] != "" {
			fmt.Fprintf(w, `<text class="label" x="%d" y="%d">%s</text>`, x-20, y+12, markup(p.labels[i]))
		}
		return
	}
	points := wire.points
	last := points[len(points)-1]
	before := points[len(points)-2]
	sign := 1
	if last.x < before.x {
		sign = -1
	}
	fmt.Fprintf(w, `<path class="line" d="M%d %d`, points[0].x, points[0].y)
	for k, to := range points[1:] {
		from := points[k]
		if k == len(points)-2 {
			to.x -= sign * 7 // the arrow's head covers the rest
		}
		if from.y == to.y {
			fmt.Fprintf(w, "L%d %d", to.x, to.y)
			continue
		}
		middle := (from.x + to.x) / 2
		fmt.Fprintf(w, "C%d %d %d %d %d %d", middle, from.y, middle, to.y, to.x, to.y)
	}
	fmt.Fprintf(w, `"/><path class="head" d="M%d %dl%d -4v8z"/>`, last.x, last.y, -sign*9)
	if p.labels[i] != "" {
		at := last
		if points[0].x > last.x { // drawn from right to left: the label is at its right end
			at = points[0]
		}
		fmt.Fprintf(w, `<text class="label" x="%d" y="%d">%s</text>`, at.x-12, at.y-3, markup(p.labels[i]))
	}
}

// writeShape draws the outline of a node, one form for each class.
func writeShape(w io.Writer, c Class, b box) {
	x, y, r, d := b.x, b.y, b.x+b.width, b.y+b.height
	switch c {
	case ClassExchange:
		fmt.Fprintf(w, `<path class="shape" d="M%d %dL%d %dH%dL%d %dL%d %dH%dz"/>`,
			x, (y+d)/2, x+slant, y, r-slant, r, (y+d)/2, r-slant, d, x+slant)
	case ClassWait:
		fmt.Fprintf(w, `<path class="shape" d="M%d %dH%dL%d %dH%dz"/>`, x+slant, y, r, r-slant, d, x)
	case ClassStream:
		fmt.Fprintf(w, `<path class="shape" d="M%d %dV%dA%d 6 0 0 0 %d %dV%dA%d 6 0 0 0 %d %dA%d 6 0 0 0 %d %d"/>`,
			x, y+6, d-6, b.width/2, r, d-6, y+6, b.width/2, x, y+6, b.width/2, r, y+6)
	case ClassPublisher, ClassConsumer:
		fmt.Fprintf(w, `<rect class="shape" x="%d" y="%d" width="%d" height="%d" rx="%d"/>`, x, y, b.width, b.height, min(b.height/2, 18))
	case ClassDeadLetter:
		fmt.Fprintf(w, `<rect class="shape" x="%d" y="%d" width="%d" height="%d"/>`, x, y, b.width, b.height)
		fmt.Fprintf(w, `<rect class="shape" x="%d" y="%d" width="%d" height="%d"/>`, x+4, y+4, b.width-8, b.height-8)
	default:
		fmt.Fprintf(w, `<rect class="shape" x="%d" y="%d" width="%d" height="%d" rx="3"/>`, x, y, b.width, b.height)
	}
}
