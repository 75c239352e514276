package validate

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// waitFor is the wait queue "wait" of queue "q" with arguments of its own.
func waitFor(kind topology.QueueType, a args) *topology.Queue {
	w := named("wait", kind, a)
	w.Intent = &topology.QueueIntent{Role: topology.RoleWait}
	return w
}

func back(more args) args {
	a := args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
	for k, v := range more {
		a[k] = v
	}
	return a
}

// expiring gives messages an expiration each, in milliseconds.
func expiring(ms ...int) func(int, *amqp.Publishing) {
	return func(i int, m *amqp.Publishing) { m.Expiration = strconv.Itoa(ms[i]) }
}

// TestWaitQueuesOnBrokers: what a wait queue must not be, on both types.
func TestWaitQueuesOnBrokers(t *testing.T) {
	const ttl = "x-message-ttl"
	for _, c := range []struct {
		code string
		make args
		n    int
		// after a moment: how many messages "q" and "wait" hold; -1: the queue is gone.
		q, wait int
	}{
		{code: "wait-queue-without-ttl", make: back(nil), n: 1, q: 0, wait: 1},
		{code: "wait-queue-without-return", make: args{ttl: int64(100)}, n: 1, q: 0, wait: 0},
		{code: "wait-queue-bounded", make: back(args{ttl: int64(20000), "x-max-length": int64(1)}), n: 3, q: 2, wait: 1},
		{code: "wait-queue-expires", make: back(args{ttl: int64(20000), "x-expires": int64(300)}), n: 1, q: 0, wait: -1},
		{code: "", make: back(args{ttl: int64(100)}), n: 2, q: 2, wait: 0},
	} {
		for _, kind := range []topology.QueueType{classic, quorum} {
			t.Run(fmt.Sprintf("%s %s", kind, c.code), func(t *testing.T) {
				onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
					host := makeAll(t, b, vhost, plain(), waitFor(kind, c.make))
					b.Publish(t, vhost, "", "wait", c.n)
					if c.wait < 0 {
						brokertest.EventuallyTrue(t, 20*time.Second, "the wait queue is gone", func() bool {
							// A passive declare would count as a use.
							status, _ := b.Do(t, http.MethodGet, brokertest.Path("queues", vhost, "wait"), nil)
							return status == http.StatusNotFound
						})
					} else {
						b.AwaitDepth(t, vhost, "wait", c.wait, 10*time.Second)
					}
					b.AwaitDepth(t, vhost, "q", c.q, 10*time.Second)
					time.Sleep(300 * time.Millisecond)
					if n := b.Depth(t, vhost, "q"); n != c.q {
						t.Errorf("q holds %d messages, want %d", n, c.q)
					}
					if c.code == "wait-queue-expires" { // also where nobody says that it is a wait queue
						wait := *host.VirtualHosts[0].Queues[1]
						wait.Intent = &topology.QueueIntent{}
						if !finds(t, b, c.code, hostOf([]topology.Object{plain(), &wait})) {
							t.Error("of a queue without a role nothing is found")
						}
					}
					for _, code := range []string{"wait-queue-without-ttl", "wait-queue-without-return", "wait-queue-bounded", "wait-queue-expires"} {
						if got := finds(t, b, code, host); got != (code == c.code) {
							t.Errorf("%s is found: %v", code, got)
						}
					}
				})
			})
		}
	}
}

// TestShortestTTLWins: wait-queue-ttl-shorter. A queue's TTL below the delay gives
// the message up early.
func TestShortestTTLWins(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		work := plain()
		wait := waitFor(classic, back(args{"x-message-ttl": int64(100)}))
		wait.Intent.Delays = []topology.Delay{{Delay: time.Minute, Queue: "wait"}}
		host := makeAll(t, b, vhost, work, wait)
		b.Publish(t, vhost, "", "wait", 1, expiring(60000))
		b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
		if !finds(t, b, "wait-queue-ttl-shorter", host) {
			t.Error("not found")
		}
	})
}

// TestHeadHoldsBack: mixed-delays. A message behind one with a longer delay waits for
// that one.
func TestHeadHoldsBack(t *testing.T) {
	for _, kind := range []topology.QueueType{classic, quorum} {
		t.Run(string(kind), func(t *testing.T) {
			onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
				makeAll(t, b, vhost, plain(), waitFor(kind, back(nil)))
				b.Publish(t, vhost, "", "wait", 2, expiring(1500, 50))
				time.Sleep(600 * time.Millisecond)
				if n := b.Depth(t, vhost, "q"); n != 0 {
					t.Errorf("%d messages passed the head", n)
				}
				b.AwaitDepth(t, vhost, "q", 2, 10*time.Second)
			})
		})
	}
}

