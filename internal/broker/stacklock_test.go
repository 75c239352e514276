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

func lockOf(t *testing.T, c *Client, vhost, stack string) *Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), vhost, stack, LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// One has it, the other is told who and gets it when it is free; stacks and
// virtual hosts do not get in each other's way.
func TestLock(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost, other := b.VirtualHost(t), b.VirtualHost(t)
		c, d := clientOf(t, b), clientOf(t, b)
		first := lockOf(t, c, vhost, "shop")
		lockOf(t, d, vhost, "")
		lockOf(t, d, vhost, "other")
		lockOf(t, d, other, "shop")

		var held *LockedError
		var err error
		brokertest.EventuallyTrue(t, 20*time.Second, "the holder is named", func() bool {
			_, err = d.Lock(t.Context(), vhost, "shop", LockOptions{})
			return !errors.As(err, &held) || held.Holder != ""
		})
		if held == nil || held.NotALock || !strings.Contains(held.Holder, "@") || !strings.Contains(held.Holder, "rabbitctl") ||
			!strings.Contains(err.Error(), held.Holder) || strings.Contains(held.Holder, "?") {
			t.Fatalf("%v", err)
		}
		told := make(chan string, 1)
		got := make(chan error, 1)
		go func() {
			l, err := d.Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute, OnWait: func(h string) { told <- h }})
			if err == nil {
				l.Close()
			}
			got <- err
		}()
		if h := <-told; h != held.Holder {
			t.Errorf("told of %q, want %q", h, held.Holder)
		}
		first.Close()
		if err := <-got; err != nil {
			t.Error(err)
		}
		// Close returns when it is free.
		for range 5 {
			lockOf(t, c, vhost, "shop").Close()
		}
		select {
		case err := <-first.Lost():
			t.Errorf("a closed lock was lost: %v", err)
		default:
		}
		// A state never shows it.
		if s := read(t, c, ReadOptions{}, vhost); len(s.Topology.VirtualHost(vhost).Queues)+len(s.LeftOut) != 0 {
			t.Errorf("the state has %v %v", s.Topology.VirtualHost(vhost).Queues, s.LeftOut)
		}
	})
}

// What a broker's owner may set for all queues does not free a lock, nor keep
// it from being taken.
func TestLockUnderPolicies(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, typ := range []string{"classic", "quorum", "stream"} {
			vhost := b.VirtualHost(t)
			b.Put(t, brokertest.Path("vhosts", vhost), map[string]any{"default_queue_type": typ})
			b.Put(t, brokertest.Path("policies", vhost, "all"), map[string]any{
				"pattern": ".*", "apply-to": "all",
				"definition": map[string]any{"expires": 300, "max-length": 0, "message-ttl": 0, "overflow": "reject-publish", "dead-letter-exchange": "gone"},
			})
			b.Put(t, brokertest.Path("operator-policies", vhost, "op"), map[string]any{
				"pattern": ".*", "apply-to": "queues", "definition": map[string]any{"expires": 200, "max-length": 0, "message-ttl": 0},
			})
			c := clientOf(t, b)
			l := lockOf(t, c, vhost, "shop")
			// A queue without a consumer goes after 200 ms: when three such have gone, so would the lock.
			ch := b.Channel(t, vhost)
			for range 3 {
				q, err := ch.QueueDeclare("", false, true, false, false, amqp.Table{"x-queue-type": "classic"})
				if err != nil {
					t.Fatal(err)
				}
				brokertest.EventuallyTrue(t, 20*time.Second, "the queue expires", func() bool { return !b.HasQueue(t, vhost, q.Name) })
			}
			if _, err := c.Lock(t.Context(), vhost, "shop", LockOptions{}); err == nil {
				t.Errorf("default %s: the lock was had twice", typ)
			}
			select {
			case err := <-l.Lost():
				t.Errorf("default %s: %v", typ, err)
			default:
			}
		}
	})
}

