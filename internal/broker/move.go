package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// batch is how many messages Move copies at a time. It has as many more in hand, which
// come while it waits for confirms. A run that is killed gives them back; on a quorum
// queue that counts as one return of each.
const batch = 100

// lull is how long no message may come until Move asks whether any is left.
const lull = 200 * time.Millisecond

// gather is how long Move waits for the next message of a batch.
const gather = 5 * time.Millisecond

// Move takes the messages of a queue in their order and publishes each to an
// exchange with its own routing key, properties, headers and body. A message is
// acknowledged only when the broker has confirmed its copy, so that a fault can
// double messages and never lose one. It returns when nothing is ready any more, or
// limit messages were taken (0: no limit), and says how many were moved, also with an
// error. When ctx ends, what is in hand is finished first.
//
// The queue is consumed exclusively, so that nobody else takes messages meanwhile;
// where others consume, or on one with a single active consumer, that is not
// possible: the former is refused.
//
// What the broker itself adds to a redelivered message of a quorum queue
// (x-delivery-count, x-acquired-count) is left away. An error says so when a copy is
// refused, is taken by no queue, or has a user_id that this user must not write.
func (c *Client) Move(ctx context.Context, from *topology.Queue, exchange string, limit int64) (moved int64, err error) {
	op := fmt.Sprintf("move the messages to exchange %q of", exchange)
	var o *Overview
	if c.base != "" {
		if o, err = c.Overview(ctx); err != nil {
			return 0, err
		}
	}
	p := c.newPool(from.VirtualHost, o)
	defer p.end()
	conn, err := p.connect(ctx)
	if err != nil {
		return 0, named(err, op, from.Key())
	}
	m := &mover{ctx: ctx, conn: conn, from: from, exchange: exchange}
	if err := m.begin(); err != nil {
		return 0, named(err, op, from.Key())
	}
	err = m.run(limit)
	return m.moved, named(err, op, from.Key())
}

// mover moves the messages of one queue over one channel: when anything fails, the
// broker closes it and puts back what was not acknowledged, in its place.
type mover struct {
	ctx      context.Context
	conn     *connection
	ch       *amqp.Channel
	from     *topology.Queue
	exchange string

	deliveries <-chan amqp.Delivery
	returns    chan amqp.Return
	closed     chan *amqp.Error
	moved      int64
}

const moverTag = "rabbitctl"

func (m *mover) begin() error {
	return m.conn.within(m.ctx, "basic.consume", func() (err error) {
		if m.ch, err = m.conn.Channel(); err != nil {
			return err
		}
		// A returned message comes before its confirm, so that room for a batch is enough.
		m.returns = m.ch.NotifyReturn(make(chan amqp.Return, batch))
		m.closed = m.ch.NotifyClose(make(chan *amqp.Error, 1))
		if err = m.ch.Confirm(false); err != nil {
			return err
		}
		if err = m.ch.Qos(2*batch, 0, false); err != nil {
			return err
		}
		single, _ := m.from.Arguments["x-single-active-consumer"].(bool)
		m.deliveries, err = m.ch.Consume(m.from.Name, moverTag, false, !single, false, false, nil)
		return err
	})
}

func (m *mover) run(limit int64) error {
	taken, stopped := int64(0), false
	cancel := func(ctx context.Context) error {
		stopped = true
		return m.conn.within(ctx, "basic.cancel", func() error { return m.ch.Cancel(moverTag, false) })
	}
	for {
		list, open := m.next(stopped)
		if err := m.copy(list); err != nil {
			return err
		}
		taken += int64(len(list))
		switch {
		case !open && stopped:
			if m.ctx.Err() != nil {
				return &Error{Via: ViaAMQP, class: cancelled, Err: context.Cause(m.ctx)}
			}
			return nil
		case !open:
			return m.ended()
		case stopped:
		case m.ctx.Err() != nil:
			if err := cancel(context.WithoutCancel(m.ctx)); err != nil {
				return err
			}
		case limit > 0 && taken >= limit:
			if err := cancel(m.ctx); err != nil {
				return err
			}
		case len(list) == 0:
			left := 0
			err := m.conn.within(m.ctx, "queue.declare passive", func() error {
				q, err := m.ch.QueueDeclarePassive(m.from.Name, true, false, false, false, nil)
				left = q.Messages
				return err
			})
			if err != nil {
				return err
			}
			if left > 0 {
				continue
			}
			if err := cancel(m.ctx); err != nil { // and take what came in between
				return err
			}
		}
	}
}

// next waits for a message and takes what else is there, up to a batch. None: there
// was a lull. open is false when no more will come.
func (m *mover) next(stopped bool) (list []amqp.Delivery, open bool) {
	timer := time.NewTimer(lull)
	defer timer.Stop()
	done := m.ctx.Done()
	if stopped {
		done = nil
	}
	select {
	case d, ok := <-m.deliveries:
		if !ok {
			return nil, false
		}
		list = append(list, d)
	case <-done:
		return nil, true
	case <-timer.C:
		return nil, true
	}
	// A confirm takes as long for many messages as for one.
	for len(list) < batch {
		timer.Reset(gather)
		select {
		case d, ok := <-m.deliveries:
			if !ok {
				return list, false
			}
			list = append(list, d)
		case <-timer.C:
			return list, true
		}
	}
	return list, true
}

