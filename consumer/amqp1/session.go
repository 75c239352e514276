package amqp1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/Azure/go-amqp"
)

func newTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

// session is a consumer on one link, for as long as that lives.
type session struct {
	c        *Consumer
	handler  Handler
	conn     *amqp.Conn
	receiver *amqp.Receiver
	queue    chan *amqp.Message
	fatal    chan error
	workers  sync.WaitGroup
	late     chan struct{} // closed when the time to stop is over

	mu   sync.Mutex
	left []*amqp.Message // unsettled when a policy stopped the consumer
}

// settling bounds how long the settlement of one message may wait for the network.
const settling = 10 * time.Second

func (c *Consumer) begin(ctx context.Context, h Handler) (*session, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		select {
		case <-conn.Done():
			conn = nil
		default:
		}
	}
	if conn == nil {
		var err error
		if conn, err = c.dial(ctx); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.conn = conn
		c.mu.Unlock()
	}
	s := &session{c: c, handler: h, conn: conn, queue: make(chan *amqp.Message), fatal: make(chan error, 1), late: make(chan struct{})}
	as, err := conn.NewSession(ctx, nil)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// Credit is given by hand, so that it can be taken back when the consumer stops.
	s.receiver, err = as.NewReceiver(ctx, "/queues/"+url.PathEscape(c.options.queue), &amqp.ReceiverOptions{Credit: -1})
	if err == nil {
		err = s.receiver.IssueCredit(uint32(c.options.prefetch))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// run handles messages until the link is lost, whose error it returns; until ctx is done
// (nil); or until a policy ends the consumer (*fatalError).
func (s *session) run(ctx context.Context) error {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	for range s.c.options.workers {
		s.workers.Go(func() {
			for m := range s.queue {
				s.handle(work, m)
			}
		})
	}
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan error, 1)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for {
			m, err := s.receiver.Receive(receiving, nil)
			if err != nil {
				lost <- err
				return
			}
			select {
			case s.queue <- m:
			case <-receiving.Done():
				s.release(m)
			}
		}
	}()
	select {
	case <-ctx.Done():
		stop()
		<-fed
		return s.finish(end, nil)
	case err := <-s.fatal:
		stop()
		<-fed
		return s.finish(end, &fatalError{err})
	case err := <-lost:
		if ctx.Err() != nil {
			return s.finish(end, nil)
		}
		close(s.queue)
		s.workers.Wait()
		_ = s.conn.Close()
		return err
	}
}

// finish takes the credit back, handles what is here in the time there is and releases the
// rest.
func (s *session) finish(end func(), result error) error {
	s.c.become(Stopping, nil)
	timer := time.AfterFunc(s.c.options.stop, func() {
		close(s.late)
		end()
	})
	defer timer.Stop()
	draining, stop := context.WithTimeout(context.Background(), settling)
	_ = s.receiver.DrainCredit(draining, nil)
	stop()
	for m := s.receiver.Prefetched(); m != nil; m = s.receiver.Prefetched() {
		select {
		case s.queue <- m:
		case <-s.late:
			s.release(m)
		}
	}
	close(s.queue)
	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.late:
		select {
		case <-done:
		case <-time.After(time.Second): // for handlers to notice
		}
	}
	// Not before now: they would be delivered here again.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.left {
		s.release(m)
	}
	_ = s.conn.Close()
	return result
}

func (s *session) release(m *amqp.Message) {
	ctx, cancel := context.WithTimeout(context.Background(), settling)
	defer cancel()
	_ = s.receiver.ReleaseMessage(ctx, m)
}

func (s *session) handle(ctx context.Context, m *amqp.Message) {
	c := s.c
	c.work.Add(1)
	defer c.work.Add(-1)
	o := c.otel.process(ctx, m, func(ctx context.Context) Outcome { return s.call(ctx, m) })
	err := s.problem(o)
	if err != nil {
		c.report(fmt.Errorf("a message of queue %q: %w", c.options.queue, err))
		policy := c.options.onError
		var panicked *PanicError
		if errors.As(err, &panicked) {
			policy = c.options.onPanic
		} else {
			err = &HandlerError{c.options.queue, err}
		}
		if policy.stop {
			s.mu.Lock()
			s.left = append(s.left, m)
			s.mu.Unlock()
			select {
			case s.fatal <- err:
			default:
			}
			return
		}
		if o = policy.outcome; s.problem(o) != nil {
			o = Reject(err)
			if c.kind != "quorum" {
				o = Release()
			}
		}
	}
	settle, cancel := context.WithTimeout(context.Background(), settling)
	defer cancel()
	if err := s.settle(settle, m, o); err != nil {
		c.report(fmt.Errorf("%w: %w", ErrNotSettled, err))
		return
	}
	if err := s.receiver.IssueCredit(1); err != nil {
		return // the link is gone, as Receive finds out
	}
}

func (s *session) call(ctx context.Context, m *amqp.Message) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{kind: failed, err: newPanic(s.c.options.queue, p)}
		}
	}()
	return s.handler(ctx, &Message{m})
}

// problem says why an outcome cannot be carried out.
func (s *session) problem(o Outcome) error {
	switch {
	case o.kind == "":
		return errors.New("the handler returned no outcome")
	case o.kind == failed && o.err == nil:
		return errors.New("the handler failed")
	case o.kind == failed:
		return o.err
	case o.annotated() && s.c.kind != "quorum":
		return fmt.Errorf("%s on a %s queue would lose its annotations", o.kind, s.c.kind)
	}
	return o.check()
}

func (s *session) settle(ctx context.Context, m *amqp.Message, o Outcome) error {
	switch o.kind {
	case accept:
		return s.receiver.AcceptMessage(ctx, m)
	case refuse:
		return s.receiver.RejectMessage(ctx, m, nil)
	case release:
		return s.receiver.ReleaseMessage(ctx, m)
	}
	options := s.c.options
	return s.receiver.ModifyMessage(ctx, m, o.modification(m, options.by, options.history, options.category, time.Now()))
}
