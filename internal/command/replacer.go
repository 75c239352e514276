package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/replace"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// replacer replaces queues over a broker and tells on w what became of each.
type replacer struct {
	apply.Broker
	writer broker.Writer
	client *broker.Client
	plan   *plan.Plan
	wait   time.Duration // for consumers to leave
	tell   func(format string, args ...any)
	// reached is told of each step; tests stop runs by it.
	reached func(replace.Step) error
}

// newReplacer tells on standard error how each replacement goes.
func newReplacer(j *applyJob, b apply.Broker, w broker.Writer, p *plan.Plan, progress *progress) *replacer {
	var mu sync.Mutex // several may run at once
	return &replacer{
		Broker: b, writer: w, client: j.client, plan: p, wait: j.c.Duration("wait-consumers"), reached: j.reached,
		tell: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			progress.finish()
			fmt.Fprintf(j.s.Err, format+"\n", args...)
		},
	}
}

// Replace carries out a change that replaces a queue. The policies that wait for it
// fit only the new queue and are put with it.
func (r *replacer) Replace(ctx context.Context, c *plan.Change) error {
	want, ok := c.After.(*topology.Queue)
	if !ok {
		return fmt.Errorf("%s cannot be replaced: only queues can", c.Key)
	}
	if via, why := r.writer.Via(); via != broker.ViaAMQP {
		return errors.Join(fmt.Errorf("%s is not replaced: that needs AMQP", c.Key), why)
	}
	job := replace.Job{Queue: want, WaitConsumers: r.wait}
	for _, other := range r.plan.Changes {
		if p, ok := other.After.(*topology.Policy); ok && len(other.Blocked) == 0 && slices.Contains(other.Needs, c.ID) {
			job.Policies = append(job.Policies, p)
		}
	}
	name := text.Line(c.Key.Address())
	job.Reached = func(s replace.Step) error {
		r.tell("%s: %s", name, string(s))
		if r.reached != nil {
			return r.reached(s)
		}
		return nil
	}
	report, err := replace.Run(ctx, r, job)
	if err != nil {
		return err
	}
	r.tell("%s: replaced%s; %s moved to the holding queue and %d back, %s; at most %s there twice%s", name,
		map[bool]string{true: ", continuing what was begun", false: ""}[report.Resumed],
		text.Plural(int(report.Out), "message", "messages"), report.Back, text.Plural(report.Bindings, "binding", "bindings"),
		text.Plural(int(report.Twice), "message that came meanwhile is", "messages that came meanwhile are"), gapText(report.Gap))
	return nil
}

func gapText(gap time.Duration) string {
	if gap == 0 {
		return ""
	}
	return fmt.Sprintf("; for at most %s there was no queue of the name", gap.Round(10*time.Microsecond))
}

// Read implements replace.Broker.
func (r *replacer) Read(ctx context.Context, vhost string) (*topology.VirtualHost, catalog.Version, error) {
	state, err := r.client.Read(ctx, []string{vhost}, broker.ReadOptions{})
	if err != nil {
		return nil, catalog.Version{}, err
	}
	return state.Topology.VirtualHost(vhost), state.Version, nil
}

// Count implements replace.Broker.
func (r *replacer) Count(ctx context.Context, q *topology.Queue) (replace.Counts, error) {
	found, err := r.client.Counts(ctx, q.VirtualHost, []string{q.Name})
	if err != nil {
		return replace.Counts{}, err
	}
	return replace.Counts{Ready: found[q.Name].Messages, Consumers: found[q.Name].Consumers}, nil
}

// DeadLettering implements replace.Broker.
func (r *replacer) DeadLettering(ctx context.Context, q *topology.Queue) (int64, error) {
	waiting, err := r.client.DeadLettering(ctx, q.VirtualHost)
	return waiting[q.Name], err
}

// Consumers implements replace.Broker.
func (r *replacer) Consumers(ctx context.Context, q *topology.Queue) ([]string, error) {
	return r.client.QueueConsumers(ctx, q.VirtualHost, q.Name)
}

// Put implements replace.Broker.
func (r *replacer) Put(ctx context.Context, o topology.Object) error { return r.Update(ctx, o) }

// DeleteEmpty implements replace.Broker.
func (r *replacer) DeleteEmpty(ctx context.Context, q *topology.Queue) error {
	return r.writer.DeleteEmpty(ctx, q)
}

// Move implements replace.Broker.
func (r *replacer) Move(ctx context.Context, from *topology.Queue, exchange string, limit int64) (int64, error) {
	return r.client.Move(ctx, from, exchange, limit)
}

// Prove implements replace.Broker.
func (r *replacer) Prove(ctx context.Context, q *topology.Queue) (string, error) {
	found, err := r.client.ProveEmpty(ctx, []*topology.Queue{q})
	if err != nil {
		return "", err
	}
	e, there := found[q.Key()]
	switch {
	case !there:
		return "it is not there any more", nil
	case e.Empty:
		return "", nil
	}
	return e.Why, nil
}

// Swap implements replace.Broker.
func (r *replacer) Swap(ctx context.Context, old, new *topology.Queue) (time.Duration, string, error) {
	return r.client.Swap(ctx, old, new)
}
