package broker

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestRecords: a record of twenty thousand objects with long names goes to a broker
// and comes back as it was; without the tag policymaker it can neither be read nor
// written.
func TestRecords(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t) // deletes the records about it in the end
		c := clientOf(t, b)
		r := &ownership.Record{Stack: "records", VirtualHost: vhost, Objects: map[topology.Key]ownership.State{
			{Kind: topology.KindQueue, VirtualHost: vhost, Name: "ü \u0001 \"/%"}: ownership.Pending,
		}}
		for i := range 5000 {
			name := fmt.Sprintf("some-team.orders.of-a-service-with-a-long-name.%d", i)
			for kind, n := range map[topology.Kind]string{
				topology.KindQueue: name, topology.KindExchange: name, topology.KindPolicy: "rabbitctl:" + name,
				topology.KindBinding: "orders.events => queue " + name + " [" + name + "]",
			} {
				r.Objects[topology.Key{Kind: kind, VirtualHost: vhost, Name: n}] = ownership.Owned
			}
		}
		if err := c.PutRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all, err := c.Records(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := all.Of("records", vhost); got == nil || !maps.Equal(got.Objects, r.Objects) {
			t.Fatalf("it came back as %v, broken %v", got, all.Broken("records", vhost))
		}
		empty := &ownership.Record{Stack: "records", VirtualHost: vhost}
		if err := c.PutRecord(t.Context(), empty); err != nil {
			t.Fatal(err)
		}
		if all, err = c.Records(t.Context()); err != nil || all.Of("records", vhost) == nil {
			t.Errorf("an empty record: %v %v", err, all.Broken("records", vhost))
		}

		user, password := b.User(t, vhost, "management", ".*", ".*", ".*")
		low := clientOf(t, b.As(user, password))
		if _, err := low.Records(t.Context()); !IsAuth(err) || IsLoginFailed(err) || !strings.Contains(err.Error(), "read the ownership records") {
			t.Errorf("read: %v", err)
		}
		if err := low.PutRecord(t.Context(), r); !IsAuth(err) {
			t.Errorf("written: %v", err)
		}
		for range 2 { // one that is gone is no error
			if err := c.DeleteRecord(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestContents: what is in a virtual host, exclusive queues of clients too, and that
// one which is gone counts as deleted.
func TestContents(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		c := clientOf(t, b)
		if left, err := c.Contents(t.Context(), vhost, "s"); err != nil || len(left) > 0 {
			t.Errorf("a new one holds %v %v", left, err)
		}
		lock, err := c.Lock(t.Context(), vhost, "s", LockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer lock.Close()
		ch := b.Channel(t, vhost)
		if _, err := ch.QueueDeclare("theirs", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		left, err := c.Contents(t.Context(), vhost, "s")
		if err != nil || len(left) != 1 || left[0].Name != "theirs" {
			t.Errorf("%v %v", left, err)
		}
		if left, _ := c.Contents(t.Context(), vhost, "another"); len(left) != 2 {
			t.Errorf("the lock of another stack is not among %v", left)
		}
		for range 2 {
			if err := c.DeleteVirtualHost(t.Context(), vhost); err != nil {
				t.Error(err)
			}
		}
	})
}
