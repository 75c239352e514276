package main

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/consumer/dedup"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/publisher/outbox"
)

//go:embed payouts.yaml
var topology embed.FS

const spec = "payouts.yaml"

// Payout is what messages say; the message id is that of the payout.
type Payout struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// ledger is the service's own database: what was paid, which messages were handled, and
// which events are still to be published, all in one transaction.
type ledger struct {
	db     *sql.DB
	done   *dedup.SQL
	events *outbox.SQL
}

func openLedger(ctx context.Context, db *sql.DB) (*ledger, error) {
	done, err := dedup.NewSQL(db, dedup.SQLite, "handled")
	if err != nil {
		return nil, err
	}
	events, err := outbox.NewSQL(db, outbox.SQLite, "outbox")
	if err != nil {
		return nil, err
	}
	statements := append(done.Schema(), events.Schema()...)
	statements = append(statements, `CREATE TABLE IF NOT EXISTS paid (id TEXT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL)`)
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("make the tables: %w", err)
		}
	}
	return &ledger{db, done, events}, nil
}

var errInvalid = errors.New("a payout needs an account and a positive amount")

// handle pays once, however often a message comes, and stores the event that says so.
func (l *ledger) handle() consumer.Handler {
	return l.done.Handler(dedup.Options{Scope: "payouts"}, func(ctx context.Context, tx *sql.Tx, d *consumer.Delivery) consumer.Outcome {
		var p Payout
		if err := json.Unmarshal(d.Body, &p); err != nil {
			return consumer.Drop(err)
		}
		if p.Account == "" || p.Cents <= 0 {
			return consumer.Drop(errInvalid)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO paid (id, account, cents) VALUES (?, ?, ?)`, d.MessageID, p.Account, p.Cents); err != nil {
			return consumer.Retry()
		}
		e := outbox.Event{ID: "done-" + d.MessageID, Exchange: "orders", RoutingKey: "payout.done", Body: d.Body, ContentType: "application/json"}
		if err := l.events.Add(ctx, tx, e); err != nil {
			return consumer.Retry()
		}
		return consumer.Ack()
	})
}

// serve runs the consumer and the relay until the context is done.
func serve(ctx context.Context, d consumer.Dialer, l *ledger, log *slog.Logger) error {
	c, err := consumer.OpenWith(ctx, d, consumer.FromSpec(topology, spec, "payouts"), consumer.Prefetch(10), consumer.Logger(log))
	if err != nil {
		return err
	}
	p, err := publisher.OpenWith(ctx, d, publisher.Logger(log))
	if err != nil {
		return errors.Join(err, c.Close())
	}
	relay := &outbox.Relay{Store: l.events, Publisher: p, Logger: log}
	var both errgroup.Group
	both.Go(func() error { return c.Run(ctx, l.handle()) })
	both.Go(func() error { return relay.Run(ctx) })
	return errors.Join(both.Wait(), p.Close(context.WithoutCancel(ctx)))
}
