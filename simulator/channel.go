package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// channel is a client's channel. It implements wire.Channel.
type channel struct {
	connection *connection
	number     int
	closed     bool
	prefetch   int // of consumers to come

	tag       uint64
	unacked   map[uint64]*delivery
	consumers map[string]*consumer
	names     int

	confirming, transacting bool
	sequence                uint64
	transaction             []func() error
	held                    []func() // publishes while the broker is blocked

	events    *mailbox
	closing   []chan *amqp091.Error
	cancels   []chan string
	confirms  []chan amqp091.Confirmation
	returning []chan amqp091.Return
}

// delivery is a message that a client has not settled.
type delivery struct {
	queue    *queue
	entry    *entry
	consumer *consumer // nil: basic.get
	tag      uint64
}

func (ch *channel) host() *host { return ch.connection.host }

// do runs a request of the client. An exception of the broker closes the channel, or
// the connection where the code says so.
func (ch *channel) do(f func() error) error {
	var answer error
	err := ch.send(func() error {
		answer = f()
		return answer
	})
	return cmp.Or(err, answer)
}

// send is do for what the client does not wait for: an exception reaches it only by
// what is closed.
func (ch *channel) send(f func() error) error {
	b := ch.connection.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.activity++
	if ch.closed {
		return amqp091.ErrClosed
	}
	ch.fail(f())
	return nil
}

// hard are the codes that close the connection.
var hard = []int{amqp091.ConnectionForced, amqp091.CommandInvalid, amqp091.NotImplemented, amqp091.InternalError, amqp091.NotAllowed}

func (ch *channel) fail(err error) {
	var e *amqp091.Error
	switch {
	case !errors.As(err, &e) || ch.closed:
	case slices.Contains(hard, e.Code):
		ch.connection.shut(e)
	default:
		ch.shut(e)
	}
}

