package validate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// flowCase publishes messages into a topology and says where they are in the end,
// and which of the rules on the flow of messages must say so.
type flowCase struct {
	name       string
	codes      []string // nil: messages arrive, and no such rule reports anything
	objects    []topology.Object
	publishers []*topology.Publisher

	exchange, key string
	n             int
	returned      bool // what is published mandatory comes back
	// requeue and reject are how often the consumer of "work" returns and then rejects
	// a message, each time when it is there.
	requeue, reject int

	ready map[string]int // by queue; others are empty
	// kept is a queue in which this many are neither ready nor gone.
	kept     string
	keptMany int
}

// flowCodes are the rules that are held to flowCases.
var flowCodes = []string{
	"publish-unroutable", "unroutable-unguarded", "exchange-without-binding", "queue-unreachable", "drops-silently", "ttl-cycle-loses",
	"reject-publish-and-dead-letters", "reject-cycle-without-cap", "count-header-never-matches", "dead-letter-route-mixed",
	"alternate-exchange-missing", "dead-letter-unroutable", "dlx-without-else", "dead-letters-to-itself", "limit-into-wait-queue",
}

func toQueue(source, queue, key string, a args) *topology.Binding {
	return &topology.Binding{Source: source, Destination: queue, DestinationType: topology.ToQueue, RoutingKey: key, Arguments: a}
}

func toExchange(source, exchange, key string) *topology.Binding {
	return &topology.Binding{Source: source, Destination: exchange, DestinationType: topology.ToExchange, RoutingKey: key}
}

// routed is a queue whose dead letters go to a queue by name.
func routed(t topology.QueueType, name, to string, more args) *topology.Queue {
	a := args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
	for k, v := range more {
		a[k] = v
	}
	return named(name, t, a)
}

