package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// AMQP dials a real broker.
type AMQP struct {
	// URL is amqp:// or amqps://, with user, password and virtual host.
	URL string
	// TLS is used with amqps://; nil: the system's trust.
	TLS *tls.Config
	// Heartbeat is the interval proposed to the broker; 0: ten seconds.
	Heartbeat time.Duration
}

// Dial implements Dialer. The context bounds the dial and the handshake.
func (a AMQP) Dial(ctx context.Context, name string) (Connection, error) {
	heartbeat := a.Heartbeat
	if heartbeat <= 0 {
		heartbeat = 10 * time.Second
	}
	config := amqp091.Config{
		TLSClientConfig: a.TLS,
		Heartbeat:       heartbeat,
		Properties:      amqp091.Table{"connection_name": name, "product": "rabbitctl"},
		Dial: func(network, address string) (net.Conn, error) {
			d := net.Dialer{Timeout: 30 * time.Second}
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			// The client clears the deadline when the handshake is done.
			deadline := time.Now().Add(d.Timeout)
			if until, ok := ctx.Deadline(); ok && until.Before(deadline) {
				deadline = until
			}
			return c, c.SetDeadline(deadline)
		},
	}
	c, err := amqp091.DialConfig(a.URL, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", a, err)
	}
	return connection{c}, nil
}

// Clock implements Dialer.
func (AMQP) Clock() Clock { return System }

// Username implements Dialer.
func (a AMQP) Username() string {
	if u, err := amqp091.ParseURI(a.URL); err == nil {
		return u.Username
	}
	return ""
}

// VirtualHost implements Dialer.
func (a AMQP) VirtualHost() string {
	if u, err := amqp091.ParseURI(a.URL); err == nil {
		return u.Vhost
	}
	return ""
}

// String implements Dialer.
func (a AMQP) String() string {
	u, err := amqp091.ParseURI(a.URL)
	if err != nil {
		return "a broker with an invalid URL"
	}
	return fmt.Sprintf("%s://%s virtual host %q", u.Scheme, net.JoinHostPort(u.Host, fmt.Sprint(u.Port)), u.Vhost)
}

type connection struct{ *amqp091.Connection }

func (c connection) Channel() (Channel, error) {
	ch, err := c.Connection.Channel()
	if err != nil {
		return nil, err // a nil *Channel would not be a nil Channel
	}
	return ch, nil
}

func (c connection) ServerVersion() string {
	v, _ := c.Properties["version"].(string)
	return v
}
