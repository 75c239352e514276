package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestUsedOnBrokers: what a broker tells of deprecated features, and channels with a
// shared prefetch.
func TestUsedOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		client := clientOf(t, b)
		names, err := client.VirtualHosts(t.Context())
		if err != nil || !slices.Contains(names, vhost) || !slices.IsSorted(names) {
			t.Errorf("virtual hosts %q (%v), want one called %q", names, err, vhost)
		}

		channel := b.Channel(t, vhost)
		if _, err := channel.QueueDeclare("transient", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		// From 4.0 on a channel does not show it; 4.3 counts for each consumer whatever
		// is asked for.
		if err := channel.Qos(7, 0, true); err != nil {
			t.Fatal(err)
		}
		want := 1
		if b.AtLeast("4.0") {
			want = 0
			time.Sleep(3 * time.Second) // longer than the interval of statistics
		}
		brokertest.Eventually(t, 20*time.Second, func() error {
			users, err := client.GlobalPrefetch(t.Context(), vhost)
			if err == nil && users[b.Username] != want {
				err = fmt.Errorf("%v channels have a shared prefetch, want %d", users, want)
			}
			return err
		})
		used, known, err := client.DeprecatedFeatures(t.Context())
		if err != nil || known != b.AtLeast("4.0") {
			t.Fatalf("deprecated features are known: %v (%v)", known, err)
		}
		i := slices.IndexFunc(used, func(f DeprecatedFeature) bool { return f.Name == "transient_nonexcl_queues" })
		switch {
		case known != (i >= 0):
			t.Errorf("features %+v, want the transient queue among them: %v", used, known)
		case known && (used[i].Phase == "" || used[i].URL == ""):
			t.Errorf("a field is missing: %+v", used[i])
		}

		// From 4.0 on nothing tells of a shared prefetch.
		if slices.ContainsFunc(used, func(f DeprecatedFeature) bool { return f.Name == "global_qos" }) {
			t.Errorf("the broker tells of global_qos: %+v", used)
		}
		if _, err := client.GlobalPrefetch(t.Context(), "not there"); err == nil {
			t.Error("no error for a virtual host that is not there")
		}
	})
}
