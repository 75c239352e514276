package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// makeRaw sends requests to the management API as they are.
func makeRaw(t *testing.T, b *brokertest.Broker, vhost string, requests ...[2]string) {
	t.Helper()
	for _, r := range requests {
		kind, name, _ := strings.Cut(r[0], "/")
		method, path := http.MethodPut, brokertest.Path(append([]string{kind, vhost}, strings.Split(name, "/")...)...)
		if kind == "bindings" {
			method = http.MethodPost
		}
		if status, body := b.Do(t, method, path, json.RawMessage(r[1])); status/100 != 2 {
			t.Fatalf("%s %s: %d %s", method, path, status, body)
		}
	}
}

// TestCases1To8: what cannot be changed in place is named with all its fields, both
// values, and the bindings that a replacement has to restore; apply sends nothing.
func TestCases1To8(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		makeRaw(t, b, vhost,
			[2]string{"queues/jobs.delayed", `{"durable":true,"arguments":{"x-queue-type":"quorum","x-message-ttl":30000}}`},
			[2]string{"queues/a.queue", `{"durable":true}`}, [2]string{"queues/t", `{"durable":true}`},
			[2]string{"exchanges/notify", `{"durable":true,"type":"fanout"}`}, [2]string{"exchanges/plain", `{"durable":true,"type":"fanout"}`},
			[2]string{"exchanges/ae", `{"durable":true,"type":"fanout"}`},
			[2]string{"bindings/e/notify/q/a.queue", `{}`}, [2]string{"bindings/e/ae/e/notify", `{}`},
		)
		spec := onVHost(t, vhost, "defaults: {queue: {settings_by: arguments}}\n"+
			"exchanges: {notify: {type: topic}, plain: {type: fanout, alternate_exchange: ae}, ae: {type: fanout}}\nqueues:\n"+
			"  jobs.delayed: {type: quorum, message_ttl: 60s, loses: {rejected: test, expired: test, delivery_limit: test}}\n"+
			"  a.queue: {type: classic, dead_letter: {exchange: ae}}\n  t: {type: classic, durable: false, auto_delete: true, max_length: 5, loses: {rejected: test, overflow: test}}\n"+
			"  dead: {"+owned+", bindings: [{exchange: ae}]}")
		wantPlan(
			t, b, 4, spec,
			[]string{
				"replace exchange/notify blocked", "replace exchange/plain blocked", "create queue/dead", "replace queue/jobs.delayed blocked",
				"replace queue/t blocked", "create binding/ae => queue dead", "replace queue/a.queue blocked",
			},
			"x-message-ttl: 30000 -> 60000 (fixed at declaration)", "a policy can carry message_ttl", // 1
			`x-dead-letter-exchange: (none) -> "ae"`,                                                                      // 2
			`type: "fanout" -> "topic"`, `alternate-exchange: (none) -> "ae"`, "2 bindings to restore", "404 (NOT_FOUND)", // 4
			"durable: true -> false", "auto_delete: false -> true", "x-max-length: (none) -> 5", // 8
		)
		before := definitions(t, b, vhost)
		api, amqp := brokertest.HTTPProxy(t, b, nil), brokertest.Proxy(t, b.AMQPAddress())
		runCommand(t, append(environmentAt(api.URL, b), "RABBITCTL_AMQP_URL=amqp://"+amqp.Address), "apply", "--yes", spec).want(t, 4)
		if w := api.Writes(); len(w) > 0 || definitions(t, b, vhost) != before {
			t.Errorf("a blocked apply wrote %v", w)
		}
	})
}

