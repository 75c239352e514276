package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/confirm"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// session is a consumer on one channel, for as long as that lives. A delivery is settled
// on the session it came from or not at all, so that no tag reaches another channel.
type session struct {
	c        *Consumer
	handler  Handler
	ch       wire.Channel
	confirms *confirm.Channel // in the mode Confirmed, where copies are made
	tag      string

	deliveries <-chan amqp091.Delivery
	closed     chan *amqp091.Error
	cancelled  chan string
	fatal      chan error

	workers  sync.WaitGroup
	settling sync.WaitGroup
	tx       sync.Mutex

	stopping  chan struct{} // closed when no more is taken
	lateAfter atomic.Bool   // the time to stop is over: what is left goes back
}

// begin opens a channel and consumes.
func (c *Consumer) begin(ctx context.Context, h Handler) (*session, error) {
	conn, err := c.conn.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	s := &session{c: c, handler: h, ch: ch, fatal: make(chan error, 1), stopping: make(chan struct{})}
	if err := s.prepare(conn); err != nil {
		_ = ch.Close()
		return nil, fmt.Errorf("consume queue %q on %s: %w", c.queue.name, c.conn.link, err)
	}
	return s, nil
}

// numbers make consumer tags differ.
var numbers atomic.Int64

func (s *session) prepare(conn wire.Connection) error {
	o := s.c.options
	if err := s.ch.Qos(o.prefetch, 0, false); err != nil {
		return err
	}
	s.closed = s.ch.NotifyClose(make(chan *amqp091.Error, 1))
	s.cancelled = s.ch.NotifyCancel(make(chan string, 1))
	switch {
	case o.publish == Transactional:
		if err := s.ch.Tx(); err != nil {
			return err
		}
	case s.c.queue.publishes() && o.publish != FireAndForget:
		confirms, err := confirm.New(s.ch)
		if err != nil {
			return err
		}
		s.confirms = confirms
	}
	s.tag = o.tag
	if s.tag == "" {
		s.tag = fmt.Sprintf("%s-%d", o.by, numbers.Add(1))
	}
	var err error
	s.deliveries, err = s.ch.Consume(s.c.queue.name, s.tag, false, false, false, false, o.args)
	return err
}

// run handles deliveries until the channel is lost, whose error it returns; until ctx is
// done (nil); or until a policy ends the consumer (*fatalError).
func (s *session) run(ctx context.Context) error {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	for range s.c.options.concurrency {
		s.workers.Go(func() {
			for raw := range s.deliveries {
				s.handle(work, raw)
			}
		})
	}
	select {
	case <-ctx.Done():
		s.finish(end)
		return nil
	case err := <-s.fatal:
		s.finish(end)
		return &fatalError{err}
	case e := <-s.closed:
		// Handlers that still run are told when they come to settle. They are waited
		// for, so that no more than Concurrency run at a time.
		close(s.stopping)
		s.wait(ctx, end)
		if e == nil {
			return fmt.Errorf("the channel of queue %q was closed", s.c.queue.name)
		}
		return fmt.Errorf("the channel of queue %q was closed: %w", s.c.queue.name, e)
	case <-s.cancelled:
		close(s.stopping)
		s.wait(ctx, end)
		_ = s.ch.Close()
		return fmt.Errorf("the broker cancelled the consumer of queue %q: it was deleted or moved", s.c.queue.name)
	}
}

// wait waits for handlers and settlements; once ctx is done for no longer than
// StopTimeout.
func (s *session) wait(ctx context.Context, end context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		s.settling.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	s.limit(done, end)
}

// finish stops in order: no new deliveries, what is here is handled in the time there is,
// the rest goes back.
func (s *session) finish(end context.CancelCauseFunc) {
	s.c.become(StateStopping, nil)
	close(s.stopping)
	_ = s.ch.Cancel(s.tag, false)
	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		s.settling.Wait()
		close(done)
	}()
	s.limit(done, end)
	_ = s.ch.Close()
}

// grace is how long handlers have to notice that their context ended.
const grace = time.Second

func (s *session) limit(done chan struct{}, end context.CancelCauseFunc) {
	late, given := make(chan struct{}), make(chan struct{})
	timer := s.c.clock.AfterFunc(s.c.options.stopTimeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-late:
	}
	s.lateAfter.Store(true)
	end(errStopped)
	last := s.c.clock.AfterFunc(grace, func() { close(given) })
	defer last.Stop()
	select {
	case <-done:
	case <-given:
	}
}

// handle works on one delivery.
func (s *session) handle(ctx context.Context, raw amqp091.Delivery) {
	switch {
	case s.ch.IsClosed():
		return // it is back in its queue
	case s.lateAfter.Load():
		// Not by closing the channel, which would count as an attempt on RabbitMQ 4.3.
		_ = s.ch.Nack(raw.DeliveryTag, false, true)
		return
	}
	q := s.c.queue
	d := newDelivery(q, raw)
	s.c.count(1)
	if d.facts.badCount != "" {
		s.c.report(ReportBadCount, d, fmt.Errorf("the header %s is no number: it counts as 0", d.facts.badCount))
	}
	if q.overCap(d.facts) {
		s.c.report(ReportOverCap, d, fmt.Errorf("it was delivered %d times of %d; the delivery limit of queue %q is higher or missing", d.facts.spent(), q.maxAttempts, q.name))
		s.settle(d, action{verb: reject})
		return
	}
	ctx, span, begin := s.c.otel.begin(ctx, d)
	o, fatal := s.judge(d, s.call(ctx, d))
	s.c.otel.end(ctx, span, begin, o)
	d.trace = ctx
	if fatal != nil {
		s.c.count(-1)
		select {
		case s.fatal <- fatal:
		default:
		}
		return
	}
	a := q.decide(d.facts, o)
	if limit := s.c.options.max; a.wait > limit {
		s.c.report(ReportDelayRounded, d, fmt.Errorf("a delay of %s without a wait queue is held for %s (MaxHold)", a.wait, limit))
		a.wait = limit
	}
	if a.rounded > 0 {
		s.c.report(ReportDelayRounded, d, fmt.Errorf("the delay %s is not declared: it waits %s", o.delay, a.rounded))
	}
	if a.err != nil {
		s.c.report(ReportNoDeadLetter, d, a.err)
	}
	s.settle(d, a)
}

// call runs the handler.
func (s *session) call(ctx context.Context, d *Delivery) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{kind: outcomePanicked, err: newPanic(s.c.queue.name, p)}
		}
	}()
	return s.handler(ctx, d)
}

// judge replaces what is no decision by what the policies say.
func (s *session) judge(d *Delivery, o Outcome) (Outcome, error) {
	policy, kind, err := s.c.options.onError, ReportFailed, o.err
	switch o.kind {
	case outcomePanicked:
		policy, kind = s.c.options.onPanic, ReportPanic
	case outcomeUndecodable:
		policy, kind = s.c.options.onUndecodable, ReportUndecodable
	case outcomeFailed:
	case "":
		err = errNoOutcome
	default:
		return o, nil
	}
	s.c.report(kind, d, err)
	var panicked *PanicError
	if policy.stop && errors.As(err, &panicked) {
		return o, panicked
	}
	if policy.stop {
		return o, &HandlerError{Queue: s.c.queue.name, Err: err}
	}
	to := policy.outcome
	switch to.kind {
	case "", outcomeFailed, outcomeUndecodable, outcomePanicked:
		to = Retry()
	}
	if to.err == nil {
		to.err = err
	}
	return to, nil
}
