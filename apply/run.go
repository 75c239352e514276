package apply

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

type state int

const (
	waiting state = iota // for what it needs
	ready                // to be tried, for the first time or again
	running
	done
	failed
	notTried
	blocked
)

// step is what a run knows of one change.
type step struct {
	state    state
	attempts int
	// due is when it may be tried again after a fault, since when its first fault
	// happened.
	due, since time.Time
	// alone counts the attempts without an answer while nothing else was running.
	alone   int
	unknown bool // an attempt was left without an answer
	absent  bool // there was nothing to delete
	err     error
}

// maxAlone is how many attempts alone may stay without an answer. The first can
// be a broker that goes down twice; a change that breaks two connections more
// is what breaks them.
const maxAlone = 2

// settling is how long after a fault a 404 is no final word on what is to be made:
// a node that comes up (3.10, measured) answers so until it knows its virtual
// hosts. One that goes down does so as well, before the first fault.
const (
	settling  = 15 * time.Second
	goingDown = 3 * time.Second
)

// run is one execution. Only the goroutine of loop touches it; an attempt runs
// in a goroutine of its own and sends its answer.
//
// Faults are met at three levels. A change that met one waits and is tried
// again. Changes left without an answer are suspects: one of them may have made
// the broker close the connection that all of them shared, so each is tried
// again with nothing beside it. And while the broker answers nothing at all, the
// run probes it with one change at a time instead of all that are ready.
type run struct {
	*graph
	broker Broker
	opts   Options

	steps    []step
	pending  []int        // by node: how many needs are not done
	broken   []bool       // by node: a need has failed or is blocked
	fresh    [2]indexHeap // ready and never tried: others, policies
	retries  []int        // ready again after a fault
	suspects []int        // to be tried alone, in plan order

	answers       chan answer
	policyRunning bool
	isolated      bool // the running change is a suspect
	probing       bool // the running change was started during a silence
	progress      Progress
	firstWrite    bool

	silent  bool      // nothing was answered since a fault
	silence time.Time // its beginning
	faults  int       // of the silence, for the length of the next wait
	nextTry time.Time
	lost    time.Time // the last fault that was no 404
	stopped error     // why no further change is started
}

type answer struct {
	index int
	err   error
}

func newRun(g *graph, b Broker, o Options) *run {
	r := &run{
		graph: g, broker: b, opts: o,
		steps:   make([]step, len(g.changes)),
		pending: make([]int, len(g.needs)),
		broken:  make([]bool, len(g.needs)),
		answers: make(chan answer, o.Parallel),
	}
	for n, needs := range g.needs {
		r.pending[n] = len(needs)
	}
	for i, c := range g.changes {
		if len(c.Blocked) > 0 {
			r.steps[i].state = blocked
		} else {
			r.progress.Total++
		}
	}
	return r
}

// loop runs until nothing is left that can be tried.
func (r *run) loop(ctx context.Context) {
	// Cancelling ctx must not break what is running, only end it after a while.
	attempts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	interrupted := ctx.Done()
	var grace <-chan time.Time

	for n, needs := range r.needs {
		if len(needs) == 0 {
			r.reached(n)
		}
	}
	for i := range r.steps {
		if r.steps[i].state == blocked {
			r.breakDependents(i)
		}
	}
	for {
		if ctx.Err() != nil && r.stopped == nil {
			r.stopped = context.Cause(ctx)
		}
		if r.stopped != nil && interrupted != nil {
			interrupted, grace = nil, time.After(r.opts.Grace)
		}
		now := time.Now()
		for i, ok := r.next(now); ok; i, ok = r.next(now) {
			r.start(attempts, i)
		}
		wake, waits := r.wake(now)
		if r.progress.Running == 0 && !waits {
			break
		}
		var timer <-chan time.Time
		if waits {
			timer = time.After(time.Until(wake))
		}
		select {
		case a := <-r.answers:
			r.answered(a, time.Now())
		case <-timer:
		case <-interrupted:
		case <-grace:
			cancel()
			grace = nil
		}
	}
	for _, i := range slices.Sorted(slices.Values(slices.Concat(r.suspects, r.retries))) {
		r.fail(i, fmt.Errorf("%s, then the run stopped: %w", count(r.steps[i].attempts, "attempt", "attempts"), r.steps[i].err))
	}
}

