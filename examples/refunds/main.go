// Command refunds is an example of a service on a classic queue: the consumer counts
// attempts on the copies that it publishes, a busy bank is asked again after 30 seconds by
// way of a wait queue, and the dead-letter queue has a reader.
//
//	rabbitctl apply --yes examples/refunds/refunds.yaml
//	AMQP_URL=amqp://localhost go run ./examples/refunds
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/rabbitctl/rabbitctl/consumer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.Default()
	url := os.Getenv("AMQP_URL")
	if url == "" {
		url = "amqp://localhost"
	}
	conn, err := consumer.Dial(ctx, url, "refunds")
	if err == nil {
		defer conn.Close()
		err = serve(ctx, conn, patientBank{}, func(id, reason string, attempts int) {
			log.Error("a refund was given up", "id", id, "reason", reason, "attempts", attempts)
		}, log)
	}
	if err != nil {
		log.Error("refunds", "error", err)
		os.Exit(1)
	}
}

// patientBank stands in for a bank: it pays everything.
type patientBank struct{}

func (patientBank) Refund(_ context.Context, r Refund) error {
	slog.Info("paid back", "id", r.ID, "cents", r.Cents)
	return nil
}
