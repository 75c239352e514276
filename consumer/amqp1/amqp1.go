// Package amqp1 consumes quorum queues over AMQP 1.0, for what AMQP 0.9.1 does not have:
// settling a message with annotations that go with it, back to the queue (Requeue) or to
// the dead-letter route (Discard), and choosing whether that counts as an attempt. It
// needs RabbitMQ 4.0 or later. Package consumer does everything else over AMQP 0.9.1.
package amqp1

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/go-amqp"

	"github.com/rabbitctl/rabbitctl/internal/link"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// Message is a message that a handler works on; it must not be changed.
type Message struct {
	*amqp.Message
}

// Body is the message's data; of a message with a value or sequence it is empty.
func (m *Message) Body() []byte { return m.GetData() }

// DeliveryCount is how often the broker counted a return of the message, which is what the
// delivery limit goes by: x-delivery-count. The message's header leaves out what was
// released on RabbitMQ 4.0 (measured).
func (m *Message) DeliveryCount() int {
	if n, ok := m.Annotations["x-delivery-count"].(int64); ok {
		return int(n)
	}
	if m.Header == nil {
		return 0
	}
	return int(m.Header.DeliveryCount)
}

// Handler works on one message. Its context ends when the consumer is stopped and the time
// to stop is over.
type Handler func(ctx context.Context, m *Message) Outcome

// Consumer consumes one queue. Open makes one, Run works.
type Consumer struct {
	url     *url.URL
	vhost   string
	options options
	kind    string // of the queue
	otel    *instruments

	running atomic.Bool
	mu      sync.Mutex
	conn    *amqp.Conn
	health  Health
	work    atomic.Int64
}

// CheckError lists everything that keeps a consumer from starting.
type CheckError struct {
	Queue, Broker string
	Problems      []string
}

func (e *CheckError) Error() string {
	return fmt.Sprintf("the consumer of queue %q on %s must not start: %s", e.Queue, e.Broker, strings.Join(e.Problems, "; "))
}

// PanicError is what a handler panicked with, where OnPanic is FailFast.
type PanicError struct {
	Queue string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("the handler of queue %q panicked: %v", e.Queue, e.Value)
}

// HandlerError is an error that ended the consumer, as OnError says.
type HandlerError struct {
	Queue string
	Err   error
}

func (e *HandlerError) Error() string {
	return fmt.Sprintf("the handler of queue %q: %v", e.Queue, e.Err)
}

// Unwrap returns the handler's error.
func (e *HandlerError) Unwrap() error { return e.Err }

// ErrNotSettled is reported when a handler ended after its link was gone: the broker
// delivers the message again.
var ErrNotSettled = errors.New("the link of the message is gone; the broker delivers it again")

// Open connects to amqp://USER:PASSWORD@HOST:PORT/VHOST and checks that the broker is
// RabbitMQ 4.0 or later and the queue a quorum queue that exists. The error is *CheckError
// where something is not as it must be. The context bounds this alone.
func Open(ctx context.Context, address string, opts ...Option) (*Consumer, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	if o.queue == "" {
		o.complain("no queue is named: use FromSpec or Queue")
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "amqp" && u.Scheme != "amqps" {
		return nil, errors.New("the URL is not amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST") // it may hold a password
	}
	c := &Consumer{url: u, vhost: "/", options: o, otel: newInstruments(o.telemetry, o.queue)}
	// As in AMQP 0.9.1: no path is the virtual host /, an empty one is not.
	if path := strings.TrimPrefix(u.EscapedPath(), "/"); path != "" {
		if c.vhost, err = url.PathUnescape(path); err != nil {
			return nil, fmt.Errorf("the virtual host in the URL: %w", err)
		}
	}
	fails := func(problems []string) error {
		return &CheckError{Queue: o.queue, Broker: c.broker(), Problems: problems}
	}
	if len(o.wrong) > 0 {
		return nil, fails(o.wrong)
	}
	problem, err := c.check(ctx)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		return nil, fails([]string{problem})
	}
	if c.conn, err = c.dial(ctx); err != nil {
		return nil, err
	}
	c.health = Health{Queue: o.queue, State: Ready, Since: time.Now()}
	return c, nil
}

// broker names it without a password.
func (c *Consumer) broker() string {
	return fmt.Sprintf("%s://%s virtual host %q", c.url.Scheme, c.url.Host, c.vhost)
}

