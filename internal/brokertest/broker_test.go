package brokertest

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestVirtualHostIsDeletedAfterwards(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		var vhost string
		t.Run("inner", func(t *testing.T) {
			vhost = b.VirtualHostNamed(t, "shop")
			if other := b.VirtualHostNamed(t, "shop"); other == vhost {
				t.Errorf("twice the same name %s", vhost)
			}
			b.DeclareQueue(t, vhost, "q", nil)
			if b.AtLeast("4.1") {
				b.Do(t, "POST", Path("vhosts", vhost, "deletion", "protection"), nil)
			}
		})
		if status, _ := b.Do(t, "GET", Path("vhosts", vhost), nil); status != http.StatusNotFound {
			t.Errorf("virtual host %s: %d after the test", vhost, status)
		}
	})
}

func TestPathsAreSentAsGiven(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		vhost := b.VirtualHost(t)
		for _, name := range []string{"plain", "a/b", "100%", "a b+c", "a?b#c", "ü", "%2F", "*~"} {
			b.Put(t, Path("queues", vhost, name), map[string]bool{"durable": true})
			var queue struct{ Name string }
			b.Get(t, Path("queues", vhost, name)+"?disable_stats=true", &queue)
			if queue.Name != name {
				t.Errorf("declared %q, is %q", name, queue.Name)
			}
			if !b.HasQueue(t, vhost, name) {
				t.Errorf("no queue %q over AMQP", name)
			}
		}
		if status, body := b.Do(t, "PUT", Path("queues", vhost, "raw"), `{"durable": `); status != 400 {
			t.Errorf("half a JSON document: %d %s", status, body)
		}
	})
}

func TestUserHasOnlyItsPermissions(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		vhost := b.VirtualHost(t)
		name, password := b.User(t, vhost, "management", "^mine$", "", "")
		user := b.As(name, password)
		user.DeclareQueue(t, vhost, "mine", nil)
		if status, _ := user.Do(t, "PUT", Path("queues", vhost, "other"), map[string]bool{"durable": true}); status != 401 {
			t.Errorf("declaring another queue: %d, want 401", status)
		}
		if status, _ := user.Do(t, "GET", Path("users"), nil); status != 401 {
			t.Errorf("listing users: %d, want 401", status)
		}
		if b.HasQueue(t, vhost, "other") {
			t.Error("the queue is there")
		}
	})
}

func TestMessages(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		vhost := b.VirtualHost(t)
		for _, kind := range []string{"classic", "quorum"} {
			b.DeclareExchange(t, vhost, kind, "topic", nil)
			b.DeclareQueue(t, vhost, kind, amqp.Table{"x-queue-type": kind})
			b.Bind(t, vhost, kind, kind, "#", nil)
			b.Publish(t, vhost, kind, "some.key", 3, func(i int, m *amqp.Publishing) { m.MessageId = fmt.Sprint("id", i) })
			b.AwaitDepth(t, vhost, kind, 3, 10*time.Second)
			for i := range 3 {
				m := b.AwaitMessage(t, vhost, kind, 10*time.Second)
				if string(m.Body) != fmt.Sprint(i) || m.MessageId != fmt.Sprint("id", i) || m.RoutingKey != "some.key" || m.DeliveryMode != amqp.Persistent {
					t.Errorf("%s: message %d is %+v", kind, i, m)
				}
			}
			if _, ok := b.Message(t, vhost, kind); ok {
				t.Errorf("%s: a fourth message", kind)
			}
			if n := b.Depth(t, vhost, kind); n != 0 {
				t.Errorf("%s: depth %d", kind, n)
			}
		}
		if b.HasQueue(t, vhost, "missing") {
			t.Error("there is a queue that nobody declared")
		}
		if err := b.Channel(t, vhost).Qos(1, 0, false); err != nil {
			t.Error(err)
		}
	})
}

// The statistics that plan and watch read are fresh within seconds on test brokers.
func TestStatisticsAreFresh(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "q", amqp.Table{"x-queue-type": "quorum"})
		b.Publish(t, vhost, "", "q", 1)
		Eventually(t, 10*time.Second, func() error {
			var queue struct{ Messages *int }
			b.Get(t, Path("queues", vhost, "q"), &queue)
			if queue.Messages == nil || *queue.Messages != 1 {
				return fmt.Errorf("statistics say %v", queue.Messages)
			}
			return nil
		})
	})
}

func TestStableFeatureFlagsAreOn(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		var flags []struct{ Name, State, Stability string }
		b.Get(t, Path("feature-flags"), &flags)
		for _, flag := range flags {
			if flag.Stability != "experimental" && flag.State != "enabled" {
				t.Errorf("%s feature flag %s is %s", flag.Stability, flag.Name, flag.State)
			}
		}
	})
}
