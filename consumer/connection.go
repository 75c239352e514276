package consumer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Dialer opens connections: what simulator.Broker.Dialer returns is one.
type Dialer = wire.Dialer

// Connection is one AMQP connection to a virtual host, for any number of consumers. It
// is opened again when it is lost, for as long as it is not closed.
type Connection struct {
	dialer Dialer
	name   string

	mu      sync.Mutex
	current wire.Connection
	dialing chan struct{} // closed when the dial that goes on has ended
	closed  bool
	blocked string // why the broker takes no messages; "": it does
	users   []*Consumer
}

// Dial opens a connection to amqp://USER:PASSWORD@HOST:PORT/VHOST, for OpenOn. Of the
// options only TLS and By matter. The name is shown by the broker beside the connection.
func Dial(ctx context.Context, url, name string, opts ...Option) (*Connection, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	return DialOn(ctx, wire.AMQP{URL: url, TLS: o.tls}, name)
}

// DialOn is Dial with a dialer, such as that of a simulator.
func DialOn(ctx context.Context, d Dialer, name string) (*Connection, error) {
	c := &Connection{dialer: d, name: cmp.Or(name, programName())}
	if _, err := c.dial(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connection. Consumers on it should be stopped before: what they have not
// settled goes back to its queue.
func (c *Connection) Close() error {
	c.mu.Lock()
	current := c.current
	c.current, c.closed = nil, true
	c.mu.Unlock()
	if current == nil {
		return nil
	}
	return current.Close()
}

// open returns the connection that is there, or opens one: one dial goes on at a time.
func (c *Connection) open(ctx context.Context) (wire.Connection, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, amqp091.ErrClosed
		case c.current != nil && !c.current.IsClosed():
			current := c.current
			c.mu.Unlock()
			return current, nil
		case c.dialing == nil:
			done := make(chan struct{})
			c.dialing = done
			c.mu.Unlock()
			conn, err := c.dial(ctx)
			c.mu.Lock()
			c.dialing = nil
			c.mu.Unlock()
			close(done)
			return conn, err
		}
		waiting := c.dialing
		c.mu.Unlock()
		select {
		case <-waiting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Connection) dial(ctx context.Context) (wire.Connection, error) {
	conn, err := c.dialer.Dial(ctx, c.name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, amqp091.ErrClosed
	}
	c.current, c.blocked = conn, ""
	blocked := conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	go func() {
		for b := range blocked {
			c.noteBlocked(conn, b)
		}
	}()
	return conn, nil
}

func (c *Connection) noteBlocked(conn wire.Connection, b amqp091.Blocking) {
	c.mu.Lock()
	if c.current != conn {
		c.mu.Unlock()
		return
	}
	c.blocked = ""
	if b.Active {
		c.blocked = cmp.Or(b.Reason, "no reason given")
	}
	users := append([]*Consumer(nil), c.users...)
	c.mu.Unlock()
	if b.Active {
		for _, u := range users {
			u.report(ReportBlocked, nil, fmt.Errorf("the broker takes no messages: %s", b.Reason))
		}
	}
}

func (c *Connection) add(u *Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users = append(c.users, u)
}

func (c *Connection) remove(u *Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.users {
		if other == u {
			c.users = append(c.users[:i:i], c.users[i+1:]...)
			return
		}
	}
}

func (c *Connection) blockedBy() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked
}

// Backoff between attempts to reconnect: doubled each time, with up to half of it taken
// off at random so that the services of a broker that comes back do not come all at once.
const (
	firstBackoff = 200 * time.Millisecond
	longestWait  = 30 * time.Second
)

func backoff(attempt int) time.Duration {
	d := longestWait
	if attempt < 10 {
		d = min(firstBackoff<<attempt, longestWait)
	}
	return d - time.Duration(rand.Int64N(int64(d)/2))
}
