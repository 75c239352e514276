package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// dotShapes are the attributes of each class.
var dotShapes = map[Class]string{
	ClassPublisher:  `shape=box style="rounded,filled"`,
	ClassExchange:   `shape=hexagon style=filled`,
	ClassQueue:      `shape=box style=filled`,
	ClassStream:     `shape=cylinder style=filled`,
	ClassWait:       `shape=parallelogram style=filled`,
	ClassDeadLetter: `shape=box peripheries=2 style=filled`,
	ClassConsumer:   `shape=box style="rounded,filled"`,
	ClassMissing:    `shape=box style="dashed,filled"`,
}

var dotLines = map[Link]string{
	LinkPublish: "solid", LinkBinding: "solid", LinkAlternate: "dotted", LinkDeadLetter: "dashed",
	LinkRetry: "dashed", LinkReturn: "bold", LinkConsume: "solid",
}

// DOT writes the drawing in the language of Graphviz.
func DOT(out io.Writer, d *Drawing) error {
	w := bufio.NewWriter(out)
	title := append([]string{d.Title}, d.Notes...)
	fmt.Fprintf(w, "digraph rabbitctl {\n")
	fmt.Fprintf(w, "  graph [rankdir=LR, labelloc=t, fontname=\"sans-serif\", label=<%s>]\n", dotLabel(title, nil))
	fmt.Fprintf(w, "  node [fontname=\"sans-serif\", fontsize=11]\n")
	fmt.Fprintf(w, "  edge [fontname=\"sans-serif\", fontsize=9]\n")
	for _, n := range d.Nodes {
		lines := d.lines(n)
		p, width := classColors[n.Class], 1
		if marked(n.Findings) {
			p.line, width = red, 3
		}
		fmt.Fprintf(w, "  %s [%s fillcolor=%q color=%q penwidth=%d label=<%s> tooltip=%s]\n",
			n.ID, dotShapes[n.Class], p.fill, p.line, width, dotLabel(lines, findingLines(n.Findings)), dotString(d.tooltip(n)))
	}
	for _, e := range d.Edges {
		color, width := linkLooks[e.Link].line, 1
		if marked(e.Findings) {
			color, width = red, 3
		}
		fmt.Fprintf(w, "  %s -> %s [style=%s color=%q fontcolor=%q penwidth=%d", e.From.ID, e.To.ID, dotLines[e.Link], color, color, width)
		var lines []string
		if label := e.label(); label != "" {
			lines = []string{label}
		}
		if found := findingLines(e.Findings); len(lines)+len(found) > 0 {
			fmt.Fprintf(w, " label=<%s>", dotLabel(lines, found))
		}
		fmt.Fprintf(w, " tooltip=%s]\n", dotString(e.describe()))
	}
	if lines := findingLines(d.Elsewhere); len(lines) > 0 {
		fmt.Fprintf(w, "  rest [shape=note color=%q label=<%s>]\n", red, dotLabel([]string{"other findings"}, lines))
	}
	dotLegend(w, d)
	fmt.Fprintf(w, "}\n")
	return w.Flush()
}

func dotLegend(w io.Writer, d *Drawing) {
	classes, links := d.used()
	fmt.Fprintf(w, "  subgraph cluster_legend {\n    label=\"legend\" fontname=\"sans-serif\" color=\"#c8c8d0\"\n")
	for i, c := range classTitles {
		if classes[c.Class] {
			p := classColors[c.Class]
			fmt.Fprintf(w, "    l%d [%s fillcolor=%q color=%q label=%s]\n", i+1, dotShapes[c.Class], p.fill, p.line, dotString(c.Title))
		}
	}
	for i, l := range linkTitles {
		if links[l.Link] {
			color := linkLooks[l.Link].line
			fmt.Fprintf(w, "    k%d [shape=point] k%d [shape=point]\n", 2*i+1, 2*i+2)
			fmt.Fprintf(w, "    k%d -> k%d [style=%s color=%q fontcolor=%q label=%s]\n", 2*i+1, 2*i+2, dotLines[l.Link], color, color, dotString(l.Title))
		}
	}
	fmt.Fprintf(w, "  }\n")
}

// tooltip is everything about a node as one text.
func (d *Drawing) tooltip(n *Node) string {
	parts := []string{n.Kind + " " + text.Line(n.Name)}
	for _, s := range n.Settings {
		parts = append(parts, text.Line(s.line()))
	}
	for _, f := range n.Findings {
		parts = append(parts, sentence(f))
	}
	return strings.Join(parts, "\n")
}

func (s Setting) line() string {
	out := s.Name + ": " + s.Value
	if s.Origin != "" {
		out += " (" + s.Origin + ")"
	}
	return out
}

// dotLabel is an HTML-like label: plain lines, then lines in red.
func dotLabel(lines, found []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteString("<br/>")
		}
		b.WriteString(markup(l))
	}
	for i, l := range found {
		if i > 0 || len(lines) > 0 {
			b.WriteString("<br/>")
		}
		b.WriteString(`<font color="` + red + `">` + markup(l) + `</font>`)
	}
	return b.String()
}

// dotString quotes a text. Graphviz reads backslash sequences and HTML entities
// inside of quoted texts, so both are escaped.
func dotString(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;").Replace(text.Line(l))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// markup escapes text for XML, HTML and Graphviz's HTML-like labels. What XML
// cannot hold is written as an escape by text.Line; an empty text becomes a
// blank, which Graphviz needs.
func markup(s string) string {
	s = text.Line(s)
	if s == "" {
		return " "
	}
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(s)
	return strings.Map(func(r rune) rune {
		if r == 0xFFFE || r == 0xFFFF { // not allowed in XML
			return 0xFFFD
		}
		return r
	}, s)
}
