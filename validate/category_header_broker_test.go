package validate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestCategoryHeaderPrefixOnBrokers shows what rule category-header-prefix warns of:
// the broker ends the session of a consumer that dead-letters with such a key, and
// takes one that begins with x-.
func TestCategoryHeaderPrefixOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		if !b.AtLeast("4.0") {
			return // 3.10 knows no modified outcome
		}
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "dead", amqp091.Table{"x-queue-type": "quorum"})
		b.DeclareQueue(t, vhost, "work", amqp091.Table{
			"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
		})
		b.Publish(t, vhost, "", "work", 1)
		discard := func(key string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			uri, err := amqp091.ParseURI(b.AMQPURL(vhost))
			if err != nil {
				t.Fatal(err)
			}
			address := fmt.Sprintf("amqp://%s:%d", uri.Host, uri.Port)
			c, err := amqp.Dial(ctx, address, &amqp.ConnOptions{
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
			if err := r.ModifyMessage(ctx, m, &amqp.ModifyMessageOptions{
				UndeliverableHere: true, Annotations: amqp.Annotations{key: "business"},
			}); err != nil {
				return err
			}
			// The outcome needs no answer: the next request shows what became of the session.
			_, err = session.NewReceiver(ctx, "/queues/work", nil)
			return err
		}
		if err := discard("dead-letter-category"); err == nil {
			t.Errorf("RabbitMQ %s took an annotation without x-", b.Version)
		}
		if err := discard("x-opt-dead-letter-category"); err != nil {
			t.Errorf("RabbitMQ %s refused an annotation with x-: %v", b.Version, err)
		}
		ch := b.Channel(t, vhost)
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			d, ok, err := ch.Get("dead", true)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				if d.Headers["x-opt-dead-letter-category"] != "business" {
					t.Errorf("headers of the dead letter are %v", d.Headers)
				}
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("no dead letter came")
			}
		}
	})
}
