package specs

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// findingCases are specs with a mistake, without their first line (version: 1).
// want has the place, the code, and a part of the text.
var findingCases = []struct{ name, text, want string }{
	{"unknown key", "queues:\n  a: {durabel: false}", `3:7 unknown-key unknown key "durabel" in queue "a" Did you mean "durable"?`},
	{"unknown setting", "queues: {a: {message-ttl: 5s}}", `2:14 unknown-key Did you mean "message_ttl"?`},
	{"argument as key", "queues: {a: {x-message-ttl: 5s}}", `2:14 unknown-key Did you mean "message_ttl"?`},
	{"exchange setting on a queue", "queues: {a: {alternate_exchange: b}}", `2:14 unknown-key belongs under arguments`},
	{"another name of a key", "queues: {a: {dlq: b, ttl: 5s}}", `2:14 unknown-key Did you mean "dead_letter"?; 2:22 unknown-key Did you mean "message_ttl"?`},
	{"another name of a nested key", "queues: {a: {retry: {attempts: 5}}}", `2:22 unknown-key Did you mean "max_attempts"?`},
	{"unknown document key", "queue: {}", `2:1 unknown-key Did you mean "queues"?`},
	{"unknown nested key", "queues: {a: {retry: {max_attempt: 5}}}", `2:22 unknown-key unknown key "max_attempt" in "retry" of queue "a" Did you mean "max_attempts"?`},
	{"unknown exchange key", "exchanges: {a: {alternate: b, typ: topic}}", `2:17 unknown-key; 2:31 unknown-key Did you mean "type"?`},
	{"unknown loss", "queues: {a: {loses: {expire: x}}}", `2:22 unknown-key Did you mean "expired"?`},
	{"loss without a reason", "exchanges: {a: {loses: {unrouted: ' '}}}", `2:35 wrong-value must say why`},
	{"unknown setting in settings_by", "queues: {a: {settings_by: {delivery_limt: policy}}}", `2:28 unknown-key Did you mean "delivery_limit"?`},

	{"yes is a text", "queues: {a: {durable: yes}}", `2:23 wrong-type must be true or false, not a text Write true or false: yes, no`},
	{"number in quotes", "queues: {a: {max_length: \"10\"}}", `2:26 wrong-type must be an integer, not a text Write it without quotes.`},
	{"number as text", "queues: {a: {bindings: [{exchange: x, routing_key: 5}]}}", `2:52 wrong-type "bindings[0].routing_key" of queue "a" must be a text, not a number Put it in quotes.`},
	{"fraction", "queues: {a: {max_length: 1.5}}", `2:26 wrong-type`},
	{"integral float", "queues: {a: {max_length: 1e3}}", ``},
	{"duration without unit", "queues: {a: {message_ttl: 30}}", `2:27 missing-unit "message_ttl" of queue "a" is the duration "30" without a unit Write the unit`},
	{"duration text without unit", "queues: {a: {message_ttl: \"30\"}}", `2:27 missing-unit`},
	{"delay without unit", "queues: {a: {retry: {delays: [30]}}}", `2:31 missing-unit "retry.delays[0]" of queue "a"`},
	{"age without unit", "queues: {a: {max_age: 7}}", `2:23 missing-unit`},
	{"age text without unit", "queues: {a: {max_age: \"7\"}}", `2:23 missing-unit`},
	{"bad duration", "queues: {a: {message_ttl: 5x}}", `2:27 wrong-value must be a duration such as`},
	{"bad age", "queues: {a: {max_age: 5W}}", `2:23 wrong-value must be an age such as`},
	{"age of half a second", "queues: {a: {max_age: 500ms}}", `2:23 wrong-value whole seconds`},
	{"bad size", "queues: {a: {max_length_bytes: 5 parsecs}}", `2:32 wrong-value must be a size such as`},
	{"ttl of eleven years", "queues: {a: {message_ttl: 4015d}}", `2:27 wrong-value must be at most`},
	{"no delay", "queues: {a: {retry: {delays: [0s, 3651d]}}}", `2:31 wrong-value must be from 1ms; 2:35 wrong-value`},
	{"negative length", "queues: {a: {max_length: -1}}", `2:26 wrong-value must be at least 0, not -1`},
	{"no attempt", "queues: {a: {retry: {max_attempts: 0}}}", `2:36 wrong-value must be at least 1, not 0`},
	{"wrong word", "queues: {a: {overflow: reject_publish}}", `2:24 wrong-value must be one of drop-head`},
	{"wrong type of queue", "queues: {a: {type: quorom}}", `2:20 wrong-value must be classic, quorum or stream, not "quorom" Did you mean "quorum"?`},
	{"wrong match", "queues: {a: {bindings: [{exchange: x, match: both}]}}", `2:46 wrong-value`},
	{"no value", "queues: {a: {message_ttl: }}", `2:27 no-value "message_ttl" of queue "a" has no value`},
	{"bindings as a map", "queues: {a: {bindings: {exchange: x}}}", `2:24 wrong-type must be a list, not a map A list begins with [`},
	{"delays as a text", "queues: {a: {retry: {delays: 30s}}}", `2:30 wrong-type must be a list, not a text Put it in brackets: [30s].`},
	{"queues as a list", "queues: [a, b]", `2:9 wrong-type "queues" of the document must be a map of names, not a list`},
	{"queue as a text", "queues: {a: quorum}", `2:13 wrong-type queue "a" must be a map, not a text`},
	{"empty list of keys", "queues: {a: {bindings: [{exchange: x, routing_keys: []}]}}", `2:53 wrong-value must hold a key`},
	{"both forms of keys", "queues: {a: {bindings: [{exchange: x, routing_key: a, routing_keys: [b]}]}}", `2:39 setting-twice`},
	{"binding without exchange", "queues: {a: {bindings: [{routing_key: a}]}}", `2:25 missing-key "bindings[0].exchange" of queue "a" is missing`},
	{"exclusive", "queues: {a: {exclusive: true}}", `2:25 exclusive-queue queue "a" is exclusive`},
	{"type and kind", "queues: {a: {type: quorum, kind: quorum}}", `2:28 setting-twice "kind" is another name of "type"`},
	{"two names of a setting", "queues: {a: {leader_locator: balanced, queue_leader_locator: balanced}}", `2:40 setting-twice`},
	{"delayed retry twice", "queues: {a: {delayed_retry_min: 1s, delayed_retry: {min: 2s}}}", `2:58 setting-twice "delayed_retry.min" of queue "a" is a second value of delayed_retry_min`},
	{"type among arguments", "queues: {a: {arguments: {x-queue-type: quorum}}}", `2:26 setting-twice`},
	{"alternate exchange twice", "exchanges: {a: {alternate_exchange: b, arguments: {alternate-exchange: c}}}", `2:72 setting-twice`},
	{"names of wait queues twice", "queues: {a: {retry: {wait_queue: {name: b, names: \"{queue}.{n}\"}}}}", `2:35 setting-twice`},
	{"reason alone", "queues: {a: {reason: x}}", `2:22 reason-without-contract`},
	{"contract of another word", "queues: {a: {contract: nothing}}", `2:24 wrong-value must be none, not "nothing"`},
	{"after_failure without queue", "queues: {a: {contract: {after_failure: {owner: x}}}}", `2:40 missing-key`},
	{"delay without queue", "queues: {a: {retry: {delays: [{delay: 1m}]}}}", `2:31 missing-key "retry.delays[0].queue"`},
	{"policy without pattern", "policies: {p: {definition: {max-length: 1}}}", `2:15 missing-key "pattern" of policy "p" is missing`},
	{"policy without anything", "operator_policies: {p: {}}", `2:24 missing-key "definition"; 2:24 missing-key "pattern" of operator policy "p"`},
	{"policy key twice", "policies: {p: {pattern: x, definition: {max_length: 1, max-length: 2}}}", `2:53 setting-twice`},
	{"apply_to with a dash", "policies: {p: {pattern: x, apply_to: quorum-queues, definition: {max-length: 1}}}", `2:38 wrong-value Did you mean "quorum_queues"?`},
	{"permission left out", "permissions: {u: {read: x, write: x}}", `2:18 missing-key "configure" of permission "u" is missing`},
	{"topic permission left out", "topic_permissions: {u: {x: {read: x}}}", `2:28 missing-key`},
	{"parameter without value", "parameters: {shovel: {a: }}", `2:26 no-value "parameters.shovel.a" of the document has no value`},
	{"bad external pattern", "external: [{pattern: \"(\"}]", `2:22 wrong-value must be a regular expression (missing closing`},
	{"prefetch", "consumers: {c: {queue: q, prefetch: 70000}}", `2:37 wrong-value must be at most 65535`},
	{"external as a default", "defaults: {queue: {external: true}}", `2:20 not-a-default`},
	{"default of the wrong type", "defaults: {queue: {durable: 1}}\nqueues: {a: {}, b: {}}", `2:29 wrong-type "defaults.queue.durable" of the document`},
	{"no password in a finding", "parameters: {shovel: {a: {uri: \"amqp://user:hunter2@h/${\"}}}", `2:32 variable-syntax a text holds a ${ that names no variable Write`},
	{"escapes in texts", "external: [{pattern: \"(\\x1b\\u202e\"}]", `2:22 wrong-value \x1b\u202e`},
	{"shared mistake", "queues:\n  a: &a {durable: 1}\n  b: *a", `3:19 wrong-type`},

	{"empty name", "queues: {\"\": {}}", `2:10 name-empty`},
	{"name of 256 bytes", "queues: {" + strings.Repeat("é", 128) + ": {}}", `2:10 name-too-long has 256 bytes`},
	{"line break", "queues: {\"a\\nb\": {}}\nexchanges: {\"a\\rb\": {}}", `2:10 name-line-break; 3:13 name-line-break`},
	{"routing key of 256 bytes", "queues: {a: {bindings: [{exchange: x, routing_key: " + strings.Repeat("x", 256) + "}]}}", `2:52 name-too-long`},
	{"any other name", "queues: {\"/ % # ? + ~ é \\\" ' \\x01 \\u202e\": {}, 5: {}, yes: {}}", ``},

	{"stack", "stack: My Stack", `2:8 wrong-value must be 1 to 60 of the characters`},
	{"empty vhost", "vhost: ''", `2:8 name-empty`},
	{"version range", "requires: {rabbitmq: \">=4.x\"}", `2:22 wrong-value "4.x" is no RabbitMQ version`},
	{"version operator", "requires: {rabbitmq: \"~>4.0\"}", `2:22 wrong-value "~>" is no comparison`},
	{"version contradiction", "requires: {rabbitmq: \">=4.0 <3.12\"}", `2:22 wrong-value allows none of the known versions`},
	{"no version in requires", "requires: {rabbitmq: \" \"}", `2:22 wrong-value must name a version`},
	{"cluster", "cluster: {users: {a: {}}}\nqueues: {a: {durabel: 1}}", `2:1 cluster-not-supported; 3:14 unknown-key`},
	{"overlay alone", "overlay: true\nqueues: {a: {}}", `1:1 overlay-without-base`},
}

