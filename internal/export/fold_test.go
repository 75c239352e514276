package export_test

import (
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/export"
	"github.com/rabbitctl/rabbitctl/specs"
)

// TestFold: what rabbitctl makes of a short spec is exported as that spec.
func TestFold(t *testing.T) {
	for name, want := range folds {
		t.Run(name, func(t *testing.T) {
			if want = strings.TrimPrefix(want, "\n"); !strings.HasPrefix(want, "defaults") {
				want = "\n" + want
			}
			want = "version: 1\nvhost: /\n" + want
			if got := exportOf(t, want); got != want {
				t.Errorf("want\n%s\ngot\n%s", want, got)
			}
		})
	}
}

// exportOf exports what a spec stands for on 4.3; comments at the head are left
// out.
func exportOf(t *testing.T, text string) string {
	t.Helper()
	v := catalog.Version{Major: 4, Minor: 3, Patch: 6}
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "want", Data: []byte(text)}}})
	desired, more := spec.Expand(specs.Target{Version: v})
	if found.HasErrors() || more.HasErrors() {
		t.Fatal(found, more)
	}
	got, left := export.Spec(export.Input{Topology: desired, Version: v})
	if len(left) > 0 {
		t.Errorf("findings %v", left)
	}
	_, rest, _ := strings.Cut(string(got), "version: 1\n")
	return "version: 1\n" + rest
}

var folds = map[string]string{
	"all sorts": `
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
`,
	"categories": `
defaults: {queue: {type: quorum}}

queues:
  work:
    retry: {max_attempts: 5}
    dead_letter:
      categories:
        header: x-opt-kind
        routes: {again: {queue: work.again}, "no": {queue: work.no, type: classic}}
        otherwise: {queue: work.other, type: stream}
      strategy: at-least-once
  work.again: {role: dead-letter, max_length: 10}
`,
	"via an exchange": `
defaults: {queue: {type: quorum}}

exchanges:
  dlx: {type: direct}
  dlx.topic: {type: topic}

queues:
  a: {retry: {max_attempts: 3}, dead_letter: {queue: a.dead, via: dlx}}
  a.dead: {role: dead-letter}
  b: {dead_letter: {queue: a.dead, via: dlx.topic, routing_key: failed}}
`,
	"reject cycle": `
queues:
  jobs:
    type: quorum
    retry: {delays: [1m], mechanism: reject-cycle, wait_queue: {name: jobs.again}}
`,
	"reject cycle by arguments": `
defaults: {queue: {settings_by: arguments}}

queues:
  jobs: {type: classic, retry: {delays: [1m], mechanism: reject-cycle}}
`,
	"wait queues of other names": `
queues:
  mails:
    type: quorum
    retry: {delays: [5s, 1m, 10m], wait_queue: {names: "{queue}.again.{n}", type: classic}}
`,
	"a wait queue of another name": `
queues:
  mails: {type: classic, retry: {delays: [90s], wait_queue: {name: wait/mails}}}
`,
	"names with the delay": `
queues:
  mails: {type: classic, retry: {delays: [90s, 1h], wait_queue: {names: "delay-{delay}-{queue}"}}}
`,
	"no wait queue but a dead-letter queue": `
defaults: {queue: {type: classic, settings_by: arguments}}

queues:
  jobs: {dead_letter: jobs.dead, message_ttl: 1h}
  jobs.dead: {role: dead-letter}
`,
	"a shared wait queue": `
defaults: {queue: {type: classic, settings_by: arguments}}

exchanges:
  back: {type: topic}
  later: {type: fanout}

queues:
  a: {bindings: [{exchange: back, routing_key: a}]}
  b: {bindings: [{exchange: back, routing_key: b}]}
  delay.1m:
    role: wait
    bindings: [{exchange: later}]
    dead_letter: {exchange: back}
    message_ttl: 1m
`,
	"policies of several queues": `
queues:
  tmp.a: {type: classic, hides_policy: short, max_length: 5}
  tmp.b: {type: quorum}

policies:
  short: {pattern: "^tmp\\.", apply_to: queues, priority: 10, definition: {max-length: 10000}}
`,
	"another priority": `
defaults: {policy_priority: 7}

queues:
  a: {type: classic, max_length: 5}
`,
	"a family": `
defaults: {queue: {type: classic}}

queues:
  other: {type: quorum}
  "photo.{n}.in":
    for_each: {n: ["1", large, small]}
    bindings: [{exchange: amq.topic, routing_key: "photo.{n}.#"}]
    dead_letter: other
    max_length: 100
`,
	"what nearly all have": `
defaults: {queue: {type: quorum, dead_letter: all.dead, max_length: 1000, retry: {max_attempts: 4}}}

queues:
  all.dead: {role: dead-letter, dead_letter: null, max_length: null, retry: null}
  bills: {}
  cards: {}
  letters: {}
  mails: {bindings: [{exchange: amq.topic, routing_key: "$${"}]}
  parcels: {retry: {max_attempts: 2}}
  press: {}
  stamps: {single_active_consumer: true}
`,
}

// TestFoldsThatWouldDiffer: what is nearly a short form is written in full.
func TestFoldsThatWouldDiffer(t *testing.T) {
	for name, c := range map[string]struct{ text, not string }{
		"two queues behind the key": {`
exchanges: {dlx: {type: direct}}
queues:
  a: {type: quorum, dead_letter: {exchange: dlx, routing_key: k}}
  b: {type: quorum, bindings: [{exchange: dlx, routing_key: k}]}
  c: {type: quorum, bindings: [{exchange: dlx, routing_key: k}]}
`, "via"},
		"a pattern that matches too": {`
exchanges: {dlx: {type: topic}}
queues:
  a: {type: quorum, dead_letter: {exchange: dlx, routing_key: k}}
  b: {type: quorum, bindings: [{exchange: dlx, routing_key: k}]}
  c: {type: quorum, bindings: [{exchange: dlx, routing_key: "#"}]}
`, "via"},
		"a bound wait queue": {`
queues:
  a: {type: classic}
  a.retry: {type: classic, settings_by: arguments, message_ttl: 1m, dead_letter: a, bindings: [{exchange: amq.topic, routing_key: k}]}
`, "delays"},
		"a cycle that a length limit would enter": {`
queues:
  a: {type: classic, settings_by: arguments, dead_letter: a.retry, max_length: 5}
  a.retry: {type: classic, settings_by: arguments, message_ttl: 1m, dead_letter: a}
`, "reject-cycle"},
		"categories by any": {`
exchanges:
  a.dead-letter: {type: headers, alternate_exchange: a.dead-letter.otherwise}
  a.dead-letter.otherwise: {type: fanout}
queues:
  a: {type: classic, dead_letter: {exchange: a.dead-letter}}
  b: {type: classic, bindings: [{exchange: a.dead-letter, match: any, arguments: {kind: b}}]}
  c: {type: classic, bindings: [{exchange: a.dead-letter.otherwise}]}
`, "categories"},
		"a quorum queue with the broker's limit": {`
queues:
  a: {type: quorum, dead_letter: b}
  b: {type: quorum}
`, "role"},
		"two members": {`
queues:
  p.a: {type: classic, max_length: 1}
  p.b: {type: classic, max_length: 1}
`, "for_each"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exportOf(t, "version: 1\nvhost: /\n"+c.text); strings.Contains(got, c.not) {
				t.Errorf("%s is in\n%s", c.not, got)
			}
		})
	}
}
