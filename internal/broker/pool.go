package broker

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// channels is how many methods are under way on a connection at a time: 16 are
// about twice as fast as one, more bring nothing.
const channels = 16

// pool hands out channels of one connection to one virtual host. A channel is
// used by one call at a time and dropped after an error, since the broker closes
// it; a lost connection is dialled again by the next call.
type pool struct {
	client   *Client
	vhost    string
	overview *Overview // nil: only the AMQP URL is given, nothing to compare with
	slots    chan struct{}

	dialling mutex // guards conn, idle and closed
	conn     *connection
	idle     []*amqp.Channel
	closed   bool
}

func (c *Client) newPool(vhost string, o *Overview) *pool {
	return &pool{client: c, vhost: vhost, overview: o, slots: make(chan struct{}, channels), dialling: newMutex()}
}

// connect makes sure that there is a connection, and that it leads to the same
// broker as the management URL.
func (p *pool) connect(ctx context.Context) (*connection, error) {
	if err := p.dialling.Lock(ctx); err != nil {
		return nil, err
	}
	defer p.dialling.Unlock()
	return p.connected(ctx)
}

// connected is connect under the lock.
func (p *pool) connected(ctx context.Context) (*connection, error) {
	if p.closed {
		return nil, local("the writer is closed")
	}
	if p.conn != nil && !p.conn.IsClosed() {
		return p.conn, nil
	}
	if p.conn != nil {
		p.conn.wire.Close()
		p.conn, p.idle = nil, nil
	}
	conn, err := p.client.dial(ctx, p.vhost, p.overview, nil)
	if err != nil {
		return nil, err
	}
	if err := sameBroker(conn.Properties, p.overview); err != nil {
		conn.end()
		return nil, err
	}
	p.conn = conn
	return conn, nil
}

// sameBroker compares what the AMQP server says of itself with the overview.
func sameBroker(properties amqp.Table, o *Overview) error {
	if o == nil {
		return nil
	}
	cluster, _ := properties["cluster_name"].(string)
	text, _ := properties["version"].(string)
	version, err := catalog.ParseVersion(text)
	if err == nil && cluster == o.ClusterName && version == o.Version {
		return nil
	}
	return &Error{
		Via: ViaAMQP, class: wrongServer, Step: "connection.start",
		Err: fmt.Errorf("%w: %q (RabbitMQ %s) and %q (RabbitMQ %q)", ErrDifferentBrokers, o.ClusterName, o.Version, cluster, text),
	}
}

// do runs a method on a channel of its own.
func (p *pool) do(ctx context.Context, step string, method func(*amqp.Channel) error) error {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return &Error{Via: ViaAMQP, Step: step, class: cancelled, Err: context.Cause(ctx)}
	}
	conn, ch, err := p.take(ctx)
	for n := 1; n < attempts && wasLost(err); n++ {
		conn, ch, err = p.take(ctx) // nothing was asked for yet
	}
	if err != nil {
		return err
	}
	err = conn.within(ctx, step, func() error { return method(ch) })
	if err != nil {
		p.drop(conn, err)
		return err
	}
	p.put(ctx, conn, ch)
	return nil
}

// wasLost reports whether an open connection turned out to be gone.
func wasLost(err error) bool {
	e, ok := as(err)
	return ok && e.class == unreachable && e.ConnectionClosed
}

// drop gives up a connection that failed. amqp091-go may take a moment until it
// calls a lost connection closed; the next call must not meet it again.
func (p *pool) drop(conn *connection, err error) {
	if e, ok := as(err); !ok || !e.ConnectionClosed {
		return
	}
	conn.wire.Close()
	_ = p.dialling.Lock(context.Background())
	defer p.dialling.Unlock()
	if p.conn == conn {
		p.conn, p.idle = nil, nil
	}
}

// take returns an idle channel or opens one.
func (p *pool) take(ctx context.Context) (*connection, *amqp.Channel, error) {
	if err := p.dialling.Lock(ctx); err != nil {
		return nil, nil, err
	}
	conn, err := p.connected(ctx)
	var ch *amqp.Channel
	for err == nil && ch == nil && len(p.idle) > 0 {
		last := len(p.idle) - 1
		if !p.idle[last].IsClosed() {
			ch = p.idle[last]
		}
		p.idle = p.idle[:last]
	}
	p.dialling.Unlock()
	if err != nil || ch != nil {
		return conn, ch, err
	}
	err = conn.within(ctx, "channel.open", func() (err error) {
		ch, err = conn.Channel()
		return err
	})
	if e, ok := as(err); ok {
		e.Unknown = false // nothing was asked for yet
		if e.ConnectionClosed {
			// Another call broke the connection: that says nothing about this one.
			e.class = unreachable
		}
		p.drop(conn, err)
	}
	return conn, ch, err
}

func (p *pool) put(ctx context.Context, conn *connection, ch *amqp.Channel) {
	if p.dialling.Lock(context.WithoutCancel(ctx)) != nil {
		return
	}
	defer p.dialling.Unlock()
	if p.conn == conn && !p.closed {
		p.idle = append(p.idle, ch)
	}
}

// end closes the connection; later calls fail.
func (p *pool) end() {
	_ = p.dialling.Lock(context.Background())
	defer p.dialling.Unlock()
	p.closed = true
	if p.conn != nil {
		p.conn.end()
	}
	p.conn, p.idle = nil, nil
}
