package command_test

// keepsAll is a contract that promises everything, with failures kept in "dead".
const keepsAll = "contract: {publisher_may_retry: true, survives: restart, redelivered_after_crash: true, after_failure: {queue: dead, owner: team}}"

// flowCases are the cases and behaviours about where messages go.
var flowCases = []offlineCase{
	{
		name: "A4 a drop without a dead-letter route",
		spec: "queues:\n  q: {type: classic, " + keepsAll + "}\n  dead: {" + owned + "}",
		want: []string{"error 3 drop-is-loss"}, says: []string{`its contract promises rejected messages to "dead"`},
	},
	{
		name: "A4 a drop into an exchange that is not there",
		spec: "queues:\n  q: {type: classic, retry: {max_attempts: 5}, dead_letter: {exchange: nope, routing_key: dead}}\n  dead: {" + owned + "}",
		want: []string{"error 3 dead-letter-exchange-missing"}, says: []string{`"nope"`},
	},
	{
		name: "A19 a cap on a classic queue",
		spec: "queues:\n  q: {type: classic, retry: {max_attempts: 3}, dead_letter: dead}\n  dead: {" + owned + "}",
		want: []string{"warning 3 classic-cap-does-not-count-crashes"},
	},
	{
		name: "A27 what a wait queue must not have",
		spec: "queues:\n  q: {type: classic, retry: {max_attempts: 3, delays: [30s]}, dead_letter: dead}\n  q.retry:\n    type: classic\n" +
			"    expires: 1h\n    max_length: 5\n  dead: {" + owned + "}",
		want: []string{"error 6 wait-queue-expires", "error 7 wait-queue-bounded"},
	},
	{
		name: "A27 a wait queue that gives back too early",
		spec: "queues:\n  q: {type: classic, retry: {max_attempts: 3, delays: [{delay: 30s, queue: w}]}, dead_letter: dead}\n" +
			"  w: {type: classic, role: wait, message_ttl: 5s, dead_letter: q}\n  dead: {" + owned + "}",
		want: []string{"error 4 wait-queue-ttl-shorter"}, says: []string{"after 5000 ms", "30s"},
	},
	{
		name: "A28 delayed retry on 4.0", args: []string{"--rabbitmq", "4.0"},
		spec: "queues:\n  q: {type: quorum, delayed_retry: {type: failed, min: 700ms, max: 2s}, retry: {max_attempts: 5}, dead_letter: dead}\n  dead: {" + owned + "}",
		want: []string{"error 3 setting-not-for-version"},
	},
	{
		name: "A28 delayed retry on 4.3", args: []string{"--rabbitmq", "4.3", "--from", "4.3"},
		spec: "queues:\n  q: {type: quorum, delayed_retry: {type: failed, min: 700ms, max: 2s}, retry: {max_attempts: 5}, dead_letter: dead}\n  dead: {" + owned + "}",
	},
	{
		name: "A38 one mistake with overflow is one error",
		spec: "queues:\n  q: {type: quorum, max_length: 10, overflow: reject-publish-dlx, retry: {max_attempts: 3}, dead_letter: {queue: dead, strategy: at-least-once}}\n" +
			"  r: {type: quorum, max_length: 10, overflow: reject-publish-dlx, retry: {max_attempts: 3}, dead_letter: {queue: dead, strategy: at-most-once}}\n  dead: {" + owned + "}",
		want: []string{"error 3 setting-contradiction", "error 4 reject-publish-dlx-on-quorum"},
	},
	{
		name: "A38 mirroring is one mistake", args: []string{"--rabbitmq", "4.3", "--from", "4.0"},
		spec: "policies:\n  p: {pattern: ^nobody$, apply_to: queues, definition: {ha-mode: exactly, ha-params: 2, ha-sync-mode: automatic}}",
		want: []string{"error 3 policy-key-unknown"}, says: []string{"ha-mode, ha-params and ha-sync-mode"},
	},
	{
		name: "C21 the reject cycle cannot do better than at most once",
		spec: "queues:\n  q: {type: quorum, retry: {max_attempts: 3, delays: [30s], mechanism: reject-cycle}, dead_letter: dead}\n  dead: {" + owned + "}",
	},
	{
		name: "A39 and case 35: TTL and TTL",
		spec: "queues:\n  c1: {type: classic, message_ttl: 300ms, dead_letter: c2}\n  c2: {type: classic, message_ttl: 300ms, dead_letter: c1}",
		want: []string{"error 3 ttl-cycle-loses"},
	},
	{
		name: "B8 categories with their queues and owners",
		spec: "queues:\n  q:\n    type: quorum\n    retry: {max_attempts: 3}\n    dead_letter:\n      strategy: at-least-once\n      categories:\n" +
			"        routes:\n          transient: {queue: t, type: quorum, owner: platform, replay: automatic}\n" +
			"          business: {queue: b, type: quorum, owner: sales, replay: manual}\n        otherwise: {queue: rest, type: stream, owner: platform}",
	},
	{
		name: "B3 a category header that AMQP 1.0 refuses",
		spec: "queues:\n  q:\n    type: quorum\n    retry: {max_attempts: 3}\n    dead_letter:\n      method: modified\n      categories:\n        header: category\n" +
			"        routes: {business: {queue: b, type: quorum, owner: sales}}\n        otherwise: {queue: rest, type: quorum, owner: platform}",
		want: []string{"error 9 category-header-prefix"},
	},
	{
		name: "C3 keys that nothing takes",
		spec: "exchanges: {orders: {type: direct}}\nqueues:\n  q: {type: classic, bindings: [{exchange: orders, routing_key: a}], dead_letter: dead, " + keepsAll + "}\n  dead: {" + owned + "}",
		want: []string{"warning 2 unroutable-unguarded"}, says: []string{"mandatory"},
	},
	{
		name: "C3 publishers that hear of it",
		spec: "exchanges: {orders: {type: direct}}\npublishers: {shop: {exchange: orders, routing_keys: [a, b], mandatory: true}}\nqueues:\n" +
			"  q: {type: classic, bindings: [{exchange: orders, routing_keys: [a, b]}], dead_letter: dead, " + keepsAll + "}\n  dead: {" + owned + "}",
	},
	{
		name: "C4 drop-head without a route on a contract queue",
		spec: "queues:\n  q: {type: classic, max_length: 10, contract: {publisher_may_retry: true, survives: restart, redelivered_after_crash: true, after_failure: {queue: dead, owner: team}}}\n" +
			"  dead: {" + owned + "}",
		want: []string{"warning 3 drops-silently", "error 3 drop-is-loss"}, says: []string{"deletes its oldest when it is full"},
	},
	{
		name: "C14 a classic queue that must survive a node",
		spec: "queues:\n  q: {type: classic, dead_letter: dead, contract: {survives: node-loss}}\n  dead: {role: dead-letter, type: quorum, owner: team}",
		want: []string{"error 3 not-node-loss-safe"},
	},
	{
		name: "C22 no question may be left open", args: []string{"--strict"},
		spec: "queues:\n" +
			"  a: {type: classic, dead_letter: dead, contract: {survives: restart, redelivered_after_crash: true, after_failure: {queue: dead, owner: team}}}\n" +
			"  b: {type: classic, dead_letter: dead, contract: {publisher_may_retry: true, redelivered_after_crash: true, after_failure: {queue: dead, owner: team}}}\n" +
			"  c: {type: classic, dead_letter: dead, contract: {publisher_may_retry: true, survives: restart, after_failure: {queue: dead, owner: team}}}\n" +
			"  d: {type: classic, dead_letter: dead, contract: {publisher_may_retry: true, survives: restart, redelivered_after_crash: true}}\n" +
			"  e: {type: classic, dead_letter: dead, contract: none}\n  f: {type: classic, dead_letter: dead}\n  dead: {" + owned + "}",
		want: []string{
			"error 3 contract-incomplete", "error 4 contract-incomplete", "error 5 contract-incomplete", "error 6 contract-incomplete",
			"error 7 contract-incomplete", "error 8 contract-incomplete",
		},
		says: []string{"publisher_may_retry", "survives", "redelivered_after_crash", "after_failure", "gives no reason"},
	},
	{
		name: "C22 a transient queue that promises nothing to survive",
		spec: "queues: {cache: {type: classic, durable: false, auto_delete: true, loses: {rejected: stale}, contract: {survives: nothing, publisher_may_retry: true, redelivered_after_crash: false}}}",
	},
	{
		name: "C23 a dead-letter queue that nobody owns", args: []string{"--strict"},
		spec: "queues: {dead: {role: dead-letter, type: classic}}", want: []string{"error 2 dead-letter-queue-without-owner"},
	},
	{
		name: "C23 a contract that the topology does not keep",
		spec: "queues:\n  q: {type: classic, dead_letter: other, " + keepsAll + "}\n  dead: {" + owned + "}\n  other: {" + owned + "}",
		want: []string{"error 3 contract-not-kept"}, says: []string{`"other"`, `"dead"`},
	},
	{
		name: "case 27: a pattern without anchors",
		spec: "queues: {orders: {type: classic}, orders.debug: {external: true}, my-orders: {external: true}}\npolicies:\n  cap: {pattern: orders, definition: {max-length: 1}}",
		want: []string{"warning 4 policy-not-anchored"}, says: []string{"matches 3 objects", "2 not in the spec", "^orders$"},
	},
	{
		name: "case 42: a dead-letter queue with reject-publish",
		spec: "queues:\n  a: {type: quorum, retry: {max_attempts: 3}, dead_letter: dlq}\n  dlq: {type: quorum, role: dead-letter, owner: team, max_length: 10, overflow: reject-publish}",
		want: []string{"warning 4 reject-publish-and-dead-letters"},
	},
	{
		name: "case 44: a wait queue without a TTL",
		spec: "queues:\n  work: {type: classic, loses: {rejected: test}}\n  wait: {role: wait, type: classic, dead_letter: work}",
		want: []string{"error 4 wait-queue-without-ttl"},
	},
	{
		name: "case 49: the delayed exchange",
		spec: "exchanges: {d: {type: x-delayed-message, delayed_type: direct}}",
		want: []string{"info 2 exchange-type-needs-plugin"},
	},
}
