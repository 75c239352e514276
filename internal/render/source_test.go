package render

import (
	"bytes"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func TestSourceLines(t *testing.T) {
	lines := newSourceLines(map[string][]byte{"a": []byte("one\r\ntwo\n\xff"), "empty": nil})
	for _, c := range []struct {
		file string
		line int
		want string
		ok   bool
	}{
		{"a", 1, "one", true},
		{"a", 2, "two", true},
		{"a", 3, "\uFFFD", true},
		{"a", 4, "", false},
		{"a", 0, "", false},
		{"empty", 1, "", false},
		{"b", 1, "", false},
	} {
		if got, ok := lines.at(topology.Position{File: c.file, Line: c.line}); got != c.want || ok != c.ok {
			t.Errorf("line %d of %s: %q, %v", c.line, c.file, got, ok)
		}
	}
}

// TestSourceLinesOnce: asking for every line of a large file allocates little
// more than the lines themselves.
func TestSourceLinesOnce(t *testing.T) {
	const n = 100_000
	lines := newSourceLines(map[string][]byte{"a": bytes.Repeat([]byte("q: {type: classic}\n"), n)})
	for i := range n {
		if got, ok := lines.at(topology.Position{File: "a", Line: i + 1}); !ok || got != "q: {type: classic}" {
			t.Fatalf("line %d: %q", i+1, got)
		}
	}
}
