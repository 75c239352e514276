package policy

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// undecidable are patterns that rabbitctl does not read; everything else must be
// decided as the broker decides it.
var undecidable = []string{
	`^\p{L}+$`, `(?|a|b)`, `^(?R)?$`, `(a)?(?(1)a|1)`, `a{,2}b`, `(?U)a+`, `(*UTF8)^.$`, `\u0061`, `^\X$`,
	"^[a-z", "(", "a**", `[a-\d]`,
}

// TestPatternsAsMeasured holds the matching against what brokers were seen to do.
// The files list, for names of queues, which of them a policy with the pattern
// acted on.
func TestPatternsAsMeasured(t *testing.T) {
	for _, release := range []string{"3.10.8", "4.0.5", "4.3.6"} {
		t.Run(release, func(t *testing.T) {
			v, err := catalog.ParseVersion(release)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile("testdata/patterns-" + release + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var file struct {
				Names    []string
				Patterns []struct {
					Pattern string
					Matches []string
					Refused bool
				}
			}
			if err := json.Unmarshal(data, &file); err != nil {
				t.Fatal(err)
			}
			for _, row := range file.Patterns {
				p := compile(row.Pattern, v)
				for _, name := range file.Names {
					got := p.match(name)
					if slices.Contains(undecidable, row.Pattern) {
						if got != unknown {
							t.Errorf("pattern %q, name %q: decided, though listed as undecidable", row.Pattern, name)
						}
						continue
					}
					want := no
					if slices.Contains(row.Matches, name) {
						want = yes
					}
					folded := got == unknown && p.folds && strings.IndexFunc(name, func(r rune) bool { return r > 127 }) >= 0
					if got != want && !folded {
						t.Errorf("pattern %q, name %q: %v, broker says %v (%s)", row.Pattern, name, got, want, p.problem())
					}
				}
			}
		})
	}
}

func TestSimplePatterns(t *testing.T) {
	for _, c := range []struct {
		pattern string
		kind    patternKind
		literal string
	}{
		{`^orders$`, exact, "orders"},
		{`^a\.b\+c$`, exact, "a.b+c"},
		{`^rabbitctl:x$`, exact, "rabbitctl:x"},
		{`^tmp\.`, prefix, "tmp."},
		{`^tmp.*`, prefix, "tmp"},
		{`orders`, anywhere, "orders"},
		{``, anywhere, ""},
		{`.*`, anywhere, ""},
	} {
		p := simple(c.pattern)
		if p == nil || p.kind != c.kind || p.literal != c.literal {
			t.Errorf("simple(%q) = %+v, want %v %q", c.pattern, p, c.kind, c.literal)
		}
	}
	for _, s := range []string{`^a.b$`, `a$`, `^(a|b)$`, `\d`, `a\`, `a{2}`, `^a$b`} {
		if p := simple(s); p != nil {
			t.Errorf("simple(%q) = %+v, want none", s, p)
		}
	}
}

// TestCatastrophicPattern: a match that does not end is cut and reported, once.
func TestCatastrophicPattern(t *testing.T) {
	p := compile(`^(a+)+$`, catalog.Newest)
	if got := p.match(strings.Repeat("a", 200) + "!"); got != unknown || !p.cut.Load() {
		t.Fatalf("match = %v, want unknown; cut: %v", got, p.cut.Load())
	}
	if got := p.match("a"); got != unknown {
		t.Errorf("a pattern that was cut is tried again: %v", got)
	}
	if !strings.Contains(p.problem(), "took too long") {
		t.Errorf("problem = %q", p.problem())
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range undecidable {
		f.Add(s, "name")
	}
	f.Add(`(?i)^\Qa.b\E[[:^alpha:]-]\x{e9}++(?<n>a)\k<n>`, "a.b\xff")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, v := range []catalog.Version{catalog.Oldest, catalog.Newest} {
			p := compile(text, v)
			p.match(name)
			if p.problem() == "" {
				t.Error("no problem text")
			}
		}
	})
}

// TestLeading: what a pattern is said to begin with never costs a match.
func TestLeading(t *testing.T) {
	for text, want := range map[string]string{
		"^q12[0-9]$": "q12", "^ab*c.": "a", "^ab?": "a", "^ab{2}": "a", "^a+b.": "", "^x|y[a]": "", "q[0-9]": "",
		"^(?i)ab[c]": "", `^a\.b[c]`: "a.b", "^ü[a]": "", "^abc(d)": "abc", "^[a]": "", `^a\.(b|c)d$`: "a.", `^a\.*b.`: "a", `^(a)|b`: "", `^a[(]|b`: "", `^a\Q(\E|b`: "", `^a\(|b.`: "", `^a\d`: "a", "^ab\u00fc*": "a",
	} {
		if got := leading(text); got != want {
			t.Errorf("leading(%q) = %q, want %q", text, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := "^" + rapid.StringMatching(`[ab.*?+{}1,\[\]()|^$\\-]{0,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab.1]{0,6}`).Draw(t, "name")
		p := compile(text, catalog.Newest)
		if p.kind != engine || p.err != nil {
			return
		}
		if got, want := p.match(name), p.matchEngine(name); got != want {
			t.Fatalf("%q on %q: %v with the leading text %q, %v without", text, name, got, p.literal, want)
		}
	})
}
