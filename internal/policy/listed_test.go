package policy

import (
	"maps"
	"slices"
	"testing"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"
)

func TestListed(t *testing.T) {
	for text, want := range map[string][]string{
		`^team1\.(work|old)20$`: {"team1.old20", "team1.work20"},
		`^(a|b|)(x|y)$`:         {"ax", "ay", "bx", "by", "x", "y"},
		`^(orders|mails)$`:      {"mails", "orders"},
		`^a|b$`:                 nil, // either end
		`(a|b)$`:                nil,
		`^(a|b)`:                nil,
		`^(a.|b)$`:              nil,
		`^(?i:a|b)$`:            nil,
		`^(a\d|b)$`:             nil,
		`^((((`:                 nil,
	} {
		if got := slices.Sorted(maps.Keys(listed(text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestListedMatchesAsTheEngine: the short cut decides as the engine does.
func TestListedMatchesAsTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "^" + rapid.StringMatching(`[ab\-]{0,2}(\((a|b|\|){0,4}\)[ab_]{0,2}){0,3}`).Draw(t, "pattern") + "$"
		names := listed(text)
		if names == nil {
			return
		}
		re, err := regexp2.Compile(text, regexp2.None)
		if err != nil {
			t.Fatalf("%s is listed and no pattern: %v", text, err)
		}
		name := rapid.StringMatching(`[ab_\-]{0,6}`).Draw(t, "name")
		if matched, err := re.MatchString(name); err != nil || matched != names[name] {
			t.Errorf("%s matches %q: %v by the engine, %v by the list (%v)", text, name, matched, names[name], err)
		}
		for name := range names {
			if matched, err := re.MatchString(name); err != nil || !matched {
				t.Errorf("%s lists %q, which does not match (%v)", text, name, err)
			}
		}
	})
}