// next picks the change to start now, if any: the first in plan order among
// those that may run.
func (r *run) next(now time.Time) (int, bool) {
	alone := len(r.suspects) > 0 || r.silent
	switch {
	case r.stopped != nil, r.isolated, r.progress.Running >= r.opts.Parallel,
		alone && r.progress.Running > 0,
		r.silent && now.Before(r.nextTry):
		return 0, false
	case len(r.suspects) > 0:
		i := r.suspects[0]
		r.suspects = r.suspects[1:]
		r.isolated = true
		return i, true
	}
	best, take := -1, func() {}
	consider := func(i int, remove func()) {
		if r.policyRunning && r.isPolicy(i) {
			return
		}
		if best < 0 || r.before(i, best) {
			best, take = i, remove
		}
	}
	for at, i := range r.retries {
		if !now.Before(r.steps[i].due) {
			consider(i, func() { r.retries = slices.Delete(r.retries, at, at+1) })
		}
	}
	for k := range r.fresh {
		if len(r.fresh[k]) > 0 {
			consider(r.fresh[k][0], func() { heap.Pop(&r.fresh[k]) })
		}
	}
	take()
	return best, best >= 0
}

// before orders what may run: as in the plan; during a silence what was tried
// least first, so that one faulty object cannot keep the run from finding out
// that the broker answers.
func (r *run) before(i, j int) bool {
	if a, b := r.steps[i].attempts, r.steps[j].attempts; r.silent && a != b {
		return a < b
	}
	return i < j
}

// wake is the next moment at which waiting alone makes a change startable.
func (r *run) wake(now time.Time) (wake time.Time, ok bool) {
	if r.stopped != nil {
		return
	}
	sooner := func(t time.Time) {
		if t.After(now) && (!ok || t.Before(wake)) {
			wake, ok = t, true
		}
	}
	if r.silent && r.progress.Running == 0 {
		sooner(r.nextTry)
	}
	for _, i := range r.retries {
		sooner(r.steps[i].due)
	}
	return wake, ok
}

func (r *run) start(ctx context.Context, i int) {
	s := &r.steps[i]
	s.state = running
	s.attempts++
	r.firstWrite = true
	r.probing = r.silent
	r.progress.Running++
	if r.isPolicy(i) {
		r.policyRunning = true
	}
	if s.attempts == 1 {
		r.opts.Observer.Started(r.changes[i], r.progress)
	}
	go func(c *plan.Change) {
		r.answers <- answer{i, perform(ctx, r.broker, c)}
	}(r.changes[i])
}

func (r *run) answered(a answer, now time.Time) {
	wasAlone := r.isolated
	r.isolated = false
	r.progress.Running--
	if r.isPolicy(a.index) {
		r.policyRunning = false
	}
	var fault Fault
	if a.err != nil {
		fault = r.opts.Fault(a.err)
	}
	absent := fault.NotFound && r.changes[a.index].Action == plan.Delete
	switch {
	case fault.Unknown, fault.Transient:
		r.lost = now
		r.faulty(a.index, a.err, fault.Unknown, wasAlone, now)
		return
	case fault.NotFound && !absent && r.settles(now):
		r.faulty(a.index, a.err, fault.Unknown, wasAlone, now)
		return
	case a.err == nil, absent:
		r.steps[a.index].absent = absent
		r.done(a.index)
	default:
		r.fail(a.index, a.err)
	}
	r.silent = false
}

// settles reports whether a 404 to what is to be made may come from a node that
// goes down or comes up.
func (r *run) settles(now time.Time) bool {
	if r.lost.IsZero() {
		r.lost = now.Add(goingDown - settling)
	}
	return now.Sub(r.lost) < settling
}

