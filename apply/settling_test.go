package apply

import (
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

// TestSettling: a node that comes up answers 404 for a while, as if the virtual
// host were not there; right after a fault that is no final word.
func TestSettling(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		started := time.Now()
		b.faults = func(_ string, _ int) error {
			switch since := time.Since(started); {
			case since < time.Second: // before the restart
				return nil
			case since < 4*time.Second:
				return errDown
			case since < 7*time.Second:
				return errAbsent
			}
			return nil
		}
		b.latency = 100 * time.Millisecond
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(60)}, b, Options{Parallel: 4, Timeout: 30 * time.Second})
		if res.Status() != Complete {
			t.Errorf("status %s, %d failed, stopped %v", res.Status(), len(res.Failed), res.Stopped)
		}
	})
}

// TestVirtualHostGone: when it is gone for good, waiting for it soon ends.
func TestVirtualHostGone(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		started := time.Now()
		b.faults = func(_ string, n int) error {
			switch since := time.Since(started); {
			case since < time.Second:
				return nil
			case since < 1100*time.Millisecond:
				return errDown
			}
			return errAbsent
		}
		b.latency = 100 * time.Millisecond
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(60)}, b, Options{Parallel: 4, Timeout: 5 * time.Minute})
		if res.Status() != Partial || len(res.Failed) == 0 {
			t.Errorf("status %s, %d failed", res.Status(), len(res.Failed))
		}
		if took := time.Since(started); took > 2*settling {
			t.Errorf("took %s", took)
		}
	})
}

// TestNotFoundWithoutFault: otherwise a 404 is soon final, also for those that
// come later.
func TestNotFoundWithoutFault(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		b.faults = func(id string, _ int) error {
			if id == "queue/q001" || id == "queue/q002" {
				return errAbsent
			}
			return nil
		}
		started := time.Now()
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(4)}, b, Options{Parallel: 1})
		wantLists(t, res, []string{"queue/q000", "queue/q003"}, []string{"queue/q001", "queue/q002"}, nil, nil)
		if took := time.Since(started); took > 3*goingDown {
			t.Errorf("took %s", took)
		}
	})
}

// TestGoingDown: the first that is seen of a restart can be a 404.
func TestGoingDown(t *testing.T) {
	inBubble("", t, func(t *testing.T) {
		b := newFake()
		started := time.Now()
		b.faults = func(_ string, _ int) error {
			switch since := time.Since(started); {
			case since < time.Second:
				return nil
			case since < 2*time.Second:
				return errAbsent
			case since < 9*time.Second:
				return errDown
			}
			return nil
		}
		b.latency = 100 * time.Millisecond
		res := mustRun(t, t.Context(), &plan.Plan{Changes: manyQueues(60)}, b, Options{Parallel: 4, Timeout: 30 * time.Second})
		if res.Status() != Complete {
			t.Errorf("status %s, %d failed, stopped %v", res.Status(), len(res.Failed), res.Stopped)
		}
	})
}
