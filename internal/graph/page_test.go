package graph_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/graph"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// writePage writes the page of a drawing into a file.
func writePage(t *testing.T, d *graph.Drawing) string {
	t.Helper()
	var b bytes.Buffer
	if err := graph.HTML(&b, d); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	windowWidth, windowHeight = 1400, 860
	// visible reports whether the middle of a node is in the drawing's window.
	visible = `(() => { const s = document.getElementById("stage").getBoundingClientRect(), r = document.querySelector(%q).getBoundingClientRect();
		const x = r.x + r.width / 2, y = r.y + r.height / 2;
		return r.width > 0 && x > s.left && x < s.right && y > s.top && y < s.bottom })()`
	// overflow names texts that are wider than the shape around them.
	overflow = `[...document.querySelectorAll("#scene .node")].flatMap((g) => {
		const s = g.querySelector(".shape").getBBox();
		return [...g.querySelectorAll("text")].filter((t) => t.getBBox().x + t.getBBox().width > s.x + s.width - 2).map((t) => t.textContent);
	}).join("; ")`
)

// TestPage drives the page in a real browser, for small and large topologies, in
// light and dark.
func TestPage(t *testing.T) {
	c := startChromium(t)
	for _, size := range []int{5, 30, 300} {
		for _, scheme := range []string{"light", "dark"} {
			t.Run(fmt.Sprintf("%d-%s", size, scheme), func(t *testing.T) {
				c.t = t
				file := writePage(t, graph.New(generated(size)))
				c.open(file, windowWidth, windowHeight, scheme)
				c.screenshot(t.Name()[len("TestPage/"):])

				if drawn := int(c.number(`document.querySelectorAll("#scene .queue[id], #scene .wait[id], #scene .dead-letter[id], #scene .stream[id]").length`)); drawn < size {
					t.Errorf("%d queues are drawn, want %d", drawn, size)
				}
				if wide := c.text(overflow); wide != "" {
					t.Errorf("wider than their shapes: %s", wide)
				}
				if px := c.number(`12 * document.getElementById("scene").getCTM().a`); px < 8 {
					t.Errorf("names are %.1f pixels high at first, too small to read", px)
				}
				if got, want := c.text(`getComputedStyle(document.body).backgroundColor`), map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(23, 24, 28)"}[scheme]; got != want {
					t.Errorf("the ground is %s in %s, want %s", got, scheme, want)
				}
				checkSearch(t, c, size)
				checkDetails(t, c)
				checkZoom(t, c)
				checkKeyboard(t, c)
				c.screenshot(t.Name()[len("TestPage/"):] + "-used")
				for _, complaint := range c.complaints(file) {
					t.Error(complaint)
				}
			})
		}
	}
}

// checkSearch types the name of the last work queue.
func checkSearch(t *testing.T, c *chromium, size int) {
	t.Helper()
	name := lastWorkQueue(size)
	c.click(c.middle("#search"))
	c.do("Input.insertText", map[string]any{"text": strings.ToUpper(name)}, nil)
	c.wait(`document.querySelectorAll("#scene .hit").length > 0`)
	id := c.text(`document.querySelector("#scene .node.chosen").id`)
	if label := c.text(fmt.Sprintf(`document.querySelector("#%s .name").textContent`, id)); label != name {
		t.Errorf("searching %q chose %q", name, label)
	}
	c.wait(fmt.Sprintf(visible, "#"+id))
	if dim := c.number(`document.querySelectorAll("#scene .node.dim").length`); dim == 0 {
		t.Error("what does not match does not step back")
	}
	if details := c.text(`document.getElementById("details").textContent`); !strings.Contains(details, name) {
		t.Errorf("details of the match are missing: %q", details)
	}
	c.key("Escape", 27)
	c.wait(`document.querySelectorAll("#scene .hit, #scene .dim").length === 0 && document.getElementById("search").value === ""`)
	c.do("Input.insertText", map[string]any{"text": "there is no such queue"}, nil)
	c.wait(`document.getElementById("count").textContent.startsWith("0 of ")`)
	c.key("Escape", 27)
}

// checkDetails hovers over the first work queue, which the search has not shown.
func checkDetails(t *testing.T, c *chromium) {
	t.Helper()
	c.click(c.middle("#all"))
	id := c.text(`[...document.querySelectorAll("#scene .node.queue[id]")].find((g) => g.querySelector(".name").textContent === "orders.work.000").id`)
	x, y := c.middle("#" + id)
	c.mouse("mouseMoved", x, y, nil)
	c.wait(`document.getElementById("details").textContent.includes("orders.work.000")`)
	details := c.text(`document.getElementById("details").textContent`)
	for _, want := range []string{"delivery-limit", `policy "rabbitctl:orders.work.000"`, "orders-team", "orders.work.000.dead", "error dead-letter-unroutable"} {
		if !strings.Contains(details, want) {
			t.Errorf("hovering does not show %q: %s", want, details)
		}
	}
	if n := c.number(`document.querySelectorAll("#scene .edge.near").length`); n < 3 {
		t.Errorf("%v routes stand out, want those of the queue", n)
	}
	c.mouse("mouseMoved", 10, windowHeight-10, nil)
	c.wait(`!document.getElementById("details").textContent.includes("orders.work.000")`)
}