// shut ends the channel: what it had comes back.
func (ch *channel) shut(why *amqp091.Error) {
	if ch.closed {
		return
	}
	ch.closed = true
	delete(ch.connection.channels, ch)
	for _, c := range ch.consumersInOrder() {
		c.remove()
		c.drop()
	}
	tags := make([]uint64, 0, len(ch.unacked))
	for tag := range ch.unacked {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	for _, tag := range tags {
		d := ch.unacked[tag]
		delete(ch.unacked, tag)
		d.queue.settle(d.entry, lost, true)
	}
	closing, cancels, confirms, returning := ch.closing, ch.cancels, ch.confirms, ch.returning
	ch.events.put(func() {
		tell(closing, why)
		closeEach(cancels)
		closeEach(confirms)
		closeEach(returning)
	})
	ch.events.end()
}

func (ch *channel) Close() error {
	return ch.do(func() error {
		ch.shut(nil)
		return nil
	})
}

func (ch *channel) IsClosed() bool {
	ch.connection.broker.mu.Lock()
	defer ch.connection.broker.mu.Unlock()
	return ch.closed
}

func (ch *channel) NotifyClose(r chan *amqp091.Error) chan *amqp091.Error {
	return receive(ch.connection.broker, &ch.closed, &ch.closing, r)
}

func (ch *channel) NotifyCancel(r chan string) chan string {
	return receive(ch.connection.broker, &ch.closed, &ch.cancels, r)
}

func (ch *channel) NotifyPublish(r chan amqp091.Confirmation) chan amqp091.Confirmation {
	return receive(ch.connection.broker, &ch.closed, &ch.confirms, r)
}

func (ch *channel) NotifyReturn(r chan amqp091.Return) chan amqp091.Return {
	return receive(ch.connection.broker, &ch.closed, &ch.returning, r)
}

func (ch *channel) ExchangeDeclare(name, kind string, durable, autoDelete, internal, _ bool, args amqp091.Table) error {
	return ch.do(func() error {
		return ch.host().declareExchange(&topology.Exchange{
			Name: name, Type: kind, Durable: durable, AutoDelete: autoDelete, Internal: internal, Arguments: topology.Arguments(canonical(args)),
		})
	})
}

func (ch *channel) ExchangeDeclarePassive(name, _ string, _, _, _, _ bool, _ amqp091.Table) error {
	return ch.do(func() error {
		if name == "" {
			return exception(amqp091.AccessRefused, "ACCESS_REFUSED - operation not permitted on the default exchange")
		}
		if ch.host().exchanges[name] == nil {
			return exception(amqp091.NotFound, "NOT_FOUND - no exchange '%s' in vhost '%s'", name, ch.host().name)
		}
		return nil
	})
}

func (ch *channel) ExchangeDelete(name string, ifUnused, _ bool) error {
	return ch.do(func() error {
		h := ch.host()
		if ifUnused {
			for _, b := range h.bindings {
				if b.Source == name {
					return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - exchange '%s' in vhost '%s' in use", name, h.name)
				}
			}
		}
		if e := h.exchanges[name]; e != nil {
			h.removeExchange(name)
		}
		return nil
	})
}

func (ch *channel) ExchangeBind(destination, key, source string, _ bool, args amqp091.Table) error {
	return ch.do(func() error {
		return ch.host().bind(binding(topology.ToExchange, destination, key, source, args, ch.host().name))
	})
}

func (ch *channel) ExchangeUnbind(destination, key, source string, _ bool, args amqp091.Table) error {
	return ch.do(func() error {
		ch.host().unbind(binding(topology.ToExchange, destination, key, source, args, ch.host().name))
		return nil
	})
}

func binding(to topology.DestinationType, destination, key, source string, args amqp091.Table, vhost string) *topology.Binding {
	b := &topology.Binding{VirtualHost: vhost, Source: source, Destination: destination, DestinationType: to, RoutingKey: key}
	if len(args) > 0 {
		b.Arguments = topology.Arguments(canonical(args))
	}
	return b
}

func (ch *channel) QueueDeclare(name string, durable, autoDelete, exclusive, _ bool, args amqp091.Table) (amqp091.Queue, error) {
	var out amqp091.Queue
	err := ch.do(func() error {
		if name == "" {
			ch.connection.broker.ids++
			name = fmt.Sprintf("amq.gen-%d", ch.connection.broker.ids)
		}
		q, err := ch.host().declareQueue(&topology.Queue{
			Name: name, Durable: durable, AutoDelete: autoDelete, Exclusive: exclusive, Arguments: topology.Arguments(canonical(args)),
		}, ch.connection)
		if err != nil {
			return err
		}
		out = amqp091.Queue{Name: name, Messages: q.depth(), Consumers: len(q.consumers)}
		return nil
	})
	return out, err
}

// queue finds a queue that the client may use.
func (ch *channel) queue(name string) (*queue, error) {
	q := ch.host().queues[name]
	if q == nil {
		return nil, exception(amqp091.NotFound, "NOT_FOUND - no queue '%s' in vhost '%s'", name, ch.host().name)
	}
	return q, q.mayUse(ch.connection)
}

func (ch *channel) QueueDeclarePassive(name string, _, _, _, _ bool, _ amqp091.Table) (amqp091.Queue, error) {
	var out amqp091.Queue
	err := ch.do(func() error {
		q, err := ch.queue(name)
		if err != nil {
			return err
		}
		q.touch()
		out = amqp091.Queue{Name: name, Messages: q.depth(), Consumers: len(q.consumers)}
		return nil
	})
	return out, err
}

func (ch *channel) QueueDelete(name string, ifUnused, ifEmpty, _ bool) (int, error) {
	messages := 0
	err := ch.do(func() error {
		q := ch.host().queues[name]
		if q == nil {
			return nil
		}
		if err := q.mayUse(ch.connection); err != nil {
			return err
		}
		switch {
		case q.quorum() && (ifUnused || ifEmpty):
			flag := "if-empty"
			if ifUnused {
				flag = "if-unused"
			}
			return exception(amqp091.NotImplemented, "NOT_IMPLEMENTED - cannot delete queue '%s' in vhost '%s'. "+
				"queue.delete operations with %s flag set are not supported by quorum queues", name, q.host.name, flag)
		case q.stream():
		case ifUnused && len(q.consumers) > 0:
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - queue '%s' in vhost '%s' in use", name, q.host.name)
		case ifEmpty && len(q.ready) > 0:
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - queue '%s' in vhost '%s' not empty", name, q.host.name)
		}
		messages = len(q.ready)
		q.host.remove(q)
		return nil
	})
	return messages, err
}

func (ch *channel) QueueBind(name, key, exchange string, _ bool, args amqp091.Table) error {
	return ch.do(func() error {
		return ch.host().bind(binding(topology.ToQueue, name, key, exchange, args, ch.host().name))
	})
}

func (ch *channel) QueueUnbind(name, key, exchange string, args amqp091.Table) error {
	return ch.do(func() error {
		ch.host().unbind(binding(topology.ToQueue, name, key, exchange, args, ch.host().name))
		return nil
	})
}

func (ch *channel) QueuePurge(name string, _ bool) (int, error) {
	purged := 0
	err := ch.do(func() error {
		q, err := ch.queue(name)
		if err != nil {
			return err
		}
		if q.stream() {
			return exception(amqp091.NotImplemented, "NOT_IMPLEMENTED - queue.purge is not supported by stream queues")
		}
		purged = len(q.ready)
		for _, e := range append(slices.Clone(q.ready), q.delayed...) {
			q.tell(EventDeleted, e.message, "the queue was purged")
		}
		q.ready, q.delayed = nil, nil
		q.run()
		return nil
	})
	return purged, err
}

func (ch *channel) Confirm(bool) error {
	return ch.do(func() error {
		if ch.transacting {
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
		}
		ch.confirming = true
		return nil
	})
}

func (ch *channel) GetNextPublishSeqNo() uint64 {
	ch.connection.broker.mu.Lock()
	defer ch.connection.broker.mu.Unlock()
	return ch.sequence + 1
}

func (ch *channel) PublishWithContext(_ context.Context, exchange, key string, mandatory, _ bool, p amqp091.Publishing) error {
	if err := p.Headers.Validate(); err != nil {
		return err
	}
	return ch.send(func() error {
		sequence := uint64(0)
		if ch.confirming {
			ch.sequence++
			sequence = ch.sequence
		}
		publish := func() error { return ch.publish(exchange, key, mandatory, p, sequence) }
		switch {
		case ch.transacting:
			ch.transaction = append(ch.transaction, publish)
		case ch.connection.broker.blocking:
			ch.held = append(ch.held, func() { ch.fail(publish()) })
		default:
			return publish()
		}
		return nil
	})
}

func (ch *channel) publish(exchange, key string, mandatory bool, p amqp091.Publishing, sequence uint64) error {
	if p.UserId != "" && p.UserId != username {
		return exception(amqp091.PreconditionFailed,
			"PRECONDITION_FAILED - user_id property set to '%s' but authenticated user was '%s'", p.UserId, username)
	}
	m, err := newMessage(ch.connection.broker.version, exchange, key, p)
	if err != nil {
		return err
	}
	routed, taken, err := ch.host().publish(m)
	if err != nil {
		return err
	}
	if !routed && mandatory {
		r := returned(exchange, key, m.properties)
		receivers := ch.returning
		ch.events.put(func() {
			for _, to := range receivers {
				to <- r
			}
		})
	}
	if sequence > 0 {
		receivers := ch.confirms
		ch.events.put(func() {
			for _, to := range receivers {
				to <- amqp091.Confirmation{DeliveryTag: sequence, Ack: taken}
			}
		})
	}
	return nil
}

func returned(exchange, key string, p amqp091.Publishing) amqp091.Return {
	return amqp091.Return{
		ReplyCode: amqp091.NoRoute, ReplyText: "NO_ROUTE", Exchange: exchange, RoutingKey: key,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, Headers: p.Headers, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId, Body: p.Body,
	}
}

func (ch *channel) Tx() error {
	return ch.do(func() error {
		if ch.confirming {
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
		}
		ch.transacting = true
		return nil
	})
}

func (ch *channel) TxCommit() error {
	return ch.do(func() error {
		if !ch.transacting {
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - channel is not transactional")
		}
		all := ch.transaction
		ch.transaction = nil
		for _, f := range all {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	})
}

func (ch *channel) TxRollback() error {
	return ch.do(func() error {
		if !ch.transacting {
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - channel is not transactional")
		}
		ch.transaction = nil
		return nil
	})
}
