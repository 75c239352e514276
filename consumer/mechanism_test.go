package consumer_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
)

// Row A21: one wait queue, the delay on each copy.
func TestPerMessageDelay(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: classic, retry: {max_attempts: 3, delays: [900ms], mechanism: per-message}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			if n == 1 {
				return consumer.RetryAfter(900 * time.Millisecond)
			}
			return consumer.Ack()
		}), option)
		l.eventually("the copy waits", func() bool { return l.depth("work.retry") == 1 })
		l.eventually("two calls", func() bool { return seen.n() == 2 })
		gap := seen.at[1].Sub(seen.at[0])
		if gap < 890*time.Millisecond {
			l.Errorf("the second call after %s", gap)
		}
		d := seen.list()[1]
		deaths := d.Deaths()
		if d.Exchange != "" || d.RoutingKey != "work" || len(deaths) != 1 || deaths[0].Queue != "work.retry" || deaths[0].Reason != "expired" || deaths[0].Count != 1 {
			l.Errorf("%q %q deaths %+v", d.Exchange, d.RoutingKey, deaths)
		}
		if table := d.Headers["x-death"].([]any)[0].(amqp091.Table); table["original-expiration"] != "900" || d.Headers["rabbitctl-attempts"] != "1" {
			l.Errorf("headers are %v", d.Headers)
		}
	})
}

// Row C21: the broker drives the cycle; drops and the end are copies, since a reject
// would come round again.
func TestRejectCycle(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			eachLab(t, func(l *lab) {
				option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: `+kind+`, retry: {max_attempts: 3, delays: [300ms], mechanism: reject-cycle}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
				l.publish("", "work", body("again"))
				l.publish("", "work", body("bad"))
				var seen calls
				l.run(seen.handle(func(_ int, d *consumer.Delivery) consumer.Outcome {
					if string(d.Body) == "bad" {
						return consumer.Drop(errors.New("no good"))
					}
					if d.Attempt() == 2 {
						return consumer.Retry()
					}
					return consumer.RetryAfter(300 * time.Millisecond)
				}), option)
				if d := l.take("dead"); string(d.Body) != "bad" || d.Headers["rabbitctl-attempts"] != "1" || d.Headers["x-opt-dead-letter-reason"] != "no good" {
					l.Errorf("the dropped copy is %q with %v", d.Body, d.Headers)
				}
				if d := l.take("dead"); string(d.Body) != "again" || d.Headers["rabbitctl-attempts"] != "3" {
					l.Errorf("the last copy is %q with %v", d.Body, d.Headers)
				}
				var attempts []int
				for _, d := range seen.list() {
					if string(d.Body) == "again" {
						attempts = append(attempts, d.Attempt())
					}
				}
				if !slices.Equal(attempts, []int{1, 2, 3}) {
					l.Errorf("attempts are %v", attempts)
				}
				l.rests("work", 0)
				l.rests("work.retry", 0)
			})
		})
	}
}

// Row A28: RabbitMQ 4.3 waits by itself.
func TestDelayedRetry(t *testing.T) {
	eachLab(t, func(l *lab) {
		if !l.atLeast("4.3") {
			return
		}
		option := fromSpec(l, `version: 1
vhost: /
requires: {rabbitmq: ">=4.3"}
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: quorum, retry: {max_attempts: 3, delays: [400ms, 800ms]}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			if n == 1 {
				return consumer.Retry()
			}
			return consumer.RetryAfter(time.Hour)
		}), option)
		d := l.take("dead")
		if reason := d.Headers["x-death"].([]any)[0].(amqp091.Table)["reason"]; seen.n() != 3 || reason != "delivery_limit" {
			l.Fatalf("%d calls, reason %v", seen.n(), reason)
		}
		for i, want := range []time.Duration{400, 800} {
			want *= time.Millisecond
			if gap := seen.at[i+1].Sub(seen.at[i]); gap < want-20*time.Millisecond {
				l.Errorf("attempt %d after %s, want %s", i+2, gap, want)
			}
		}
		if n := l.reported(consumer.ReportDelayRounded); n != 1 {
			l.Errorf("%d reports of a rounded delay: %v", n, l.reports)
		}
	})
}

// Rows B8 and B15: dead letters by category, published and confirmed before the
// acknowledgement.
func TestCategories(t *testing.T) {
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			eachLab(t, func(l *lab) {
				option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work:
    type: `+kind+`
    dead_letter:
      method: republish
      categories:
        header: x-opt-dead-letter-category
        routes:
          transient: {queue: transient, type: classic, owner: platform}
          business: {queue: business, type: classic, owner: sales}
        otherwise: {queue: rest, type: classic, owner: platform}
`)
				for _, c := range []string{"transient", "business", "unheard-of", ""} {
					l.publish("", "work", body(c))
				}
				var seen calls
				l.run(seen.handle(func(_ int, d *consumer.Delivery) consumer.Outcome {
					return consumer.DeadLetter(string(d.Body), errors.New("why "+string(d.Body)))
				}), option, consumer.By("tester"))
				for _, c := range []struct{ queue, category string }{{"transient", "transient"}, {"business", "business"}} {
					d := l.take(c.queue)
					if string(d.Body) != c.category || d.Headers["x-opt-dead-letter-category"] != c.category || d.Headers["x-opt-dead-letter-reason"] != "why "+c.category ||
						d.Headers["x-opt-dead-letter-by"] != "tester" || d.Headers["rabbitctl-origin-queue"] != "work" || d.Headers["x-death"] != nil {
						l.Errorf("%s has %q with %v", c.queue, d.Body, d.Headers)
					}
					if ms, ok := d.Headers["x-opt-dead-letter-time"].(int64); !ok || time.Since(time.UnixMilli(ms)).Abs() > time.Minute {
						l.Errorf("the time is %v", d.Headers["x-opt-dead-letter-time"])
					}
				}
				l.rests("rest", 2)
				l.rests("work", 0)
				if seen.n() != 4 {
					l.Errorf("%d calls", seen.n())
				}
			})
		})
	}
}

