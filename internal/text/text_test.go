package text

import "testing"

func TestSafe(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain ünïcode 語", "plain ünïcode 語"},
		{"a\x1b[31mred", `a\x1b[31mred`},
		{"line\nnext\ttab", "line\nnext\ttab"},
		{"cr\rback", `cr\rback`},
		{"bad\xff\xfeutf8", `bad\xff\xfeutf8`},
		{"\u202eoverride", `\u202eoverride`},
		{"\u0085nel", `\u0085nel`},
		{"real \ufffd", "real \ufffd"},
		{"sep\u2028x", `sep\u2028x`},
	} {
		if got := Safe(c.in); got != c.want {
			t.Errorf("Safe(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	if got := Line("a\nb"); got != `a\nb` {
		t.Errorf("Line = %q", got)
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"short", 10, "short"}, {"longer text", 6, "longer..."}, {"aé", 2, "a..."}} {
		if got := Truncate(c.in, c.n); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