// TestRejectedIsDeleted: drop-is-loss.
func TestRejectedIsDeleted(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		for _, kind := range []topology.QueueType{classic, quorum} {
			for _, kept := range []bool{false, true} {
				queue := q(kind, nil)
				if kept {
					queue = q(kind, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
				}
				host := makeAll(t, b, vhost, dead(), queue)
				b.Publish(t, vhost, "", "q", 1)
				if err := take(t, b.Channel(t, vhost)).Reject(false); err != nil {
					t.Fatal(err)
				}
				want := 0
				if kept {
					want = 1
				}
				b.AwaitDepth(t, vhost, "q", 0, 10*time.Second)
				b.AwaitDepth(t, vhost, "dead", want, 10*time.Second)
				if finds(t, b, "drop-is-loss", host) == kept {
					t.Errorf("%s: drop-is-loss is found: %v", kind, !kept)
				}
				remove(t, b, vhost, []topology.Object{dead(), queue})
			}
		}
	})
}

// TestUnboundedAtLeastOnce: at-least-once-unbounded. What the target does not take
// piles up in the source, and a maximum length bounds it.
func TestUnboundedAtLeastOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		const n = 30
		a := args{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "missing", "x-dead-letter-strategy": "at-least-once",
			"x-overflow": "reject-publish", "x-message-ttl": int64(10),
		}
		host := makeAll(t, b, vhost, q(quorum, a))
		b.Publish(t, vhost, "", "q", n)
		awaitKept(t, b, vhost, "q", n)
		if !finds(t, b, "at-least-once-unbounded", host) {
			t.Error("not found")
		}
	})
}

// TestLookingDeletes: dead-letter-target-without-role. From 4.0 on the default limit
// of a quorum queue deletes a message that was returned too often, in a dead-letter
// queue too.
func TestLookingDeletes(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		source := q(classic, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "kept"})
		host := makeAll(t, b, vhost, named("kept", quorum, nil), source)
		b.Publish(t, vhost, "", "kept", 1)
		channel := b.Channel(t, vhost)
		for range 21 {
			m, ok, err := channel.Get("kept", false)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if err := m.Reject(true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		want := 1
		if b.AtLeast("4.0") {
			want = 0
		}
		b.AwaitDepth(t, vhost, "kept", want, 10*time.Second)
		if finds(t, b, "dead-letter-target-without-role", host) == (want == 1) {
			t.Errorf("dead-letter-target-without-role is found: %v", want == 1)
		}
	})
}

// TestNoLimitNeverGivesUp: dead-letter-without-cap. With a route and no limit a
// message comes back for ever.
func TestNoLimitNeverGivesUp(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		queue := q(quorum, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		objects := []topology.Object{dead(), queue}
		if b.AtLeast("4.0") {
			objects = append(objects, policyOf("queues", "^q$", args{"delivery-limit": int64(-1)}))
		}
		host := makeAll(t, b, vhost, objects...)
		b.Publish(t, vhost, "", "q", 1)
		channel := b.Channel(t, vhost)
		for range 40 {
			if err := take(t, channel).Reject(true); err != nil {
				t.Fatal(err)
			}
		}
		b.AwaitDepth(t, vhost, "q", 1, 10*time.Second)
		if !finds(t, b, "dead-letter-without-cap", host) {
			t.Error("not found")
		}
	})
}

// TestShovelMakesItsQueue: shovel-end-missing. A shovel declares the queue that it
// writes to, plain and classic.
func TestShovelMakesItsQueue(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			b := brokertest.StartNode(t, release, "--plugins", "rabbitmq_shovel")
			vhost := b.VirtualHost(t)
			makeAll(t, &b.Broker, vhost, plain())
			uri := "amqp:///" + vhost // a connection inside the broker
			value := args{"src-protocol": "amqp091", "src-uri": uri, "src-queue": "q", "dest-protocol": "amqp091", "dest-uri": uri, "dest-queue": "made"}
			if status, body := b.Do(t, http.MethodPut, brokertest.Path("parameters", "shovel", vhost, "s"), map[string]any{"value": value}); status >= 300 {
				t.Fatalf("put the shovel: %d %s", status, body)
			}
			brokertest.EventuallyTrue(t, 30*time.Second, "the shovel made its queue", func() bool { return b.HasQueue(t, vhost, "made") })
			var made struct {
				Type      string         `json:"type"`
				Arguments map[string]any `json:"arguments"`
			}
			b.Get(t, brokertest.Path("queues", vhost, "made"), &made)
			delete(made.Arguments, "x-queue-type")
			if made.Type != "classic" || len(made.Arguments) > 0 {
				t.Errorf("the shovel's queue is %+v", made)
			}
			host := hostOf([]topology.Object{plain()})
			host.VirtualHosts[0].Name = vhost
			host.VirtualHosts[0].Parameters = []*topology.Parameter{{Component: "shovel", Name: "s", Value: map[string]any(value)}}
			if !finds(t, &b.Broker, "shovel-end-missing", host) {
				t.Error("not found")
			}
		})
	}
}