// Row B15: DeadLetter where no place is known keeps the message.
func TestDeadLetterWithoutAPlace(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "classic", nil)
		l.publish("", "work")
		var seen calls
		_, stop := l.run(seen.handle(always(consumer.DeadLetter("x", errors.New("y")))), consumer.Queue("work"))
		l.eventually("a report", func() bool { return l.reported(consumer.ReportNoDeadLetter) >= 1 })
		l.must(stop())
		l.rests("work", 1)
	})
}

// A message whose copies and returns are used up is not shown to the handler, whatever the
// queue's limit is.
func TestCapWatchedBeforeTheHandler(t *testing.T) {
	eachLab(t, func(l *lab) {
		text := `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: quorum, retry: {max_attempts: 2}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`
		// Somebody declared the queue without the limit.
		l.declare("dead", "classic", nil)
		l.declare("work", "quorum", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		l.publish("", "work")
		var seen calls
		l.run(seen.handle(always(consumer.Retry())), files(text))
		l.take("dead")
		if seen.n() != 2 || l.reported(consumer.ReportOverCap) != 1 {
			l.Errorf("%d calls, reports %v", seen.n(), l.reports)
		}
	})
}

// Row A15: a user_id that is not the connection's would close the channel.
func TestForeignUserID(t *testing.T) {
	eachLab(t, func(l *lab) {
		if l.broker == nil {
			return // the simulator knows one user
		}
		option := fromSpec(l, classicSpec)
		user, password := l.broker.User(l, l.vhost, "", ".*", ".*", ".*")
		conn, err := amqp091.Dial(l.broker.AMQPURLFor(l.vhost, user, password))
		l.must(err)
		defer conn.Close()
		ch, err := conn.Channel()
		l.must(err)
		l.must(ch.Confirm(false))
		c, err := ch.PublishWithDeferredConfirmWithContext(l.Context(), "", "work", true, false, amqp091.Publishing{UserId: user, Body: []byte("x")})
		l.must(err)
		c.Wait()
		var seen calls
		l.run(seen.handle(always(consumer.Retry())), option)
		if d := l.take("dead"); d.UserId != "" || seen.n() != 5 {
			l.Errorf("user_id %q after %d calls", d.UserId, seen.n())
		}
		if l.reported(consumer.ReportForeignUser) != 1 || l.reported(consumer.ReportConnection) != 0 {
			l.Errorf("reports %v", l.reports)
		}
	})
}

// Row A19: a crash on a classic queue is not counted, on a quorum queue it is.
func TestCrashes(t *testing.T) {
	eachLab(t, func(l *lab) {
		for _, kind := range []string{"classic", "quorum"} {
			work, dead := "work."+kind, "dead."+kind
			text := `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  ` + work + `: {type: ` + kind + `, retry: {max_attempts: 3}, dead_letter: ` + dead + `}
  ` + dead + `: {type: classic, role: dead-letter, owner: us}
`
			fs := l.spec(text)
			l.publish("", work)
			for range 5 {
				if kind == "quorum" && l.depth(work) == 0 {
					break
				}
				c, err := l.open(consumer.FromSpec(fs, "spec.yaml", work))
				l.must(err)
				var seen calls
				// A panic ends the consumer as a crash does: unsettled.
				_ = c.Run(l.Context(), seen.handle(func(int, *consumer.Delivery) consumer.Outcome { panic("crash") }))
				time.Sleep(100 * time.Millisecond)
			}
			if kind == "quorum" {
				l.rests(dead, 1)
				continue
			}
			if d := l.take(work); d.Headers["rabbitctl-attempts"] != nil {
				l.Errorf("headers %v", d.Headers)
			}
		}
	})
}
