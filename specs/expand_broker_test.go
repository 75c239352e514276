package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// expandOn expands queues for the broker and declares the result in a virtual
// host of its own.
func expandOn(t *testing.T, b *brokertest.Broker, queues ...*Queue) (vhost string) {
	t.Helper()
	v, err := catalog.ParseVersion(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	host, found := expand(t, v, queues...)
	if len(found) > 0 {
		t.Fatalf("findings: %v", found)
	}
	vhost = b.VirtualHost(t)
	declare(t, b, vhost, host)
	return vhost
}

// declare makes the objects of a virtual host: policies over HTTP, the rest over
// AMQP.
func declare(t *testing.T, b *brokertest.Broker, vhost string, v *topology.VirtualHost) {
	t.Helper()
	for _, p := range v.Policies {
		b.Put(t, brokertest.Path("policies", vhost, p.Name), map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition,
		})
	}
	ch := b.Channel(t, vhost)
	for _, e := range v.Exchanges {
		if err := ch.ExchangeDeclare(e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, false, amqp.Table(e.Arguments)); err != nil {
			t.Fatalf("declare %s: %v", e.Key(), err)
		}
	}
	for _, q := range v.Queues {
		args := amqp.Table{"x-queue-type": string(q.Type)}
		maps.Copy(args, q.Arguments)
		if _, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, args); err != nil {
			t.Fatalf("declare %s: %v", q.Key(), err)
		}
	}
	for _, x := range v.Bindings {
		var err error
		if x.DestinationType == topology.ToQueue {
			err = ch.QueueBind(x.Destination, x.RoutingKey, x.Source, false, amqp.Table(x.Arguments))
		} else {
			err = ch.ExchangeBind(x.Destination, x.RoutingKey, x.Source, false, amqp.Table(x.Arguments))
		}
		if err != nil {
			t.Fatalf("declare %s: %v", x.Key(), err)
		}
	}
}

// hostileNames are queue names that a pattern can get wrong, each beside one
// that a pattern without escaping would match too.
var hostileNames = []string{
	"plain", "plain2", "a.b", "aXb", "a+b", "aab", "x[1]", "x1", "q/p%", "ü", "u", "语言", "a\\b", "a\\\\b", "ab", "x$", "x",
	"#", "a#b", `say "hi"`, "it's", "a b", " a", "a ", "tab\there", "(a|b)", "a", "b", "^a", "{2}", "aa", "a*", "a?", "a-b",
	"a_b", "a,b", "<a>", "a&b", "~", "`", "a|b", "]", "}", ")", "$", "^", ".", "*", "?", "+", "(?i)PLAIN", "PLAIN", `\Qa\E`,
	"e\u0301", "é", "\U0001F430",
}

func TestPatternsMatchOneQueueOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		names := append([]string{strings.Repeat(".", 255), strings.Repeat("é", 127)}, hostileNames...)
		var queues []*Queue
		for _, name := range names {
			q := queue(name, topology.Classic)
			q.Settings = map[string]any{"max-length": int64(1000)}
			queues = append(queues, q)
		}
		vhost := expandOn(t, b, queues...)
		policies := policiesOf(t, b, vhost)
		for _, name := range names {
			if got := policies[name]; got != policyName(name) {
				t.Errorf("queue %q has policy %q", name, got)
			}
		}
	})
}

// policiesOf lists the policy in force for each queue.
func policiesOf(t *testing.T, b *brokertest.Broker, vhost string) map[string]string {
	t.Helper()
	var list []struct{ Name, Policy string }
	b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true", &list)
	policies := map[string]string{}
	for _, q := range list {
		policies[q.Name] = q.Policy
	}
	return policies
}

// A pattern ends with $, which would match before a newline at the end of a
// name. No queue has one: brokers strip them.
func TestBrokersStripNewlinesFromQueueNames(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "line\n", nil)
		if got := slices.Collect(maps.Keys(policiesOf(t, b, vhost))); !slices.Equal(got, []string{"line"}) {
			t.Errorf("queues %q, want \"line\" alone", got)
		}
	})
}

func TestWaitQueuesGiveBackOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
			t.Run(string(kind), func(t *testing.T) {
				q := queue("work", kind)
				q.Retry = &Retry{MaxAttempts: 3, Delays: []time.Duration{300 * time.Millisecond, 3 * time.Second}}
				vhost := expandOn(t, b, q)
				body := func(s string) func(int, *amqp.Publishing) {
					return func(_ int, m *amqp.Publishing) { m.Body = []byte(s) }
				}
				// The long delay first: it must not hold up the short one.
				start := time.Now()
				b.Publish(t, vhost, "", "work.retry.3s", 1, body("long"))
				b.Publish(t, vhost, "", "work.retry.300ms", 1, body("short"))
				short := b.AwaitMessage(t, vhost, "work", 2500*time.Millisecond)
				if string(short.Body) != "short" || short.Exchange != "" || short.RoutingKey != "work" {
					t.Errorf("first back: %q from exchange %q with key %q", short.Body, short.Exchange, short.RoutingKey)
				}
				long := b.AwaitMessage(t, vhost, "work", 10*time.Second)
				if took := time.Since(start); string(long.Body) != "long" || took < 3*time.Second {
					t.Errorf("then back: %q after %s", long.Body, took)
				}
			})
		}
	})
}

func TestPerMessageDelayOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		q := queue("work", topology.Quorum)
		q.Retry = &Retry{Delays: []time.Duration{time.Second}, Mechanism: topology.MechanismPerMessage}
		vhost := expandOn(t, b, q)
		b.Publish(t, vhost, "", "work.retry", 1, func(_ int, m *amqp.Publishing) { m.Expiration = "500" })
		if back := b.AwaitMessage(t, vhost, "work", 5*time.Second); back.Expiration != "" {
			t.Errorf("expiration %q came back too", back.Expiration)
		}
	})
}

// consume takes up to n deliveries and settles each; it returns what came within
// the time.
func consume(t *testing.T, b *brokertest.Broker, vhost, queue string, n int, wait time.Duration, settle func(amqp.Delivery) error) []amqp.Delivery {
	t.Helper()
	ch := b.Channel(t, vhost)
	defer ch.Close() // gives back what it was sent beyond n
	if err := ch.Qos(1, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []amqp.Delivery
	for len(got) < n {
		select {
		case d, ok := <-deliveries:
			if !ok {
				t.Fatalf("the channel was closed after %d deliveries", len(got))
			}
			got = append(got, d)
			if err := settle(d); err != nil {
				t.Fatal(err)
			}
		case <-time.After(wait):
			return got
		}
	}
	return got
}

func requeue(d amqp.Delivery) error { return d.Reject(true) }
func discard(d amqp.Delivery) error { return d.Reject(false) }

func TestMaxAttemptsOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, by := range []topology.By{topology.ByPolicy, topology.ByArgument} {
			t.Run(string(by), func(t *testing.T) {
				q, dead := queue("work", topology.Quorum), queue("dead", topology.Quorum)
				q.SettingsBy.Default, dead.Role = by, topology.RoleDeadLetter
				q.Retry = &Retry{MaxAttempts: 3, Delays: []time.Duration{time.Second}}
				q.DeadLetter = &DeadLetter{Queue: ptr("dead"), Strategy: "at-least-once"}
				vhost := expandOn(t, b, dead, q)
				b.Publish(t, vhost, "", "work", 1)
				if got := len(consume(t, b, vhost, "work", 10, time.Second, requeue)); got != 3 {
					t.Errorf("%d deliveries, want 3", got)
				}
				b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
				// Looking at it often does not lose it.
				if got := len(consume(t, b, vhost, "dead", 25, time.Second, requeue)); got != 25 {
					t.Errorf("%d looks at the dead letter, want 25", got)
				}
				b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
			})
		}
	})
}

func TestRejectCycleOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
			t.Run(string(kind), func(t *testing.T) {
				q := queue("work", kind)
				q.Retry = &Retry{MaxAttempts: 9, Delays: []time.Duration{100 * time.Millisecond}, Mechanism: topology.MechanismRejectCycle}
				vhost := expandOn(t, b, q)
				b.Publish(t, vhost, "", "work", 1)
				// Returns between the rounds spend deliveries: with the default limit of
				// 20 the message would be sent into the wait queue and be lost.
				i := 0
				got := consume(t, b, vhost, "work", 36, 5*time.Second, func(d amqp.Delivery) error {
					if i++; i%6 == 0 {
						return d.Reject(false)
					}
					return d.Reject(true)
				})
				if len(got) != 36 {
					t.Fatalf("%d deliveries, want 36", len(got))
				}
				b.AwaitDepth(t, vhost, "work", 1, 5*time.Second)
				last := b.AwaitMessage(t, vhost, "work", 5*time.Second)
				if rounds := rejections(last, "work"); rounds != 6 {
					t.Errorf("x-death counts %d rejections, want 6: %v", rounds, last.Headers)
				}
			})
		}
	})
}

// rejections is the count of reason rejected for a queue in x-death.
func rejections(d amqp.Delivery, queue string) int64 {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, death := range deaths {
		if e, ok := death.(amqp.Table); ok && e["reason"] == "rejected" && e["queue"] == queue {
			n, _ := e["count"].(int64)
			return n
		}
	}
	return 0
}

func TestDelayedRetryOnBrokers(t *testing.T) {
	brokertest.EachSince(t, "4.3", func(t *testing.T, b *brokertest.Broker) {
		q, dead := queue("work", topology.Quorum), queue("dead", topology.Classic)
		q.Retry = &Retry{
			MaxAttempts: 3, Delays: []time.Duration{400 * time.Millisecond, 800 * time.Millisecond},
			Mechanism: topology.MechanismDelayedRetry,
		}
		q.DeadLetter = &DeadLetter{Queue: ptr("dead")}
		vhost := expandOn(t, b, dead, q)
		b.Publish(t, vhost, "", "work", 1)
		var at []time.Time
		consume(t, b, vhost, "work", 9, 3*time.Second, func(d amqp.Delivery) error {
			at = append(at, time.Now())
			return d.Reject(true)
		})
		if len(at) != 3 || at[1].Sub(at[0]) < 380*time.Millisecond || at[2].Sub(at[1]) < 780*time.Millisecond {
			t.Errorf("deliveries at %v", at)
		}
		b.AwaitDepth(t, vhost, "dead", 1, 5*time.Second)
	})
}

func TestDeadLetterRoutesOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		for name, dl := range map[string]DeadLetter{
			"queue":            {Queue: ptr("dead")},
			"via":              {Queue: ptr("dead"), Via: "dlx"},
			"via with a key":   {Queue: ptr("dead"), Via: "dlx", RoutingKey: ptr("k")},
			"exchange and key": {Exchange: ptr("dlx"), RoutingKey: ptr("given")},
			"exchange":         {Exchange: ptr("dlx")},
			"pinned":           {Exchange: ptr("dlx"), RoutingKey: ptr("given"), SettingsBy: topology.ByArgument},
		} {
			t.Run(name, func(t *testing.T) {
				q, dead := queue("work", topology.Classic), queue("dead", topology.Classic)
				q.DeadLetter = &dl
				dead.Bindings = []*Binding{{Exchange: "dlx", RoutingKeys: []string{"given", "work"}}}
				host := &VirtualHost{Name: "t", Queues: []*Queue{q, dead}, Exchanges: []*Exchange{{Name: "dlx", Type: "direct", Durable: true}}}
				top, found := (&Spec{VirtualHosts: []*VirtualHost{host}}).Expand(Target{Version: v})
				if len(found) > 0 {
					t.Fatal(found)
				}
				vhost := b.VirtualHost(t)
				declare(t, b, vhost, top.VirtualHosts[0])
				b.Publish(t, vhost, "", "work", 1)
				consume(t, b, vhost, "work", 1, 5*time.Second, discard)
				b.AwaitDepth(t, vhost, "dead", 1, 5*time.Second)
			})
		}
	})
}

func TestCategoriesRouteOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
			t.Run(string(kind), func(t *testing.T) {
				q := queue("work", kind)
				q.Settings = map[string]any{"message-ttl": int64(60_000)}
				q.DeadLetter = &DeadLetter{Categories: &topology.Categories{
					Routes:    []topology.CategoryRoute{{Name: "transient", Queue: "dead.transient"}, {Name: "business", Queue: "dead.business"}},
					Otherwise: topology.CategoryRoute{Queue: "dead.other"},
				}}
				if kind == topology.Quorum {
					q.DeadLetter.Strategy = "at-least-once"
				}
				vhost := expandOn(t, b, q)
				with := func(category any) func(int, *amqp.Publishing) {
					return func(_ int, m *amqp.Publishing) {
						if category != nil {
							m.Headers = amqp.Table{"x-opt-dead-letter-category": category}
						}
					}
				}
				b.Publish(t, vhost, "", "work", 1, with("transient"))
				b.Publish(t, vhost, "", "work", 2, with("business"))
				b.Publish(t, vhost, "", "work", 1, with("unheard of"))
				b.Publish(t, vhost, "", "work", 1, with(nil))
				if got := len(consume(t, b, vhost, "work", 5, 5*time.Second, discard)); got != 5 {
					t.Fatalf("%d deliveries, want 5", got)
				}
				// One that expires has no category either.
				b.Publish(t, vhost, "", "work", 1, func(_ int, m *amqp.Publishing) { m.Expiration = "100" })
				for queue, n := range map[string]int{"dead.transient": 1, "dead.business": 2, "dead.other": 3, "work": 0} {
					b.AwaitDepth(t, vhost, queue, n, 15*time.Second)
				}
			})
		}
	})
}

// The match all looks at no header that begins with x-: such a binding takes
// every message, which is why all-with-x is generated.
func TestMatchAllSkipsHeadersOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareExchange(t, vhost, "x", "headers", nil)
		for _, match := range []string{"all", "all-with-x"} {
			b.DeclareQueue(t, vhost, match, nil)
			b.Bind(t, vhost, "x", match, "", amqp.Table{"x-match": match, "x-opt-dead-letter-category": "transient"})
		}
		b.Publish(t, vhost, "x", "", 1)
		if all, withX := b.Depth(t, vhost, "all"), b.Depth(t, vhost, "all-with-x"); all != 1 || withX != 0 {
			t.Errorf("a message without headers: all %d, all-with-x %d, want 1 and 0", all, withX)
		}
	})
}

// What a generated policy and arguments make effective is what the intent says.
func TestSettingsAreAcceptedOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range topology.QueueTypes {
			for _, by := range []topology.By{topology.ByPolicy, topology.ByArgument} {
				t.Run(fmt.Sprintf("%s by %s", kind, by), func(t *testing.T) {
					q := queue("q", kind)
					q.SettingsBy.Default = by
					q.Settings = settingsFor(kind, v)
					vhost := expandOn(t, b, q)
					if got, want := policiesOf(t, b, vhost)["q"], map[bool]string{true: policyName("q")}[by == topology.ByPolicy]; got != want {
						t.Errorf("policy %q, want %q", got, want)
					}
				})
			}
		}
	})
}

// settingsFor is one right value of every setting that can be given both ways.
func settingsFor(kind topology.QueueType, v catalog.Version) map[string]any {
	settings := map[string]any{}
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		argument := s.Argument != "" && s.TakesArgument(kind, v)
		if !argument || s.Exchange || !s.Deprecated.IsZero() && v.AtLeast(s.Deprecated) {
			continue
		}
		switch {
		case s.Name == "overflow":
			settings[s.Name] = "reject-publish"
		case s.Name == "queue-version":
			settings[s.Name] = int64(2)
		case s.Value == catalog.Boolean:
			settings[s.Name] = true
		case s.Value == catalog.Age:
			settings[s.Name] = "1D"
		case s.Enum != nil:
			settings[s.Name] = s.Enum[len(s.Enum)-1]
		case s.Value == catalog.Text:
			settings[s.Name] = "x"
		case s.Max != 0:
			settings[s.Name] = min(s.Max, max(s.Min, 100))
		default:
			settings[s.Name] = max(s.Min, 100)
		}
	}
	return settings
}
