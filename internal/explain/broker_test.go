package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// liveExplainer reads a virtual host as the command does.
func liveExplainer(t *testing.T, b *brokertest.Broker, vhost string) *Explainer {
	t.Helper()
	client, err := broker.New(broker.Options{URL: b.URL, Username: b.Username, Password: b.Password, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	state, err := client.Read(t.Context(), []string{vhost}, broker.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return New(Input{VirtualHost: state.Topology.VirtualHosts[0], Version: state.Version})
}

// TestFailuresOnBrokers is row C13 on real brokers: one message leaves a queue by each
// cause, and is where the explanation says.
func TestFailuresOnBrokers(t *testing.T) {
	const ttl, expires = 200, 1500
	for _, kind := range []string{"classic", "quorum"} {
		brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "dead", amqp.Table{"x-queue-type": "classic"})
			declare := func(name string, more amqp.Table) {
				table := amqp.Table{"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
				for k, v := range more {
					table[k] = v
				}
				b.DeclareQueue(t, vhost, name, table)
			}
			channel := b.Channel(t, vhost)
			get := func(queue string) amqp.Delivery {
				t.Helper()
				var m amqp.Delivery
				brokertest.EventuallyTrue(t, 10*time.Second, "a message in "+queue, func() bool {
					var ok bool
					var err error
					if m, ok, err = channel.Get(queue, false); err != nil {
						t.Fatal(err)
					}
					return ok
				})
				return m
			}
			remove := func(queue string) {
				if status, body := b.Do(t, http.MethodDelete, brokertest.Path("queues", vhost, queue), nil); status/100 != 2 {
					t.Fatalf("%d %s", status, body)
				}
			}
			// Each makes a message leave the queue of its name.
			ways := map[string]func(queue string){
				"rejected": func(queue string) {
					declare(queue, nil)
					b.Publish(t, vhost, "", queue, 1)
					if err := get(queue).Reject(false); err != nil {
						t.Fatal(err)
					}
				},
				"expired": func(queue string) {
					declare(queue, amqp.Table{"x-message-ttl": int64(ttl)})
					b.Publish(t, vhost, "", queue, 1)
				},
				"maxlen": func(queue string) {
					declare(queue, amqp.Table{"x-max-length": int64(1)})
					b.Publish(t, vhost, "", queue, 2)
				},
				"delivery_limit": func(queue string) {
					declare(queue, amqp.Table{"x-delivery-limit": int64(1)})
					b.Publish(t, vhost, "", queue, 1)
					for range 2 {
						if err := get(queue).Reject(true); err != nil {
							t.Fatal(err)
						}
					}
				},
				"queue-expired": func(queue string) {
					declare(queue, amqp.Table{"x-expires": int64(expires)})
					b.Publish(t, vhost, "", queue, 1)
					// Looking for the queue by a passive declare would count as use.
					brokertest.EventuallyTrue(t, 30*time.Second, "the queue is gone", func() bool {
						var list []struct{ Name string }
						b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true", &list)
						return !slices.ContainsFunc(list, func(q struct{ Name string }) bool { return q.Name == queue })
					})
				},
				"queue-deleted": func(queue string) {
					declare(queue, nil)
					b.Publish(t, vhost, "", queue, 1)
					remove(queue)
				},
				"purged": func(queue string) {
					declare(queue, nil)
					b.Publish(t, vhost, "", queue, 1)
					brokertest.Eventually(t, 10*time.Second, func() error {
						if n, err := channel.QueuePurge(queue, false); err != nil || n != 1 {
							return fmt.Errorf("purged %d: %v", n, err)
						}
						return nil
					})
				},
			}
			for _, cause := range []string{"rejected", "expired", "maxlen", "delivery_limit", "queue-expired", "queue-deleted", "purged"} {
				if cause == "delivery_limit" && kind == "classic" {
					continue
				}
				t.Run(kind+"/"+cause, func(t *testing.T) {
					queue := "q-" + cause
					// What the explanation says, of the queue as it is before it goes.
					shape := amqp.Table{}
					switch cause {
					case "expired":
						shape["x-message-ttl"] = int64(ttl)
					case "maxlen":
						shape["x-max-length"] = int64(1)
					case "delivery_limit":
						shape["x-delivery-limit"] = int64(1)
					case "queue-expired":
						shape["x-expires"] = int64(expires)
					}
					declare(queue, shape)
					explained := liveExplainer(t, b, vhost).Queue(queue)
					i := slices.IndexFunc(explained.Failures, func(f Failure) bool { return f.Cause == cause })
					if i < 0 {
						t.Fatalf("nothing is said of %s", cause)
					}
					said := explained.Failures[i]
					ways[cause](queue)
					if said.Outcome != "dead-lettered" {
						if said.Outcome != "dropped" {
							t.Errorf("the explanation says %q", said.Outcome)
						}
						time.Sleep(300 * time.Millisecond)
						if n := b.Depth(t, vhost, "dead"); n != 0 {
							t.Errorf("%d messages were dead-lettered, the explanation says %q", n, said.Text)
						}
						return
					}
					m := b.AwaitMessage(t, vhost, "dead", 10*time.Second)
					deaths, _ := m.Headers["x-death"].([]any)
					if len(deaths) == 0 || deaths[0].(amqp.Table)["reason"] != cause {
						t.Errorf("x-death %v, want %s", deaths, cause)
					}
					if len(said.To) != 1 || said.To[0].Queue != "dead" {
						t.Errorf("the explanation says %+v", said.To)
					}
					if b.HasQueue(t, vhost, queue) {
						remove(queue)
					}
				})
			}
		})
	}
}

// TestPublishOnBrokers publishes and compares with where the messages are, also after
// they died: returned ones, a message through a wait queue and back, and a circle in
// which the broker drops it.
func TestPublishOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareExchange(t, vhost, "orders", "topic", amqp.Table{"alternate-exchange": "rest"})
		b.DeclareExchange(t, vhost, "rest", "fanout", nil)
		b.DeclareExchange(t, vhost, "h", "headers", nil)
		b.DeclareExchange(t, vhost, "alone", "direct", nil)
		for _, q := range []string{"a", "b", "left"} {
			b.DeclareQueue(t, vhost, q, amqp.Table{"x-queue-type": "classic"})
		}
		b.DeclareQueue(t, vhost, "c1", amqp.Table{"x-queue-type": "classic", "x-message-ttl": int64(100), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "c2"})
		b.DeclareQueue(t, vhost, "c2", amqp.Table{"x-queue-type": "classic", "x-message-ttl": int64(100), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "c1"})
		b.DeclareQueue(t, vhost, "wait", amqp.Table{"x-queue-type": "classic", "x-message-ttl": int64(100), "x-dead-letter-exchange": "orders"})
		b.Bind(t, vhost, "orders", "a", "order.#", nil)
		b.Bind(t, vhost, "orders", "b", "*.new", nil)
		b.Bind(t, vhost, "orders", "wait", "later.#", nil)
		b.Bind(t, vhost, "rest", "left", "", nil)
		b.Bind(t, vhost, "h", "b", "", amqp.Table{"x-match": "all", "n": int64(1)})
		e := liveExplainer(t, b, vhost)
		queues := []string{"a", "b", "left"}
		for _, m := range []Message{
			{Exchange: "orders", Key: "order.new"},
			{Exchange: "orders", Key: "order"},
			{Exchange: "orders", Key: "refund"},
			{Exchange: "orders", Key: "refund", CC: []string{"order.x"}},
			{Exchange: "orders", Key: "later.new"},
			{Exchange: "orders", Key: "later.new", CC: []string{"order.x"}},
			{Exchange: "orders", Key: "later"},
			{Exchange: "h", Headers: map[string]any{"n": int64(1)}},
			{Exchange: "h", Headers: map[string]any{"n": "1"}},
			{Exchange: "alone", Key: "k"},
			{Key: "a"},
			{Key: "nobody"},
			{Key: "c1"},
		} {
			t.Run(fmt.Sprintf("%s %s %v %v", m.Exchange, m.Key, m.CC, m.Headers), func(t *testing.T) {
				answer := e.Publish(m)
				want := map[string]int{}
				for _, r := range answer.Routes {
					expect(answer, r, want)
				}
				table := amqp.Table{}
				for k, v := range m.Headers {
					table[k] = v
				}
				if len(m.CC) > 0 {
					list := make([]any, len(m.CC))
					for i, k := range m.CC {
						list[i] = k
					}
					table["CC"] = list
				}
				channel := b.Channel(t, vhost)
				if err := channel.Confirm(false); err != nil {
					t.Fatal(err)
				}
				returned := channel.NotifyReturn(make(chan amqp.Return, 1))
				confirmation, err := channel.PublishWithDeferredConfirmWithContext(t.Context(), m.Exchange, m.Key, true, false, amqp.Publishing{Headers: table, Body: []byte("x")})
				if err != nil || !confirmation.Wait() {
					t.Fatal("not confirmed", err)
				}
				select {
				case <-returned:
					if answer.Reaches() {
						t.Errorf("the broker returned it, the explanation says: %s", answer.Text)
					}
				default:
					if !answer.Reaches() {
						t.Errorf("the broker routed it, the explanation says: %s", answer.Text)
					}
				}
				for _, q := range queues {
					if want[q] > 0 {
						b.AwaitDepth(t, vhost, q, want[q], 10*time.Second)
					}
				}
				time.Sleep(400 * time.Millisecond) // longer than any way through wait queues
				for _, q := range append(slices.Clone(queues), "c1", "c2", "wait") {
					if n := b.Depth(t, vhost, q); n != want[q] {
						t.Errorf("queue %s has %d messages, the explanation says %d: %s", q, n, want[q], describe(answer))
					}
				}
				for _, q := range queues {
					if _, err := b.Channel(t, vhost).QueuePurge(q, false); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	})
}

// expect follows an explanation where nobody consumes: a message stays where nothing
// but a consumer makes it leave.
func expect(p *Publish, r Route, count map[string]int) {
	stage := p.Stages[r.Stage-1]
	for _, f := range stage.Failures {
		if slices.Contains(f.Causes, "expired") {
			for _, next := range f.Routes {
				expect(p, next, count)
			}
			return
		}
	}
	count[r.Queue]++
}

func describe(p *Publish) string {
	lines := []string{p.Outcome + " " + p.Text}
	for _, s := range p.Stages {
		lines = append(lines, fmt.Sprintf("%+v", s))
	}
	return strings.Join(lines, "\n")
}
