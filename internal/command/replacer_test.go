package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/replace"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// replaceOn replaces queues of a virtual host, with the statistics of brokers under
// test, which are late by less than others. address is another way to its AMQP
// listener; "": none.
func replaceOn(t *testing.T, b *brokertest.Broker, vhost, address string) *replacer {
	t.Helper()
	if address == "" {
		address = b.AMQPAddress()
	}
	c, err := broker.New(broker.Options{
		URL: b.URL, AMQPURL: "amqp://" + address, Username: b.Username, Password: b.Password,
		Timeout: 20 * time.Second, StatisticsLag: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w, err := c.Writer(t.Context(), []string{vhost}, broker.ViaAMQP)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return &replacer{Broker: w, writer: w, client: c}
}

func queueOf(vhost, name string, kind topology.QueueType, arguments topology.Arguments) *topology.Queue {
	return &topology.Queue{VirtualHost: vhost, Name: name, Type: kind, Durable: true, Arguments: arguments}
}

func typed(kind topology.QueueType, arguments amqp.Table) amqp.Table {
	all := amqp.Table{"x-queue-type": string(kind)}
	for k, v := range arguments {
		all[k] = v
	}
	return all
}

// wantClean checks that a replacement left nothing behind.
func wantClean(t *testing.T, b *brokertest.Broker, vhost string) {
	t.Helper()
	for _, kind := range []string{"queues", "exchanges"} {
		var list []struct{ Name string }
		b.Get(t, brokertest.Path(kind, vhost), &list)
		for _, o := range list {
			if strings.HasPrefix(o.Name, "rabbitctl.") {
				t.Errorf("%s %q is left", kind, o.Name)
			}
		}
	}
}

func wantType(t *testing.T, b *brokertest.Broker, vhost, queue string, kind topology.QueueType) {
	t.Helper()
	var q struct{ Type string }
	b.Get(t, brokertest.Path("queues", vhost, queue), &q)
	if q.Type != string(kind) {
		t.Errorf("queue %q is of type %s, want %s", queue, q.Type, kind)
	}
}

// steadily publishes with confirms and mandatory, rate messages a second, until it is
// stopped; it returns the ids of those that were confirmed and not returned.
func steadily(t *testing.T, b *brokertest.Broker, vhost, exchange, key string, rate int) (stop func() (confirmed []string, sent int)) {
	t.Helper()
	ch := b.Channel(t, vhost)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	returned := map[string]bool{}
	var mu sync.Mutex
	returns := ch.NotifyReturn(make(chan amqp.Return, 1000))
	go func() {
		for r := range returns {
			mu.Lock()
			returned[r.MessageId] = true
			mu.Unlock()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	type sent struct {
		id      string
		confirm *amqp.DeferredConfirmation
	}
	done := make(chan []sent, 1)
	go func() {
		var all []sent
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; {
			select {
			case <-ctx.Done():
				done <- all
				return
			case <-tick.C:
			}
			for range rate / 100 {
				id := "new-" + strconv.Itoa(i)
				c, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent})
				if err != nil {
					t.Error(err)
					done <- all
					return
				}
				all = append(all, sent{id, c})
				i++
			}
		}
	}()
	return func() ([]string, int) {
		cancel()
		all := <-done
		var confirmed []string
		for _, s := range all {
			if acked, err := s.confirm.WaitContext(t.Context()); err == nil && acked {
				confirmed = append(confirmed, s.id)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(confirmed, func(id string) bool { return returned[id] }), len(all)
	}
}

var changes = []struct{ from, to topology.QueueType }{{topology.Classic, topology.Quorum}, {topology.Quorum, topology.Classic}}

// TestReplaceUnderLoad is case H3: what comes in through an exchange at 1000 messages
// a second while a queue is replaced is there afterwards, what was there before is in
// its order, bindings of others are restored.
func TestReplaceUnderLoad(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, c := range changes {
			t.Run(string(c.from)+" to "+string(c.to), func(t *testing.T) {
				vhost := b.VirtualHost(t)
				b.DeclareExchange(t, vhost, "in", "topic", nil)
				b.DeclareQueue(t, vhost, "q", typed(c.from, nil))
				b.Bind(t, vhost, "in", "q", "order.#", nil)
				b.Bind(t, vhost, "amq.headers", "q", "", amqp.Table{"x-match": "all", "kind": "foreign", "n": int64(3)})
				b.Publish(t, vhost, "in", "order.old", 500, func(i int, m *amqp.Publishing) { m.MessageId = fmt.Sprintf("old-%03d", i) })

				stop := steadily(t, b, vhost, "in", "order.new", 1000)
				begun := time.Now()
				report, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), replace.Job{
					Queue: queueOf(vhost, "q", c.to, nil),
					Reached: func(s replace.Step) error {
						t.Logf("after %s: %s", time.Since(begun).Round(time.Millisecond), s)
						return nil
					},
				})
				confirmed, sent := stop()
				if err != nil {
					t.Fatal(err)
				}
				count := map[string]int{}
				var old []string
				for _, d := range b.Drain(t, vhost, "q") {
					if count[d.MessageId]++; strings.HasPrefix(d.MessageId, "old-") {
						old = append(old, d.MessageId)
						if d.RoutingKey != "order.old" {
							t.Fatalf("routing key %q", d.RoutingKey)
						}
					}
				}
				lost, twice := 0, 0
				for _, id := range confirmed {
					switch n := count[id]; {
					case n == 0:
						lost++
					case n > 1:
						twice++
					}
				}
				t.Logf("%d sent, %d confirmed, %d lost, %d twice; report %+v", sent, len(confirmed), lost, twice, report)
				if lost > 0 || len(confirmed) != sent {
					t.Errorf("%d of %d confirmed messages are lost, %d were not confirmed", lost, len(confirmed), sent-len(confirmed))
				}
				if int64(twice) > report.Twice {
					t.Errorf("%d messages are there twice, the report says at most %d", twice, report.Twice)
				}
				if len(old) != 500 || !slices.IsSorted(old) {
					t.Errorf("%d old messages, sorted: %t", len(old), slices.IsSorted(old))
				}
				b.Publish(t, vhost, "amq.headers", "", 1, func(_ int, m *amqp.Publishing) { m.Headers = amqp.Table{"kind": "foreign", "n": int64(3)} })
				b.AwaitDepth(t, vhost, "q", 1, 5*time.Second)
				wantType(t, b, vhost, "q", c.to)
				wantClean(t, b, vhost)
			})
		}
	})
}

