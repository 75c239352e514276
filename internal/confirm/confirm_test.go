package confirm_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/confirm"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// eachWire runs a test on the simulator as each version and on every real broker.
func eachWire(t *testing.T, run func(t *testing.T, d wire.Dialer)) {
	for _, v := range []string{"3.10", "4.0", "4.3"} {
		t.Run("simulated "+v, func(t *testing.T) { run(t, simulator.New(simulator.Version(v)).Dialer("/")) })
	}
	t.Run("brokers", func(t *testing.T) {
		brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) { run(t, wire.AMQP{URL: b.AMQPURL(b.VirtualHost(t))}) })
	})
}

func open(t *testing.T, d wire.Dialer) (wire.Connection, wire.Channel) {
	t.Helper()
	conn, err := d.Dial(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return conn, ch
}

func declare(t *testing.T, ch wire.Channel, queue string, args amqp091.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
		t.Fatal(err)
	}
}

// TestManyGoroutinesManyResults: a thousand messages from ten goroutines, every
// third one unroutable; each gets its own result.
func TestManyGoroutinesManyResults(t *testing.T) {
	eachWire(t, func(t *testing.T, d wire.Dialer) {
		t.Parallel()
		_, ch := open(t, d)
		declare(t, ch, "q", nil)
		c, err := confirm.New(ch)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 10 {
			wg.Go(func() {
				var all []*confirm.Pending
				for i := range 100 {
					key := "q"
					if i%3 == 0 {
						key = "missing"
					}
					p, err := c.Publish(t.Context(), "", key, true, amqp091.Publishing{Body: []byte(fmt.Sprint(g, i))})
					if err != nil {
						t.Error(err)
						return
					}
					all = append(all, p)
				}
				for i, p := range all {
					var returned *confirm.Returned
					if got := errors.As(p.Err(), &returned); got != (i%3 == 0) {
						t.Errorf("message %d: %v", i, p.Err())
					} else if got && returned.Code != amqp091.NoRoute {
						t.Errorf("message %d: %v", i, returned)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestReturnsFindTheirMessage: messages with one exchange and key that differ only
// in what a headers exchange looks at, half of them unroutable.
func TestReturnsFindTheirMessage(t *testing.T) {
	eachWire(t, func(t *testing.T, d wire.Dialer) {
		t.Parallel()
		_, ch := open(t, d)
		declare(t, ch, "q", nil)
		if err := ch.ExchangeDeclare("h", "headers", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind("q", "", "h", false, amqp091.Table{"x-match": "all", "good": true}); err != nil {
			t.Fatal(err)
		}
		c, err := confirm.New(ch)
		if err != nil {
			t.Fatal(err)
		}
		headers := func(good bool) amqp091.Table {
			return amqp091.Table{
				"good": good, "n": int16(7), "list": []any{int64(1), "a", []byte("b")}, "none": nil,
				"time": time.Unix(1700000000, 0), "table": amqp091.Table{"f": float32(1.5)}, "binary": []byte{0, 1},
			}
		}
		var all []*confirm.Pending
		for i := range 100 {
			p, err := c.Publish(t.Context(), "h", "k", true, amqp091.Publishing{Headers: headers(i%7 == 0)})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		for i, p := range all {
			if got := p.Err() == nil; got != (i%7 == 0) {
				t.Errorf("message %d: %v", i, p.Err())
			}
		}
	})
}

// TestRefusedByAFullQueue: reject-publish is a nack (row C4). Quorum queues take a
// few messages too many.
func TestRefusedByAFullQueue(t *testing.T) {
	eachWire(t, func(t *testing.T, d wire.Dialer) {
		t.Parallel()
		for kind, most := range map[string]int{"classic": 1, "quorum": 3} {
			_, ch := open(t, d)
			declare(t, ch, kind, amqp091.Table{"x-queue-type": kind, "x-max-length": 1, "x-overflow": "reject-publish"})
			c, err := confirm.New(ch)
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			for i := range 10 {
				p, err := c.Publish(t.Context(), "", kind, true, amqp091.Publishing{Body: []byte(strconv.Itoa(i))})
				if err != nil {
					t.Fatal(err)
				}
				var nacked *confirm.Nacked
				switch err := p.Err(); {
				case err == nil:
					taken++
				case !errors.As(err, &nacked) || nacked.Key != kind:
					t.Errorf("%s: %v", kind, err)
				}
			}
			if taken < 1 || taken > most {
				t.Errorf("%s: %d messages taken, want 1 to %d", kind, taken, most)
			}
		}
	})
}

// TestClosedChannel: what has no confirm when the channel closes is unknown, and why
// is said.
func TestClosedChannel(t *testing.T) {
	eachWire(t, func(t *testing.T, d wire.Dialer) {
		t.Parallel()
		_, ch := open(t, d)
		c, err := confirm.New(ch)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Publish(t.Context(), "missing", "k", true, amqp091.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		var unknown *confirm.Unknown
		var cause *amqp091.Error
		if err := p.Err(); !errors.As(err, &unknown) || !errors.As(err, &cause) || cause.Code != amqp091.NotFound {
			t.Errorf("result is %v", err)
		}
		<-c.Done()
		if _, err := c.Publish(t.Context(), "", "q", true, amqp091.Publishing{}); !errors.Is(err, confirm.ErrNotSent) {
			t.Errorf("publish on a closed channel: %v", err)
		}
	})
}

// TestCutInTheMiddle: whatever is confirmed is in the queue (row C2).
func TestCutInTheMiddle(t *testing.T) {
	eachWire(t, func(t *testing.T, d wire.Dialer) {
		t.Parallel()
		conn, ch := open(t, d)
		declare(t, ch, "q", nil)
		c, err := confirm.New(ch)
		if err != nil {
			t.Fatal(err)
		}
		confirmed, unknown := 0, 0
		var all []*confirm.Pending
		for i := range 1000 {
			if i == 500 {
				go conn.Close()
			}
			p, err := c.Publish(t.Context(), "", "q", true, amqp091.Publishing{Body: []byte(strconv.Itoa(i))})
			if err != nil {
				unknown++
				continue
			}
			all = append(all, p)
		}
		for _, p := range all {
			switch err := p.Err(); {
			case err == nil:
				confirmed++
			case confirm.IsUnknown(err):
				unknown++
			default:
				t.Errorf("result is %v", err)
			}
		}
		if confirmed+unknown != 1000 {
			t.Errorf("%d confirmed and %d unknown of 1000", confirmed, unknown)
		}
		_, ch = open(t, d)
		q, err := ch.QueueDeclarePassive("q", true, false, false, false, nil)
		if err != nil || q.Messages < confirmed {
			t.Errorf("%d confirmed, %d in the queue: %v", confirmed, q.Messages, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	b := simulator.New()
	_, ch := open(t, b.Dialer("/"))
	declare(t, ch, "q", nil)
	c, err := confirm.New(ch)
	if err != nil {
		t.Fatal(err)
	}
	b.Block("memory")
	p, err := c.Publish(t.Context(), "", "q", true, amqp091.Publishing{})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, enough)
	defer cancel()
	if err := p.Wait(ctx); !confirm.IsUnknown(err) || !errors.Is(err, enough) {
		t.Errorf("result is %v", err)
	}
}
