package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// lab is a virtual host on which a scenario runs: of a real broker, or simulated.
// What is seen is written into the trace, which must be the same on both.
type lab struct {
	t      testing.TB
	dialer wire.Dialer
	conn   wire.Connection
	ch     wire.Channel
	trace  []string

	// pass lets time pass; policy puts a policy for all queues whose name matches.
	pass   func(time.Duration)
	policy func(name, pattern string, definition map[string]any)
	real   bool
	// patience is how long a message of a real broker is waited for.
	patience time.Duration
}

func newLab(t testing.TB, d wire.Dialer) *lab {
	l := &lab{t: t, dialer: d}
	l.reopen()
	t.Cleanup(func() { _ = l.conn.Close() })
	return l
}

// simulated is a lab on a simulated broker of a version.
func simulated(t testing.TB, version string) *lab {
	b := simulator.New(simulator.Version(version))
	l := newLab(t, b.Dialer("/"))
	l.pass = b.Advance
	var policies []*topology.Policy
	l.policy = func(name, pattern string, definition map[string]any) {
		args, err := topology.CanonicalArguments(definition)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, &topology.Policy{VirtualHost: "/", Name: name, Pattern: pattern, ApplyTo: "all", Definition: args})
		if err := b.Declare(&topology.Topology{VirtualHosts: []*topology.VirtualHost{{Name: "/", Policies: slices.Clone(policies)}}}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// onBroker is a lab on a virtual host of a real broker.
func onBroker(t testing.TB, b *brokertest.Broker) *lab {
	vhost := b.VirtualHost(t)
	l := newLab(t, wire.AMQP{URL: b.AMQPURL(vhost)})
	l.real, l.patience = true, 400*time.Millisecond
	l.pass = func(d time.Duration) { time.Sleep(d + d/4 + 50*time.Millisecond) }
	l.policy = func(name, pattern string, definition map[string]any) {
		body := map[string]any{"pattern": pattern, "apply-to": "all", "definition": definition}
		path := "/api/policies/" + url.PathEscape(vhost) + "/" + url.PathEscape(name)
		if status, answer := b.Do(t, http.MethodPut, path, body); status >= 300 {
			t.Fatalf("put policy %s: %d %s", name, status, answer)
		}
	}
	return l
}

func (l *lab) say(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// reopen makes a new channel, on a new connection where the old one is closed.
func (l *lab) reopen() {
	l.t.Helper()
	if l.conn == nil || l.conn.IsClosed() {
		c, err := l.dialer.Dial(l.t.Context(), l.t.Name())
		l.must(err)
		l.conn = c
	}
	ch, err := l.conn.Channel()
	l.must(err)
	l.ch = ch
}

// trouble writes an error of the broker down and opens a new channel when it closed
// the old one.
func (l *lab) trouble(what string, err error) bool {
	l.t.Helper()
	if err == nil {
		return false
	}
	var e *amqp091.Error
	if !errors.As(err, &e) {
		l.t.Fatalf("%s: %v", what, err)
	}
	l.say("%s: %d", what, e.Code)
	if l.ch.IsClosed() {
		l.reopen()
	}
	return true
}

func (l *lab) queue(name, kind string, args amqp091.Table) {
	l.t.Helper()
	all := amqp091.Table{"x-queue-type": kind}
	maps.Copy(all, args)
	_, err := l.ch.QueueDeclare(name, true, false, false, false, all)
	l.trouble("declare queue "+name, err)
}

func (l *lab) exchange(name, kind string, args amqp091.Table) {
	l.t.Helper()
	l.trouble("declare exchange "+name, l.ch.ExchangeDeclare(name, kind, true, false, false, false, args))
}

func (l *lab) bind(queue, key, exchange string, args amqp091.Table) {
	l.t.Helper()
	l.trouble("bind "+queue, l.ch.QueueBind(queue, key, exchange, false, args))
}

// publish publishes with confirm and mandatory on a channel of its own and writes
// down what comes of it.
func (l *lab) publish(exchange, key, body string, options ...func(*amqp091.Publishing)) {
	l.t.Helper()
	ch, err := l.conn.Channel()
	l.must(err)
	defer ch.Close()
	l.must(ch.Confirm(false))
	confirms := ch.NotifyPublish(make(chan amqp091.Confirmation, 1))
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	closed := ch.NotifyClose(make(chan *amqp091.Error, 1))
	p := amqp091.Publishing{Body: []byte(body), DeliveryMode: amqp091.Persistent}
	for _, o := range options {
		o(&p)
	}
	l.must(ch.PublishWithContext(context.Background(), exchange, key, true, false, p))
	select {
	case c, ok := <-confirms:
		if !ok {
			l.say("publish %s: channel closed with %d", body, (<-closed).Code)
			return
		}
		word := "ack"
		if !c.Ack {
			word = "nack"
		}
		select {
		case r := <-returns:
			word += fmt.Sprintf(" after return %d", r.ReplyCode)
		default:
		}
		l.say("publish %s: %s", body, word)
	case <-time.After(10 * time.Second):
		l.t.Fatalf("publish %s: no confirm", body)
	}
}

// get takes the next message of a queue, on a real broker with some patience, and
// writes it down.
func (l *lab) get(queue string) (amqp091.Delivery, bool) {
	l.t.Helper()
	deadline := time.Now().Add(l.patience)
	for {
		d, ok, err := l.ch.Get(queue, false)
		if l.trouble("get "+queue, err) {
			return d, false
		}
		if ok || !l.real || time.Now().After(deadline) {
			if !ok {
				l.say("get %s: empty", queue)
				return d, false
			}
			l.say("get %s: %s", queue, show(d))
			return d, true
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (l *lab) reject(d amqp091.Delivery, requeue bool) {
	l.t.Helper()
	l.must(l.ch.Reject(d.DeliveryTag, requeue))
	l.settle()
}

func (l *lab) nack(d amqp091.Delivery, requeue bool) {
	l.t.Helper()
	l.must(l.ch.Nack(d.DeliveryTag, false, requeue))
	l.settle()
}

// settle gives a real broker the moment that a settlement takes, which no answer
// tells of: a request on the same channel comes after it.
func (l *lab) settle() {
	l.t.Helper()
	l.must(l.ch.Qos(0, 0, false))
	if l.real {
		time.Sleep(30 * time.Millisecond)
	}
}

// show writes a delivery down in a fixed form, without times.
func show(d amqp091.Delivery) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q from %q key %q", d.Body, d.Exchange, d.RoutingKey)
	if d.Redelivered {
		b.WriteString(" redelivered")
	}
	if d.Expiration != "" {
		fmt.Fprintf(&b, " expiration %s", d.Expiration)
	}
	for _, k := range slices.Sorted(maps.Keys(d.Headers)) {
		fmt.Fprintf(&b, " %s=%s", k, showValue(d.Headers[k]))
	}
	return b.String()
}

func showValue(v any) string {
	switch v := v.(type) {
	case amqp091.Table:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "time" {
				parts = append(parts, k+":"+showValue(v[k]))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, showValue(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}
