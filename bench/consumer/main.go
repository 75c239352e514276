// Command consumer measures package consumer beside a bare loop over amqp091-go with the
// same prefetch and manual acknowledgements, on one broker in one run: what is acknowledged,
// and what is retried once through a confirmed copy. It prints ratios; times are of the
// machine.
//
//	eval "$(dev/broker start 4.3)"; go run ./bench/consumer -url "$RABBITCTL_BROKER_AMQP_URL"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
)

var (
	address  = flag.String("url", "amqp://guest:guest@127.0.0.1:5672/", "broker; only loopback addresses are taken")
	messages = flag.Int("n", 20_000, "messages a run")
	repeats  = flag.Int("reps", 3, "repeats; the median counts")
	prefetch = flag.Int("prefetch", 100, "prefetch")
	size     = flag.Int("size", 256, "bytes of a body")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const queue, dead = "rabbitctl.bench.consumer", "rabbitctl.bench.consumer.dead"

func run() error {
	u, err := url.Parse(*address)
	if err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" && u.Hostname() != "::1" {
		return errors.New("-url: load goes to loopback addresses only")
	}
	conn, err := amqp091.Dial(*address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	for _, q := range []string{queue, dead} {
		if _, err := ch.QueueDeclare(q, true, false, false, false, amqp091.Table{"x-queue-type": "classic"}); err != nil {
			return err
		}
		defer ch.QueueDelete(q, false, false, false)
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	ack := func(context.Context, *consumer.Delivery) consumer.Outcome { return consumer.Ack() }
	retry := func(_ context.Context, d *consumer.Delivery) consumer.Outcome {
		if d.Attempt() == 1 {
			return consumer.Retry()
		}
		return consumer.Ack()
	}
	kinds := []struct {
		name       string
		deliveries int
		work       func(done func()) error
	}{
		{"bare", *messages, func(done func()) error { return bare(conn, done) }},
		{"ack", *messages, func(done func()) error { return helper(ack, done) }},
		{"retry", 2 * *messages, func(done func()) error { return helper(retry, done) }},
	}
	rates, allocations := map[string][]float64{}, map[string]float64{}
	for range *repeats {
		for _, k := range kinds {
			if err := fill(ch); err != nil {
				return err
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			var n atomic.Int64
			if err := k.work(func() { n.Add(1) }); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if int(n.Load()) != k.deliveries {
				return fmt.Errorf("%s: %d deliveries, want %d", k.name, n.Load(), k.deliveries)
			}
			elapsed := time.Since(begin)
			runtime.ReadMemStats(&after)
			rates[k.name] = append(rates[k.name], float64(k.deliveries)/elapsed.Seconds())
			allocations[k.name] = float64(after.Mallocs-before.Mallocs) / float64(k.deliveries)
		}
	}
	fmt.Printf("%d messages of %d bytes, prefetch %d, %d repeats\n\n| | deliveries/s | of the bare loop | allocations a delivery |\n|---|---|---|---|\n", *messages, *size, *prefetch, *repeats)
	for _, k := range kinds {
		var ratios []float64
		for i, r := range rates[k.name] {
			ratios = append(ratios, r/rates["bare"][i])
		}
		fmt.Printf("| %s | %.0f | %.2f | %.0f |\n", k.name, median(rates[k.name]), median(ratios), allocations[k.name])
	}
	return nil
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// fill publishes the messages of a run.
func fill(ch *amqp091.Channel) error {
	if _, err := ch.QueuePurge(queue, false); err != nil {
		return err
	}
	body := make([]byte, *size)
	var last *amqp091.DeferredConfirmation
	for range *messages {
		var err error
		last, err = ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, false, false, amqp091.Publishing{Body: body, DeliveryMode: amqp091.Persistent})
		if err != nil {
			return err
		}
	}
	last.Wait()
	time.Sleep(500 * time.Millisecond)
	return nil
}

// bare is the loop that everybody writes first.
func bare(conn *amqp091.Connection, done func()) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if err := ch.Qos(*prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for range *messages {
		d := <-deliveries
		done()
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// helper is package consumer; it ends when every message is acknowledged.
func helper(h consumer.Handler, done func()) error {
	c, err := consumer.Open(context.Background(), *address, consumer.Queue(queue), consumer.QueueType("classic"), consumer.MaxAttempts(5), consumer.DeadLetterTo(dead),
		consumer.Prefetch(*prefetch), consumer.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(int64(*messages))
	return c.Run(context.Background(), func(ctx context.Context, d *consumer.Delivery) consumer.Outcome {
		done()
		o := h(ctx, d)
		if o.IsAck() && left.Add(-1) == 0 {
			c.Stop()
		}
		return o
	})
}
