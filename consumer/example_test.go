package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// In a service this is a file, embedded with go:embed.
var exampleTopology = fstest.MapFS{"refunds.yaml": {Data: []byte(`version: 1
vhost: /
queues:
  refunds: {type: classic, retry: {max_attempts: 3, delays: [30s]}, dead_letter: refunds.dead}
  refunds.dead: {type: classic, role: dead-letter, owner: payments-team}
`)}}

// A service whose broker is simulated: half a minute passes at once.
func Example() {
	ctx := context.Background()
	broker := simulator.New()
	if err := broker.Load(exampleTopology, "refunds.yaml"); err != nil {
		fmt.Println(err)
		return
	}
	c, err := consumer.OpenWith(ctx, broker.Dialer("/"), consumer.FromSpec(exampleTopology, "refunds.yaml", "refunds"))
	if err != nil {
		fmt.Println(err)
		return
	}
	type refund struct{ Cents int }
	handler := consumer.JSON(func(_ context.Context, r refund, d *consumer.Delivery) consumer.Outcome {
		fmt.Println("attempt", d.Attempt(), "at", r.Cents)
		if d.Attempt() < 2 {
			return consumer.RetryAfter(30 * time.Second)
		}
		return consumer.Ack()
	})
	ended := make(chan error)
	go func() { ended <- c.Run(ctx, handler) }()

	p, err := publisher.OpenWith(ctx, broker.Dialer("/"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, "", "refunds", publisher.Message{ID: "refund-7", Body: []byte(`{"Cents": 100}`)}); err != nil {
		fmt.Println(err)
	}
	broker.WaitIdle()
	fmt.Println("waiting:", broker.Depth("/", "refunds.retry"))
	broker.Advance(30 * time.Second)
	c.Stop()
	fmt.Println(<-ended, p.Close(ctx))
	// Output:
	// attempt 1 at 100
	// waiting: 1
	// attempt 2 at 100
	// <nil> <nil>
}

// Everything that keeps a consumer from starting is in one error.
func ExampleCheckError() {
	broker := simulator.New()
	_, err := consumer.OpenWith(context.Background(), broker.Dialer("/"), consumer.FromSpec(exampleTopology, "refunds.yaml", "refunds"))
	var wrong *consumer.CheckError
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// queue "refunds": it does not exist; `rabbitctl apply` makes it
	// queue "refunds.retry": it does not exist; it is its wait queue, of queue "refunds"; `rabbitctl apply` makes it
	// queue "refunds.dead": it does not exist; it is its dead-letter queue, of queue "refunds"; `rabbitctl apply` makes it
}
