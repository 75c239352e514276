package specs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestNotYAML: whatever a file holds, there is a finding with a place in it.
func TestNotYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":              {"", []string{"1:1 spec-empty"}},
		"comments":           {"# nothing\n\n", []string{"1:1 spec-empty"}},
		"documents of blank": {"---\n---\n", []string{"1:1 spec-empty"}},
		"binary":             {"version: 1\n\x7fELF\x00\x00", []string{"2:5 yaml-not-text"}},
		"latin-1":            {"version: 1\nstack: caf\xe9\n", []string{"2:11 yaml-not-text"}},
		"utf-16":             {"\xff\xfev\x00e\x00", []string{"1:1 yaml-not-text"}},
		"byte order mark":    {"\ufeffversion: 1\n", nil},
		"a word":             {"hello", []string{"1:1 wrong-type"}},
		"a list":             {"- a\n- b\n", []string{"1:1 wrong-type"}},
		"open brackets":      {"version: 1\nqueues: {a: {\n", []string{"3:1 yaml-syntax"}},
		"bad indent":         {"version: 1\nqueues:\n  a: {}\n b: {}\n", []string{"4:1 yaml-syntax"}},
		"colon":              {"version: 1\nstack: a: b\n", []string{"2:1 yaml-syntax"}},
		"tab":                {"version: 1\nqueues:\n\ta: {}\n", []string{"3:1 yaml-syntax"}},
		"no anchor":          {"version: 1\nqueues:\n  a: *none\n", []string{"3:6 yaml-syntax"}},
		"second document":    {"version: 1\n---\n{", []string{"3:1 yaml-syntax"}},
		"control character":  {"version: 1\nstack: \"a\x01\"\n", []string{"1:1 yaml-syntax"}},
		"unquoted variable":  {"version: 1\nqueues: {a: {owner: ${x}}}\n", []string{"2:1 yaml-syntax"}},
		"alias to itself":    {"version: 1\nqueues: &q\n  a: *q\n", []string{"3:6 yaml-alias-cycle"}},
		"merge with itself":  {"version: 1\nqueues:\n  a: &a\n    <<: *a\n", []string{"4:9 yaml-alias-cycle"}},
		"list holds itself":  {"version: 1\nexternal: &l [*l]\n", []string{"2:15 yaml-alias-cycle"}},
		"merge of a text":    {"version: 1\nqueues:\n  a:\n    <<: text\n", []string{"4:9 yaml-merge-key"}},
		"tag":                {"version: 1\nstack: !secret x\n", []string{"2:8 yaml-tag"}},
		"tag of a map":       {"version: 1\nqueues: !!set {a}\n", []string{"2:9 yaml-tag"}},
		"wrong tag":          {"version: 1\nstack: !!int abc\n", []string{"2:8 wrong-value"}},
		"not a number":       {"version: 1\nparameters: {a: {b: .nan}}\n", []string{"2:21 wrong-value"}},
		"too large number":   {"version: 1\nparameters: {a: {b: 18446744073709551615}}\n", []string{"2:21 wrong-value"}},
		"list as key":        {"version: 1\nqueues:\n  ? [a, b]\n  : {}\n", []string{"3:5 wrong-type"}},
		"duplicate key":      {"version: 1\nqueues:\n  a: {}\n  b: {}\n  a: {}\n", []string{"5:3 duplicate-key"}},
		"null character":     {"version: 1\nqueues: {\"a\\0b\": {}}\n", nil},
		"other line breaks":  {"version: 1\u2028stack: Über\u0085vhost: 5\rqueues: 1\r\n", []string{"1:19 wrong-value", "1:31 wrong-type", "1:41 wrong-type"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec, list := load(c.text)
			if got := lines(list); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q\n%s", got, c.want, texts(list))
			}
			if spec == nil || spec.Digest() == "" {
				t.Error("no spec")
			}
		})
	}
}

// bombs are small files that stand for very much, or for work without end.
var bombs = map[string]string{
	"billion laughs":    "version: 1\nvariables: {}\nparameters:\n  a:\n" + laughs(12),
	"aliases in queues": "version: 1\nqueues:\n  a: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + aliasChain(),
	"merge keys":        "version: 1\nqueues:\n  a: &a0 {x: 1}\n" + mergeChain(4000),
	"for each":          "version: 1\nqueues:\n  \"{a}{b}{c}{d}{e}{f}{g}\": {for_each: {" + forEach("abcdefg") + "}}\n",
	"defaults":          "version: 1\ndefaults:\n  queue:\n    arguments: {" + manyKeys(2000) + "}\nqueues:\n" + manyQueues(5000),
	"variables":         "version: 1\nvariables: {v: {default: " + strings.Repeat("x", 100_000) + "}}\nparameters:\n  a:\n    b: [" + strings.Repeat("\"-${v}\", ", 2000) + "]\n",
}

func laughs(n int) string {
	var b strings.Builder
	b.WriteString("    a0: &a0 [lol]\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "    a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return b.String()
}

func aliasChain() string {
	var b strings.Builder
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "  b%d: &a%d {routing_keys: *a%d, bindings: *a%d, retry: *a%d}\n", i, i, i-1, i-1, i-1)
	}
	return b.String()
}

func mergeChain(n int) string {
	var b strings.Builder
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  q%d: &a%d {<<: *a%d, k%d: 1}\n", i, i, i-1, i)
	}
	return b.String()
}

func forEach(names string) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n)+": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]")
	}
	return strings.Join(all, ", ")
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x-%d: 1, ", i)
	}
	return b.String()
}

func manyQueues(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  q%d: {type: classic}\n", i)
	}
	return b.String()
}

