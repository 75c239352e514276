package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// Rows A16, A26 and A35: everything that is missing, in one error, and no consumer.
func TestMissingObjects(t *testing.T) {
	eachLab(t, func(l *lab) {
		option := consumer.FromSpec(l.spec(classicSpec), "spec.yaml", "work")
		l.on(func(ch wire.Channel) {
			for _, q := range []string{"work.retry", "dead"} {
				_, err := ch.QueueDelete(q, false, false, false)
				l.must(err)
			}
		})
		begin := time.Now()
		_, err := l.open(option)
		var wrong *consumer.CheckError
		if !errors.As(err, &wrong) || len(wrong.Problems) != 2 {
			l.Fatalf("the error is %v", err)
		}
		if time.Since(begin) > 5*time.Second {
			l.Errorf("it took %s", time.Since(begin))
		}
		for i, name := range []string{`queue "work.retry"`, `queue "dead"`} {
			if wrong.Problems[i].Object != name || !strings.Contains(err.Error(), name) {
				l.Errorf("problem %d is %v", i, wrong.Problems[i])
			}
		}
		l.on(func(ch wire.Channel) {
			q, err := ch.QueueDeclarePassive("work", true, false, false, false, nil)
			l.must(err)
			if q.Consumers != 0 {
				l.Errorf("%d consumers", q.Consumers)
			}
		})
		l.spec(classicSpec)
		c, err := l.open(option)
		l.must(err)
		l.must(c.Close())
	})
}

// Rows A9, A11, A17, A31, A32 and A33: options that cannot be, all at once.
func TestOptionsRefused(t *testing.T) {
	b := simulator.New()
	conn, err := b.Dialer("/").Dial(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"work", "dead"} {
		if _, err := ch.QueueDeclare(q, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ch.QueueDeclare("s", true, false, false, false, amqp091.Table{"x-queue-type": "stream"}); err != nil {
		t.Fatal(err)
	}
	spec := map[string]string{
		"quorum": "version: 1\nvhost: /\nqueues:\n  work: {type: quorum, retry: {max_attempts: 3}, dead_letter: dead}\n  dead: {type: classic, role: dead-letter, owner: us}\n  s: {type: stream}\n",
		"bad":    "version: 1\nvhost: /\nqueues:\n  work: {typ: quorum}\n",
	}
	l := &lab{T: t, dialer: b.Dialer("/")}
	for _, c := range []struct {
		name    string
		options []consumer.Option
		want    []string
	}{
		{"nothing", nil, []string{"no queue is named"}},
		{"prefetch 0", []consumer.Option{consumer.Queue("work"), consumer.Prefetch(0)}, []string{"0 would be unlimited"}},
		{"several", []consumer.Option{consumer.Queue("work"), consumer.Prefetch(-1), consumer.Concurrency(0), consumer.MaxAttempts(0), consumer.Delay(0, "")}, []string{"Prefetch(-1)", "Concurrency(0)", "MaxAttempts(0)", "Delay(0s"}},
		{"cap alone", []consumer.Option{consumer.Queue("work"), consumer.QueueType("classic"), consumer.MaxAttempts(3)}, []string{"no dead-letter queue"}},
		{"dead-letter queue alone", []consumer.Option{consumer.Queue("work"), consumer.QueueType("classic"), consumer.DeadLetterTo("dead")}, []string{"no cap"}},
		{"type unknown", []consumer.Option{consumer.Queue("work"), consumer.MaxAttempts(3), consumer.DeadLetterTo("dead")}, []string{"add QueueType"}},
		{"pair on quorum", []consumer.Option{consumer.Queue("work"), consumer.QueueType("quorum"), consumer.MaxAttempts(3), consumer.DeadLetterTo("dead")}, []string{"delivery-limit 2"}},
		{"copies on quorum", []consumer.Option{consumer.Queue("work"), consumer.QueueType("quorum"), consumer.CopyPublish(consumer.Transactional)}, []string{"no copies are made"}},
		{"two modes", []consumer.Option{consumer.Queue("work"), consumer.CopyPublish(consumer.Transactional), consumer.CopyPublish(consumer.Confirmed)}, []string{"a channel cannot do both"}},
		{"spec and options", []consumer.Option{files(spec["quorum"]), consumer.MaxAttempts(3)}, []string{"the spec says it"}},
		{"mistake in the spec", []consumer.Option{files(spec["bad"])}, []string{"spec.yaml:4", "typ"}},
		{"no such file", []consumer.Option{consumer.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte("")}}, "other.yaml", "work")}, []string{"other.yaml"}},
		{"not in the spec", []consumer.Option{consumer.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte(spec["quorum"])}}, "spec.yaml", "wrk")}, []string{`no such queue; it has "work", "dead", "s"`}},
		{"stream", []consumer.Option{consumer.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte(spec["quorum"])}}, "spec.yaml", "s")}, []string{"stream"}},
		{"queue type", []consumer.Option{consumer.Queue("work"), consumer.QueueType("stream")}, []string{"only classic and quorum"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.open(c.options...)
			var wrong *consumer.CheckError
			if !errors.As(err, &wrong) {
				t.Fatalf("the error is %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, without %q", err, want)
				}
			}
		})
	}
}

