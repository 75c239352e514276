package jsonschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
	"github.com/rabbitctl/rabbitctl/specs"
)

const root = "../../"

func TestSchemaFileIsCurrent(t *testing.T) {
	have, err := os.ReadFile(root + "docs/spec.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, jsonschema.Spec()) {
		t.Error("docs/spec.schema.json is not current: run go generate ./internal/jsonschema")
	}
}

// compile reads the schema as a validator does; it is checked against draft-07
// on the way.
func compile(t *testing.T) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(jsonschema.Spec()))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource(jsonschema.URL, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(jsonschema.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// jsonValue is a YAML node as an editor gives it to the schema: keys are texts.
func jsonValue(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.DocumentNode:
		return jsonValue(t, n.Content[0])
	case yaml.AliasNode:
		return jsonValue(t, n.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			list[i] = jsonValue(t, c)
		}
		return list
	case yaml.MappingNode:
		table := map[string]any{}
		var merged []*yaml.Node
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Tag == "!!merge" {
				merged = append(merged, n.Content[i+1])
				continue
			}
			table[n.Content[i].Value] = jsonValue(t, n.Content[i+1])
		}
		for _, m := range merged {
			for k, v := range jsonValue(t, m).(map[string]any) {
				if _, own := table[k]; !own {
					table[k] = v
				}
			}
		}
		return table
	}
	var v any
	if err := n.Decode(&v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	v, err = validator.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// documents parses the documents of a text.
func documents(t *testing.T, text []byte) []*yaml.Node {
	t.Helper()
	var all []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, &n)
	}
}

// rejects is why the schema rejects a text; nil when it accepts all documents.
func rejects(t *testing.T, s *validator.Schema, text []byte) error {
	t.Helper()
	for _, n := range documents(t, text) {
		if err := s.Validate(jsonValue(t, n)); err != nil {
			return err
		}
	}
	return nil
}

// structural are the findings that say that a text is no spec.
func structural(text []byte) diag.List {
	_, found := specs.Load(specs.Input{Files: []specs.File{{Name: "spec.yaml", Data: text}}})
	return slices.DeleteFunc(found, func(d diag.Diagnostic) bool { return !d.Structural || d.Severity != diag.Error })
}

// specFiles are all specs of the repository, with the examples that the
// documentation shows.
func specFiles(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"specs/examples/*.yaml", "testdata/real/*.spec.yaml", "testdata/validate/*.yaml", "testdata/specs/*.yaml", "testdata/plan/*.yaml", "testdata/definitions/*.yaml"} {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(f, root)] = data
		}
	}
	pages, err := filepath.Glob(root + "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range yamlBlock.FindAllSubmatch(data, -1) {
			if bytes.HasPrefix(m[1], []byte("version: 1\n")) {
				all[fmt.Sprintf("%s example %d", page, i+1)] = m[1]
			}
		}
	}
	return all
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestSpecsAreAccepted: what rabbitctl can read the schema accepts. This includes
// testdata/specs/complete.yaml, which has every key of the language.
func TestSpecsAreAccepted(t *testing.T) {
	s := compile(t)
	read := 0
	for name, text := range specFiles(t) {
		if len(structural(text)) > 0 {
			continue // plans of more than one state, or bad on purpose
		}
		read++
		if err := rejects(t, s, text); err != nil {
			t.Errorf("%s is rejected: %v", name, err)
		}
	}
	if read < 80 {
		t.Errorf("only %d specs were read", read)
	}
}

