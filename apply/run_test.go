package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

// inBubble runs a test on a clock of its own, which also fails when a goroutine
// is left behind.
func inBubble(name string, t *testing.T, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func mustRun(t *testing.T, ctx context.Context, p *plan.Plan, b Broker, o Options) *Result {
	t.Helper()
	res, err := Run(ctx, p, b, o)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

func wantLists(t *testing.T, res *Result, done, failed, notTried, blocked []string) {
	t.Helper()
	for _, l := range []struct {
		name      string
		got, want []string
	}{
		{"done", outcomes(res.Done), done},
		{"failed", outcomes(res.Failed), failed},
		{"not tried", outcomes(res.NotTried), notTried},
		{"blocked", outcomes(res.Blocked), blocked},
	} {
		if !slices.Equal(l.got, l.want) {
			t.Errorf("%s: %v, want %v", l.name, l.got, l.want)
		}
	}
}

func manyQueues(n int) []*plan.Change {
	var changes []*plan.Change
	for i := range n {
		changes = append(changes, queueChange(fmt.Sprintf("q%03d", i)))
	}
	return changes
}

func TestFailureStopsOnlyWhatNeedsIt(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		p := &plan.Plan{
			Changes: []*plan.Change{
				queueChange("a"), queueChange("dead"),
				queueChange("work", "route//dead"),
				queueChange("other", "queue/a", "queue/already-there"),
				queueChange("late", "queue/work"),
			},
			Routes: map[string][]string{"route//dead": {"queue/dead", "queue/unchanged"}},
		}
		b := newFake()
		b.faults = func(id string, n int) error {
			if id == "queue/dead" {
				return errRefused
			}
			return nil
		}
		rec := &recorder{}
		res := mustRun(t, t.Context(), p, b, Options{Observer: rec})
		wantLists(t, res, []string{"queue/a", "queue/other"}, []string{"queue/dead"}, []string{"queue/work", "queue/late"}, nil)
		for _, o := range res.NotTried {
			if o.Cause == nil || o.Cause.ID != "queue/dead" {
				t.Errorf("%s is not tried because of %v", o.Change.ID, o.Cause)
			}
			if want := `needs queue "dead" in virtual host "/", which failed`; o.Because != want {
				t.Errorf("reason %q, want %q", o.Because, want)
			}
		}
		if !errors.Is(res.Failed[0].Err, errRefused) || res.Failed[0].Attempts != 1 {
			t.Errorf("failed: %+v", res.Failed[0])
		}
		if res.Status() != Partial || !res.FirstWrite || res.Stopped != nil {
			t.Errorf("status %s, first write %v, stopped %v", res.Status(), res.FirstWrite, res.Stopped)
		}
		if want := (Progress{Total: 5, Done: 2, Failed: 1, NotTried: 2}); rec.last != want {
			t.Errorf("progress %+v, want %+v", rec.last, want)
		}
	})
}

func TestRefusalBeforeFirstWrite(t *testing.T) {
	b := newFake()
	b.faults = func(string, int) error { return errRefused }
	res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(3)}, b, Options{})
	if res.Status() != NothingChanged || !res.FirstWrite || res.Changed() {
		t.Errorf("status %s, first write %v, changed %v", res.Status(), res.FirstWrite, res.Changed())
	}
}

func TestParallel(t *testing.T) {
	for _, limit := range []int{1, 3, 16} {
		inBubble(fmt.Sprint(limit), t, func(t *testing.T) {
			b := newFake()
			b.latency = time.Second
			started := time.Now()
			mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(48)}, b, Options{Parallel: limit})
			if b.most != limit {
				t.Errorf("%d at once, want %d", b.most, limit)
			}
			if took := time.Since(started); took != time.Duration(48/limit)*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestOneAtATimeFollowsThePlan(t *testing.T) {
	p := &plan.Plan{Changes: []*plan.Change{policyChange("b"), queueChange("z"), policyChange("a"), queueChange("c", "policy/a"), queueChange("b")}}
	b := newFake()
	mustRun(t, t.Context(), p, b, Options{Parallel: 1})
	if want := []string{"policy/b", "queue/z", "policy/a", "queue/c", "queue/b"}; !slices.Equal(b.ids(), want) {
		t.Errorf("order %v, want %v", b.ids(), want)
	}
}

func TestPoliciesRunOneAtATime(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		var changes []*plan.Change
		for i := range 10 {
			changes = append(changes, policyChange(fmt.Sprintf("p%d", i)), queueChange(fmt.Sprintf("q%d", i)))
		}
		b := newFake()
		b.latency = time.Second
		started := time.Now()
		mustRun(t, t.Context(), &plan.Plan{Changes: changes}, b, Options{})
		if b.violations != nil {
			t.Error(b.violations)
		}
		if took := time.Since(started); took != 10*time.Second || b.most != 11 {
			t.Errorf("took %s with %d at once: the queues should run beside the policies", took, b.most)
		}
	})
}

