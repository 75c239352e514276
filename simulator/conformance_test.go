package simulator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestConformance runs every scenario on each real broker and on the simulator as
// the same version: what clients see must be the same.
func TestConformance(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				real, model := onBroker(t, b), simulated(t, b.Version)
				s.run(real)
				s.run(model)
				if !slices.Equal(real.trace, model.trace) {
					t.Errorf("the simulator differs from RabbitMQ %s:\n%s", b.Version, differences(real.trace, model.trace))
				}
				if len(real.trace) == 0 {
					t.Error("the scenario shows nothing")
				}
			})
		}
	})
}

// differences shows what both saw, line by line.
func differences(real, model []string) string {
	var b strings.Builder
	for i := range max(len(real), len(model)) {
		at := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(nothing)"
		}
		if at(real) == at(model) {
			fmt.Fprintf(&b, "  %s\n", at(real))
		} else {
			fmt.Fprintf(&b, "  broker:    %s\n  simulator: %s\n", at(real), at(model))
		}
	}
	return b.String()
}

type scenario struct {
	name string
	run  func(*lab)
}

var dead = amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

func with(tables ...amqp091.Table) amqp091.Table {
	all := amqp091.Table{}
	for _, t := range tables {
		for k, v := range t {
			all[k] = v
		}
	}
	return all
}

// each makes one scenario for classic and one for quorum queues.
func each(name string, run func(l *lab, kind string)) []scenario {
	var all []scenario
	for _, kind := range []string{"classic", "quorum"} {
		all = append(all, scenario{name + "/" + kind, func(l *lab) { run(l, kind) }})
	}
	return all
}