// good are forms that a schema must not be too narrow for.
var good = []string{
	"version: 1\n",
	"# nothing yet\n---\nversion: 1\nqueues:\n",
	"version: 1\nqueues:\n  a:\n  b: {}\n",
	"version: 1\nvariables: {d: {default: true}, n: {default: 5}, l: {default: [x]}, ttl: {default: 1h}}\nqueues:\n  a: {type: quorum, durable: '${d}', max_length: '${n}', allow_unknown_arguments: '${l}', message_ttl: '${ttl}'}\n",
	"version: 1\nvariables: {k: {default: max_length}, t: {default: quorum}}\nqueues: {'q.${k}': {'${k}': 5, type: '${t}'}}\n",
	"version: 1\nqueues:\n  'q.{t}': {for_each: {t: [classic, quorum]}, type: '{t}'}\n  'n.{i}': {for_each: {i: [1, 2]}, type: classic, max_length: '{i}'}\n",
	"version: 1\nqueues:\n  a: {kind: quorum, quorum_initial_group_size: 3}\n",
	"version: 1\nqueues: {a: &a {type: quorum, max_length: 1}, b: {<<: *a, max_length: 2}}\n",
	"version: 1\ndefaults: {queue: {type: quorum, max_length: 5}}\nqueues: {a: {max_length: null}}\n",
	"version: 1\npolicies: {p: {pattern: a, definition: {max-length: 1, max_length_bytes: 1, plugin-key: [1]}}}\n---\nversion: 1\noverlay: true\npolicies: {p: {priority: 3}}\n",
	"version: 1\nrequires: {rabbitmq: 4.0}\n", "version: 1\nrequires: {rabbitmq: 4}\n",
	"version: 1\nqueues: {a: {type: stream, max_age: 7D, max_length_bytes: 10 MB}, b: {type: stream, max_age: 1h30m, max_length_bytes: 1000}}\n",
	"version: 1\nqueues: {a: {delivery_limit: 5}, b: {delivery_limit: unlimited}, c: {delivery_limit: -1}}\n",
	"version: 1\nqueues: {a: {dead_letter: {queue: d, settings_by: arguments}}, b: {dead_letter: d}, c: {hides_policy: p}, d: {exclusive: false}}\n",
	"version: 1\nqueues: {a: {settings_by: {default: arguments, message_ttl: policy}}}\n",
}

func TestGoodFormsAreAccepted(t *testing.T) {
	s := compile(t)
	for _, text := range good {
		if found := structural([]byte(text)); len(found) > 0 {
			t.Errorf("rabbitctl itself refuses %q: %s", text, found[0].Summary)
		}
		if err := rejects(t, s, []byte(text)); err != nil {
			t.Errorf("%q is rejected: %v", text, err)
		}
	}
}

var bad = []string{
	"queues: {}\n", "version: 2\n", "version: '1'\n", "[]\n",
	"version: 1\nqueue: {}\n", "version: 1\nstack: Upper\n", "version: 1\ncluster: {}\n",
	"version: 1\nqueues: [a]\n", "version: 1\nqueues: {a: {max_lenght: 5}}\n",
	"version: 1\nqueues: {a: {type: lazy}}\n", "version: 1\nqueues: {a: {durable: yes please}}\n", "version: 1\nqueues: {a: {durable: 'true'}}\n",
	"version: 1\nqueues: {a: {max_length: '5'}}\n", "version: 1\nqueues: {a: {max_length: 1.5}}\n", "version: 1\nqueues: {a: {max_length: -1}}\n",
	"version: 1\nqueues: {a: {message_ttl: 30}}\n", "version: 1\nqueues: {a: {message_ttl: ''}}\n", "version: 1\nqueues: {a: {message_ttl: '30'}}\n", "version: 1\nqueues: {a: {message_ttl: 30 s}}\n", "version: 1\nqueues: {a: {message_ttl: 1m1h}}\n",
	"version: 1\nqueues: {a: {max_length_bytes: 5mb}}\n", "version: 1\nqueues: {a: {type: stream, max_age: 7}}\n", "version: 1\nqueues: {a: {delivery_limit: infinite}}\n",
	"version: 1\nqueues: {a: {exclusive: true}}\n", "version: 1\nqueues: {a: {overflow: drop}}\n", "version: 1\nqueues: {a: {contract: some}}\n",
	"version: 1\nqueues: {a: {contract: {survives: fire}}}\n", "version: 1\nqueues: {a: {retry: {max_attempts: 0}}}\n", "version: 1\nqueues: {a: {retry: {delays: 30s}}}\n",
	"version: 1\nqueues: {a: {retry: {delays: [30]}}}\n", "version: 1\nqueues: {a: {retry: {delays: [{delay: 30s}]}}}\n", "version: 1\nqueues: {a: {role: dlq}}\n",
	"version: 1\nqueues: {a: {bindings: [{routing_key: a}]}}\n", "version: 1\nqueues: {a: {bindings: [{exchange: e, routing_keys: [1]}]}}\n", "version: 1\nqueues: {a: {bindings: [{exchange: e, routing_keys: []}]}}\n",
	"version: 1\nqueues: {a: {settings_by: {max_lenght: policy}}}\n", "version: 1\nqueues: {a: {settings_by: argument}}\n",
	"version: 1\nqueues: {a: {loses: {expiry: x}}}\n", "version: 1\nqueues: {'a{n}': {for_each: {n: []}}}\n",
	"version: 1\ndefaults: {queue: {external: true}}\n", "version: 1\ndefaults: {queues: {}}\n",
	"version: 1\nexchanges: {e: {type: ''}}\n", "version: 1\nexchanges: {e: {hash_property: id}}\n", "version: 1\nexchanges: {e: {message_ttl: 5s}}\n",
	"version: 1\npolicies: {p: {pattern: a}}\n", "version: 1\npolicies: {p: {pattern: a, apply_to: everything, definition: {}}}\n",
	"version: 1\npermissions: {u: {read: a}}\n", "version: 1\nconsumers: {c: {queue: q, prefetch: 70000}}\n", "version: 1\npublishers: {c: {mandatory: true}}\n",
	"version: 1\nexternal: {pattern: a}\n", "version: 1\nexternal: [{}]\n", "version: 1\nvhost_settings: {limits: {max_connections: -2}}\n",
}

