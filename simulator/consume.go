package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// consumer is a client's subscription.
type consumer struct {
	channel   *channel
	queue     *queue
	tag       string
	autoAck   bool
	exclusive bool
	prefetch  int // 0: no limit
	priority  int64
	holds     int // deliveries not settled
	next      int // of a stream: the place that it reads next

	out    chan amqp091.Delivery
	events *mailbox
	done   chan struct{} // closed: what is under way is dropped
}

func (ch *channel) Qos(prefetchCount, prefetchSize int, _ bool) error {
	return ch.do(func() error {
		if prefetchSize != 0 {
			return exception(amqp091.NotImplemented, "NOT_IMPLEMENTED - prefetch_size!=0 (%d)", prefetchSize)
		}
		ch.prefetch = prefetchCount
		return nil
	})
}

func (ch *channel) Consume(name, tag string, autoAck, exclusive, _, _ bool, args amqp091.Table) (<-chan amqp091.Delivery, error) {
	var c *consumer
	err := ch.do(func() error {
		q, err := ch.queue(name)
		if err != nil {
			return err
		}
		if tag == "" {
			ch.names++
			tag = fmt.Sprintf("ctag-%d.%d", ch.number, ch.names)
		}
		if ch.consumers[tag] != nil {
			return exception(amqp091.NotAllowed, "NOT_ALLOWED - attempt to reuse consumer tag '%s'", tag)
		}
		if len(q.consumers) > 0 && (exclusive || q.consumers[0].exclusive) {
			return exception(amqp091.AccessRefused, "ACCESS_REFUSED - queue '%s' in vhost '%s' in exclusive use", name, q.host.name)
		}
		c = &consumer{
			channel: ch, queue: q, tag: tag, autoAck: autoAck, exclusive: exclusive, prefetch: ch.prefetch,
			out: make(chan amqp091.Delivery), events: newMailbox(), done: make(chan struct{}),
		}
		if n, ok := canonical(args)["x-priority"].(int64); ok {
			c.priority = n
		}
		if q.stream() {
			if err := c.startStream(canonical(args)["x-stream-offset"]); err != nil {
				return err
			}
		}
		ch.consumers[tag] = c
		q.consumers = append(q.consumers, c)
		q.hadOne = true
		q.touch()
		q.run()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.out, nil
}

func (ch *channel) consumersInOrder() []*consumer {
	all := make([]*consumer, 0, len(ch.consumers))
	for _, c := range ch.consumers {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *consumer) int { return strings.Compare(a.tag, b.tag) })
	return all
}

func (ch *channel) Cancel(tag string, _ bool) error {
	return ch.do(func() error {
		if c := ch.consumers[tag]; c != nil {
			c.remove()
			c.finish()
		}
		return nil
	})
}

// remove takes the consumer off its queue; an auto-delete queue goes with its last.
func (c *consumer) remove() {
	delete(c.channel.consumers, c.tag)
	q := c.queue
	q.consumers = slices.DeleteFunc(q.consumers, func(x *consumer) bool { return x == c })
	if q.gone {
		return
	}
	if q.declared.AutoDelete && q.hadOne && len(q.consumers) == 0 {
		q.host.remove(q)
		return
	}
	q.touch()
	q.run()
}

// finish closes the deliveries after those that are under way.
func (c *consumer) finish() {
	c.events.put(func() { close(c.out) })
	c.events.end()
}

// drop closes the deliveries; those under way are lost to the client.
func (c *consumer) drop() {
	close(c.done)
	c.finish()
}

// cancelled tells the client that its queue is gone.
func (c *consumer) cancelled() {
	delete(c.channel.consumers, c.tag)
	receivers := c.channel.cancels
	c.channel.events.put(func() {
		for _, r := range receivers {
			r <- c.tag
		}
	})
	c.finish()
}

// wants reports whether the consumer takes another message.
func (c *consumer) wants() bool {
	return !c.channel.closed && (c.autoAck || c.prefetch == 0 || c.holds < c.prefetch)
}

// taker is the consumer that gets the next message; nil: none can take one.
func (q *queue) taker() *consumer {
	if q.settings.singleActive && len(q.consumers) > 0 {
		if first := q.consumers[0]; first.wants() {
			return first
		}
		return nil
	}
	var best *consumer
	for _, c := range q.consumers {
		if c.wants() && (best == nil || c.priority > best.priority) {
			best = c
		}
	}
	return best
}

// turn puts a consumer behind the others.
func (q *queue) turn(c *consumer) {
	if q.settings.singleActive {
		return
	}
	q.consumers = append(slices.DeleteFunc(q.consumers, func(x *consumer) bool { return x == c }), c)
}

// take hands an entry to the consumer.
func (c *consumer) take(q *queue, e *entry) {
	d := c.channel.hand(q, e, c, c.autoAck, false)
	c.events.put(func() {
		select {
		case <-c.done:
		default:
			select {
			case c.out <- d:
			case <-c.done:
			}
		}
	})
}

// hand makes the delivery of an entry, which is unacked from now on.
func (ch *channel) hand(q *queue, e *entry, c *consumer, autoAck, get bool) amqp091.Delivery {
	ch.tag++
	e.acquired++
	e.delivered = true
	m := e.message
	q.tell(EventDelivered, m, "")
	if autoAck {
		q.tell(EventAcknowledged, m, "automatically")
	}
	p := m.properties
	out := amqp091.Delivery{
		Acknowledger: ch, Headers: q.headers(e, get), ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		DeliveryMode: p.DeliveryMode, Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo,
		Expiration: p.Expiration, MessageId: p.MessageId, Timestamp: p.Timestamp.Truncate(time.Second), Type: p.Type, UserId: p.UserId,
		AppId: p.AppId, DeliveryTag: ch.tag, Redelivered: e.redelivered, Exchange: m.exchange, RoutingKey: m.keys[0],
		Body: slices.Clone(p.Body),
	}
	if c != nil {
		out.ConsumerTag = c.tag
	} else {
		out.MessageCount = uint32(len(q.ready))
	}
	if autoAck {
		return out
	}
	if !q.stream() {
		q.unacked[e] = true
	}
	ch.unacked[ch.tag] = &delivery{queue: q, entry: e, consumer: c, tag: ch.tag}
	if c != nil {
		c.holds++
	}
	return out
}

func (ch *channel) Get(name string, autoAck bool) (amqp091.Delivery, bool, error) {
	var out amqp091.Delivery
	found := false
	err := ch.do(func() error {
		q, err := ch.queue(name)
		if err != nil {
			return err
		}
		if q.stream() {
			return exception(amqp091.NotImplemented, "NOT_IMPLEMENTED - basic.get not supported by stream queues queue '%s' in vhost '%s'", name, q.host.name)
		}
		q.touch()
		q.run()
		if len(q.ready) == 0 {
			return nil
		}
		e := q.ready[0]
		q.ready = q.ready[1:]
		out, found = ch.hand(q, e, nil, autoAck, true), true
		q.run()
		return nil
	})
	return out, found, err
}

func (ch *channel) Ack(tag uint64, multiple bool) error {
	return ch.settle(tag, multiple, acked, false)
}

func (ch *channel) Nack(tag uint64, multiple, requeue bool) error {
	return ch.settle(tag, multiple, nacked, requeue)
}

func (ch *channel) Reject(tag uint64, requeue bool) error {
	return ch.settle(tag, false, rejected, requeue)
}

// settle ends one delivery, or all up to a tag. The client does not wait for it: an
// unknown tag closes the channel.
func (ch *channel) settle(tag uint64, multiple bool, by how, requeue bool) error {
	return ch.send(func() error {
		f := func() error { return ch.settleNow(tag, multiple, by, requeue) }
		if ch.transacting {
			ch.transaction = append(ch.transaction, f)
			return nil
		}
		return f()
	})
}

func (ch *channel) settleNow(tag uint64, multiple bool, by how, requeue bool) error {
	var tags []uint64
	for t := range ch.unacked {
		if t == tag || multiple && (t < tag || tag == 0) {
			tags = append(tags, t)
		}
	}
	if len(tags) == 0 && (tag != 0 || !multiple) {
		return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag %d", tag)
	}
	slices.Sort(tags)
	var ran []*queue
	for _, t := range tags {
		d := ch.unacked[t]
		delete(ch.unacked, t)
		if d.consumer != nil {
			d.consumer.holds--
		}
		d.queue.settle(d.entry, by, requeue)
		ran = append(ran, d.queue)
	}
	for _, q := range ran {
		q.run()
	}
	return nil
}

// startStream finds where a consumer of a stream begins. It needs a prefetch limit.
func (c *consumer) startStream(offset any) error {
	if c.prefetch == 0 {
		return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue '%s' in vhost '%s'",
			c.queue.name(), c.queue.host.name)
	}
	held := len(c.queue.ready)
	switch o := offset.(type) {
	case int64:
		c.next = int(min(max(o, 0), int64(held)))
	case string:
		switch o {
		case "first":
		case "last":
			c.next = max(held-1, 0)
		case "next":
			c.next = held
		default:
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - invalid stream offset %s", topology.Text(o))
		}
	default:
		c.next = held
	}
	return nil
}

// runStream hands each consumer what it has not seen. A stream keeps everything.
func (q *queue) runStream() {
	for _, c := range slices.Clone(q.consumers) {
		for c.next < len(q.ready) && c.wants() {
			e := *q.ready[c.next]
			c.next++
			d := c.channel.hand(q, &e, c, c.autoAck, false)
			if d.Headers == nil {
				d.Headers = amqp091.Table{}
			}
			d.Headers["x-stream-offset"] = int64(c.next - 1)
			c.events.put(func() {
				select {
				case c.out <- d:
				case <-c.done:
				}
			})
		}
	}
}
