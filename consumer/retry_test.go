package consumer_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

const classicSpec = `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work:
    type: classic
    retry: {max_attempts: 5, delays: [300ms]}
    dead_letter: dead
  dead: {type: classic, role: dead-letter, owner: us}
`

const quorumSpec = `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work:
    type: quorum
    retry: {max_attempts: 3, delays: [300ms]}
    dead_letter: dead
  dead: {type: classic, role: dead-letter, owner: us}
`

var fromSpec = func(l *lab, text string) consumer.Option { return consumer.FromSpec(l.spec(text), "spec.yaml", "work") }

// Row A1.
func TestAckTakesTheMessage(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "quorum", nil)
		l.publish("", "work")
		var seen calls
		_, stop := l.run(seen.handle(always(consumer.Ack())), consumer.Queue("work"))
		l.eventually("a call", func() bool { return seen.n() == 1 })
		l.must(stop())
		l.rests("work", 0)
		if seen.n() != 1 {
			l.Errorf("%d calls", seen.n())
		}
	})
}

// Rows A2, A10 and A29: a quorum queue counts returns, and ends at its limit.
func TestRetryOnQuorumEndsAtTheLimit(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("dead", "classic", nil)
		l.declare("work", "quorum", amqp091.Table{"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.Retry())), consumer.Queue("work"), consumer.QueueType("quorum"))
		d := l.take("dead")
		if seen.n() != 3 {
			l.Errorf("%d calls, want 3", seen.n())
		}
		for i, d := range seen.list() {
			n, known := d.RedeliveryCount()
			if n != i || !known || d.Attempt() != i+1 {
				l.Errorf("call %d: count %d known %t attempt %d", i+1, n, known, d.Attempt())
			}
		}
		deaths := d.Headers["x-death"].([]any)[0].(amqp091.Table)
		if deaths["reason"] != "delivery_limit" || deaths["queue"] != "work" {
			l.Errorf("x-death is %v", deaths)
		}
	})
}

// Row A10: a classic queue tells only that a message was delivered before.
func TestClassicDoesNotCount(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			if n < 3 {
				return consumer.Retry()
			}
			return consumer.Ack()
		}), consumer.Queue("work"))
		l.eventually("three calls", func() bool { return seen.n() == 3 })
		for i, d := range seen.list() {
			if _, known := d.RedeliveryCount(); known || d.Redelivered != (i > 0) {
				l.Errorf("call %d: known %t redelivered %t", i+1, known, d.Redelivered)
			}
		}
	})
}

