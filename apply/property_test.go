package apply

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/plan"
)

// The ways in which a change can go wrong in a random run.
const (
	well = iota
	refusedByBroker
	slowBroker    // transient faults, then well
	lostAnswers   // no answer a few times, then well
	breaksOnce    // the connection breaks while it runs, once
	breaksForever // it makes the broker close the connection
	ways
)

// randomPlan makes a plan in which every need is earlier than what needs it, in
// an order of its own; some needs go through routes, some name what is there.
func randomPlan(t *rapid.T) *plan.Plan {
	n := rapid.IntRange(0, 24).Draw(t, "changes")
	p := &plan.Plan{Routes: map[string][]string{}}
	var ids []string
	for i := range n {
		var c *plan.Change
		name := fmt.Sprintf("n%02d", i)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			c = policyChange(name)
		case 1:
			c = remove(name)
		default:
			c = queueChange(name)
		}
		for range rapid.IntRange(0, 3).Draw(t, "needs") {
			if need := rapid.SampledFrom(append(slices.Clone(ids), "queue/there")).Draw(t, "need"); !slices.Contains(c.Needs, need) {
				c.Needs = append(c.Needs, need)
			}
		}
		if rapid.IntRange(0, 11).Draw(t, "blocked") == 0 {
			block(c)
		}
		p.Changes = append(p.Changes, c)
		ids = append(ids, c.ID)
		if i%4 == 3 {
			route := fmt.Sprintf("route/%d", i)
			p.Routes[route] = rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 3, rapid.ID).Draw(t, "members")
			ids = append(ids, route)
		}
	}
	return p
}

// needed lists the changes that must be done before c.
func needed(p *plan.Plan, c *plan.Change) map[string]bool {
	all := map[string]bool{}
	byID := map[string]*plan.Change{}
	for _, c := range p.Changes {
		byID[c.ID] = c
	}
	var add func(ids []string)
	add = func(ids []string) {
		for _, id := range ids {
			if members, ok := p.Routes[id]; ok {
				add(members)
			} else if need, ok := byID[id]; ok && !all[id] {
				all[id] = true
				if len(need.Blocked) == 0 {
					add(need.Needs)
				}
			}
		}
	}
	add(c.Needs)
	return all
}

func TestRandomPlansWithFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := randomPlan(rt)
		way := map[string]int{}
		times := map[string]int{}
		for _, c := range p.Changes {
			id := c.Key.Address()
			if rapid.IntRange(0, 2).Draw(rt, "fault") == 0 {
				way[id] = rapid.IntRange(1, ways-1).Draw(rt, "way")
			}
			times[id] = rapid.IntRange(1, 2).Draw(rt, "times")
		}
		latency := time.Duration(rapid.IntRange(0, 20).Draw(rt, "latency")) * time.Millisecond
		interrupt := time.Duration(rapid.IntRange(-2000, 1000).Draw(rt, "interrupt")) * time.Millisecond
		o := Options{SkipBlocked: true, Parallel: rapid.SampledFrom([]int{1, 2, 16}).Draw(rt, "parallel")}

		var (
			b   *fakeBroker
			res *Result
			err error
			rec = &recorder{}
		)
		synctest.Test(t, func(*testing.T) {
			b = newFake()
			b.latency = latency
			for _, c := range p.Changes {
				if c.Action == plan.Delete {
					b.objects[c.Key] = c.Before
				}
			}
			b.breaks = func(id string, n int) bool {
				return way[id] == breaksForever || way[id] == breaksOnce && n == 1
			}
			b.faults = func(id string, n int) error {
				switch {
				case way[id] == refusedByBroker:
					return errRefused
				case way[id] == slowBroker && n <= times[id]:
					return errDown
				case way[id] == lostAnswers && n <= times[id]:
					return errNoAnswer
				}
				return nil
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if interrupt >= 0 {
				defer time.AfterFunc(interrupt, cancel).Stop()
			}
			o.Observer = rec
			res, err = Run(ctx, p, b, o)
		})
		if err != nil {
			rt.Fatal(err)
		}
		if res.Stopped != nil && interrupt < 0 {
			rt.Fatalf("stopped: %v", res.Stopped)
		}
		checkOnce(rt, p, res)
		checkNeeds(rt, p, res, rec)
		checkWays(rt, p, res, b, way)
		if b.violations != nil {
			rt.Fatal(b.violations)
		}
	})
}