func TestBadFormsAreRejected(t *testing.T) {
	s := compile(t)
	for _, text := range bad {
		if len(structural([]byte(text))) == 0 {
			t.Errorf("rabbitctl itself takes %q", text)
		}
		if rejects(t, s, []byte(text)) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// values of every kind, and a text that is no word of the language.
var values = []*yaml.Node{
	{Kind: yaml.ScalarNode, Tag: "!!str", Value: "no such word"},
	{Kind: yaml.ScalarNode, Tag: "!!int", Value: "17"},
	{Kind: yaml.ScalarNode, Tag: "!!float", Value: "1.5"},
	{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
	{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{{Kind: yaml.SequenceNode, Tag: "!!seq"}}},
	{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "no-such-key"}, {Kind: yaml.SequenceNode, Tag: "!!seq"}}},
}

// TestSchemaAndDecoderAgree puts a value of each kind at each place of the spec
// that has every key. The schema may reject only what rabbitctl refuses too, and
// must reject each unknown key, wrong kind and unknown word that rabbitctl does.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := compile(t)
	data, err := os.ReadFile(root + "testdata/specs/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Of wrong values, these are beyond a schema; the rest must agree.
	beyond := regexp.MustCompile(`expression|version|must be 1 to 60|known versions`)
	mustBe := regexp.MustCompile(`must be (?:one of )?([a-z_, -]+), not "no such word"`)
	count, allWords := 0, 0
	for _, small := range parts(documents(t, data)[0].Content[0]) {
		var walk func(n *yaml.Node, path string)
		walk = func(n *yaml.Node, path string) {
			for i, c := range n.Content {
				at := path
				if n.Kind == yaml.MappingNode {
					if i%2 == 0 {
						continue
					}
					at += "." + n.Content[i-1].Value
				} else {
					at += fmt.Sprintf("[%d]", i)
				}
				if at == ".version" {
					continue
				}
				var words []string // that rabbitctl says are right here
				for _, v := range values {
					n.Content[i] = v
					count++
					text, err := yaml.Marshal(small)
					if err != nil {
						t.Fatal(err)
					}
					found := structural(text)
					rejected := s.Validate(jsonValue(t, small))
					for _, d := range found {
						if m := mustBe.FindStringSubmatch(d.Summary); m != nil {
							words = append(words, strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' })...)
						}
					}
					must := slices.IndexFunc(found, func(d diag.Diagnostic) bool {
						switch d.Code {
						case "unknown-key", "wrong-type", "missing-unit":
							return true
						}
						return d.Code == "wrong-value" && !beyond.MatchString(d.Summary)
					})
					switch {
					case rejected != nil && len(found) == 0:
						t.Errorf("%s = %s %s: rejected, and rabbitctl takes it: %v", at, v.Tag, v.Value, rejected)
					case rejected == nil && must >= 0:
						t.Errorf("%s = %s %s: accepted, and rabbitctl says: %s", at, v.Tag, v.Value, found[must].Summary)
					}
				}
				for _, w := range words {
					n.Content[i] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: w}
					text, err := yaml.Marshal(small)
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Validate(jsonValue(t, small)); err != nil && len(structural(text)) == 0 {
						t.Errorf("%s = %s: rejected, and rabbitctl takes it: %v", at, w, err)
					}
				}
				allWords += len(words)
				n.Content[i] = c
				walk(c, at)
			}
		}
		walk(small, "")
	}
	if count < 1000 || allWords < 80 {
		t.Errorf("only %d values and %d words were tried", count, allWords)
	}
}

// parts cuts a document into documents with one section, and one object, each.
func parts(root *yaml.Node) []*yaml.Node {
	table := func(content ...*yaml.Node) *yaml.Node {
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content}
	}
	var all []*yaml.Node
	version := root.Content[:2]
	for i := 2; i < len(root.Content); i += 2 {
		section, body := root.Content[i], root.Content[i+1]
		if section.Value != "queues" && section.Value != "exchanges" {
			all = append(all, table(version[0], version[1], section, body))
			continue
		}
		for j := 0; j < len(body.Content); j += 2 {
			all = append(all, table(version[0], version[1], section, table(body.Content[j], body.Content[j+1])))
		}
	}
	return all
}