var errKilled = errors.New("killed")

// TestReplaceKilledAfterEachStep is case H4: the run ends after each step, messages come
// in, and the next run continues: nothing is lost.
func TestReplaceKilledAfterEachStep(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for i, step := range replace.Steps {
			t.Run(string(step), func(t *testing.T) {
				t.Parallel()
				c := changes[i%2]
				vhost := b.VirtualHost(t)
				b.DeclareQueue(t, vhost, "q", typed(c.from, nil))
				b.Bind(t, vhost, "amq.topic", "q", "a.#", nil)
				b.Publish(t, vhost, "amq.topic", "a.old", 250, func(i int, m *amqp.Publishing) { m.MessageId = fmt.Sprintf("old-%03d", i) })
				policy := &topology.Policy{
					VirtualHost: vhost, Name: "rabbitctl:q", Pattern: "^q$", ApplyTo: "queues", Priority: 1,
					Definition: topology.Arguments{"max-length": int64(1000000), "overflow": "reject-publish"},
				}
				job := replace.Job{Queue: queueOf(vhost, "q", c.to, nil), Policies: []topology.Object{policy}}
				killed := job
				killed.Reached = func(s replace.Step) error {
					if s == step {
						return errKilled
					}
					return nil
				}
				if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), killed); !errors.Is(err, errKilled) {
					t.Fatalf("the run ended with %v", err)
				}
				b.Publish(t, vhost, "amq.topic", "a.new", 50, func(i int, m *amqp.Publishing) { m.MessageId = fmt.Sprintf("new-%03d", i) })
				if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job); err != nil {
					t.Fatal(err)
				}
				count := map[string]int{}
				var old []string
				for _, d := range b.Drain(t, vhost, "q") {
					if count[d.MessageId]++; strings.HasPrefix(d.MessageId, "old-") {
						old = append(old, d.MessageId)
					}
				}
				if len(count) != 300 {
					t.Errorf("%d of 300 messages are there", len(count))
				}
				if len(old) != 250 || !slices.IsSorted(old) {
					t.Errorf("%d old messages, sorted: %t", len(old), slices.IsSorted(old))
				}
				wantType(t, b, vhost, "q", c.to)
				wantClean(t, b, vhost)
				b.Publish(t, vhost, "amq.topic", "a.b", 1)
				b.AwaitDepth(t, vhost, "q", 1, 5*time.Second)
			})
		}
	})
}