// copy publishes messages, waits until all are confirmed and acknowledges them.
func (m *mover) copy(list []amqp.Delivery) error {
	if len(list) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(m.ctx), m.conn.limit)
	defer stop()
	confirms := make([]*amqp.DeferredConfirmation, len(list))
	err := m.conn.within(ctx, "basic.publish", func() (err error) {
		for i := range list {
			if confirms[i], err = m.ch.PublishWithDeferredConfirm(m.exchange, list[i].RoutingKey, true, false, m.publishing(&list[i])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return m.cause(err)
	}
	for i, c := range confirms {
		select {
		case <-c.Done():
		case <-ctx.Done():
			m.conn.wire.Close()
			return &Error{Via: ViaAMQP, Step: "basic.publish", class: timeout, Unknown: true, Err: fmt.Errorf("no confirm within %s", m.conn.limit)}
		}
		err := m.verdict(c, i, len(confirms))
		if err != nil && i > 0 {
			_ = m.acknowledge(list[:i]) // at worst these are there twice
		}
		if err != nil {
			return err
		}
	}
	return m.acknowledge(list)
}

// verdict says what became of a copy that the broker has answered.
func (m *mover) verdict(c *amqp.DeferredConfirmation, i, of int) error {
	select {
	case r, ok := <-m.returns:
		if ok { // else the channel is closed
			return m.refuse("no queue took a copy of a message: %d %s", r.ReplyCode, redact(r.ReplyText))
		}
	default:
	}
	if c.Acked() {
		return nil
	}
	if m.ch.IsClosed() {
		return m.ended()
	}
	return m.refuse("the broker refused the copy of message %d of %d in hand: the queue that it goes to is full, or not there for the moment", i+1, of)
}

// acknowledge ends with messages whose copies are confirmed. The broker does not
// answer: when it is lost, they come again.
func (m *mover) acknowledge(list []amqp.Delivery) error {
	last := list[len(list)-1].DeliveryTag
	if err := m.conn.within(context.WithoutCancel(m.ctx), "basic.ack", func() error { return m.ch.Ack(last, true) }); err != nil {
		return m.cause(err)
	}
	m.moved += int64(len(list))
	return nil
}

// refuse is about a copy; what is in hand goes back when the connection is closed.
func (m *mover) refuse(format string, args ...any) error {
	return &Error{Via: ViaAMQP, Step: "basic.publish", class: notSent, Err: fmt.Errorf(format, args...)}
}

// ended says why the channel was closed, or the consumer cancelled.
func (m *mover) ended() error {
	select {
	case e := <-m.closed:
		if e != nil {
			return m.hinted(methodError(e, "basic.publish"))
		}
		return methodError(errors.New("the connection was lost"), "basic.publish")
	case <-time.After(lull):
		return local("the broker cancelled the consumer: the queue was deleted, or its node went down")
	}
}

// cause prefers what the broker said to what the library makes of a closed channel.
func (m *mover) cause(err error) error {
	if m.ch.IsClosed() {
		return m.ended()
	}
	return err
}

func (m *mover) hinted(err error) error {
	if e, ok := as(err); ok && e.Status == amqp.PreconditionFailed {
		e.Hint = "a message with the property user_id can only be published by that user, or by one with the tag impersonator"
	}
	return err
}

// publishing is the message as it was published, as far as AMQP 0.9.1 shows it. Its
// expiration starts anew.
func (m *mover) publishing(d *amqp.Delivery) amqp.Publishing {
	headers := d.Headers
	if d.Redelivered && m.from.Type != topology.Classic {
		delete(headers, "x-delivery-count")
		delete(headers, "x-acquired-count")
	}
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Body: d.Body,
	}
}

// Swap deletes a queue that was proved empty and declares another of its name at once,
// on one channel. Between the two no queue has the name, and what is published to it
// by the default exchange is lost to whoever does not ask for the message back: gap is
// how long that was at most. why says what came into the queue since it was proved empty: then
// nothing was done. See Writer.DeleteEmpty for what can be seen; an error says how
// many messages went with a quorum queue all the same.
func (c *Client) Swap(ctx context.Context, old, new *topology.Queue) (gap time.Duration, why string, err error) {
	const op = "replace"
	overview, err := c.Overview(ctx)
	if err != nil {
		return 0, "", err
	}
	p := c.newPool(old.VirtualHost, overview)
	defer p.end()
	lost := 0
	err = p.do(ctx, "queue.delete, queue.declare", func(ch *amqp.Channel) error {
		begun := time.Now()
		if lost, why, err = deleteIfEmpty(ch, old); err != nil || why != "" {
			return err
		}
		_, err = ch.QueueDeclare(new.Name, new.Durable, new.AutoDelete, false, false, table(withType(new)))
		gap = time.Since(begun)
		return err
	})
	if e, ok := as(err); ok && e.class == refused && e.Status == amqp.PreconditionFailed && old.Type == topology.Classic && gap == 0 {
		return 0, "a message or a consumer came", nil
	}
	if err == nil && lost > 0 {
		err = local(lostWith, plural(lost))
	}
	return gap, why, named(err, op, old.Key())
}
