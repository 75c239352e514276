package graph

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// mermaidShapes are what stands around a label.
var mermaidShapes = map[Class][2]string{
	ClassPublisher:  {"([", "])"},
	ClassExchange:   {"{{", "}}"},
	ClassQueue:      {"[", "]"},
	ClassStream:     {"[(", ")]"},
	ClassWait:       {"[/", "/]"},
	ClassDeadLetter: {"[[", "]]"},
	ClassConsumer:   {"([", "])"},
	ClassMissing:    {">", "]"},
}

// MermaidLimits are the sizes from which on Mermaid, as GitHub and others run it,
// refuses a diagram: characters of text and edges.
const (
	MermaidMaxText  = 50000
	MermaidMaxEdges = 500
)

// Mermaid writes the drawing as a Mermaid flowchart.
func Mermaid(out io.Writer, d *Drawing) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%%%% %s\n", mermaidComment(d.Title))
	for _, note := range d.Notes {
		fmt.Fprintf(w, "%%%% %s\n", mermaidComment(note))
	}
	fmt.Fprintf(w, "flowchart LR\n")
	for _, n := range d.Nodes {
		lines := append(d.lines(n), findingLines(n.Findings)...)
		fmt.Fprintf(w, "  %s\n", mermaidNode(n.ID, n.Class, lines))
	}
	styles := map[Link][]string{}
	var faulty []string
	edges := 0
	edge := func(from, to string, link Link, label string) {
		arrow := "-->"
		if linkLooks[link].dashes != "" {
			arrow = "-.->"
		}
		if label != "" {
			arrow += `|"` + label + `"|`
		}
		fmt.Fprintf(w, "  %s %s %s\n", from, arrow, to)
		styles[link] = append(styles[link], strconv.Itoa(edges))
		edges++
	}
	for _, e := range d.Edges {
		lines := findingLines(e.Findings)
		if label := e.label(); label != "" {
			lines = append([]string{label}, lines...)
		}
		if marked(e.Findings) {
			faulty = append(faulty, strconv.Itoa(edges))
		}
		edge(e.From.ID, e.To.ID, e.Link, mermaidLines(lines))
	}
	mermaidElsewhere(w, d)
	mermaidLegend(w, d, edge)
	for _, c := range classTitles {
		p := classColors[c.Class]
		fmt.Fprintf(w, "  classDef %s fill:%s,stroke:%s,color:#1a1c22\n", mermaidClass(c.Class), p.fill, p.line)
	}
	fmt.Fprintf(w, "  classDef finding stroke:%s,stroke-width:3px,color:%s\n", red, red)
	for _, c := range classTitles {
		mermaidAssign(w, mermaidClass(c.Class), d.Nodes, func(n *Node) bool { return n.Class == c.Class })
	}
	mermaidAssign(w, "finding", d.Nodes, func(n *Node) bool { return marked(n.Findings) })
	for _, l := range linkTitles {
		if len(styles[l.Link]) > 0 {
			fmt.Fprintf(w, "  linkStyle %s stroke:%s\n", strings.Join(styles[l.Link], ","), linkLooks[l.Link].line)
		}
	}
	if len(faulty) > 0 {
		fmt.Fprintf(w, "  linkStyle %s stroke:%s,color:%s\n", strings.Join(faulty, ","), red, red)
	}
	return w.Flush()
}

func mermaidNode(id string, c Class, lines []string) string {
	shape := mermaidShapes[c]
	return id + shape[0] + `"` + mermaidLines(lines) + `"` + shape[1]
}

// mermaidElsewhere shows the findings that no node or edge stands for.
func mermaidElsewhere(w io.Writer, d *Drawing) {
	lines := findingLines(d.Elsewhere)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "  rest[\"%s\"]\n  class rest finding\n", mermaidLines(append([]string{"other findings"}, lines...)))
}

func mermaidLegend(w io.Writer, d *Drawing, edge func(from, to string, link Link, label string)) {
	classes, links := d.used()
	fmt.Fprintf(w, "  subgraph legend\n  direction LR\n")
	for i, c := range classTitles {
		if classes[c.Class] {
			id := "l" + strconv.Itoa(i+1)
			fmt.Fprintf(w, "  %s\n  class %s %s\n", mermaidNode(id, c.Class, []string{c.Title}), id, mermaidClass(c.Class))
		}
	}
	for i, l := range linkTitles {
		if links[l.Link] {
			from, to := "k"+strconv.Itoa(2*i+1), "k"+strconv.Itoa(2*i+2)
			fmt.Fprintf(w, "  %s[\"&nbsp;\"]\n  %s[\"&nbsp;\"]\n", from, to)
			edge(from, to, l.Link, mermaidText(l.Title))
		}
	}
	fmt.Fprintf(w, "  end\n")
}

func mermaidAssign(w io.Writer, class string, nodes []*Node, in func(*Node) bool) {
	var ids []string
	for _, n := range nodes {
		if in(n) {
			ids = append(ids, n.ID)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(w, "  class %s %s\n", strings.Join(ids, ","), class)
	}
}

func mermaidClass(c Class) string { return strings.ReplaceAll(string(c), "-", "") }

func mermaidLines(lines []string) string {
	escaped := make([]string, len(lines))
	for i, l := range lines {
		escaped[i] = mermaidText(l)
	}
	return strings.Join(escaped, "<br/>")
}

// mermaidText escapes text for a quoted label: everything but letters, digits,
// blanks and a few harmless signs becomes a character code. Mermaid reads
// directives (%%{...}), markdown, HTML and its own syntax inside of labels.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range text.Line(s) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == ' ', r == '.', r == '-', r == ',', r == '…':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// mermaidComment writes a text for a comment, which must hold no directive.
func mermaidComment(s string) string {
	return strings.NewReplacer("{", "(", "}", ")").Replace(text.Line(s))
}