// refused runs a replacement that must be refused.
func refused(t *testing.T, r *replacer, q *topology.Queue, says string) {
	t.Helper()
	report, err := replace.Run(t.Context(), r, replace.Job{Queue: q})
	var refusal *replace.Refusal
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), says) {
		t.Fatalf("%+v, error %v, want a refusal that says %q", report, err, says)
	}
}

// TestReplaceRefuses: what could lose something is refused before anything is changed.
func TestReplaceRefuses(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		t.Run("waiting to be dead-lettered", func(t *testing.T) { // rows B13 and B14
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", typed(topology.Quorum, amqp.Table{
				"x-dead-letter-exchange": "missing", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			}))
			b.Publish(t, vhost, "", "q", 1)
			ch := b.Channel(t, vhost)
			d, ok, err := ch.Get("q", false)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
			r := replaceOn(t, b, vhost, "")
			q := queueOf(vhost, "q", topology.Classic, nil)
			brokertest.Eventually(t, 20*time.Second, func() error {
				if n, err := r.DeadLettering(t.Context(), q); n != 1 || err != nil {
					return fmt.Errorf("%d wait, %v", n, err)
				}
				return nil
			})
			refused(t, r, q, "1 message is still waiting to be dead-lettered")
			wantClean(t, b, vhost)
			b.DeclareExchange(t, vhost, "missing", "fanout", nil)
			b.DeclareQueue(t, vhost, "dead", nil)
			b.Bind(t, vhost, "missing", "dead", "", nil)
			if !b.HasQueue(t, vhost, "q") {
				t.Error("the queue is gone")
			}
		})
		t.Run("policy on the holding queue", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", nil)
			b.Put(t, brokertest.Path("policies", vhost, "all"), map[string]any{"pattern": ".*", "definition": map[string]any{"max-length": 10}})
			refused(t, replaceOn(t, b, vhost, ""), queueOf(vhost, "q", topology.Quorum, nil), `max-length 10 by policy "all"`)
			wantClean(t, b, vhost)
		})
		t.Run("arguments that the broker refuses", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", nil)
			q := queueOf(vhost, "q", topology.Quorum, topology.Arguments{"x-max-priority": int64(5)})
			if !b.AtLeast("4.0") {
				q.Arguments = topology.Arguments{"x-max-length": "many"}
			}
			if b.AtLeast("4.3") {
				q.Arguments = topology.Arguments{"x-overflow": "sometimes"}
			}
			_, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), replace.Job{Queue: q})
			if err == nil || !strings.Contains(err.Error(), "does not take the new queue") {
				t.Errorf("error %v", err)
			}
			wantClean(t, b, vhost)
			wantType(t, b, vhost, "q", topology.Classic)
		})
		t.Run("consumer in the middle", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", nil)
			b.Bind(t, vhost, "amq.topic", "q", "#", nil)
			b.Publish(t, vhost, "amq.topic", "a", 20)
			ch := b.Channel(t, vhost)
			job := replace.Job{Queue: queueOf(vhost, "q", topology.Quorum, nil), Reached: func(s replace.Step) error {
				if s != replace.Unbound {
					return nil
				}
				if err := ch.Qos(5, 0, false); err != nil {
					return err
				}
				_, err := ch.Consume("q", "late", false, false, false, false, nil)
				return err
			}}
			_, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job)
			if err == nil || !strings.Contains(err.Error(), "1 consumer takes its messages") || !strings.Contains(err.Error(), "the same command continues") {
				t.Errorf("error %v", err)
			}
			b.Publish(t, vhost, "amq.topic", "a", 5)
			ch.Close()
			if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), replace.Job{Queue: job.Queue}); err != nil {
				t.Fatal(err)
			}
			if n := len(b.Drain(t, vhost, "q")); n != 25 {
				t.Errorf("%d messages, want 25", n)
			}
			wantClean(t, b, vhost)
		})
		t.Run("taken and not acknowledged", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", nil)
			b.Bind(t, vhost, "amq.topic", "q", "#", nil)
			b.Publish(t, vhost, "amq.topic", "a", 20)
			ch := b.Channel(t, vhost)
			if _, ok, err := ch.Get("q", false); err != nil || !ok {
				t.Fatal(ok, err)
			}
			refused(t, replaceOn(t, b, vhost, ""), queueOf(vhost, "q", topology.Quorum, nil), "1 unacknowledged")
			ch.Close()
			b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
			b.AwaitDepth(t, vhost, "rabbitctl.hold:q", 19, 10*time.Second)
			if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), replace.Job{Queue: queueOf(vhost, "q", topology.Quorum, nil)}); err != nil {
				t.Fatal(err)
			}
			b.AwaitDepth(t, vhost, "q", 20, 10*time.Second)
		})
	})
}