func flowCases() []flowCase {
	const ttl = "x-message-ttl"
	work := func() *topology.Queue { return routed(classic, "work", "dead", nil) }
	short := args{ttl: int64(50)}
	least := args{ttl: int64(50), "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	return []flowCase{
		{
			name: "a key that no binding takes", codes: []string{"unroutable-unguarded"}, exchange: "in", key: "b", n: 2, returned: true,
			objects: []topology.Object{dead(), work(), x("in", "topic", nil), toQueue("in", "work", "a.#", nil)},
		},
		{
			name: "an exchange behind takes it nowhere", codes: []string{"unroutable-unguarded"}, exchange: "in", key: "a.b", n: 1, returned: true,
			objects: []topology.Object{
				dead(), work(), x("rest", "fanout", nil), x("in", "topic", args{"alternate-exchange": "rest"}), x("behind", "direct", nil),
				toExchange("in", "behind", "a.#"), toQueue("behind", "work", "a", nil), toQueue("rest", "dead", "", nil),
			},
		},
		{
			name: "an alternate exchange takes it", exchange: "in", key: "b", n: 2, ready: map[string]int{"dead": 2},
			objects: []topology.Object{
				dead(), work(), x("rest", "fanout", nil), x("in", "topic", args{"alternate-exchange": "rest"}),
				toQueue("in", "work", "a.#", nil), toQueue("rest", "dead", "", nil),
			},
		},
		{
			name: "the default exchange as the alternate", codes: []string{"alternate-exchange-missing", "unroutable-unguarded"},
			exchange: "in", key: "dead", n: 1, returned: true,
			objects: []topology.Object{dead(), work(), x("in", "topic", args{"alternate-exchange": ""}), toQueue("in", "work", "a.#", nil)},
		},
		{
			name: "nothing bound", codes: []string{"exchange-without-binding"}, exchange: "in", key: "a", n: 1, returned: true,
			objects: []topology.Object{x("in", "fanout", nil)},
		},
		{
			name: "a publisher's key", codes: []string{"publish-unroutable", "queue-unreachable"}, exchange: "in", key: "b.c", n: 1, returned: true,
			objects:    []topology.Object{dead(), work(), x("in", "topic", nil), toQueue("in", "work", "a.#", nil)},
			publishers: []*topology.Publisher{{Name: "p", Exchange: "in", RoutingKeys: []string{"b.*"}}},
		},
		{
			name: "a publisher's other key", exchange: "in", key: "a.c", n: 1, ready: map[string]int{"work": 1},
			objects:    []topology.Object{dead(), work(), x("in", "topic", nil), toQueue("in", "work", "a.#", nil)},
			publishers: []*topology.Publisher{{Name: "p", Exchange: "in", RoutingKeys: []string{"a.*"}}},
		},

		{name: "expiry without a route", codes: []string{"drops-silently"}, key: "work", n: 1, objects: []topology.Object{named("work", classic, short)}},
		{
			name: "a full queue without a route", codes: []string{"drops-silently"}, key: "work", n: 5, ready: map[string]int{"work": 2},
			objects: []topology.Object{named("work", classic, args{"x-max-length": int64(2)})},
		},
		{
			name: "expiry with a route", key: "work", n: 1, ready: map[string]int{"dead": 1},
			objects: []topology.Object{dead(), routed(classic, "work", "dead", short)},
		},

		{
			name: "a full classic target", codes: []string{"reject-publish-and-dead-letters"}, key: "work", n: 5, ready: map[string]int{"target": 2},
			objects: []topology.Object{
				named("target", classic, args{"x-max-length": int64(2), "x-overflow": "reject-publish"}), routed(classic, "work", "target", short),
			},
		},
		{
			name: "a full quorum target", codes: []string{"reject-publish-and-dead-letters"}, key: "work", n: 5, ready: map[string]int{"target": 5},
			objects: []topology.Object{
				named("target", quorum, args{"x-max-length": int64(2), "x-overflow": "reject-publish"}), routed(quorum, "work", "target", short),
			},
		},
		{
			name: "a full target of at-least-once", key: "work", n: 5, ready: map[string]int{"target": 2}, kept: "work", keptMany: 3,
			objects: []topology.Object{
				named("target", classic, args{"x-max-length": int64(2), "x-overflow": "reject-publish"}), routed(quorum, "work", "target", least),
			},
		},

		{
			name: "TTL and TTL (case 35)", codes: []string{"ttl-cycle-loses"}, key: "work", n: 1,
			objects: []topology.Object{routed(classic, "work", "wait", short), routed(classic, "wait", "work", short)},
		},
		{
			name: "full and TTL", codes: []string{"ttl-cycle-loses"}, key: "work", n: 3, ready: map[string]int{"work": 1},
			objects: []topology.Object{routed(classic, "work", "wait", args{"x-max-length": int64(1)}), routed(classic, "wait", "work", short)},
		},
		{
			name: "TTL and TTL at least once", codes: []string{"ttl-cycle-loses"}, key: "work", n: 1, kept: "wait", keptMany: 1,
			objects: []topology.Object{routed(quorum, "work", "wait", least), routed(quorum, "wait", "work", least)},
		},
		{
			name: "rejects and TTL", codes: []string{"reject-cycle-without-cap"}, key: "work", n: 1, reject: 6, ready: map[string]int{"work": 1},
			objects: []topology.Object{routed(classic, "work", "wait", nil), routed(classic, "wait", "work", short)},
		},
		{
			name: "a dead-letter queue that feeds itself", codes: []string{"dead-letters-to-itself"}, exchange: "f", n: 1, reject: 4, ready: map[string]int{"work": 1},
			objects: []topology.Object{x("f", "fanout", nil), named("work", classic, args{"x-dead-letter-exchange": "f"}), toQueue("f", "work", "", nil)},
		},

		{
			name: "own keys, some of which nothing takes", codes: []string{"dlx-without-else", "unroutable-unguarded"}, exchange: "in", key: "a.b", n: 1, reject: 1,
			objects: []topology.Object{
				dead(), x("in", "topic", nil), x("d", "topic", nil), named("work", classic, args{"x-dead-letter-exchange": "d"}),
				toQueue("in", "work", "a.*", nil), toQueue("d", "dead", "*.c", nil),
			},
		},
		{
			name: "the broker's count as a header", codes: []string{"count-header-never-matches", "dlx-without-else", "unroutable-unguarded"},
			key: "work", n: 1, requeue: 1, reject: 1,
			objects: []topology.Object{
				dead(), x("h", "headers", nil), named("work", quorum, args{"x-dead-letter-exchange": "h", "x-delivery-limit": int64(5)}),
				toQueue("h", "dead", "", args{"x-match": "any-with-x", "x-delivery-count": int64(1)}),
				toQueue("h", "dead", "", args{"x-match": "all-with-x", "x-acquired-count": int64(2)}),
				toQueue("h", "dead", "", args{"x-match": "all-with-x", "x-never": "there"}),
			},
		},
		{
			name: "nothing but the broker's count as a header", codes: []string{"count-header-never-matches", "dead-letter-unroutable", "unroutable-unguarded"},
			key: "work", n: 1, requeue: 1, reject: 1,
			objects: []topology.Object{
				dead(), x("h", "headers", nil), named("work", quorum, args{"x-dead-letter-exchange": "h", "x-delivery-limit": int64(5)}),
				toQueue("h", "dead", "", args{"x-match": "any-with-x", "x-delivery-count": int64(1)}),
			},
		},
		{
			name: "the reason as a header", codes: []string{"dlx-without-else", "unroutable-unguarded"}, key: "work", n: 1, requeue: 1, reject: 1, ready: map[string]int{"dead": 1},
			objects: []topology.Object{
				dead(), x("h", "headers", nil), named("work", quorum, args{"x-dead-letter-exchange": "h", "x-delivery-limit": int64(5)}),
				toQueue("h", "dead", "", args{"x-match": "any-with-x", "x-first-death-reason": "rejected"}),
			},
		},
		{
			name: "exchange by argument, key by policy", codes: []string{"dead-letter-route-mixed"}, key: "work", n: 1, ready: map[string]int{"dead": 1},
			objects: []topology.Object{
				dead(), &topology.Policy{Name: "p", ApplyTo: "queues", Pattern: "^work$", Definition: args{"dead-letter-routing-key": "dead"}},
				named("work", classic, args{"x-dead-letter-exchange": "", ttl: int64(50)}),
			},
		},
	}
}

