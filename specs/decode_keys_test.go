package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// freeForm are the places at which any value is right, because RabbitMQ or an
// application gives it its meaning.
var freeForm = []string{
	"variables.env.default", "exchanges.orders.arguments.x-custom", "queues.work.arguments.x-own", "queues.work.ha_params",
	"queues.work.bindings[1].arguments.x-kind", "queues.work.bindings[1].arguments.count",
	"policies.cap.definition.max-length", "operator_policies.limit.definition.max-length",
	"parameters.shovel.move", "parameters.shovel.move.src-uri", "parameters.shovel.move.dest-uri",
	"publishers.web.headers.kind", "queues.photo.{n}.for_each.n[0]", "queues.photo.{n}.for_each.n[1]",
}

// alsoRight are further kinds that a place takes.
var alsoRight = map[string][]string{
	"requires.rabbitmq":            {"integer"},
	"defaults.queue.settings_by":   {"empty map"},
	"defaults.settings_by":         {"empty map"},
	"vhost_settings.settings_by":   {"empty map"},
	"queues.work.hides_policy":     {"text"},
	"queues.work.max_length_bytes": {"integer"}, "queues.work.max_in_memory_bytes": {"integer"},
	"queues.work.stream_max_segment_size_bytes": {"integer"},
	"queues.work.delivery_limit":                {"integer"},
	"queues.work.exclusive":                     {"boolean"},
	"queues.work.retry":                         {"empty map"}, "queues.work.retry.wait_queue": {"empty map"},
	"queues.work.dead_letter": {"text", "empty map"}, "queues.exchange.route.dead_letter": {"text", "empty map"},
	"queues.categorised.dead_letter": {"text", "empty map"},
	"queues.work.contract":           {"empty map"},
	"queues.flat.retry":              {"empty map"}, "queues.flat.retry.wait_queue": {"empty map"},
	"queues.flat.contract": {"empty map"},
	// These are in the defaults: null takes none.
	"exchanges.orders.durable": {"null"}, "queues.work.dead.owner": {"null"},
}

// wrongKinds are values of every kind. No word of the language is "wrong", and
// no text is as long as nothing.
var wrongKinds = map[string]*yaml.Node{
	"text":      {Kind: yaml.ScalarNode, Tag: "!!str", Value: "wrong"},
	"integer":   {Kind: yaml.ScalarNode, Tag: "!!int", Value: "17"},
	"float":     {Kind: yaml.ScalarNode, Tag: "!!float", Value: "1.5"},
	"boolean":   {Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
	"null":      {Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"},
	"list":      {Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.SequenceNode, Tag: "!!seq"}}},
	"map":       {Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "no-such-key"}, {Kind: yaml.SequenceNode, Tag: "!!seq"}}},
	"empty map": {Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle},
}

// kindOf names the kind of a right value.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "list"
	case yaml.MappingNode:
		return "map"
	}
	return map[string]string{"!!str": "text", "!!int": "integer", "!!float": "float", "!!bool": "boolean", "!!null": "null"}[n.Tag]
}

// valuePlaces lists the path of every value of a document with the way to it.
func valuePlaces(n *yaml.Node, path string, at []int, f func(path string, at []int, value *yaml.Node)) {
	for i, c := range n.Content {
		sub := path
		switch n.Kind {
		case yaml.MappingNode:
			if i%2 == 0 {
				continue
			}
			sub = strings.TrimPrefix(path+"."+n.Content[i-1].Value, ".")
		case yaml.SequenceNode:
			sub = path + "[" + string(rune('0'+i)) + "]"
		}
		way := append(slices.Clone(at), i)
		f(sub, way, c)
		valuePlaces(c, sub, way, f)
	}
}

// replaced is the text of a document with another value in one place, and that
// value as it is read back.
func replaced(t *testing.T, text string, at []int, value *yaml.Node) (string, *yaml.Node) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	n := doc.Content[0]
	for _, i := range at[:len(at)-1] {
		n = n.Content[i]
	}
	n.Content[at[len(at)-1]] = value
	out, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	var again yaml.Node
	if err := yaml.Unmarshal(out, &again); err != nil {
		t.Fatal(err)
	}
	n = again.Content[0]
	for _, i := range at {
		n = n.Content[i]
	}
	return string(out), n
}