// TestCase6: a queue that came into being differently while apply ran is not taken
// for done, as an import would.
func TestCase6(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "queues:\n  e: {type: classic, settings_by: arguments, message_ttl: 1s, loses: {rejected: test, expired: test}}\n  f: {type: classic}")
		made := false
		api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/e") && !made {
				made = true
				makeRaw(t, b, vhost, [2]string{"queues/e", `{"durable":true,"arguments":{"x-message-ttl":30000}}`})
			}
			if strings.Contains(r.URL.Path, "/definitions") && r.Method == http.MethodPost {
				t.Error("definitions were imported")
			}
			return 0, "", false
		})
		r := runCommand(t, environmentAt(api.URL, b), "apply", "--yes", "--via", "http", spec)
		r.want(t, 6)
		for _, words := range []string{`failed: create queue "e"`, "want 1000", "have 30000"} {
			if !strings.Contains(r.out, words) {
				t.Errorf("apply does not say %q:\n%s%s", words, r.out, r.err)
			}
		}
		if !b.HasQueue(t, vhost, "f") || queueArguments(t, b, vhost, "e")["x-message-ttl"] != 30000.0 {
			t.Error("f must be there, and e as it was made")
		}
	})
}

// TestCases11To17: what looks different and is not, and bindings that differ in
// their arguments only (13, 15, 17, H7).
func TestCases11To17(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		makeRaw(t, b, vhost,
			[2]string{"queues/q", `{"durable":true,"arguments":{"x-max-priority":10}}`}, [2]string{"exchanges/hx", `{"durable":true,"type":"headers"}`},
			[2]string{"bindings/e/hx/q/q", `{"routing_key":"","arguments":{"x-match":"all","type":"D"}}`},
			[2]string{"bindings/e/hx/q/q", `{"routing_key":"","arguments":{"x-match":"all","type":5}}`},
			[2]string{"bindings/e/hx/q/q", `{"routing_key":"","arguments":{"x-match":"all","log_level":"error"}}`},
			[2]string{"bindings/e/amq.direct/q/q", `{}`}, // no routing key
		)
		// The same number with another AMQP type: both look alike over HTTP.
		b.Bind(t, vhost, "hx", "q", "", amqp091.Table{"x-match": "all", "type": 5.0})
		const queue = "exchanges: {hx: {type: headers}}\nqueues:\n  q:\n    {type: classic, max_priority: 10, settings_by: arguments, loses: {rejected: test}, " +
			"bindings: [{exchange: amq.direct}, {exchange: hx, match: all, arguments: {type: D}}, {exchange: hx, match: all, arguments: {type: 5}}%s]}"
		secondPlanIsEmpty(t, b, onVHost(t, vhost, fmt.Sprintf(queue, ", {exchange: hx, match: all, arguments: {log_level: error}}")))

		spec := onVHost(t, vhost, fmt.Sprintf(queue, `, {exchange: hx, match: all, arguments: {loglevel: warn}}, {exchange: hx, match: all, arguments: {type: "5"}}`))
		wantPlan(t, b, 2, spec, []string{
			`create binding/hx => queue q {"loglevel": "warn", "x-match": "all"}`, `create binding/hx => queue q {"type": "5", "x-match": "all"}`,
		}, `left as it was: hx => queue q {"log_level": "error", "x-match": "all"}`)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		secondPlanIsEmpty(t, b, spec)
		var live []struct{ Source string }
		b.Get(t, brokertest.Path("bindings", vhost), &live)
		if len(live) != 1+1+6 { // of the default exchange, of amq.direct, of hx
			t.Errorf("%d bindings: %v", len(live), live)
		}
	})
}