// TestSchemaHasNoOtherKeys: each key that the schema offers anywhere is one that
// rabbitctl knows at that place.
func TestSchemaHasNoOtherKeys(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal(jsonschema.Spec(), &s); err != nil {
		t.Fatal(err)
	}
	definition := func(name string) map[string]any { return s["definitions"].(map[string]any)[name].(map[string]any) }
	count := 0
	// try writes each property of a schema at a place of a spec, with the value
	// {}; whatever is wrong with that, the key must be known.
	try := func(schema map[string]any, before, after string) {
		for name := range schema["properties"].(map[string]any) {
			count++
			text := before + name + ": {}" + after
			for _, d := range structural([]byte(text)) {
				if d.Code == "unknown-key" && strings.Contains(d.Summary, fmt.Sprintf("%q", name)) {
					t.Errorf("%s: %s", text, d.Summary)
				}
			}
		}
	}
	try(definition("queue"), "version: 1\nqueues: {q: {", "}}\n")
	try(definition("exchange"), "version: 1\nexchanges: {q: {", "}}\n")
	try(definition("binding"), "version: 1\nqueues: {q: {bindings: [{", "}]}}\n")
	try(definition("settings_by")["anyOf"].([]any)[1].(map[string]any), "version: 1\nqueues: {q: {settings_by: {", "}}}\n")
	try(s, "", "\n")
	// The tables inside: each is reached through one property of those above.
	inner := func(of map[string]any, property string) map[string]any {
		p := of["properties"].(map[string]any)[property].(map[string]any)
		for p["properties"] == nil {
			switch {
			case p["additionalProperties"] != nil:
				p = p["additionalProperties"].(map[string]any)
			case p["items"] != nil:
				p = p["items"].(map[string]any)
			default:
				for _, a := range p["anyOf"].([]any) {
					if a := a.(map[string]any); a["properties"] != nil || a["items"] != nil {
						p = a
					}
				}
			}
		}
		return p
	}
	queue := definition("queue")
	for _, name := range []string{"retry", "contract", "dead_letter", "delayed_retry", "loses"} {
		try(inner(queue, name), "version: 1\nqueues: {q: {"+name+": {", "}}}\n")
	}
	try(inner(inner(queue, "retry"), "wait_queue"), "version: 1\nqueues: {q: {retry: {wait_queue: {", "}}}}\n")
	try(inner(queue, "delays"), "version: 1\nqueues: {q: {delays: [{", "}]}}\n")
	try(inner(inner(queue, "contract"), "after_failure"), "version: 1\nqueues: {q: {contract: {after_failure: {", "}}}}\n")
	categories := inner(inner(queue, "dead_letter"), "categories")
	try(categories, "version: 1\nqueues: {q: {dead_letter: {categories: {", "}}}}\n")
	try(inner(categories, "routes"), "version: 1\nqueues: {q: {dead_letter: {categories: {routes: {r: {", "}}}}}}\n")
	try(inner(categories, "otherwise"), "version: 1\nqueues: {q: {dead_letter: {categories: {otherwise: {", "}}}}}\n")
	for _, name := range []string{"policies", "operator_policies", "permissions", "publishers", "consumers"} {
		try(inner(s, name), "version: 1\n"+name+": {x: {", "}}\n")
	}
	try(inner(s, "topic_permissions"), "version: 1\ntopic_permissions: {u: {e: {", "}}}\n")
	for _, name := range []string{"requires", "defaults", "vhost_settings"} {
		try(inner(s, name), "version: 1\n"+name+": {", "}\n")
	}
	try(inner(inner(s, "vhost_settings"), "limits"), "version: 1\nvhost_settings: {limits: {", "}}\n")
	try(inner(s, "variables"), "version: 1\nvariables: {v: {", "}}\n")
	try(inner(s, "external"), "version: 1\nexternal: [{", "}]\n")
	if count < 180 {
		t.Errorf("only %d keys", count)
	}
}

// TestEverySettingHasADescription: that is what editors show.
func TestEverySettingHasADescription(t *testing.T) {
	var s struct {
		Definitions map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	if err := json.Unmarshal(jsonschema.Spec(), &s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"queue", "exchange", "binding"} {
		for key, p := range s.Definitions[name].Properties {
			if !regexp.MustCompile(`\w{3}.*[.?:\w/]$`).MatchString(p.Description) {
				t.Errorf("%s.%s has the description %q", name, key, p.Description)
			}
		}
	}
}