func TestBlocked(t *testing.T) {
	changes := []*plan.Change{queueChange("a"), block(queueChange("b", "queue/a")), queueChange("c", "queue/b"), queueChange("d", "queue/c")}
	b := newFake()
	res, err := Run(t.Context(), &plan.Plan{Changes: changes}, b, Options{})
	var refused *BlockedError
	if !errors.As(err, &refused) || len(refused.Changes) != 1 || refused.Changes[0].ID != "queue/b" {
		t.Fatalf("error %v", err)
	}
	if want := `1 change is blocked, nothing was applied: create queue "b" in virtual host "/"`; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if len(b.attempts) > 0 || res.FirstWrite {
		t.Errorf("tried %v", b.ids())
	}
	wantLists(t, res, nil, nil, []string{"queue/a", "queue/c", "queue/d"}, []string{"queue/b"})

	res = mustRun(t, t.Context(), &plan.Plan{Changes: changes}, b, Options{SkipBlocked: true})
	wantLists(t, res, []string{"queue/a"}, nil, []string{"queue/c", "queue/d"}, []string{"queue/b"})
	if res.Status() != BlockedLeft {
		t.Errorf("status %s", res.Status())
	}
	if got := res.NotTried[1].Because; got != `needs queue "b" in virtual host "/", which is blocked` {
		t.Errorf("reason %q", got)
	}
	if got := res.Blocked[0].Because; got != "40 messages would be lost" {
		t.Errorf("reason %q", got)
	}
}

func TestReplaceIsRefused(t *testing.T) {
	c := queueChange("a")
	c.Action, c.Before = plan.Replace, c.After
	b := newFake()
	_, err := Run(t.Context(), &plan.Plan{Changes: []*plan.Change{queueChange("b"), c}}, b, Options{SkipBlocked: true})
	var refused *ReplaceError
	if !errors.As(err, &refused) || len(b.attempts) > 0 {
		t.Errorf("error %v after %v", err, b.ids())
	}
	// A blocked one is left alone like everything that is blocked.
	block(c)
	res := mustRun(t, t.Context(), &plan.Plan{Changes: []*plan.Change{queueChange("b"), c}}, b, Options{SkipBlocked: true})
	wantLists(t, res, []string{"queue/b"}, nil, nil, []string{"queue/a"})
}

func TestAbsentDeleteIsDone(t *testing.T) {
	b := newFake()
	b.faults = func(string, int) error { return errAbsent }
	res := mustRun(t, t.Context(), &plan.Plan{Changes: []*plan.Change{remove("a"), queueChange("b")}}, b, Options{})
	wantLists(t, res, []string{"queue/a"}, []string{"queue/b"}, nil, nil)
	if o := res.Done[0]; !o.Absent || o.Err != nil {
		t.Errorf("outcome %+v", o)
	}
	if res.Status() != NothingChanged {
		t.Errorf("status %s", res.Status())
	}
}

func TestTransientFaultIsRetried(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		b.faults = func(id string, n int) error {
			if id == "queue/q001" && n <= 4 {
				return errDown
			}
			return nil
		}
		rec := &recorder{}
		started := time.Now()
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(4)}, b, Options{Observer: rec, Parallel: 2})
		if res.Status() != Complete || res.Done[1].Attempts != 5 || rec.count("retrying") != 4 || rec.count("started") != 4 {
			t.Errorf("status %s, outcome %+v, events %v", res.Status(), res.Done[1], rec.events)
		}
		// 100, 200, 400, 800 ms, of each at least half.
		if took := time.Since(started); took < 750*time.Millisecond || took > 1500*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

