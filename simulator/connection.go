package simulator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// username is the user that every connection logs in as.
const username = "guest"

// Dialer connects clients to one virtual host of the broker.
type Dialer struct {
	broker *Broker
	vhost  string
}

// Dialer is what consumer and publisher take in place of a URL.
func (b *Broker) Dialer(vhost string) Dialer { return Dialer{b, vhost} }

var _ wire.Dialer = Dialer{}

// errDown is what a client sees of a node that is down.
var errDown = errors.New("connection refused: the simulated broker is stopped")

// Dial implements the consumer's wire. It fails while the broker is stopped and when
// there is no such virtual host.
func (d Dialer) Dial(ctx context.Context, name string) (wire.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	b := d.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.activity++
	if b.down {
		return nil, fmt.Errorf("connect to %s: %w", d, errDown)
	}
	h := b.hosts[d.vhost]
	if h == nil {
		return nil, fmt.Errorf("connect to %s: %w", d, exception(amqp091.NotAllowed, "NOT_ALLOWED - vhost %s not found", d.vhost))
	}
	b.ids++
	c := &connection{broker: b, host: h, name: name, id: b.ids, channels: map[*channel]bool{}, events: newMailbox()}
	b.open[c] = true
	return c, nil
}

// Clock implements the consumer's wire.
func (d Dialer) Clock() wire.Clock { return d.broker.time }

// Username implements the consumer's wire.
func (d Dialer) Username() string { return username }

// VirtualHost implements the consumer's wire.
func (d Dialer) VirtualHost() string { return d.vhost }

// String implements the consumer's wire.
func (d Dialer) String() string { return fmt.Sprintf("the simulated broker, virtual host %q", d.vhost) }

// connection is a client's connection.
type connection struct {
	broker   *Broker
	host     *host
	name     string
	id       int
	channels map[*channel]bool
	closed   bool
	numbers  int // of channels

	events  *mailbox
	closing []chan *amqp091.Error
	blocked []chan amqp091.Blocking
}

func (c *connection) Channel() (wire.Channel, error) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.activity++
	if c.closed {
		return nil, amqp091.ErrClosed
	}
	c.numbers++
	ch := &channel{connection: c, number: c.numbers, unacked: map[uint64]*delivery{}, consumers: map[string]*consumer{}, events: newMailbox()}
	c.channels[ch] = true
	return ch, nil
}

func (c *connection) ServerVersion() string { return c.broker.text }

func (c *connection) NotifyClose(r chan *amqp091.Error) chan *amqp091.Error {
	return receive(c.broker, &c.closed, &c.closing, r)
}

func (c *connection) NotifyBlocked(r chan amqp091.Blocking) chan amqp091.Blocking {
	return receive(c.broker, &c.closed, &c.blocked, r)
}

// receive registers a receiver of notifications; of what is closed it is closed.
func receive[T any](b *Broker, closed *bool, list *[]chan T, receiver chan T) chan T {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *closed {
		close(receiver)
		return receiver
	}
	*list = append(*list, receiver)
	return receiver
}

// tell gives receivers the last that they get, why it ended, where that is not nil.
func tell(receivers []chan *amqp091.Error, why *amqp091.Error) {
	for _, r := range receivers {
		if why != nil {
			r <- why
		}
	}
	closeEach(receivers)
}

func closeEach[T any](receivers []chan T) {
	for _, r := range receivers {
		close(r)
	}
}

func (c *connection) IsClosed() bool {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.closed
}

func (c *connection) Close() error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.broker.activity++
	if c.closed {
		return amqp091.ErrClosed
	}
	c.shut(nil)
	return nil
}

// closeReason is why the broker closes connections.
type closeReason struct {
	code int
	text string
	lost bool // the network, not the broker
}

func (b *Broker) closeAll(why *closeReason) {
	b.activity++
	for c := range b.open {
		c.shut(&amqp091.Error{Code: why.code, Reason: why.text, Server: !why.lost, Recover: false})
	}
}

// shut ends the connection: its exclusive queues go, and what its channels had comes
// back. The error is nil when the client closed it.
func (c *connection) shut(why *amqp091.Error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.broker.open, c)
	for _, ch := range c.inOrder() {
		ch.shut(why)
	}
	for _, q := range c.host.inOrder() {
		if q.owner == c {
			c.host.remove(q)
		}
	}
	closing, blocked := c.closing, c.blocked
	c.events.put(func() {
		tell(closing, why)
		closeEach(blocked)
	})
	c.events.end()
}

func (c *connection) inOrder() []*channel {
	all := make([]*channel, c.numbers)
	for ch := range c.channels {
		all[ch.number-1] = ch
	}
	out := all[:0]
	for _, ch := range all {
		if ch != nil {
			out = append(out, ch)
		}
	}
	return out
}

// Block tells publishers that the broker takes nothing for the moment, as a memory
// or disk alarm does, until Unblock. What they publish meanwhile is taken up then.
func (b *Broker) Block(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocking = true
	b.notifyBlocked(amqp091.Blocking{Active: true, Reason: reason})
}

// Unblock ends Block.
func (b *Broker) Unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blocking = false
	b.notifyBlocked(amqp091.Blocking{})
	for c := range b.open {
		for _, ch := range c.inOrder() {
			held := ch.held
			ch.held = nil
			for _, f := range held {
				f()
			}
		}
	}
}

func (b *Broker) notifyBlocked(now amqp091.Blocking) {
	b.activity++
	for c := range b.open {
		blocked := c.blocked
		c.events.put(func() {
			for _, r := range blocked {
				r <- now
			}
		})
	}
}

// mailbox runs functions one after the other in a goroutine of its own, so that the
// broker never waits for a client that does not read.
type mailbox struct {
	mu      sync.Mutex
	queue   []func()
	running bool
	ended   bool
}

func newMailbox() *mailbox { return &mailbox{} }

// put adds a function. The goroutine lives while there is something to do.
func (m *mailbox) put(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.queue = append(m.queue, f)
	if !m.running {
		m.running = true
		go m.work()
	}
}

// end takes no more.
func (m *mailbox) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

func (m *mailbox) work() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.running = false
			m.mu.Unlock()
			return
		}
		f := m.queue[0]
		m.queue = m.queue[1:]
		m.mu.Unlock()
		f()
	}
}
