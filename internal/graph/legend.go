package graph

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// legendItem is one sample with its words.
type legendItem struct {
	class Class
	link  Link
	title string
}

func (d *Drawing) legend() []legendItem {
	classes, links := d.used()
	var items []legendItem
	for _, c := range classTitles {
		if classes[c.Class] {
			items = append(items, legendItem{class: c.Class, title: c.Title})
		}
	}
	for _, l := range linkTitles {
		if links[l.Link] {
			items = append(items, legendItem{link: l.Link, title: l.Title})
		}
	}
	return items
}

const (
	legendStep = 26
	sampleSize = 40
)

// placeLegend goes through the items with the place of each.
func placeLegend(d *Drawing, width int, each func(i legendItem, x, y int)) (height int) {
	x, y := 0, 0
	for _, i := range d.legend() {
		need := sampleSize + 8 + textWidth(i.title, 11) + 18
		if x > 0 && x+need > width {
			x, y = 0, y+legendStep
		}
		each(i, x, y)
		x += need
	}
	return y + legendStep
}

func legendHeight(d *Drawing, width int) int {
	return placeLegend(d, width, func(legendItem, int, int) {})
}

func writeLegend(w io.Writer, d *Drawing, left, top, width int) {
	fmt.Fprintf(w, `<g class="legend" transform="translate(%d %d)">`+"\n", left, top)
	placeLegend(d, width, func(i legendItem, x, y int) {
		writeSample(w, i, x, y)
		fmt.Fprintf(w, `<text class="text" x="%d" y="%d">%s</text>`+"\n", x+sampleSize+8, y+14, markup(i.title))
	})
	fmt.Fprintf(w, "</g>\n")
}

func writeSample(w io.Writer, i legendItem, x, y int) {
	if i.class != "" {
		fmt.Fprintf(w, `<g class="node %s">`, i.class)
		writeShape(w, i.class, box{x: x, y: y, width: sampleSize, height: 20})
		fmt.Fprintf(w, "</g>")
		return
	}
	fmt.Fprintf(w, `<g class="edge %s"><path class="line" d="M%d %dH%d"/><path class="head" d="M%d %dl-9 -4v8z"/></g>`,
		i.link, x, y+10, x+sampleSize-7, x+sampleSize, y+10)
}

// textWidth estimates the width of a text, for fonts as wide as DejaVu Sans: too
// much room is better than too little.
func textWidth(s string, size float64) int {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfIr.,:;'|!()[]{} -", r):
			w += 0.40
		case strings.ContainsRune("mwMW@%", r):
			w += 0.95
		case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) || r >= 0x1F000):
			w += 1.1
		case unicode.IsUpper(r):
			w += 0.72
		case unicode.IsMark(r):
		default:
			w += 0.62
		}
	}
	return int(w*size) + 1
}

// wrapWidth breaks a text into lines of a width.
func wrapWidth(s string, size float64, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		for textWidth(word, size) > width { // a name without blanks
			r := []rune(word)
			n := max(1, len(r)*width/textWidth(word, size)-1)
			if line != "" {
				lines = append(lines, line)
				line = ""
			}
			lines = append(lines, string(r[:n]))
			word = string(r[n:])
		}
		if line != "" && textWidth(line+" "+word, size) > width {
			lines = append(lines, line)
			line = word
			continue
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// multiline escapes a text line by line.
func multiline(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = markup(l)
	}
	return strings.Join(lines, "\n")
}
