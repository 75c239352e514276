package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/confirm"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
	"github.com/rabbitctl/rabbitctl/specs"
)

// lab is a virtual host for one test: of a real broker, or simulated as a version.
type lab struct {
	*testing.T
	dialer  consumer.Dialer
	version string
	conn    wire.Connection
	policy  func(name, pattern, applyTo string, definition map[string]any)
	broker  *brokertest.Broker // nil: simulated
	sim     *simulator.Broker  // nil: real
	vhost   string

	mu      sync.Mutex
	reports []consumer.Report
}

// eachLab runs a test on the simulator as each version and on every real broker.
func eachLab(t *testing.T, run func(l *lab)) {
	for _, v := range []string{"3.10.8", "4.0.5", "4.3.6"} {
		t.Run("simulated "+v, func(t *testing.T) {
			t.Parallel()
			b := simulator.New(simulator.Version(v), simulator.RealTime())
			l := &lab{T: t, dialer: b.Dialer("/"), version: v, sim: b, vhost: "/"}
			var policies []*topology.Policy
			l.policy = func(name, pattern, applyTo string, definition map[string]any) {
				args, err := topology.CanonicalArguments(definition)
				l.must(err)
				policies = append(policies, &topology.Policy{VirtualHost: "/", Name: name, Pattern: pattern, ApplyTo: applyTo, Definition: args})
				l.must(b.Declare(&topology.Topology{VirtualHosts: []*topology.VirtualHost{{Name: "/", Policies: policies}}}))
			}
			l.start(run)
		})
	}
	t.Run("brokers", func(t *testing.T) {
		brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
			t.Parallel()
			onBroker(t, b, run)
		})
	})
}

func onBroker(t *testing.T, b *brokertest.Broker, run func(l *lab)) {
	vhost := b.VirtualHost(t)
	l := &lab{T: t, dialer: wire.AMQP{URL: b.AMQPURL(vhost)}, version: b.Version, broker: b, vhost: vhost}
	l.policy = func(name, pattern, applyTo string, definition map[string]any) {
		path := "/api/policies/" + url.PathEscape(vhost) + "/" + url.PathEscape(name)
		body := map[string]any{"pattern": pattern, "apply-to": applyTo, "definition": definition}
		if status, answer := b.Do(t, http.MethodPut, path, body); status >= 300 {
			t.Fatalf("put policy: %d %s", status, answer)
		}
	}
	l.start(run)
}

func (l *lab) start(run func(l *lab)) {
	conn, err := l.dialer.Dial(l.Context(), "the test itself")
	l.must(err)
	l.conn = conn
	l.Cleanup(func() { _ = conn.Close() })
	run(l)
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) atLeast(v string) bool {
	have, err := catalog.ParseVersion(l.version)
	l.must(err)
	want, err := catalog.ParseVersion(v)
	l.must(err)
	return !have.Below(want)
}

func (l *lab) channel() wire.Channel {
	l.Helper()
	ch, err := l.conn.Channel()
	l.must(err)
	return ch
}

func (l *lab) on(f func(ch wire.Channel)) {
	l.Helper()
	ch := l.channel()
	defer ch.Close()
	f(ch)
}

func (l *lab) declare(queue, kind string, args amqp091.Table) {
	l.Helper()
	all := amqp091.Table{"x-queue-type": kind}
	for k, v := range args {
		all[k] = v
	}
	l.on(func(ch wire.Channel) {
		_, err := ch.QueueDeclare(queue, true, false, false, false, all)
		l.must(err)
	})
}

// spec makes what a spec says and returns it as a file system.
func (l *lab) spec(text string) fstest.MapFS {
	l.Helper()
	spec, findings := specs.Load(specs.Input{Files: []specs.File{{Name: "spec.yaml", Data: []byte(text)}}})
	if findings.HasErrors() {
		l.Fatalf("the spec: %v", findings)
	}
	v, err := catalog.ParseVersion(l.version)
	l.must(err)
	expanded, findings := spec.Expand(specs.Target{Version: v})
	if findings.HasErrors() {
		l.Fatalf("the spec: %v", findings)
	}
	host := expanded.VirtualHosts[0]
	for _, p := range host.Policies {
		l.policy(p.Name, p.Pattern, p.ApplyTo, map[string]any(p.Definition))
	}
	l.on(func(ch wire.Channel) {
		for _, e := range host.Exchanges {
			l.must(ch.ExchangeDeclare(e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, false, amqp091.Table(e.Arguments)))
		}
		for _, q := range host.Queues {
			if q.Intent != nil && q.Intent.External {
				continue
			}
			args := amqp091.Table{}
			for k, v := range q.Arguments {
				args[k] = v
			}
			if q.Type != "" {
				args["x-queue-type"] = string(q.Type)
			}
			_, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, args)
			l.must(err)
		}
		for _, b := range host.Bindings {
			l.must(ch.QueueBind(b.Destination, b.RoutingKey, b.Source, false, amqp091.Table(b.Arguments)))
		}
	})
	return fstest.MapFS{"spec.yaml": {Data: []byte(text)}}
}

