package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// TestCase36: a message that went round through at-least-once wait queues carries no death
// history along, by which a broker could see a circle and drop it.
func TestCase36(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, strings.Replace(quorumSpec, "max_attempts: 3", "max_attempts: 6", 1))
		l.publish("", "work", func(p *amqp091.Publishing) {
			p.Headers = amqp091.Table{"x-death": []any{amqp091.Table{"queue": "work", "reason": "expired", "count": int64(3), "exchange": "", "routing-keys": []any{"work"}}}, "x-first-death-queue": "work", "x-last-death-reason": "expired"}
		})
		var seen calls
		l.run(seen.handle(always(consumer.RetryAfter(300*time.Millisecond))), option)
		l.take("dead")
		if seen.n() != 6 {
			l.Errorf("%d calls, want 6", seen.n())
		}
		for i, d := range seen.list()[1:] {
			if deaths := d.Deaths(); len(deaths) != 1 || deaths[0].Queue != "work.retry" || deaths[0].Count != 1 {
				l.Errorf("call %d: deaths %+v", i+2, deaths)
			}
		}
	})
}

// TestCase45: five copies by the client are five attempts, whatever x-death says.
func TestCase45(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.RetryAfter(300*time.Millisecond))), option)
		l.take("dead")
		for i, d := range seen.list() {
			if d.Attempt() != i+1 {
				l.Errorf("call %d is attempt %d", i+1, d.Attempt())
			}
		}
		if seen.n() != 5 {
			l.Errorf("%d calls", seen.n())
		}
	})
}

// TestCase52: a reason of a megabyte still fits into the headers of the dead copy.
func TestCase52(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		l.publish("", "work")
		l.run(new(calls).handle(always(consumer.DeadLetter("", errors.New(strings.Repeat("ü", 1<<19))))), option)
		reason, _ := l.take("dead").Headers["x-opt-dead-letter-reason"].(string)
		if len(reason) == 0 || len(reason) > 4096 || !strings.HasPrefix(reason, "üü") || strings.Contains(reason, "\uFFFD") {
			l.Errorf("the reason has %d bytes", len(reason))
		}
		if n := l.reported(consumer.ReportCopyFailed); n != 0 {
			l.Errorf("%d copies failed", n)
		}
	})
}

// TestCase67: a broker that restarts again while consumers come back; all of them resume.
func TestCase67(t *testing.T) {
	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
	l.start(func(*lab) {})
	var all []*consumer.Consumer
	var seen calls
	for i := range 4 {
		name := fmt.Sprint("q", i)
		l.declare(name, "quorum", nil)
		c, _ := l.run(seen.handle(always(consumer.Ack())), consumer.Queue(name))
		all = append(all, c)
	}
	for range 2 {
		b.Stop()
		time.Sleep(150 * time.Millisecond)
		b.Start()
		time.Sleep(100 * time.Millisecond) // some are back, some are not
	}
	for i, c := range all {
		l.eventually("running again", func() bool { return c.Health().OK() })
		conn, err := l.dialer.Dial(t.Context(), "test")
		l.must(err)
		l.conn = conn
		l.publish("", fmt.Sprint("q", i))
	}
	l.eventually("all handled", func() bool { return seen.n() == 4 })
}

// TestCaseH13: the path of what cannot be decoded loses nothing either.
func TestCaseH13(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		c, err := l.open(option, consumer.OnDecodeError(consumer.Settle(consumer.DeadLetter("", nil))))
		l.must(err)
		l.on(func(ch wire.Channel) {
			_, err := ch.QueueDelete("dead", false, false, false)
			l.must(err)
		})
		l.publish("", "work", body("{"))
		ctx, stop := context.WithCancel(l.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(ctx, consumer.JSON(func(context.Context, struct{}, *consumer.Delivery) consumer.Outcome { return consumer.Ack() }))
		}()
		l.eventually("a failure", func() bool { return l.reported(consumer.ReportCopyFailed) >= 1 })
		l.declare("dead", "classic", nil)
		if d := l.take("dead"); string(d.Body) != "{" || !strings.Contains(fmt.Sprint(d.Headers["x-opt-dead-letter-reason"]), "decode JSON") {
			l.Errorf("dead is %q with %v", d.Body, d.Headers)
		}
		l.rests("work", 0)
		stop()
		l.must(<-ended)
	})
}

// Row A35: Declare makes everything once, changes nothing the second time, and says what
// differs.
func TestDeclare(t *testing.T) {
	eachLab(t, func(l *lab) {
		text := `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
exchanges:
  orders: {type: topic}
queues:
  work: {type: quorum, bindings: [{exchange: orders, routing_keys: ["refund.#"]}, {exchange: amq.topic, routing_keys: [a]}], retry: {max_attempts: 3, delays: [1s]}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
  other: {type: classic}
`
		for range 2 {
			c, err := l.open(files(text), consumer.Declare())
			l.must(err)
			l.must(c.Close())
		}
		l.publish("orders", "refund.card")
		l.publish("amq.topic", "a")
		l.rests("work", 2)
		l.on(func(ch wire.Channel) {
			if _, err := ch.QueueDeclarePassive("other", true, false, false, false, nil); err == nil {
				l.Error("a queue that is not needed was declared")
			}
		})
		var wrong *consumer.CheckError
		_, err := l.open(files(strings.Replace(text, "max_attempts: 3", "max_attempts: 4", 1)), consumer.Declare())
		if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Object != `queue "work"` || !strings.Contains(err.Error(), "x-delivery-limit") {
			l.Errorf("the error is %v", err)
		}
		_, err = l.open(files(strings.Replace(text, "settings_by: arguments", "settings_by: policy", 1)), consumer.Declare())
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "settings_by: arguments") {
			l.Errorf("the error is %v", err)
		}
	})
}
