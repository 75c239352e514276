// Package confirm publishes on a channel in confirm mode and says of each message
// what became of it: many may be under way at a time.
package confirm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Channel publishes with confirms. It is safe for concurrent use, and the only one
// that may publish on its channel.
type Channel struct {
	ch   wire.Channel
	done chan struct{} // closed when nothing more is heard of the channel

	// sending keeps the order of sequence numbers. It is held while a publish waits
	// for the network, mu never is: confirms must be taken meanwhile.
	sending sync.Mutex

	mu      sync.Mutex
	pending map[uint64]*Pending
	closed  error // why nothing more comes
}

// New puts a channel into confirm mode. It takes over what the channel tells of
// confirms and returns, and ends when the channel closes.
func New(ch wire.Channel) (*Channel, error) {
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("put the channel into confirm mode: %w", err)
	}
	c := &Channel{ch: ch, done: make(chan struct{}), pending: map[uint64]*Pending{}}
	// Without a buffer: the client then hands over the return of a message before it
	// looks at its confirm, as the broker sends them.
	confirms := ch.NotifyPublish(make(chan amqp091.Confirmation))
	returns := ch.NotifyReturn(make(chan amqp091.Return))
	closing := ch.NotifyClose(make(chan *amqp091.Error, 1))
	go c.listen(confirms, returns, closing)
	return c, nil
}

// Done is closed when the channel is closed and every message has its result.
func (c *Channel) Done() <-chan struct{} { return c.done }

// Pending is a message under way.
type Pending struct {
	exchange, key string
	message       amqp091.Publishing
	mandatory     bool
	returned      *Returned

	done chan struct{}
	err  error
}

// Done is closed when the result is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Err waits for the result: nil when the broker has taken the message and, where it
// was mandatory, a queue was there for it; else *Returned, *Nacked or *Unknown.
func (p *Pending) Err() error {
	<-p.done
	return p.err
}

// Wait is Err with an end: when the context is done first the result is *Unknown.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return &Unknown{Exchange: p.exchange, Key: p.key, Cause: context.Cause(ctx)}
	}
}

// ErrNotSent says that a channel was closed before a message was sent on it.
var ErrNotSent = errors.New("the channel is closed")

// Publish sends a message. The message must not be changed until its result is
// known. The error, ErrNotSent or *Unknown, says that the channel is closed or broke; then
// there is no Pending.
func (c *Channel) Publish(ctx context.Context, exchange, key string, mandatory bool, message amqp091.Publishing) (*Pending, error) {
	p := &Pending{exchange: exchange, key: key, message: message, mandatory: mandatory, done: make(chan struct{})}
	c.sending.Lock()
	defer c.sending.Unlock()
	number := c.ch.GetNextPublishSeqNo()
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrNotSent, c.closed)
	}
	c.pending[number] = p // the confirm may be here before the call returns
	c.mu.Unlock()
	if err := c.ch.PublishWithContext(ctx, exchange, key, mandatory, false, message); err != nil {
		c.mu.Lock()
		delete(c.pending, number)
		c.mu.Unlock()
		// The client looks before each frame, and a message without its last frame is none.
		if errors.Is(err, amqp091.ErrClosed) {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return nil, &Unknown{Exchange: exchange, Key: key, Cause: err}
	}
	return p, nil
}

// listen gives each message its result.
func (c *Channel) listen(confirms chan amqp091.Confirmation, returns chan amqp091.Return, closing chan *amqp091.Error) {
	defer close(c.done)
	for confirms != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			c.returned(r)
		case r, ok := <-confirms:
			if !ok {
				confirms = nil
				continue
			}
			c.confirmed(r)
		}
	}
	cause := error(amqp091.ErrClosed)
	if e := <-closing; e != nil {
		cause = e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = cause
	for _, p := range c.pending {
		p.err = &Unknown{Exchange: p.exchange, Key: p.key, Cause: cause}
		close(p.done)
	}
	c.pending = nil
}

func (c *Channel) confirmed(r amqp091.Confirmation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[r.DeliveryTag]
	if p == nil {
		return
	}
	delete(c.pending, r.DeliveryTag)
	switch {
	case p.returned != nil:
		p.err = p.returned
	case !r.Ack:
		p.err = &Nacked{Exchange: p.exchange, Key: p.key}
	}
	close(p.done)
}

// returned finds the message that came back. A return has no number, but its message
// whole: of messages that are alike in everything it does not matter which one it was,
// since whoever sends it again sends the same.
func (c *Channel) returned(r amqp091.Return) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *Pending
	var bestNumber uint64
	score := 0
	for number, p := range c.pending {
		if p.returned != nil || !p.mandatory || p.exchange != r.Exchange || p.key != r.RoutingKey {
			continue
		}
		s := alike(p.message, r)
		if s > score || s == score && best != nil && number < bestNumber {
			best, bestNumber, score = p, number, s
		}
	}
	if best != nil {
		best.returned = &Returned{Code: int(r.ReplyCode), Text: r.ReplyText, Exchange: r.Exchange, Key: r.RoutingKey}
	}
}

// Returned: no queue was there for a mandatory message, so it is nowhere.
type Returned struct {
	Code          int    // 312: no route
	Text          string // as the broker says it, such as NO_ROUTE
	Exchange, Key string
}

func (e *Returned) Error() string {
	return fmt.Sprintf("returned with %d %q: exchange %q has no queue for key %q", e.Code, e.Text, e.Exchange, e.Key)
}

// Nacked: a queue refused the message, because it is full and its overflow is
// reject-publish, or it failed. The broker does not say which queue.
type Nacked struct{ Exchange, Key string }

func (e *Nacked) Error() string {
	return fmt.Sprintf("refused by the broker (basic.nack): a queue behind exchange %q and key %q is full or failed", e.Exchange, e.Key)
}

// Unknown: no answer came. The message may be in its queues or not; whoever sends it
// again should do so with the same message id.
type Unknown struct {
	Exchange, Key string
	// Cause is what ended the wait: *amqp091.Error, amqp091.ErrClosed, a network
	// error, or that of a context.
	Cause error
}

func (e *Unknown) Error() string {
	return fmt.Sprintf("not known to have arrived at exchange %q with key %q: %v", e.Exchange, e.Key, e.Cause)
}

// Unwrap returns the cause.
func (e *Unknown) Unwrap() error { return e.Cause }

// IsUnknown reports whether an error says that a message may have arrived or not.
func IsUnknown(err error) bool {
	var u *Unknown
	return errors.As(err, &u)
}