func (l *lab) publish(exchange, key string, options ...func(*amqp091.Publishing)) {
	l.Helper()
	p := amqp091.Publishing{Body: []byte("1"), DeliveryMode: amqp091.Persistent}
	for _, o := range options {
		o(&p)
	}
	l.on(func(ch wire.Channel) {
		c, err := confirm.New(ch)
		l.must(err)
		pending, err := c.Publish(l.Context(), exchange, key, true, p)
		l.must(err)
		l.must(pending.Err())
	})
}

func body(s string) func(*amqp091.Publishing) {
	return func(p *amqp091.Publishing) { p.Body = []byte(s) }
}

func (l *lab) depth(queue string) int {
	l.Helper()
	n := -1
	l.on(func(ch wire.Channel) {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		l.must(err)
		n = q.Messages
	})
	return n
}

// take gets a message that must come soon.
func (l *lab) take(queue string) amqp091.Delivery {
	l.Helper()
	var got amqp091.Delivery
	l.eventually("a message in "+queue, func() bool {
		ok := false
		l.on(func(ch wire.Channel) {
			d, there, err := ch.Get(queue, true)
			l.must(err)
			got, ok = d, there
		})
		return ok
	})
	return got
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

// rests waits until a queue has n messages ready and keeps them for a moment.
func (l *lab) rests(queue string, n int) {
	l.Helper()
	l.eventually(fmt.Sprintf("%d messages in %s", n, queue), func() bool { return l.depth(queue) == n })
	time.Sleep(100 * time.Millisecond)
	if got := l.depth(queue); got != n {
		l.Errorf("%s has %d messages, want %d", queue, got, n)
	}
}

func (l *lab) open(opts ...consumer.Option) (*consumer.Consumer, error) {
	return consumer.OpenWith(l.Context(), l.dialer, append([]consumer.Option{consumer.OnReport(l.noted), consumer.Logger(slog.New(slog.DiscardHandler))}, opts...)...)
}

func (l *lab) noted(r consumer.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, r)
}

func (l *lab) reported(kind consumer.ReportKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.reports {
		if r.Kind == kind {
			n++
		}
	}
	return n
}

// run opens a consumer and runs it until the test ends, or stop is called.
func (l *lab) run(h consumer.Handler, opts ...consumer.Option) (c *consumer.Consumer, stop func() error) {
	l.Helper()
	c, err := l.open(opts...)
	l.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, h) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(60 * time.Second):
				result = errors.New("Run does not end")
			}
		})
		return result
	}
	l.Cleanup(func() {
		if err := stop(); err != nil && !l.Failed() {
			l.Logf("Run: %v", err)
		}
	})
	l.eventually("running", func() bool { return c.Health().State != consumer.StateReady })
	return c, stop
}

// calls records the deliveries that a handler saw.
type calls struct {
	mu  sync.Mutex
	all []*consumer.Delivery
	at  []time.Time
}

func (c *calls) handle(o func(n int, d *consumer.Delivery) consumer.Outcome) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) consumer.Outcome {
		c.mu.Lock()
		c.all, c.at = append(c.all, d), append(c.at, time.Now())
		n := len(c.all)
		c.mu.Unlock()
		return o(n, d)
	}
}

func always(o consumer.Outcome) func(int, *consumer.Delivery) consumer.Outcome {
	return func(int, *consumer.Delivery) consumer.Outcome { return o }
}

func (c *calls) n() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

func (c *calls) list() []*consumer.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*consumer.Delivery(nil), c.all...)
}

func files(text string) consumer.Option {
	return consumer.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte(text)}}, "spec.yaml", "work")
}
