// Package wire is the part of AMQP 0.9.1 that the consumer and the publisher
// use, so that the same code runs on a real broker and on the simulator. Its
// methods are those of github.com/rabbitmq/amqp091-go, with its types, and mean
// what they mean there.
package wire

import (
	"context"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// Dialer opens connections to one virtual host of one broker.
type Dialer interface {
	// Dial opens a connection. The name is shown by the broker beside it.
	Dial(ctx context.Context, name string) (Connection, error)
	// Clock is the clock by which the broker lives: the machine's, or a
	// simulator's.
	Clock() Clock
	// Username is the user that connections log in as. The broker refuses a
	// message whose user_id is another.
	Username() string
	// VirtualHost is the virtual host.
	VirtualHost() string
	// String names the broker and the virtual host without a password, for
	// messages.
	String() string
}

// Connection is an open connection.
type Connection interface {
	// Channel opens a channel.
	Channel() (Channel, error)
	// ServerVersion is the broker's version as it says it, such as "4.0.5".
	ServerVersion() string
	NotifyClose(receiver chan *amqp091.Error) chan *amqp091.Error
	NotifyBlocked(receiver chan amqp091.Blocking) chan amqp091.Blocking
	IsClosed() bool
	Close() error
}

// Channel is an open channel. *amqp091.Channel is one.
type Channel interface {
	Qos(prefetchCount, prefetchSize int, global bool) error
	Consume(queue, consumer string, autoAck, exclusive, noLocal, noWait bool, args amqp091.Table) (<-chan amqp091.Delivery, error)
	Cancel(consumer string, noWait bool) error
	Get(queue string, autoAck bool) (amqp091.Delivery, bool, error)

	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	Reject(tag uint64, requeue bool) error

	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
	Confirm(noWait bool) error
	GetNextPublishSeqNo() uint64
	Tx() error
	TxCommit() error
	TxRollback() error

	ExchangeDeclare(name, kind string, durable, autoDelete, internal, noWait bool, args amqp091.Table) error
	ExchangeDeclarePassive(name, kind string, durable, autoDelete, internal, noWait bool, args amqp091.Table) error
	ExchangeDelete(name string, ifUnused, noWait bool) error
	ExchangeBind(destination, key, source string, noWait bool, args amqp091.Table) error
	ExchangeUnbind(destination, key, source string, noWait bool, args amqp091.Table) error
	QueueDeclare(name string, durable, autoDelete, exclusive, noWait bool, args amqp091.Table) (amqp091.Queue, error)
	QueueDeclarePassive(name string, durable, autoDelete, exclusive, noWait bool, args amqp091.Table) (amqp091.Queue, error)
	QueueDelete(name string, ifUnused, ifEmpty, noWait bool) (int, error)
	QueueBind(name, key, exchange string, noWait bool, args amqp091.Table) error
	QueueUnbind(name, key, exchange string, args amqp091.Table) error
	QueuePurge(name string, noWait bool) (int, error)

	NotifyClose(receiver chan *amqp091.Error) chan *amqp091.Error
	NotifyCancel(receiver chan string) chan string
	NotifyPublish(confirm chan amqp091.Confirmation) chan amqp091.Confirmation
	NotifyReturn(receiver chan amqp091.Return) chan amqp091.Return
	IsClosed() bool
	Close() error
}

var _ Channel = (*amqp091.Channel)(nil)

// Clock tells the time and waits. It is the machine's clock, or a simulator's
// that stands still until it is advanced.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in a goroutine of its own when d has passed. Stop of the
	// timer prevents it, and reports whether it did.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a call that waits.
type Timer interface{ Stop() bool }

// Sleep waits until d has passed on the clock or the context is done, whose
// cause it returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	woken := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(woken) })
	defer timer.Stop()
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// System is the machine's clock; inside testing/synctest it is the bubble's.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
