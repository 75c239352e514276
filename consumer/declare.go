package consumer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// declare makes what the queue needs: exchanges, queues with what they dead-letter to
// first, then bindings. Declaring what is there as it is changes nothing; the broker
// refuses what differs (406) and names the argument, which is a problem.
func declare(conn wire.Connection, d *declared) ([]Problem, error) {
	if d.host == nil {
		return []Problem{{Text: "Declare needs a spec: use FromSpec"}}, nil
	}
	needed := func(kind topology.Kind, name string) bool {
		return slices.ContainsFunc(d.needs, func(n need) bool { return n.kind == kind && n.name == name })
	}
	var problems []Problem
	for _, p := range d.host.Policies {
		if p.Queue != "" && needed(topology.KindQueue, p.Queue) {
			problems = append(problems, Problem{
				Object: fmt.Sprintf("queue %q", p.Queue),
				Text:   "its settings are a policy, which cannot be set over AMQP: say `settings_by: arguments`, or let `rabbitctl apply` make it",
			})
		}
	}
	if len(problems) > 0 {
		return problems, nil
	}
	try := func(object string, f func(ch wire.Channel) error) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		err = f(ch)
		var refused *amqp091.Error
		if errors.As(err, &refused) && !conn.IsClosed() {
			problems = append(problems, Problem{Object: object, Text: refused.Reason})
			return nil
		}
		if err != nil {
			return fmt.Errorf("declare %s: %w", object, err)
		}
		return nil
	}
	for _, e := range d.host.Exchanges {
		if !needed(topology.KindExchange, e.Name) || e.Name == "" || strings.HasPrefix(e.Name, "amq.") || e.Intent != nil && e.Intent.External {
			continue
		}
		if err := try(fmt.Sprintf("exchange %q", e.Name), func(ch wire.Channel) error {
			return ch.ExchangeDeclare(e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, false, amqp091.Table(e.Arguments))
		}); err != nil {
			return nil, err
		}
	}
	queues := slices.Clone(d.host.Queues)
	// The queue itself last: no dead-letter route of it ever leads nowhere.
	slices.SortStableFunc(queues, func(a, b *topology.Queue) int {
		return boolToInt(a.Name == d.queue.name) - boolToInt(b.Name == d.queue.name)
	})
	for _, q := range queues {
		if !needed(topology.KindQueue, q.Name) || q.Intent != nil && q.Intent.External {
			continue
		}
		args := amqp091.Table{}
		for k, v := range q.Arguments {
			args[k] = v
		}
		if q.Type != "" {
			args["x-queue-type"] = string(q.Type)
		}
		if err := try(fmt.Sprintf("queue %q", q.Name), func(ch wire.Channel) error {
			_, err := ch.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, args)
			return err
		}); err != nil {
			return nil, err
		}
	}
	for _, b := range d.host.Bindings {
		if b.DestinationType != topology.ToQueue || !needed(topology.KindQueue, b.Destination) {
			continue
		}
		if err := try(b.Key().String(), func(ch wire.Channel) error {
			return ch.QueueBind(b.Destination, b.RoutingKey, b.Source, false, amqp091.Table(b.Arguments))
		}); err != nil {
			return nil, err
		}
	}
	return problems, nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
