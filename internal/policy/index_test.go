package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestFindAgreesWithMatch: looking policies up by what their patterns begin with
// finds the same as trying each.
func TestFindAgreesWithMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`\^?[ab.]{0,3}(\\.)?(\(a\|b\))?[*?]?(\.\*)?\$?`)
		var all []*topology.Policy
		for i, text := range rapid.SliceOfN(pattern, 1, 8).Draw(t, "patterns") {
			all = append(all, &topology.Policy{Name: string(rune('a' + i)), Pattern: text, ApplyTo: "queues"})
		}
		g := newGroup(catalog.Newest, all)
		for _, name := range rapid.SliceOfN(rapid.StringMatching(`[ab.]{0,5}`), 1, 5).Draw(t, "names") {
			found, undecided := g.find(name, topology.Classic, false)
			for i, p := range g.all {
				v := g.patterns[i].match(name)
				if slices.Contains(found, p) != (v == yes) || slices.Contains(undecided, p) != (v == unknown) {
					t.Fatalf("pattern %q on %q is %v, and found among %d and %d undecided", p.Pattern, name, v, len(found), len(undecided))
				}
			}
		}
	})
}
