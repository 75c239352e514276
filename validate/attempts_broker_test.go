package validate

import (
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// onBrokers calls f for each broker, with a virtual host of its own.
func onBrokers(t *testing.T, f func(t *testing.T, b *brokertest.Broker, vhost string)) {
	t.Helper()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) { f(t, b, b.VirtualHost(t)) })
}

// finds reports whether the rules find a code in objects on a broker's version.
func finds(t *testing.T, b *brokertest.Broker, code string, host *topology.Topology) bool {
	t.Helper()
	version, err := catalog.ParseVersion(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	return len(of(Check(Input{Topology: host, Versions: []catalog.Version{version}}), code)) > 0
}

// makeAll declares objects that the broker must take.
func makeAll(t *testing.T, b *brokertest.Broker, vhost string, objects ...topology.Object) *topology.Topology {
	t.Helper()
	for _, o := range objects {
		if answer, text := declare(t, b, vhost, o); answer != 0 {
			t.Fatalf("declare %s: %d %s", o.Key(), answer, text)
		}
	}
	return hostOf(objects)
}

// limited is the quorum queue "q" with a delivery limit and the route to "dead".
func limited(limit int64) *topology.Queue {
	return q(quorum, args{"x-delivery-limit": limit, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
}

// take gets one message from "q" without acknowledging it.
func take(t *testing.T, channel *amqp.Channel) amqp.Delivery {
	t.Helper()
	var message amqp.Delivery
	brokertest.Eventually(t, 10*time.Second, func() error {
		m, ok, err := channel.Get("q", false)
		if err == nil && !ok {
			err = errNothing
		}
		message = m
		return err
	})
	return message
}

// crash takes n messages from "q" and closes the channel.
func crash(t *testing.T, b *brokertest.Broker, vhost string, n int) {
	t.Helper()
	channel := b.Channel(t, vhost)
	for range n {
		take(t, channel)
	}
	if err := channel.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCrashesCountPerMessage: prefetch-over-limit.
func TestCrashesCountPerMessage(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		host := makeAll(t, b, vhost, dead(), limited(1))
		b.Publish(t, vhost, "", "q", 5)
		crash(t, b, vhost, 5)
		b.AwaitDepth(t, vhost, "q", 5, 10*time.Second)
		crash(t, b, vhost, 5)
		b.AwaitDepth(t, vhost, "dead", 5, 10*time.Second)
		if finds(t, b, "prefetch-over-limit", host) {
			t.Error("found without a consumer")
		}
		host.VirtualHosts[0].Consumers = []*topology.Consumer{{Name: "c", Queue: "q", Prefetch: 5}}
		if !finds(t, b, "prefetch-over-limit", host) {
			t.Error("not found")
		}
	})
}

// TestNackIsNotCounted: nack-not-counted, and limit-counts-returns by reject.
func TestNackIsNotCounted(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		host := makeAll(t, b, vhost, dead(), limited(2))
		give := func(back func(amqp.Delivery) error, times int) {
			b.Publish(t, vhost, "", "q", 1)
			channel := b.Channel(t, vhost)
			for range times {
				if err := back(take(t, channel)); err != nil {
					t.Fatal(err)
				}
			}
		}
		give(func(m amqp.Delivery) error { return m.Reject(true) }, 3)
		b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
		nack := func(m amqp.Delivery) error { return m.Nack(false, true) }
		counts := !b.AtLeast("4.3")
		if counts {
			give(nack, 3)
			b.AwaitDepth(t, vhost, "dead", 2, 10*time.Second)
		} else {
			give(nack, 10)
			b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
		}
		if finds(t, b, "nack-not-counted", host) == counts {
			t.Errorf("nack counts: %v, and nack-not-counted says otherwise", counts)
		}
		if !finds(t, b, "limit-counts-returns", host) {
			t.Error("limit-counts-returns is not found")
		}
	})
}