// TestBombs: the work for each ends soon, with one finding that says so.
func TestBombs(t *testing.T) {
	for name, text := range bombs {
		t.Run(name, func(t *testing.T) {
			before := time.Now()
			_, list := load(text)
			if took := time.Since(before); took > time.Minute {
				t.Errorf("took %s", took)
			}
			n := 0
			for _, d := range list {
				if d.Code == "yaml-too-large" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d findings of too much, want one in\n%s", n, texts(list[:min(len(list), 5)]))
			}
		})
	}
}

func TestTooDeep(t *testing.T) {
	deep := func(n int) string {
		return "version: 1\nparameters: {a: {b: " + strings.Repeat("[", n) + strings.Repeat("]", n) + "}}\n"
	}
	for n, want := range map[int][]string{90: nil, 98: {"2:118 yaml-too-deep"}, 9000: {"2:118 yaml-too-deep"}, 200_000: {"2:1 yaml-syntax"}} {
		if _, list := load(deep(n)); !slices.Equal(lines(list), want) {
			t.Errorf("%d levels: %s, want %q", n, texts(list), want)
		}
	}
	chain := "version: 1\nparameters:\n  a:\n    a0: &a0 [x]\n"
	for i := 1; i < 200; i++ {
		chain += fmt.Sprintf("    a%d: &a%d [*a%d]\n", i, i, i-1)
	}
	if _, list := load(chain); len(list) == 0 || list[0].Code != "yaml-too-deep" {
		t.Errorf("aliases in aliases: %s", texts(list))
	}
}

// TestMergeSign: << is a merge key before a colon, and a text elsewhere.
func TestMergeSign(t *testing.T) {
	spec, list := load("version: 1\nqueues:\n  a: {type: classic, dead_letter: <<}\n  \"<<\": {type: classic}\n")
	if len(list) > 0 || *spec.VirtualHosts[0].Queues[0].DeadLetter.Queue != "<<" {
		t.Errorf("findings %s", texts(list))
	}
	if _, list = load("version: 1\nstack: !!merge <<\n"); !slices.Equal(lines(list), []string{"2:8 yaml-tag"}) {
		t.Errorf("a written tag: %s", texts(list))
	}
}

// TestTooManyFindings: the list ends somewhere.
func TestTooManyFindings(t *testing.T) {
	_, list := load("version: 1\nqueues:\n" + strings.ReplaceAll(manyQueues(3000), "type", "typ"))
	if len(list) != maxFindings+1 {
		t.Fatalf("%d findings", len(list))
	}
	if last := list[len(list)-1]; last.Code != "too-many-findings" || last.Position.Line != maxFindings+3 {
		t.Errorf("the last is %s", texts(list[len(list)-1:]))
	}
}

// TestLargeSpec: 10 MB are read in a few seconds.
func TestLargeSpec(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("version: 1\nexchanges: {orders: {type: topic}}\nqueues:\n")
	n := 0
	for ; b.Len() < 10<<20; n++ {
		fmt.Fprintf(&b, "  queue-%d: {type: quorum, message_ttl: 30s, dead_letter: dead, bindings: [{exchange: orders, routing_key: key-%d}]}\n", n, n)
	}
	before := time.Now()
	spec, list := load(b.String())
	if len(list) > 0 || len(spec.VirtualHosts[0].Queues) != n {
		t.Errorf("%d queues, %s", len(spec.VirtualHosts[0].Queues), texts(list))
	}
	t.Logf("%d queues, %d bytes in %s", n, b.Len(), time.Since(before))
}

// FuzzLoad: no input makes a panic, and every finding is at a place that is in
// the file.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"../testdata/specs/*.yaml", "../testdata/real/*.yaml", "examples/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("version: 1\nvariables: {a: {default: 1}}\nqueues: {\"${a}{n}\": {for_each: {n: [1, b]}, <<: {type: \"${a}\"}}}\n"))
	f.Add([]byte("version: 1\u0085queues:\u2028  a\r: &x {retry: {delays: [*x]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, list := load(string(data))
		if spec == nil {
			t.Fatal("no spec")
		}
		for _, d := range list {
			checkPlace(t, string(data), d.Position.Line, d.Position.Column, d.Code)
			if d.Summary == "" || !d.Structural {
				t.Errorf("incomplete: %+v", d)
			}
		}
		again, second := load(string(data))
		if again.Digest() != spec.Digest() || texts(second) != texts(list) {
			t.Errorf("loaded twice, differs:\n%s\n%s", texts(list), texts(second))
		}
		spec.Expand(Target{})
	})
}

func checkPlace(t *testing.T, text string, line, col int, code string) {
	t.Helper()
	all := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	if line < 1 || line > len(all) || col < 1 || col > utf8.RuneCountInString(all[line-1])+1 {
		t.Errorf("%s is at %d:%d, outside of the file of %d lines", code, line, col, len(all))
	}
}

func BenchmarkLoad(b *testing.B) {
	text := "version: 1\nqueues:\n"
	for i := range 20_000 {
		text += fmt.Sprintf("  queue-%d: {type: quorum, message_ttl: 30s, dead_letter: dead, bindings: [{exchange: orders, routing_key: key-%d}]}\n", i, i)
	}
	files := []File{{Name: "t.yaml", Data: []byte(text)}}
	b.Run("yaml", func(b *testing.B) {
		for b.Loop() {
			l := newLoader()
			if _, roots := l.parse(files[0]); len(roots) != 1 {
				b.Fatal("not read")
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, list := Load(Input{Files: files}); len(list) > 0 {
				b.Fatal(texts(list))
			}
		}
	})
}