// Row A8: a panic ends the consumer and leaves the message, unless the policy says
// otherwise.
func TestPanic(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("dead", "classic", nil)
		l.declare("work", "classic", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		l.publish("", "work", body("bad"))
		broken := func(_ context.Context, d *consumer.Delivery) consumer.Outcome {
			if string(d.Body) == "bad" {
				panic("broken")
			}
			return consumer.Ack()
		}
		c, err := l.open(consumer.Queue("work"))
		l.must(err)
		var panicked *consumer.PanicError
		if err := c.Run(l.Context(), broken); !errors.As(err, &panicked) || panicked.Value != "broken" || len(panicked.Stack) == 0 {
			l.Errorf("Run returned %v", err)
		}
		if s := c.Health().State; s != consumer.StateStopped {
			l.Errorf("state %s", s)
		}
		l.rests("work", 1)
		_, stop := l.run(broken, consumer.Queue("work"), consumer.OnPanic(consumer.Settle(consumer.Drop(nil))))
		if d := l.take("dead"); string(d.Body) != "bad" {
			l.Errorf("dead is %q", d.Body)
		}
		l.publish("", "work", body("good"))
		l.rests("work", 0)
		l.must(stop())
	})
}

// Row A8: errors, no outcome, and bodies that cannot be decoded.
func TestPolicies(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("dead", "classic", nil)
		l.declare("work", "classic", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		type order struct{ ID int }
		var tries atomic.Int64
		h := consumer.JSON(func(_ context.Context, o order, _ *consumer.Delivery) consumer.Outcome {
			if o.ID == 7 && tries.Add(1) == 1 {
				return consumer.Outcome{}
			}
			return consumer.Ack()
		})
		_, stop := l.run(h, consumer.Queue("work"))
		l.publish("", "work", body(`{"ID": 7}`))
		for _, bad := range []string{"{", `{"ID": 7} {}`, ""} {
			l.publish("", "work", body(bad))
			if d := l.take("dead"); string(d.Body) != bad {
				l.Errorf("dead is %q, want %q", d.Body, bad)
			}
		}
		l.rests("work", 0)
		l.must(stop())
		if tries.Load() != 2 || l.reported(consumer.ReportFailed) != 1 || l.reported(consumer.ReportUndecodable) != 3 {
			l.Errorf("%d tries, %v", tries.Load(), l.reports)
		}
		l.publish("", "work")
		failing := consumer.Func(func(context.Context, *consumer.Delivery) error { return errors.New("no database") })
		c, err := l.open(consumer.Queue("work"), consumer.OnError(consumer.FailFast()))
		l.must(err)
		var failed *consumer.HandlerError
		if err := c.Run(l.Context(), failing); !errors.As(err, &failed) || !strings.Contains(err.Error(), "no database") {
			l.Errorf("Run returned %v", err)
		}
		l.rests("work", 1)
	})
}

