// Package outbox publishes events that belong to a database transaction: the event is
// stored in the transaction that has the effect, and a relay publishes it afterwards and
// marks it sent when the broker has confirmed it. A crash at any point publishes an event
// twice at worst, with the same message id, and never loses one.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/link"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/publisher"
)

// Event is what is to be published.
type Event struct {
	// ID is the property message_id: what the event is about, such as "refund-7". It
	// must not be empty.
	ID                   string
	Exchange, RoutingKey string
	Body                 []byte
	ContentType          string
	// Headers are text in the store.
	Headers map[string]string
}

// Row is an event in a store.
type Row struct {
	Event
	// Sequence orders rows as they were added.
	Sequence int64
	// Attempts is how often the broker refused it.
	Attempts int
}

// Store keeps events.
type Store interface {
	// Pending returns up to n events that are neither sent nor parked, the oldest first.
	Pending(ctx context.Context, n int) ([]Row, error)
	// MarkSent says that the broker has confirmed these.
	MarkSent(ctx context.Context, sequences []int64) error
	// MarkFailed says that the broker refused one, and why. Parked ones are not pending
	// any more.
	MarkFailed(ctx context.Context, sequence int64, reason string, park bool) error
	// Lease reports whether the holder may publish until the lease ends: at most one
	// holder may at a time. A holder that asks again prolongs its own.
	Lease(ctx context.Context, holder string, length time.Duration) (bool, error)
}

// Publisher is what *publisher.Publisher is.
type Publisher interface {
	PublishAsync(ctx context.Context, exchange, key string, m publisher.Message) (*publisher.Pending, error)
}

// Relay publishes what is in a store. Several relays may run: one publishes at a time,
// the others take over when its lease ends. Only one that stood still for longer than its
// lease can publish at the same time as its successor, which doubles events and loses
// none.
type Relay struct {
	Store     Store
	Publisher Publisher
	// Batch is how many events are on the way at a time; 0: 100. They are published in
	// their order; where one is refused those behind it may arrive before it. 1 keeps
	// the order whatever happens, and is slower.
	Batch int
	// Interval is how long to wait where nothing is pending; 0: 1 s.
	Interval time.Duration
	// ParkAfter is how often an event may be refused, because no queue takes it or a
	// queue is full, before it is put aside (parked) so that the others go on; 0: never,
	// it is tried again for ever and the others wait behind it.
	ParkAfter int
	// LeaseLength is how long a relay that died holds the others up; 0: 15 s.
	LeaseLength time.Duration
	// Logger is used in place of slog.Default.
	Logger *slog.Logger
	// OnParked is told of events that are put aside.
	OnParked func(Row, error)
}

var relays atomic.Int64

// Run publishes until the context is done, and then returns nil. Faults of database and
// broker are waited out.
func (r *Relay) Run(ctx context.Context) error {
	if r.Store == nil || r.Publisher == nil {
		return errors.New("outbox: a relay needs a Store and a Publisher")
	}
	host, _ := os.Hostname()
	holder := host + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(relays.Add(1), 10)
	failures := 0
	for ctx.Err() == nil {
		n, err := r.once(ctx, holder)
		wait := time.Duration(0)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			wait = link.Backoff(failures)
			failures++
			r.log().Warn("rabbitctl outbox: the relay waits", "error", text.Line(err.Error()), "wait", wait)
		case n == 0:
			failures, wait = 0, or(r.Interval, time.Second)
		default:
			failures = 0
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

func (r *Relay) log() *slog.Logger {
	if r.Logger != nil {
		return r.Logger
	}
	return slog.Default()
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// once publishes one batch and returns how many events went out.
func (r *Relay) once(ctx context.Context, holder string) (int, error) {
	length := or(r.LeaseLength, 15*time.Second)
	if mine, err := r.Store.Lease(ctx, holder, length); err != nil {
		return 0, fmt.Errorf("ask for the lease: %w", err)
	} else if !mine {
		return 0, nil
	}
	rows, err := r.Store.Pending(ctx, or(r.Batch, 100))
	if err != nil {
		return 0, fmt.Errorf("read what is pending: %w", err)
	}
	// The lease covers what is begun: what is not confirmed in time is for the next.
	ctx, cancel := context.WithTimeout(ctx, length/2)
	defer cancel()
	var sent []*publisher.Pending
	var failed error
	for _, row := range rows {
		pending, err := r.Publisher.PublishAsync(ctx, row.Exchange, row.RoutingKey, message(row.Event))
		if err != nil {
			failed = err
			if refused(err) {
				failed = r.refused(ctx, row, err)
			}
			break
		}
		sent = append(sent, pending)
	}
	var confirmed []int64
	for i, pending := range sent {
		err := pending.Wait(ctx)
		switch {
		case err == nil:
			confirmed = append(confirmed, rows[i].Sequence)
			continue
		case refused(err):
			err = r.refused(ctx, rows[i], err)
		}
		if failed == nil || err != nil {
			failed = errors.Join(failed, err)
		}
	}
	// Also when the relay is being stopped: what is confirmed is not to be sent again.
	marking, end := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer end()
	if len(confirmed) > 0 {
		if err := r.Store.MarkSent(marking, confirmed); err != nil {
			return 0, errors.Join(failed, fmt.Errorf("mark %d events as sent: %w", len(confirmed), err))
		}
	}
	return len(confirmed), failed
}

// refused reports whether the broker said no to a message, as against giving no answer.
func refused(err error) bool {
	var returned *publisher.Returned
	var nacked *publisher.Nacked
	var missing *publisher.Refused
	var invalid *publisher.Invalid
	return errors.As(err, &returned) || errors.As(err, &nacked) || errors.As(err, &missing) || errors.As(err, &invalid)
}

// refused notes that the broker refused an event; the error is nil when it is parked.
func (r *Relay) refused(ctx context.Context, row Row, why error) error {
	park := r.ParkAfter > 0 && row.Attempts+1 >= r.ParkAfter
	if err := r.Store.MarkFailed(ctx, row.Sequence, why.Error(), park); err != nil {
		return errors.Join(why, err)
	}
	if !park {
		return why
	}
	r.log().Error("rabbitctl outbox: an event is put aside", "id", text.Line(row.ID), "sequence", row.Sequence, "error", text.Line(why.Error()))
	if r.OnParked != nil {
		r.OnParked(row, why)
	}
	return nil
}

func message(e Event) publisher.Message {
	m := publisher.Message{ID: e.ID, Body: e.Body, ContentType: e.ContentType}
	if len(e.Headers) > 0 {
		m.Headers = make(map[string]any, len(e.Headers))
		for k, v := range e.Headers {
			m.Headers[k] = v
		}
	}
	return m
}