// Row A3.
func TestDrop(t *testing.T) {
	eachLab(t, func(l *lab) {
		for _, kind := range []string{"classic", "quorum"} {
			l.declare("dead."+kind, "classic", nil)
			l.declare(kind, kind, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead." + kind})
			l.declare("bare."+kind, kind, nil)
			l.publish("", kind)
			l.publish("", "bare."+kind)
			var seen calls
			l.run(seen.handle(always(consumer.Drop(errors.New("bad")))), consumer.Queue(kind))
			l.run(seen.handle(always(consumer.Drop(nil))), consumer.Queue("bare."+kind))
			d := l.take("dead." + kind)
			if reason := d.Headers["x-death"].([]any)[0].(amqp091.Table)["reason"]; reason != "rejected" {
				l.Errorf("%s: reason %v", kind, reason)
			}
			l.eventually("two calls", func() bool { return seen.n() == 2 })
			l.rests("bare."+kind, 0)
		}
	})
}

// Rows A4, A11 and A12: the copies of a classic queue with a cap.
func TestCapOnClassic(t *testing.T) {
	for _, header := range []string{"rabbitctl-attempts", "x-ruststream-retry-count"} {
		t.Run(header, func(t *testing.T) {
			eachLab(t, func(l *lab) {
				options := []consumer.Option{fromSpec(l, classicSpec)}
				if header != "rabbitctl-attempts" {
					options = append(options, consumer.CountHeader(header))
				}
				l.publish("", "work", body("poison"))
				var seen calls
				l.run(seen.handle(always(consumer.Retry())), options...)
				d := l.take("dead")
				if string(d.Body) != "poison" || d.Headers[header] != "5" {
					l.Errorf("the dead copy is %q with %v", d.Body, d.Headers)
				}
				var counts []any
				for i, d := range seen.list() {
					counts = append(counts, d.Headers[header])
					if d.Attempt() != i+1 {
						l.Errorf("call %d is attempt %d", i+1, d.Attempt())
					}
				}
				if want := []any{nil, "1", "2", "3", "4"}; !slices.Equal(counts, want) {
					l.Errorf("counts are %v, want %v", counts, want)
				}
				l.rests("work", 0)
				if q, k := d.Headers["rabbitctl-origin-queue"], d.Headers["rabbitctl-origin-key"]; q != "work" || k != "work" {
					l.Errorf("origin is %v key %v", q, k)
				}
			})
		})
	}
}

// Row A12: what others wrote into the header.
func TestCountHeaderOfOthers(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		for _, c := range []struct {
			value any
			calls int
			bad   int
		}{{"4", 1, 0}, {"abc", 5, 1}, {int32(4), 1, 0}, {int64(-3), 5, 1}, {"99", 1, 0}, {uint8(3), 2, 0}} {
			before := l.reported(consumer.ReportBadCount)
			l.publish("", "work", func(p *amqp091.Publishing) { p.Headers = amqp091.Table{"rabbitctl-attempts": c.value} })
			var seen calls
			_, stop := l.run(seen.handle(always(consumer.Retry())), option)
			l.take("dead")
			l.must(stop())
			if seen.n() != c.calls || l.reported(consumer.ReportBadCount)-before != c.bad {
				l.Errorf("header %v: %d calls and %d reports, want %d and %d", c.value, seen.n(), l.reported(consumer.ReportBadCount)-before, c.calls, c.bad)
			}
		}
	})
}

// Row A11: a cap of one, and what is refused.
func TestCapOfOne(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		l.declare("dead", "classic", nil)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.RetryAfter(time.Hour))), consumer.Queue("work"), consumer.QueueType("classic"), consumer.MaxAttempts(1), consumer.DeadLetterTo("dead"))
		l.take("dead")
		if seen.n() != 1 {
			l.Errorf("%d calls", seen.n())
		}
	})
}

// Rows A5, A18, A22 and A24: RetryAfter through a wait queue, and the cap before any
// delay.
func TestRetryAfterOnClassic(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.RetryAfter(300*time.Millisecond))), option)
		d := l.take("dead")
		if seen.n() != 5 || d.Headers["rabbitctl-attempts"] != "5" {
			l.Errorf("%d calls, header %v", seen.n(), d.Headers["rabbitctl-attempts"])
		}
		for i := 1; i < len(seen.at); i++ {
			if gap := seen.at[i].Sub(seen.at[i-1]); gap < 290*time.Millisecond {
				l.Errorf("attempt %d after %s", i+1, gap)
			}
		}
		l.rests("work", 0)
		l.rests("work.retry", 0)
	})
}

// Row A23: copies and returns of a quorum queue are counted together.
func TestRetryAfterOnQuorum(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   []consumer.Outcome
		reason string
	}{
		{"always after", []consumer.Outcome{consumer.RetryAfter(300 * time.Millisecond)}, "rejected"},
		{"mixed", []consumer.Outcome{consumer.Retry(), consumer.RetryAfter(300 * time.Millisecond), consumer.Retry()}, "rejected"},
		{"at the limit", []consumer.Outcome{consumer.Retry(), consumer.Retry(), consumer.RetryAfter(300 * time.Millisecond)}, "delivery_limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachLab(t, func(l *lab) {
				option := fromSpec(l, quorumSpec)
				l.publish("", "work")
				var seen calls
				l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome { return c.plan[(n-1)%len(c.plan)] }), option)
				d := l.take("dead")
				if seen.n() != 3 {
					l.Errorf("%d calls, want 3", seen.n())
				}
				if reason := d.Headers["x-death"].([]any)[0].(amqp091.Table)["reason"]; reason != c.reason {
					l.Errorf("reason %v, want %s", reason, c.reason)
				}
				for i, d := range seen.list() {
					if d.Attempt() != i+1 {
						l.Errorf("call %d is attempt %d", i+1, d.Attempt())
					}
				}
			})
		})
	}
}

