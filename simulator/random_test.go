package simulator_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// history is a random topology and what clients do on it.
type history struct {
	queues    []randomQueue
	exchanges []randomExchange
	bindings  []randomBinding
	steps     []randomStep
}

type randomQueue struct {
	name, kind string
	args       amqp091.Table
}

type randomExchange struct {
	name, kind string
	args       amqp091.Table
}

type randomBinding struct {
	queue, exchange, key string
	args                 amqp091.Table
}

type randomStep struct {
	verb     string // publish, take or pass
	exchange string
	key      string
	headers  amqp091.Table
	expiry   string
	cc       []any
	queue    string
	outcome  string
}

// Times are coarse, so that no scheduling of the machine decides what is seen: all steps
// but those that let time pass are done before the first messages expire.
const (
	soon, late = 5_000, 600_000 // milliseconds
	passing    = 6 * time.Second
)

// drawHistory draws a history. Full queues and priorities are left to the scenarios: which
// message is dropped depends on orders that the broker does not promise.
func drawHistory(t *rapid.T) *history {
	h := &history{}
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	chance := func(label string, percent int) bool { return rapid.IntRange(1, 100).Draw(t, label) <= percent }
	queues := rapid.IntRange(2, 4).Draw(t, "queues")
	name := func(i int) string { return "q" + strconv.Itoa(i) }
	exchanges := []string{"x0", "x1"}
	for _, x := range exchanges {
		e := randomExchange{name: x, kind: pick("kind of "+x, "direct", "topic", "fanout", "headers"), args: amqp091.Table{}}
		if x == "x0" && chance("alternate", 40) {
			e.args["alternate-exchange"] = "x1"
		}
		h.exchanges = append(h.exchanges, e)
	}
	for i := range queues {
		q := randomQueue{name: name(i), kind: pick("type", "classic", "quorum"), args: amqp091.Table{}}
		if chance("dead-letter route", 60) {
			if chance("by name", 60) {
				q.args["x-dead-letter-exchange"], q.args["x-dead-letter-routing-key"] = "", name(rapid.IntRange(0, queues-1).Draw(t, "target"))
			} else {
				q.args["x-dead-letter-exchange"] = pick("dead-letter exchange", "x0", "x1", "missing")
				if chance("with a key", 50) {
					q.args["x-dead-letter-routing-key"] = pick("dead-letter key", "a", "a.b", "none")
				}
			}
		}
		if chance("ttl", 30) {
			q.args["x-message-ttl"] = rapid.SampledFrom([]int{soon, late}).Draw(t, "milliseconds")
		}
		if q.kind == "quorum" && chance("limit", 50) {
			q.args["x-delivery-limit"] = rapid.IntRange(0, 3).Draw(t, "returns")
		}
		h.queues = append(h.queues, q)
	}
	for range rapid.IntRange(1, 5).Draw(t, "bindings") {
		b := randomBinding{queue: name(rapid.IntRange(0, queues-1).Draw(t, "to")), exchange: pick("from", exchanges...), key: pick("key", "a", "a.b", "a.*", "#", "*.b")}
		if chance("arguments", 40) {
			b.args = amqp091.Table{"x-match": pick("match", "all", "any", "all-with-x", "any-with-x"), "h": pick("h", "1", "2")}
		}
		h.bindings = append(h.bindings, b)
	}
	passes := 0
	for range rapid.IntRange(4, 14).Draw(t, "steps") {
		var s randomStep
		switch verb := rapid.IntRange(0, 9).Draw(t, "verb"); {
		case verb < 5:
			s = randomStep{verb: "publish", exchange: pick("exchange", "", "x0", "x1"), key: pick("key", "a", "a.b", "none")}
			if s.exchange == "" {
				s.key = name(rapid.IntRange(0, queues-1).Draw(t, "queue"))
			}
			if chance("headers", 40) {
				s.headers = amqp091.Table{"h": pick("h", "1", "2")}
			}
			if chance("expiry", 20) {
				s.expiry = strconv.Itoa(rapid.SampledFrom([]int{soon, late}).Draw(t, "milliseconds"))
			}
			if chance("cc", 10) {
				s.cc = []any{pick("cc", "a", "q0")}
			}
		case verb < 9 || passes >= 1:
			s = randomStep{verb: "take", queue: name(rapid.IntRange(0, queues-1).Draw(t, "queue")), outcome: pick("outcome", "ack", "reject", "requeue", "nack", "drop", "crash")}
		default:
			s = randomStep{verb: "pass"}
			passes++
		}
		h.steps = append(h.steps, s)
	}
	return h
}

