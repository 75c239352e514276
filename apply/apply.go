// Package apply carries a plan out through an interface that it owns. It runs
// independent changes side by side, starts a change only when everything that it
// needs is done, repeats what a fault interrupted, and reports for every change
// whether it was done, failed or was not tried.
//
// It knows plans and objects, but no protocol: internal/broker implements
// Broker. The package serves the command; its Go API may change.
package apply

import (
	"context"
	"errors"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// Broker makes one change to a RabbitMQ broker. Its methods are called
// concurrently, except for policies, which come one at a time. They return when
// the context is done. They may be called again for the same object after a
// fault, so that they have to be idempotent.
type Broker interface {
	// Create declares an object that does not exist, or exists as it is wanted.
	Create(ctx context.Context, o topology.Object) error
	// Update changes an object in place.
	Update(ctx context.Context, o topology.Object) error
	// Delete removes an object. One that is not there is a success, or an error
	// that says NotFound.
	Delete(ctx context.Context, o topology.Object) error
}

// Replacer is a Broker that can replace a queue by another of its name. Replace is
// called again after a fault and continues then.
type Replacer interface {
	Replace(ctx context.Context, c *plan.Change) error
}

// Options say how a plan is carried out. The zero value is usable.
type Options struct {
	// Parallel is how many changes run at once; 0: 16, more than which does not
	// make a broker faster.
	Parallel int
	// SkipBlocked carries out the rest of a plan that has blocked changes.
	SkipBlocked bool
	// Observer is told of the progress; nil: nobody.
	Observer Observer
	// Timeout is how long a change that meets faults is tried again, and how long
	// the run goes on while the broker answers nothing; 0: one minute.
	Timeout time.Duration
	// Grace is how long running changes may go on after the context is cancelled;
	// 0: ten seconds.
	Grace time.Duration
	// Backoff is the wait before a change is tried again.
	Backoff Backoff
	// Fault says what kind of error a method of the Broker returned; nil:
	// FaultOf.
	Fault func(error) Fault
}

// Fault is what kind of error a change met. The zero value is the broker's final
// word on that object.
type Fault struct {
	// Unknown: the request was sent and no answer came, so that it may have been
	// carried out, and may be what broke the connection.
	Unknown bool
	// Transient: trying again later may help, as without a connection, after a
	// 5xx, while a node goes down.
	Transient bool
	// NotFound: the object does not exist.
	NotFound bool
}

// FaultOf asks the errors themselves: the first in the chain that has a method
// Unknown, Transient or NotFound without parameters that returns a bool. An
// attempt that was given up while it ran is unknown.
func FaultOf(err error) Fault {
	f := Fault{Unknown: errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)}
	var (
		unknown   interface{ Unknown() bool }
		transient interface{ Transient() bool }
		notFound  interface{ NotFound() bool }
	)
	if errors.As(err, &unknown) {
		f.Unknown = unknown.Unknown()
	}
	f.Transient = errors.As(err, &transient) && transient.Transient()
	f.NotFound = errors.As(err, &notFound) && notFound.NotFound()
	return f
}

// Backoff is an exponential wait with jitter: of each wait one half is fixed
// and the other random, so that several runs do not return in step.
type Backoff struct {
	First time.Duration // before the first repetition; 0: 100 ms
	Max   time.Duration // the longest wait; 0: 5 s
}

func (o Options) withDefaults() Options {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	if o.Fault == nil {
		o.Fault = FaultOf
	}
	if o.Backoff.First <= 0 {
		o.Backoff.First = 100 * time.Millisecond
	}
	if o.Backoff.Max <= 0 {
		o.Backoff.Max = 5 * time.Second
	}
	return o
}

// Run carries out p. The error is a refusal before anything was tried:
// *PlanError for a plan that contradicts itself, *ReplaceError for one with a
// replacement when b is no Replacer, *BlockedError for one with blocked changes unless
// Options.SkipBlocked. What happened to each change is in the Result, which is
// never nil.
//
// When ctx is cancelled no further change is started, and those that run are
// finished.
func Run(ctx context.Context, p *plan.Plan, b Broker, o Options) (*Result, error) {
	o = o.withDefaults()
	g, err := newGraph(p)
	if err != nil {
		return &Result{}, err
	}
	r := newRun(g, b, o)
	if err := refuse(p, b, o); err != nil {
		return r.result(err), err
	}
	r.loop(ctx)
	return r.result(r.stopped), nil
}

func refuse(p *plan.Plan, b Broker, o Options) error {
	if blocked := p.BlockedChanges(); len(blocked) > 0 && !o.SkipBlocked {
		return &BlockedError{Changes: blocked}
	}
	if _, ok := b.(Replacer); ok {
		return nil
	}
	var replaces []*plan.Change
	for _, c := range p.Changes {
		if c.Action == plan.Replace && len(c.Blocked) == 0 {
			replaces = append(replaces, c)
		}
	}
	if len(replaces) > 0 {
		return &ReplaceError{Changes: replaces}
	}
	return nil
}

// perform makes one attempt at a change.
func perform(ctx context.Context, b Broker, c *plan.Change) error {
	switch c.Action {
	case plan.Create:
		return b.Create(ctx, c.After)
	case plan.Update:
		return b.Update(ctx, c.After)
	case plan.Replace:
		return b.(Replacer).Replace(ctx, c)
	}
	return b.Delete(ctx, c.Before)
}