// Rows A20 and A34: without a delay of the broker's the delivery is held, and goes back
// when the consumer stops.
func TestRetryAfterWithoutDelays(t *testing.T) {
	eachLab(t, func(l *lab) {
		for _, kind := range []string{"classic", "quorum"} {
			l.declare(kind, kind, nil)
			l.publish("", kind)
			var seen calls
			_, stop := l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
				if n == 1 {
					return consumer.RetryAfter(400 * time.Millisecond)
				}
				return consumer.RetryAfter(time.Minute)
			}), consumer.Queue(kind))
			l.eventually("two calls", func() bool { return seen.n() == 2 })
			if gap := seen.at[1].Sub(seen.at[0]); gap < 390*time.Millisecond {
				l.Errorf("%s: the second call after %s", kind, gap)
			}
			begin := time.Now()
			l.must(stop())
			if time.Since(begin) > 10*time.Second {
				l.Errorf("stopping took %s", time.Since(begin))
			}
			l.rests(kind, 1)
		}
	})
}

// Row A24: a delay that is not declared is the next longer one, or the longest.
func TestDelaysRounded(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: classic, retry: {max_attempts: 9, delays: [200ms, 900ms]}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			switch n {
			case 1:
				return consumer.RetryAfter(time.Millisecond)
			case 2:
				return consumer.RetryAfter(201 * time.Millisecond)
			case 3:
				return consumer.RetryAfter(time.Hour)
			}
			return consumer.Ack()
		}), option)
		l.eventually("four calls", func() bool { return seen.n() == 4 })
		for i, want := range []time.Duration{200, 900, 900} {
			want *= time.Millisecond
			if gap := seen.at[i+1].Sub(seen.at[i]); gap < want-10*time.Millisecond {
				l.Errorf("attempt %d after %s, want %s", i+2, gap, want)
			}
		}
		if n := l.reported(consumer.ReportDelayRounded); n != 3 {
			l.Errorf("%d reports, want 3", n)
		}
	})
}

// Row C19: a ladder of delays, the first retry at once.
func TestLadder(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: classic, retry: {max_attempts: 4, delays: [200ms, 600ms]}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.RetryLater())), option, consumer.ImmediateRetries(1))
		l.take("dead")
		if seen.n() != 4 {
			l.Fatalf("%d calls, want 4", seen.n())
		}
		for i, want := range []time.Duration{0, 200, 600} {
			want *= time.Millisecond
			gap := seen.at[i+1].Sub(seen.at[i])
			if gap < want-10*time.Millisecond {
				l.Errorf("attempt %d after %s, want %s", i+2, gap, want)
			}
		}
		if n := l.reported(consumer.ReportDelayRounded); n != 0 {
			l.Errorf("%d reports", n)
		}
	})
}

// Row A13: copies that cannot be published.
func TestCopyFails(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		l.declare("dead", "classic", nil)
		l.publish("", "work", body("kept"))
		var seen calls
		c, err := l.open(consumer.Queue("work"), consumer.QueueType("classic"), consumer.MaxAttempts(1), consumer.DeadLetterTo("dead"))
		l.must(err)
		l.on(func(ch wire.Channel) {
			_, err := ch.QueueDelete("dead", false, false, false)
			l.must(err)
		})
		ended := make(chan error, 1)
		go func() { ended <- c.Run(l.Context(), seen.handle(always(consumer.Retry()))) }()
		l.eventually("two failures", func() bool { return l.reported(consumer.ReportCopyFailed) >= 2 })
		l.declare("dead", "classic", nil)
		d := l.take("dead")
		if string(d.Body) != "kept" || d.Headers["rabbitctl-attempts"] != "1" {
			l.Errorf("the dead copy is %q with %v", d.Body, d.Headers)
		}
		l.rests("work", 0)
		c.Stop()
		l.must(<-ended)
	})
}

