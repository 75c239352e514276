package publisher_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// lab is a virtual host for one test: of a real broker, or simulated.
type lab struct {
	*testing.T
	dialer publisher.Dialer
	conn   wire.Connection
	broker *brokertest.Broker // nil: simulated
	sim    *simulator.Broker  // nil: real
	vhost  string
	cut    func() // resets the publisher's connections
}

func eachLab(t *testing.T, run func(l *lab)) {
	for _, v := range []string{"3.10.8", "4.0.5", "4.3.6"} {
		t.Run("simulated "+v, func(t *testing.T) {
			t.Parallel()
			b := simulator.New(simulator.Version(v), simulator.RealTime())
			l := &lab{T: t, dialer: b.Dialer("/"), sim: b, vhost: "/", cut: b.CutConnections}
			run(l.start())
		})
	}
	t.Run("brokers", func(t *testing.T) {
		brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
			t.Parallel()
			vhost := b.VirtualHost(t)
			proxy := brokertest.Proxy(t, b.AMQPAddress())
			l := &lab{T: t, dialer: wire.AMQP{URL: b.AMQPURL(vhost)}, broker: b, vhost: vhost, cut: proxy.Cut}
			l.start()
			l.dialer = wire.AMQP{URL: strings.Replace(b.AMQPURL(vhost), b.AMQPAddress(), proxy.Address, 1)}
			run(l)
		})
	})
}

func (l *lab) start() *lab {
	conn, err := l.dialer.Dial(l.Context(), "the test itself")
	l.must(err)
	l.conn = conn
	l.Cleanup(func() { _ = conn.Close() })
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) on(f func(ch wire.Channel)) {
	l.Helper()
	if l.conn.IsClosed() {
		l.start()
	}
	ch, err := l.conn.Channel()
	l.must(err)
	defer ch.Close()
	f(ch)
}

func (l *lab) queue(name, kind string, args amqp091.Table) {
	l.Helper()
	all := amqp091.Table{"x-queue-type": kind}
	for k, v := range args {
		all[k] = v
	}
	l.on(func(ch wire.Channel) {
		_, err := ch.QueueDeclare(name, true, false, false, false, all)
		l.must(err)
	})
}

func (l *lab) exchange(name, kind string, args amqp091.Table) {
	l.Helper()
	l.on(func(ch wire.Channel) { l.must(ch.ExchangeDeclare(name, kind, true, false, false, false, args)) })
}

func (l *lab) depth(queue string) (n int) {
	l.Helper()
	l.on(func(ch wire.Channel) {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		l.must(err)
		n = q.Messages
	})
	return n
}

// drain takes everything from a queue.
func (l *lab) drain(queue string) (all []amqp091.Delivery) {
	l.Helper()
	l.on(func(ch wire.Channel) {
		for {
			d, ok, err := ch.Get(queue, true)
			l.must(err)
			if !ok {
				return
			}
			all = append(all, d)
		}
	})
	return all
}

func (l *lab) eventually(what string, f func() bool) {
	l.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !f() {
		if time.Now().After(deadline) {
			l.Fatalf("%s: not within 20 s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *lab) open(opts ...publisher.Option) *publisher.Publisher {
	l.Helper()
	p, err := publisher.OpenWith(l.Context(), l.dialer, append([]publisher.Option{publisher.Logger(slog.New(slog.DiscardHandler))}, opts...)...)
	l.must(err)
	l.Cleanup(func() { _ = p.Close(l.Context()) })
	return p
}