var scenarios = func() []scenario {
	var all []scenario
	add := func(list ...scenario) { all = append(all, list...) }
	add(each("a message comes back as it was", func(l *lab, kind string) {
		l.queue("q", kind, nil)
		l.publish("", "q", "a", func(p *amqp091.Publishing) { p.Headers = amqp091.Table{"h": int32(7), "x-delivery-count": int64(9)} })
		l.publish("", "q", "b")
		d, _ := l.get("q")
		l.nack(d, true)
		d, _ = l.get("q")
		l.reject(d, true)
		d, _ = l.get("q")
		l.must(l.ch.Ack(d.DeliveryTag, false))
		l.get("q")
		l.get("q")
	})...)
	add(scenario{"a nack of a message that brought more returns than the limit", func(l *lab) {
		l.queue("dead", "quorum", amqp091.Table{"x-delivery-limit": 1})
		l.queue("q", "quorum", with(dead, amqp091.Table{"x-delivery-limit": 3}))
		l.publish("", "q", "a")
		for range 2 {
			d, _ := l.get("q")
			l.reject(d, true)
		}
		d, _ := l.get("q")
		l.reject(d, false)
		d, _ = l.get("dead")
		l.nack(d, true)
		l.get("dead")
	}})
	add(each("rejected messages are dead-lettered", func(l *lab, kind string) {
		l.queue("dead", kind, nil)
		l.queue("q", kind, dead)
		l.publish("", "q", "a")
		d, _ := l.get("q")
		l.reject(d, false)
		l.get("q")
		d, _ = l.get("dead")
		l.reject(d, false)
		l.get("dead")
	})...)
	add(each("expired messages are dead-lettered from the head", func(l *lab, kind string) {
		l.queue("dead", kind, nil)
		l.queue("q", kind, dead)
		expire := func(ms string) func(*amqp091.Publishing) {
			return func(p *amqp091.Publishing) { p.Expiration = ms }
		}
		l.publish("", "q", "long", expire("3000"))
		l.publish("", "q", "short", expire("100"))
		l.pass(700 * time.Millisecond)
		l.get("dead")
		l.pass(2400 * time.Millisecond)
		l.get("dead")
		l.get("dead")
	})...)
	add(each("a wait queue brings back", func(l *lab, kind string) {
		l.queue("q", kind, nil)
		l.queue("wait", kind, amqp091.Table{"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
		l.publish("", "wait", "a", func(p *amqp091.Publishing) { p.Headers = amqp091.Table{"CC": []any{"nowhere"}} })
		l.pass(400 * time.Millisecond)
		d, _ := l.get("q")
		l.reject(d, true)
		l.get("q")
	})...)
	for _, o := range []string{"drop-head", "reject-publish", "reject-publish-dlx"} {
		add(each("overflow "+o, func(l *lab, kind string) {
			l.queue("dead", kind, nil)
			l.queue("q", kind, with(dead, amqp091.Table{"x-max-length": 2, "x-overflow": o}))
			for i := range 5 {
				l.publish("", "q", fmt.Sprint(i))
				if l.real {
					time.Sleep(100 * time.Millisecond) // a quorum queue tells its publishers a little later
				}
			}
			for range 4 {
				l.get("q")
			}
			for range 4 {
				l.get("dead")
			}
		})...)
	}
	for _, by := range []string{"reject", "nack", "close"} {
		add(scenario{"delivery limit by " + by, func(l *lab) {
			l.queue("dead", "classic", nil)
			l.queue("q", "quorum", with(dead, amqp091.Table{"x-delivery-limit": 2}))
			l.publish("", "q", "a")
			for range 5 {
				d, ok := l.get("q")
				switch {
				case !ok:
				case by == "reject":
					l.reject(d, true)
				case by == "nack":
					l.nack(d, true)
				default:
					l.must(l.ch.Close())
					l.reopen()
					l.settle()
				}
			}
			l.get("dead")
		}})
	}
	add(scenario{"counts travel with dead letters", func(l *lab) {
		l.queue("dead", "quorum", amqp091.Table{"x-delivery-limit": 3})
		l.queue("q", "quorum", with(dead, amqp091.Table{"x-delivery-limit": 5}))
		l.publish("", "q", "a")
		for range 6 {
			d, _ := l.get("q")
			l.reject(d, true)
		}
		for range 3 {
			if d, ok := l.get("dead"); ok {
				l.reject(d, true)
			}
		}
	}})
	for _, cause := range []string{"rejected", "expired", "maxlen", "delivery_limit"} {
		add(each("circle by "+cause, func(l *lab, kind string) {
			if cause == "delivery_limit" && kind == "classic" {
				l.queue("q", kind, nil)
				l.get("q")
				return
			}
			args := amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"}
			switch cause {
			case "expired":
				args["x-message-ttl"] = 100
			case "maxlen":
				args["x-max-length"] = 1
			case "delivery_limit":
				args["x-delivery-limit"] = 0
			}
			l.queue("wait", kind, amqp091.Table{"x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
			l.queue("q", kind, args)
			l.publish("", "q", "a")
			switch cause {
			case "maxlen":
				l.publish("", "q", "b")
			case "rejected":
				d, _ := l.get("q")
				l.reject(d, false)
			case "delivery_limit":
				d, _ := l.get("q")
				l.reject(d, true)
			}
			l.pass(700 * time.Millisecond)
			for range 2 {
				if d, ok := l.get("q"); ok {
					l.reject(d, false)
					l.pass(300 * time.Millisecond)
				}
			}
		})...)
	}
	add(each("dead letters keep their keys, or get one", func(l *lab, kind string) {
		l.exchange("x", "direct", nil)
		for _, q := range []string{"first", "second", "fixed"} {
			l.queue(q, kind, nil)
			l.bind(q, q, "x", nil)
		}
		l.queue("own", kind, amqp091.Table{"x-dead-letter-exchange": "x"})
		l.queue("set", kind, amqp091.Table{"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "fixed"})
		l.exchange("in", "fanout", nil)
		l.bind("own", "", "in", nil)
		l.bind("set", "", "in", nil)
		l.publish("in", "first", "a", func(p *amqp091.Publishing) { p.Headers = amqp091.Table{"CC": []any{"second"}, "BCC": []any{"third"}} })
		for _, q := range []string{"own", "set"} {
			d, _ := l.get(q)
			l.reject(d, false)
		}
		l.get("first")
		l.get("second")
		l.get("fixed")
	})...)
	add(scenario{"routing", func(l *lab) {
		l.exchange("topic", "topic", nil)
		l.exchange("headers", "headers", amqp091.Table{"alternate-exchange": "else"})
		l.exchange("else", "fanout", nil)
		for _, q := range []string{"star", "hash", "all", "any", "x", "else"} {
			l.queue(q, "classic", nil)
		}
		l.bind("star", "a.*.c", "topic", nil)
		l.bind("hash", "a.#", "topic", nil)
		l.must(l.ch.ExchangeBind("headers", "to.headers", "topic", false, nil))
		l.bind("all", "", "headers", amqp091.Table{"x-match": "all", "k": int32(1), "s": "1"})
		l.bind("any", "", "headers", amqp091.Table{"x-match": "any", "k": int64(1), "s": "2"})
		l.bind("x", "", "headers", amqp091.Table{"x-match": "all-with-x", "x-why": "bad"})
		l.bind("else", "", "else", nil)
		headers := func(h amqp091.Table) func(*amqp091.Publishing) {
			return func(p *amqp091.Publishing) { p.Headers = h }
		}
		l.publish("topic", "a.b.c", "1")
		l.publish("topic", "a", "2")
		l.publish("topic", "b", "3")
		l.publish("topic", "to.headers", "4", headers(amqp091.Table{"k": int64(1), "s": "1"}))
		l.publish("headers", "", "5", headers(amqp091.Table{"x-why": "bad"}))
		l.publish("headers", "", "6", headers(amqp091.Table{"k": "1"}))
		l.publish("headers", "", "7", headers(amqp091.Table{"k": 1.0}))
		l.publish("missing", "", "8")
		l.publish("", "nowhere", "9")
		for _, q := range []string{"star", "hash", "all", "any", "x", "else"} {
			for range 4 {
				if _, ok := l.get(q); !ok {
					break
				}
			}
		}
	}})
	add(scenario{"what is refused", func(l *lab) {
		l.queue("c", "classic", amqp091.Table{"x-message-ttl": 1000})
		l.queue("c", "classic", amqp091.Table{"x-message-ttl": 2000})
		l.queue("c", "classic", nil)
		l.queue("c", "quorum", amqp091.Table{"x-message-ttl": 1000})
		l.queue("c", "classic", amqp091.Table{"x-message-ttl": int64(1000), "x-foo": "bar"})
		l.queue("s", "stream", amqp091.Table{"x-message-ttl": 1000})
		l.queue("q", "quorum", amqp091.Table{"x-max-priority": 5})
		l.queue("k", "classic", amqp091.Table{"x-dead-letter-routing-key": "k"})
		l.queue("t", "classic", amqp091.Table{"x-message-ttl": "1000"})
		l.queue("amq.x", "classic", nil)
		l.exchange("amq.x", "direct", nil)
		l.exchange("e", "direct", nil)
		l.exchange("e", "fanout", nil)
		l.exchange("u", "x-unknown", nil)
		l.bind("c", "k", "missing", nil)
		l.bind("missing", "k", "e", nil)
		l.bind("c", "k", "", nil)
		_, err := l.ch.QueueDeclarePassive("missing", false, false, false, false, nil)
		l.trouble("passive", err)
		_, err = l.ch.QueueDelete("c", false, true, false)
		l.trouble("delete", err)
		l.queue("q2", "quorum", nil)
		_, err = l.ch.QueueDelete("q2", false, true, false)
		l.trouble("delete if empty", err)
		l.publish("", "q2", "user", func(p *amqp091.Publishing) { p.UserId = "somebody" })
		for _, e := range []string{"1.5", "-1", "abc", " 5", "315360000001"} {
			l.publish("", "q2", "expiration "+e, func(p *amqp091.Publishing) { p.Expiration = e })
		}
		closed := l.ch.NotifyClose(make(chan *amqp091.Error, 1))
		l.must(l.ch.Ack(99, false))
		l.say("ack of what was never delivered: %d", (<-closed).Code)
	}})
	add(each("policies act", func(l *lab, kind string) {
		l.queue("dead", kind, nil)
		l.queue("q", kind, nil)
		l.policy("p", "^q$", map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "max-length": 1})
		l.publish("", "q", "a")
		l.publish("", "q", "b")
		l.get("q")
		l.get("dead")
	})...)
	add(each("a queue that is not used goes", func(l *lab, kind string) {
		if kind == "quorum" {
			l.say("quorum queues go some seconds later")
			return
		}
		l.queue("dead", kind, nil)
		l.queue("q", kind, with(dead, amqp091.Table{"x-expires": 300}))
		l.publish("", "q", "a")
		l.pass(800 * time.Millisecond)
		_, err := l.ch.QueueDeclarePassive("q", false, false, false, false, nil)
		l.trouble("passive", err)
		l.get("dead")
	})...)
	add(scenario{"a client's own x-death", func(l *lab) {
		l.queue("q", "classic", nil)
		l.queue("wait", "classic", amqp091.Table{"x-message-ttl": 50, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
		l.publish("", "wait", "a")
		for range 3 {
			l.pass(200 * time.Millisecond)
			d, _ := l.get("q")
			l.must(l.ch.Ack(d.DeliveryTag, false))
			l.publish("", "wait", "a", func(p *amqp091.Publishing) { p.Headers = d.Headers })
		}
	}})
	add(scenario{"priorities", func(l *lab) {
		l.queue("q", "classic", amqp091.Table{"x-max-priority": 5})
		for i, p := range []uint8{0, 3, 9, 3} {
			l.publish("", "q", fmt.Sprint(i), func(m *amqp091.Publishing) { m.Priority = p })
		}
		for range 4 {
			l.get("q")
		}
	}})
	add(scenario{"transactions", func(l *lab) {
		l.queue("q", "classic", nil)
		l.must(l.ch.Tx())
		l.must(l.ch.PublishWithContext(l.t.Context(), "", "q", true, false, amqp091.Publishing{Body: []byte("a")}))
		l.must(l.ch.TxRollback())
		l.must(l.ch.PublishWithContext(l.t.Context(), "", "q", true, false, amqp091.Publishing{Body: []byte("b")}))
		l.must(l.ch.TxCommit())
		l.get("q")
		l.get("q")
		l.trouble("confirm", l.ch.Confirm(false))
	}})
	add(scenario{"redelivered after dead-lettering", func(l *lab) {
		for _, from := range []string{"classic", "quorum"} {
			for _, to := range []string{"classic", "quorum"} {
				l.queue("to-"+from+to, to, nil)
				l.queue(from+to, from, amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "to-" + from + to})
				l.publish("", from+to, "a")
				d, _ := l.get(from + to)
				l.reject(d, true)
				d, _ = l.get(from + to)
				l.reject(d, false)
				l.get("to-" + from + to)
			}
		}
	}})
	return all
}()