// play runs a history and returns what was seen: of each step, and at the end of each
// queue.
func (h *history) play(l *lab, prefix string) []string {
	l.trace = nil
	named := func(table amqp091.Table, keys ...string) amqp091.Table {
		all := amqp091.Table{}
		for k, v := range table {
			if s, ok := v.(string); ok && slices.Contains(keys, k) && s != "" {
				v = prefix + s
			}
			all[k] = v
		}
		return all
	}
	for _, e := range h.exchanges {
		l.exchange(prefix+e.name, e.kind, named(e.args, "alternate-exchange"))
	}
	for _, q := range h.queues {
		args := named(q.args, "x-dead-letter-exchange")
		if key, ok := args["x-dead-letter-routing-key"].(string); ok && args["x-dead-letter-exchange"] == "" {
			args["x-dead-letter-routing-key"] = prefix + key
		}
		l.queue(prefix+q.name, q.kind, args)
	}
	for _, b := range h.bindings {
		l.bind(prefix+b.queue, b.key, prefix+b.exchange, b.args)
	}
	for i, s := range h.steps {
		switch s.verb {
		case "publish":
			exchange, key := s.exchange, s.key
			if exchange == "" {
				key = prefix + key
			} else {
				exchange = prefix + exchange
			}
			l.publish(exchange, key, "m"+strconv.Itoa(i), func(p *amqp091.Publishing) {
				p.Headers, p.Expiration = amqp091.Table{}, s.expiry
				for k, v := range s.headers {
					p.Headers[k] = v
				}
				if s.cc != nil {
					p.Headers["CC"] = s.cc
				}
			})
			l.settle() // what a full queue drops is dead-lettered now
		case "take":
			h.take(l, prefix+s.queue, s.outcome)
		case "pass":
			l.pass(passing)
			l.settle()
		}
	}
	for _, q := range h.queues {
		l.say("the rest of %s", q.name)
		h.take(l, prefix+q.name, "ack")
	}
	for i, line := range l.trace {
		line = strings.ReplaceAll(line, prefix, "")
		// Which message, where, and why it died last; headers are for the scenarios.
		if at := strings.Index(line, " from "); at > 0 {
			reason := ""
			if _, rest, dead := strings.Cut(line, "reason:"); dead {
				reason, _, _ = strings.Cut(rest, " ")
			}
			line = strings.TrimSpace(line[:at] + " " + reason)
		}
		l.trace[i] = line
	}
	for _, q := range h.queues {
		_, err := l.ch.QueueDelete(prefix+q.name, false, false, false)
		l.must(err)
	}
	for _, e := range h.exchanges {
		l.must(l.ch.ExchangeDelete(prefix+e.name, false, false))
	}
	return l.trace
}

// take takes everything that is in a queue and does the same with all of it. What is seen
// is written down sorted: that each queue has its order is for the other scenarios.
func (h *history) take(l *lab, queue, outcome string) {
	begin := len(l.trace)
	var all []amqp091.Delivery
	for range 40 {
		d, ok := l.get(queue)
		if !ok {
			break
		}
		all = append(all, d)
	}
	slices.Sort(l.trace[begin:])
	if outcome == "crash" {
		l.must(l.ch.Close())
		l.reopen()
		l.settle()
		return
	}
	for _, d := range all {
		switch outcome {
		case "ack":
			l.must(l.ch.Ack(d.DeliveryTag, false))
		case "reject", "drop":
			l.must(l.ch.Reject(d.DeliveryTag, false))
		case "requeue":
			l.must(l.ch.Reject(d.DeliveryTag, true))
		case "nack":
			l.must(l.ch.Nack(d.DeliveryTag, false, true))
		}
	}
	l.settle()
}

// TestRandomHistories: on random topologies random messages and consumers see the same on
// the simulator as on the broker of that version. RABBITCTL_LONG tries more.
func TestRandomHistories(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for worker := range 4 {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				real, model := onBroker(t, b), simulated(t, b.Version)
				n, end := 0, time.Now().Add(time.Duration(brokertest.Rounds(12, 900))*time.Second)
				rapid.Check(t, func(rt *rapid.T) {
					if time.Now().After(end) && !rt.Failed() && n > 0 {
						return
					}
					h := drawHistory(rt)
					n++
					prefix := fmt.Sprintf("h%d.", n)
					got := slices.Clone(h.play(model, prefix))
					var want []string
					// A busy machine may be late with what the broker does by itself.
					for try := range 3 {
						real.patience = time.Duration(80<<try) * time.Millisecond
						if want = h.play(real, prefix+strconv.Itoa(try)+"."); slices.Equal(want, got) {
							break
						}
					}
					if !slices.Equal(want, got) {
						rt.Fatalf("the simulator differs from RabbitMQ %s:\n%+v\n%s", b.Version, *h, differences(want, got))
					}
				})
				t.Logf("%d histories on RabbitMQ %s", n, b.Version)
			})
		}
	})
}
