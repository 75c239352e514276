package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/command"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// moodyBank answers each refund with the errors that its script has for it, then pays.
type moodyBank struct {
	mu     sync.Mutex
	script map[string][]error
	calls  map[string]int
	paid   []string
}

func (b *moodyBank) Refund(_ context.Context, r Refund) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.calls[r.ID]
	b.calls[r.ID]++
	if n < len(b.script[r.ID]) {
		return b.script[r.ID][n]
	}
	b.paid = append(b.paid, r.ID)
	return nil
}

func (b *moodyBank) count(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[id]
}

// service runs the service until the test ends.
func service(t *testing.T, d consumer.Dialer, bank Bank) (told func() []string) {
	t.Helper()
	conn, err := consumer.DialOn(t.Context(), d, "refunds")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var mu sync.Mutex
	var list []string
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, conn, bank, func(id, reason string, attempts int) {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, fmt.Sprintf("%s: %s after %d", id, reason, attempts))
		}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func publish(t *testing.T, d consumer.Dialer, ids ...string) {
	t.Helper()
	p, err := publisher.OpenWith(t.Context(), d, publisher.RequireMessageID(), publisher.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	for _, id := range ids {
		if err := p.Publish(t.Context(), "orders", "refund.card", publisher.Message{ID: id, Body: fmt.Appendf(nil, `{"id": %q, "cents": 100}`, id)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOnAPausedClock: minutes of waiting pass at once.
func TestOnAPausedClock(t *testing.T) {
	b := simulator.New()
	if err := b.Load(topology, spec); err != nil {
		t.Fatal(err)
	}
	bank := &moodyBank{calls: map[string]int{}, script: map[string][]error{
		"busy":    {ErrBusy, ErrBusy},
		"down":    {ErrDown, ErrDown, ErrDown, ErrDown, ErrDown, ErrDown},
		"unknown": {ErrNoOrder},
	}}
	told := service(t, b.Dialer("/"), bank)
	publish(t, b.Dialer("/"), "good", "busy", "down", "unknown")
	b.WaitIdle()
	if n := bank.count("busy"); n != 1 {
		t.Errorf("the busy refund was tried %d times at once", n)
	}
	for range 3 {
		b.Advance(30 * time.Second)
		b.WaitIdle()
	}
	if n := bank.count("busy"); n != 3 {
		t.Errorf("the busy refund was tried %d times, want 3", n)
	}
	if n := bank.count("down"); n != 5 {
		t.Errorf("the refund that never works was tried %d times, want 5", n)
	}
	got := told()
	slices.Sort(got)
	if want := []string{"down: all attempts failed after 5", "unknown: there is no such order after 1"}; !slices.Equal(got, want) {
		t.Errorf("the owner was told %q, want %q", got, want)
	}
	for _, q := range b.Queues("/") {
		if n := b.Depth("/", q); n != 0 {
			t.Errorf("%d messages are left in %s", n, q)
		}
	}
}

// TestOnRealBrokers applies the spec and runs the service.
func TestOnRealBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		t.Parallel()
		vhost := b.VirtualHost(t)
		status := command.Run(t.Context(), []string{"apply", "--yes", "--set", "vhost=" + vhost, spec},
			command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: os.Stderr, Environ: []string{
				"RABBITCTL_URL=" + b.URL, "RABBITCTL_USERNAME=" + b.Username, "RABBITCTL_PASSWORD=" + b.Password, "RABBITCTL_AMQP_URL=amqp://" + b.AMQPAddress(),
			}})
		if status != 0 {
			t.Fatalf("apply ended with %d", status)
		}
		d := wire.AMQP{URL: b.AMQPURL(vhost)}
		bank := &moodyBank{calls: map[string]int{}, script: map[string][]error{"down": {ErrDown, ErrDown, ErrDown, ErrDown, ErrDown}, "unknown": {ErrNoOrder}}}
		told := service(t, d, bank)
		publish(t, d, "good", "down", "unknown")
		brokertest.EventuallyTrue(t, 20*time.Second, "two dead letters", func() bool { return len(told()) == 2 })
		got := told()
		slices.Sort(got)
		if want := []string{"down: all attempts failed after 5", "unknown: there is no such order after 1"}; !slices.Equal(got, want) {
			t.Errorf("the owner was told %q, want %q", got, want)
		}
		brokertest.EventuallyTrue(t, 20*time.Second, "the good one", func() bool { return bank.count("good") == 1 })
	})
}