// TestClassicDoesNotCountCrashes: classic-cap-does-not-count-crashes.
func TestClassicDoesNotCountCrashes(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		makeAll(t, b, vhost, plain())
		b.Publish(t, vhost, "", "q", 1, func(_ int, m *amqp.Publishing) { m.Headers = amqp.Table{"attempts": int64(1)} })
		for range 10 {
			crash(t, b, vhost, 1)
		}
		if m := take(t, b.Channel(t, vhost)); m.Headers["attempts"] != int64(1) || m.Headers["x-delivery-count"] != nil || !m.Redelivered {
			t.Errorf("headers after ten crashes: %v, redelivered %v", m.Headers, m.Redelivered)
		}
	})
}

// TestNotRedeliveredAfterCrash: contract-not-kept.
func TestNotRedeliveredAfterCrash(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		again := true
		promise := &topology.QueueIntent{Contract: &topology.Contract{RedeliveredAfterCrash: &again}}
		none := limited(0)
		none.Intent = promise
		host := makeAll(t, b, vhost, dead(), none)
		b.Publish(t, vhost, "", "q", 1)
		crash(t, b, vhost, 1)
		b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
		if !finds(t, b, "contract-not-kept", host) {
			t.Error("not found with the limit 0")
		}
		remove(t, b, vhost, []topology.Object{none})

		deletes := flagged(classic, true, true)
		deletes.Intent = promise
		host = makeAll(t, b, vhost, deletes)
		b.Publish(t, vhost, "", "q", 1)
		channel := b.Channel(t, vhost)
		if _, err := channel.Consume("q", "", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := channel.Close(); err != nil {
			t.Fatal(err)
		}
		brokertest.EventuallyTrue(t, 10*time.Second, "the queue is deleted", func() bool {
			status, _ := b.Do(t, http.MethodGet, brokertest.Path("queues", vhost, "q"), nil)
			return status == http.StatusNotFound
		})
		if !finds(t, b, "contract-not-kept", host) {
			t.Error("not found on a queue that deletes itself")
		}
	})
}

// TestFullQueueDoesNotDeadLetter: overflow-not-dead-lettered.
func TestFullQueueDoesNotDeadLetter(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		full := q(classic, args{"x-max-length": int64(1), "x-overflow": "reject-publish", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		host := makeAll(t, b, vhost, dead(), full)
		channel := b.Channel(t, vhost) // without confirms
		for range 3 {
			if err := channel.Publish("", "q", false, false, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(300 * time.Millisecond)
		if in, out := b.Depth(t, vhost, "q"), b.Depth(t, vhost, "dead"); in != 1 || out != 0 {
			t.Errorf("%d messages in the queue and %d dead, want 1 and 0", in, out)
		}
		if !finds(t, b, "overflow-not-dead-lettered", host) {
			t.Error("not found")
		}
	})
}

// TestDeadLettersAtMostOnce: what a full target does not take is lost, unless the
// strategy is at-least-once. Where a dead message came from stands in its headers
// (shared-dead-letter-queue).
func TestDeadLettersAtMostOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		target := named("dead", classic, args{"x-max-length": int64(1), "x-overflow": "reject-publish"})
		makeAll(t, b, vhost, target)
		for _, kind := range []topology.QueueType{classic, quorum} {
			source := q(kind, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			makeAll(t, b, vhost, source)
			b.Publish(t, vhost, "", "q", 2)
			channel := b.Channel(t, vhost)
			for range 2 {
				if err := take(t, channel).Reject(false); err != nil {
					t.Fatal(err)
				}
			}
			b.AwaitDepth(t, vhost, "q", 0, 10*time.Second)
			b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
			time.Sleep(300 * time.Millisecond)
			message, ok, err := channel.Get("dead", true)
			if err != nil || !ok || message.Headers["x-first-death-queue"] != "q" {
				t.Errorf("%s: the dead message: %v %v %v", kind, message.Headers, ok, err)
			}
			// Nothing comes once there is room.
			time.Sleep(300 * time.Millisecond)
			if n := b.Depth(t, vhost, "dead"); n != 0 {
				t.Errorf("%s: %d messages came later", kind, n)
			}
			if !finds(t, b, "dead-letter-at-most-once", hostOf([]topology.Object{target, source})) {
				t.Errorf("%s: not found", kind)
			}
			remove(t, b, vhost, []topology.Object{source})
		}
	})
}