// TestCase12: a type that nobody wrote.
func TestCase12(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		const text = "queues: {q: {%s settings_by: arguments, loses: {rejected: test, delivery_limit: test}}}"
		makeRaw(t, b, vhost, [2]string{"queues/q", `{"durable":true}`})
		for _, kind := range []string{"", "type: classic,"} {
			secondPlanIsEmpty(t, b, onVHost(t, vhost, fmt.Sprintf(text, kind)))
		}
		wantPlan(t, b, 4, onVHost(t, vhost, fmt.Sprintf(text, "type: quorum,")), []string{"replace queue/q blocked"}, `type: "classic" -> "quorum"`)
		if !b.AtLeast("4.0") {
			return
		}
		vhost = b.VirtualHost(t)
		b.Put(t, brokertest.Path("vhosts", vhost), map[string]any{"default_queue_type": "quorum"})
		makeRaw(t, b, vhost, [2]string{"queues/q", `{"durable":true}`})
		for _, kind := range []string{"", "type: quorum,"} {
			secondPlanIsEmpty(t, b, onVHost(t, vhost, fmt.Sprintf(text, kind)))
		}
		wantPlan(t, b, 4, onVHost(t, vhost, fmt.Sprintf(text, "type: classic,")), []string{"replace queue/q blocked"}, `type: "quorum" -> "classic"`)
	})
}

// TestCase24: a default queue type that the broker ignores builds no classic queue.
func TestCase24(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := "vhost_settings: {default_queue_type: %s}\nqueues: {q: {settings_by: arguments, loses: {rejected: test, delivery_limit: test}}}"
		spec := onVHost(t, vhost, fmt.Sprintf(text, "quorum"))
		r := runWith(t, b, "apply", "--yes", spec)
		if !b.AtLeast("4.0") {
			r.want(t, 3)
			if b.HasQueue(t, vhost, "q") || !strings.Contains(r.err, "default-queue-type-unsupported") {
				t.Errorf("apply:\n%s%s", r.out, r.err)
			}
			return
		}
		r.want(t, 0)
		if kind := liveQueues(t, b, vhost)["q"].Arguments["x-queue-type"]; kind != "quorum" {
			t.Errorf("q is a %v queue", kind)
		}
		secondPlanIsEmpty(t, b, spec)
		wantPlan(t, b, 4, onVHost(t, vhost, fmt.Sprintf(text, "classic")), []string{"update vhost/", "replace queue/q blocked"}, "queues that exist keep their type")
	})
}

// TestCases29And31: policies by queue type, and one that changes under its name; read back
// at once (21).
func TestCases29And31(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		byType := onVHost(t, vhost, "policies: {p: {pattern: ^x$, apply_to: quorum_queues, definition: {max-length: 1}}}")
		if b.AtLeast("4.0") {
			wantPlan(t, b, 2, byType, []string{"create policy/p"})
		} else {
			api := brokertest.HTTPProxy(t, b, nil)
			r := runCommand(t, environmentAt(api.URL, b), "apply", "--yes", byType)
			r.want(t, 3)
			if w := api.Writes(); len(w) > 0 || !strings.Contains(r.err, "policy-apply-to") {
				t.Errorf("written %v\n%s", w, r.err)
			}
		}
		makeRaw(t, b, vhost, [2]string{"policies/p", `{"pattern":"^prefix_","definition":{"max-length":5}}`}, [2]string{"queues/prefix_1", `{"durable":true}`})
		for _, change := range []string{
			`pattern: "^/", definition: {max-length: 5}`, `pattern: "^/", apply_to: queues, definition: {max-length: 5}`,
			`pattern: "^/", apply_to: queues, priority: 3, definition: {max-length: 5}`,
			`pattern: "^/", apply_to: queues, priority: 3, definition: {max-length: 5, overflow: reject-publish}`,
		} {
			spec := onVHost(t, vhost, "policies: {p: {"+change+"}}")
			wantPlan(t, b, 2, spec, []string{"update policy/p"})
			runWith(t, b, "apply", "--yes", spec).want(t, 0)
			secondPlanIsEmpty(t, b, spec)
		}
	})
}