func TestLockLost(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		proxy := brokertest.Proxy(t, b.AMQPAddress())
		c := clientOf(t, b, func(o *Options) { o.AMQPURL = "amqp://" + proxy.Address })
		l := lockOf(t, c, vhost, "shop")
		proxy.Cut()
		lost := func(l *Lock) {
			t.Helper()
			select {
			case err := <-l.Lost():
				if !strings.Contains(err.Error(), "rabbitctl.lock:shop") {
					t.Error(err)
				}
			case <-time.After(30 * time.Second):
				t.Error("the loss is not noticed")
			}
		}
		lost(l)
		l.Close()
		// The whole virtual host is deleted by hand: the queue goes with it.
		again, err := clientOf(t, b).Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil)
		lost(again)
		again.Close()
	})
}

func TestLockRefused(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		if _, err := clientOf(t, b).Lock(t.Context(), vhost+"-absent", "shop", LockOptions{}); !IsNotFound(err) || !strings.Contains(err.Error(), vhost+"-absent") {
			t.Errorf("absent virtual host: %v", err)
		}
		for _, c := range []struct{ configure, read, lacks string }{{"^$", ".*", "configure"}, {".*", "^$", "read"}} {
			user, password := b.User(t, vhost, "management", c.configure, ".*", c.read)
			_, err := clientOf(t, b.As(user, password), withAMQP(b)).Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute})
			if !IsAuth(err) || !strings.Contains(err.Error(), "lacks the "+c.lacks+" permission") || !strings.Contains(err.Error(), "rabbitctl.lock:shop") {
				t.Errorf("without %s: %v", c.lacks, err)
			}
		}
		user, password := b.User(t, "", "management", "", "", "")
		if _, err := clientOf(t, b.As(user, password), withAMQP(b)).Lock(t.Context(), vhost, "shop", LockOptions{}); !IsAuth(err) {
			t.Errorf("without permissions: %v", err)
		}
		// Somebody's ordinary queue of that name would be waited for in vain.
		b.DeclareQueue(t, vhost, topology.LockPrefix+"shop", nil)
		_, err := clientOf(t, b).Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute})
		var held *LockedError
		if !errors.As(err, &held) || !held.NotALock || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("an ordinary queue: %v", err)
		}
	})
}

// In a cluster the lock is one for all nodes; when the holder's node goes, the
// holder knows and another can have it.
func TestLockInCluster(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			if release != "4.3" {
				brokertest.Long(t)
			}
			cluster := brokertest.StartCluster(t, release)
			first, second := cluster.Nodes[1], cluster.Nodes[2]
			vhost := first.VirtualHost(t)
			other := clientOf(t, &second.Broker, withAMQP(&second.Broker))
			take := func() *Lock {
				t.Helper()
				l, err := clientOf(t, &first.Broker, withAMQP(&first.Broker)).Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(l.Close)
				return l
			}
			held := take()
			var busy *LockedError
			if _, err := other.Lock(t.Context(), vhost, "shop", LockOptions{}); !errors.As(err, &busy) {
				t.Fatalf("by another node the lock was had twice: %v", err)
			}
			isLost := func(l *Lock) {
				t.Helper()
				select {
				case err := <-l.Lost():
					t.Log(err)
				case <-time.After(time.Minute):
					t.Fatal("the loss is not noticed")
				}
			}
			// Deleted by hand, which only rabbitmqctl can.
			first.Ctl("delete_queue", "--vhost", vhost, topology.LockPrefix+"shop")
			isLost(held)
			held = take()
			first.Kill()
			isLost(held)
			if second.AtLeast("4.3") {
				// There the queue stays as long as its node is down.
				_, err := other.Lock(t.Context(), vhost, "shop", LockOptions{Wait: 10 * time.Second})
				if !errors.As(err, &busy) || !strings.Contains(err.Error(), "is back") {
					t.Fatalf("the node of the holder is down: %v", err)
				}
				first.Restart()
			}
			next, err := other.Lock(t.Context(), vhost, "shop", LockOptions{Wait: time.Minute})
			if err != nil {
				t.Fatalf("after the node of the holder went: %v", err)
			}
			next.Close()
			first.Restart()
		})
	}
}
