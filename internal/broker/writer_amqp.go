package broker

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func (w *writer) declareExchange(ctx context.Context, x *topology.Exchange) error {
	if w.via == ViaHTTP {
		return w.putExchange(ctx, x)
	}
	return w.pool(x.VirtualHost).do(ctx, "exchange.declare", func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(x.Name, x.Type, x.Durable, x.AutoDelete, x.Internal, false, table(x.Arguments))
	})
}

func (w *writer) declareQueue(ctx context.Context, q *topology.Queue) error {
	if q.Exclusive {
		return local("an exclusive queue belongs to one connection and cannot be declared for others")
	}
	if w.via == ViaHTTP {
		return w.putQueue(ctx, q)
	}
	return w.pool(q.VirtualHost).do(ctx, "queue.declare", func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, table(withType(q)))
		return err
	})
}

func (w *writer) bind(ctx context.Context, b *topology.Binding) error {
	if w.via == ViaHTTP {
		return w.postBinding(ctx, b)
	}
	if b.DestinationType == topology.ToExchange {
		return w.pool(b.VirtualHost).do(ctx, "exchange.bind", func(ch *amqp.Channel) error {
			return ch.ExchangeBind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments))
		})
	}
	return w.pool(b.VirtualHost).do(ctx, "queue.bind", func(ch *amqp.Channel) error {
		return ch.QueueBind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments))
	})
}

// unbindAMQP is for the few bindings that HTTP cannot address. The arguments must
// have the types of those that it was made with.
func (w *writer) unbindAMQP(ctx context.Context, b *topology.Binding) error {
	if b.DestinationType == topology.ToExchange {
		return w.pool(b.VirtualHost).do(ctx, "exchange.unbind", func(ch *amqp.Channel) error {
			return ch.ExchangeUnbind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments))
		})
	}
	return w.pool(b.VirtualHost).do(ctx, "queue.unbind", func(ch *amqp.Channel) error {
		return ch.QueueUnbind(b.Destination, b.RoutingKey, b.Source, table(b.Arguments))
	})
}

func (w *writer) deleteExchange(ctx context.Context, x *topology.Exchange) error {
	if w.via == ViaHTTP {
		return w.deleteExchangeHTTP(ctx, x)
	}
	return w.pool(x.VirtualHost).do(ctx, "exchange.delete", func(ch *amqp.Channel) error {
		return ch.ExchangeDelete(x.Name, false, false)
	})
}

func (w *writer) deleteQueue(ctx context.Context, q *topology.Queue) error {
	if w.via == ViaHTTP {
		return w.deleteQueueHTTP(ctx, q)
	}
	return w.pool(q.VirtualHost).do(ctx, "queue.delete", func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(q.Name, false, false, false)
		return err
	})
}

// withType is the queue's arguments with x-queue-type. A type is always sent
// when it is known: without, the virtual host's default would decide.
func withType(q *topology.Queue) topology.Arguments {
	if q.Type == "" {
		return q.Arguments
	}
	a := make(topology.Arguments, len(q.Arguments)+1)
	for k, v := range q.Arguments {
		a[k] = v
	}
	a["x-queue-type"] = string(q.Type)
	return a
}

// table copies arguments into AMQP's own types; integers go as int64, floats as
// doubles even when integral.
func table(a topology.Arguments) amqp.Table {
	t := make(amqp.Table, len(a))
	for k, v := range a {
		t[k] = wireValue(v)
	}
	return t
}

func wireValue(v any) any {
	switch v := v.(type) {
	case topology.Arguments:
		return table(v)
	case map[string]any:
		return table(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = wireValue(e)
		}
		return list
	}
	return v
}
