package specs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// loadFiles reads texts as the files a.yaml, b.yaml and so on.
func loadFiles(texts ...string) Input {
	var in Input
	for i, text := range texts {
		in.Files = append(in.Files, File{Name: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
	}
	return in
}

// places writes findings as "FILE:LINE:COLUMN CODE", those of related places
// behind.
func places(t *testing.T, in Input) []string {
	t.Helper()
	_, list := Load(in)
	var all []string
	for _, d := range list {
		s := d.Position.String() + " " + d.Code
		for _, r := range d.Related {
			s += " " + r.Position.String()
		}
		all = append(all, s)
	}
	return all
}

func TestMerging(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"two files", []string{"version: 1\nqueues: {a: {}}", "version: 1\nqueues: {b: {}}"}, nil},
		{
			"the same queue",
			[]string{"version: 1\nqueues: {a: {}}", "version: 1\nqueues:\n  a: {}"},
			[]string{"b.yaml:3:3 duplicate-object a.yaml:2:10"},
		},
		{"in two virtual hosts", []string{"version: 1\nqueues: {a: {}}\n---\nversion: 1\nvhost: b\nqueues: {a: {}}"}, nil},
		{"a queue and an exchange", []string{"version: 1\nqueues: {a: {}}\nexchanges: {a: {}}"}, nil},
		{
			"everything else",
			[]string{
				"version: 1\nexchanges: {a: }\npolicies: &p {p: {pattern: x, definition: {max-length: 1}}}\noperator_policies: *p\npermissions: &r {u: {configure: '', read: '', write: ''}}\n" +
					"topic_permissions: {u: {x: {read: '', write: ''}}}\nparameters: {c: {n: 1}}\npublishers: {p: {exchange: a}}\nconsumers: {c: {queue: q}}\nvhost_settings: {description: a}\n",
				"version: 1\nexchanges: {a: }\npolicies: &p {p: {pattern: x, definition: {max-length: 1}}}\noperator_policies: *p\npermissions: &r {u: {configure: '', read: '', write: ''}}\n" +
					"topic_permissions: {u: {x: {read: '', write: ''}}}\nparameters: {c: {n: 1}}\npublishers: {p: {exchange: a}}\nconsumers: {c: {queue: q}}\nvhost_settings: {description: a}\n",
			},
			[]string{
				"b.yaml:2:13 duplicate-object a.yaml:2:13", "b.yaml:3:15 duplicate-object a.yaml:3:15",
				"b.yaml:5:18 duplicate-object a.yaml:5:18", "b.yaml:6:25 duplicate-object a.yaml:6:25", "b.yaml:7:18 duplicate-object a.yaml:7:18",
				"b.yaml:8:14 duplicate-object a.yaml:8:14", "b.yaml:9:13 duplicate-object a.yaml:9:13", "b.yaml:10:1 duplicate-object a.yaml:10:1",
			},
		},
		{
			"stacks",
			[]string{"version: 1\nstack: a\nqueues: {a: }", "version: 1\nqueues: {b: }", "version: 1\nstack: c\n"},
			[]string{"c.yaml:2:8 stack-conflict a.yaml:2:8"},
		},
		{
			"requires",
			[]string{"version: 1\nrequires: {rabbitmq: '>=4.0', plugins: [b, a]}", "version: 1\nrequires: {rabbitmq: '>= 4', plugins: [a, b, b]}", "version: 1\nrequires: {rabbitmq: '4.1', plugins: [c]}\n"},
			[]string{"c.yaml:2:22 requires-conflict a.yaml:2:22", "c.yaml:2:38 requires-conflict a.yaml:2:40"},
		},
		{
			"requires of two virtual hosts",
			[]string{"version: 1\nrequires: {rabbitmq: '<4.0'}", "version: 1\nvhost: b\nrequires: {rabbitmq: '>=4.0'}"},
			[]string{"a.yaml:2:22 requires-conflict"},
		},
		{"a cluster document", []string{"version: 1\nstack: s\ncluster: {users: {}}\n---\nversion: 1\nstack: t\n"}, []string{"a.yaml:3:1 cluster-not-supported"}},
		{"one bad file", []string{"version: 1\nqueues: {a: {x: 1}}", "{", "version: 1\nqueues: {b: {x: 1}}"}, []string{"a.yaml:2:14 unknown-key", "b.yaml:1:1 yaml-syntax", "c.yaml:2:14 unknown-key"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := places(t, loadFiles(c.files...)); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// queuesText writes the queues of a spec with what most tests are about.
func queuesText(spec *Spec) string {
	var all []string
	for _, v := range spec.VirtualHosts {
		for _, q := range v.Queues {
			s := q.Name
			if v.Name != "/" {
				s = v.Name + "/" + s
			}
			s += " " + string(q.Type)
			if len(q.Settings) > 0 {
				s += " " + topology.Text(q.Settings)
			}
			if q.Owner != "" {
				s += " owner=" + q.Owner
			}
			if q.DeadLetter != nil {
				for _, p := range []*string{q.DeadLetter.Queue, q.DeadLetter.Exchange, q.DeadLetter.RoutingKey} {
					if p != nil {
						s += " >" + *p
					}
				}
			}
			if q.Retry != nil {
				s += fmt.Sprintf(" retry=%d%v", q.Retry.MaxAttempts, q.Retry.Delays)
			}
			for _, b := range q.Bindings {
				s += " " + b.Exchange + strings.Join(b.RoutingKeys, ",")
			}
			all = append(all, s)
		}
	}
	return strings.Join(all, "; ")
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"defaults: {queue: {type: quorum}}\nqueues: {a: {}, b: {type: classic}, c: {kind: stream}}", "a quorum; b classic; c stream"},
		{"defaults: {queue: {kind: quorum, queue_leader_locator: balanced}}\nqueues: {a: {leader_locator: client-local}}", `a quorum {"queue-leader-locator": "client-local"}`},
		{"defaults: {queue: {dead_letter: {exchange: dlx, routing_key: \"dlq.{name}\"}}}\nqueues: {a: {}, b: {dead_letter: null}, c: {dead_letter: d}}", "a  >dlx >dlq.a; b ; c  >d"},
		{"defaults: {queue: {retry: {max_attempts: 3}}}\nqueues: {a: {retry: {delays: [1s]}}, b: }", "a  retry=0[1s]; b  retry=3[]"},
		{"defaults: {queue: {type: quorum}}\nqueues: {a: {external: true}}", "a "},
		{"defaults: {queue: {type: quorum}}\nqueues: {a: {}}\n---\nversion: 1\nqueues: {b: {}}", "a quorum; b "},
		{"defaults: {queue: {owner: \"{name} {x} {\"}}\nqueues: {a: {}}", "a  owner=a {x} {"},
		{"defaults: {queue: {bindings: [{exchange: x, routing_key: \"{name}\"}]}}\nqueues: {a: {}, 5: {}}", "a  xa; 5  x5"},
	} {
		spec, list := load("version: 1\n" + c.text + "\n")
		if got := queuesText(spec); got != c.want || len(list) > 0 {
			t.Errorf("%s\ngot  %q\nwant %q\n%s", c.text, got, c.want, texts(list))
		}
	}
}

func TestDefaultsOfTheDocument(t *testing.T) {
	q := oneQueue(t, "defaults: {inherit_policy: true, policy_priority: 7}\nqueues: {a: {}, b: {inherit_policy: false}}")
	if !q.InheritPolicy || q.PolicyPriority != 7 {
		t.Errorf("got %+v", q)
	}
	if q := oneQueue(t, "queues: {a: {}}"); q.InheritPolicy || q.PolicyPriority != 1000 || !q.Durable {
		t.Errorf("got %+v", q)
	}
}

func TestRepetition(t *testing.T) {
	for _, c := range []struct{ text, want, findings string }{
		{`queues: {"photo.{n}": {for_each: {n: [see, rule]}, bindings: [{exchange: photo, routing_key: "photo.{n}"}]}}`, "photo.see  photophoto.see; photo.rule  photophoto.rule", ""},
		{`queues: {"{a}{b}": {for_each: {a: [1, 2], b: [x, y]}, max_length: "{a}", owner: "{b}"}}`, `1x  {"max-length": 1} owner=x; 1y  {"max-length": 1} owner=y; 2x  {"max-length": 2} owner=x; 2y  {"max-length": 2} owner=y`, ""},
		{`queues: {"photo.{n}": {for_each: {n: [see]}, bindings: [{exchange: photo, routing_key: "{name}"}]}}`, "photo.see  photophoto.see", ""},
		{`queues: {"{n}": {for_each: {n: [1]}, bindings: [{exchange: x, routing_key: "{n}"}]}}`, "1  x1", ""},
		{`queues: {"q{n}": {for_each: {n: [1, 2]}, retry: {delays: [1s], wait_queue: {names: "{queue}.{delay}"}}}}`, "q1  retry=0[1s]; q2  retry=0[1s]", ""},
		{`queues: {"q{n}": {for_each: {n: [1, 1]}}}`, "q1 ", "2:10 duplicate-object"},
		{`queues: {q1: {}, "q{n}": {for_each: {n: [1, 2]}}}`, "q1 ; q2 ", "2:18 duplicate-object"},
		{`queues: {q: {for_each: {n: [1, 2]}}}`, "", "2:25 for-each-name"},
		{`queues: {"q{n}": {for_each: {n: 5}}}`, "", "2:33 wrong-type"},
		{`queues: {"q{n}": {for_each: {n: [[a]]}}}`, "", "2:34 wrong-type"},
		{`queues: {"q{n}": {for_each: [a]}}`, "", "2:29 wrong-type"},
	} {
		spec, list := load("version: 1\n" + c.text + "\n")
		if got := queuesText(spec); got != c.want || strings.Join(lines(list), "; ") != c.findings {
			t.Errorf("%s\ngot  %q\nwant %q\n%s", c.text, got, c.want, texts(list))
		}
	}
}

func TestRepetitionOfOtherObjects(t *testing.T) {
	spec, list := load("version: 1\nexchanges: {\"x{n}\": {for_each: {n: [a, b]}, type: topic}}\n" +
		"policies: {\"p{n}\": {for_each: {n: [a, b]}, pattern: \"^{n}$\", definition: {\"{n}\": 1}}}\n")
	v := spec.VirtualHosts[0]
	if len(list) > 0 || len(v.Exchanges) != 2 || len(v.Policies) != 2 || v.Policies[1].Pattern != "^b$" || v.Policies[1].Definition["b"] != int64(1) {
		t.Errorf("%+v\n%s", v, texts(list))
	}
}

func TestOverlay(t *testing.T) {
	base := "version: 1\nstack: s\ndefaults: {queue: {type: quorum, owner: base}}\nqueues:\n  a: {max_length: 5, retry: {max_attempts: 3, delays: [1s]}}\n  b: {bindings: [{exchange: x}]}\n"
	for _, c := range []struct{ overlay, want, findings string }{
		{"", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", ""},
		{"queues: {a: {max_length: 7}}", "a quorum {\"max-length\": 7} owner=base retry=3[1s]; b quorum owner=base x", ""},
		{"queues: {a: {retry: {delays: [2s, 3s]}}}", "a quorum {\"max-length\": 5} owner=base retry=3[2s 3s]; b quorum owner=base x", ""},
		{"queues: {a: {retry: {delays: null}, max_length: null, owner: null}}", "a quorum retry=3[]; b quorum owner=base x", ""},
		{"queues: {a: null, b: {bindings: [{exchange: y}], kind: classic}}", "b classic owner=base y", ""},
		{"queues: {c: {max_length: 1}}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x; c  {\"max-length\": 1}", ""},
		{"defaults: {queue: {owner: over}}\nqueues: {a: {max_length: 1}, c: {}}", "a quorum {\"max-length\": 1} owner=base retry=3[1s]; b quorum owner=base x; c  owner=over", ""},
		{"queues: {c: null}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", "b.yaml:3:10 overlay-removes-nothing"},
		{"queues: {a: {retry: {mechanism: null}}}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", "b.yaml:3:22 overlay-removes-nothing"},
		{"queues: {a: {overflow: null}}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", "b.yaml:3:24 no-value"},
		{"queues: {a: {max_lengt: 7}}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", "b.yaml:3:14 unknown-key"},
		{"stack: t\nrequires: {rabbitmq: '4.0'}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", ""},
		{"stack: null", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", ""},
		{"vhost_settings: null", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x", "b.yaml:3:1 overlay-removes-nothing"},
		{"vhost: other\nqueues: {a: {}}", "a quorum {\"max-length\": 5} owner=base retry=3[1s]; b quorum owner=base x; other/a ", "b.yaml:1:1 overlay-without-base"},
	} {
		in := loadFiles(base, "version: 1\noverlay: true\n"+c.overlay+"\n")
		spec, _ := Load(in)
		if got := queuesText(spec); got != c.want || strings.Join(places(t, in), "; ") != c.findings {
			t.Errorf("%s\ngot  %q %q\nwant %q %q", c.overlay, got, places(t, in), c.want, c.findings)
		}
	}
	spec, _ := Load(loadFiles(base, "version: 1\noverlay: true\nstack: t\nvhost_settings: {description: d}\n"))
	if v := spec.VirtualHosts[0]; v.Stack != "t" || *v.Settings.Description != "d" || v.At["stack"].File != "b.yaml" {
		t.Errorf("got %q %+v %v", v.Stack, v.Settings, v.At["stack"])
	}
}

// TestOverlayOnOverlay: overlays are worked in one after the other, and reach
// what for_each has made.
func TestOverlayOnOverlay(t *testing.T) {
	spec, list := Load(loadFiles("version: 1\nqueues: {\"q{n}\": {for_each: {n: [1, 2]}}}\n",
		"version: 1\noverlay: true\nqueues: {q1: {max_length: 1}, q3: {max_length: 3}}\n---\nversion: 1\noverlay: true\nqueues: {q1: {max_length: 2}, q3: {owner: x}}\n"))
	want := `q1  {"max-length": 2}; q2 ; q3  {"max-length": 3} owner=x`
	if got := queuesText(spec); got != want || len(list) > 0 {
		t.Errorf("got %q\n%s", got, texts(list))
	}
}

func TestAliasesAndMergeKeys(t *testing.T) {
	spec, list := load("version: 1\nqueues:\n  a: &a {type: quorum, max_length: 5, owner: x}\n  b: *a\n  c: {<<: *a, owner: y}\n  d: {<<: [{max_length: 6}, *a], type: classic}\n")
	want := `a quorum {"max-length": 5} owner=x; b quorum {"max-length": 5} owner=x; c quorum {"max-length": 5} owner=y; d classic {"max-length": 6} owner=x`
	if got := queuesText(spec); got != want || len(list) > 0 {
		t.Errorf("got %q\n%s", got, texts(list))
	}
}

// TestDigest: places, comments and the order of keys make no difference, every
// value does.
func TestDigest(t *testing.T) {
	digestOf := func(text string) string {
		spec, list := load("version: 1\n" + text)
		if len(list) > 0 {
			t.Fatalf("%s\n%s", text, texts(list))
		}
		return spec.Digest()
	}
	base := "queues: {a: {type: quorum, max_length: 5, dead_letter: b}, b: {}}\nexchanges: {x: {}, y: {}}\n"
	same := []string{
		"exchanges:\n  y: {}  # second\n  x: {}\nqueues:\n  b: {}\n  a:\n    dead_letter: {queue: b}\n    max_length: 5\n    type: quorum\n",
		"variables: {n: {default: 5}}\ndefaults: {queue: {max_length: \"${n}\"}}\nqueues: {a: {type: quorum, dead_letter: b}, b: {max_length: }}\nexchanges: {\"{n}\": {for_each: {n: [x, y]}}}\n",
		"queues: {a: {type: quorum, max_length: 5, dead_letter: b}}\nexchanges: {x: {}}\n---\nversion: 1\nexchanges: {y: {}}\nqueues: {b: {}}\n",
	}
	other := []string{
		strings.Replace(base, "5", "6", 1), strings.Replace(base, "quorum", "classic", 1), strings.Replace(base, "dead_letter: b", "dead_letter: c", 1),
		strings.Replace(base, "dead_letter: b", "dead_letter: {exchange: b}", 1), base + "stack: s\n", base + "vhost: v\n", base + "external: [{pattern: x}]\n",
		base + "parameters: {a: {b: 1}}\n", base + "parameters: {a: {b: \"1\"}}\n", base + "parameters: {a: {b: 1.5}}\n", strings.Replace(base, "max_length", "max_length_bytes", 1),
		strings.Replace(base, "b: {}", "b: {bindings: [{exchange: x}]}", 1), strings.Replace(base, "b: {}", "b: {external: true}", 1),
	}
	want := digestOf(base)
	for _, text := range same {
		if digestOf(text) != want {
			t.Errorf("another digest for the same as written in\n%s", text)
		}
	}
	seen := map[string]string{want: base}
	for _, text := range other {
		d := digestOf(text)
		if first, ok := seen[d]; ok {
			t.Errorf("one digest for\n%s\nand\n%s", text, first)
		}
		seen[d] = text
	}
}
