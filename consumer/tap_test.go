package consumer_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// tap is a dialer that writes down what a consumer sends, and shows each before it is sent.
type tap struct {
	consumer.Dialer
	mu     sync.Mutex
	frames []string
	before func(frame string, conn wire.Connection)
}

func (t *tap) Dial(ctx context.Context, name string) (wire.Connection, error) {
	c, err := t.Dialer.Dial(ctx, name)
	return &tappedConnection{c, t}, err
}

func (t *tap) see(frame string, conn wire.Connection) {
	t.mu.Lock()
	t.frames = append(t.frames, frame)
	before := t.before
	t.mu.Unlock()
	if before != nil {
		before(frame, conn)
	}
}

func (t *tap) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.frames)
}

type tappedConnection struct {
	wire.Connection
	tap *tap
}

func (c *tappedConnection) Channel() (wire.Channel, error) {
	ch, err := c.Connection.Channel()
	return &tappedChannel{ch, c}, err
}

type tappedChannel struct {
	wire.Channel
	conn *tappedConnection
}

func (c *tappedChannel) see(frame string) { c.conn.tap.see(frame, c.conn.Connection) }

func (c *tappedChannel) Ack(tag uint64, multiple bool) error {
	if multiple {
		c.see("ack multiple")
	} else {
		c.see("ack")
	}
	return c.Channel.Ack(tag, multiple)
}

func (c *tappedChannel) Nack(tag uint64, multiple, requeue bool) error {
	c.see("nack")
	return c.Channel.Nack(tag, multiple, requeue)
}

func (c *tappedChannel) Reject(tag uint64, requeue bool) error {
	if requeue {
		c.see("reject requeue")
	} else {
		c.see("reject")
	}
	return c.Channel.Reject(tag, requeue)
}

func (c *tappedChannel) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, m amqp091.Publishing) error {
	if mandatory {
		c.see("publish mandatory " + key)
	} else {
		c.see("publish " + key)
	}
	return c.Channel.PublishWithContext(ctx, exchange, key, mandatory, immediate, m)
}

func (c *tappedChannel) NotifyPublish(to chan amqp091.Confirmation) chan amqp091.Confirmation {
	from := c.Channel.NotifyPublish(make(chan amqp091.Confirmation))
	go func() {
		defer close(to)
		for r := range from {
			c.see("confirm")
			to <- r
		}
	}()
	return to
}

func (c *tappedChannel) TxCommit() error {
	c.see("commit")
	err := c.Channel.TxCommit()
	c.see("commit-ok")
	return err
}

// Rows A1, A2, A3 and A13: what is sent for each outcome, and in which order.
func TestFrames(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		l.declare("bare", "quorum", nil)
		for _, c := range []struct {
			outcome consumer.Outcome
			option  consumer.Option
			queue   string
			want    []string
		}{
			{consumer.Ack(), consumer.Queue("bare"), "bare", []string{"ack"}},
			{consumer.Retry(), consumer.Queue("bare"), "bare", []string{"reject requeue", "ack"}},
			{consumer.Drop(nil), consumer.Queue("bare"), "bare", []string{"reject"}},
			{consumer.Retry(), option, "work", []string{"publish mandatory work", "confirm", "ack", "ack"}},
			{consumer.RetryAfter(1), option, "work", []string{"publish mandatory work.retry", "confirm", "ack", "ack"}},
			{consumer.DeadLetter("", nil), option, "work", []string{"publish mandatory dead", "confirm", "ack"}},
		} {
			tapped := &tap{Dialer: l.dialer}
			inner := l.dialer
			l.dialer = tapped
			l.publish("", c.queue)
			var seen calls
			_, stop := l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
				if n == 1 {
					return c.outcome
				}
				// The copy may be here before its confirm.
				for range 1000 {
					if len(tapped.list()) >= len(c.want)-1 {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				return consumer.Ack()
			}), c.option)
			l.eventually("all frames", func() bool { return len(tapped.list()) >= len(c.want) })
			l.must(stop())
			if got := tapped.list(); !slices.Equal(got, c.want) {
				l.Errorf("%s: frames are %q, want %q", c.outcome, got, c.want)
			}
			l.dialer = inner
		}
	})
}

// Rows A13 and B15: a connection that is lost between confirm and acknowledgement doubles
// the message and loses none.
func TestCutBetweenConfirmAndAck(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		tapped := &tap{Dialer: l.dialer}
		var once sync.Once
		tapped.before = func(frame string, conn wire.Connection) {
			if frame == "ack" {
				once.Do(func() { _ = conn.Close() })
			}
		}
		l.dialer = tapped
		l.publish("", "work", body("twice"))
		var seen calls
		l.run(seen.handle(always(consumer.DeadLetter("", nil))), option)
		l.rests("dead", 2)
		l.rests("work", 0)
		if seen.n() != 2 || !seen.list()[1].Redelivered {
			l.Errorf("%d calls", seen.n())
		}
	})
}

// Row A14: in a transaction there is never a double: either both happen or neither.
func TestCutAroundCommit(t *testing.T) {
	for frame, calledAgain := range map[string]bool{"commit": true, "commit-ok": false} {
		t.Run(frame, func(t *testing.T) {
			eachLab(t, func(l *lab) {
				option := fromSpec(l, classicSpec)
				tapped := &tap{Dialer: l.dialer}
				var once sync.Once
				tapped.before = func(f string, conn wire.Connection) {
					if f == frame {
						once.Do(func() { _ = conn.Close() })
					}
				}
				l.dialer = tapped
				l.publish("", "work", body("once"))
				var seen calls
				l.run(seen.handle(always(consumer.DeadLetter("", nil))), option, consumer.CopyPublish(consumer.Transactional))
				l.rests("dead", 1)
				l.rests("work", 0)
				if want := map[bool]int{true: 2, false: 1}[calledAgain]; seen.n() != want {
					l.Errorf("%d calls, want %d", seen.n(), want)
				}
			})
		})
	}
}
