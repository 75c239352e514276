package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// rejections is how often the consumer of queue "work" rejects a copy of a message;
// then it leaves it.
const rejections = 2

// drawDeaths makes queues that hand messages on when they expire, or when the
// consumer of "work" rejects them, in every which way.
func drawDeaths(t *rapid.T) *topology.VirtualHost {
	vhost := &topology.VirtualHost{Name: "v"}
	for _, e := range []struct{ name, kind string }{{"d", "direct"}, {"t", "topic"}, {"f", "fanout"}, {"h", "headers"}} {
		vhost.Exchanges = append(vhost.Exchanges, &topology.Exchange{Name: e.name, Type: e.kind, Durable: true})
	}
	keys := []string{"a", "b", "a.b", "wait1", "wait2", "wait3", "work", "work", "end"}
	queue := func(name string, ttl bool) {
		q := &topology.Queue{Name: name, Type: rapid.SampledFrom([]topology.QueueType{topology.Classic, topology.Quorum}).Draw(t, "type"), Durable: true, Arguments: topology.Arguments{}}
		if ttl {
			q.Arguments["x-message-ttl"] = int64(20)
		}
		if rapid.IntRange(0, 9).Draw(t, "route") > 0 {
			q.Arguments["x-dead-letter-exchange"] = rapid.SampledFrom([]string{"", "", "d", "d", "t", "t", "f", "f", "h", "missing"}).Draw(t, "exchange")
			if rapid.Bool().Draw(t, "fixed") {
				q.Arguments["x-dead-letter-routing-key"] = rapid.SampledFrom(keys).Draw(t, "key")
			}
		}
		vhost.Queues = append(vhost.Queues, q)
	}
	for i := range 4 {
		queue(fmt.Sprintf("wait%d", i), true)
	}
	queue("work", false)
	vhost.Queues = append(vhost.Queues, &topology.Queue{Name: "end", Type: topology.Classic, Durable: true})
	for range rapid.IntRange(8, 16).Draw(t, "bindings") {
		source := rapid.SampledFrom(vhost.Exchanges).Draw(t, "source")
		b := &topology.Binding{
			Source: source.Name, DestinationType: topology.ToQueue, Destination: rapid.SampledFrom(vhost.Queues).Draw(t, "queue").Name,
			RoutingKey: rapid.SampledFrom(append(keys, "#", "*", "*.b")).Draw(t, "binding key"),
		}
		if source.Type == "headers" {
			b.Arguments = topology.Arguments{"x-match": "any-with-x"}
			b.Arguments[rapid.SampledFrom([]string{"x-first-death-queue", "x-last-death-queue", "x-first-death-reason", "x-last-death-reason", "h"}).Draw(t, "header")] = rapid.SampledFrom([]any{
				"wait0", "wait1", "work", "expired", "rejected", "1",
			}).Draw(t, "header value")
		}
		vhost.Bindings = append(vhost.Bindings, b)
	}
	return vhost
}

func drawMortal(t *rapid.T) Message {
	m := Message{Headers: topology.Arguments{"h": "1"}, Keys: []string{rapid.SampledFrom([]string{"a", "a.b", "wait0", "wait1", "work"}).Draw(t, "key")}}
	m.Exchange = rapid.SampledFrom([]string{"", "d", "t", "f", "h"}).Draw(t, "publish to")
	if rapid.IntRange(0, 2).Draw(t, "copied") == 0 {
		m.Keys = append(m.Keys, rapid.SampledFrom([]string{"b", "wait2", "end"}).Draw(t, "copy"))
	}
	return m
}

// tooMany copies are not followed: they go round for ever.
const tooMany = 500

// live follows a message to the queues where it stays and counts the copies that
// end in each. It reports whether they come to an end.
func live(g *Graph, m Message, ends map[string]int) bool {
	left := tooMany
	arrive(g, m, g.Route(m), ends, &left)
	return left > 0
}