// TestStreamWithoutOffset: shovel-stream-without-offset. The plugin is not needed:
// a shovel is a consumer.
func TestStreamWithoutOffset(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		host := makeAll(t, b, vhost, q(stream, nil))
		b.Publish(t, vhost, "", "q", 1)
		for _, offset := range []amqp.Table{nil, {"x-stream-offset": "first"}} {
			channel := b.Channel(t, vhost)
			if err := channel.Qos(10, 0, false); err != nil {
				t.Fatal(err)
			}
			messages, err := channel.Consume("q", "", false, false, false, false, offset)
			if err != nil {
				t.Fatal(err)
			}
			got := false
			select {
			case <-messages:
				got = true
			case <-time.After(2 * time.Second):
			}
			if got != (offset != nil) {
				t.Errorf("with %v the message of before comes: %v", offset, got)
			}
			value := map[string]any{"src-uri": "amqp:///v", "src-queue": "q", "dest-uri": "amqp://elsewhere", "dest-queue": "q"}
			if offset != nil {
				value["src-consumer-args"] = map[string]any(offset)
			}
			host.VirtualHosts[0].Parameters = []*topology.Parameter{{Component: "shovel", Name: "s", Value: value}}
			if finds(t, b, "shovel-stream-without-offset", host) == got {
				t.Errorf("with %v the rule says otherwise", offset)
			}
		}
	})
}

// TestParameterWithoutPlugin: parameter-needs-plugin. The brokers under test have
// neither plugin.
func TestParameterWithoutPlugin(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		value := map[string]any{"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "dead"}
		status, body := b.Do(t, http.MethodPut, brokertest.Path("parameters", "shovel", vhost, "s"), map[string]any{"value": value})
		if status != http.StatusBadRequest {
			t.Errorf("the parameter was answered %d %s", status, body)
		}
		status, body = b.Do(t, http.MethodPost, brokertest.Path("definitions", vhost), map[string]any{
			"parameters": []any{map[string]any{"component": "shovel", "name": "s", "value": value}},
			"queues":     []any{map[string]any{"name": "q", "durable": true, "auto_delete": false, "arguments": map[string]any{}}},
		})
		there, _ := b.Do(t, http.MethodGet, brokertest.Path("queues", vhost, "q"), nil)
		if status != http.StatusBadRequest || there != http.StatusNotFound {
			t.Errorf("the import was answered %d %s, its queue %d", status, body, there)
		}
		host := hostOf(nil)
		host.VirtualHosts[0].Parameters = []*topology.Parameter{{Component: "shovel", Name: "s", Value: value}}
		if !finds(t, b, "parameter-needs-plugin", host) {
			t.Error("not found")
		}
	})
}

