package command_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// offlineCase is a spec that validate judges without a broker. want lists findings
// as "SEVERITY LINE CODE"; others may be there too, but no error where want has
// none. says are words of the findings.
type offlineCase struct {
	name string
	spec string // after version: 1, so that it begins at line 2
	args []string
	want []string
	says []string
}

const owned = "role: dead-letter, type: classic, owner: team"

// offlineCases are the public cases (numbers) and required behaviours (letters)
// that need no broker to be found. What brokers do with the same objects is held in
// the packages validate and specs.
var offlineCases = []offlineCase{
	{
		name: "A16 dead-letter queue that nobody declares",
		spec: "queues: {refunds: {type: classic, retry: {max_attempts: 5}, dead_letter: refunds.dead}}",
		want: []string{"error 2 dead-letter-queue-missing"}, says: []string{`"refunds.dead"`},
	},
	{
		name: "A16 dead-letter queue of somebody else",
		spec: "queues: {refunds: {type: classic, retry: {max_attempts: 5}, dead_letter: refunds.dead}, refunds.dead: {external: true}}",
	},
	{
		name: "A24 two delays in one wait queue",
		spec: "queues:\n  a: {type: classic, retry: {max_attempts: 5, delays: [{delay: 4s, queue: w}, {delay: 300ms, queue: w}]}, dead_letter: d}\n" +
			"  w: {type: classic, role: wait, message_ttl: 4s, dead_letter: a}\n  d: {" + owned + "}",
		want: []string{"error 3 mixed-delays"}, says: []string{"4s and 300ms"},
	},
	{
		name: "A24 one wait queue a delay",
		spec: "queues:\n  a: {type: classic, retry: {max_attempts: 5, delays: [4s, 300ms]}, dead_letter: d}\n  d: {" + owned + "}",
	},
	{
		name: "H6 delays of two queues in one wait queue without a TTL",
		spec: "queues:\n  a: {type: classic, retry: {max_attempts: 5, delays: [2s], mechanism: per-message, wait_queue: {name: w}}, dead_letter: d}\n" +
			"  b: {type: classic, retry: {max_attempts: 5, delays: [5s], mechanism: per-message, wait_queue: {name: w}}, dead_letter: d}\n  d: {" + owned + "}",
		want: []string{"error 4 mixed-delays", "error 4 generated-differs", "error 3 wait-queue-without-return"},
	},
	{
		name: "H6 several delays on messages",
		spec: "queues:\n  a: {type: classic, retry: {max_attempts: 5, delays: [2s, 5s], mechanism: per-message}, dead_letter: d}\n  d: {" + owned + "}",
		want: []string{"error 3 retry-delays"},
	},
	{
		name: "H6 hand-made wait queue without a TTL",
		spec: "queues:\n  a: {type: classic, retry: {max_attempts: 5, delays: [{delay: 2s, queue: w}]}, dead_letter: d}\n" +
			"  w: {type: classic, role: wait, dead_letter: a}\n  d: {" + owned + "}",
		want: []string{"error 4 wait-queue-without-ttl"},
	},
	{
		name: "A29 the pair and another limit",
		spec: "queues: {p: {type: quorum, retry: {max_attempts: 5}, delivery_limit: 9, dead_letter: d}, d: {" + owned + "}}",
		want: []string{"error 2 setting-contradiction"}, says: []string{"makes delivery_limit 4"},
	},
	{
		name: "A30 no attempts", spec: "queues: {p: {type: quorum, retry: {max_attempts: 0}, dead_letter: d}, d: {" + owned + "}}",
		want: []string{"error 2 wrong-value"},
	},
	{
		name: "A30 limit on a classic queue", spec: "queues: {p: {type: classic, delivery_limit: 3, dead_letter: d}, d: {" + owned + "}}",
		want: []string{"error 2 setting-not-for-type"},
	},
	{
		name: "A30 unlimited as argument for 3.x", args: []string{"--rabbitmq", "3.10"},
		spec: "queues: {p: {type: quorum, arguments: {x-delivery-limit: -1}, dead_letter: d}, d: {" + owned + "}}",
		want: []string{"error 2 unlimited-limit-before-4"},
	},
	{
		name: "A30 argument and policy",
		spec: "queues: {p: {type: quorum, delivery_limit: 5, settings_by: arguments, dead_letter: d}, d: {" + owned + "}}\n" +
			"policies: {low: {pattern: ^p$, apply_to: queues, definition: {delivery-limit: 2}}}",
		want: []string{"error 2 setting-overruled"}, says: []string{"is 2 in effect and not 5"},
	},
	{
		name: "A31 attempts without a route", spec: "queues: {p: {type: quorum, retry: {max_attempts: 1}}}",
		want: []string{"error 2 cap-without-dead-letter"}, says: []string{`"p"`, "after 1 attempt "},
	},
	{
		name: "A31 attempts of a consumer without a route", spec: "queues: {p: {type: classic, retry: {max_attempts: 3}}}",
		want: []string{"error 2 cap-without-dead-letter"},
	},
	{
		name: "A31 limit without a route", spec: "queues: {p: {type: quorum, delivery_limit: 0}}",
		want: []string{"error 2 cap-without-dead-letter"}, says: []string{"after 1 delivery"},
	},
	{
		name: "A31 route without a limit", spec: "queues: {p: {type: quorum, delivery_limit: unlimited, dead_letter: d}, d: {" + owned + "}}",
		want: []string{"warning 2 dead-letter-without-cap"}, says: []string{`"p"`},
	},
	{
		name: "A31 and case 46: the default limit of 4.x", spec: "queues: {p: {type: quorum}}",
		want: []string{"warning 2 quorum-default-limit-without-dlx"}, says: []string{"after 21 deliveries on RabbitMQ 4.0"},
	},
	{
		name: "A37 what brokers refuse",
		spec: "exchanges:\n  amq.mine: {type: topic}\nqueues:\n  a: {type: quorum, durable: false}\n  b: {type: quorum, max_priority: 5}\n" +
			"  c: {type: classic, dead_letter_strategy: at-least-once}\n  e: {type: classic, dead_letter_routing_key: z}\n" +
			"  f: {type: classic, arguments: {x-message-ttl: 5.5}}\n  g: {type: classic, bindings: [{exchange: \"\", routing_key: g}]}\n  amq.h: {type: classic}",
		want: []string{
			"error 3 reserved-name", "error 5 queue-not-durable", "error 6 setting-not-for-type", "error 7 setting-not-for-type",
			"error 8 routing-key-but-no-dlx", "error 9 argument-value", "error 10 bind-default-exchange", "error 11 reserved-name",
		},
	},
	{
		name: "A38 what brokers take silently", args: []string{"--rabbitmq", "4.0"},
		spec: "exchanges: {h: {type: headers}, gone: {type: topic, durable: false}}\nqueues:\n  a: {type: quorum, arguments: {x-delivery-limt: 5}}\n" +
			"  b: {type: quorum, max_length: 5, overflow: reject-publish-dlx}\n  c: {type: quorum, arguments: {x-delivery-limit: 5}}\n  d: {type: classic, dead_letter: d}\n" +
			"  e: {type: quorum, arguments: {x-delayed-retry-type: all, x-delayed-retry-min: 500}}\n  f: {type: classic, durable: false}\n" +
			"  g: {type: classic, bindings: [{exchange: h, match: all, arguments: {x-a: 1}}]}\n  i: {type: classic, arguments: {x-foo: 1}}\n" +
			"  j: {type: classic, arguments: {x-foo: 1}, allow_unknown_arguments: [x-foo]}",
		want: []string{
			"warning 2 transient-exchange", "error 4 unknown-argument", "error 5 reject-publish-dlx-on-quorum", "error 6 cap-without-dead-letter",
			"error 7 dead-letters-to-itself", "error 8 argument-without-effect", "warning 9 transient-queue", "error 10 x-match-ignores-x-headers", "error 11 unknown-argument",
		},
	},
	{
		name: "B2 categories on a classic queue",
		spec: "queues:\n  w:\n    type: classic\n    dead_letter:\n      categories:\n        header: x-opt-c\n" +
			"        routes: {t: {queue: t, owner: team}}\n        otherwise: {queue: o, owner: team}",
		want: []string{"error 6 category-routing-needs-quorum"},
	},
	{
		name: "B10 x-match and headers that begin with x-",
		spec: "exchanges: {h: {type: headers}}\nqueues:\n  a: {type: classic, bindings: [{exchange: h, arguments: {x-opt-c: t}}]}\n" +
			"  b: {type: classic, bindings: [{exchange: h, match: any, arguments: {x-opt-c: t}}]}\n  c: {type: classic, bindings: [{exchange: h, match: all-with-x, arguments: {x-opt-c: t}}]}",
		want: []string{"error 4 x-match-ignores-x-headers", "error 5 x-match-ignores-x-headers"}, says: []string{"Use match: all-with-x.", "Use match: any-with-x."},
	},
	{
		name: "B11 headers exchange without an else, and a contract",
		spec: "exchanges: {h: {type: headers}}\nqueues:\n  w: {type: quorum, retry: {max_attempts: 3}, dead_letter: {exchange: h}, contract: {after_failure: {queue: d, owner: team}}}\n" +
			"  d: {" + owned + ", bindings: [{exchange: h, match: all-with-x, arguments: {x-opt-c: t}}]}",
		want: []string{"error 4 dlx-without-else"},
	},
	{
		name: "B12 and case 40: at-least-once in part",
		spec: "queues:\n  a: {type: quorum, arguments: {x-dead-letter-strategy: at-least-once, x-dead-letter-exchange: \"\", x-dead-letter-routing-key: d}}\n" +
			"  b: {type: quorum, arguments: {x-dead-letter-strategy: at-least-once, x-overflow: reject-publish}}\n" +
			"  c: {type: quorum, overflow: drop-head, dead_letter: {queue: d, strategy: at-least-once}}\n" +
			"  e: {type: classic, arguments: {x-dead-letter-strategy: at-least-once}}\n  d: {" + owned + "}",
		want: []string{
			"error 3 at-least-once-incomplete", "error 4 at-least-once-incomplete", "error 5 setting-contradiction", "error 6 argument-not-for-type",
			"info 3 at-least-once-unbounded",
		},
	},
	{
		name: "B12 complete but without a length",
		spec: "queues: {a: {type: quorum, retry: {max_attempts: 3}, dead_letter: {queue: d, strategy: at-least-once}}, d: {" + owned + "}}",
		want: []string{"info 2 at-least-once-unbounded"},
	},
	{
		name: "C12 no dead-letter exchange", spec: "queues: {w: {type: classic, dead_letter: {exchange: dlx, routing_key: d}}, d: {" + owned + "}}",
		want: []string{"error 2 dead-letter-exchange-missing"},
	},
	{
		name: "C12 no binding", spec: "exchanges: {dlx: {type: direct}}\nqueues: {w: {type: classic, dead_letter: {exchange: dlx, routing_key: d}}, d: {" + owned + "}}",
		want: []string{"error 3 dead-letter-exchange-missing"}, says: []string{"has no binding"},
	},
	{
		name: "C12 another key", spec: "exchanges: {dlx: {type: direct}}\nqueues:\n  w: {type: classic, dead_letter: {exchange: dlx, routing_key: e}}\n  d: {" + owned + ", bindings: [{exchange: dlx, routing_key: d}]}",
		want: []string{"error 4 dead-letter-unroutable"},
	},
	{
		name: "C12 the messages' own keys",
		spec: "exchanges: {dlx: {type: direct}, in: {type: topic}}\nqueues:\n  w: {type: classic, dead_letter: {exchange: dlx}, bindings: [{exchange: in, routing_keys: [a, b]}]}\n" +
			"  d: {" + owned + ", bindings: [{exchange: dlx, routing_key: a}]}",
		want: []string{"warning 4 dead-letter-unroutable"}, says: []string{`"b"`},
	},
	{
		name: "C12 all four parts by one block", spec: "exchanges: {dlx: {type: direct}}\nqueues: {w: {type: classic, dead_letter: {queue: d, via: dlx}}, d: {" + owned + "}}",
	},
	{
		name: "C15 times without a unit, numbers in quotes",
		spec: "queues:\n  a: {type: classic, message_ttl: 30}\n  b: {type: classic, message_ttl: \"30\"}\n  c: {type: classic, max_length: \"5\"}\n  d: {type: classic, max_length_bytes: 5.5}",
		want: []string{"error 3 missing-unit", "error 4 missing-unit", "error 5 wrong-type", "error 6 wrong-type"},
	},
	{
		name: "C15 and case 11: an argument in quotes", spec: "queues:\n  a: {type: classic, arguments: {x-message-ttl: \"30000\"}}\n  b: {type: classic, arguments: {x-max-priority: \"10\"}}",
		want: []string{"error 3 argument-value", "error 4 argument-value"},
	},
	{
		name: "case 19: x- in a policy and none in an argument",
		spec: "queues:\n  q: {type: classic, arguments: {max-length: 1}}\npolicies:\n  p:\n    pattern: ^q$\n    definition:\n      x-max-length: 1000",
		want: []string{"error 3 unknown-argument", "error 8 policy-key-unknown"}, says: []string{"The argument is x-max-length", "In a policy the key is max-length."},
	},
	{
		name: "case 20: a misspelt argument", spec: "queues: {q: {type: quorum, arguments: {x-delivery-limt: 5}}}",
		want: []string{"error 2 unknown-argument"}, says: []string{"Did you mean x-delivery-limit?"},
	},
	{
		name: "case 25: a policy hides another on some queues",
		spec: "queues: {tmp.1: {type: classic}, z: {type: classic}}\npolicies:\n  a: {pattern: .*, definition: {max-length: 1000}}\n  b: {pattern: ^tmp, priority: 1, definition: {expires: 60000}}",
		want: []string{"warning 4 policy-hidden"}, says: []string{`policy "a" is hidden by policy "b" on "tmp.1": max-length`},
	},
	{
		name: "case 25: as it was reported",
		spec: "queues: {tmp.1: {type: classic}}\npolicies:\n  a: {pattern: .*, definition: {max-length: 1000}}\n  b: {pattern: ^tmp, priority: 1, definition: {expires: 60000}}",
		want: []string{"warning 4 policy-hidden"}, says: []string{`policy "a" is hidden by policy "b" on "tmp.1": max-length`},
	},
	{
		name: "case 25: equal priorities",
		spec: "queues: {tmp.1: {type: classic}}\npolicies:\n  a: {pattern: .*, definition: {max-length: 1000}}\n  b: {pattern: ^tmp, definition: {expires: 60000}}",
		want: []string{"error 4 policy-priority-tie"},
	},
	{
		name: "case 29: apply-to by type and misspelt", spec: "policies:\n  a: {pattern: .*, apply_to: quorum_queues, definition: {max-length: 1}}",
		want: []string{"warning 3 policy-apply-to"}, says: []string{"RabbitMQ 3.10 to 3.11"},
	},
	{
		name: "case 29: misspelt", spec: "policies:\n  a: {pattern: .*, apply_to: exchange, definition: {max-length: 1}}",
		want: []string{"error 3 wrong-value"}, says: []string{`Did you mean \"exchanges\"?`},
	},
	{
		name: "case 32: a number in quotes in a policy", spec: "policies:\n  a:\n    pattern: ^q$\n    definition:\n      max-length: \"100\"",
		want: []string{"error 6 policy-value"},
	},
	{
		name: "case 32: a text of digits stays a text", spec: "policies:\n  a: {pattern: ^q$, apply_to: exchanges, definition: {federation-upstream-set: \"1\"}}",
	},
	{
		name: "case 38: no such exchange", spec: "queues: {q: {type: classic, dead_letter: {exchange: nope}}}", want: []string{"error 2 dead-letter-exchange-missing"},
	},
	{
		name: "case 38: exchanges of others", spec: "exchanges: {theirs: {external: true}}\nqueues: {q: {type: classic, dead_letter: {exchange: theirs}}}",
	},
	{
		name: "case 39: key by argument, exchange by policy",
		spec: "queues: {rk: {type: classic, arguments: {x-dead-letter-routing-key: r}}}\npolicies: {p: {pattern: ^rk$, definition: {dead-letter-exchange: amq.direct}}}",
		want: []string{"error 2 routing-key-but-no-dlx"}, says: []string{"Write both keys in the same place"},
	},
	{
		name: "case 48: delayed retry before 4.3", args: []string{"--rabbitmq", "4.0"},
		spec: "queues:\n  q: {type: quorum, arguments: {x-delayed-retry-type: all, x-delayed-retry-min: 1000}}\n  r: {type: quorum, delayed_retry: {type: all, min: 1s}}",
		want: []string{"error 3 argument-without-effect", "error 4 setting-not-for-version"},
	},
	{
		name: "case H9: an unknown key", spec: "queues:\n  q: {type: classic, durabel: false}", want: []string{"error 3 unknown-key"}, says: []string{`Did you mean \"durable\"?`},
	},
}