func arrive(g *Graph, m Message, r Routing, ends map[string]int, left *int) {
	for _, d := range r.Deliveries {
		if *left--; *left <= 0 {
			return
		}
		cause := Rejected
		if slices.Contains(g.Causes(d.Queue), Expired) {
			cause = Expired
		} else if d.Queue != "work" || rejected(m.Deaths) >= rejections {
			ends[d.Queue]++
			continue
		}
		if dead, next, _, ok := g.Die(d.Queue, cause, m); ok {
			arrive(g, dead, next, ends, left)
		}
	}
}

func rejected(deaths []Death) int {
	for _, d := range deaths {
		if d.Queue == "work" && d.Cause == Rejected {
			return d.Count
		}
	}
	return 0
}

// TestDeathsOnBrokers holds dead-lettering to real brokers: random queues that hand
// messages on, circles among them, and a consumer that rejects.
func TestDeathsOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		for round := range brokertest.Rounds(12, 100) {
			ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
				vhost := rapid.Custom(drawDeaths).Example(round)
				messages := rapid.SliceOfN(rapid.Custom(drawMortal), 6, 6).Example(round)
				name := b.VirtualHost(t)
				channel := b.Channel(t, name)
				declareAll(t, channel, vhost)
				g := New(vhost, version, Options{})
				want := map[string]int{}
				// On 3.10 some go round for ever (see Graph.Die); they stay out of it.
				messages = slices.DeleteFunc(messages, func(m Message) bool { return !live(g, m, map[string]int{}) })
				for i, m := range messages {
					ends := map[string]int{}
					live(g, m, ends)
					for queue, n := range ends {
						want[fmt.Sprintf("%s %d", queue, i)] = n
					}
					p := amqp.Publishing{MessageId: fmt.Sprint(i), Headers: table(m.Headers)}
					if len(m.Keys) > 1 {
						p.Headers["CC"] = []any{m.Keys[1]}
					}
					if err := channel.Publish(m.Exchange, m.Keys[0], false, false, p); err != nil {
						t.Fatal(err)
					}
				}
				held := rejectUntilQuiet(t, b.Channel(t, name), vhost)
				have := ended(t, channel, held)
				if fmt.Sprint(have) != fmt.Sprint(want) {
					t.Errorf("messages ended in %v, the graph says %v\n%+v\n%s", have, want, messages, describe(vhost))
				}
			})
			if !ok {
				return
			}
		}
	})
}

// rejectUntilQuiet consumes from "work" and rejects, until nothing moves. It returns how
// many messages it then gave back.
func rejectUntilQuiet(t *testing.T, channel *amqp.Channel, vhost *topology.VirtualHost) (held int) {
	t.Helper()
	quiet := time.Now()
	for time.Since(quiet) < 400*time.Millisecond {
		for {
			d, ok, err := channel.Get("work", false)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			// What is left stays unacknowledged, so that the next one comes.
			if deathsInWork(d.Headers) >= rejections {
				held++
				continue
			}
			quiet = time.Now()
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
		}
		for _, q := range vhost.Queues[:4] {
			state, err := channel.QueueDeclarePassive(q.Name, true, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if state.Messages > 0 {
				quiet = time.Now()
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	// Closing gives back what was held, in a moment.
	if err := channel.Close(); err != nil {
		t.Fatal(err)
	}
	return held
}

// deathsInWork reads from x-death how often "work" had a message rejected.
func deathsInWork(headers amqp.Table) int64 {
	list, _ := headers["x-death"].([]any)
	for _, e := range list {
		entry, _ := e.(amqp.Table)
		if entry["queue"] == "work" && entry["reason"] == string(Rejected) {
			n, _ := entry["count"].(int64)
			return n
		}
	}
	return 0
}

// ended takes what there is from "work", at least so many, and from "end".
func ended(t *testing.T, channel *amqp.Channel, inWork int) map[string]int {
	t.Helper()
	have := map[string]int{}
	for queue, left := range map[string]int{"work": inWork, "end": 0} {
		brokertest.Eventually(t, 10*time.Second, func() error {
			for {
				d, ok, err := channel.Get(queue, true)
				switch {
				case err != nil:
					return err
				case ok:
					left--
					have[queue+" "+d.MessageId]++
				case left > 0:
					return fmt.Errorf("%q has not got %d messages back", queue, left)
				default:
					return nil
				}
			}
		})
	}
	return have
}
