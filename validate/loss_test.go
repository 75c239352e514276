package validate

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// lossCase is a topology in which a message that a consumer gives back at "q"
// must get to the queue "dead", or is lost as the rule says.
type lossCase struct {
	name    string
	code    string // the rule that must report it; empty: the message arrives
	returns int    // how often it is returned to the queue; 0: it is rejected
	objects []topology.Object
}

func toDead(exchange, key string) *topology.Binding {
	return &topology.Binding{Source: exchange, Destination: "dead", DestinationType: topology.ToQueue, RoutingKey: key}
}

func lossCases() []lossCase {
	route := func(t topology.QueueType, exchange string, key any) *topology.Queue {
		a := args{"x-dead-letter-exchange": exchange}
		if key != nil {
			a["x-dead-letter-routing-key"] = key
		}
		return q(t, a)
	}
	wait := func(back string) *topology.Queue {
		return named("wait", classic, args{"x-message-ttl": int64(100), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": back})
	}
	limited := route(quorum, "", "wait")
	limited.Arguments["x-delivery-limit"] = int64(1)
	toTopic := x("t", "topic", nil)
	toHeaders := x("h", "headers", nil)
	return []lossCase{
		{name: "by name", objects: []topology.Object{dead(), route(classic, "", "dead")}},
		{name: "no such queue", code: "dead-letter-queue-missing", objects: []topology.Object{dead(), route(classic, "", "ded")}},
		{name: "no such exchange", code: "dead-letter-exchange-missing", objects: []topology.Object{dead(), route(quorum, "nope", "dead")}},
		{name: "unbound exchange", code: "dead-letter-exchange-missing", objects: []topology.Object{dead(), x("d", "fanout", nil), route(quorum, "d", "dead")}},
		{name: "unbound key", code: "dead-letter-unroutable", objects: []topology.Object{dead(), x("d", "direct", nil), toDead("d", "dead"), route(classic, "d", "ded")}},
		{name: "bound key", objects: []topology.Object{dead(), x("d", "direct", nil), toDead("d", "dead"), route(classic, "d", "dead")}},
		{name: "topic pattern", objects: []topology.Object{dead(), toTopic, toDead("t", "#.dead.*"), route(classic, "t", "so.dead.now")}},
		{name: "no topic pattern", code: "dead-letter-unroutable", objects: []topology.Object{dead(), toTopic, toDead("t", "#.dead.*"), route(classic, "t", "so.dead")}},
		{
			name: "alternate exchange", objects: []topology.Object{
				dead(), x("net", "fanout", nil), toDead("net", ""), x("d", "direct", args{"alternate-exchange": "net"}), route(classic, "d", "ded"),
			},
		},
		{
			name: "own key to the default exchange", code: "dead-letter-unroutable", objects: []topology.Object{
				dead(), x("in", "direct", nil), route(classic, "", nil), bound("in", "in", nil),
			},
		},
		{
			name: "headers that no binding compares", code: "dlx-without-else", objects: []topology.Object{
				dead(), toHeaders, &topology.Binding{
					Source: "h", Destination: "dead", DestinationType: topology.ToQueue, Arguments: args{"x-match": "all-with-x", "x-opt-a": "b"},
				}, route(quorum, "h", nil),
			},
		},
		{name: "limit into a wait queue", code: "limit-into-wait-queue", returns: 2, objects: []topology.Object{dead(), limited, wait("q")}},
		{name: "limit into a wait queue that leads on", returns: 2, objects: []topology.Object{dead(), limited, wait("dead")}},
	}
}

// TestLossOnBrokers holds the rules on dead-letter routes to where messages go.
func TestLossOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		vhost := b.VirtualHost(t)
		for _, c := range lossCases() {
			t.Run(c.name, func(t *testing.T) {
				defer remove(t, b, vhost, c.objects)
				exchange, key := "", "q"
				for _, o := range c.objects {
					if answer, text := declare(t, b, vhost, o); answer != 0 {
						t.Fatalf("declare %s: %d %s", o.Key(), answer, text)
					}
					if e, ok := o.(*topology.Exchange); ok && e.Name == "in" {
						exchange, key = "in", "in"
					}
				}
				b.Publish(t, vhost, exchange, key, 1)
				giveBack(t, b, vhost, c.returns)
				if c.code == "" {
					b.AwaitDepth(t, vhost, "dead", 1, 10*time.Second)
				} else {
					time.Sleep(500 * time.Millisecond) // long enough for the wait queue's 100 ms
					for _, o := range c.objects {
						if queue, ok := o.(*topology.Queue); ok && b.Depth(t, vhost, queue.Name) != 0 {
							t.Errorf("the message is in queue %q and not lost", queue.Name)
						}
					}
				}
				found := false
				for _, d := range Check(Input{Topology: hostOf(c.objects), Versions: []catalog.Version{version}}) {
					lossy := d.Code == "dead-letter-unroutable" || d.Code == "dead-letter-exchange-missing" ||
						d.Code == "dead-letter-queue-missing" || d.Code == "limit-into-wait-queue" || d.Code == "dlx-without-else"
					found = found || d.Code == c.code
					if lossy && d.Code != c.code {
						t.Errorf("false alarm: %s [%s]", d.Summary, d.Code)
					}
				}
				if found != (c.code != "") {
					t.Errorf("%q is reported: %v", c.code, found)
				}
			})
		}
	})
}

// giveBack takes the message from "q" and rejects it; with returns to the queue it
// does so that many times, the last of which is over the limit.
func giveBack(t *testing.T, b *brokertest.Broker, vhost string, returns int) {
	t.Helper()
	channel := b.Channel(t, vhost)
	for range max(returns, 1) {
		var message amqp.Delivery
		brokertest.Eventually(t, 10*time.Second, func() error {
			m, ok, err := channel.Get("q", false)
			if err == nil && !ok {
				err = errNothing
			}
			message = m
			return err
		})
		if err := message.Reject(returns > 0); err != nil {
			t.Fatal(err)
		}
	}
}
