package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Connect opens an AMQP connection to a virtual host, which is closed when the test ends.
func (b *Broker) Connect(t testing.TB, vhost string) *amqp.Connection {
	t.Helper()
	connection, err := amqp.DialConfig(b.AMQPURL(vhost), amqp.Config{
		Heartbeat:  10 * time.Second,
		Properties: amqp.Table{"connection_name": t.Name()},
	})
	if err != nil {
		t.Fatalf("connect to virtual host %s: %v", vhost, err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// Channel opens a connection and a channel on it.
func (b *Broker) Channel(t testing.TB, vhost string) *amqp.Channel {
	t.Helper()
	channel, err := b.Connect(t, vhost).Channel()
	if err != nil {
		t.Fatalf("open a channel in virtual host %s: %v", vhost, err)
	}
	return channel
}

// on calls f with a channel of a connection of its own, and closes both.
func (b *Broker) on(vhost string, f func(*amqp.Channel) error) error {
	connection, err := amqp.Dial(b.AMQPURL(vhost))
	if err != nil {
		return fmt.Errorf("connect to virtual host %s: %w", vhost, err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	return f(channel)
}

// DeclareQueue declares a durable queue.
func (b *Broker) DeclareQueue(t testing.TB, vhost, name string, arguments amqp.Table) {
	t.Helper()
	err := b.on(vhost, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(name, true, false, false, false, arguments)
		return err
	})
	if err != nil {
		t.Fatalf("declare queue %s: %v", name, err)
	}
}

// DeclareExchange declares a durable exchange.
func (b *Broker) DeclareExchange(t testing.TB, vhost, name, kind string, arguments amqp.Table) {
	t.Helper()
	err := b.on(vhost, func(channel *amqp.Channel) error {
		return channel.ExchangeDeclare(name, kind, true, false, false, false, arguments)
	})
	if err != nil {
		t.Fatalf("declare exchange %s: %v", name, err)
	}
}

// Bind binds a queue to an exchange.
func (b *Broker) Bind(t testing.TB, vhost, exchange, queue, key string, arguments amqp.Table) {
	t.Helper()
	err := b.on(vhost, func(channel *amqp.Channel) error { return channel.QueueBind(queue, key, exchange, false, arguments) })
	if err != nil {
		t.Fatalf("bind queue %s to exchange %s: %v", queue, exchange, err)
	}
}

// Publish publishes n persistent messages, whose bodies are "0", "1", ..., and waits for their confirms. A refused message
// fails the test; one that no queue takes does not. Options change each message before it goes.
func (b *Broker) Publish(t testing.TB, vhost, exchange, key string, n int, options ...func(i int, message *amqp.Publishing)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := b.on(vhost, func(channel *amqp.Channel) error {
		closed := channel.NotifyClose(make(chan *amqp.Error, 1))
		if err := channel.Confirm(false); err != nil {
			return err
		}
		confirms := make([]*amqp.DeferredConfirmation, 0, n)
		for i := range n {
			message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: strconv.AppendInt(nil, int64(i), 10)}
			for _, option := range options {
				option(i, &message)
			}
			confirm, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, message)
			if err != nil {
				return err
			}
			confirms = append(confirms, confirm)
		}
		for i, confirm := range confirms {
			select {
			case <-confirm.Done():
				if confirm.Acked() {
					continue
				}
				select {
				case err := <-closed: // for a missing exchange, say; the client then counts the message as refused
					return fmt.Errorf("message %d: %w", i, err)
				default:
					return fmt.Errorf("message %d was refused", i)
				}
			case <-ctx.Done():
				return fmt.Errorf("message %d: %w", i, ctx.Err())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("publish to exchange %q with key %q: %v", exchange, key, err)
	}
}

// Depth returns the number of ready messages, by passive declare, which alone is always current. Of a stream it is 0.
func (b *Broker) Depth(t testing.TB, vhost, queue string) int {
	t.Helper()
	depth, err := b.depth(vhost, queue)
	if err != nil {
		t.Fatalf("passive declare of queue %s: %v", queue, err)
	}
	return depth
}

func (b *Broker) depth(vhost, queue string) (depth int, err error) {
	err = b.on(vhost, func(channel *amqp.Channel) error {
		state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		depth = state.Messages
		return err
	})
	return depth, err
}

// AwaitDepth waits until the queue has n ready messages.
func (b *Broker) AwaitDepth(t testing.TB, vhost, queue string, n int, timeout time.Duration) {
	t.Helper()
	Eventually(t, timeout, func() error {
		depth, err := b.depth(vhost, queue)
		if err == nil && depth != n {
			err = fmt.Errorf("queue %s has %d ready messages, want %d", queue, depth, n)
		}
		return err
	})
}

// HasQueue tells whether the queue exists.
func (b *Broker) HasQueue(t testing.TB, vhost, queue string) bool {
	t.Helper()
	_, err := b.depth(vhost, queue)
	if missing, ok := errors.AsType[*amqp.Error](err); ok && missing.Code == amqp.NotFound {
		return false
	}
	if err != nil {
		t.Fatalf("passive declare of queue %s: %v", queue, err)
	}
	return true
}

// Message takes the first ready message off a queue; ok is false when there is none.
func (b *Broker) Message(t testing.TB, vhost, queue string) (message amqp.Delivery, ok bool) {
	t.Helper()
	err := b.on(vhost, func(channel *amqp.Channel) (err error) {
		message, ok, err = channel.Get(queue, true)
		return err
	})
	if err != nil {
		t.Fatalf("get from queue %s: %v", queue, err)
	}
	return message, ok
}

// AwaitMessage takes the first message off a queue as soon as there is one.
func (b *Broker) AwaitMessage(t testing.TB, vhost, queue string, timeout time.Duration) (message amqp.Delivery) {
	t.Helper()
	Eventually(t, timeout, func() error {
		var ok bool
		if message, ok = b.Message(t, vhost, queue); !ok {
			return fmt.Errorf("queue %s has no message", queue)
		}
		return nil
	})
	return message
}

// Drain takes every ready message off a queue, in their order.
func (b *Broker) Drain(t testing.TB, vhost, queue string) (all []amqp.Delivery) {
	t.Helper()
	err := b.on(vhost, func(channel *amqp.Channel) error {
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		for {
			select {
			case d := <-deliveries:
				all = append(all, d)
				continue
			case <-time.After(300 * time.Millisecond):
			}
			state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil || state.Messages == 0 && len(deliveries) == 0 {
				return err
			}
		}
	})
	if err != nil {
		t.Fatalf("drain queue %s: %v", queue, err)
	}
	return all
}
