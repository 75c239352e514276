package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

func TestPlanThatCannotBeCarriedOut(t *testing.T) {
	noObject := queueChange("a")
	noObject.After = nil
	noBefore := remove("b")
	noBefore.Before = nil
	odd := queueChange("c")
	odd.Action = "purge\x1b"
	for _, c := range []struct {
		name string
		plan *plan.Plan
		want []string
	}{
		{"none", nil, []string{"there is none"}},
		{"several", &plan.Plan{Changes: []*plan.Change{noObject, nil, noBefore, odd}}, []string{
			`create queue "a" in virtual host "/": the object is missing`, "a change is empty",
			`delete queue "b" in virtual host "/": the object is missing`, `queue "c" in virtual host "/": unknown action "purge\x1b"`,
		}},
		{"twice", &plan.Plan{Changes: []*plan.Change{queueChange("a"), queueChange("a")}}, []string{`two changes have the ID "queue/a"`}},
		{"route and change", &plan.Plan{Changes: []*plan.Change{queueChange("a")}, Routes: map[string][]string{"queue/a": nil}}, []string{`a change and a route have the ID "queue/a"`}},
		{"itself", &plan.Plan{Changes: []*plan.Change{queueChange("a", "queue/a")}}, []string{`wait for each other: queue "a" in`}},
		{"circle", &plan.Plan{
			Changes: []*plan.Change{queueChange("a"), queueChange("b", "route/x"), queueChange("c", "queue/b", "queue/a"), queueChange("d", "queue/c")},
			Routes:  map[string][]string{"route/x": {"queue/a", "route/y"}, "route/y": {"queue/d"}},
		}, []string{`wait for each other: queue "b" in virtual host "/", queue "d" in virtual host "/", queue "c" in virtual host "/"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake()
			res, err := Run(t.Context(), c.plan, b, Options{SkipBlocked: true})
			var refused *PlanError
			if !errors.As(err, &refused) {
				t.Fatalf("error %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if len(b.attempts) > 0 || res == nil || res.FirstWrite {
				t.Errorf("tried %v", b.ids())
			}
		})
	}
}

// Exchanges bound in a circle have routes that contain each other.
func TestRoutesInACircle(t *testing.T) {
	p := &plan.Plan{
		Changes: []*plan.Change{
			queueChange("work", "route/b"), queueChange("w2", "route/c"), queueChange("a"), queueChange("b"), queueChange("c"), queueChange("w3", "route/empty"),
		},
		Routes: map[string][]string{
			"route/a": {"queue/a", "route/b"},
			"route/b": {"queue/b", "route/a", "route/missing"},
			"route/c": {"route/a", "queue/c", "route/c"},

			"route/empty": nil,
		},
	}
	if want := [][]string{{"route/a", "route/b"}, {"route/c"}, {"route/empty"}}; fmt.Sprint(routeGroups(p.Routes)) != fmt.Sprint(want) {
		t.Errorf("groups %v", routeGroups(p.Routes))
	}
	b := newFake()
	res := mustRun(t, t.Context(), p, b, Options{Parallel: 1})
	if want := []string{"queue/a", "queue/b", "queue/work", "queue/c", "queue/w2", "queue/w3"}; !slices.Equal(b.ids(), want) || res.Status() != Complete {
		t.Errorf("order %v, want %v", b.ids(), want)
	}

	b = newFake()
	b.faults = func(id string, n int) error {
		if id == "queue/a" || id == "queue/c" {
			return errRefused
		}
		return nil
	}
	res = mustRun(t, t.Context(), p, b, Options{})
	wantLists(t, res, []string{"queue/b", "queue/w3"}, []string{"queue/a", "queue/c"}, []string{"queue/work", "queue/w2"}, nil)
	// Of two causes the first in the plan is named, whichever failed first.
	if res.NotTried[1].Cause.ID != "queue/a" {
		t.Errorf("cause %s", res.NotTried[1].Cause.ID)
	}
}

// One dead-letter exchange behind thousands of queues must cost neither time nor
// memory in the square of their number.
func TestManyQueuesBehindOneRoute(t *testing.T) {
	const n = 20000
	p := &plan.Plan{Routes: map[string][]string{"route/dlx": nil}}
	for i := range n {
		id := fmt.Sprintf("dead%05d", i)
		p.Changes = append(p.Changes, queueChange(id))
		p.Routes["route/dlx"] = append(p.Routes["route/dlx"], "queue/"+id)
	}
	for i := range n {
		p.Changes = append(p.Changes, queueChange(fmt.Sprintf("work%05d", i), "route/dlx"))
	}
	b := newFake()
	b.faults = func(id string, _ int) error {
		if id == "queue/dead19999" {
			return errRefused
		}
		return nil
	}
	started := time.Now()
	res := mustRun(t, t.Context(), p, b, Options{})
	if len(res.NotTried) != n || res.NotTried[0].Cause.ID != "queue/dead19999" {
		t.Errorf("%d not tried", len(res.NotTried))
	}
	// Squared work would be 400 million edges, far beyond this on any machine.
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

// A failure reaches what depends on it by 2^60 ways.
func TestFailureInALattice(t *testing.T) {
	p := &plan.Plan{}
	var above []string
	for i := range 60 {
		left, right := fmt.Sprintf("l%02d", i), fmt.Sprintf("r%02d", i)
		p.Changes = append(p.Changes, queueChange(left, above...), queueChange(right, above...))
		above = []string{"queue/" + left, "queue/" + right}
	}
	b := newFake()
	b.faults = func(id string, _ int) error {
		if id == "queue/l00" {
			return errRefused
		}
		return nil
	}
	res := mustRun(t, t.Context(), p, b, Options{})
	if len(res.Done) != 1 || len(res.NotTried) != 118 || res.NotTried[117].Cause.ID != "queue/l00" {
		t.Errorf("%d done, %d not tried", len(res.Done), len(res.NotTried))
	}
}

func TestVerify(t *testing.T) {
	changes := []*plan.Change{queueChange("a"), queueChange("b"), queueChange("c", "queue/b"), block(queueChange("d"))}
	b := newFake()
	b.faults = func(id string, _ int) error {
		if id == "queue/b" {
			return errRefused
		}
		return nil
	}
	res := mustRun(t, t.Context(), &plan.Plan{Changes: changes}, b, Options{SkipBlocked: true})
	if rest := Verify(res, &plan.Plan{Changes: changes[1:]}); rest != nil {
		t.Errorf("what failed, was not tried and is blocked is no surprise: %v", rest)
	}
	// Done, but still wanted: as when the broker says OK and keeps what it had.
	if rest := Verify(res, &plan.Plan{Changes: append(slices.Clone(changes), queueChange("new"))}); len(rest) != 2 || rest[0].ID != "queue/a" || rest[1].ID != "queue/new" {
		t.Errorf("differences %v", rest)
	}
	if Verify(res, nil) != nil || Verify(nil, &plan.Plan{}) != nil {
		t.Error("nothing to compare must give nothing")
	}
	if got := BlockedOutcomes(changes[3:]); len(got) != 1 || got[0].Change.ID != "queue/d" || got[0].Because != "40 messages would be lost" {
		t.Errorf("blocked outcomes %+v", got)
	}
}
