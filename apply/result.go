package apply

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/plan"
)

// Outcome is what became of one change.
type Outcome struct {
	Change *plan.Change
	// Err is why the change failed, or why the run stopped before it was tried.
	Err error
	// Cause is the failed or blocked change that this one waits for, the first in
	// plan order when there are several; nil when there is none.
	Cause *plan.Change
	// Because puts Cause into words, or says why a change is blocked.
	Because string
	// Attempts is how often the change was tried.
	Attempts int
	// Unknown says that an attempt was left without an answer: the broker may
	// have carried out a change that counts as failed.
	Unknown bool
	// Absent says that there was nothing to delete.
	Absent bool
}

// Result says what happened to every change of a plan: each is in exactly one
// list, and each list is in plan order.
type Result struct {
	Done, Failed, NotTried, Blocked []Outcome
	// FirstWrite says that at least one change was tried.
	FirstWrite bool
	// Stopped is why the run ended early: the cause of the context's
	// cancellation, or an *OutageError; nil: it did not.
	Stopped error
}

// Status sums a result up.
type Status string

// The statuses, in the order in which they are found: a run that failed is not
// called blocked.
const (
	// NothingChanged: something failed or was not tried, and the broker is
	// certainly as it was.
	NothingChanged Status = "nothing-changed"
	// Partial: something failed or was not tried after the broker was changed,
	// or may have been.
	Partial Status = "partial"
	// BlockedLeft: everything was done but what is blocked or waits for that.
	BlockedLeft Status = "blocked"
	// Complete: everything was done.
	Complete Status = "complete"
)

// Status returns the first status that holds.
func (r *Result) Status() Status {
	switch {
	case len(r.Failed) == 0 && !r.cutShort():
		if len(r.Blocked) > 0 {
			return BlockedLeft
		}
		return Complete
	case r.Changed():
		return Partial
	}
	return NothingChanged
}

// cutShort reports whether anything was not tried for another reason than a
// blocked change.
func (r *Result) cutShort() bool {
	for _, o := range r.NotTried {
		if o.Cause == nil || len(o.Cause.Blocked) == 0 {
			return true
		}
	}
	return false
}

// Changed reports whether the broker was changed, or may have been: an attempt
// without an answer counts.
func (r *Result) Changed() bool {
	for _, o := range r.Done {
		if !o.Absent {
			return true
		}
	}
	for _, o := range r.Failed {
		if o.Unknown {
			return true
		}
	}
	return false
}

// Refused reports whether something was tried and the broker refused all of it,
// so that it is certainly as it was.
func (r *Result) Refused() bool {
	return len(r.Failed) > 0 && !r.Changed()
}

// BlockedOutcomes is how blocked changes stand in a Result, for showing them
// without a run.
func BlockedOutcomes(changes []*plan.Change) []Outcome {
	var list []Outcome
	for _, c := range changes {
		list = append(list, Outcome{Change: c, Because: blockedBecause(c)})
	}
	return list
}

func blockedBecause(c *plan.Change) string {
	var all []string
	for _, b := range c.Blocked {
		all = append(all, b.Text)
	}
	return strings.Join(all, "; ")
}

func waitsFor(cause *plan.Change) string {
	if len(cause.Blocked) > 0 {
		return fmt.Sprintf("needs %s, which is blocked", cause.Key)
	}
	return fmt.Sprintf("needs %s, which failed", cause.Key)
}

// Verify compares what a plan computed after the run still wants to change with
// what the run left undone, and returns the rest in plan order: differences that
// the run should have removed. None: the run did what it says.
func Verify(r *Result, after *plan.Plan) []*plan.Change {
	if r == nil || after == nil {
		return nil
	}
	undone := map[string]bool{}
	for _, list := range [][]Outcome{r.Failed, r.NotTried, r.Blocked} {
		for _, o := range list {
			undone[o.Change.ID] = true
		}
	}
	var differences []*plan.Change
	for _, c := range after.Changes {
		if !undone[c.ID] {
			differences = append(differences, c)
		}
	}
	return differences
}

// result sorts the changes into the lists. stopped is why those that nothing
// kept from being tried were not.
func (r *run) result(stopped error) *Result {
	res := &Result{FirstWrite: r.firstWrite, Stopped: r.stopped}
	causes := r.causes()
	for i, c := range r.changes {
		s := &r.steps[i]
		o := Outcome{Change: c, Err: s.err, Attempts: s.attempts, Unknown: s.unknown, Absent: s.absent}
		switch s.state {
		case done:
			o.Unknown = false // a later attempt was answered
			res.Done = append(res.Done, o)
		case failed:
			res.Failed = append(res.Failed, o)
		case blocked:
			o.Because = blockedBecause(c)
			res.Blocked = append(res.Blocked, o)
		default:
			if causes[i] >= 0 {
				o.Cause = r.changes[causes[i]]
				o.Because = waitsFor(o.Cause)
			} else {
				o.Err = stopped
			}
			res.NotTried = append(res.NotTried, o)
		}
	}
	return res
}

// causes finds for every node the first failed or blocked change that it waits
// for, or -1. It is computed afterwards so that it does not depend on which of
// several failed first.
func (r *run) causes() []int {
	causes := make([]int, len(r.needs))
	for _, n := range r.order {
		causes[n] = -1
		for _, m := range r.needs[n] {
			cause := causes[m]
			if m < len(r.changes) && (r.steps[m].state == failed || r.steps[m].state == blocked) {
				cause = m
			}
			if cause >= 0 && (causes[n] < 0 || cause < causes[n]) {
				causes[n] = cause
			}
		}
	}
	return causes
}
