package flow

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// shortKeys are all keys of up to four words of a small alphabet, the empty word
// among them.
func shortKeys() []string {
	keys := []string{""}
	level := []string{"a", "b", "c"}
	for range 4 {
		var next []string
		for _, k := range level {
			keys = append(keys, k)
			for _, w := range []string{"a", "b", "c", ""} {
				next = append(next, k+"."+w)
			}
		}
		level = next
	}
	return append(keys, ".", ".a", "a..", "..", ".a.b")
}

// matches is the definition of topic patterns, word by word.
func matches(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matches(pattern[1:], key) || len(key) > 0 && matches(pattern, key[1:])
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && matches(pattern[1:], key[1:])
}

func anyPattern() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "#", ""}), 0, 4).Draw(t, "words"), ".")
	})
}

func matchesAny(patterns []string, key string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(words(p), words(key)) })
}

// TestKeysAgreeWithEnumeration holds sets and what can be done with them to the
// definition, on every short key.
func TestKeysAgreeWithEnumeration(t *testing.T) {
	short := shortKeys()
	a := newAlgebra()
	rapid.Check(t, func(t *rapid.T) {
		left := rapid.SliceOfN(anyPattern(), 0, 4).Draw(t, "left")
		right := rapid.SliceOfN(anyPattern(), 0, 4).Draw(t, "right")
		x, y := a.patterns(left), a.patterns(right)
		sets := map[string]*Keys{
			"left": x, "union": a.union(x, y), "intersect": a.intersect(x, y), "minus": a.minus(x, y),
			"not": a.minus(a.all, x), "twice": a.minus(a.all, a.minus(a.all, x)), "none": a.minus(x, a.union(y, x)),
		}
		if sets["twice"] != x {
			t.Fatalf("what is not in what is not in %q is another set", left)
		}
		if sets["none"] != a.none {
			t.Fatalf("%q without itself is not empty", left)
		}
		if a.union(a.minus(x, y), a.intersect(x, y)) != x {
			t.Fatalf("%q is not the sum of its parts in and out of %q", left, right)
		}
		var tr trie
		for i, p := range left {
			tr.add(p, i)
		}
		for _, key := range short {
			in, other := matchesAny(left, key), matchesAny(right, key)
			want := map[string]bool{
				"left": in, "union": in || other, "intersect": in && other, "minus": in && !other, "not": !in, "twice": in, "none": false,
			}
			for name, k := range sets {
				if got := k.Contains(key); got != want[name] {
					t.Fatalf("%s of %q and %q has %q: %v, want %v", name, left, right, key, got, want[name])
				}
			}
			for i, p := range left {
				if got, want := slices.Contains(tr.match(key), i), matches(words(p), words(key)); got != want {
					t.Fatalf("%q matches %q: %v, want %v", p, key, got, want)
				}
			}
		}
		for name, k := range sets {
			keys, all := k.Some(5)
			for _, key := range keys {
				if !k.Contains(key) {
					t.Fatalf("%s of %q and %q does not have its own example %q", name, left, right, key)
				}
			}
			if k.Empty() != (len(keys) == 0) {
				t.Fatalf("%s of %q and %q: empty is %v, examples are %q", name, left, right, k.Empty(), keys)
			}
			if slices.Sort(keys); len(slices.Compact(keys)) != len(keys) {
				t.Fatalf("an example twice: %q", keys)
			}
			if all {
				for _, key := range short {
					if k.Contains(key) && !slices.Contains(keys, key) {
						t.Fatalf("%s of %q and %q lists all its keys as %q, and has %q", name, left, right, keys, key)
					}
				}
			}
		}
	})
}

// TestMeeting: patterns that share a key with a set are found, and only those.
func TestMeeting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAlgebra()
		patterns := rapid.SliceOfN(anyPattern(), 0, 5).Draw(t, "patterns")
		k := a.minus(a.patterns(rapid.SliceOfN(anyPattern(), 1, 3).Draw(t, "in")), a.patterns(rapid.SliceOfN(anyPattern(), 0, 2).Draw(t, "out")))
		var tr trie
		for i, p := range patterns {
			tr.add(p, i)
		}
		got := tr.meeting(k, &a.left)
		for i, p := range patterns {
			want := !a.intersect(k, a.patterns([]string{p})).Empty()
			if slices.Contains(got, i) != want {
				t.Fatalf("%q meets the set: %v, want %v", p, !want, want)
			}
		}
	})
}

func TestSome(t *testing.T) {
	a := newAlgebra()
	for _, c := range []struct {
		patterns []string
		want     []string
		all      bool
	}{
		{nil, nil, true},
		{[]string{"b.a", "a", "", "a.c"}, []string{"", "a", "a.c"}, false},
		{[]string{"a", "b"}, []string{"a", "b"}, true},
		{[]string{"*"}, []string{"x"}, false},
		{[]string{"x.*.any"}, []string{"x.x.any"}, false},
		{[]string{"#"}, []string{"", "x", ".x"}, false},
	} {
		got, all := a.patterns(c.patterns).Some(3)
		if !slices.Equal(got, c.want) || all != c.all {
			t.Errorf("some of %q: %q %v, want %q %v", c.patterns, got, all, c.want, c.all)
		}
	}
	if got := a.minus(a.all, a.patterns([]string{"x", "any", "#.b"})).Example(); got != "other" {
		t.Errorf("an example that the spec does not name is %q", got)
	}
	if got := a.literal("").Example(); got != "" {
		t.Errorf("the only key is %q", got)
	}
}

// TestTooCostly: what would take too long is a larger set that says so.
func TestTooCostly(t *testing.T) {
	a := newAlgebra()
	hard := "#.a" + strings.Repeat(".*", 60)
	x := a.patterns([]string{hard})
	if !x.Wide() || !x.Contains("a"+strings.Repeat(".b", 60)) {
		t.Errorf("a pattern with 2^60 states is a set that is wide (%v) and has its own keys", x.Wide())
	}
	y := a.minus(x, a.literal("b"))
	if !y.Wide() {
		t.Error("a part of a wide set is wide")
	}
	if z := a.minus(a.literal("a"), x); z.Empty() || !z.Wide() {
		t.Error("a wide set takes nothing away: it has too much")
	}
	a.left = 100
	var many []string
	for i := range 300 {
		many = append(many, "*."+strings.Repeat("a", i)+".b")
	}
	if k := a.patterns(many); !k.Wide() {
		t.Error("without work left a set is exact")
	}
}