func TestPersistentFaultFailsAloneAfterTimeout(t *testing.T) {
	for _, parallel := range []int{1, 16} {
		inBubble(fmt.Sprint(parallel), t, func(t *testing.T) {
			b := newFake()
			b.latency = 10 * time.Millisecond
			b.faults = func(id string, n int) error {
				if id == "queue/q000" {
					return &fault{text: "500 internal error", transient: true}
				}
				return nil
			}
			changes := append(manyQueues(20), queueChange("needs-it", "queue/q000"))
			started := time.Now()
			res := mustRun(t, t.Context(), &plan.Plan{Changes: changes}, b, Options{Parallel: parallel, Timeout: 30 * time.Second})
			wantLists(t, res, outcomesOf(changes[1:20]), []string{"queue/q000"}, []string{"queue/needs-it"}, nil)
			if took := time.Since(started); took > 35*time.Second || took < 20*time.Second {
				t.Errorf("took %s", took)
			}
			if res.Stopped != nil || res.NotTried[0].Cause != changes[0] {
				t.Errorf("stopped %v, because %v", res.Stopped, res.NotTried[0].Cause)
			}
			if !strings.Contains(res.Failed[0].Err.Error(), "500 internal error") {
				t.Errorf("error %v", res.Failed[0].Err)
			}
		})
	}
}

// Many objects that are faulty for good must not look like a dead broker.
func TestManyPersistentFaultsStopNothingElse(t *testing.T) {
	for _, parallel := range []int{1, 16} {
		inBubble(fmt.Sprint(parallel), t, func(t *testing.T) {
			b := newFake()
			b.faults = func(id string, n int) error {
				if id < "queue/q060" {
					return errDown
				}
				return nil
			}
			changes := manyQueues(80)
			res := mustRun(t, t.Context(), &plan.Plan{Changes: changes}, b, Options{Parallel: parallel})
			wantLists(t, res, outcomesOf(changes[60:]), outcomesOf(changes[:60]), nil, nil)
		})
	}
}

func outcomesOf(changes []*plan.Change) []string {
	var ids []string
	for _, c := range changes {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestDeadBrokerStopsTheRun(t *testing.T) {
	for _, unanswered := range []*fault{errDown, errNoAnswer} {
		inBubble(unanswered.text, t, func(t *testing.T) {
			b := newFake()
			b.faults = func(id string, n int) error {
				if id < "queue/q100" {
					return nil
				}
				return unanswered
			}
			started := time.Now()
			res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(3000)}, b, Options{Timeout: 30 * time.Second})
			if took := time.Since(started); took > 40*time.Second {
				t.Errorf("took %s", took)
			}
			var outage *OutageError
			if !errors.As(res.Stopped, &outage) || outage.Last == nil {
				t.Errorf("stopped: %v", res.Stopped)
			}
			// One attempt at a time, not thousands that cannot succeed.
			if tried := len(b.attempts); tried > 400 {
				t.Errorf("%d attempts", tried)
			}
			if len(res.Done) != 100 || len(res.Failed) < 16 || len(res.NotTried) < 2000 || res.Status() != Partial {
				t.Errorf("%d done, %d failed, %d not tried, %s", len(res.Done), len(res.Failed), len(res.NotTried), res.Status())
			}
			if o := res.NotTried[0]; !errors.As(o.Err, &outage) {
				t.Errorf("not tried: %+v", o)
			}
		})
	}
}

func TestBrokerRestart(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		b.latency = 10 * time.Millisecond
		back := time.Now().Add(20 * time.Second)
		broken := false
		b.breaks = func(id string, n int) bool {
			first := id == "queue/q050" && !broken
			broken = broken || first
			return first
		}
		b.faults = func(id string, n int) error {
			if broken && time.Now().Before(back) {
				return errDown
			}
			return nil
		}
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(200)}, b, Options{})
		if res.Status() != Complete {
			t.Errorf("status %s: %d failed, first %v", res.Status(), len(res.Failed), res.Failed[0].Err)
		}
		if took := time.Since(back); took > 8*time.Second {
			t.Errorf("went on %s after the broker was back", took)
		}
	})
}

func TestPoisonIsIsolated(t *testing.T) {
	for _, poison := range [][]string{{"queue/q005"}, {"queue/q000", "queue/q001", "queue/q017", "queue/q039"}} {
		inBubble(fmt.Sprint(len(poison)), t, func(t *testing.T) {
			b := newFake()
			b.latency = 10 * time.Millisecond
			b.breaks = func(id string, n int) bool { return slices.Contains(poison, id) }
			res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(40)}, b, Options{})
			if got := outcomes(res.Failed); !slices.Equal(got, poison) || len(res.Done) != 40-len(poison) {
				t.Errorf("failed %v, want %v; %d done", got, poison, len(res.Done))
			}
			for _, o := range res.Failed {
				if !o.Unknown || !errors.Is(o.Err, errNoAnswer) {
					t.Errorf("outcome %+v", o)
				}
			}
			for _, o := range res.Done {
				if o.Unknown {
					t.Errorf("outcome %+v", o)
				}
			}
			if b.besides != nil {
				t.Errorf("ran beside a repetition: %v", b.besides)
			}
			if n := res.Failed[0].Attempts; n != 3 {
				t.Errorf("%d attempts, want one and two alone", n)
			}
		})
	}
}

