package broker

import (
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// everyProperty has every property that a client may set and a header of every type.
func everyProperty(user string) amqp.Publishing {
	return amqp.Publishing{
		ContentType: "application/x-thing", ContentEncoding: "gzip", DeliveryMode: amqp.Transient, Priority: 7, CorrelationId: "c\x00\xff",
		ReplyTo: "amq.somewhere", Expiration: "86400000", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t", UserId: user, AppId: "app",
		Body: []byte{0, 1, 2, 0xff, '\n'},
		Headers: amqp.Table{
			"bool": true, "byte": byte(200), "int8": int8(-3), "int16": int16(-300), "uint16": uint16(65000), "int32": int32(-70000),
			"uint32": uint32(4000000000), "int64": int64(-1 << 60), "float": float32(1.5), "double": 1e300,
			"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "string": "ü\x00", "bytes": []byte{0xff, 0}, "time": time.Unix(1600000000, 0), "void": nil,
			"table": amqp.Table{"in": int16(1), "deep": amqp.Table{"x": int64(5)}}, "array": []any{int32(1), "two", amqp.Table{"three": 3.0}},
			"CC": []any{"elsewhere"}, "x-own": "kept", "empty": "",
		},
	}
}

// shown is a delivery without what belongs to the delivery alone.
func shown(d amqp.Delivery) amqp.Delivery {
	d.Acknowledger, d.ConsumerTag, d.DeliveryTag, d.Exchange, d.MessageCount, d.Redelivered = nil, "", 0, "", 0, false
	return d
}

// await is the next message of a queue, as a consumer gets it.
func await(t *testing.T, ch *amqp.Channel, queue string) amqp.Delivery {
	t.Helper()
	deliveries, err := ch.Consume(queue, queue, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Cancel(queue, false)
	select {
	case d := <-deliveries:
		return d
	case <-time.After(10 * time.Second):
		t.Fatalf("no message in queue %s", queue)
	}
	return amqp.Delivery{}
}

var movedTypes = []topology.QueueType{topology.Classic, topology.Quorum}

// moving makes a queue, one that is left as it is, and one that messages are moved to.
func moving(t *testing.T, b *brokertest.Broker, from, to topology.QueueType) (vhost string, q *topology.Queue) {
	t.Helper()
	vhost = b.VirtualHost(t)
	b.DeclareExchange(t, vhost, "way", "fanout", nil)
	b.DeclareExchange(t, vhost, "in", "fanout", nil)
	b.DeclareQueue(t, vhost, "elsewhere", nil)
	b.DeclareQueue(t, vhost, "to", amqp.Table{"x-queue-type": string(to)})
	b.Bind(t, vhost, "way", "to", "", nil)
	for _, name := range []string{"q", "same"} {
		b.DeclareQueue(t, vhost, name, amqp.Table{"x-queue-type": string(from)})
		b.Bind(t, vhost, "in", name, "", nil)
	}
	return vhost, &topology.Queue{VirtualHost: vhost, Name: "q", Type: from, Durable: true}
}

func TestMoveKeepsMessages(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for i, from := range movedTypes {
			t.Run(string(from), func(t *testing.T) {
				vhost, q := moving(t, b, from, movedTypes[1-i])
				b.Publish(t, vhost, "in", "some.key", 1, func(_ int, m *amqp.Publishing) { *m = everyProperty(b.Username) })
				if n, err := clientOf(t, b).Move(t.Context(), q, "way", 0); n != 1 || err != nil {
					t.Fatalf("%d moved, %v", n, err)
				}
				ch := b.Channel(t, vhost)
				got, want := shown(await(t, ch, "to")), shown(await(t, ch, "same"))
				if len(want.Headers) != len(everyProperty("").Headers) {
					t.Fatalf("the broker changed the headers: %v", want.Headers)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("moved:\n%#v\nas it was:\n%#v", got, want)
				}
				if n := b.Depth(t, vhost, "elsewhere"); n != 0 {
					t.Error("a copy went to the queue in the header CC")
				}
			})
		}
	})
}

// TestMoveKeepsDeaths: x-death and what the broker adds with it are kept; what it adds
// to a message that was given back is not.
func TestMoveKeepsDeaths(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for i, from := range movedTypes {
			t.Run(string(from), func(t *testing.T) {
				vhost, q := moving(t, b, from, movedTypes[1-i])
				b.DeclareQueue(t, vhost, "work", amqp.Table{"x-dead-letter-exchange": "in"})
				b.Publish(t, vhost, "", "work", 1)
				ch := b.Channel(t, vhost)
				d, ok, err := ch.Get("work", false)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if err := d.Reject(false); err != nil {
					t.Fatal(err)
				}
				b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
				b.AwaitDepth(t, vhost, "same", 1, 10*time.Second)
				d, ok, err = ch.Get("q", false)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if err := d.Nack(false, true); err != nil {
					t.Fatal(err)
				}
				b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
				if n, err := clientOf(t, b).Move(t.Context(), q, "way", 0); n != 1 || err != nil {
					t.Fatalf("%d moved, %v", n, err)
				}
				got, want := shown(await(t, ch, "to")), shown(await(t, ch, "same"))
				for _, name := range []string{"x-delivery-count", "x-acquired-count"} { // 4.3 counts the reject too
					delete(want.Headers, name)
					delete(got.Headers, name)
				}
				if want.Headers["x-death"] == nil {
					t.Fatalf("no x-death: %v", want.Headers)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("moved:\n%#v\nas it was:\n%#v", got, want)
				}
			})
		}
	})
}

// TestMoveRefused: what cannot be moved stays where it is.
func TestMoveRefused(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, c := range []struct {
			name, says string
			prepare    func(vhost string)
			user       string
		}{
			{"no queue behind", "no queue took", func(vhost string) { b.Do(t, "DELETE", brokertest.Path("queues", vhost, "to"), nil) }, ""},
			{"full", "refused the copy", func(vhost string) {
				b.Do(t, "DELETE", brokertest.Path("queues", vhost, "to"), nil)
				b.DeclareQueue(t, vhost, "to", amqp.Table{"x-max-length": 3, "x-overflow": "reject-publish"})
				b.Bind(t, vhost, "way", "to", "", nil)
			}, ""},
			{"consumer", "exclusive", func(vhost string) {
				if _, err := b.Channel(t, vhost).Consume("q", "other", false, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
			}, ""},
			{"user_id", "impersonator", nil, "guest"},
		} {
			t.Run(c.name, func(t *testing.T) {
				vhost, q := moving(t, b, topology.Classic, topology.Quorum)
				b.Publish(t, vhost, "in", "k", 20, func(_ int, m *amqp.Publishing) { m.UserId = c.user })
				as := b
				if c.user != "" {
					as = b.As(b.User(t, vhost, "management", ".*", ".*", ".*"))
				}
				if c.prepare != nil {
					c.prepare(vhost)
				}
				direct := func(o *Options) { o.AMQPURL = "amqp://" + b.AMQPAddress() }
				n, err := clientOf(t, as, direct).Move(t.Context(), q, "way", 0)
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%d moved, error %v, want one that says %q", n, err, c.says)
				}
				if c.name != "consumer" {
					b.AwaitDepth(t, vhost, "q", 20-int(n), 10*time.Second)
				}
				if c.name == "full" {
					b.AwaitDepth(t, vhost, "to", int(n), 10*time.Second)
				} else if n != 0 {
					t.Errorf("%d moved", n)
				}
			})
		}
	})
}