// TestDefaultExchangePermission: default-exchange-not-writable.
func TestDefaultExchangePermission(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		for _, write := range []string{"^q$", `^(q|amq\.default)$`} {
			refused := write == "^q$"
			name, password := b.User(t, vhost, "", "^q$", write, "^q$")
			answers := func(what string, f func(*amqp.Channel) error) {
				connection, err := amqp.Dial(b.AMQPURLFor(vhost, name, password))
				if err != nil {
					t.Fatal(err)
				}
				defer connection.Close()
				channel, err := connection.Channel()
				if err != nil {
					t.Fatal(err)
				}
				closed := channel.NotifyClose(make(chan *amqp.Error, 1))
				err = f(channel)
				if err == nil {
					// A publish is answered by what comes next.
					_, err = channel.QueueDeclare("q", true, false, false, false, nil)
				}
				if (err != nil) != refused {
					t.Errorf("%s with write %s: %v", what, write, err)
				}
				if refused {
					if reason := <-closed; reason == nil || reason.Code != amqp.AccessRefused {
						t.Errorf("%s with write %s: %v", what, write, reason)
					}
				}
			}
			routed := q(classic, args{"x-dead-letter-exchange": ""})
			answers("a route by argument", func(c *amqp.Channel) error {
				_, err := c.QueueDeclare("q", true, false, false, false, amqp.Table(routed.Arguments))
				if err == nil {
					_, err = c.QueueDelete("q", false, false, false)
				}
				return err
			})
			makeAll(t, b, vhost, plain())
			answers("a publish by name", func(c *amqp.Channel) error { return c.Publish("", "q", false, false, amqp.Publishing{}) })
			for _, queue := range []*topology.Queue{routed, plain()} {
				host := hostOf([]topology.Object{queue})
				host.VirtualHosts[0].Permissions = []*topology.Permission{{User: name, Configure: "^q$", Write: write, Read: "^q$"}}
				if finds(t, b, "default-exchange-not-writable", host) != refused {
					t.Errorf("with write %s the rule says otherwise", write)
				}
			}
			remove(t, b, vhost, []topology.Object{plain()})
		}
	})
}

// TestMonthOfMaxAge: max-age-in-months.
func TestMonthOfMaxAge(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		host := makeAll(t, b, vhost, q(stream, args{"x-max-age": "1M"}))
		answer, text := declare(t, b, vhost, q(stream, args{"x-max-age": "30D"}))
		if want := b.AtLeast("4.3"); (answer == 0) != want {
			t.Errorf("30D for 1M was answered %d %s", answer, text)
		}
		if answer, _ := declare(t, b, vhost, q(stream, args{"x-max-age": "1m"})); answer != amqp.PreconditionFailed {
			t.Errorf("1m for 1M was answered %d", answer)
		}
		if !finds(t, b, "max-age-in-months", host) {
			t.Error("not found")
		}
	})
}

// TestLiveNeedsNoPluginNote: a broker that is judged as it is has the plugins of its
// parameters; one that a spec goes to may be known not to.
func TestLiveNeedsNoPluginNote(t *testing.T) {
	parameters := []*topology.Parameter{{Component: "federation-upstream", Name: "u", Value: map[string]any{"uri": "amqp://x"}}}
	host := &topology.Topology{VirtualHosts: []*topology.VirtualHost{{Name: "v", Parameters: parameters}}}
	empty := &topology.Topology{VirtualHosts: []*topology.VirtualHost{{Name: "v"}}}
	types := []string{"direct", "fanout", "headers", "topic"}
	v40, v43 := []catalog.Version{catalog.V(4, 0)}, []catalog.Version{catalog.V(4, 3)}
	tests := []struct {
		name string
		in   Input
		want diag.Severity
	}{
		{"a file", Input{Topology: host}, diag.Info},
		{"a broker as it is", Input{Topology: host, ExchangeTypes: types, Versions: v40}, ""},
		{"a spec for a broker without", Input{Topology: host, Live: empty, ExchangeTypes: types, Versions: v40}, diag.Error},
		{"a spec for a broker that may have a part", Input{Topology: host, Live: empty, ExchangeTypes: types, Versions: v43}, diag.Info},
		{"a spec for a broker with", Input{Topology: host, Live: empty, ExchangeTypes: append(types, "x-federation-upstream"), Versions: v40}, diag.Info},
		{"a spec for a broker with parameters", Input{Topology: host, Live: host, ExchangeTypes: types, Versions: v43}, ""},
	}
	for _, test := range tests {
		got := of(Check(test.in), "parameter-needs-plugin")
		switch {
		case test.want == "" && len(got) != 0, test.want != "" && (len(got) != 1 || got[0][:len(test.want)] != string(test.want)):
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
