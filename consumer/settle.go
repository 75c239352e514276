package consumer

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/confirm"
)

// pause is how long a message stays at the consumer after its copy failed, so that one
// that cannot be published does not come round at full speed.
const pause = time.Second

func newPanic(queue string, value any) *PanicError {
	return &PanicError{Queue: queue, Value: value, Stack: debug.Stack()}
}

// settle carries out an action, at once or when its time has come.
func (s *session) settle(d *Delivery, a action) {
	if a.verb == detach {
		s.detach(d, a)
		return
	}
	if a.wait <= 0 {
		s.carryOut(d, a)
		return
	}
	s.settling.Go(func() {
		s.hold(a.wait)
		s.carryOut(d, a)
	})
}

// detach acknowledges and publishes the copy later: what waits is in this process alone.
func (s *session) detach(d *Delivery, a action) {
	s.c.count(1) // until the copy is there
	s.done(d, ack)
	s.settling.Go(func() {
		defer s.c.count(-1)
		s.hold(a.wait)
		message, _ := a.copy.build(s.c.queue, d.raw, s.c.conn.link.Username(), s.c.options.by, s.c.clock.Now())
		if err := s.publish(a.copy.to, message); err != nil {
			s.c.report(ReportCopyFailed, d, fmt.Errorf("the message is LOST, it waited in the process: %w", err))
		}
	})
}

// hold waits, but not when the consumer stops.
func (s *session) hold(d time.Duration) {
	over := make(chan struct{})
	timer := s.c.clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
	case <-s.stopping:
	}
}

func (s *session) carryOut(d *Delivery, a action) {
	if a.verb != publish {
		s.done(d, a.verb)
		return
	}
	message, foreign := a.copy.build(s.c.queue, d.raw, s.c.conn.link.Username(), s.c.options.by, s.c.clock.Now())
	if foreign {
		s.c.report(ReportForeignUser, d, fmt.Errorf("its user_id is not that of this connection: the copy has none"))
	}
	if s.c.otel.Carries(d.trace) {
		s.c.otel.Inject(d.trace, message.Headers)
	}
	to := a.copy.to
	if to.ownKey {
		_, to.key = d.Origin()
	}
	if s.confirms == nil {
		s.unconfirmed(d, func() error {
			return s.ch.PublishWithContext(context.Background(), to.exchange, to.key, false, false, message)
		})
		return
	}
	pending, err := s.confirms.Publish(context.Background(), to.exchange, to.key, true, message)
	if err != nil {
		s.copyFailed(d, err)
		return
	}
	// The next delivery does not wait for the confirm of this copy.
	s.settling.Go(func() {
		if err := s.await(pending, to); err != nil {
			s.copyFailed(d, err)
			return
		}
		s.done(d, ack)
	})
}

// publish publishes a copy as the mode says and waits until it is safe.
func (s *session) publish(to target, message amqp091.Publishing) error {
	if s.confirms == nil {
		s.tx.Lock()
		defer s.tx.Unlock()
		err := s.ch.PublishWithContext(context.Background(), to.exchange, to.key, false, false, message)
		if err == nil && s.c.options.publish == Transactional {
			err = s.ch.TxCommit()
		}
		return err
	}
	pending, err := s.confirms.Publish(context.Background(), to.exchange, to.key, true, message)
	if err != nil {
		return err
	}
	return s.await(pending, to)
}

// await waits for the confirm of a copy, for so long.
func (s *session) await(pending *confirm.Pending, to target) error {
	late := make(chan struct{})
	timer := s.c.clock.AfterFunc(s.c.options.confirmTimeout, func() { close(late) })
	defer timer.Stop()
	select {
	case <-pending.Done():
		return pending.Err()
	case <-late:
		return &confirm.Unknown{Exchange: to.exchange, Key: to.key, Cause: fmt.Errorf("no confirm for %s", s.c.options.confirmTimeout)}
	}
}

// copyFailed keeps the original: it goes back to its queue after a while.
func (s *session) copyFailed(d *Delivery, err error) {
	s.c.report(ReportCopyFailed, d, err)
	if s.ch.IsClosed() {
		s.c.count(-1)
		return
	}
	s.settling.Go(func() {
		s.hold(pause)
		s.done(d, requeue)
	})
}

// unconfirmed publishes a copy and acknowledges in one go, in a transaction where that is
// the mode.
func (s *session) unconfirmed(d *Delivery, send func() error) {
	defer s.c.count(-1)
	s.tx.Lock()
	defer s.tx.Unlock()
	err := send()
	if err == nil {
		err = s.ch.Ack(d.raw.DeliveryTag, false)
	}
	if err == nil && s.c.options.publish == Transactional {
		err = s.ch.TxCommit()
	}
	if err != nil {
		s.c.report(ReportCopyFailed, d, err)
		_ = s.ch.Close() // nobody knows what was done: the broker gives it back
	}
}

// done settles a delivery.
func (s *session) done(d *Delivery, v verb) {
	defer s.c.count(-1)
	defer s.c.otel.settle(d.trace, v).End()
	s.tx.Lock()
	defer s.tx.Unlock()
	var err error
	switch v {
	case ack:
		err = s.ch.Ack(d.raw.DeliveryTag, false)
	case requeue:
		err = s.ch.Reject(d.raw.DeliveryTag, true)
	case reject:
		err = s.ch.Reject(d.raw.DeliveryTag, false)
	}
	if err == nil && s.c.options.publish == Transactional {
		err = s.ch.TxCommit()
	}
	if err != nil {
		s.c.report(ReportNotSettled, d, fmt.Errorf("%w: %w", ErrNotSettled, err))
	}
}