// Row A9: no more than the prefetch is at the consumer.
func TestPrefetch(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "quorum", nil)
		for range 10 {
			l.publish("", "work")
		}
		release := make(chan struct{})
		c, stop := l.run(func(context.Context, *consumer.Delivery) consumer.Outcome {
			<-release
			return consumer.Ack()
		}, consumer.Queue("work"), consumer.Prefetch(3), consumer.Concurrency(3))
		l.rests("work", 7)
		if n := c.Health().InFlight; n != 3 {
			l.Errorf("%d in flight", n)
		}
		close(release)
		l.rests("work", 0)
		l.must(stop())
	})
}

// Row A6 and design section 8: stopping handles what is here, loses nothing and handles
// nothing twice.
func TestStopInOrder(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "quorum", nil)
		for i := range 20 {
			l.publish("", "work", body(fmt.Sprint(i)))
		}
		var seen calls
		c, stop := l.run(seen.handle(func(int, *consumer.Delivery) consumer.Outcome {
			time.Sleep(50 * time.Millisecond)
			return consumer.Ack()
		}), consumer.Queue("work"), consumer.Prefetch(5))
		l.eventually("a call", func() bool { return seen.n() >= 1 })
		l.must(stop())
		if c.Health().State != consumer.StateStopped {
			l.Errorf("state %s", c.Health().State)
		}
		bodies := map[string]bool{}
		for _, d := range seen.list() {
			if bodies[string(d.Body)] {
				l.Errorf("%q was handled twice", d.Body)
			}
			bodies[string(d.Body)] = true
		}
		l.rests("work", 20-len(bodies))
		if len(bodies) < 5 || len(bodies) > 15 {
			l.Errorf("%d were handled", len(bodies))
		}
	})
}

// What is not handled in time goes back, on RabbitMQ 4.3 without counting as an attempt.
func TestStopTimeout(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.declare("work", "quorum", nil)
		for range 5 {
			l.publish("", "work")
		}
		began := make(chan struct{}, 5)
		_, stop := l.run(func(ctx context.Context, _ *consumer.Delivery) consumer.Outcome {
			began <- struct{}{}
			<-ctx.Done()
			return consumer.Retry()
		}, consumer.Queue("work"), consumer.Prefetch(5), consumer.StopTimeout(200*time.Millisecond))
		<-began
		time.Sleep(200 * time.Millisecond) // all five are at the consumer
		l.must(stop())
		l.rests("work", 5)
		counted := 0
		l.on(func(ch wire.Channel) {
			for range 5 {
				d, ok, err := ch.Get("work", true)
				l.must(err)
				if _, there := d.Headers["x-delivery-count"]; ok && there {
					counted++
				}
			}
		})
		if want := 1; l.atLeast("4.3") && counted != want {
			l.Errorf("%d messages were charged an attempt, want %d", counted, want)
		}
	})
}

// Rows A6 and A7: a connection that is lost while a handler works. Nothing is settled on
// the next channel.
func TestConnectionLost(t *testing.T) {
	run := func(l *lab, cut func()) {
		l.declare("work", "quorum", nil)
		l.publish("", "work", body("1"))
		release := make(chan struct{})
		var seen calls
		c, stop := l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
			if n == 1 {
				<-release
			}
			return consumer.Ack()
		}), consumer.Queue("work"))
		l.eventually("a call", func() bool { return seen.n() == 1 })
		cut()
		l.eventually("the loss noticed", func() bool { return l.reported(consumer.ReportConnection) >= 0 && c.Health().InFlight == 1 })
		time.Sleep(300 * time.Millisecond)
		close(release)
		l.eventually("a second call", func() bool { return seen.n() == 2 })
		l.eventually("settled", func() bool { return c.Health().InFlight == 0 && c.Health().OK() })
		if n := l.reported(consumer.ReportNotSettled); n != 1 {
			l.Errorf("%d reports of what was not settled: %v", n, l.reports)
		}
		if d := seen.list()[1]; !d.Redelivered || d.Attempt() != 2 {
			l.Errorf("the second delivery is redelivered %t attempt %d", d.Redelivered, d.Attempt())
		}
		l.must(stop())
		if n := l.reported(consumer.ReportConnection); n != 1 {
			l.Errorf("%d reports of the connection: %v", n, l.reports)
		}
	}
	t.Run("simulated", func(t *testing.T) {
		b := simulator.New(simulator.RealTime())
		l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
		conn, err := l.dialer.Dial(t.Context(), "test")
		l.must(err)
		l.conn = conn
		run(l, func() {
			b.CutConnections()
			conn, err := l.dialer.Dial(t.Context(), "test")
			l.must(err)
			l.conn = conn
		})
	})
	t.Run("brokers", func(t *testing.T) {
		brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
			t.Parallel()
			proxy := brokertest.Proxy(t, b.AMQPAddress())
			vhost := b.VirtualHost(t)
			l := &lab{T: t, dialer: wire.AMQP{URL: b.AMQPURL(vhost)}, version: b.Version, broker: b, vhost: vhost}
			conn, err := l.dialer.Dial(t.Context(), "test")
			l.must(err)
			defer conn.Close()
			l.conn = conn
			l.dialer = wire.AMQP{URL: strings.Replace(b.AMQPURL(vhost), b.AMQPAddress(), proxy.Address, 1)}
			run(l, proxy.Cut)
		})
	})
}

