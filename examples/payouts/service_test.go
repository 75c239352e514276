package main

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/command"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// service runs the service until the test ends.
func service(t *testing.T, d consumer.Dialer) *ledger {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	l, err := openLedger(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, d, l, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	return l
}

func publish(t *testing.T, d consumer.Dialer, id, body string) {
	t.Helper()
	p, err := publisher.OpenWith(t.Context(), d, publisher.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	if err := p.Publish(t.Context(), "orders", "payout.requested", publisher.Message{ID: id, Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

func (l *ledger) paid(t *testing.T) (n int) {
	t.Helper()
	if err := l.db.QueryRow("SELECT count(*) FROM paid").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// check publishes the same payout twice and one that cannot be paid.
func check(t *testing.T, d consumer.Dialer, depth func(queue string) int) {
	l := service(t, d)
	for range 2 {
		publish(t, d, "p1", `{"account": "a", "cents": 100}`)
	}
	publish(t, d, "p2", `{"account": "a", "cents": -1}`)
	brokertest.EventuallyTrue(t, 20*time.Second, "all ends", func() bool {
		return l.done.Duplicates.Load() == 1 && depth("payouts.dead") == 1 && depth("payouts.done") == 1 && depth("payouts") == 0
	})
	if n := l.paid(t); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

func TestOnTheSimulator(t *testing.T) {
	b := simulator.New(simulator.RealTime())
	if err := b.Load(topology, spec); err != nil {
		t.Fatal(err)
	}
	check(t, b.Dialer("/"), func(q string) int { return b.Depth("/", q) })
}

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
		check(t, consumer.AMQP(b.AMQPURL(vhost)), func(q string) int { return b.Depth(t, vhost, q) })
	})
}
