package dedup_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/consumer/dedup"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/databasetest"
	"github.com/rabbitctl/rabbitctl/internal/sqldialect"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// each gives a test a database, a broker with two queues and a way to consume.
func each(t *testing.T, run func(l *lab)) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		databasetest.Each(t, func(t *testing.T, db *sql.DB, d sqldialect.Dialect) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "dead", amqp091.Table{"x-queue-type": "classic"})
			b.DeclareQueue(t, vhost, "work", amqp091.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
			s, err := dedup.NewSQL(db, d, "processed")
			if err != nil {
				t.Fatal(err)
			}
			databasetest.Make(t, db, s.Schema()...)
			databasetest.Make(t, db, "CREATE TABLE effect (id TEXT NOT NULL)")
			proxy := brokertest.Proxy(t, b.AMQPAddress())
			run(&lab{T: t, b: b, vhost: vhost, db: db, store: s, proxy: proxy})
		})
	})
}

type lab struct {
	*testing.T
	b     *brokertest.Broker
	vhost string
	db    *sql.DB
	store *dedup.SQL
	proxy *brokertest.TCPProxy
}

func (l *lab) publish(id string) {
	l.b.Publish(l, l.vhost, "", "work", 1, func(_ int, m *amqp091.Publishing) { m.MessageId = id })
}

func (l *lab) run(h consumer.Handler) {
	l.Helper()
	url := wire.AMQP{URL: "amqp://" + l.b.Username + ":" + l.b.Password + "@" + l.proxy.Address + "/" + l.vhost}
	c, err := consumer.OpenWith(l.Context(), url, consumer.Queue("work"), consumer.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		l.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(context.Background(), h) }()
	l.Cleanup(func() {
		c.Stop()
		if err := <-ended; err != nil {
			l.Error(err)
		}
	})
}

func (l *lab) effects() (n int) {
	l.Helper()
	if err := l.db.QueryRow("SELECT count(*) FROM effect").Scan(&n); err != nil {
		l.Fatal(err)
	}
	return n
}

func effect(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effect (id) VALUES ('"+d.MessageID+"')")
	return err
}

// Row C18: a connection that is lost between the commit and the acknowledgement.
func TestCutBetweenCommitAndAck(t *testing.T) {
	each(t, func(l *lab) {
		l.publish("m1")
		var calls, cuts atomic.Int64
		inner := l.store.Handler(dedup.Options{Scope: "work"}, func(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) consumer.Outcome {
			calls.Add(1)
			if err := effect(ctx, tx, d); err != nil {
				return consumer.Retry()
			}
			return consumer.Ack()
		})
		l.run(func(ctx context.Context, d *consumer.Delivery) consumer.Outcome {
			o := inner(ctx, d)
			if cuts.Add(1) == 1 {
				l.proxy.Cut() // the effect is there, the broker does not know
				time.Sleep(100 * time.Millisecond)
			}
			return o
		})
		brokertest.EventuallyTrue(l, 20*time.Second, "the duplicate", func() bool { return l.store.Duplicates.Load() == 1 })
		l.b.AwaitDepth(l, l.vhost, "work", 0, 20*time.Second)
		if calls.Load() != 1 || l.effects() != 1 {
			l.Errorf("%d calls, %d effects", calls.Load(), l.effects())
		}
	})
}

// What is not acknowledged leaves no key behind.
func TestRolledBack(t *testing.T) {
	each(t, func(l *lab) {
		l.publish("m1")
		var calls atomic.Int64
		l.run(l.store.Handler(dedup.Options{Scope: "work"}, func(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) consumer.Outcome {
			if err := effect(ctx, tx, d); err != nil {
				return consumer.Drop(err)
			}
			switch calls.Add(1) {
			case 1:
				return consumer.Retry()
			case 2:
				return consumer.Ack()
			}
			return consumer.Drop(errors.New("too often"))
		}))
		brokertest.EventuallyTrue(l, 20*time.Second, "two calls", func() bool { return calls.Load() == 2 && l.effects() == 1 })
		l.publish("m1")
		brokertest.EventuallyTrue(l, 20*time.Second, "the duplicate", func() bool { return l.store.Duplicates.Load() == 1 })
		if n, err := l.store.Prune(l.Context(), time.Now().Add(time.Hour)); n != 1 || err != nil {
			l.Errorf("%d keys pruned: %v", n, err)
		}
	})
}

// Messages without a key.
func TestWithoutKey(t *testing.T) {
	each(t, func(l *lab) {
		l.publish("")
		var calls atomic.Int64
		h := func(_ context.Context, _ *sql.Tx, _ *consumer.Delivery) consumer.Outcome {
			calls.Add(1)
			return consumer.Ack()
		}
		strict, lax := l.store.Handler(dedup.Options{}, h), l.store.Handler(dedup.Options{HandleWithoutKey: true}, h)
		var first atomic.Bool
		l.run(func(ctx context.Context, d *consumer.Delivery) consumer.Outcome {
			if first.CompareAndSwap(false, true) {
				return strict(ctx, d)
			}
			return lax(ctx, d)
		})
		l.b.AwaitDepth(l, l.vhost, "dead", 1, 20*time.Second)
		l.publish("")
		brokertest.EventuallyTrue(l, 20*time.Second, "a call", func() bool { return calls.Load() == 1 })
	})
}
