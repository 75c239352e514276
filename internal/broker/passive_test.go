package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func TestCounts(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		c := clientOf(t, b)
		w := writerOf(t, c, ViaAMQP, vhost)
		var names []string
		for i := range 40 {
			name := fmt.Sprintf("q%d", i)
			names = append(names, name, "missing"+name)
			create(t, w, &topology.Queue{VirtualHost: vhost, Name: name, Type: topology.Classic, Durable: true})
		}
		b.Publish(t, vhost, "", "q7", 3)
		if _, err := b.Channel(t, vhost).QueueDeclare("locked", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		counts, err := c.Counts(t.Context(), vhost, append(names, "locked", "", strings.Repeat("x", 300)))
		if err != nil {
			t.Fatal(err)
		}
		if len(counts) != 41 || *counts["q7"].Messages != 3 || *counts["q7"].Consumers != 0 || *counts["q8"].Messages != 0 {
			t.Errorf("counts of %d queues: %v", len(counts), counts)
		}
		if l, ok := counts["locked"]; !ok || l.Messages != nil {
			t.Errorf("locked: %v %v", l, ok)
		}
	})
}

func TestPassive(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		w := writerOf(t, clientOf(t, b), ViaAMQP, vhost)
		queue := func(n string) *topology.Queue { return &topology.Queue{VirtualHost: vhost, Name: n, Durable: true} }
		exchange := func(n string) *topology.Exchange {
			return &topology.Exchange{VirtualHost: vhost, Name: n, Type: "direct", Durable: true}
		}
		create(t, w, queue("there"), exchange("there"))
		if _, err := b.Channel(t, vhost).QueueDeclare("locked", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		user, password := b.User(t, vhost, "", "^nothing$", "^nothing$", "^nothing$")
		objects := []topology.Object{queue("there"), queue("gone"), exchange("there"), exchange("gone"), exchange("amq.topic"), exchange("")}
		for _, as := range []struct{ user, password string }{{b.Username, b.Password}, {user, password}} {
			c, err := New(Options{AMQPURL: "amqp://" + b.AMQPAddress(), Username: as.user, Password: as.password})
			if err != nil {
				t.Fatal(err)
			}
			missing, err := c.Passive(t.Context(), vhost, objects)
			if as.user == user && b.AtLeast("4.3") {
				if !IsAuth(err) || len(missing) != 0 || !strings.Contains(err.Error(), "permission") {
					t.Errorf("without rights: %v, %v", missing, err)
				}
				continue
			}
			if err != nil || len(missing) != 2 || missing[0] != objects[1].Key() || missing[1] != objects[3].Key() {
				t.Errorf("missing %v, %v", missing, err)
			}
			if _, err := c.Passive(t.Context(), vhost, []topology.Object{queue("locked")}); !IsLocked(err) {
				t.Errorf("locked: %v", err)
			}
			if _, err := c.Passive(t.Context(), "no such host", objects); !IsNotFound(err) && !IsAuth(err) {
				t.Errorf("missing virtual host: %v", err)
			}
			if _, err := c.Read(t.Context(), []string{vhost}, ReadOptions{}); err == nil || !strings.Contains(err.Error(), "management URL") {
				t.Errorf("reading without a management URL: %v", err)
			}
		}
	})
}

func TestWhoami(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		user, password := b.User(t, "", "management,policymaker", "", "", "")
		me, err := clientOf(t, b.As(user, password)).Whoami(context.Background())
		if err != nil || me.Name != user || !me.Has("policymaker") || me.Has("administrator") || me.SeesAllVirtualHosts() {
			t.Errorf("%+v, %v", me, err)
		}
	})
}
