package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

const (
	chaosAttempts  = 3
	chaosPrefetch  = 50
	chaosConsumers = 2 // of each queue
)

const chaosSpec = `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  classic:
    type: classic
    retry: {max_attempts: 3, delays: [200ms]}
    dead_letter: classic.dead
  classic.dead: {type: classic, role: dead-letter, owner: us}
  quorum:
    type: quorum
    retry: {max_attempts: 3, delays: [200ms]}
    dead_letter: {queue: quorum.dead, strategy: at-least-once}
  quorum.dead: {type: classic, role: dead-letter, owner: us}
`

// book keeps what handlers saw and decided, by message.
type book struct {
	mu    sync.Mutex
	acked map[string]int
	calls int
	most  int // attempts that any delivery had
}

// kindOf makes a mix of everything: how often a message is called where nothing fails.
func kindOf(id string) (kind uint32, calls int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	kind = h.Sum32() % 10
	return kind, map[uint32]int{5: 2, 6: 3, 7: chaosAttempts}[kind]
}

// decide is what is done with a message at an attempt.
func (b *book) decide(_ context.Context, d *consumer.Delivery) consumer.Outcome {
	o := consumer.Ack()
	kind, _ := kindOf(d.MessageID)
	switch attempt := d.Attempt(); {
	case kind < 5:
	case kind == 5 && attempt < 2:
		o = consumer.Retry()
	case kind == 6 && attempt < 3:
		o = consumer.RetryAfter(200 * time.Millisecond)
	case kind == 7:
		o = consumer.Retry()
	case kind == 8:
		o = consumer.Drop(errors.New("chaos"))
	case kind == 9:
		o = consumer.DeadLetter("", errors.New("chaos"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	b.most = max(b.most, d.Attempt())
	if o.IsAck() {
		b.acked[d.MessageID]++
	}
	return o
}

// TestChaos: connections are cut and the broker restarts while messages of all outcomes
// are handled. Nothing is lost, no cap is exceeded by more than the faults explain, and all
// consumers run at the end.
func TestChaos(t *testing.T) {
	messages, cuts, restarts := 3_000, 6, 1
	if brokertest.Rounds(0, 1) == 1 {
		messages, cuts, restarts = 50_000, 20, 2
	}
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			n := brokertest.StartNode(t, release)
			l := &lab{T: t, dialer: wire.AMQP{URL: n.AMQPURL("/")}, version: n.Version, broker: &n.Broker, vhost: "/"}
			l.policy = func(string, string, string, map[string]any) {}
			l.start(func(l *lab) { chaos(l, n, messages, cuts, restarts) })
		})
	}
}

func chaos(l *lab, n *brokertest.Node, messages, cuts, restarts int) {
	spec := l.spec(chaosSpec)
	queues := []string{"classic", "quorum"}
	for _, q := range queues {
		n.Publish(l, "/", "", q, messages/2, func(i int, m *amqp091.Publishing) { m.MessageId = fmt.Sprintf("%s-%d", q, i) })
	}
	proxy := brokertest.Proxy(l, n.AMQPAddress())
	books := map[string]*book{}
	var consumers []*consumer.Consumer
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	for _, q := range queues {
		b := &book{acked: map[string]int{}}
		books[q] = b
		for range chaosConsumers {
			c, err := consumer.OpenWith(l.Context(), wire.AMQP{URL: strings.Replace(n.AMQPURL("/"), n.AMQPAddress(), proxy.Address, 1)},
				consumer.FromSpec(spec, "spec.yaml", q), consumer.Prefetch(chaosPrefetch), consumer.Concurrency(4), consumer.Logger(slog.New(slog.DiscardHandler)))
			l.must(err)
			consumers = append(consumers, c)
			running.Go(func() {
				if err := c.Run(ctx, b.decide); err != nil {
					l.Errorf("Run: %v", err)
				}
			})
		}
	}
	for i := range cuts {
		time.Sleep(400 * time.Millisecond)
		proxy.Cut()
		if restarts > 0 && i%(cuts/restarts) == cuts/restarts-1 {
			n.Restart()
		}
	}
	patience := time.Now().Add(time.Duration(60+messages/100) * time.Second)
	depth := func(q string) int { return n.Depth(l, "/", q) }
	for {
		idle := true
		for _, c := range consumers {
			idle = idle && c.Health().OK() && c.Health().InFlight == 0
		}
		for _, q := range queues {
			idle = idle && depth(q) == 0 && depth(q+".retry") == 0
		}
		if idle {
			break
		}
		if time.Now().After(patience) {
			for _, c := range consumers {
				l.Logf("health %+v", c.Health())
			}
			l.Fatalf("not all handled: depths %d, %d", depth("classic"), depth("quorum"))
		}
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(time.Second) // what waits in a wait queue or is dead-lettered at least once
	stop()
	running.Wait()
	faults := cuts + 2*restarts
	for _, q := range queues {
		dead := map[string]int{}
		for _, d := range n.Drain(l, "/", q+".dead") {
			dead[d.MessageId]++
		}
		b := books[q]
		lost, doubled, expected := 0, 0, 0
		for i := range messages / 2 {
			id := fmt.Sprintf("%s-%d", q, i)
			if b.acked[id]+dead[id] == 0 {
				lost++
			}
			_, calls := kindOf(id)
			expected += max(calls, 1)
			if b.acked[id]+dead[id] > 1 {
				doubled++
			}
		}
		if lost > 0 {
			l.Errorf("%s: %d messages lost", q, lost)
		}
		// A fault doubles at most what is at the consumers, and each double has attempts of
		// its own.
		if extra := b.calls - expected; b.most > chaosAttempts || extra > faults*chaosPrefetch*chaosConsumers*chaosAttempts {
			l.Errorf("%s: attempt %d was seen; %d calls more than without faults", q, b.most, extra)
		}
		l.Logf("RabbitMQ %s, %s: %d messages, %d faults: %d calls more than without them, %d came to more than one end", n.Version, q, messages/2, faults, b.calls-expected, doubled)
	}
}
