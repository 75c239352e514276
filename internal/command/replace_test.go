package command_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// drained takes all messages off a queue and returns their ids.
func drained(t *testing.T, b *brokertest.Broker, vhost, queue string) (ids []string) {
	t.Helper()
	for _, d := range b.Drain(t, vhost, queue) {
		ids = append(ids, d.MessageId)
	}
	return ids
}

func numbered(i int, m *amqp091.Publishing) { m.MessageId = fmt.Sprintf("%05d", i) }

// wantNumbered checks that n numbered messages are there, each at least once, and in
// order but for repetitions.
func wantNumbered(t *testing.T, b *brokertest.Broker, vhost, queue string, n int) {
	t.Helper()
	ids := drained(t, b, vhost, queue)
	seen := map[string]bool{}
	var first []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			first = append(first, id)
		}
	}
	t.Logf("%d messages, %d twice", len(first), len(ids)-len(first))
	if len(first) != n {
		t.Errorf("%d of %d messages are there", len(first), n)
	}
	if !slices.IsSorted(first) {
		t.Error("the order is not kept")
	}
}

// TestCase3 and row A40: the plan says what a replacement takes, nothing is done
// without consent, one run ends with queue, messages and all bindings.
func TestCase3(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareExchange(t, vhost, "ex", "topic", nil)
		b.DeclareQueue(t, vhost, "q", amqp091.Table{"x-message-ttl": int64(86400000)})
		b.Bind(t, vhost, "ex", "q", "event.#", nil)
		b.Bind(t, vhost, "amq.fanout", "q", "", nil)
		b.Publish(t, vhost, "ex", "event.a", 50, numbered)
		spec := onVHost(t, vhost, `
defaults: {queue: {settings_by: policy}}
exchanges: {ex: {type: topic}}
queues:
  q: {type: quorum, max_length: 1000, overflow: reject-publish, bindings: [{exchange: ex, routing_key: event.#}]}`)
		policy := "create policy/rabbitctl:q blocked"
		if b.AtLeast("4.0") {
			policy = "create policy/rabbitctl:q" // it applies to quorum queues only
		}
		wantPlan(t, b, 4, spec, []string{"replace queue/q blocked", policy},
			"50 messages", "re-create 2 bindings", "1 binding is not in the spec and kept", "rabbitctl replace q SPEC", "--allow replace=queue/q")
		runWith(t, b, "apply", "--yes", spec).want(t, 4)

		ch := b.Channel(t, vhost)
		if err := ch.Qos(1, 0, false); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.Consume("q", "worker", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if r := runWith(t, b, "replace", "--yes", "q", spec); r.exit != 4 || !strings.Contains(r.out, "in use by 1 consumer") {
			t.Fatalf("exit %d\n%s%s", r.exit, r.out, r.err)
		}
		go func() {
			time.Sleep(time.Second)
			ch.Close()
		}()
		r := runWith(t, b, "replace", "--yes", "--wait-consumers", "30s", "q", spec)
		r.want(t, 0)
		t.Log(r.err)
		for _, says := range []string{"the queue is proved empty", "replaced; 50 messages moved to the holding queue and 50 back, 2 bindings", "there was no queue of the name"} {
			if !strings.Contains(r.err, says) {
				t.Errorf("it does not say %q:\n%s", says, r.err)
			}
		}
		secondPlanIsEmpty(t, b, spec)
		if q := liveQueues(t, b, vhost)["q"]; q.Policy != "rabbitctl:q" || q.Arguments["x-queue-type"] != "quorum" {
			t.Errorf("the queue is %+v", q)
		}
		wantNumbered(t, b, vhost, "q", 50)
		b.Publish(t, vhost, "amq.fanout", "", 1)
		b.Publish(t, vhost, "ex", "event.b", 1)
		b.AwaitDepth(t, vhost, "q", 2, 10*time.Second)

		r = runWith(t, b, "replace", "--yes", "q", spec)
		r.want(t, 0)
		if !strings.Contains(r.out, "Nothing to do") {
			t.Errorf("a second replacement:\n%s", r.out)
		}

		// As part of apply, an empty queue.
		b.DeclareQueue(t, vhost, "empty", nil)
		more := onVHost(t, vhost, `
queues:
  empty: {type: quorum}
  new: {type: classic}`)
		runWith(t, b, "apply", "--yes", "--allow", "replace=queue/empty", more).want(t, 0)
		secondPlanIsEmpty(t, b, more)
	})
}

