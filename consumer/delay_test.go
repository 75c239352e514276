package consumer_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// Row A20: a delay in the process. Stopping in order keeps the message, a crash loses it.
func TestDelayInProcess(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		for _, mode := range []consumer.CopyMode{consumer.Confirmed, consumer.Transactional, consumer.FireAndForget} {
			l.publish("", "work", body("waits"))
			var seen calls
			_, stop := l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
				if n == 1 {
					return consumer.RetryAfter(300 * time.Millisecond)
				}
				return consumer.RetryAfter(time.Minute)
			}), consumer.Queue("work"), consumer.DelayInProcess(), consumer.CopyPublish(mode))
			l.eventually("two calls", func() bool { return seen.n() == 2 })
			if gap := seen.at[1].Sub(seen.at[0]); gap < 290*time.Millisecond {
				l.Errorf("%s: the second call after %s", mode, gap)
			}
			if d := seen.list()[1]; d.Redelivered || d.Attempt() != 2 {
				l.Errorf("%s: the second delivery is redelivered %t attempt %d", mode, d.Redelivered, d.Attempt())
			}
			l.must(stop())
			if d := l.take("work"); string(d.Body) != "waits" || d.Headers["rabbitctl-attempts"] != "2" {
				l.Errorf("%s: %q with %v", mode, d.Body, d.Headers)
			}
		}

		l.publish("", "work", body("lost"))
		tapped := &tap{Dialer: l.dialer}
		var mu sync.Mutex
		var conn wire.Connection
		tapped.before = func(_ string, c wire.Connection) {
			mu.Lock()
			defer mu.Unlock()
			conn = c
		}
		l.dialer = tapped
		var seen calls
		_, stop := l.run(seen.handle(always(consumer.RetryAfter(time.Minute))), consumer.Queue("work"), consumer.DelayInProcess())
		l.eventually("acknowledged", func() bool { return len(tapped.list()) > 0 })
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		_ = conn.Close()
		mu.Unlock()
		l.eventually("the loss reported", func() bool { return l.reported(consumer.ReportCopyFailed) == 1 })
		l.must(stop())
		l.rests("work", 0)
	})
}

// Row A14: copies that go somewhere else.
func TestCopyTo(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, classicSpec)
		if _, err := l.open(option, consumer.CopyTo("elsewhere")); err == nil {
			l.Error("a missing queue was taken")
		}
		l.declare("elsewhere", "classic", nil)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.Retry())), option, consumer.CopyTo("elsewhere"))
		if d := l.take("elsewhere"); d.Headers["rabbitctl-attempts"] != "1" {
			l.Errorf("headers %v", d.Headers)
		}
		l.rests("work", 0)
	})
}

// Row A25: the copy for a delayed exchange. The plugin is not needed to see what is sent: a
// direct exchange of that name hands it on at once.
func TestDelayedExchange(t *testing.T) {
	eachLab(t, func(l *lab) {
		text := `version: 1
vhost: /
requires: {plugins: [rabbitmq_delayed_message_exchange]}
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: classic, retry: {max_attempts: 3, delays: [5s], mechanism: delayed-exchange}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`
		l.declare("work", "classic", nil)
		l.declare("dead", "classic", nil)
		l.on(func(ch wire.Channel) {
			l.must(ch.ExchangeDeclare("work.delay", "direct", true, false, false, false, nil))
			l.must(ch.QueueBind("work", "work", "work.delay", false, nil))
		})
		l.publish("", "work", func(p *amqp091.Publishing) { p.Headers = amqp091.Table{"x-delay": int32(7)} })
		var seen calls
		l.run(seen.handle(always(consumer.RetryAfter(5*time.Second))), files(text))
		l.take("dead")
		all := seen.list()
		if len(all) != 3 || all[1].Exchange != "work.delay" || all[1].Headers["x-delay"] != int64(5000) || all[2].Attempt() != 3 {
			l.Errorf("%d calls, the second by %q with %v", len(all), all[1].Exchange, all[1].Headers)
		}
	})
}

// Row C8: a consumer says that the broker blocks its copies.
func TestBlocked(t *testing.T) {
	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
	l.policy = func(string, string, string, map[string]any) {}
	l.start(func(*lab) {})
	option := fromSpec(l, classicSpec)
	l.publish("", "work")
	release := make(chan struct{})
	c, stop := l.run(func(_ context.Context, d *consumer.Delivery) consumer.Outcome {
		<-release
		if d.Attempt() == 1 {
			return consumer.Retry()
		}
		return consumer.Ack()
	}, option)
	b.Block("low on memory")
	close(release)
	l.eventually("blocked", func() bool {
		return c.Health().Blocked != "" && !c.Health().OK() && l.reported(consumer.ReportBlocked) == 1
	})
	b.Unblock()
	l.eventually("settled", func() bool { return c.Health().OK() && c.Health().InFlight == 0 && l.depth("work") == 0 })
	l.must(stop())
}
