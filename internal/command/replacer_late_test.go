package command

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/replace"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestReplaceKeepsBindingsMadeMeanwhile: a client that starts during a replacement and
// binds the old queue has its binding on the new one.
func TestReplaceKeepsBindingsMadeMeanwhile(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, step := range []replace.Step{replace.HeldBound, replace.Unbound, replace.Emptied} {
			t.Run(string(step), func(t *testing.T) {
				t.Parallel()
				vhost := b.VirtualHost(t)
				b.DeclareQueue(t, vhost, "q", typed(topology.Classic, nil))
				b.Bind(t, vhost, "amq.topic", "q", "a.#", nil)
				b.Publish(t, vhost, "amq.topic", "a.old", 10)
				bound := false
				job := replace.Job{Queue: queueOf(vhost, "q", topology.Quorum, nil), Reached: func(s replace.Step) error {
					if s == step && !bound {
						bound = true
						b.Bind(t, vhost, "amq.direct", "q", "late", amqp.Table{"by": "another"})
					}
					return nil
				}}
				if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job); err != nil {
					t.Fatal(err)
				}
				b.Publish(t, vhost, "amq.direct", "late", 1)
				b.AwaitDepth(t, vhost, "q", 11, 5*time.Second)
				wantType(t, b, vhost, "q", topology.Quorum)
				wantClean(t, b, vhost)
			})
		}
	})
}

// TestReplaceAfterKilledTrial: a run was killed before anything was changed, and the
// next one wants other arguments.
func TestReplaceAfterKilledTrial(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "q", typed(topology.Classic, nil))
		b.DeclareQueue(t, vhost, "rabbitctl.trial:q", typed(topology.Classic, amqp.Table{"x-max-length": int32(5)}))
		job := replace.Job{Queue: queueOf(vhost, "q", topology.Quorum, nil)}
		if _, err := replace.Run(t.Context(), replaceOn(t, b, vhost, ""), job); err != nil {
			t.Fatal(err)
		}
		wantType(t, b, vhost, "q", topology.Quorum)
		wantClean(t, b, vhost)
	})
}
