package publisher

import (
	"context"
	"sync"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// FireAndForget publishes without confirms, transient and not mandatory: messages may be
// lost without a word, as suits telemetry and nothing else. It shares the connection of a
// Publisher. It is safe for concurrent use.
type FireAndForget struct {
	p  *Publisher
	mu sync.Mutex
	ch wire.Channel
}

// FireAndForget makes one.
func (p *Publisher) FireAndForget() *FireAndForget { return &FireAndForget{p: p} }

// Publish writes a message to the connection. The error says that there is none, or
// *Invalid; nil says nothing about the message. Transient and Optional of the message are
// taken as set.
func (f *FireAndForget) Publish(ctx context.Context, exchange, key string, m Message) error {
	m.Transient = true
	properties, err := f.p.properties(exchange, key, m)
	if err != nil {
		return err
	}
	at := f.p.at(exchange, key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ch == nil || f.ch.IsClosed() {
		conn, err := f.p.link.Open(ctx)
		if err != nil {
			return &NotSent{at, err}
		}
		if f.ch, err = conn.Channel(); err != nil {
			f.ch = nil
			return &NotSent{at, err}
		}
	}
	if err := f.ch.PublishWithContext(ctx, exchange, key, false, false, properties); err != nil {
		return &Unknown{at, err}
	}
	return nil
}
