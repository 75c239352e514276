// Package publisher publishes messages so that the caller knows what became of each:
// confirmed by the broker, mandatory and persistent unless it says otherwise. Results are
// typed errors: *Returned, *Nacked, *Refused and *Invalid mean that the message is not
// where it should be, *NotSent that nothing was sent, *Unknown that it may have arrived.
// What to do then is the caller's to decide: nothing is published twice by this package.
//
// Lost connections are opened again. See publisher/outbox for events that belong to a
// database transaction.
package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/confirm"
	"github.com/rabbitctl/rabbitctl/internal/link"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Dialer opens connections: what simulator.Broker.Dialer returns is one.
type Dialer = wire.Dialer

// Publisher publishes to one virtual host. It is safe for concurrent use.
type Publisher struct {
	link    *link.Link
	options options
	clock   wire.Clock
	room    chan struct{} // one for each message that waits for its confirm
	done    chan struct{} // closed by Close
	unwatch func()
	otel    *instruments

	mu       sync.Mutex
	channels map[string]*confirm.Channel // by exchange
	lastErr  error
	closed   bool
}

// Open connects to amqp://USER:PASSWORD@HOST:PORT/VHOST. The context bounds this alone.
func Open(ctx context.Context, url string, opts ...Option) (*Publisher, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	return open(ctx, wire.AMQP{URL: url, TLS: o.tls}, o)
}

// OpenWith is Open with a dialer, such as that of a simulator.
func OpenWith(ctx context.Context, d Dialer, opts ...Option) (*Publisher, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	return open(ctx, d, o)
}

func open(ctx context.Context, d Dialer, o options) (*Publisher, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p := &Publisher{
		link: link.New(d, o.name), options: o, clock: d.Clock(), room: make(chan struct{}, o.outstanding), done: make(chan struct{}),
		channels: map[string]*confirm.Channel{}, otel: newInstruments(o.telemetry),
	}
	if _, err := p.link.Open(ctx); err != nil {
		return nil, err
	}
	p.unwatch = p.link.Watch(func(reason string) {
		o.log.Warn("rabbitctl publisher: the broker takes no messages", "broker", p.link.String(), "reason", text.Line(reason))
	})
	return p, nil
}

// Close waits until every message that is under way has its result, or the context is
// done, and closes the connection.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return nil
	}
	close(p.done)
	var late error
	for range cap(p.room) {
		select {
		case p.room <- struct{}{}:
			continue
		default:
		}
		select {
		case p.room <- struct{}{}:
			continue
		case <-ctx.Done():
			late = fmt.Errorf("close the publisher: messages without a confirm are left: %w", context.Cause(ctx))
		}
		break
	}
	p.unwatch()
	return errors.Join(late, p.link.Close())
}

var errClosed = errors.New("the publisher is closed")

// Publish publishes a message and waits for its result. The context and ConfirmTimeout
// bound the wait.
func (p *Publisher) Publish(ctx context.Context, exchange, key string, m Message) error {
	pending, err := p.PublishAsync(ctx, exchange, key, m)
	if err != nil {
		return err
	}
	return pending.Wait(ctx)
}

// Pending is a message under way.
type Pending struct {
	target Target
	done   chan struct{}
	err    error
}

// Done is closed when the result is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the result; *Unknown when the context is done first.
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
		return &Unknown{p.target, context.Cause(ctx)}
	}
}

// PublishAsync publishes a message without waiting for its confirm; it waits for a
// connection and for room among the outstanding messages. The error is *Invalid or
// *NotSent.
func (p *Publisher) PublishAsync(ctx context.Context, exchange, key string, m Message) (*Pending, error) {
	at := p.at(exchange, key)
	properties, err := p.properties(exchange, key, m)
	if err != nil {
		return nil, err
	}
	span := p.otel.start(ctx, at, &properties)
	pending, err := p.begin(ctx, at, !m.Optional, properties, span)
	if err != nil {
		span.end(err)
	}
	return pending, err
}

// begin is PublishAsync within the span of the message.
func (p *Publisher) begin(ctx context.Context, at Target, mandatory bool, properties amqp091.Publishing, span *publishing) (*Pending, error) {
	late, cancel := context.WithCancelCause(ctx)
	timer := p.clock.AfterFunc(p.options.timeout, func() { cancel(fmt.Errorf("no confirm for %s", p.options.timeout)) })
	end := func() {
		timer.Stop()
		cancel(nil)
	}
	select {
	case p.room <- struct{}{}:
	case <-p.done:
		end()
		return nil, &NotSent{at, errClosed}
	case <-late.Done():
		end()
		return nil, &NotSent{at, context.Cause(late)}
	}
	sent, err := p.send(late, at, mandatory, properties)
	end()
	if err != nil {
		<-p.room
		return nil, err
	}
	pending := &Pending{target: at, done: make(chan struct{})}
	// The end of the caller's context ends its own wait alone: until the confirm or the
	// timeout the message is under way.
	bound := context.WithoutCancel(ctx)
	go func() {
		defer close(pending.done)
		defer func() { <-p.room }()
		pending.err = p.result(bound, sent, at)
		span.end(pending.err)
	}()
	return pending, nil
}