// A queue that is deleted and made again is consumed again.
func TestQueueDeletedAndMadeAgain(t *testing.T) {
	eachLab(t, func(l *lab) {
		for _, kind := range []string{"classic", "quorum"} {
			l.declare(kind, kind, nil)
			var seen calls
			c, stop := l.run(seen.handle(always(consumer.Ack())), consumer.Queue(kind))
			l.publish("", kind)
			l.eventually("a call", func() bool { return seen.n() == 1 })
			l.on(func(ch wire.Channel) {
				_, err := ch.QueueDelete(kind, false, false, false)
				l.must(err)
			})
			l.eventually("the loss noticed", func() bool { return c.Health().State == consumer.StateReconnecting })
			if err := c.Health().Err; err == nil {
				l.Error("no error")
			}
			l.declare(kind, kind, nil)
			l.publish("", kind)
			l.eventually("a second call", func() bool { return seen.n() == 2 })
			l.eventually("running", func() bool { return c.Health().OK() })
			l.must(stop())
		}
	})
}

// Many consumers share a connection.
func TestManyConsumersOnOneConnection(t *testing.T) {
	eachLab(t, func(l *lab) {
		conn, err := consumer.DialOn(l.Context(), l.dialer, "many")
		l.must(err)
		ctx, cancel := context.WithCancel(l.Context())
		var seen calls
		ended := make(chan error, 5)
		for i := range 5 {
			name := fmt.Sprint("q", i)
			l.declare(name, "classic", nil)
			l.publish("", name)
			c, err := consumer.OpenOn(l.Context(), conn, consumer.Queue(name))
			l.must(err)
			go func() { ended <- c.Run(ctx, seen.handle(always(consumer.Ack()))) }()
		}
		l.eventually("five calls", func() bool { return seen.n() == 5 })
		cancel()
		for range 5 {
			l.must(<-ended)
		}
		l.must(conn.Close())
	})
}

// TestNoGoroutineIsLeft: after Run nothing of the consumer is left.
func TestNoGoroutineIsLeft(t *testing.T) {
	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
	conn, err := l.dialer.Dial(t.Context(), "test")
	l.must(err)
	l.conn = conn
	l.policy = func(string, string, string, map[string]any) {}
	option := fromSpec(l, classicSpec)
	before := runtime.NumGoroutine()
	for range 5 {
		for range 20 {
			l.publish("", "work")
		}
		var seen calls
		_, stop := l.run(seen.handle(always(consumer.Retry())), option, consumer.Concurrency(4))
		l.eventually("calls", func() bool { return seen.n() > 30 })
		b.CutConnections()
		conn, err := l.dialer.Dial(t.Context(), "test")
		l.must(err)
		l.conn = conn
		l.eventually("more calls", func() bool { return seen.n() > 60 })
		l.must(stop())
	}
	l.eventually("no goroutine more than before", func() bool { return runtime.NumGoroutine() <= before+2 }) // of the test's last connection
}