// TestFlowOnBrokers holds the rules on the flow of messages to where messages go.
func TestFlowOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		vhost := b.VirtualHost(t)
		for _, c := range flowCases() {
			t.Run(c.name, func(t *testing.T) {
				defer remove(t, b, vhost, c.objects)
				for _, o := range c.objects {
					if answer, text := declare(t, b, vhost, o); answer != 0 {
						t.Fatalf("declare %s: %d %s", o.Key(), answer, text)
					}
				}
				channel := b.Channel(t, vhost)
				if got := publishMandatory(t, channel, c); got != c.returned {
					t.Errorf("mandatory messages come back: %v, want %v", got, c.returned)
				}
				failAtWork(t, channel, c)
				time.Sleep(300 * time.Millisecond) // what goes on by itself has gone on by then
				for _, o := range c.objects {
					if queue, ok := o.(*topology.Queue); ok {
						b.AwaitDepth(t, vhost, queue.Name, c.ready[queue.Name], 10*time.Second)
					}
				}
				if c.kept != "" {
					awaitKept(t, b, vhost, c.kept, c.keptMany)
				}
				checkFlow(t, c, version)
			})
		}
	})
}

// publishMandatory publishes the messages of a case, first without the mandatory
// flag and confirmed, and reports whether one with it comes back.
func publishMandatory(t *testing.T, channel *amqp.Channel, c flowCase) bool {
	t.Helper()
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	publish := func(mandatory bool) {
		confirm, err := channel.PublishWithDeferredConfirm(c.exchange, c.key, mandatory, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
		if !confirm.Wait() {
			t.Fatal("a message was refused")
		}
	}
	for range c.n {
		publish(c.n > 1 && !c.returned) // the flag changes nothing for what arrives
		time.Sleep(10 * time.Millisecond)
	}
	if !c.returned {
		return len(returns) > 0
	}
	publish(true)
	return len(returns) > 0
}

// failAtWork takes the message from "work", returns it, and rejects it, again and
// again where it comes back.
func failAtWork(t *testing.T, channel *amqp.Channel, c flowCase) {
	t.Helper()
	for i := range c.requeue + c.reject {
		var message amqp.Delivery
		brokertest.Eventually(t, 10*time.Second, func() error {
			m, ok, err := channel.Get("work", false)
			if err == nil && !ok {
				err = errNothing
			}
			message = m
			return err
		})
		if err := message.Reject(i < c.requeue); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitKept waits until a queue's statistics show messages that its dead-letter
// target has not got.
func awaitKept(t *testing.T, b *brokertest.Broker, vhost, queue string, n int) {
	t.Helper()
	brokertest.Eventually(t, 30*time.Second, func() error {
		var state struct {
			DLX *int `json:"messages_dlx"`
		}
		b.Get(t, brokertest.Path("queues", vhost, queue), &state)
		if state.DLX == nil || *state.DLX != n {
			return fmt.Errorf("queue %s does not keep %d dead messages yet", queue, n)
		}
		return nil
	})
}

// checkFlow runs the rules over the objects of a case.
func checkFlow(t *testing.T, c flowCase, v catalog.Version) {
	t.Helper()
	desired := hostOf(c.objects)
	desired.VirtualHosts[0].Publishers = c.publishers
	list := Check(Input{Topology: desired, Versions: []catalog.Version{v}})
	var got []string
	for _, d := range list {
		if slices.Contains(flowCodes, d.Code) && !slices.Contains(got, d.Code) {
			got = append(got, d.Code)
		}
	}
	slices.Sort(got)
	want := slices.Clone(c.codes)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("reported: %q, want %q\n%s", got, want, describe(list))
	}
}

// TestFlowRulesAreTried: each rule on the flow of messages has a case.
func TestFlowRulesAreTried(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range flowCases() {
		for _, code := range c.codes {
			tried[code] = true
		}
	}
	for _, c := range lossCases() {
		tried[c.code] = true
	}
	for _, code := range flowCodes {
		if !tried[code] || !slices.Contains(Codes(), code) {
			t.Errorf("%s is no rule, or not tried", code)
		}
	}
}
