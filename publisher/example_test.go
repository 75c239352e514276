package publisher_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// A message that no queue takes is an error, although the broker confirms it.
func Example() {
	ctx := context.Background()
	p, err := publisher.OpenWith(ctx, simulator.New().Dialer("/"), publisher.RequireMessageID())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = p.Publish(ctx, "amq.topic", "refund.card", publisher.Message{ID: "refund-7", Body: []byte("{}")})
	var returned *publisher.Returned
	fmt.Println(errors.As(err, &returned), err)
	fmt.Println(p.Close(ctx))
	// Output:
	// true publish to exchange "amq.topic" with key "refund.card" on the simulated broker, virtual host "/": no queue takes it (312 NO_ROUTE)
	// <nil>
}