// TestCase34: a value that an operator tightens is a note, not a change and no error;
// one that decides over messages is blocked.
func TestCase34(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		makeRaw(t, b, vhost,
			[2]string{"operator-policies/op", `{"pattern":"^q$","apply-to":"queues","definition":{"max-length":500}}`},
			[2]string{"operator-policies/low", `{"pattern":"^payouts$","apply-to":"queues","definition":{"delivery-limit":2}}`},
		)
		spec := onVHost(t, vhost, "queues: {q: {type: classic, settings_by: arguments, max_length: 1000, loses: {rejected: test, overflow: test}}}")
		wantPlan(t, b, 2, spec, []string{"create queue/q"}, "is declared as 1000, in effect will be 500", `operator policy "op"`)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		secondPlanIsEmpty(t, b, spec)
		spec = onVHost(t, vhost, "queues: {payouts: {type: quorum, retry: {max_attempts: 5}, dead_letter: dead}, dead: {"+owned+"}}")
		wantPlan(t, b, 4, spec, []string{"create policy/rabbitctl:payouts blocked", "create queue/dead", "create queue/payouts blocked"}, "is declared as 4, in effect will be 2")
	})
}

// TestCase38: an external dead-letter exchange is looked for.
func TestCase38(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "exchanges: {theirs: {type: fanout, external: true}}\nqueues: {q: {type: classic, settings_by: arguments, dead_letter: {exchange: theirs}}}")
		wantPlan(t, b, 4, spec, []string{"create exchange/theirs blocked", "create queue/q"}, "is external and does not exist")
		runWith(t, b, "apply", "--yes", "--skip-blocked", spec).want(t, 4)
		if b.HasQueue(t, vhost, "q") {
			t.Error("q was made with a dead-letter route to nowhere")
		}
		b.DeclareExchange(t, vhost, "theirs", "fanout", nil)
		wantPlan(t, b, 2, spec, []string{"create queue/q"})
	})
}

// TestCases46And48: what older brokers take and do not do is blocked.
func TestCases46And48(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := func(q string) string {
			return onVHost(t, vhost, "queues: {q: {type: quorum, "+q+", dead_letter: d}, d: {"+owned+"}}")
		}
		unlimited, delayed := spec("settings_by: arguments, arguments: {x-delivery-limit: -1}"), spec("settings_by: arguments, arguments: {x-delayed-retry-type: all, x-delayed-retry-min: 1000}")
		refused := func(spec, code string) {
			t.Helper()
			r := runWith(t, b, "apply", "--yes", spec)
			r.want(t, 3)
			if !strings.Contains(r.err, code) || b.HasQueue(t, vhost, "d") {
				t.Errorf("apply:\n%s%s", r.out, r.err)
			}
		}
		if b.AtLeast("4.0") {
			wantPlan(t, b, 2, unlimited, []string{"create queue/d", "create queue/q"})
		} else {
			refused(unlimited, "unlimited-limit-before-4")
		}
		if b.AtLeast("4.3") {
			wantPlan(t, b, 2, delayed, []string{"create queue/d", "create queue/q"})
		} else {
			refused(delayed, "argument-without-effect")
			refused(spec("delayed_retry: {type: all, min: 1s}"), "setting-not-for-version")
		}
		// Without a version in the spec, auto makes wait queues everywhere; unlimited is left out where it means 0.
		auto := onVHost(t, vhost, "queues:\n  q: {type: quorum, retry: {max_attempts: 3, delays: [1s]}, dead_letter: d}\n  u: {type: quorum, delivery_limit: unlimited, settings_by: arguments, dead_letter: d}\n  d: {"+owned+"}")
		runWith(t, b, "apply", "--yes", auto).want(t, 0)
		if queueArguments(t, b, vhost, "q.retry")["x-message-ttl"] != 1000.0 {
			t.Error("q.retry has no TTL")
		}
		if _, set := queueArguments(t, b, vhost, "u")["x-delivery-limit"]; set != b.AtLeast("4.0") {
			t.Errorf("x-delivery-limit on u: %v", set)
		}
		secondPlanIsEmpty(t, b, auto)
	})
}