// TestReplaceKilled: kill -9 while messages are moved; the plan says what is
// unfinished, and the same command finishes it.
func TestReplaceKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		const n = 5000
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "q", nil)
		b.Bind(t, vhost, "amq.topic", "q", "#", nil)
		b.Publish(t, vhost, "amq.topic", "a", n, numbered)
		spec := onVHost(t, vhost, "queues: {q: {type: quorum}}")
		proxy := brokertest.Proxy(t, b.AMQPAddress())
		proxy.Delay(5 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := exec.CommandContext(ctx, "rabbitctl", "replace", "--yes", "--amqp-url", "amqp://"+proxy.Address, "q", spec)
		cmd.Env = append(os.Environ(), environment(b, b.Username, b.Password)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left := 0
		brokertest.Eventually(t, time.Minute, func() error {
			if !b.HasQueue(t, vhost, "rabbitctl.hold:q") || b.Depth(t, vhost, "rabbitctl.hold:q") == 0 {
				return fmt.Errorf("nothing was moved yet")
			}
			return nil
		})
		cancel() // SIGKILL
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
			t.Fatalf("it was not killed: %v", err)
		}
		brokertest.Eventually(t, time.Minute, func() error { // what was in hand comes back
			left = b.Depth(t, vhost, "q")
			if held := b.Depth(t, vhost, "rabbitctl.hold:q"); left == 0 || held == 0 || left+held < n {
				return fmt.Errorf("%d in the queue, %d in the holding queue", left, held)
			}
			return nil
		})
		t.Logf("killed with %d of %d messages in the old queue", left, n)
		b.Publish(t, vhost, "amq.topic", "a", 10, func(i int, m *amqp091.Publishing) { numbered(n+i, m) })
		wantPlan(t, b, 4, spec, []string{"replace queue/q blocked"}, "a replacement was begun and not finished")
		r := runWith(t, b, "replace", "--yes", "q", spec)
		r.want(t, 0)
		secondPlanIsEmpty(t, b, spec)
		ids := drained(t, b, vhost, "q")
		slices.Sort(ids)
		if got := len(slices.Compact(ids)); got != n+10 {
			t.Errorf("%d of %d messages are there", got, n+10)
		}
		for _, name := range []string{"rabbitctl.hold:q", "rabbitctl.trial:q"} {
			if b.HasQueue(t, vhost, name) {
				t.Errorf("%s is left", name)
			}
		}
	})
}

// TestReplaceDuringRestart: the broker goes down while messages are moved.
func TestReplaceDuringRestart(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			const n = 10000
			node := brokertest.StartNode(t, release)
			b := &node.Broker
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", nil)
			b.Bind(t, vhost, "amq.topic", "q", "#", nil)
			b.Publish(t, vhost, "amq.topic", "a", n, numbered)
			spec := onVHost(t, vhost, "queues: {q: {type: quorum}}")
			done := make(chan result, 1)
			go func() { done <- runWith(t, b, "replace", "--yes", "q", spec) }()
			brokertest.Eventually(t, time.Minute, func() error {
				if !b.HasQueue(t, vhost, "rabbitctl.hold:q") || b.Depth(t, vhost, "rabbitctl.hold:q") == 0 {
					return fmt.Errorf("nothing was moved yet")
				}
				return nil
			})
			node.Restart()
			r := <-done
			t.Logf("exit %d\n%s", r.exit, r.err)
			if r.exit != 0 {
				runWith(t, b, "replace", "--yes", "q", spec).want(t, 0)
			}
			secondPlanIsEmpty(t, b, spec)
			wantNumbered(t, b, vhost, "q", n)
		})
	}
}