// checkZoom zooms with a button and with the wheel, and drags.
func checkZoom(t *testing.T, c *chromium) {
	t.Helper()
	width := func() float64 {
		return c.number(`document.querySelector("#scene .node").getBoundingClientRect().width`)
	}
	before := width()
	c.click(c.middle("#closer"))
	if after := width(); after < before*1.2 {
		t.Errorf("the button + changed the width from %v to %v", before, after)
	}
	c.click(c.middle("#farther"))
	if after := width(); after > before*1.01 || after < before*0.99 {
		t.Errorf("the button - does not undo +: %v, then %v", before, after)
	}
	x, y := c.middle("#scene .node")
	c.mouse("mouseWheel", x, y, map[string]any{"deltaX": 0, "deltaY": -300})
	c.wait(fmt.Sprintf(`document.querySelector("#scene .node").getBoundingClientRect().width > %v`, before*1.5))
	if nx, ny := c.middle("#scene .node"); nx-x > 2 || x-nx > 2 || ny-y > 2 || y-ny > 2 {
		t.Errorf("the wheel moved what is under the pointer from %v,%v to %v,%v", x, y, nx, ny)
	}
	c.click(c.middle("#all"))

	sx, sy := 60.0, float64(windowHeight-60)
	button := map[string]any{"button": "left", "buttons": 1, "clickCount": 1}
	x, y = c.middle("#scene .node")
	c.mouse("mouseMoved", sx, sy, nil)
	c.mouse("mousePressed", sx, sy, button)
	c.mouse("mouseMoved", sx+40, sy-30, button)
	c.mouse("mouseMoved", sx+80, sy-60, button)
	c.mouse("mouseReleased", sx+80, sy-60, button)
	nx, ny := c.middle("#scene .node")
	if dx, dy := nx-x, ny-y; dx < 79 || dx > 81 || dy < -61 || dy > -59 {
		t.Errorf("dragging by 80, -60 moved the drawing by %v, %v", dx, dy)
	}
}

// checkKeyboard reaches a node and its details without a mouse.
func checkKeyboard(t *testing.T, c *chromium) {
	t.Helper()
	c.click(c.middle("#all"))
	for range 2 { // from the last button over the drawing to its first node
		c.key("Tab", 9)
	}
	c.wait(`document.activeElement.classList.contains("node")`)
	node := c.text(`document.activeElement.id`)
	first := c.text(`document.activeElement.querySelector(".name").textContent`)
	if details := c.text(`document.getElementById("details").textContent`); !strings.Contains(details, first) {
		t.Errorf("the focus on %q does not show its details: %q", first, details)
	}
	c.key("ArrowRight", 39)
	if id := c.text(`document.activeElement.id`); id == node || !strings.HasPrefix(id, "n") {
		t.Error("an arrow key does not lead to another node")
	}
	c.key("Enter", 13)
	c.wait(`document.activeElement.classList.contains("chosen")`)
	c.key("/", 191)
	c.wait(`document.activeElement.id === "search"`)
}

// TestPageHostile opens a page full of names that try to break out of it.
func TestPageHostile(t *testing.T) {
	c := startChromium(t)
	d := graph.New(hostile())
	file := writePage(t, d)
	c.open(file, windowWidth, windowHeight, "light")
	c.screenshot("hostile")
	if n := c.number(`document.querySelectorAll("script").length`); n != 2 {
		t.Errorf("the page has %v script elements, want its own two", n)
	}
	if n := c.number(`document.querySelectorAll("img, iframe, a, [onclick], [onerror], [onload], [style]").length`); n != 0 {
		t.Errorf("%v elements came out of names", n)
	}
	if broken := c.text(`typeof window.broken`); broken != "undefined" {
		t.Error("a name was run as a script")
	}
	if drawn := int(c.number(`document.querySelectorAll("#scene .node[id]").length`)); drawn != len(d.Nodes) {
		t.Errorf("%d nodes are drawn, want %d", drawn, len(d.Nodes))
	}
	if wide := c.text(overflow); wide != "" {
		t.Errorf("wider than their shapes: %s", wide)
	}
	for _, n := range d.Nodes {
		c.value(fmt.Sprintf(`(document.getElementById(%q).focus(), true)`, n.ID), new(bool))
		if details := c.text(`document.getElementById("details").textContent`); !strings.Contains(details, text.Line(n.Kind)) {
			t.Errorf("no details of %q: %q", n.Name, details)
		}
	}
	for _, complaint := range c.complaints(file) {
		t.Error(complaint)
	}
}
