// Command payouts is an example of a service on a quorum queue: the broker counts attempts,
// each payout is made once however often its message comes (consumer/dedup), and the event
// that says so leaves with the transaction (publisher/outbox). Its database is SQLite, in
// the file payouts.db.
//
//	rabbitctl apply --yes examples/payouts/payouts.yaml
//	AMQP_URL=amqp://localhost go run ./examples/payouts
package main

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	_ "modernc.org/sqlite" // the driver

	"github.com/rabbitctl/rabbitctl/consumer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("payouts", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://localhost"
	}
	db, err := sql.Open("sqlite", "file:payouts.db?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	l, err := openLedger(ctx, db)
	if err != nil {
		return err
	}
	return serve(ctx, consumer.AMQP(url), l, slog.Default())
}
