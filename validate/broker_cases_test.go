package validate

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// refusedCases: what brokers refuse is an error offline (row A37).
func refusedCases() []brokerCase {
	const (
		value   = "argument-value"
		forType = "argument-not-for-type"
	)
	one := func(code, name string, answer int, t topology.QueueType, key string, v any) brokerCase {
		return all(code, name, answer, q(t, args{key: v}))
	}
	return []brokerCase{
		all("queue-not-durable", "quorum not durable", 406, flagged(quorum, false, false)),
		all("queue-not-durable", "quorum auto-delete", 406, flagged(quorum, true, true)),
		all("queue-not-durable", "stream not durable", 406, flagged(stream, false, false)),
		all("queue-not-durable", "stream auto-delete", 406, flagged(stream, true, true)),
		all("queue-not-durable", "classic", right, flagged(classic, false, true)),

		one(forType, "priority on quorum", 406, quorum, "x-max-priority", int64(5)),
		one(forType, "priority on stream", 406, stream, "x-max-priority", int64(5)),
		one(forType, "mode on quorum", 406, quorum, "x-queue-mode", "lazy"),
		one(forType, "limit on classic", 406, classic, "x-delivery-limit", int64(5)),
		one(forType, "limit on stream", 406, stream, "x-delivery-limit", int64(5)),
		one(forType, "strategy on classic", 406, classic, "x-dead-letter-strategy", "at-least-once"),
		one(forType, "route on stream", 406, stream, "x-dead-letter-exchange", "d"),
		one(forType, "TTL on stream", 406, stream, "x-message-ttl", int64(1000)),
		one(forType, "expires on stream", 406, stream, "x-expires", int64(1000)),
		one(forType, "overflow on stream", 406, stream, "x-overflow", "drop-head"),
		one(forType, "single consumer on stream", 406, stream, "x-single-active-consumer", true),
		one(forType, "age on quorum", 406, quorum, "x-max-age", "1D"),
		one(forType, "age on classic", 406, classic, "x-max-age", "1D"),
		one(forType, "segments on classic", 406, classic, "x-stream-max-segment-size-bytes", int64(1000)),
		one(forType, "group size on classic", 406, classic, "x-quorum-initial-group-size", int64(1)),
		one(forType, "in memory on classic", 406, classic, "x-max-in-memory-length", int64(1)),
		one(forType, "cluster size on quorum", 406, quorum, "x-initial-cluster-size", int64(1)),
		by(forType, "leader locator on classic", 406, right, right, q(classic, args{"x-queue-leader-locator": "balanced"})),
		by(forType, "master locator", right, right, 541, q(classic, args{"x-queue-master-locator": "min-masters"})),
		by(forType, "consumer timeout on classic", right, right, 406, q(classic, args{"x-consumer-timeout": int64(60000)})),
		by(forType, "delayed retry on classic", right, right, 406, q(classic, args{"x-delayed-retry-min": int64(60000)})),

		one(value, "TTL as text", 406, classic, "x-message-ttl", "1000"),
		one(value, "TTL as float", 406, quorum, "x-message-ttl", 1000.5),
		one(value, "negative TTL", 406, classic, "x-message-ttl", int64(-1)),
		one(value, "TTL over ten years", 406, classic, "x-message-ttl", int64(315360000001)),
		one(value, "TTL of ten years", right, classic, "x-message-ttl", int64(315360000000)),
		one(value, "TTL 0", right, classic, "x-message-ttl", int64(0)),
		one(value, "expires 0", 406, quorum, "x-expires", int64(0)),
		one(value, "negative length", 406, classic, "x-max-length", int64(-1)),
		one(value, "length as boolean", 406, quorum, "x-max-length", true),
		one(value, "length 0", right, quorum, "x-max-length", int64(0)),
		one(value, "unknown overflow", 406, classic, "x-overflow", "drop-tail"),
		one(value, "overflow as number", 406, classic, "x-overflow", int64(1)),
		one(value, "priority 256", 406, classic, "x-max-priority", int64(256)),
		one(value, "priority 255", right, classic, "x-max-priority", int64(255)),
		one(value, "single consumer as text", 406, quorum, "x-single-active-consumer", "true"),
		one(value, "unknown strategy", 406, quorum, "x-dead-letter-strategy", "twice"),
		one(value, "exchange as number", 406, classic, "x-dead-letter-exchange", int64(1)),
		one(value, "unknown locator", 406, quorum, "x-queue-leader-locator", "nearest"),
		one(value, "group size 0", 406, quorum, "x-quorum-initial-group-size", int64(0)),
		one(value, "age in weeks", 406, stream, "x-max-age", "1W"),
		one(value, "age without unit", 406, stream, "x-max-age", "10"),
		one(value, "age 0", 406, stream, "x-max-age", "0s"),
		one(value, "segment too large", 406, stream, "x-stream-max-segment-size-bytes", int64(1)<<32),
		one(value, "cluster size 0", 406, stream, "x-initial-cluster-size", int64(0)),
		by(value, "age is no age", 541, 541, 406, q(stream, args{"x-max-age": "bogus"})),
		by(value, "filter too small", taken, 406, 406, q(stream, args{"x-stream-filter-size-bytes": int64(5)})),
		by(value, "queue version 1", right, right, 406, q(classic, args{"x-queue-version": int64(1)})),
		by(value, "queue version 3", 406, 406, 406, q(classic, args{"x-queue-version": int64(3)})),
		by(value, "unknown mode", 406, 406, taken, q(classic, args{"x-queue-mode": "bogus"})),
		by(value, "unknown master locator", 541, taken, 541, q(classic, args{"x-queue-master-locator": "bogus"})).onlyBefore43(),
		all(value, "alternate exchange as number", 406, x("e", "topic", args{"alternate-exchange": int64(1)})),

		all("routing-key-but-no-dlx", "key alone", 406, q(classic, args{"x-dead-letter-routing-key": "dead"})),
		all("routing-key-but-no-dlx", "key alone on quorum", 406, q(quorum, args{"x-dead-letter-routing-key": "dead"})),
		all("routing-key-but-no-dlx", "exchange by policy", 406,
			policyOf("queues", "^q$", args{"dead-letter-exchange": "amq.direct"}), q(classic, args{"x-dead-letter-routing-key": "dead"})),
		all("routing-key-but-no-dlx", "both", right, dead(), q(classic, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})),

		all("reserved-name", "queue", 403, named("amq.mine", classic, nil)),
		all("reserved-name", "exchange", 403, x("amq.mine", "topic", nil)),
		all("reserved-name", "own exchange of another type", 406, x("amq.topic", "fanout", nil)),
		all("reserved-name", "own exchange as it is", right, x("amq.topic", "topic", nil)),
		all("reserved-name", "capitals", right, x("AMQ.mine", "topic", nil)),

		by("exchange-type-unknown", "no such type", 503, 406, 406, x("e", "pigeon", nil)),
		by("exchange-type-unknown", "local random", 503, right, right, x("e", "x-local-random", nil)),
		by("exchange-type-needs-plugin", "delayed", 503, 406, 406, x("e", "x-delayed-message", args{"x-delayed-type": "direct"})).as(diag.Info),
		by("exchange-type-needs-plugin", "modulus hash", 503, 406, right, x("e", "x-modulus-hash", nil)).as(diag.Info),

		all("bind-default-exchange", "from it", 403, plain(), bound("", "k", nil)),
		all("bind-default-exchange", "to it", 403, x("e", "topic", nil),
			&topology.Binding{Source: "e", Destination: "", DestinationType: topology.ToExchange}),
		all("dangling-binding", "no exchange", 404, plain(), bound("nowhere", "k", nil)),
		all("dangling-binding", "no queue", 404, x("e", "topic", nil), bound("e", "k", nil)),
		all("dangling-binding", "both there", right, plain(), x("e", "topic", nil), bound("e", "k", nil)),
		all("dangling-binding", "the broker's own exchange", right, plain(), bound("amq.topic", "k", nil)),
		all("headers-match-invalid", "unknown word", 406, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "some"})),
		all("headers-match-invalid", "a number", 406, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": int64(1)})),
		all("headers-match-invalid", "all-with-x", right, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "all-with-x", "a": "b"})),
		by("local-random-key", "key", 503, 406, 406, plain(), x("r", "x-local-random", nil), bound("r", "k", nil)).onlySince40(),
		by("local-random-destination", "quorum", 503, 406, 406, q(quorum, args{"x-delivery-limit": int64(5)}), x("r", "x-local-random", nil),
			bound("r", "", nil)).onlySince40(),
		by("local-random-destination", "stream", 503, 406, 406, q(stream, nil), x("r", "x-local-random", nil), bound("r", "", nil)).onlySince40(),
		by("local-random-destination", "exchange", 503, 406, 406, x("e", "fanout", nil), x("r", "x-local-random", nil),
			toExchange("r", "e", "")).onlySince40(),
		by("local-random-destination", "classic", 503, right, right, plain(), x("r", "x-local-random", nil), bound("r", "", nil)).onlySince40(),
		by("local-random-key", "no key", 503, right, right, plain(), x("r", "x-local-random", nil), bound("r", "", nil)).onlySince40(),
	}
}

