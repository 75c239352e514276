package validate

import (
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// upgradeCase is what brokers do differently before and after an upgrade. A rule
// reports it for an upgrade from a version exactly where that version's broker does
// not do what the newest one does.
type upgradeCase struct {
	code    string
	objects []topology.Object
	// does reports what the broker does; the objects are declared already unless
	// they are none.
	does func(t *testing.T, b *brokertest.Broker, vhost string) string
	// old and now are the answers before and from the version since.
	old, now string
	since    string
}

// returned gives a message back until it is gone from "q", at most n times, and says
// where it is.
func returned(n int, give func(amqp.Delivery) error) func(*testing.T, *brokertest.Broker, string) string {
	return func(t *testing.T, b *brokertest.Broker, vhost string) string {
		t.Helper()
		b.Publish(t, vhost, "", "q", 1)
		channel := b.Channel(t, vhost)
		for i := range n {
			var message amqp.Delivery
			for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				m, ok, err := channel.Get("q", false)
				if err != nil {
					t.Fatal(err)
				}
				if message = m; ok {
					break
				}
				if i > 0 && time.Now().After(end) {
					return "given up"
				}
			}
			if err := give(message); err != nil {
				t.Fatal(err)
			}
		}
		return "still there"
	}
}

func upgradeCases() []upgradeCase {
	dead := dead()
	routed := args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
	with := func(k string, v any) args {
		a := routed.Clone()
		a[k] = v
		return a
	}
	policy := func(name string, priority int64, definition args) *topology.Policy {
		return &topology.Policy{Name: name, ApplyTo: "queues", Pattern: "^q$", Priority: priority, Definition: definition}
	}
	acting := func(t *testing.T, b *brokertest.Broker, vhost string) string {
		t.Helper()
		var list []struct{ Name, Policy string }
		b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true", &list)
		for _, q := range list {
			if q.Name == "q" {
				return q.Policy
			}
		}
		return ""
	}
	refused := func(o topology.Object) func(*testing.T, *brokertest.Broker, string) string {
		return func(t *testing.T, b *brokertest.Broker, vhost string) string {
			t.Helper()
			defer remove(t, b, vhost, []topology.Object{o})
			if answer, _ := declare(t, b, vhost, o); answer != 0 {
				return "refused"
			}
			return "taken"
		}
	}
	reject := func(m amqp.Delivery) error { return m.Reject(true) }
	nack := func(m amqp.Delivery) error { return m.Nack(false, true) }
	mirrored := policy("mirrored", 0, args{"ha-mode": "all"})
	aged := q(stream, args{"x-max-age": "1M"})
	return []upgradeCase{
		{"upgrade-default-delivery-limit", []topology.Object{dead, q(quorum, routed)}, returned(25, reject), "still there", "given up", "4.0"},
		{"upgrade-nack-not-counted", []topology.Object{dead, q(quorum, with("x-delivery-limit", int64(2)))}, returned(6, nack), "given up", "still there", "4.3"},
		{"upgrade-setting-changes", []topology.Object{dead, q(quorum, with("x-delivery-limit", int64(-1)))}, returned(25, reject), "given up", "still there", "4.0"},
		{
			"upgrade-policy-acts", []topology.Object{
				policy("memory", 1, args{"max-in-memory-length": int64(10)}), policy("below", 0, args{"max-length": int64(1000)}), plain(),
			}, acting, "memory", "below", "4.0",
		},
		{"upgrade-mirrored-queue", []topology.Object{plain(), mirrored}, refused(mirrored), "taken", "refused", "4.0"},
		{
			"upgrade-consumer-timeout",
			[]topology.Object{policy("slow", 0, args{"consumer-timeout": int64(60000)}), plain()},
			refused(named("other", classic, args{"x-consumer-timeout": int64(60000)})), "taken", "refused", "4.3",
		},
		{
			"upgrade-max-age-compared", []topology.Object{aged}, func(t *testing.T, b *brokertest.Broker, vhost string) string {
				t.Helper()
				if answer, _ := declare(t, b, vhost, q(stream, args{"x-max-age": "30D"})); answer != 0 {
					return "refused"
				}
				return "taken"
			}, "refused", "taken", "4.3",
		},
	}
}

// TestUpgradesOnBrokers holds the rules on upgrades to what changes between brokers.
func TestUpgradesOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		vhost := b.VirtualHost(t)
		for _, c := range upgradeCases() {
			t.Run(c.code, func(t *testing.T) {
				defer remove(t, b, vhost, c.objects)
				possible := true
				for _, o := range c.objects {
					answer, text := declare(t, b, vhost, o)
					possible = possible && answer == 0
					if _, policy := o.(*topology.Policy); answer != 0 && !policy {
						t.Fatalf("declare %s: %d %s", o.Key(), answer, text)
					}
				}
				want := c.old
				if b.AtLeast(c.since) {
					want = c.now
				}
				if got := c.does(t, b, vhost); got != want {
					t.Errorf("the broker: %s, want %s", got, want)
				}
				found := len(of(Check(Input{
					Topology: hostOf(c.objects), Versions: []catalog.Version{catalog.Newest}, From: []catalog.Version{version},
				}), c.code)) > 0
				if reported := possible && !b.AtLeast(c.since); found != reported {
					t.Errorf("%s is reported: %v, want %v", c.code, found, reported)
				}
			})
		}
	})
}

// TestUpgradedTimeoutOnBrokers: from 4.3 on a quorum queue cancels a consumer that is
// too slow, and its channel stays.
func TestUpgradedTimeoutOnBrokers(t *testing.T) {
	brokertest.EachSince(t, "4.3", func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		if answer, text := declare(t, b, vhost, q(quorum, args{"x-consumer-timeout": int64(1000)})); answer != 0 {
			t.Fatal(answer, text)
		}
		b.Publish(t, vhost, "", "q", 1)
		channel := b.Channel(t, vhost)
		cancelled := channel.NotifyCancel(make(chan string, 1))
		if _, err := channel.Consume("q", "slow", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-cancelled:
		case <-time.After(30 * time.Second):
			t.Fatal("the consumer was not cancelled")
		}
		if channel.IsClosed() {
			t.Error("the channel is closed")
		}
	})
}

// TestDefaultTypeOnBrokers: which brokers honour a virtual host's default queue type,
// and refuse to declare a queue that exists without its type.
func TestDefaultTypeOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		if status, body := b.Do(t, http.MethodPut, brokertest.Path("vhosts", vhost), map[string]any{"default_queue_type": "quorum"}); status/100 != 2 {
			t.Fatalf("%d %s", status, body)
		}
		channel := b.Channel(t, vhost)
		if _, err := channel.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		var list []struct{ Type string }
		b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true", &list)
		want := "quorum"
		if !b.AtLeast("4.0") {
			want = "classic"
		}
		if len(list) != 1 || list[0].Type != want {
			t.Errorf("queues %+v, want one of type %s", list, want)
		}
		// A classic queue from before is not what an untyped declaration means now.
		if answer, text := declare(t, b, vhost, named("old", classic, nil)); answer != 0 {
			t.Fatal(answer, text)
		}
		_, err := channel.QueueDeclare("old", true, false, false, false, nil)
		if refused := err != nil; refused != b.AtLeast("4.0") {
			t.Errorf("declaring a classic queue without its type: %v", err)
		}
	})
}