// TestExpiredWhileHeld: a message that expires in the holding queue goes where the
// queue would have sent it, with its own routing key, whether it was moved there or
// came by a binding.
func TestExpiredWhileHeld(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, from := range []topology.QueueType{topology.Classic, topology.Quorum} {
			t.Run(string(from), func(t *testing.T) {
				vhost := b.VirtualHost(t)
				b.DeclareExchange(t, vhost, "dlx", "direct", nil)
				b.DeclareQueue(t, vhost, "dead", nil)
				b.Bind(t, vhost, "dlx", "dead", "a.b", nil)
				b.DeclareQueue(t, vhost, "q", typed(from, nil))
				b.Put(t, brokertest.Path("policies", vhost, "dl"), map[string]any{"pattern": "^q$", "definition": map[string]any{"dead-letter-exchange": "dlx"}})
				b.Bind(t, vhost, "amq.topic", "q", "#", nil)
				expiring := func(_ int, m *amqp.Publishing) { m.Expiration = "5000" }
				b.Publish(t, vhost, "amq.topic", "a.b", 3, expiring)
				job := replace.Job{Queue: queueOf(vhost, "q", topology.Classic, topology.Arguments{"x-max-priority": int64(3)}), Reached: func(s replace.Step) error {
					if s == replace.Emptied {
						return errKilled
					}
					return nil
				}}
				if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job); !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				b.Publish(t, vhost, "amq.topic", "a.b", 2, expiring)
				b.AwaitDepth(t, vhost, "dead", 5, 20*time.Second)
				if d, _ := b.Message(t, vhost, "dead"); d.RoutingKey != "a.b" || d.Headers["x-first-death-queue"] != "rabbitctl.hold:q" {
					t.Errorf("routing key %q, headers %v", d.RoutingKey, d.Headers)
				}
				job.Reached = nil
				if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job); err != nil {
					t.Fatal(err)
				}
				wantClean(t, b, vhost)
			})
		}
	})
}