// TestWrongKinds replaces each value of a spec with every key by values of all
// other kinds: each is a finding at its place.
func TestWrongKinds(t *testing.T) {
	text, _, _ := strings.Cut(string(testFile(t, "complete.yaml").Data), "\n---\n")
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	tried := 0
	valuePlaces(doc.Content[0], "", nil, func(path string, at []int, right *yaml.Node) {
		if slices.Contains(freeForm, path) {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(wrongKinds)) {
			if name == kindOf(right) && name != "map" && name != "list" || slices.Contains(alsoRight[path], name) {
				continue
			}
			if name == "null" && isObject(path) || name == "empty map" && emptyIsRight(path, right) || name == "map" && freeMap(path) {
				continue
			}
			tried++
			changed, value := replaced(t, text, at, wrongKinds[name])
			spec, list := load(changed)
			if spec == nil {
				t.Fatalf("%s: no spec", path)
			}
			if !slices.ContainsFunc(lines(list), func(l string) bool { return isAt(l, value) }) {
				t.Errorf("%s: a value of kind %s has no finding at %d:%d, only\n%s", path, name, value.Line, value.Column, texts(list))
			}
			if !list.HasStructural() {
				t.Errorf("%s: a value of kind %s is no structural error", path, name)
			}
		}
	})
	if tried < 1000 {
		t.Errorf("only %d values were tried", tried)
	}
}

// isAt reports whether a finding is at the value or, for collections, inside it:
// an unknown key, or a list in a list.
func isAt(l string, v *yaml.Node) bool {
	place, _, _ := strings.Cut(l, " ")
	for _, n := range append([]*yaml.Node{v}, v.Content...) {
		if place == fmt.Sprintf("%d:%d", n.Line, n.Column) {
			return true
		}
	}
	return false
}

// isObject: a named object or section with nothing said of it is right.
func isObject(path string) bool {
	parts := strings.Split(path, ".")
	sections := []string{"exchanges", "queues", "publishers", "consumers", "policies", "operator_policies", "parameters", "permissions", "topic_permissions"}
	if len(parts) == 1 {
		return slices.Contains(sections, path) || path == "defaults" || path == "variables"
	}
	switch path {
	case "variables.env", "exchanges.orders", "exchanges.delayed", "exchanges.hashed", "exchanges.hashed.by.property", "exchanges.recent",
		"queues.work", "queues.flat", "queues.exchange.route", "queues.categorised", "queues.work.dead", "queues.delay.5m",
		"queues.photo.{n}", "parameters.shovel", "topic_permissions.service":
		return true
	}
	return false
}

// emptyIsRight: an empty map is right where no key must be there.
func emptyIsRight(path string, right *yaml.Node) bool {
	if right.Kind != yaml.MappingNode {
		return false
	}
	return !slices.Contains([]string{
		"policies.cap", "operator_policies.limit", "permissions.service", "topic_permissions.service.orders",
		"publishers.web", "publishers.job", "consumers.worker", "external[0]", "queues.work.bindings[0]", "queues.work.bindings[1]",
		"exchanges.orders.bindings[0]", "queues.work.retry.delays[1]", "queues.delay.5m.delays[0]", "queues.work.contract.after_failure",
		"queues.categorised.dead_letter.categories", "queues.categorised.dead_letter.categories.routes.transient",
		"queues.categorised.dead_letter.categories.otherwise",
	}, path)
}

// freeMap: any key is right there.
func freeMap(path string) bool {
	return slices.Contains([]string{
		"exchanges.orders.arguments", "queues.work.arguments", "queues.work.bindings[1].arguments", "publishers.web.headers",
		"policies.cap.definition", "operator_policies.limit.definition", "parameters.shovel", "variables",
	}, path) || strings.HasSuffix(path, "for_each")
}

// TestEveryKey holds the keys that can be read against those of complete.yaml.
func TestEveryKey(t *testing.T) {
	text := testFile(t, "complete.yaml").Data
	written := map[string]bool{}
	var doc yaml.Node
	for d := yaml.NewDecoder(strings.NewReader(string(text))); d.Decode(&doc) == nil; {
		valuePlaces(doc.Content[0], "", nil, func(path string, _ []int, _ *yaml.Node) {
			written[path[strings.LastIndexByte(path, '.')+1:]] = true
		})
	}
	known := slices.Concat(queueFields.names(), settingKeys, exchangeFields.names(), slices.Collect(maps.Keys(exchangeArguments)),
		slices.Collect(maps.Keys(documentKeys)), slices.Collect(maps.Keys(delayedRetryKeys)), queueLosses, exchangeLosses,
		bindingFields.names(), retryFields(&Queue{}).names(), waitQueueFields.names(), delayFields.names(), deadLetterFields.names(),
		categoryFields.names(), categoryRouteFields.names(), contractFields.names(), policyFields.names(), permissionFields.names(),
		topicPermissionFields.names(), publisherFields.names(), consumerFields.names(), externalFields.names(), settingsFields.names(),
		limitFields.names(), []string{"policy_priority", "rabbitmq", "plugins", "for_each", "default"})
	for _, key := range known {
		if !written[key] && key != "cluster" { // refused in this release
			t.Errorf("testdata/specs/complete.yaml does not have the key %q", key)
		}
	}
}