func TestFindings(t *testing.T) {
	for _, c := range findingCases {
		t.Run(c.name, func(t *testing.T) {
			_, list := load("version: 1\n" + c.text + "\n")
			var wants []string
			if c.want != "" {
				wants = strings.Split(c.want, "; ")
			}
			if len(list) != len(wants) {
				t.Fatalf("%d findings, want %q:\n%s", len(list), wants, texts(list))
			}
			for i, want := range wants {
				parts := strings.SplitN(want, " ", 3)
				if got := lines(list)[i]; got != parts[0]+" "+parts[1] {
					t.Errorf("finding %s, want %s %s", got, parts[0], parts[1])
				}
				if len(parts) == 3 && !strings.Contains(list[i].Summary+" "+list[i].Detail, parts[2]) {
					t.Errorf("%q is not in: %s | %s", parts[2], list[i].Summary, list[i].Detail)
				}
				if !list[i].Structural {
					t.Errorf("%s is not structural", parts[1])
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"vhost: a\n":                  "1:1 version-missing",
		"stack: a\nversion: 2\n":      "2:10 version-unknown",
		"version: \"1\"\n":            "1:10 version-unknown",
		"version:\n":                  "1:9 version-unknown",
		"version: 1\n---\nvhost: b\n": "3:1 version-missing",
	} {
		if _, list := load(text); !slices.Equal(lines(list), []string{want}) {
			t.Errorf("%q: %s, want %s", text, texts(list), want)
		}
	}
}

// oneQueue loads a spec and returns its first queue.
func oneQueue(t *testing.T, text string) *Queue {
	t.Helper()
	spec, list := load("version: 1\n" + text)
	if len(list) > 0 || len(spec.VirtualHosts) != 1 || len(spec.VirtualHosts[0].Queues) == 0 {
		t.Fatalf("no queue, findings:\n%s", texts(list))
	}
	return spec.VirtualHosts[0].Queues[0]
}

func TestSettingValues(t *testing.T) {
	for text, want := range map[string]any{
		"message_ttl: 30s":               int64(30_000),
		"message_ttl: 0s":                int64(0),
		"message_ttl: 1h30m":             int64(5_400_000),
		"expires: 7d":                    int64(604_800_000),
		"consumer_timeout: 250ms":        int64(250),
		"max_length: 1_000":              int64(1000),
		"max_length: 0x10":               int64(16),
		"max_length_bytes: 512KiB":       int64(524_288),
		"max_length_bytes: 2GB":          int64(2_000_000_000),
		"max_length_bytes: 2048":         int64(2048),
		"max_age: 1d":                    "1D",
		"max_age: 1M":                    "1M",
		"max_age: 30D":                   "30D",
		"max_age: 90m":                   "90m",
		"max_age: 36h":                   "36h",
		"max_age: 1d12h":                 "36h",
		"delivery_limit: unlimited":      int64(-1),
		"delivery_limit: 4":              int64(4),
		"queue_leader_locator: balanced": "balanced",
		"single_active_consumer: false":  false,
		"ha_params: [a, b]":              []any{"a", "b"},
		"dead_letter_exchange: ''":       "",
	} {
		q := oneQueue(t, "queues: {q: {"+text+"}}\n")
		if len(q.Settings) != 1 {
			t.Fatalf("%s: %v", text, q.Settings)
		}
		for name, got := range q.Settings {
			if !topology.Equal(got, want) {
				t.Errorf("%s: %s is %#v, want %#v", text, name, got, want)
			}
		}
	}
}

func TestArgumentsKeepTheirTypes(t *testing.T) {
	q := oneQueue(t, "queues: {q: {arguments: {a: 1, b: \"1\", c: 1.5, d: true, e: null, f: [1, x], g: {h: 2024-01-02}, i: yes, j: \"${env:SECRET}\"}}}\n")
	want := topology.Arguments{
		"a": int64(1), "b": "1", "c": 1.5, "d": true, "e": nil, "f": []any{int64(1), "x"},
		"g": map[string]any{"h": "2024-01-02"}, "i": "yes", "j": "${env:SECRET}",
	}
	if !q.Arguments.Equal(want) {
		t.Errorf("got %s, want %s", topology.Text(q.Arguments), topology.Text(want))
	}
}

func TestSettingsBy(t *testing.T) {
	for _, c := range []struct {
		text string
		want SettingsBy
	}{
		{"queues: {q: {}}", SettingsBy{Default: topology.ByPolicy}},
		{"vhost_settings: {settings_by: arguments}\nqueues: {q: {}}", SettingsBy{Default: topology.ByArgument}},
		{"vhost_settings: {settings_by: arguments}\ndefaults: {settings_by: policy}\nqueues: {q: {}}", SettingsBy{Default: topology.ByPolicy}},
		{"vhost_settings: {settings_by: {max_length: arguments}}\ndefaults: {settings_by: policy}\nqueues: {q: {}}", SettingsBy{Default: topology.ByPolicy}},
		{"defaults: {settings_by: arguments, queue: {settings_by: policy}}\nqueues: {q: {}}", SettingsBy{Default: topology.ByPolicy}},
		{"defaults: {queue: {settings_by: arguments}}\nqueues: {q: {settings_by: policy}}", SettingsBy{Default: topology.ByPolicy}},
		{
			"defaults: {queue: {settings_by: {default: arguments, max_length: policy}}}\nqueues: {q: {settings_by: {leader_locator: policy}}}",
			SettingsBy{topology.ByArgument, map[string]topology.By{"max-length": topology.ByPolicy, "queue-leader-locator": topology.ByPolicy}},
		},
		{
			"vhost_settings: {settings_by: {max_length: arguments}}\nqueues: {q: {settings_by: {delivery_limit: arguments}}}",
			SettingsBy{topology.ByPolicy, map[string]topology.By{"max-length": topology.ByArgument, "delivery-limit": topology.ByArgument}},
		},
	} {
		q := oneQueue(t, c.text)
		if q.SettingsBy.Default != c.want.Default || len(q.SettingsBy.Each) != len(c.want.Each) {
			t.Errorf("%s: %v, want %v", c.text, q.SettingsBy, c.want)
		}
		for name, by := range c.want.Each {
			if q.SettingsBy.Of(name) != by {
				t.Errorf("%s: %s by %s, want %s", c.text, name, q.SettingsBy.Of(name), by)
			}
		}
	}
}

func TestPolicyKeysInSnakeCase(t *testing.T) {
	spec, list := load("version: 1\npolicies: {p: {pattern: x, definition: {max_length: 1, leader_locator: balanced, own-key: 2}}}\n")
	if len(list) > 0 {
		t.Fatal(texts(list))
	}
	want := topology.Arguments{"max-length": int64(1), "queue-leader-locator": "balanced", "own-key": int64(2)}
	if p := spec.VirtualHosts[0].Policies[0]; !p.Definition.Equal(want) || p.ApplyTo != "all" || p.Priority != 0 {
		t.Errorf("got %+v", p)
	}
}
