package consumer

import (
	"cmp"
	"context"

	"github.com/rabbitctl/rabbitctl/internal/link"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Dialer opens connections: what simulator.Broker.Dialer returns is one.
type Dialer = wire.Dialer

// AMQP is the dialer of a broker by its URL, for what takes a dialer.
func AMQP(url string) Dialer { return wire.AMQP{URL: url} }

// Connection is one AMQP connection to a virtual host, for any number of consumers. It
// is opened again when it is lost, for as long as it is not closed.
type Connection struct{ link *link.Link }

// Dial opens a connection to amqp://USER:PASSWORD@HOST:PORT/VHOST, for OpenOn. The name
// is shown by the broker beside the connection; empty: that of the program. Of the
// options only TLS matters.
func Dial(ctx context.Context, url, name string, opts ...Option) (*Connection, error) {
	o := defaults()
	for _, opt := range opts {
		opt(&o)
	}
	return DialOn(ctx, wire.AMQP{URL: url, TLS: o.tls}, name)
}

// DialOn is Dial with a dialer, such as that of a simulator.
func DialOn(ctx context.Context, d Dialer, name string) (*Connection, error) {
	c := &Connection{link.New(d, cmp.Or(name, programName()))}
	if _, err := c.link.Open(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the connection. Consumers on it should be stopped before: what they have not
// settled goes back to its queue.
func (c *Connection) Close() error { return c.link.Close() }
