package main

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/consumer"
)

//go:embed refunds.yaml
var topology embed.FS

const spec = "refunds.yaml"

// Refund is what messages say.
type Refund struct {
	ID    string `json:"id"`
	Cents int64  `json:"cents"`
}

// What can go wrong at the bank.
var (
	ErrBusy    = errors.New("the bank asks for patience")
	ErrDown    = errors.New("the bank cannot be reached")
	ErrNoOrder = errors.New("there is no such order")
)

// Bank pays money back. It is idempotent by the refund's id.
type Bank interface {
	Refund(ctx context.Context, r Refund) error
}

// handle pays refunds back.
func handle(bank Bank) consumer.Handler {
	return consumer.JSON(func(ctx context.Context, r Refund, _ *consumer.Delivery) consumer.Outcome {
		switch err := bank.Refund(ctx, r); {
		case err == nil:
			return consumer.Ack()
		case errors.Is(err, ErrBusy):
			return consumer.RetryAfter(30 * time.Second)
		case errors.Is(err, ErrNoOrder):
			return consumer.DeadLetter("", err) // with the reason; no attempt will do better
		default:
			return consumer.Retry()
		}
	})
}

// inspect tells the owner of the dead-letter queue what arrived there, and why.
func inspect(tell func(id, reason string, attempts int)) consumer.Handler {
	return func(_ context.Context, d *consumer.Delivery) consumer.Outcome {
		reason, _ := d.Headers["x-opt-dead-letter-reason"].(string)
		if reason == "" {
			reason = "all attempts failed"
		}
		tell(d.MessageID, reason, d.Attempt()-1) // its own delivery here is none
		return consumer.Ack()
	}
}

// serve runs both consumers on one connection until the context is done.
func serve(ctx context.Context, conn *consumer.Connection, bank Bank, tell func(id, reason string, attempts int), log *slog.Logger) error {
	work, err := consumer.OpenOn(ctx, conn, consumer.FromSpec(topology, spec, "refunds"), consumer.Prefetch(20), consumer.Concurrency(4), consumer.Logger(log))
	if err != nil {
		return err
	}
	dead, err := consumer.OpenOn(ctx, conn, consumer.FromSpec(topology, spec, "refunds.dead"), consumer.Logger(log))
	if err != nil {
		return errors.Join(err, work.Close())
	}
	var both errgroup.Group
	both.Go(func() error { return work.Run(ctx, handle(bank)) })
	both.Go(func() error { return dead.Run(ctx, inspect(tell)) })
	return both.Wait()
}