// checkOnce: every change is in exactly one list, and the lists are in plan
// order.
func checkOnce(t *rapid.T, p *plan.Plan, res *Result) {
	at := map[string]int{}
	for i, c := range p.Changes {
		at[c.ID] = i
	}
	seen := map[string]int{}
	for _, list := range [][]Outcome{res.Done, res.Failed, res.NotTried, res.Blocked} {
		last := -1
		for _, o := range list {
			seen[o.Change.ID]++
			if at[o.Change.ID] <= last {
				t.Fatalf("%s is out of order", o.Change.ID)
			}
			last = at[o.Change.ID]
		}
	}
	for _, c := range p.Changes {
		if seen[c.ID] != 1 {
			t.Fatalf("%s is in %d lists", c.ID, seen[c.ID])
		}
	}
}

// checkNeeds: a change starts only after everything that it needs is done.
func checkNeeds(t *rapid.T, p *plan.Plan, res *Result, rec *recorder) {
	when := map[string]int{}
	for i, e := range rec.events {
		when[e] = i + 1
	}
	for _, c := range p.Changes {
		started := when["started "+c.ID]
		for need := range needed(p, c) {
			if done := when["done "+need]; started > 0 && (done == 0 || done > started) {
				t.Fatalf("%s was started before %s was done: %v", c.ID, need, rec.events)
			}
		}
	}
	for _, o := range res.NotTried {
		if o.Attempts > 0 || when["started "+o.Change.ID] > 0 {
			t.Fatalf("%s was tried", o.Change.ID)
		}
		if o.Cause == nil {
			if res.Stopped == nil || o.Err == nil {
				t.Fatalf("%s was not tried without a reason", o.Change.ID)
			}
		} else if !needed(p, o.Change)[o.Cause.ID] || o.Because == "" {
			t.Fatalf("%s was not tried because of %s, which it does not need", o.Change.ID, o.Cause.ID)
		}
	}
}

// checkWays: what fails is exactly what cannot succeed, and nothing runs twice
// but after a fault.
func checkWays(t *rapid.T, p *plan.Plan, res *Result, b *fakeBroker, way map[string]int) {
	broken := false
	for _, w := range way {
		broken = broken || w == breaksOnce || w == breaksForever
	}
	for _, o := range res.Done {
		id := o.Change.Key.Address()
		if way[id] == refusedByBroker || way[id] == breaksForever {
			t.Fatalf("%s cannot be done", o.Change.ID)
		}
		if way[id] == well && !broken && b.calls[id] != 1 {
			t.Fatalf("%s ran %d times", o.Change.ID, b.calls[id])
		}
		if _, exists := b.objects[o.Change.Key]; exists != (o.Change.Action != plan.Delete) {
			t.Fatalf("%s is called done; exists: %v", o.Change.ID, exists)
		}
	}
	for _, o := range res.Failed {
		id := o.Change.Key.Address()
		if o.Err == nil || o.Attempts != b.calls[id] {
			t.Fatalf("%+v, %d calls", o, b.calls[id])
		}
		if w := way[id]; res.Stopped == nil && w != refusedByBroker && w != breaksForever {
			t.Fatalf("%s failed, though only others had faults for good: %v", o.Change.ID, o.Err)
		}
	}
	for _, o := range res.Blocked {
		if b.calls[o.Change.Key.Address()] > 0 {
			t.Fatalf("%s is blocked and was tried", o.Change.ID)
		}
	}
}
