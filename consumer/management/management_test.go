package management_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/consumer/management"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

func spec(vhost string) consumer.Option {
	text := fmt.Sprintf(`version: 1
vhost: %q
exchanges:
  orders: {type: topic}
queues:
  work:
    type: quorum
    bindings: [{exchange: orders, routing_keys: ["refund.#"]}]
    retry: {max_attempts: 3, delays: [1s]}
    dead_letter: {queue: dead, settings_by: arguments}
    settings_by: arguments
  dead: {type: classic, role: dead-letter, owner: us}
`, vhost)
	return consumer.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte(text)}}, "spec.yaml", "work")
}

// urlOf is the management URL with user and password.
func urlOf(b *brokertest.Broker) string {
	return strings.Replace(b.URL, "://", "://"+b.Username+":"+b.Password+"@", 1)
}

func problems(t *testing.T, b *brokertest.Broker, vhost string, options ...consumer.Option) string {
	t.Helper()
	c, err := consumer.Open(t.Context(), b.AMQPURL(vhost), append(options, management.Check(urlOf(b)))...)
	if err == nil {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		return ""
	}
	var wrong *consumer.CheckError
	if !errors.As(err, &wrong) {
		t.Fatalf("the error is %v", err)
	}
	var all []string
	for _, p := range wrong.Problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

func TestComparesWhatTheQueueNeeds(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		t.Parallel()
		vhost := b.VirtualHost(t)
		b.DeclareExchange(t, vhost, "orders", "topic", nil)
		b.DeclareQueue(t, vhost, "dead", amqp091.Table{"x-queue-type": "classic"})
		retry := amqp091.Table{
			"x-queue-type": "quorum", "x-message-ttl": 1000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}
		b.DeclareQueue(t, vhost, "work.retry", retry)
		work := amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": 7, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
		b.DeclareQueue(t, vhost, "work", work)
		got := problems(t, b, vhost, spec(vhost))
		for _, want := range []string{`queue "work" x-delivery-limit: it differs (want 2, have 7)`, `binding`, `refund.#`} {
			if !strings.Contains(got, want) {
				t.Errorf("the problems are\n%s\nwithout %q", got, want)
			}
		}
		ch := b.Channel(t, vhost)
		if _, err := ch.QueueDelete("work", false, false, false); err != nil {
			t.Fatal(err)
		}
		work["x-delivery-limit"] = 2
		b.DeclareQueue(t, vhost, "work", work)
		b.Bind(t, vhost, "orders", "work", "refund.#", nil)
		if got := problems(t, b, vhost, spec(vhost)); got != "" {
			t.Errorf("problems of what is as declared:\n%s", got)
		}
		if got := problems(t, b, vhost, spec("elsewhere")); !strings.Contains(got, `describes the virtual host "elsewhere"`) {
			t.Errorf("problems of another virtual host:\n%s", got)
		}
		// A policy of somebody's that overrules what is declared (row A30: the smaller limit).
		body := map[string]any{"pattern": "^work$", "apply-to": "queues", "definition": map[string]any{"delivery-limit": 1}}
		if status, answer := b.Do(t, http.MethodPut, brokertest.Path("policies", vhost, "p"), body); status >= 300 {
			t.Fatalf("%d %s", status, answer)
		}
		brokertest.EventuallyTrue(t, 20e9, "the policy noticed", func() bool { return strings.Contains(problems(t, b, vhost, spec(vhost)), "delivery") })
	})
}

// Row A32: a pair by hand on a quorum queue is taken when it is in effect.
func TestPairByHand(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		t.Parallel()
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "dead", amqp091.Table{"x-queue-type": "classic"})
		b.DeclareQueue(t, vhost, "work", amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": 4, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
		pair := func(n int, dead, kind string) []consumer.Option {
			return []consumer.Option{consumer.Queue("work"), consumer.QueueType(kind), consumer.MaxAttempts(n), consumer.DeadLetterTo(dead)}
		}
		if got := problems(t, b, vhost, pair(5, "dead", "quorum")...); got != "" {
			t.Errorf("problems of a pair that is in effect:\n%s", got)
		}
		if got := problems(t, b, vhost, pair(3, "work", "quorum")...); !strings.Contains(got, "want 2, have 4") || !strings.Contains(got, `dead-letter-routing-key`) {
			t.Errorf("problems:\n%s", got)
		}
		if got := problems(t, b, vhost, pair(5, "dead", "classic")...); !strings.Contains(got, "want classic, have quorum") {
			t.Errorf("problems:\n%s", got)
		}
	})
}
