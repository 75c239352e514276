package broker

import (
	"context"
	"errors"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Counts is what a queue holds. Nil: unknown.
type Counts struct {
	Messages  *int64
	Consumers *int64
}

// Counts asks the queues themselves, by passive declaration: counts over HTTP lag
// by up to 10 s. Messages are those ready for delivery; what is with consumers,
// waits for a delayed retry or for an at-least-once dead letter is not among
// them, and for a stream it is always 0. A queue that is not there is not in the
// answer; one that cannot be asked (exclusive to another connection, no right)
// has nil counts.
func (c *Client) Counts(ctx context.Context, vhost string, queues []string) (map[string]Counts, error) {
	counts := make(map[string]Counts, len(queues))
	var mu sync.Mutex
	ask := func(ctx context.Context, p *pool, i int) error {
		name := queues[i]
		if checkAddressable(ViaAMQP, "name of the queue", name) != nil || name == "" {
			return nil
		}
		var found Counts
		err := p.do(ctx, "queue.declare passive", func(ch *amqp.Channel) error {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			messages, consumers := int64(q.Messages), int64(q.Consumers)
			found = Counts{&messages, &consumers}
			return err
		})
		e, _ := as(err)
		switch {
		case err == nil:
		case IsNotFound(err):
			return nil
		case e != nil && e.class == refused && !e.ConnectionClosed:
			found = Counts{}
		default:
			return named(err, "count the messages of", topology.Key{Kind: topology.KindQueue, VirtualHost: vhost, Name: name})
		}
		mu.Lock()
		counts[name] = found
		mu.Unlock()
		return nil
	}
	if err := c.each(ctx, vhost, len(queues), ask); err != nil {
		return nil, err
	}
	return counts, nil
}

// Passive says which exchanges and queues do not exist, asking over AMQP with
// passive declarations, as a service would with its own rights. Other objects
// cannot be asked for this way and are passed over. The error holds everything
// that could not be told: no right (4.3 wants one of configure, write or read;
// before, none), a queue exclusive to another connection (IsLocked), a connection
// that failed. Both results are in the order of the objects.
func (c *Client) Passive(ctx context.Context, vhost string, objects []topology.Object) ([]topology.Key, error) {
	missing := make([]bool, len(objects))
	errs := make([]error, len(objects))
	ask := func(ctx context.Context, p *pool, i int) error {
		err := p.passive(ctx, objects[i])
		switch {
		case err == nil:
		case IsNotFound(err):
			missing[i] = true
		default:
			errs[i] = named(err, "check", objects[i].Key())
		}
		return nil
	}
	if err := c.each(ctx, vhost, len(objects), ask); err != nil {
		return nil, err
	}
	var keys []topology.Key
	for i, o := range objects {
		if missing[i] {
			keys = append(keys, o.Key())
		}
	}
	return keys, errors.Join(errs...)
}

func (p *pool) passive(ctx context.Context, o topology.Object) error {
	switch o := o.(type) {
	case *topology.Exchange:
		if o.Name == "" {
			return nil // the default exchange is always there; asking is refused
		}
		if err := checkAddressable(ViaAMQP, "name of the exchange", o.Name); err != nil {
			return err
		}
		return p.do(ctx, "exchange.declare passive", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(o.Name, o.Type, o.Durable, o.AutoDelete, o.Internal, false, nil)
		})
	case *topology.Queue:
		if err := checkAddressable(ViaAMQP, "name of the queue", o.Name); err != nil {
			return err
		}
		if o.Name == "" {
			return local("the name of the queue is empty")
		}
		return p.do(ctx, "queue.declare passive", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(o.Name, o.Durable, o.AutoDelete, false, false, nil)
			return err
		})
	}
	return nil
}

// each runs n calls on one connection of its own. With a management URL it must
// lead to the same broker: counts of another one would let a full queue be taken
// for empty.
func (c *Client) each(ctx context.Context, vhost string, n int, call func(context.Context, *pool, int) error) error {
	if n == 0 {
		return nil
	}
	var o *Overview
	if c.base != "" {
		var err error
		if o, err = c.Overview(ctx); err != nil {
			return err
		}
	}
	p := c.newPool(vhost, o)
	if _, err := p.connect(ctx); err != nil {
		return named(err, vhostSentence("connect to %s", vhost), topology.Key{})
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(channels)
	for i := range n {
		group.Go(func() error { return call(inner, p, i) })
	}
	err := group.Wait()
	p.end()
	return err
}
