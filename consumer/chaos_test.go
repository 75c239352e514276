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

const chaosAttempts = 3

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
	calls map[string]int
	acked map[string]int
}

// decide is what is done with a message at an attempt: a mix of everything.
func (b *book) decide(_ context.Context, d *consumer.Delivery) consumer.Outcome {
	h := fnv.New32a()
	_, _ = h.Write([]byte(d.MessageID))
	o := consumer.Ack()
	switch kind, attempt := h.Sum32()%10, d.Attempt(); {
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
	b.calls[d.MessageID]++
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
		b := &book{calls: map[string]int{}, acked: map[string]int{}}
		books[q] = b
		for range 2 {
			c, err := consumer.OpenWith(l.Context(), wire.AMQP{URL: strings.Replace(n.AMQPURL("/"), n.AMQPAddress(), proxy.Address, 1)},
				consumer.FromSpec(spec, "spec.yaml", q), consumer.Prefetch(50), consumer.Concurrency(4), consumer.Logger(slog.New(slog.DiscardHandler)))
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
		lost, over, doubled := 0, 0, 0
		for i := range messages / 2 {
			id := fmt.Sprintf("%s-%d", q, i)
			if b.acked[id]+dead[id] == 0 {
				lost++
			}
			if b.calls[id] > chaosAttempts+faults {
				over++
			}
			if b.acked[id]+dead[id] > 1 {
				doubled++
			}
		}
		if lost > 0 || over > 0 {
			l.Errorf("%s: %d messages lost, %d handled more often than attempts and faults allow", q, lost, over)
		}
		l.Logf("RabbitMQ %s, %s: %d messages, %d faults, %d came to more than one end", n.Version, q, messages/2, faults, doubled)
	}
}
