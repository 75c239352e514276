package simulator_test

import (
	"context"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// What expires is dead-lettered, and Events tells of it.
func ExampleEvents() {
	ctx := context.Background()
	broker := simulator.New(simulator.Version("4.3"), simulator.Events(func(e simulator.Event) {
		fmt.Printf("%s %q %s.\n", e.Kind, e.Queue, e.Reason)
	}))
	err := broker.Load(fstest.MapFS{"spec.yaml": {Data: []byte(`version: 1
vhost: /
queues:
  prices: {type: classic, message_ttl: 5m, dead_letter: prices.dead}
  prices.dead: {type: classic, role: dead-letter, owner: sales}
`)}}, "spec.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := publisher.OpenWith(ctx, broker.Dialer("/"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Publish(ctx, "", "prices", publisher.Message{}); err != nil {
		fmt.Println(err)
	}
	broker.Advance(5 * time.Minute)
	fmt.Println(p.Close(ctx))
	// Output:
	// published "" .
	// queued "prices" .
	// dead-lettered "prices" expired.
	// queued "prices.dead" .
	// <nil>
}