// TestRestartTakesTransientThings: not-restart-safe.
func TestRestartTakesTransientThings(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			b := brokertest.StartNode(t, release)
			vhost := b.VirtualHost(t)
			safe := q(classic, nil)
			lost := named("lost", classic, nil)
			lost.Durable = false
			makeAll(t, &b.Broker, vhost, safe, lost, &topology.Exchange{Name: "x", Type: "fanout"})
			b.Publish(t, vhost, "", "q", 1)
			b.Publish(t, vhost, "", "lost", 1)
			b.Restart()
			b.AwaitDepth(t, vhost, "q", 1, 30*time.Second)
			if b.HasQueue(t, vhost, "lost") {
				t.Error("a queue that is not durable is there after a restart")
			}
			// Khepri keeps the exchange and its bindings over a restart (4.3.6).
			want := http.StatusNotFound
			if b.AtLeast("4.3") {
				want = http.StatusOK
			}
			if status, _ := b.Do(t, http.MethodGet, brokertest.Path("exchanges", vhost, "x"), nil); status != want {
				t.Errorf("an exchange that is not durable after a restart: %d, want %d", status, want)
			}
			for queue, want := range map[*topology.Queue]bool{safe: false, lost: true} {
				queue.Intent = &topology.QueueIntent{Contract: &topology.Contract{Survives: "restart"}}
				if got := finds(t, &b.Broker, "not-restart-safe", hostOf([]topology.Object{queue})); got != want {
					t.Errorf("not-restart-safe is found for %q: %v", queue.Name, got)
				}
			}
		})
	}
}

// TestNodeLossTakesClassicQueues: not-node-loss-safe. In a cluster of three, of which
// the node of both queues is killed, the quorum queue goes on.
func TestNodeLossTakesClassicQueues(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			cluster := brokertest.StartCluster(t, release)
			first, other := cluster.Nodes[0], cluster.Nodes[1]
			vhost := first.VirtualHost(t)
			plain, replicated := q(classic, nil), named("replicated", quorum, nil)
			makeAll(t, &first.Broker, vhost, plain, replicated)
			first.Publish(t, vhost, "", "q", 1)
			first.Publish(t, vhost, "", "replicated", 1)
			first.Kill()
			other.AwaitDepth(t, vhost, "replicated", 1, 60*time.Second)
			channel := other.Channel(t, vhost)
			if _, err := channel.QueueDeclarePassive("q", true, false, false, false, nil); err == nil {
				t.Error("a classic queue is there without its node")
			}
			for queue, want := range map[*topology.Queue]bool{plain: true, replicated: false} {
				queue.Intent = &topology.QueueIntent{Contract: &topology.Contract{Survives: "node-loss"}}
				if got := finds(t, &other.Broker, "not-node-loss-safe", hostOf([]topology.Object{queue})); got != want {
					t.Errorf("not-node-loss-safe is found for %q: %v", queue.Name, got)
				}
			}
		})
	}
}

// TestPatternWithoutAnchors: policy-not-anchored (case 27). All queues whose names
// hold the pattern are capped.
func TestPatternWithoutAnchors(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *brokertest.Broker, vhost string) {
		pol := policyOf("queues", "orders", args{"max-length": int64(1)})
		names := []string{"orders", "orders.debug", "my-orders"}
		objects := []topology.Object{pol}
		for _, name := range names {
			objects = append(objects, named(name, classic, nil))
		}
		live := makeAll(t, b, vhost, objects...)
		for _, name := range names {
			b.Publish(t, vhost, "", name, 3)
			b.AwaitDepth(t, vhost, name, 1, 10*time.Second)
		}
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		desired := hostOf([]topology.Object{pol, objects[1]})
		found := of(Check(Input{Topology: desired, Live: live, Versions: []catalog.Version{version}}), "policy-not-anchored")
		if len(found) != 1 || !strings.Contains(found[0], "3 objects") || !strings.Contains(found[0], "2 not in the spec") {
			t.Errorf("found %q", found)
		}
	})
}
