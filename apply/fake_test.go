package apply

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// fault is an error as a broker client gives it.
type fault struct {
	text                         string
	unknown, transient, notFound bool
}

func (f *fault) Error() string   { return f.text }
func (f *fault) Unknown() bool   { return f.unknown }
func (f *fault) Transient() bool { return f.transient }
func (f *fault) NotFound() bool  { return f.notFound }

var (
	errRefused  = errors.New("403 ACCESS_REFUSED")
	errDown     = &fault{text: "connection refused", transient: true}
	errNoAnswer = &fault{text: "541 INTERNAL_ERROR, connection closed", unknown: true, transient: true}
	errAbsent   = &fault{text: "404 NOT_FOUND", notFound: true}
)

// attempt is one call that the fake broker got.
type attempt struct {
	id      string
	applied bool
}

// fakeBroker keeps objects in memory. What meets a call is decided by faults.
type fakeBroker struct {
	// faults decides over call number n (from 1 for each object) before it is
	// carried out; nil: no fault.
	faults func(id string, n int) error
	// breaks says that a call makes the broker close the connection: every call
	// that runs at that time ends without an answer.
	breaks func(id string, n int) bool
	// latency is how long a call takes.
	latency time.Duration
	// observe is called with the lock held after each call that changed objects.
	observe func(objects map[topology.Key]topology.Object)

	mu         sync.Mutex
	objects    map[topology.Key]topology.Object
	attempts   []attempt
	calls      map[string]int
	running    int
	most       int
	policies   int
	alone      string // a repetition that runs
	violations []string
	besides    []string // calls that ran beside a repetition
	connection chan struct{}
}

func newFake() *fakeBroker {
	return &fakeBroker{
		objects: map[topology.Key]topology.Object{}, calls: map[string]int{}, connection: make(chan struct{}),
	}
}

func (f *fakeBroker) Create(ctx context.Context, o topology.Object) error {
	return f.call(ctx, o, func() { f.objects[o.Key()] = o })
}

func (f *fakeBroker) Update(ctx context.Context, o topology.Object) error {
	return f.call(ctx, o, func() { f.objects[o.Key()] = o })
}

func (f *fakeBroker) Delete(ctx context.Context, o topology.Object) error {
	return f.call(ctx, o, func() { delete(f.objects, o.Key()) })
}

func (f *fakeBroker) call(ctx context.Context, o topology.Object, carryOut func()) error {
	id := o.Key().Address()
	isPolicy := o.Key().Kind == topology.KindPolicy

	f.mu.Lock()
	f.calls[id]++
	n := f.calls[id]
	at := len(f.attempts)
	f.attempts = append(f.attempts, attempt{id: id})
	if f.running > 0 && (n > 1 || f.alone != "") {
		f.besides = append(f.besides, id)
	}
	if n > 1 {
		f.alone = id
	}
	f.running++
	f.most = max(f.most, f.running)
	if isPolicy {
		if f.policies++; f.policies > 1 {
			f.violations = append(f.violations, "two policies at once: "+id)
		}
	}
	connection := f.connection
	f.mu.Unlock()

	err := f.wait(ctx, connection)

	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if f.alone == id {
		f.alone = ""
	}
	if isPolicy {
		f.policies--
	}
	if err == nil && f.breaks != nil && f.breaks(id, n) {
		close(f.connection)
		f.connection = make(chan struct{})
		err = errNoAnswer
	}
	if err == nil && f.faults != nil {
		err = f.faults(id, n)
	}
	if err == nil || FaultOf(err).Unknown && n%2 == 0 { // without an answer: either way
		carryOut()
		f.attempts[at].applied = true
		if f.observe != nil {
			f.observe(f.objects)
		}
	}
	return err
}

func (f *fakeBroker) wait(ctx context.Context, connection chan struct{}) error {
	if f.latency == 0 {
		select {
		case <-connection:
			return errNoAnswer
		default:
			return ctx.Err()
		}
	}
	timer := time.NewTimer(f.latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-connection:
		return errNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeBroker) ids() []string {
	var ids []string
	for _, a := range f.attempts {
		ids = append(ids, a.id)
	}
	return ids
}

// queueChange is a change that creates a queue.
func queueChange(name string, needs ...string) *plan.Change {
	q := &topology.Queue{VirtualHost: "/", Name: name, Type: topology.Classic, Durable: true}
	return &plan.Change{ID: "queue/" + name, Key: q.Key(), Action: plan.Create, After: q, Needs: needs}
}

// policyChange is a change that creates a policy.
func policyChange(name string, needs ...string) *plan.Change {
	p := &topology.Policy{VirtualHost: "/", Name: name, Pattern: "^" + name + "$", ApplyTo: "queues"}
	return &plan.Change{ID: "policy/" + name, Key: p.Key(), Action: plan.Create, After: p, Needs: needs}
}

func remove(name string, needs ...string) *plan.Change {
	c := queueChange(name, needs...)
	c.Action, c.Before, c.After = plan.Delete, c.After, nil
	return c
}

func block(c *plan.Change) *plan.Change {
	c.Blocked = []plan.Block{{Code: "lossy", Text: "40 messages would be lost"}}
	return c
}

func outcomes(list []Outcome) []string {
	var ids []string
	for _, o := range list {
		ids = append(ids, o.Change.ID)
	}
	return ids
}

// recorder is an Observer that writes everything down.
type recorder struct {
	events []string
	last   Progress
}

func (r *recorder) add(event string, c *plan.Change, p Progress) {
	r.events = append(r.events, fmt.Sprintf("%s %s", event, c.ID))
	r.last = p
}

func (r *recorder) Started(c *plan.Change, p Progress) { r.add("started", c, p) }
func (r *recorder) Done(c *plan.Change, p Progress)    { r.add("done", c, p) }

func (r *recorder) Retrying(c *plan.Change, _ error, _ time.Duration, p Progress) {
	r.add("retrying", c, p)
}
func (r *recorder) Failed(c *plan.Change, _ error, p Progress) { r.add("failed", c, p) }

func (r *recorder) count(event string) int {
	n := 0
	for _, e := range r.events {
		if len(e) > len(event) && e[:len(event)+1] == event+" " {
			n++
		}
	}
	return n
}