// TestCasesOffline: each finding with its line, and the exit status.
func TestCasesOffline(t *testing.T) {
	for _, c := range slices.Concat(offlineCases, flowCases) {
		t.Run(c.name, func(t *testing.T) {
			spec := writeSpec(t, "version: 1\n"+c.spec+"\n")
			found, r := judged(t, append(c.args, spec)...)
			for _, want := range c.want {
				if !slices.Contains(found, want) {
					t.Errorf("no finding %q", want)
				}
			}
			for _, words := range c.says {
				if !strings.Contains(strings.ReplaceAll(r.out, `\"`, `"`), strings.ReplaceAll(words, `\"`, `"`)) {
					t.Errorf("nothing says %q", words)
				}
			}
			isError := func(f string) bool { return strings.HasPrefix(f, "error ") }
			for _, f := range found {
				if isError(f) && !slices.Contains(c.want, f) {
					t.Errorf("one mistake too many: %s", f)
				}
			}
			exit := 0
			if slices.ContainsFunc(c.want, isError) {
				exit = 3
			}
			if r.exit != exit {
				t.Errorf("exit status %d, want %d", r.exit, exit)
			}
			if t.Failed() {
				t.Logf("findings: %q\n%s", found, r.out)
			}
		})
	}
}

// judged validates and lists the findings as "SEVERITY LINE CODE".
func judged(t *testing.T, args ...string) ([]string, result) {
	t.Helper()
	r := runCommand(t, nil, append([]string{"validate", "--format", "json"}, args...)...)
	var answer struct {
		Findings []struct {
			Severity, Code string
			Position       struct{ Line int }
		}
	}
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil {
		t.Fatalf("%v\n%s%s", err, r.out, r.err)
	}
	var all []string
	for _, f := range answer.Findings {
		all = append(all, fmt.Sprintf("%s %d %s", f.Severity, f.Position.Line, f.Code))
	}
	return all, r
}

