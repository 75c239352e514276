package validate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// discard dead-letters one message of queue "work" by AMQP 1.0's modified outcome
// with an annotation. The error is that of the session afterwards.
func discard(t *testing.T, b *brokertest.Broker, vhost, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	uri, err := amqp091.ParseURI(b.AMQPURL(vhost))
	if err != nil {
		t.Fatal(err)
	}
	c, err := amqp.Dial(ctx, fmt.Sprintf("amqp://%s:%d", uri.Host, uri.Port), &amqp.ConnOptions{
		HostName: "vhost:" + vhost, SASLType: amqp.SASLTypePlain(uri.Username, uri.Password),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, err := c.NewSession(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.NewReceiver(ctx, "/queues/work", nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.Receive(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{UndeliverableHere: true, Annotations: amqp.Annotations{key: "business"}}); err != nil {
		return err
	}
	// The outcome needs no answer: the next request shows what became of the session.
	_, err = session.NewReceiver(ctx, "/queues/work", nil)
	return err
}

// TestClassicDropsCategories: category-routing-needs-quorum. A classic queue takes the
// outcome and drops the annotation.
func TestClassicDropsCategories(t *testing.T) {
	brokertest.EachSince(t, "4.0", func(t *testing.T, b *brokertest.Broker) {
		for kind, want := range map[topology.QueueType]any{classic: nil, quorum: "business"} {
			vhost := b.VirtualHost(t)
			makeAll(t, b, vhost, named("dead", classic, nil), routed(kind, "work", "dead", nil))
			b.Publish(t, vhost, "", "work", 1)
			if err := discard(t, b, vhost, "x-opt-dead-letter-category"); err != nil {
				t.Fatal(err)
			}
			m := b.AwaitMessage(t, vhost, "dead", 10*time.Second)
			if got := m.Headers["x-opt-dead-letter-category"]; got != want {
				t.Errorf("from a %s queue the category is %v, want %v", kind, got, want)
			}
		}
	})
}

// TestCategoryHeaderPrefixOnBrokers: category-header-prefix. The broker ends the
// session of a consumer that dead-letters with such a key, and takes one that begins
// with x-. 3.10 knows no modified outcome.
func TestCategoryHeaderPrefixOnBrokers(t *testing.T) {
	brokertest.EachSince(t, "4.0", func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		makeAll(t, b, vhost, named("dead", quorum, nil), routed(quorum, "work", "dead", nil))
		b.Publish(t, vhost, "", "work", 1)
		if err := discard(t, b, vhost, "dead-letter-category"); err == nil {
			t.Errorf("RabbitMQ %s took an annotation without x-", b.Version)
		}
		if err := discard(t, b, vhost, "x-opt-dead-letter-category"); err != nil {
			t.Errorf("RabbitMQ %s refused an annotation with x-: %v", b.Version, err)
		}
		if m := b.AwaitMessage(t, vhost, "dead", 10*time.Second); m.Headers["x-opt-dead-letter-category"] != "business" {
			t.Errorf("headers of the dead letter are %v", m.Headers)
		}
	})
}
