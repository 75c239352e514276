package export_test

import (
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/export"
	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
	"github.com/rabbitctl/rabbitctl/specs"
)

// TestFold: what rabbitctl makes of a short spec is exported as that spec.
func TestFold(t *testing.T) {
	const want = jsonschema.Modeline + `
# Exported by rabbitctl from RabbitMQ 4.3.6.
# To fill in: stack, the name of the team or service that owns all this;
# owner at each queue with role dead-letter, who looks after it.
version: 1
vhost: /
defaults: {queue: {type: quorum}}

exchanges:
  orders: {type: topic, alternate_exchange: unrouted}
  unrouted: {type: fanout}

queues:
  audit: {type: stream, bindings: [{exchange: unrouted}], max_age: 7D, max_length_bytes: 1GiB}
  payouts:
    bindings: [{exchange: orders, routing_keys: [payout.#, refund.#]}]
    retry: {max_attempts: 5, delays: [30s, 5m]}
    dead_letter: {queue: payouts.dead, strategy: at-least-once}
    max_length: 1000
  payouts.dead: {role: dead-letter}
  pinned:
    settings_by: {default: policy, message_ttl: arguments}
    retry: {delays: [1m]}
    max_length: 5
    message_ttl: 1h
`
	v := catalog.Version{Major: 4, Minor: 3, Patch: 6}
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "want", Data: []byte(want)}}})
	desired, more := spec.Expand(specs.Target{Version: v})
	if found.HasErrors() || more.HasErrors() {
		t.Fatal(found, more)
	}
	got, left := export.Spec(export.Input{Topology: desired, Version: v})
	if string(got) != want || len(left) > 0 {
		t.Errorf("findings %v, got\n%s", left, got)
	}
}