func TestOneBrokenConnectionFailsNothing(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		b.latency = 10 * time.Millisecond
		b.breaks = func(id string, n int) bool { return id == "queue/q020" && n <= 2 }
		started := time.Now()
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(40)}, b, Options{})
		if res.Status() != Complete || len(b.objects) != 40 {
			t.Errorf("status %s, %d objects", res.Status(), len(b.objects))
		}
		// Sixteen changes lost their answers by one fault, which is one short wait.
		if took := time.Since(started); took > 500*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

func TestInterrupt(t *testing.T) {
	cause := errors.New("lock lost")
	inBubble("running changes are finished", t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := newFake()
		b.latency = time.Second
		time.AfterFunc(1500*time.Millisecond, func() { cancel(cause) })
		started := time.Now()
		res := mustRun(t, ctx, &plan.Plan{Changes: manyQueues(12)}, b, Options{Parallel: 4})
		if took := time.Since(started); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		if len(res.Done) != 8 || len(res.Failed) != 0 || len(res.NotTried) != 4 || res.Stopped != cause {
			t.Errorf("%+v", res)
		}
		if res.NotTried[0].Err != cause {
			t.Errorf("not tried: %v", res.NotTried[0].Err)
		}
		if res.Status() != Partial {
			t.Errorf("status %s", res.Status())
		}
	})
	inBubble("what hangs is given up", t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newFake()
		b.latency = time.Hour
		time.AfterFunc(time.Second, cancel)
		started := time.Now()
		rec := &recorder{}
		res := mustRun(t, ctx, &plan.Plan{Changes: manyQueues(3)}, b, Options{Parallel: 2, Grace: 5 * time.Second, Observer: rec})
		if rec.count("retrying") > 0 || rec.count("failed") != 2 {
			t.Errorf("events %v", rec.events)
		}
		if took := time.Since(started); took != 6*time.Second {
			t.Errorf("took %s", took)
		}
		wantLists(t, res, nil, []string{"queue/q000", "queue/q001"}, []string{"queue/q002"}, nil)
		if !res.Failed[0].Unknown || res.Status() != Partial {
			t.Errorf("%+v, %s", res.Failed[0], res.Status())
		}
	})
	inBubble("what waits for another attempt has failed", t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := newFake()
		b.faults = func(string, int) error { return errDown }
		time.AfterFunc(3*time.Second, cancel)
		res := mustRun(t, ctx, &plan.Plan{Changes: []*plan.Change{queueChange("a"), queueChange("b", "queue/a")}}, b, Options{})
		wantLists(t, res, nil, []string{"queue/a"}, []string{"queue/b"}, nil)
		if !errors.Is(res.Failed[0].Err, errDown) || !errors.Is(res.Stopped, context.Canceled) || res.Status() != NothingChanged {
			t.Errorf("%+v, stopped %v", res.Failed[0], res.Stopped)
		}
	})
	inBubble("before the first write", t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b := newFake()
		res := mustRun(t, ctx, &plan.Plan{Changes: manyQueues(3)}, b, Options{})
		if res.FirstWrite || len(res.NotTried) != 3 || len(b.attempts) > 0 || res.Status() != NothingChanged {
			t.Errorf("%+v", res)
		}
	})
}

func TestEmptyPlan(t *testing.T) {
	res := mustRun(t, t.Context(), &plan.Plan{}, newFake(), Options{})
	if res.Status() != Complete || res.FirstWrite {
		t.Errorf("%+v", res)
	}
}

func TestBackoff(t *testing.T) {
	for _, b := range []Backoff{{First: 1, Max: 1}, {First: time.Hour, Max: time.Millisecond}, {First: 1 << 62, Max: 1<<63 - 1}, {}} {
		r := &run{opts: Options{Backoff: b}.withDefaults()}
		for n := 1; n < 100; n++ {
			if wait := r.backoff(n); wait < 0 || wait > r.opts.Backoff.Max {
				t.Errorf("%+v: wait %d is %s", b, n, wait)
			}
		}
	}
}
