package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/databasetest"
	"github.com/rabbitctl/rabbitctl/internal/sqldialect"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/publisher/outbox"
	"github.com/rabbitctl/rabbitctl/simulator"
)

var quiet = slog.New(slog.DiscardHandler)

func store(t *testing.T, db *sql.DB, d sqldialect.Dialect) *outbox.SQL {
	t.Helper()
	s, err := outbox.NewSQL(db, d, "outbox")
	if err != nil {
		t.Fatal(err)
	}
	databasetest.Make(t, db, s.Schema()...)
	databasetest.Make(t, db, s.Schema()...) // it is there already
	return s
}

func add(t *testing.T, s *outbox.SQL, db *sql.DB, from, to int, key string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		e := outbox.Event{ID: fmt.Sprint(i), RoutingKey: key, Body: []byte{0, byte(i)}, ContentType: "x/y", Headers: map[string]string{"h": "ü"}}
		if err := s.Add(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func simulated(t *testing.T) (*simulator.Broker, *publisher.Publisher) {
	t.Helper()
	b := simulator.New(simulator.RealTime())
	conn, err := b.Dialer("/").Dial(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	p, err := publisher.OpenWith(t.Context(), b.Dialer("/"), publisher.Logger(quiet), publisher.ConfirmTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return b, p
}

func ids(t *testing.T, b *simulator.Broker) []string {
	t.Helper()
	all, err := b.Messages("/", "q")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.ID)
	}
	return ids
}

func numbers(from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

func run(t *testing.T, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Row C6: order is kept, what is rolled back is not published, and a broker that is down
// is waited for.
func TestRelay(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB, d sqldialect.Dialect) {
		s := store(t, db, d)
		b, p := simulated(t)
		add(t, s, db, 0, 250, "q")
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(t.Context(), tx, outbox.Event{ID: "never", RoutingKey: "q"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(t.Context(), db, outbox.Event{RoutingKey: "q"}); err == nil {
			t.Error("an event without an ID was taken")
		}
		stop := run(t, &outbox.Relay{Store: s, Publisher: p, Interval: 20 * time.Millisecond, Logger: quiet})
		eventually(t, "all events", func() bool { return len(ids(t, b)) >= 250 })
		b.Stop()
		add(t, s, db, 250, 300, "q")
		time.Sleep(500 * time.Millisecond)
		if rows, err := s.Pending(t.Context(), 100); err != nil || len(rows) != 50 {
			t.Errorf("%d pending: %v", len(rows), err)
		}
		b.Start()
		eventually(t, "the rest", func() bool { return len(ids(t, b)) >= 300 })
		eventually(t, "all marked", func() bool { rows, err := s.Pending(t.Context(), 1); return err == nil && len(rows) == 0 })
		stop()
		if got := ids(t, b); !slices.Equal(got, numbers(0, 300)) {
			t.Errorf("the messages are %v", got)
		}
		all, err := b.Messages("/", "q")
		if err != nil || string(all[7].Body) != "\x00\x07" || all[7].Headers["h"] != "ü" {
			t.Errorf("%v %v", all[7], err)
		}
		if n, err := s.Prune(t.Context(), time.Now().Add(time.Hour)); n != 300 || err != nil {
			t.Errorf("%d pruned: %v", n, err)
		}
	})
}

// crashing is a store that fails after the broker has confirmed, once.
type crashing struct {
	*outbox.SQL
	once sync.Once
}

func (c *crashing) MarkSent(ctx context.Context, all []int64) (err error) {
	c.once.Do(func() { err = errors.New("the process was killed") })
	if err != nil {
		return err
	}
	return c.SQL.MarkSent(ctx, all)
}

// Row C6: a crash between confirm and mark publishes twice, with the same id.
func TestCrashBeforeTheMark(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		t.Parallel()
		databasetest.Each(t, func(t *testing.T, db *sql.DB, d sqldialect.Dialect) {
			vhost := b.VirtualHost(t)
			b.DeclareQueue(t, vhost, "q", amqp091.Table{"x-queue-type": "quorum"})
			p, err := publisher.OpenWith(t.Context(), wire.AMQP{URL: b.AMQPURL(vhost)}, publisher.Logger(quiet))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close(t.Context())
			s := store(t, db, d)
			add(t, s, db, 7, 8, "q")
			stop := run(t, &outbox.Relay{Store: &crashing{SQL: s}, Publisher: p, Interval: 20 * time.Millisecond, Logger: quiet})
			b.AwaitDepth(t, vhost, "q", 2, 20*time.Second)
			time.Sleep(200 * time.Millisecond)
			stop()
			all := b.Drain(t, vhost, "q")
			if len(all) != 2 || all[0].MessageId != "7" || all[1].MessageId != "7" || all[0].DeliveryMode != amqp091.Persistent {
				t.Errorf("the messages are %+v", all)
			}
		})
	})
}

// An event that no queue takes holds the others up, or is put aside and can be taken back.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB, d sqldialect.Dialect) {
		s := store(t, db, d)
		b, p := simulated(t)
		add(t, s, db, 0, 1, "missing")
		add(t, s, db, 1, 3, "q")
		stop := run(t, &outbox.Relay{Store: s, Publisher: p, Batch: 1, Interval: 20 * time.Millisecond, Logger: quiet})
		eventually(t, "attempts counted", func() bool {
			rows, err := s.Pending(t.Context(), 1)
			return err == nil && len(rows) == 1 && rows[0].Attempts >= 2
		})
		stop()
		if got := ids(t, b); len(got) != 0 {
			t.Errorf("the messages are %v, and one before them was refused", got)
		}
		var parked []string
		stop = run(t, &outbox.Relay{
			Store: s, Publisher: p, Batch: 1, Interval: 20 * time.Millisecond, Logger: quiet, ParkAfter: 3,
			OnParked: func(r outbox.Row, err error) {
				var returned *publisher.Returned
				if !errors.As(err, &returned) {
					t.Errorf("parked for %v", err)
				}
				parked = append(parked, r.ID)
			},
		})
		eventually(t, "the others", func() bool { return len(ids(t, b)) == 2 })
		stop()
		if !slices.Equal(parked, []string{"0"}) {
			t.Errorf("parked %v", parked)
		}
		if n, err := s.Unpark(t.Context()); n != 1 || err != nil {
			t.Errorf("%d taken back: %v", n, err)
		}
		if rows, err := s.Pending(t.Context(), 10); err != nil || len(rows) != 1 || rows[0].ID != "0" {
			t.Errorf("pending %v: %v", rows, err)
		}
	})
}

