package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// soon is for nodes whose statistics are right within two seconds; on others give
// the tests of this file the default.
func soon(o *Options) { o.StatisticsLag = 4 * time.Second }

// Everything that a queue can hold keeps it from counting as empty, on each type;
// what was acknowledged does not (rows B13 and B14 among them).
func TestProveEmpty(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		channel := b.Channel(t, vhost)
		want := map[string]string{"gone": "-"}
		var queues []*topology.Queue
		queue := func(name string, typ topology.QueueType, arguments amqp.Table, messages int, empty string) {
			if arguments == nil {
				arguments = amqp.Table{}
			}
			arguments["x-queue-type"] = string(typ)
			b.DeclareQueue(t, vhost, name, arguments)
			if messages > 0 {
				b.Publish(t, vhost, "", name, messages)
			}
			queues = append(queues, &topology.Queue{VirtualHost: vhost, Name: name, Type: typ, Durable: true})
			want[name] = empty
		}
		take := func(name string) amqp.Delivery {
			t.Helper()
			m, ok, err := channel.Get(name, false)
			if err != nil || !ok {
				t.Fatalf("get from %s: %v %v", name, ok, err)
			}
			return m
		}
		for _, typ := range []topology.QueueType{topology.Classic, topology.Quorum} {
			n := string(typ) + "."
			queue(n+"new", typ, nil, 0, "")
			queue(n+"ready", typ, nil, 2, "2 messages")
			taken := "1 unacknowledged"
			if typ == topology.Quorum {
				taken = "1 consumer" // such a queue counts who got a message as a consumer, even in a passive declaration
			}
			queue(n+"taken", typ, nil, 1, taken)
			take(n + "taken")
			queue(n+"acked", typ, nil, 1, "")
			if err := take(n + "acked").Ack(false); err != nil {
				t.Fatal(err)
			}
			queue(n+"consumed", typ, nil, 0, "1 consumer")
			if _, err := channel.Consume(n+"consumed", "", false, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		queue("stream", topology.Stream, nil, 0, "stream")
		queue("dlx", topology.Quorum, amqp.Table{
			"x-dead-letter-exchange": "gone", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}, 1, "1 waiting to be dead-lettered")
		if err := take("dlx").Reject(false); err != nil {
			t.Fatal(err)
		}
		if b.AtLeast("4.3") {
			queue("delayed", topology.Quorum, amqp.Table{
				"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(600000), "x-delayed-retry-max": int64(600000),
			}, 1, "1 waiting for a delayed retry")
			if err := take("delayed").Reject(true); err != nil {
				t.Fatal(err)
			}
		}
		queues = append(queues, &topology.Queue{VirtualHost: vhost, Name: "gone", Type: topology.Classic})
		// A passive declaration sees nothing of these.
		b.AwaitDepth(t, vhost, "dlx", 0, 10*time.Second)

		got, err := clientOf(t, b, soon).ProveEmpty(t.Context(), queues)
		if err != nil {
			t.Fatal(err)
		}
		for name, why := range want {
			e, there := got[queueKey(vhost, name)]
			if there != (why != "-") || there && e.Empty != (why == "") || !strings.Contains(e.Why, strings.TrimPrefix(why, "-")) {
				t.Errorf("%s: there %v, empty %v, %q; want %q", name, there, e.Empty, e.Why, why)
			}
		}
		if e := got[queueKey(vhost, "dlx")]; e.DeadLettering == nil || *e.DeadLettering != 1 {
			t.Errorf("dlx: messages_dlx %v", e.DeadLettering)
		}

		// Without AMQP nothing is empty.
		got, err = clientOf(t, b, soon, func(o *Options) { o.AMQPURL = "amqp://127.0.0.1:1" }).ProveEmpty(t.Context(), queues)
		for _, q := range queues {
			if e, there := got[q.Key()]; err != nil || !there || e.Empty || !strings.Contains(e.Why, "AMQP") {
				t.Errorf("without AMQP: %s: %+v %v", q.Name, e, err)
			}
		}
	})
}

// What comes while the statistics are waited for is seen.
func TestProveEmptySeesWhatComes(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		api := brokertest.HTTPProxy(t, b, nil)
		b.DeclareQueue(t, vhost, "jobs", amqp.Table{"x-queue-type": "quorum"})
		q := &topology.Queue{VirtualHost: vhost, Name: "jobs", Type: topology.Quorum, Durable: true}
		c := clientOf(t, b, soon, withAMQP(b), func(o *Options) { o.URL = api.URL })
		done := make(chan Emptiness, 1)
		go func() {
			got, err := c.ProveEmpty(t.Context(), []*topology.Queue{q})
			if err != nil {
				t.Error(err)
			}
			done <- got[q.Key()]
		}()
		brokertest.EventuallyTrue(t, 20*time.Second, "the statistics are asked for", func() bool {
			for _, r := range api.Requests() {
				if strings.Contains(r.Path, "/queues/") {
					return true
				}
			}
			return false
		})
		b.Publish(t, vhost, "", "jobs", 1)
		if e := <-done; e.Empty || !strings.Contains(e.Why, "1 message") {
			t.Errorf("%+v", e)
		}
	})
}

// A queue that got a message or a consumer after the proof is not deleted.
func TestDeleteEmpty(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		w := writerOf(t, clientOf(t, b), ViaAMQP, vhost)
		channel := b.Channel(t, vhost)
		for _, typ := range []topology.QueueType{topology.Classic, topology.Quorum} {
			declare := func(name string) *topology.Queue {
				b.DeclareQueue(t, vhost, name, amqp.Table{"x-queue-type": string(typ)})
				return &topology.Queue{VirtualHost: vhost, Name: name, Type: typ, Durable: true}
			}
			full, used, empty := declare("full"), declare("used"), declare("empty")
			b.Publish(t, vhost, "", "full", 1)
			if _, err := channel.Consume("used", "", false, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			for _, q := range []*topology.Queue{full, used} {
				if err := w.DeleteEmpty(t.Context(), q); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), q.Name) {
					t.Errorf("%s %s: %v", typ, q.Name, err)
				}
				if !b.HasQueue(t, vhost, q.Name) {
					t.Errorf("%s %s was deleted", typ, q.Name)
				}
			}
			for range 2 { // also when it is gone
				if err := w.DeleteEmpty(t.Context(), empty); err != nil || b.HasQueue(t, vhost, "empty") {
					t.Errorf("%s: %v", typ, err)
				}
			}
			for _, q := range []*topology.Queue{full, used} {
				if err := w.Delete(t.Context(), q); err != nil {
					t.Error(err)
				}
			}
		}
		b.DeclareQueue(t, vhost, "log", amqp.Table{"x-queue-type": "stream"})
		log := &topology.Queue{VirtualHost: vhost, Name: "log", Type: topology.Stream, Durable: true}
		if err := w.DeleteEmpty(t.Context(), log); err == nil || !b.HasQueue(t, vhost, "log") {
			t.Errorf("stream: %v", err)
		}
		h := writerOf(t, clientOf(t, b), ViaHTTP, vhost)
		if err := h.DeleteEmpty(t.Context(), &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic}); err == nil {
			t.Error("without AMQP a queue was deleted")
		}
	})
}