// acceptedCases: what brokers take and do not do is found all the same (row A38).
func acceptedCases() []brokerCase {
	warning := diag.Warning
	atLeastOnce := args{"x-dead-letter-strategy": "at-least-once", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
	with := func(a args, k string, v any) args {
		c := a.Clone()
		c[k] = v
		return c
	}
	return []brokerCase{
		all("unknown-argument", "misspelt", taken, q(quorum, args{"x-delivery-limt": int64(5)})),
		all("unknown-argument", "without x-", taken, q(classic, args{"max-length": int64(1)})),
		all("unknown-argument", "on a stream", taken, q(stream, args{"x-foo": "bar"})),
		all("unknown-argument", "of an exchange", taken, x("e", "topic", args{"x-alternate-exchange": "f"})),
		all("argument-without-effect", "alternate exchange of a queue", taken, q(classic, args{"alternate-exchange": "f"})),
		all("argument-without-effect", "header of a topic exchange", taken, x("e", "topic", args{"hash-header": "f"})),
		by("argument-without-effect", "delayed retry", taken, taken, right, q(quorum, args{"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(1000)})),
		all("argument-value", "limit as text", taken, q(quorum, args{"x-delivery-limit": "5"})),
		all("argument-value", "limit as float", taken, q(quorum, args{"x-delivery-limit": 5.5})),
		by("argument-value", "delayed retry type", taken, taken, taken, q(quorum, args{"x-delayed-retry-type": "bogus"})),
		by("delayed-retry-incomplete", "no minimum", taken, taken, taken, q(quorum, args{"x-delayed-retry-type": "all"})),
		by("deprecated-setting", "lazy", right, taken, taken, q(classic, args{"x-queue-mode": "lazy"})).as(warning),
		by("unlimited-limit-before-4", "-1", taken, right, right, q(quorum, args{"x-delivery-limit": int64(-1)})),
		all("reject-publish-dlx-on-quorum", "quorum", taken, q(quorum, args{"x-max-length": int64(1), "x-overflow": "reject-publish-dlx"})),
		all("reject-publish-dlx-on-quorum", "classic", right, q(classic, args{"x-max-length": int64(1), "x-overflow": "reject-publish-dlx"})),
		all("at-least-once-incomplete", "no overflow", taken, dead(), q(quorum, atLeastOnce)),
		all("at-least-once-incomplete", "drop-head", taken, dead(), q(quorum, with(atLeastOnce, "x-overflow", "drop-head"))),
		all("at-least-once-incomplete", "no exchange", taken, q(quorum, args{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"})),
		all("at-least-once-incomplete", "complete", right, dead(), q(quorum, with(atLeastOnce, "x-overflow", "reject-publish"))),
		all("cap-without-dead-letter", "limit alone", taken, q(quorum, args{"x-delivery-limit": int64(5)})),
		by("quorum-default-limit-without-dlx", "bare", right, taken, taken, q(quorum, nil)).as(warning),
		all("dead-letters-to-itself", "by name", taken, q(classic, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})),
		all("dead-letters-to-itself", "without a key", taken, q(classic, args{"x-dead-letter-exchange": ""})),
		all("dead-letter-exchange-missing", "missing", taken, q(classic, args{"x-dead-letter-exchange": "nope"})),
		all("dead-letter-queue-missing", "missing", taken, q(quorum, args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nobody"})),
		all("dead-letter-unroutable", "wrong key", taken, x("d", "direct", nil), dead(),
			&topology.Binding{Source: "d", Destination: "dead", DestinationType: topology.ToQueue, RoutingKey: "dead"},
			q(classic, args{"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "ded"})),
		all("alternate-exchange-missing", "missing", taken, x("e", "topic", args{"alternate-exchange": "nope"})),
		all("alternate-exchange-missing", "itself", taken, x("e", "topic", args{"alternate-exchange": "e"})),
		all("x-match-ignores-x-headers", "all", taken, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "all", "x-opt-reason": "a"})),
		all("x-match-ignores-x-headers", "any", taken, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "any", "x-opt-reason": "a"})),
		all("x-match-ignores-x-headers", "all-with-x", right, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "all-with-x", "x-opt-reason": "a"})),
		all("headers-binding-empty", "any", taken, plain(), x("h", "headers", nil), bound("h", "", args{"x-match": "any"})),
		all("binding-arguments-ignored", "topic", taken, plain(), x("e", "topic", nil), bound("e", "k", args{"a": "b"})).as(warning),
		all("transient-queue", "shared", taken, flagged(classic, false, false)).as(warning),
		all("transient-exchange", "exchange", taken, &topology.Exchange{Name: "e", Type: "topic"}).as(warning),
	}
}

// policyCases: policies are checked by the broker, and what it refuses is an
// error offline.
func policyCases() []brokerCase {
	definition := func(code, name string, v310, v40, v43 int, key string, v any) brokerCase {
		return by(code, name, v310, v40, v43, policyOf("queues", "^q$", args{key: v}))
	}
	// Mirroring is gone since 4.0: another rule says so.
	mirrored := func(name string, answer int, a args) brokerCase {
		return by("policy-keys-together", name, answer, leftOut, leftOut, policyOf("queues", "^q$", a))
	}
	const unknown, value = "policy-key-unknown", "policy-value"
	return []brokerCase{
		definition(unknown, "x- in front", 400, 400, 400, "x-max-length", int64(1)),
		definition(unknown, "misspelt", 400, 400, 400, "max-lenght", int64(1)),
		definition(unknown, "only an argument", 400, 400, 400, "max-priority", int64(1)),
		definition(unknown, "single consumer", 400, 400, 400, "single-active-consumer", true),
		definition(unknown, "mirroring", right, 400, 400, "ha-mode", "all"),
		definition(unknown, "consumer timeout", 400, right, right, "consumer-timeout", int64(60000)),
		definition(unknown, "delayed retry", 400, 400, right, "delayed-retry-min", int64(60000)),
		definition(unknown, "master locator", right, right, 400, "queue-master-locator", "min-masters"),
		definition(unknown, "group size", 400, right, right, "target-group-size", int64(3)),
		by(unknown, "route in an operator policy", 400, 400, 400, operator(args{"dead-letter-exchange": "d"})),
		by(unknown, "overflow in an operator policy", 400, right, right, operator(args{"overflow": "drop-head"})),
		by(unknown, "length in an operator policy", right, right, right, operator(args{"max-length": int64(1)})),

		definition(value, "length as text", 400, 400, 400, "max-length", "100"),
		definition(value, "length", right, right, right, "max-length", int64(100)),
		definition(value, "negative TTL", 400, 400, 400, "message-ttl", int64(-1)),
		definition(value, "expires 0", 400, 400, 400, "expires", int64(0)),
		definition(value, "unknown overflow", 400, 400, 400, "overflow", "drop-tail"),
		definition(value, "unknown strategy", 400, 400, 400, "dead-letter-strategy", "twice"),
		definition(value, "exchange as number", 400, 400, 400, "dead-letter-exchange", int64(1)),
		definition(value, "unlimited", 400, right, right, "delivery-limit", int64(-1)),
		definition(value, "age is no age", 500, 500, 400, "max-age", "bogus"),
		definition(value, "version 3", 400, 400, 400, "queue-version", int64(3)),

		by("policy-apply-to", "no such thing", 400, 400, 400, policyOf("exchange", "^q$", args{"max-length": int64(1)})),
		by("policy-apply-to", "one type", 400, right, right, policyOf("quorum_queues", "^q$", args{"max-length": int64(1)})),
		by("policy-apply-to", "queues", right, right, right, policyOf("queues", "^q$", args{"max-length": int64(1)})),
		by("policy-pattern", "open parenthesis", 400, 400, 400, policyOf("queues", "^(q", args{"max-length": int64(1)})),
		by("policy-pattern", "open bracket", 400, 400, 400, policyOf("queues", "[q", args{"max-length": int64(1)})),
		by("policy-pattern", "closing parenthesis", 400, 400, 400, policyOf("queues", "q)", args{"max-length": int64(1)})),
		by("policy-pattern", "star", 400, 400, 400, policyOf("queues", "*", args{"max-length": int64(1)})),
		by("policy-pattern", "trailing backslash", 400, 400, 400, policyOf("queues", `q\`, args{"max-length": int64(1)})),
		by("policy-pattern", "range", 400, 400, 400, policyOf("queues", "[z-a]", args{"max-length": int64(1)})),
		by("policy-pattern", "1025 bytes", right, right, 400, policyOf("queues", strings.Repeat("q", 1025), args{"max-length": int64(1)})),
		by("policy-pattern", "1024 bytes", right, right, right, policyOf("queues", strings.Repeat("q", 1024), args{"max-length": int64(1)})),
		by("policy-pattern", "lookahead", right, right, right, policyOf("queues", "^(?!a)q", args{"max-length": int64(1)})),
		mirrored("nothing but ha-params", 400, args{"ha-params": int64(2)}),
		mirrored("nothing but ha-sync-mode", 400, args{"ha-sync-mode": "automatic"}),
		mirrored("exactly none", 400, args{"ha-mode": "exactly"}),
		mirrored("exactly 0", 400, args{"ha-mode": "exactly", "ha-params": int64(0)}),
		mirrored("exactly 1", right, args{"ha-mode": "exactly", "ha-params": int64(1)}),
		mirrored("all with params", 400, args{"ha-mode": "all", "ha-params": int64(2)}),
		mirrored("all", right, args{"ha-mode": "all", "ha-sync-mode": "automatic"}),
		mirrored("nodes none", 400, args{"ha-mode": "nodes"}),
		mirrored("nodes a number", 400, args{"ha-mode": "nodes", "ha-params": int64(2)}),
		mirrored("nodes empty", 400, args{"ha-mode": "nodes", "ha-params": []any{}}),
		mirrored("nodes", right, args{"ha-mode": "nodes", "ha-params": []any{"rabbit@a"}}),
		by("policy-keys-together", "upstream and set", 400, 400, 400,
			policyOf("exchanges", "^q$", args{"federation-upstream": "u", "federation-upstream-set": "all"})),
		by("policy-keys-together", "key of shards", 400, 400, 400, policyOf("exchanges", "^q$", args{"routing-key": "1"})),
		by("policy-needs-plugin", "federation", 400, 400, 400, policyOf("exchanges", "^q$", args{"federation-upstream-set": "all"})).as(diag.Info),
		by("policy-needs-plugin", "shards", 400, 400, 400, policyOf("exchanges", "^q$", args{"shards-per-node": int64(2)})).as(diag.Info),
		by("policy-empty", "empty", 400, 400, 400, policyOf("queues", "^q$", args{})),
		by("delayed-retry-incomplete", "no minimum", 400, 400, 400, policyOf("queues", "^q$", args{"delayed-retry-type": "all"})),
		by("delayed-retry-incomplete", "crossed", 400, 400, 400,
			policyOf("queues", "^q$", args{"delayed-retry-type": "all", "delayed-retry-min": int64(500), "delayed-retry-max": int64(200)})),
		by("policy-matches-no-type", "mixed", taken, taken, taken, policyOf("queues", "^q$", args{"max-age": "1D", "message-ttl": int64(1000)})),
	}
}