// Of several relays one publishes; another takes over.
func TestManyRelays(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB, d sqldialect.Dialect) {
		s := store(t, db, d)
		b, p := simulated(t)
		var stops []func()
		for range 3 {
			stops = append(stops, run(t, &outbox.Relay{Store: s, Publisher: p, Batch: 10, Interval: 10 * time.Millisecond, LeaseLength: 2 * time.Second, Logger: quiet}))
		}
		for i := range 20 {
			add(t, s, db, i*10, i*10+10, "q")
		}
		eventually(t, "all events", func() bool { return len(ids(t, b)) >= 200 })
		for _, stop := range stops[:2] {
			stop()
		}
		add(t, s, db, 200, 210, "q")
		eventually(t, "those that came later", func() bool { return len(ids(t, b)) >= 210 })
		if got := ids(t, b); !slices.Equal(got, numbers(0, 210)) {
			t.Errorf("the messages are %v", got)
		}
	})
}

func TestNamesOfTables(t *testing.T) {
	for name, good := range map[string]bool{
		"outbox": true, "app.outbox_2": true, "": false, "2x": false, "a b": false, `x"; DROP TABLE y; --`: false, "a.b.c": false, "a.": false,
	} {
		if _, err := outbox.NewSQL(nil, outbox.SQLite, name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := outbox.NewSQL(nil, "oracle", "outbox"); err == nil {
		t.Error("an unknown dialect was taken")
	}
}
