package command_test

import (
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestGraphLive draws what apply has made: the live drawing shows the same queues,
// routes and policies as that of the spec, on every version.
func TestGraphLive(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, `
version: 1
vhost: `+vhost+`
exchanges:
  orders: {type: topic, alternate_exchange: unrouted}
  unrouted: {type: fanout}
queues:
  refunds:
    type: classic
    bindings: [{exchange: orders, routing_keys: ["refund.#"]}]
    retry: {max_attempts: 5, delays: [30s]}
    dead_letter: {queue: refunds.dead, strategy: at-most-once}
  refunds.dead: {type: classic, role: dead-letter, owner: payments-team}
  "<odd> \"name\"": {type: classic, bindings: [{exchange: unrouted}], contract: none, reason: a copy}
`)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		for _, format := range []string{"mermaid", "dot", "svg", "html"} {
			got := runWith(t, b, "graph", "--broker", "--vhost", vhost, "--format", format)
			got.want(t, 0)
			for _, want := range []string{
				"refunds", "classic dead-letter queue", "classic wait queue", "topic exchange", "refund.", "after 30s",
				b.Version,
			} {
				if !strings.Contains(got.out, want) {
					t.Errorf("%s does not show %q:\n%s", format, want, got.out)
				}
			}
		}
		dot := runWith(t, b, "graph", "--broker", "--vhost", vhost, "--format", "dot").out
		for _, want := range []string{`policy \"rabbitctl:refunds\"`, `&lt;odd&gt; &quot;name&quot;`} {
			if !strings.Contains(dot, want) {
				t.Errorf("the drawing does not show %q:\n%s", want, dot)
			}
		}
		missing := runWith(t, b, "graph", "--broker", "--vhost", "no such virtual host")
		missing.want(t, 1)
		if !strings.Contains(missing.err, `"no such virtual host"`) {
			t.Errorf("the virtual host that is missing is not named: %s", missing.err)
		}
		if runCommand(t, environment(b, b.Username, "wrong"), "graph", "--broker").exit != 5 {
			t.Error("a refused login does not exit with 5")
		}
	})
}
