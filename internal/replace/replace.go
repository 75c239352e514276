// Package replace replaces a live queue by another of its name without losing a
// message. The messages are kept in a holding queue meanwhile, which is bound like the
// queue before that is unbound, and until the new one is bound.
//
// Which step a run has reached is told by what is on the broker, so that nothing has
// to be recorded and a run that was killed is continued by the next:
//
//	the queue differs from the one that is wanted   it is emptied into the holding queue
//	there is none, and a holding queue              the new one is declared
//	it is as wanted, and there is a holding queue   the holding queue is emptied into it
//
// Each step may be done again. The package speaks no protocol: internal/broker
// implements Broker.
package replace

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Counts is what is ready in a queue and who consumes. Nil: unknown.
type Counts struct {
	Ready, Consumers *int64
}

// Broker is what a replacement needs. Every method may be called again after a fault.
type Broker interface {
	// Read reads a virtual host.
	Read(ctx context.Context, vhost string) (*topology.VirtualHost, catalog.Version, error)
	// Count asks the queue itself.
	Count(ctx context.Context, q *topology.Queue) (Counts, error)
	// DeadLettering is how many messages of a queue wait for the confirm of an
	// at-least-once dead letter; it may be late.
	DeadLettering(ctx context.Context, q *topology.Queue) (int64, error)
	// Consumers describes who consumes from a queue, safe to show; it may be late.
	Consumers(ctx context.Context, q *topology.Queue) ([]string, error)
	// Create declares or binds an object that may be there already.
	Create(ctx context.Context, o topology.Object) error
	// Put creates or changes a policy.
	Put(ctx context.Context, o topology.Object) error
	// Delete removes an exchange or a binding that may be gone already.
	Delete(ctx context.Context, o topology.Object) error
	// DeleteEmpty removes a queue unless it has something ready or a consumer.
	DeleteEmpty(ctx context.Context, q *topology.Queue) error
	// Move publishes what is in a queue to an exchange, each message acknowledged when
	// its copy is confirmed, until nothing is ready or limit (0: none) are moved.
	Move(ctx context.Context, from *topology.Queue, exchange string, limit int64) (int64, error)
	// Prove says why a queue is not proved to be empty and unused; "": it is.
	Prove(ctx context.Context, q *topology.Queue) (why string, err error)
	// Swap deletes the old queue and declares the new one at once, or says why the old
	// one is not empty any more. gap is how long there was none at most.
	Swap(ctx context.Context, old, new *topology.Queue) (gap time.Duration, why string, err error)
}

// Step names a step, as it is shown.
type Step string

// The steps in their order.
const (
	Tried     Step = "the broker accepts the new queue"
	Held      Step = "the holding queue is there"
	HeldBound Step = "the holding queue is bound like the queue"
	Unbound   Step = "the queue is unbound"
	Emptied   Step = "the queue is proved empty"
	Policies  Step = "the policies of the new queue are put"
	Swapped   Step = "the new queue is declared"
	Returned  Step = "the messages are back"
	Bound     Step = "the new queue is bound"
	HeldFree  Step = "the holding queue is unbound"
	HeldEmpty Step = "the holding queue is proved empty"
	Cleared   Step = "the exchanges of the replacement are deleted"
	Done      Step = "the holding queue is deleted"
)

// Steps are all steps in their order.
var Steps = []Step{Tried, Held, HeldBound, Unbound, Emptied, Policies, Swapped, Returned, Bound, HeldFree, HeldEmpty, Cleared, Done}

// Job is one replacement.
type Job struct {
	Queue *topology.Queue // the queue that is wanted
	// Policies are put right before the old queue is deleted: those that fit only the new one.
	Policies []topology.Object
	// WaitConsumers is how long to wait until nobody consumes from the old queue.
	WaitConsumers time.Duration
	// Reached is told of each step that is done; an error ends the run. Nil: nobody.
	Reached func(Step) error
}

// Report is what a replacement did. A run that continued another counts its own part.
type Report struct {
	// Resumed says that another run had begun.
	Resumed bool
	// Out and Back are the messages that were moved to the holding queue and back.
	Out, Back int64
	// Twice is at most how many messages are there twice: those that were published
	// while both queues were bound.
	Twice int64
	// Bindings are those that the new queue got.
	Bindings int
	// Gap is at most how long there was no queue of the name; 0: another run made it.
	Gap time.Duration
}

