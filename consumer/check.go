package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/specs"
)

// Check is a further start-up check, such as that of package consumer/management.
type Check func(ctx context.Context, s Subject) ([]Problem, error)

// Subject is what a check looks at.
type Subject struct {
	// VirtualHost and Queue are what is consumed.
	VirtualHost, Queue string
	// Spec is what FromSpec read; nil without, and then the fields from
	// MaxAttempts on are what the options say, 0 and empty where they say nothing.
	Spec         *specs.Spec
	SpecHost     string // the virtual host in the spec
	MaxAttempts  int
	DeadLetterTo string
	QueueType    string
}

// CheckWith adds a check to those that Open makes.
func CheckWith(c Check) Option { return func(o *options) { o.checks = append(o.checks, c) } }

// check finds out whether everything is there that the consumer needs, with no more
// rights than it has: each object is declared passively on a channel of its own, since a
// missing one closes it.
func check(ctx context.Context, conn wire.Connection, d *declared) ([]Problem, error) {
	var problems []Problem
	for _, n := range d.needs {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		err := exists(conn, n)
		var refused *amqp091.Error
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.Code == amqp091.NotFound:
			text := "it does not exist"
			if n.what != "" {
				text = fmt.Sprintf("it does not exist; it is %s, of queue %q", n.what, d.queue.name)
			}
			problems = append(problems, Problem{Object: n.String(), Text: text + "; `rabbitctl apply` makes it"})
		case errors.As(err, &refused) && (refused.Code == amqp091.AccessRefused || refused.Code == amqp091.ResourceLocked):
			problems = append(problems, Problem{Object: n.String(), Text: fmt.Sprintf("it cannot be looked at: %s", refused.Reason)})
		default:
			return nil, fmt.Errorf("look whether %s exists: %w", n, err)
		}
	}
	return problems, nil
}

func exists(conn wire.Connection, n need) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close()
	if n.kind == topology.KindExchange {
		return ch.ExchangeDeclarePassive(n.name, "direct", true, false, false, false, nil)
	}
	_, err = ch.QueueDeclarePassive(n.name, true, false, false, false, nil)
	return err
}

func (n need) String() string { return fmt.Sprintf("%s %q", n.kind, n.name) }

func (o *options) subject(d *declared, vhost string) Subject {
	return Subject{
		VirtualHost: vhost, Queue: d.queue.name, Spec: d.spec, SpecHost: d.vhost,
		MaxAttempts: o.byHand.maxAttempts, DeadLetterTo: o.byHand.dead, QueueType: string(o.byHand.kind),
	}
}