// TestRowC9 turns off each part of what survives a restart in turn.
func TestRowC9(t *testing.T) {
	const text = "version: 1\nexchanges:\n" +
		"  in: {type: direct, alternate_exchange: ae[in]}\n  ae: {type: fanout[ae]}\n  dlx: {type: direct, alternate_exchange: dae[dlx]}\n  dae: {type: fanout[dae]}\nqueues:\n" +
		"  w: {type: classic, bindings: [{exchange: in, routing_key: k}], retry: {max_attempts: 3, delays: [{delay: 5s, queue: wait}]}, " +
		"dead_letter: {exchange: dlx, routing_key: d}, contract: {survives: restart}[w]}\n" +
		"  wait: {type: classic, role: wait, message_ttl: 5s, dead_letter: w[wait]}\n" +
		"  d: {" + owned + ", bindings: [{exchange: dlx, routing_key: d}][d]}\n  net: {" + owned + ", bindings: [{exchange: dae}, {exchange: ae}]}\n"
	blank := func(s string) string {
		for _, name := range []string{"in", "ae", "dlx", "dae", "w", "wait", "d"} {
			s = strings.ReplaceAll(s, "["+name+"]", "")
		}
		return s
	}
	if found, r := judged(t, writeSpec(t, blank(text))); r.exit != 0 {
		t.Fatalf("with everything on: %q", found)
	}
	for name, flags := range map[string][]string{
		"in": {"durable: false", "auto_delete: true"}, "ae": {"durable: false", "auto_delete: true"}, "dlx": {"durable: false", "auto_delete: true"}, "dae": {"durable: false"},
		"w": {"durable: false", "auto_delete: true", "expires: 1h"}, "wait": {"durable: false", "expires: 1h"}, "d": {"durable: false", "auto_delete: true", "expires: 1h"},
	} {
		for _, flag := range flags {
			found, r := judged(t, writeSpec(t, blank(strings.Replace(text, "["+name+"]", ", "+flag, 1))))
			if r.exit != 3 || !slices.ContainsFunc(found, func(f string) bool { return strings.HasSuffix(f, " not-restart-safe") }) {
				t.Errorf("%s: {%s}: exit %d, %q", name, flag, r.exit, found)
			}
		}
	}
	if found, r := judged(t, writeSpec(t, blank(strings.Replace(text, "[w]", ", exclusive: true", 1)))); r.exit != 3 || !slices.Contains(found, "error 8 exclusive-queue") {
		t.Errorf("exclusive: exit %d, %q", r.exit, found)
	}
}

// TestNoSpec: a path that cannot be read is not a spec that says nothing.
func TestNoSpec(t *testing.T) {
	for name, code := range map[string]string{t.TempDir() + "/none.yaml": "file-unreadable", t.TempDir(): "no-spec-files"} {
		for _, command := range [][]string{{"validate"}, {"plan"}, {"apply", "--yes"}, {"check"}} {
			r := runCommand(t, nil, append(command, name)...)
			r.want(t, 3)
			if all := r.out + r.err; !strings.Contains(all, code) || strings.Contains(all, "spec-empty") {
				t.Errorf("%v: %s", command, all)
			}
		}
	}
}
