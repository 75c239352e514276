package graph

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// The lengths, in characters, that labels are shortened to. Tooltips and details
// have the whole text.
const (
	maxName     = 44
	maxLabel    = 28
	maxKeys     = 3  // routing keys shown at an edge
	maxFindings = 3  // findings written out in a node
	wrapAt      = 44 // characters in a line of a finding
	wrapLines   = 4
)

// shorten leaves out the middle of a text, since names that are alike often
// differ at the end. What a terminal or viewer could act on is escaped first.
func shorten(s string, limit int) string {
	s = text.Line(s)
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	r := []rune(s)
	head := limit * 3 / 5
	return string(r[:head]) + "…" + string(r[len(r)-(limit-head-1):])
}

// name is the node's name for a label.
func (n *Node) name() string {
	if n.Name == "" {
		return `""`
	}
	return shorten(n.Name, maxName)
}

// lines are the node's label without findings: its name and what it is.
func (d *Drawing) lines(n *Node) []string {
	lines := []string{n.name(), shorten(n.Kind, maxName)}
	if len(d.VirtualHosts) > 1 {
		lines = append(lines, "in "+shorten(strconv.Quote(n.VirtualHost), maxName-3))
	}
	return lines
}

// label is the edge's label, empty for none.
func (e *Edge) label() string {
	if len(e.Labels) == 0 {
		return ""
	}
	shown := e.Labels
	if len(shown) > maxKeys {
		shown = shown[:maxKeys-1]
	}
	short := make([]string, len(shown))
	for i, l := range shown {
		short[i] = shorten(l, maxLabel)
	}
	label := strings.Join(short, ", ")
	if more := len(e.Labels) - len(shown); more > 0 {
		label += " and " + strconv.Itoa(more) + " more"
	}
	return label
}

// describe is the edge in words, whole.
func (e *Edge) describe() string {
	out := e.From.Name + " → " + e.To.Name
	if len(e.Labels) > 0 {
		out += " [" + strings.Join(e.Labels, ", ") + "]"
	}
	return text.Line(out)
}

// sentence is a finding as one text.
func sentence(f diag.Diagnostic) string {
	s := string(f.Severity) + " " + f.Code + ": " + f.Summary
	if f.Detail != "" {
		s += ". " + f.Detail
	}
	return text.Line(s)
}

// findingLines are the findings of a node or edge as lines of a label; notes
// (severity info) are left to the details.
func findingLines(list diag.List) []string {
	var lines []string
	n := 0
	for _, f := range list {
		if f.Severity == diag.Info {
			continue
		}
		if n++; n <= maxFindings {
			said := f.Summary
			if len(f.Objects) > 0 { // it lists others too
				said = f.Code
			}
			lines = append(lines, wrap(text.Line(string(f.Severity)+": "+said))...)
		}
	}
	if n > maxFindings {
		lines = append(lines, "and "+strconv.Itoa(n-maxFindings)+" more findings")
	}
	return lines
}

// wrap breaks a text into short lines, at spaces where there are any, and cuts it
// after a few.
func wrap(s string) []string {
	var lines []string
	r := []rune(s)
	for len(r) > 0 {
		if len(lines) == wrapLines {
			lines[wrapLines-1] += "…"
			return lines
		}
		cut := min(wrapAt, len(r))
		if cut < len(r) {
			for i := cut; i > wrapAt/2; i-- {
				if r[i] == ' ' {
					cut = i
					break
				}
			}
		}
		lines = append(lines, strings.TrimSpace(string(r[:cut])))
		r = r[cut:]
		for len(r) > 0 && r[0] == ' ' {
			r = r[1:]
		}
	}
	return lines
}

// used tells which classes and links a drawing has, for its legend.
func (d *Drawing) used() (map[Class]bool, map[Link]bool) {
	classes, links := map[Class]bool{}, map[Link]bool{}
	for _, n := range d.Nodes {
		classes[n.Class] = true
	}
	for _, e := range d.Edges {
		links[e.Link] = true
	}
	return classes, links
}