// TestCase61: an exchange that was deleted by hand took its bindings along.
func TestCase61(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "exchanges: {x: {type: topic}}\nqueues: {q: {type: classic, bindings: [{exchange: x, routing_key: a}]}}")
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if status, body := b.Do(t, http.MethodDelete, brokertest.Path("exchanges", vhost, "x"), nil); status != 204 {
			t.Fatalf("%d %s", status, body)
		}
		wantPlan(t, b, 2, spec, []string{"create exchange/x", "create binding/x => queue q [a]"})
	})
}

// TestCaseH8: a type of a plugin is read as what it is.
func TestCaseH8(t *testing.T) {
	b := &brokertest.StartNode(t, "4.3", "--plugins", "rabbitmq_consistent_hash_exchange").Broker
	vhost := b.VirtualHost(t)
	const text = "exchanges: {hash: {type: %s}}\nqueues:\n  s: {type: stream, settings_by: arguments, max_age: 1D}\n  q: {type: classic, bindings: [{exchange: hash, routing_key: \"1\"}]}"
	spec := onVHost(t, vhost, fmt.Sprintf(text, "x-consistent-hash, hash_header: id"))
	runWith(t, b, "apply", "--yes", spec).want(t, 0)
	secondPlanIsEmpty(t, b, spec)
	wantPlan(t, b, 4, onVHost(t, vhost, fmt.Sprintf(text, "direct")), []string{"replace exchange/hash blocked"}, `type: "x-consistent-hash" -> "direct"`)
	wantPlan(t, b, 4, onVHost(t, vhost, "queues: {s: {type: classic}}"), []string{"replace queue/s blocked"})
}

// TestCaseH12: pending changes have an exit status of their own, and a reviewed plan
// is not carried out on a broker that moved since.
func TestCaseH12(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		const text = "queues: {q: {type: quorum, retry: {max_attempts: %d}, dead_letter: d}, d: {" + owned + "}}"
		runWith(t, b, "apply", "--yes", onVHost(t, vhost, fmt.Sprintf(text, 5))).want(t, 0)
		file := t.TempDir() + "/plan.json"
		runWith(t, b, "plan", "--detailed-exitcode", "--out", file, onVHost(t, vhost, fmt.Sprintf(text, 7))).want(t, 2)
		const foreign = `{"pattern":"^q$","apply-to":"queues","priority":1000,"definition":{"delivery-limit":9}}`
		makeRaw(t, b, vhost, [2]string{"policies/rabbitctl:q", foreign})
		r := runWith(t, b, "apply", "--yes", file)
		r.want(t, 4)
		if !strings.Contains(r.err, "stale") || !strings.Contains(r.err, `policy "rabbitctl:q"`) {
			t.Errorf("apply:\n%s", r.err)
		}
		if limit := livePolicies(t, b, vhost)["rabbitctl:q"]["delivery-limit"]; limit != 9.0 {
			t.Errorf("the limit is %v", limit)
		}
	})
}

// TestExternalDeadLetterExchange holds case 38 and row C12 on a live broker: the
// bindings of an exchange that others make are theirs, and are looked at.
func TestExternalDeadLetterExchange(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareExchange(t, vhost, "dlx", "direct", nil)
		b.DeclareQueue(t, vhost, "d", nil)
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nexchanges: {dlx: {type: direct, external: true}}\n"+
			"queues: {w: {type: classic, dead_letter: {exchange: dlx, routing_key: d}}, d: {external: true}}\n", vhost))
		r := runWith(t, b, "apply", "--yes", spec)
		r.want(t, 3)
		if !strings.Contains(r.err, "dead-letter-unroutable") || b.HasQueue(t, vhost, "w") {
			t.Errorf("an unbound dead-letter exchange of others:\n%s", r.err)
		}
		b.Bind(t, vhost, "dlx", "d", "d", nil)
		r = runWith(t, b, "apply", "--yes", spec)
		r.want(t, 0)
		if strings.Contains(r.err, "dead-letter-unroutable") {
			t.Errorf("bound by others:\n%s", r.err)
		}
	})
}