// Refusal says why a queue cannot be replaced now. Nothing was lost: what is in the
// holding queue stays there, and the same command continues.
type Refusal struct {
	Queue  topology.Key
	Why    string
	Remedy string
	Begun  bool // a holding queue is there
}

// Error implements error.
func (e *Refusal) Error() string {
	s := fmt.Sprintf("%s is not replaced: %s; %s", e.Queue, e.Why, e.Remedy)
	if e.Begun {
		s += fmt.Sprintf(". What was published or moved meanwhile is in queue %q, nothing is lost; the same command continues", Holding(e.Queue.Name))
	}
	return s
}

// Holding is the name of the holding queue of a queue, and of the exchange that
// messages are moved to it by.
func Holding(queue string) string { return topology.HoldPrefix + queue }

// Returning is the name of the exchange that messages come back by.
func Returning(queue string) string { return "rabbitctl.return:" + queue }

// trial is the name of a queue that is declared to see whether the broker accepts
// the arguments.
func trial(queue string) string { return "rabbitctl.trial:" + queue }

// rounds is how often a queue is emptied before the run gives up: messages come to it
// that no unbinding stops.
const rounds = 5

// Run replaces a queue, or continues what another run began.
func Run(ctx context.Context, b Broker, j Job) (Report, error) {
	r := &run{Broker: b, job: j, want: j.Queue}
	err := r.run(ctx)
	return r.report, err
}

type run struct {
	Broker
	job    Job
	report Report

	want, have, hold *topology.Queue // have and hold are nil when they are not there
	host             *topology.VirtualHost
	version          catalog.Version
}

func (r *run) run(ctx context.Context) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	r.report.Resumed = r.hold != nil
	switch {
	case r.have == nil && r.hold == nil:
		return r.refuse("it is not there any more", "plan again")
	case r.have == nil:
		if err := r.declare(ctx); err != nil {
			return err
		}
	case !same(r.have, r.want):
		if err := r.out(ctx); err != nil {
			return err
		}
	case r.hold == nil:
		return nil // done
	}
	return r.back(ctx)
}

// read finds out what is there.
func (r *run) read(ctx context.Context) error {
	host, v, err := r.Read(ctx, r.want.VirtualHost)
	if err != nil {
		return err
	}
	if host == nil {
		return r.refuse("its virtual host is not there", "plan again")
	}
	r.host, r.version = host, v
	r.have, r.hold = host.Queue(r.want.Name), host.Queue(Holding(r.want.Name))
	if r.want.Type == "" {
		typed := *r.want
		typed.Type = host.DefaultQueueType
		r.want = &typed
	}
	return nil
}

// same reports whether a live queue is the one that is wanted.
func same(have, want *topology.Queue) bool {
	return slices.EqualFunc(have.Attributes(), want.Attributes(), func(a, b topology.Attribute) bool {
		return a.Name == b.Name && topology.Equal(a.Value, b.Value)
	})
}

func (r *run) reached(s Step) error {
	if r.job.Reached == nil {
		return nil
	}
	return r.job.Reached(s)
}

func (r *run) refuse(why, remedy string) error {
	return &Refusal{Queue: r.want.Key(), Why: why, Remedy: remedy, Begun: r.hold != nil}
}

// bindings lists the live bindings to a queue, without those of the exchanges by
// which messages are moved.
func (r *run) bindings(queue string) []*topology.Binding {
	var list []*topology.Binding
	for _, b := range r.host.Bindings {
		if b.DestinationType == topology.ToQueue && b.Destination == queue &&
			b.Source != Holding(r.want.Name) && b.Source != Returning(r.want.Name) {
			list = append(list, b)
		}
	}
	return list
}

// leading is a binding with another destination.
func leading(b *topology.Binding, queue string) *topology.Binding {
	other := *b
	other.Destination, other.PropertiesKey = queue, ""
	return &other
}

// way makes an exchange that leads every message to one queue, whatever its routing
// key, and whatever queues its header CC names.
func (r *run) way(ctx context.Context, exchange, queue string) error {
	vhost := r.want.VirtualHost
	err := r.Create(ctx, &topology.Exchange{VirtualHost: vhost, Name: exchange, Type: "fanout", Durable: true})
	if err != nil {
		return err
	}
	return r.Create(ctx, &topology.Binding{VirtualHost: vhost, Source: exchange, Destination: queue, DestinationType: topology.ToQueue})
}