// Case of row A19: a copy that a full queue refuses goes back.
func TestCopyIntoAFullQueue(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		l.declare("dead", "classic", amqp091.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
		l.publish("", "dead")
		l.publish("", "work", body("kept"))
		var seen calls
		l.run(seen.handle(always(consumer.Retry())), consumer.Queue("work"), consumer.QueueType("classic"), consumer.MaxAttempts(1), consumer.DeadLetterTo("dead"))
		l.eventually("a failure", func() bool { return l.reported(consumer.ReportCopyFailed) >= 1 })
		l.take("dead")
		if d := l.take("dead"); string(d.Body) != "kept" {
			l.Errorf("the dead copy is %q", d.Body)
		}
	})
}

// Row A14: copy and acknowledgement in one transaction.
func TestTransactionalCopies(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		for i := range 5 {
			l.publish("", "work", body(fmt.Sprint(i)))
		}
		var seen calls
		l.run(seen.handle(func(_ int, d *consumer.Delivery) consumer.Outcome {
			if string(d.Body) == "3" {
				return consumer.Ack()
			}
			return consumer.Retry()
		}), option, consumer.CopyPublish(consumer.Transactional))
		l.rests("dead", 4)
		l.rests("work", 0)
		if seen.n() != 4*5+1 {
			l.Errorf("%d calls, want 21", seen.n())
		}
	})
}

// Row A15: what a copy keeps and what it does not.
func TestCopyKeeps(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		sent := amqp091.Publishing{
			Body: []byte{0, 1, 255, 'x'}, ContentType: "application/x-test", ContentEncoding: "gzip", CorrelationId: "c1", ReplyTo: "answers",
			MessageId: "m1", Type: "refund", AppId: "shop", UserId: "guest", Timestamp: time.Unix(1700000000, 0), Priority: 3, Expiration: "60000",
			DeliveryMode: amqp091.Transient,
			Headers: amqp091.Table{
				"binary": []byte{0, 254, 255}, "n": int64(7), "list": []any{"a", int32(1)}, "table": amqp091.Table{"k": true}, "none": nil,
				"x-delivery-count": int64(17), "x-acquired-count": int64(18), "x-own": "kept",
			},
		}
		l.publish("", "work", func(p *amqp091.Publishing) { *p = sent })
		var seen calls
		l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			if n == 1 {
				return consumer.Retry()
			}
			return consumer.DeadLetter("", errors.New("enough"))
		}), option)
		d := l.take("dead")
		if string(d.Body) != string(sent.Body) || d.ContentType != sent.ContentType || d.ContentEncoding != sent.ContentEncoding ||
			d.CorrelationId != "c1" || d.ReplyTo != "answers" || d.MessageId != "m1" || d.Type != "refund" || d.AppId != "shop" ||
			d.UserId != "guest" || !d.Timestamp.Equal(sent.Timestamp) || d.Priority != 3 || d.DeliveryMode != amqp091.Persistent {
			l.Errorf("the copy is %+v", d)
		}
		if d.Expiration != "" {
			l.Errorf("expiration %q", d.Expiration)
		}
		for _, name := range []string{"x-delivery-count", "x-acquired-count"} {
			if v, there := d.Headers[name]; there {
				l.Errorf("header %s is %v", name, v)
			}
		}
		if string(d.Headers["binary"].([]byte)) != string([]byte{0, 254, 255}) || d.Headers["n"] != int64(7) || d.Headers["x-own"] != "kept" {
			l.Errorf("headers are %v", d.Headers)
		}
		if d.Headers["x-opt-dead-letter-reason"] != "enough" {
			l.Errorf("reason is %v", d.Headers["x-opt-dead-letter-reason"])
		}
	})
}
