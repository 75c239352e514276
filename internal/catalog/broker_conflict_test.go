package catalog

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// probe finds out by the queue's behaviour which of two values of a setting is in
// effect, so that the Conflict column is held against brokers.
type probe struct {
	setting string
	values  [2]any
	// beside are arguments that the queue needs for the behaviour to show.
	beside amqp.Table
	// after is how long the behaviour takes to show.
	after time.Duration
	find  func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error)
}

const bodySize = 1000

var probes = []probe{
	{setting: "max-length", values: [2]any{int64(2), int64(4)}, find: countReady},
	{
		// Quorum queues of 4.3 count more than the bodies.
		setting: "max-length-bytes", values: [2]any{int64(2.5 * bodySize), int64(4.5 * bodySize)},
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			n, err := countReady(t, b, vhost, queue)
			if err != nil {
				return nil, err
			}
			return n.(int64)*bodySize + bodySize/2, nil
		},
	},
	{
		setting: "message-ttl", values: [2]any{int64(500), int64(600_000)}, after: 2 * time.Second,
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			n, err := countReady(t, b, vhost, queue)
			if n == int64(0) {
				return int64(500), err
			}
			return int64(600_000), err
		},
	},
	{
		// Quorum queues look at it every five seconds.
		setting: "expires", values: [2]any{int64(1000), int64(600_000)}, after: 9 * time.Second,
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			for _, q := range listQueues(t, b, vhost, true) {
				if q["name"] == queue {
					return int64(600_000), nil
				}
			}
			return int64(1000), nil
		},
	},
	{
		setting: "overflow", values: [2]any{"drop-head", "reject-publish"}, beside: amqp.Table{"x-max-length": int64(2)},
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			m, err := get(b.Channel(t, vhost), queue, true)
			if err == nil && strings.HasPrefix(string(m.Body), "0") {
				return "reject-publish", nil
			}
			return "drop-head", err
		},
	},
	{
		setting: "dead-letter-exchange", values: [2]any{"amq.direct", "amq.topic"},
		beside: amqp.Table{"x-message-ttl": int64(0)}, after: time.Second,
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			m, err := get(b.Channel(t, vhost), queue+".dead", true)
			return m.Exchange, err
		},
	},
	{
		setting: "dead-letter-routing-key", values: [2]any{"one", "two"},
		beside: amqp.Table{"x-message-ttl": int64(0), "x-dead-letter-exchange": "amq.fanout"}, after: time.Second,
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			// Every dead message comes here, with the key that it got.
			m, err := get(b.Channel(t, vhost), queue+".dead", true)
			return m.RoutingKey, err
		},
	},
	{
		setting: "delivery-limit", values: [2]any{int64(1), int64(3)},
		find: func(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
			channel, deliveries := b.Channel(t, vhost), int64(0)
			first, err := get(channel, queue, false)
			for m := first; err == nil && string(m.Body) == string(first.Body); m, err = get(channel, queue, false) {
				if err := m.Reject(true); err != nil {
					return nil, err
				}
				if deliveries++; deliveries > 10 {
					return nil, fmt.Errorf("%s delivers for ever", queue)
				}
			}
			return deliveries - 1, err
		},
	},
}

func TestConflictsOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v := versionOf(t, b)
		for _, p := range probes {
			t.Run(p.setting, func(t *testing.T) {
				t.Parallel()
				findWinners(t, b, p, v)
			})
		}
	})
}

// findWinners tries every type, policies and operator policies, both ways round.
func findWinners(t *testing.T, b *brokertest.Broker, p probe, v Version) {
	s := Lookup(p.setting)
	d := &declarer{t: t, b: b, vhost: b.VirtualHost(t)}
	type attempt struct {
		queue string
		want  any
	}
	var attempts []attempt
	for _, typ := range []topology.QueueType{classic, quorum} {
		if !s.TakesArgument(typ, v) {
			continue
		}
		byPolicy, byOperator := s.Wins(typ, v)
		for i, kind := range policyKinds {
			if !kind.accepted(s, v) {
				continue
			}
			for argument := range 2 {
				queue := fmt.Sprintf("%s-%s-%d", typ, kind.listed, argument)
				a, policy := p.values[argument], p.values[1-argument]
				b.Put(t, brokertest.Path(kind.path, d.vhost, queue), map[string]any{
					"pattern": "^" + queue + "$", "apply-to": "queues", "definition": map[string]any{s.PolicyKey: policy},
				})
				fill(d, p, s, queue, typ, a)
				attempts = append(attempts, attempt{queue, winner([]Winner{byPolicy, byOperator}[i], a, policy)})
			}
		}
	}
	time.Sleep(p.after)
	for _, a := range attempts {
		brokertest.Eventually(t, 10*time.Second, func() error {
			got, err := p.find(t, b, d.vhost, a.queue)
			if err == nil && got != a.want {
				err = fmt.Errorf("%s %s of %s: %v is in effect, the table says %v", v, s.Name, a.queue, got, a.want)
			}
			return err
		})
	}
}

// fill declares a queue and what its dead messages need, and publishes.
func fill(d *declarer, p probe, s *Setting, queue string, typ topology.QueueType, argument any) {
	d.t.Helper()
	table := amqp.Table{s.Argument: argument}
	for k, v := range p.beside {
		table[k] = v
	}
	if !d.declare(queue, typ, table) {
		d.t.Fatalf("queue %s is refused", queue)
	}
	if strings.HasPrefix(s.Name, "dead-letter-") {
		d.declare(queue+".dead", classic, amqp.Table{})
		for exchange, key := range map[string]string{"amq.direct": queue, "amq.topic": queue, "amq.fanout": ""} {
			if err := d.open().QueueBind(queue+".dead", key, exchange, false, nil); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	channel := d.open()
	if err := channel.Confirm(false); err != nil {
		d.t.Fatal(err)
	}
	for i := range 8 {
		body := strconv.Itoa(i) + strings.Repeat("x", bodySize-1)
		c, err := channel.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte(body)})
		if err != nil {
			d.t.Fatal(err)
		}
		c.Wait() // a refusal is what some of the probes are after
	}
}

func winner(w Winner, argument, policy any) any {
	switch w {
	case ArgumentWins:
		return argument
	case PolicyWins:
		return policy
	}
	a, b := argument.(int64), policy.(int64)
	if w == LargerWins {
		return max(a, b)
	}
	return min(a, b)
}

func countReady(t *testing.T, b *brokertest.Broker, vhost, queue string) (any, error) {
	t.Helper()
	channel := b.Channel(t, vhost)
	defer channel.Close()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	return int64(q.Messages), err
}

func get(channel *amqp.Channel, queue string, ack bool) (amqp.Delivery, error) {
	m, ok, err := channel.Get(queue, ack)
	if !ok {
		return m, cmp.Or(err, fmt.Errorf("no message in %s", queue))
	}
	return m, err
}
