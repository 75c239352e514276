package specs

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// kind is what a node is after variables were replaced.
type kind uint8

const (
	// invalidNode stands where something was wrong that has been reported; no
	// further finding is made about it.
	invalidNode kind = iota
	nullNode
	boolNode
	intNode
	floatNode
	textNode
	listNode
	tableNode
)

// title names a kind for a sentence.
func (k kind) title() string {
	switch k {
	case nullNode:
		return "nothing"
	case boolNode:
		return "true or false"
	case intNode, floatNode:
		return "a number"
	case textNode:
		return "a text"
	case listNode:
		return "a list"
	case tableNode:
		return "a map"
	}
	return "an invalid value"
}

// node is a YAML value with aliases followed, merge keys worked in, variables
// replaced and duplicate keys removed. Nodes are shared between the places that
// refer to them and never changed after they are made.
type node struct {
	kind kind
	// soft: the value of a variable, which may stand for a text as well. On a
	// null it says that the null has removed something.
	soft      bool
	line, col int32
	src       *source
	text      string // of a scalar, as written
	value     any    // of boolNode, intNode (int64) and floatNode (float64)
	list      []*node
	table     []entry
	// size counts the node and everything below as often as it is referred to,
	// height the levels. Both bound the work that a small file can cause.
	size, height int32
}

// entry is one key of a table.
type entry struct {
	key       string
	line, col int32
	src       *source
	value     *node
}

func (n *node) pos() topology.Position  { return n.src.position(n.line, n.col) }
func (e *entry) pos() topology.Position { return e.src.position(e.line, e.col) }

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if e := n.entry(key); e != nil {
		return e.value
	}
	return nil
}

func (n *node) entry(key string) *entry {
	if n == nil {
		return nil
	}
	for i := range n.table {
		if n.table[i].key == key {
			return &n.table[i]
		}
	}
	return nil
}

// isTrue reports whether the value of key is the boolean true.
func (n *node) isTrue(key string) bool {
	v := n.get(key)
	return v != nil && v.kind == boolNode && v.value == true
}

// measure sets size and height from what is below.
func (n *node) measure() {
	size, height := int64(1), int32(0)
	for _, c := range n.list {
		size += int64(c.size)
		height = max(height, c.height)
	}
	for i := range n.table {
		c := n.table[i].value
		size += int64(c.size) + 1
		height = max(height, c.height)
	}
	n.size, n.height = int32(min(size, math.MaxInt32)), height+1
}

// withTable is a copy of a table with other entries.
func (n *node) withTable(entries []entry) *node {
	c := *n
	c.table = entries
	c.measure()
	return &c
}

// at is a copy of the node that stands at another place.
func (n *node) at(place *node) *node {
	c := *n
	c.src, c.line, c.col = place.src, place.line, place.col
	return &c
}

// source is a file, and where its lines begin.
type source struct {
	name  string
	lines int32 // as an editor counts them
	// starts is set where YAML counts more line breaks than an editor does: it
	// also breaks lines at a lone CR, at NEL, LS and PS.
	starts []lineStart
}

// lineStart is the place at which a line of YAML begins, counted from 1 and 0.
type lineStart struct{ line, col int32 }

func newSource(name, text string) *source {
	s := &source{name: name, lines: 1 + int32(strings.Count(text, "\n"))}
	if !strings.ContainsAny(strings.ReplaceAll(text, "\r\n", "\n"), "\r\u0085\u2028\u2029") {
		return s
	}
	line, col := int32(1), int32(0)
	s.starts = append(s.starts, lineStart{1, 0})
	for i, r := range text {
		col++
		switch r {
		case '\n':
			line, col = line+1, 0
		case '\r':
			if strings.HasPrefix(text[i+1:], "\n") {
				continue
			}
		case '\u0085', '\u2028', '\u2029':
		default:
			continue
		}
		s.starts = append(s.starts, lineStart{line, col})
	}
	return s
}

// position turns a place as YAML counts it into one as an editor does. It is
// always inside the file.
func (s *source) position(line, col int32) topology.Position {
	line, col = max(line, 1), max(col, 1)
	if s.starts != nil {
		start := s.starts[min(int(line), len(s.starts))-1]
		line, col = start.line, start.col+col
	}
	return topology.Position{File: s.name, Line: int(min(line, s.lines)), Column: int(col)}
}

// notText says why data cannot be a spec at all and at which byte, or "".
func notText(data []byte) (why string, offset int) {
	for i := 0; i < len(data); {
		r, n := rune(data[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(data[i:])
		}
		switch {
		case r == utf8.RuneError && n == 1:
			return "the file is not UTF-8 text", i
		case r == 0:
			return "the file holds a NUL byte and is no text", i
		}
		i += n
	}
	return "", 0
}
