package amqp1_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rabbitctl/rabbitctl/consumer/amqp1"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/publisher"
)

// What keeps a consumer from starting.
func TestRefusedToStart(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("s", "stream", nil)
		for queue, want := range map[string]string{"missing/queue": "does not exist", "s": "stream"} {
			var wrong *amqp1.CheckError
			if _, err := l.open(queue); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", queue)) {
				l.Errorf("%s: %v", queue, err)
			}
		}
		_, err := amqp1.Open(l.Context(), l.url, amqp1.Prefetch(0), amqp1.Concurrency(0))
		if err == nil || !strings.Contains(err.Error(), "Prefetch(0)") || !strings.Contains(err.Error(), "Concurrency(0)") || !strings.Contains(err.Error(), "no queue is named") {
			l.Errorf("options: %v", err)
		}
		_, err = amqp1.Open(l.Context(), strings.Replace(l.url, "guest:guest", "guest:hunter2", 1), amqp1.Queue("q"))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			l.Errorf("a wrong password: %v", err)
		}
	})
	brokertest.EachBefore(t, "4.0", func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "work", amqp091.Table{"x-queue-type": "quorum"})
		if _, err := amqp1.Open(t.Context(), b.AMQPURL(vhost), amqp1.Queue("work")); err == nil || !strings.Contains(err.Error(), "before 4.0") {
			t.Errorf("the error is %v", err)
		}
	})
}

// A connection that is lost, a queue that is deleted and made again, and a stop in order
// that leaves no goroutine.
func TestLife(t *testing.T) {
	each(t, func(l *lab) {
		proxy := brokertest.Proxy(l, l.b.AMQPAddress())
		l.queue("a queue/%", "quorum", nil)
		l.url = strings.Replace(l.url, l.b.AMQPAddress(), proxy.Address, 1)
		var seen calls
		c, stop := l.run("a queue/%", seen.handle(func(int) amqp1.Outcome {
			time.Sleep(5 * time.Millisecond)
			return amqp1.Accept()
		}), amqp1.Concurrency(4))
		l.publish("a queue/%", 100)
		l.eventually("some calls", func() bool { return seen.n() > 10 })
		proxy.Cut()
		l.b.AwaitDepth(l, l.vhost, "a queue/%", 0, 20*time.Second)
		l.eventually("all calls", func() bool { return seen.n() >= 100 && c.Health().OK() && c.Health().InFlight == 0 })
		ch := l.b.Channel(l, l.vhost)
		if _, err := ch.QueueDelete("a queue/%", false, false, false); err != nil {
			l.Fatal(err)
		}
		l.eventually("the loss noticed", func() bool { return c.Health().State == amqp1.Reconnecting && c.Health().Err != nil })
		l.queue("a queue/%", "quorum", nil)
		before := seen.n()
		l.publish("a queue/%", 20)
		l.eventually("more calls", func() bool { return seen.n() >= before+5 })
		if err := stop(); err != nil {
			l.Error(err)
		}
		handled := seen.n() - before
		l.eventually(fmt.Sprintf("%d handled, the others of 20 back", handled), func() bool { return l.b.Depth(l, l.vhost, "a queue/%") == 20-handled })
	})
}

func TestNoGoroutineIsLeft(t *testing.T) {
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	l := &lab{T: t, b: b, vhost: vhost, url: b.AMQPURL(vhost)}
	l.queue("work", "quorum", nil)
	before := runtime.NumGoroutine()
	for range 3 {
		l.publish("work", 20)
		var seen calls
		_, stop := l.run("work", seen.handle(always(amqp1.Accept())))
		l.eventually("all calls", func() bool { return seen.n() == 20 })
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	l.eventually("no goroutine more than before", func() bool { return runtime.NumGoroutine() <= before+3 }) // of the broker's HTTP client
}

// A panic ends the consumer and gives the message back.
func TestPanic(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("work", "quorum", nil)
		l.publish("work", 1)
		c, err := l.open("work")
		if err != nil {
			l.Fatal(err)
		}
		var panicked *amqp1.PanicError
		if err := c.Run(l.Context(), func(context.Context, *amqp1.Message) amqp1.Outcome { panic("broken") }); !errors.As(err, &panicked) || panicked.Value != "broken" {
			l.Errorf("Run returned %v", err)
		}
		l.b.AwaitDepth(l, l.vhost, "work", 1, 20*time.Second)
	})
}

// TestTelemetry: the trace of a message that was published over AMQP 0.9.1 goes on here.
func TestTelemetry(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("work", "quorum", nil)
		spans := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		p, err := publisher.Open(t.Context(), l.url, publisher.Telemetry(tracer, nil, propagation.TraceContext{}), publisher.Logger(slog.New(slog.DiscardHandler)))
		if err != nil {
			l.Fatal(err)
		}
		defer p.Close(l.Context())
		if err := p.Publish(l.Context(), "", "work", publisher.Message{}); err != nil {
			l.Fatal(err)
		}
		var seen calls
		_, stop := l.run("work", seen.handle(always(amqp1.Accept())), amqp1.Telemetry(tracer, nil, propagation.TraceContext{}))
		l.eventually("a call", func() bool { return seen.n() == 1 })
		if err := stop(); err != nil {
			l.Error(err)
		}
		all := spans.Ended()
		if len(all) != 2 || all[1].Name() != "process work" || all[1].SpanKind() != trace.SpanKindConsumer || all[1].Parent().SpanID() != all[0].SpanContext().SpanID() {
			l.Errorf("the spans are %v", all)
		}
	})
}
