package simulator_test

import (
	"context"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

func open(t *testing.T, b *simulator.Broker) wire.Channel {
	t.Helper()
	c, err := b.Dialer("/").Dial(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func TestWaitQueueOnAPausedClock(t *testing.T) {
	b := simulator.New()
	ch := open(t, b)
	for name, args := range map[string]amqp091.Table{
		"work": {"x-queue-type": "quorum"},
		"wait": {"x-message-ttl": 30000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"},
	} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.PublishWithContext(context.Background(), "", "wait", true, false, amqp091.Publishing{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	b.Advance(29 * time.Second)
	if got := b.Depth("/", "work"); got != 0 {
		t.Fatalf("%d messages came early", got)
	}
	b.Advance(time.Second)
	d, ok, err := ch.Get("work", false)
	if err != nil || !ok {
		t.Fatalf("no message: %v", err)
	}
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) != 1 || deaths[0].(amqp091.Table)["reason"] != "expired" {
		t.Errorf("x-death is %v", d.Headers["x-death"])
	}
}
