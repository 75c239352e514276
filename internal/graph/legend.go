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

// widths are those of the signs from blank to tilde in DejaVu Sans Bold, in
// hundredths of the font's size. Few fonts of a screen are wider, and too much
// room is better than too little.
var widths = [95]uint8{
	35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37,
	70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84, 84, 84, 58,
	100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 37, 77, 64, 100, 84, 85,
	73, 85, 77, 72, 68, 81, 77, 110, 77, 72, 73, 46, 37, 46, 84, 50,
	50, 67, 72, 59, 72, 68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69,
	72, 72, 49, 60, 48, 71, 65, 92, 65, 65, 58, 71, 37, 71, 84,
}

// textWidth estimates the width of a text in pixels.
func textWidth(s string, size float64) int {
	w := 0
	for _, r := range s {
		switch {
		case r >= ' ' && r <= '~':
			w += int(widths[r-' '])
		case unicode.IsMark(r):
		case r < 0x370:
			w += 85
		default:
			w += 110
		}
	}
	return int(float64(w)*size/100) + 1
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
