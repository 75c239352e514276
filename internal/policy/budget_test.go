package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestBudget: a pattern whose slow matches add up is cut; when those of all take too
// long, none is tried any more but those that need no engine.
func TestBudget(t *testing.T) {
	var policies []*topology.Policy
	for _, name := range []string{"a", "b", "c"} {
		policies = append(policies, &topology.Policy{Name: name, Pattern: "^" + name + `\d+$`, ApplyTo: "all"})
	}
	policies = append(policies, &topology.Policy{Name: "d", Pattern: "^d1$", ApplyTo: "all"})
	s := New(catalog.Newest, policies, nil)
	look := func(name string) (found, problem string) {
		m := s.Queue(name, topology.Classic)
		if m.Policy != nil {
			found = m.Policy.Name
		}
		if len(m.Undecided) == 1 {
			problem = s.Problem(m.Undecided[0])
		}
		return found, problem
	}
	expect := func(when string, name, found, problem string) {
		t.Helper()
		f, p := look(name)
		if f != found || (p == "") != (problem == "") || !strings.Contains(p, problem) {
			t.Errorf("%s: %q is matched by %q (%s), want %q (%s)", when, name, f, p, found, problem)
		}
	}
	b := &s.policies.budget
	for range 100000 {
		if b.spend(0, slow-1) {
			t.Fatal("fast matches are counted")
		}
	}
	expect("after fast matches", "a1", "a", "")
	const each = 10 * time.Millisecond
	for i := range int(maxSlow / each) {
		if b.spend(0, each) {
			t.Fatalf("cut after %d matches", i)
		}
	}
	if !b.spend(0, each) {
		t.Error("not cut")
	}
	expect("after slow matches", "b1", "b", "")
	b.spend(1, maxSlow)
	b.spend(2, maxAllSlow-maxSlow)
	expect("after slow matches of all", "b1", "", "took too long")
	expect("after slow matches of all", "d1", "d", "")
}
