package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/link"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Consumer consumes one queue. Open makes one, Run works.
type Consumer struct {
	conn    *Connection
	ownConn bool
	options options
	queue   *queue
	clock   wire.Clock
	version string // of the broker at Open
	unwatch func()
	otel    *instruments

	running atomic.Bool
	stopped chan struct{} // closed by Stop
	stop    sync.Once

	mu       sync.Mutex
	state    State
	since    time.Time
	lastErr  error
	inFlight int
}

// Open connects to amqp://USER:PASSWORD@HOST:PORT/VHOST and checks that everything is
// there that the consumer needs. The error is *CheckError where something is not as
// declared. The context bounds this alone.
func Open(ctx context.Context, url string, opts ...Option) (*Consumer, error) {
	conn, err := Dial(ctx, url, "", opts...)
	if err != nil {
		return nil, err
	}
	return own(ctx, conn, opts)
}

// OpenWith is Open with a dialer, such as that of a simulator.
func OpenWith(ctx context.Context, d Dialer, opts ...Option) (*Consumer, error) {
	conn, err := DialOn(ctx, d, "")
	if err != nil {
		return nil, err
	}
	return own(ctx, conn, opts)
}

func own(ctx context.Context, conn *Connection, opts []Option) (*Consumer, error) {
	c, err := OpenOn(ctx, conn, opts...)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c.ownConn = true
	return c, nil
}

// OpenOn is Open on a connection that several consumers share. It stays open when they
// end.
func OpenOn(ctx context.Context, conn *Connection, opts ...Option) (*Consumer, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	o.by = cmp.Or(o.by, programName())
	live, err := conn.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	version := live.ServerVersion()
	d, problems := o.resolve(version)
	if d != nil {
		if o.declare && len(problems) == 0 {
			problems, err = declare(live, d)
			if err != nil {
				return nil, err
			}
		}
		more, err := check(ctx, live, d)
		if err != nil {
			return nil, err
		}
		problems = append(problems, more...)
		judged := false
		for _, c := range o.checks {
			more, err := c(ctx, o.subject(d, conn.link.VirtualHost()))
			if err != nil {
				return nil, err
			}
			problems, judged = append(problems, more...), true
		}
		if o.spec == nil && d.queue.quorum() && d.queue.maxAttempts > 0 && !judged {
			problems = append(problems, Problem{
				Object: fmt.Sprintf("queue %q", d.queue.name),
				Text: fmt.Sprintf("on a quorum queue the broker counts attempts, and nothing here sets its limit: set delivery-limit %d and the dead-letter route on the queue and leave MaxAttempts and DeadLetterTo out, or add a check over the management API",
					d.queue.maxAttempts-1),
			})
		}
	}
	if len(problems) > 0 {
		return nil, &CheckError{Queue: o.queue, Broker: conn.link.String(), Problems: problems}
	}
	c := &Consumer{
		conn: conn, options: o, queue: d.queue, clock: conn.link.Clock(), version: version,
		stopped: make(chan struct{}), state: StateReady,
	}
	c.since = c.clock.Now()
	c.otel = newInstruments(o.telemetry, d.queue.name)
	c.unwatch = conn.link.Watch(func(reason string) {
		c.report(ReportBlocked, nil, fmt.Errorf("the broker takes no messages: %s", reason))
	})
	c.hints(d)
	return c, nil
}

// hints logs what is legitimate and has surprised people.
func (c *Consumer) hints(d *declared) {
	q, log := c.queue, c.options.log
	if q.dropIsLoss {
		log.Info("rabbitctl consumer: Drop deletes messages: no dead-letter route is known", "queue", q.name)
	}
	if d.spec != nil && len(c.options.checks) == 0 && q.quorum() && q.maxAttempts > 0 {
		log.Warn("rabbitctl consumer: only the existence of the queue was checked, not its delivery limit; the cap is watched here too", "queue", q.name, "max_attempts", q.maxAttempts)
	}
	v, err := catalog.ParseVersion(c.version)
	if err == nil && v.Below(catalog.V(4, 3)) && q.kind == topology.Quorum && q.maxAttempts > 0 && q.maxAttempts <= 5 && c.options.prefetch > 1 {
		log.Warn("rabbitctl consumer: each stop costs every delivery that waits at the consumer one attempt before RabbitMQ 4.3; a prefetch of 1 avoids it",
			"queue", q.name, "prefetch", c.options.prefetch, "max_attempts", q.maxAttempts)
	}
	if c.options.inProcess {
		log.Warn("rabbitctl consumer: what RetryAfter delays waits in this process, a crash loses it (DelayInProcess)", "queue", q.name)
	}
	if c.options.publish == FireAndForget {
		log.Warn("rabbitctl consumer: copies are published without a confirm and may be lost", "queue", q.name)
	}
}

// Run handles deliveries until the context is done or Stop is called, and returns nil
// then; or until a policy says FailFast, and returns *PanicError or *HandlerError. It
// survives everything else: lost connections, a broker that restarts, a queue that is
// deleted and made again. It can be called once. When it stops no new delivery is taken,
// those that the consumer has are handled until StopTimeout is over, and the rest goes
// back to the queue.
func (c *Consumer) Run(ctx context.Context, h Handler) error {
	if h == nil {
		return errors.New("consumer: Run needs a handler")
	}
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("consumer: Run was called before")
	}
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.stopped:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	for attempt := 0; ctx.Err() == nil; {
		s, err := c.begin(ctx, h)
		if err == nil {
			attempt = 0
			c.become(StateRunning, nil)
			err = s.run(ctx)
			var fatal *fatalError
			if errors.As(err, &fatal) {
				c.become(StateStopped, fatal.err)
				return fatal.err
			}
		}
		if ctx.Err() != nil {
			break
		}
		c.become(StateReconnecting, err)
		c.report(ReportConnection, nil, err)
		_ = wire.Sleep(ctx, c.clock, link.Backoff(attempt))
		attempt++
	}
	c.become(StateStopped, nil)
	return nil
}

// Stop makes Run end, see there. It does not wait.
func (c *Consumer) Stop() { c.stop.Do(func() { close(c.stopped) }) }

// Close is Stop for a consumer that may never have run: it gives back what Open took.
func (c *Consumer) Close() error {
	c.Stop()
	if c.running.CompareAndSwap(false, true) {
		return c.close()
	}
	return nil
}

func (c *Consumer) close() error {
	c.unwatch()
	if c.ownConn {
		return c.conn.Close()
	}
	return nil
}

// fatalError ends Run.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