// result waits for a confirm.
func (p *Publisher) result(ctx context.Context, sent *confirm.Pending, at Target) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := p.clock.AfterFunc(p.options.timeout, func() { cancel(fmt.Errorf("no confirm for %s", p.options.timeout)) })
	defer timer.Stop()
	return at.typed(sent.Wait(ctx))
}

// send hands a message over to a connection; until the context is done it waits for one.
func (p *Publisher) send(ctx context.Context, at Target, mandatory bool, m amqp091.Publishing) (*confirm.Pending, error) {
	for attempt := 0; ; attempt++ {
		ch, err := p.channel(ctx, at.Exchange)
		if err == nil {
			var sent *confirm.Pending
			sent, err = ch.Publish(ctx, at.Exchange, at.RoutingKey, mandatory, m)
			switch {
			case err == nil:
				return sent, nil
			case !errors.Is(err, confirm.ErrNotSent):
				return nil, at.typed(err)
			}
			<-ch.Done() // soon, and then the channel is replaced
			if attempt == 0 {
				continue
			}
		}
		p.note(err)
		select {
		case <-p.done:
			return nil, &NotSent{at, errClosed}
		default:
		}
		if wire.Sleep(ctx, p.clock, link.Backoff(attempt)) != nil {
			return nil, &NotSent{at, errors.Join(err, context.Cause(ctx))}
		}
	}
}

// mostChannels bounds the channels of a publisher: exchanges beyond share one.
const mostChannels = 64

// channel is the channel of an exchange: one that the broker closes, because the exchange
// is missing, takes no message to another with it.
func (p *Publisher) channel(ctx context.Context, exchange string) (*confirm.Channel, error) {
	if reason, cleared := p.link.Blocked(); reason != "" {
		// What is written now would only wait in the socket.
		select {
		case <-cleared:
		case <-p.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("the broker takes no messages: %s", reason)
		}
	}
	conn, err := p.link.Open(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.lastErr = nil
	for name, ch := range p.channels {
		select {
		case <-ch.Done():
			delete(p.channels, name)
		default:
		}
	}
	if len(p.channels) >= mostChannels && p.channels[exchange] == nil {
		exchange = "\x00shared"
	}
	if ch := p.channels[exchange]; ch != nil {
		return ch, nil
	}
	raw, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	ch, err := confirm.New(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	p.channels[exchange] = ch
	return ch, nil
}

func (p *Publisher) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lastErr == nil || p.lastErr.Error() != err.Error() {
		p.options.log.Warn("rabbitctl publisher: no connection", "broker", p.link.String(), "error", text.Line(err.Error()))
	}
	p.lastErr = err
}

// Item is one message of a batch.
type Item struct {
	Exchange, RoutingKey string
	Message              Message
}

// PublishBatch publishes messages in their order, without waiting between them, and
// returns the result of each: nil, or an error as of Publish. The error joins them.
func (p *Publisher) PublishBatch(ctx context.Context, items []Item) ([]error, error) {
	pending := make([]*Pending, len(items))
	results := make([]error, len(items))
	for i, item := range items {
		pending[i], results[i] = p.PublishAsync(ctx, item.Exchange, item.RoutingKey, item.Message)
	}
	for i, sent := range pending {
		if sent != nil {
			results[i] = sent.Wait(ctx)
		}
	}
	return results, errors.Join(results...)
}

// Health is for probes.
type Health struct {
	// Connected says that the last attempt to have a connection succeeded.
	Connected bool
	// Blocked says why the broker takes no messages (connection.blocked: it runs out of
	// memory or disk space); empty: it does.
	Blocked string
	// Outstanding is how many messages wait for their confirm.
	Outstanding int
	Err         error // why there is no connection
}

// OK reports whether messages can be published.
func (h Health) OK() bool { return h.Connected && h.Blocked == "" }

// Health says how the publisher is.
func (p *Publisher) Health() Health {
	blocked, _ := p.link.Blocked()
	p.mu.Lock()
	defer p.mu.Unlock()
	return Health{Connected: p.lastErr == nil && !p.closed, Blocked: blocked, Outstanding: len(p.room), Err: p.lastErr}
}