// faulty decides when a change that met a fault is tried again, if at all.
func (r *run) faulty(i int, err error, unknown, wasAlone bool, now time.Time) {
	s := &r.steps[i]
	s.err = err
	s.unknown = s.unknown || unknown
	if s.since.IsZero() {
		s.since = now
	}
	r.unanswered(s.attempts, now)
	switch {
	case r.stopped != nil: // it is reported when the run ends
		s.state = ready
		r.retries = append(r.retries, i)
	case unknown && wasAlone && s.alone+1 >= maxAlone:
		// The broker is there, so the next wait need not be longer.
		r.faults = 0
		r.fail(i, fmt.Errorf("no answer in %d attempts, the last %d with nothing beside them: %w", s.attempts, maxAlone, err))
	case unknown:
		if wasAlone {
			s.alone++
		}
		at, _ := slices.BinarySearch(r.suspects, i)
		r.suspects = slices.Insert(r.suspects, at, i)
		r.again(i, max(0, r.nextTry.Sub(now)))
	default:
		wait := r.backoff(s.attempts)
		if spent := now.Sub(s.since); spent+wait > r.opts.Timeout {
			r.fail(i, fmt.Errorf("%s in %s: %w", count(s.attempts, "attempt", "attempts"), spent.Round(time.Millisecond), err))
			break
		}
		s.due = now.Add(wait)
		r.retries = append(r.retries, i)
		r.again(i, wait)
	}
	spent := now.Sub(r.silence)
	if r.stopped == nil && r.othersLeft(i) && spent+r.nextTry.Sub(now) > r.opts.Timeout {
		r.stopped = &OutageError{Silent: spent, Last: err}
	}
}

// unanswered notes a fault. Those of changes that ran together are one, as when
// their connection breaks. The wait grows less after a first attempt than after
// a repetition: when the first of many objects are faulty, the broker is soon
// asked for one that is not.
func (r *run) unanswered(attempts int, now time.Time) {
	if !r.silent {
		r.silent, r.silence, r.faults = true, now, 0
	} else if !r.probing {
		return
	}
	r.faults++
	wait := r.backoff(r.faults)
	if attempts == 1 {
		wait = min(wait, max(r.opts.Backoff.First, r.opts.Backoff.Max/10))
	}
	r.nextTry = now.Add(wait)
}

// othersLeft reports whether anything but change i could still be started.
func (r *run) othersLeft(i int) bool {
	left := len(r.suspects) + len(r.retries) + len(r.fresh[0]) + len(r.fresh[1])
	if r.steps[i].state == ready {
		left--
	}
	return left > 0
}

// backoff is the wait after n faults.
func (r *run) backoff(n int) time.Duration {
	wait := r.opts.Backoff.First
	for range n - 1 {
		if wait > r.opts.Backoff.Max/2 {
			break
		}
		wait *= 2
	}
	wait = min(wait, r.opts.Backoff.Max)
	return wait/2 + rand.N(wait/2+1)
}

func (r *run) again(i int, wait time.Duration) {
	r.steps[i].state = ready
	r.opts.Observer.Retrying(r.changes[i], r.steps[i].err, wait, r.progress)
}

func (r *run) done(i int) {
	r.steps[i].state = done
	r.steps[i].err = nil
	r.progress.Done++
	r.opts.Observer.Done(r.changes[i], r.progress)
	r.finished(i)
}

func (r *run) fail(i int, err error) {
	r.steps[i].state = failed
	r.steps[i].err = err
	r.progress.Failed++
	r.breakDependents(i)
	r.opts.Observer.Failed(r.changes[i], err, r.progress)
}

// finished tells what waits for a node that it is done.
func (r *run) finished(node int) {
	for _, d := range r.dependents[node] {
		if r.pending[d]--; r.pending[d] == 0 {
			r.reached(d)
		}
	}
}

// reached is called once for a node of which all needs are done.
func (r *run) reached(node int) {
	switch {
	case node >= len(r.changes):
		r.finished(node)
	case r.steps[node].state == waiting:
		r.steps[node].state = ready
		k := 0
		if r.isPolicy(node) {
			k = 1
		}
		heap.Push(&r.fresh[k], node)
	}
}

// breakDependents marks everything that waits for a failed or blocked change.
func (r *run) breakDependents(node int) {
	todo := []int{node}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, d := range r.dependents[n] {
			if r.broken[d] {
				continue
			}
			r.broken[d] = true
			if d < len(r.changes) && r.steps[d].state == waiting {
				r.steps[d].state = notTried
				r.progress.NotTried++
			}
			todo = append(todo, d)
		}
	}
}

// indexHeap gives the smallest index first.
type indexHeap []int

func (h indexHeap) Len() int           { return len(h) }
func (h indexHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h indexHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *indexHeap) Push(x any)        { *h = append(*h, x.(int)) }

func (h *indexHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