func (c *Consumer) dial(ctx context.Context) (*amqp.Conn, error) {
	o := &amqp.ConnOptions{HostName: "vhost:" + c.vhost, ContainerID: c.options.by, Properties: map[string]any{"product": "rabbitctl"}}
	if c.url.Scheme == "amqps" {
		o.TLSConfig = c.options.tls.Clone()
		if o.TLSConfig == nil {
			o.TLSConfig = newTLS()
		}
		if o.TLSConfig.ServerName == "" {
			o.TLSConfig.ServerName = c.url.Hostname() // not the virtual host
		}
	}
	switch password, has := c.url.User.Password(); {
	case c.url.Query().Get("auth_mechanism") == "external":
		o.SASLType = amqp.SASLTypeExternal("")
	case c.url.User.Username() == "anonymous" && !has:
		o.SASLType = amqp.SASLTypeAnonymous()
	case c.url.User == nil:
		o.SASLType = amqp.SASLTypePlain("guest", "guest")
	default:
		o.SASLType = amqp.SASLTypePlain(c.url.User.Username(), password)
	}
	bare := &url.URL{Scheme: c.url.Scheme, Host: c.url.Host}
	conn, err := amqp.Dial(ctx, bare.String(), o)
	if err != nil {
		hint := ""
		if strings.Contains(err.Error(), "unexpected protocol") || strings.Contains(err.Error(), "AMQP") {
			hint = " (RabbitMQ before 4.0 does not speak AMQP 1.0 by itself)"
		}
		return nil, fmt.Errorf("connect to %s over AMQP 1.0%s: %w", c.broker(), hint, err)
	}
	return conn, nil
}

// check says what keeps the consumer from starting.
func (c *Consumer) check(ctx context.Context) (string, error) {
	found, old, err := c.look(ctx)
	if err != nil {
		return "", fmt.Errorf("look at queue %q on %s: %w", c.options.queue, c.broker(), err)
	}
	if old != "" {
		return fmt.Sprintf("the broker is RabbitMQ %s, which has no modified outcome: it needs 4.0 or later; package consumer works on both", text.Line(old)), nil
	}
	c.kind = found.kind
	switch {
	case !found.found:
		return "the queue does not exist; `rabbitctl apply` makes it", nil
	case found.kind == "stream":
		return "the queue is a stream, whose messages are not settled one by one", nil
	case found.kind != "quorum" && !c.options.classic:
		return fmt.Sprintf("the queue is a %s queue, which drops annotations without a word: use a quorum queue, or package consumer, which publishes copies; AllowClassic takes it without Requeue and Discard", text.Line(found.kind)), nil
	}
	return "", nil
}

// Close gives back what Open took, where Run is not called.
func (c *Consumer) Close() error {
	c.mu.Lock()
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	if conn == nil {
		return nil
	}
	return conn.Close()
}

// Run handles messages until the context is done, and returns nil then; or until a policy
// says FailFast, and returns *PanicError or *HandlerError. Lost connections and queues that
// are deleted and made again are waited out. When it stops no new message is taken, those
// that the consumer has are handled until StopTimeout is over, and the rest is released.
// It can be called once.
func (c *Consumer) Run(ctx context.Context, h Handler) error {
	if h == nil {
		return errors.New("amqp1: Run needs a handler")
	}
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("amqp1: Run was called before")
	}
	defer c.Close()
	for attempt := 0; ctx.Err() == nil; {
		s, err := c.begin(ctx, h)
		if err == nil {
			attempt = 0
			c.become(Running, nil)
			err = s.run(ctx)
			var fatal *fatalError
			if errors.As(err, &fatal) {
				c.become(Stopped, fatal.err)
				return fatal.err
			}
		}
		if ctx.Err() != nil {
			break
		}
		c.become(Reconnecting, err)
		c.report(fmt.Errorf("the link to queue %q on %s: %w", c.options.queue, c.broker(), err))
		select {
		case <-time.After(link.Backoff(attempt)):
		case <-ctx.Done():
		}
		attempt++
	}
	c.become(Stopped, nil)
	return nil
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (c *Consumer) report(err error) {
	c.options.log.Warn("rabbitctl amqp1", "queue", c.options.queue, "error", text.Line(err.Error()))
	if c.options.onReport != nil {
		c.options.onReport(err)
	}
}

// State is what a consumer is doing.
type State string

// The states of a consumer.
const (
	Ready        State = "ready"        // Open found everything, Run was not called
	Running      State = "running"      // the broker delivers
	Reconnecting State = "reconnecting" // no messages until the broker or the queue is back
	Stopping     State = "stopping"     // the last messages are handled
	Stopped      State = "stopped"
)

// Health is for probes.
type Health struct {
	Queue    string
	State    State
	Since    time.Time
	Err      error // what was wrong last; nil while running
	InFlight int   // messages that are being handled
}

// OK reports whether the consumer does its work.
func (h Health) OK() bool { return h.State == Running }

// Health says how the consumer is.
func (c *Consumer) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.health
	h.InFlight = int(c.work.Load())
	return h
}

func (c *Consumer) become(s State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.health.State != s {
		c.health.State, c.health.Since = s, time.Now()
	}
	c.health.Err = err
}

func newPanic(queue string, v any) *PanicError { return &PanicError{queue, v, debug.Stack()} }
