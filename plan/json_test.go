package plan

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// sample is an input with every kind of object and much to change.
func sample() Input {
	text, yes := "orders of the shop", true
	desired := &topology.VirtualHost{
		Name: "shop",
		Settings: &topology.VirtualHostSettings{
			VirtualHost: "shop", Description: &text, Tags: []string{"a"}, DefaultQueueType: "quorum",
			Limits: map[string]int64{"max-queues": 7}, ProtectFromDeletion: &yes,
		},
		Permissions:      []*topology.Permission{{VirtualHost: "shop", User: "app", Configure: "", Write: "^a", Read: ".*"}},
		TopicPermissions: []*topology.TopicPermission{{VirtualHost: "shop", User: "app", Exchange: "", Write: "a", Read: ""}},
		Parameters: []*topology.Parameter{{
			VirtualHost: "shop", Component: "shovel", Name: "s",
			Value: map[string]any{"src-uri": "amqp://u:${env:SHOVEL_PASSWORD}@h", "n": int64(1), "f": 5.0, "list": []any{1.5, nil, "x"}},
		}},
		OperatorPolicies: []*topology.Policy{{VirtualHost: "shop", Name: "op", Operator: true, Pattern: "", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(5)}}},
		Policies: []*topology.Policy{{
			VirtualHost: "shop", Name: "rabbitctl:q", Queue: "q", Pattern: "^q$", ApplyTo: "queues", Priority: 1000,
			Definition: topology.Arguments{"dead-letter-exchange": "x"},
		}},
		Exchanges: []*topology.Exchange{
			{VirtualHost: "shop", Name: "x", Type: "fanout", Durable: true},
			{VirtualHost: "shop", Name: "z", Type: "topic", Durable: true, InternalUnknown: true, Arguments: topology.Arguments{"alternate-exchange": "x"}},
		},
		Queues: []*topology.Queue{
			{VirtualHost: "shop", Name: "q", Type: "quorum", Durable: true, Arguments: topology.Arguments{"x-max-length": int64(9)}},
			{VirtualHost: "shop", Name: "dead\u202e\x7f", Durable: true},
		},
		Bindings: []*topology.Binding{
			{VirtualHost: "shop", Source: "x", Destination: "dead\u202e\x7f", DestinationType: "queue", Arguments: topology.Arguments{"f": 5.0, "i": int64(5)}},
			{VirtualHost: "shop", Source: "z", Destination: "x", DestinationType: "exchange", RoutingKey: "a.#"},
		},
	}
	live := &topology.VirtualHost{
		Name:     "shop",
		Settings: &topology.VirtualHostSettings{VirtualHost: "shop"},
		Queues:   []*topology.Queue{{VirtualHost: "shop", Name: "q", Type: "classic", Durable: true}, {VirtualHost: "shop", Name: "other", Type: "classic", Durable: true}},
		Parameters: []*topology.Parameter{{
			VirtualHost: "shop", Component: "shovel", Name: "s", Value: map[string]any{"src-uri": "amqp://u:hunter2@other"},
		}},
	}
	n := int64(12)
	return Input{
		Desired: &topology.Topology{VirtualHosts: []*topology.VirtualHost{desired}},
		Live:    &topology.Topology{VirtualHosts: []*topology.VirtualHost{live}},
		Server:  Server{Version: versions[2], ClusterName: "c1"}, Digest: func() string { return "abc" },
		Counts: map[topology.Key]Counts{{Kind: topology.KindQueue, VirtualHost: "shop", Name: "q"}: {Messages: &n, Consumers: &n}},
	}
}

// stripped is a plan without what its JSON form leaves out.
func stripped(p *Plan) *Plan {
	n := *p
	n.wantsCounts, n.Server.ExchangeTypes = nil, nil
	n.Changes = nil
	for _, c := range p.Changes {
		change := *c
		for _, o := range []*topology.Object{&change.Before, &change.After} {
			switch v := (*o).(type) {
			case *topology.Queue:
				q := *v
				q.Intent, q.Position = nil, topology.Position{}
				if len(q.Arguments) == 0 {
					q.Arguments = nil
				}
				*o = &q
			case *topology.Parameter:
				safe, _ := mask(v.Value)
				p := *v
				p.Value = safe
				*o = &p
			case *topology.Exchange:
				e := *v
				e.Internal = e.Internal && !e.InternalUnknown
				*o = &e
			}
		}
		n.Changes = append(n.Changes, &change)
	}
	return &n
}

func roundTrip(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *Plan,
) {
	t.Helper()
	data, err := Marshal(p)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	if !IsPlanFile(data) {
		t.Fatalf("IsPlanFile is false for\n%s", data)
	}
	got, err := Unmarshal(data)
	if err != nil {
		t.Fatalf("Unmarshal: %v", err)
	}
	want := stripped(p)
	if len(want.Changes) != len(got.Changes) {
		t.Fatalf("%d changes, want %d", len(got.Changes), len(want.Changes))
	}
	for i, c := range want.Changes {
		g := got.Changes[i]
		if c.ID != g.ID || c.Key != g.Key || c.Action != g.Action || !reflect.DeepEqual(c.Before, g.Before) || !reflect.DeepEqual(c.After, g.After) ||
			!reflect.DeepEqual(c.Cost, g.Cost) || !reflect.DeepEqual(c.Blocked, g.Blocked) || len(c.Needs) != len(g.Needs) || len(c.Fields) != len(g.Fields) {
			t.Fatalf("change %d:\n%+v\nwant\n%+v", i, g, c)
		}
	}
	again, err := Marshal(got)
	if err != nil || string(again) != string(data) {
		t.Fatalf("a second round gives another text (%v)", err)
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	p, _ := Compute(sample())
	if len(p.Changes) < 12 {
		t.Fatalf("the sample has only %d changes", len(p.Changes))
	}
	roundTrip(t, p)
	data, _ := Marshal(p)
	if strings.ContainsAny(string(data), "\u202e\x7f") {
		t.Error("characters that act on a terminal are in the text as they are")
	}
	if !strings.Contains(string(data), `"delete",`) {
		t.Error("a replacement is not shown as a delete and a create")
	}
	rapid.Check(t, func(t *rapid.T) {
		p, _ := Compute(draw(t))
		roundTrip(t, p)
	})
}

// TestSecretsStayOut: neither JSON form nor fields nor fingerprints hold a secret.
func TestSecretsStayOut(t *testing.T) {
	in := sample()
	p, found := Compute(in)
	for _, c := range p.Changes {
		for _, f := range c.Fields {
			if strings.Contains(topology.Text(f.Old)+topology.Text(f.New), "hunter2") {
				t.Errorf("field %q of %s holds the secret", f.Name, c.Key)
			}
		}
	}
	data, err := Marshal(p)
	if err != nil || strings.Contains(string(data), "hunter2") || !strings.Contains(string(data), "${env:SHOVEL_PASSWORD}") {
		t.Errorf("Marshal: %v, or the secret is in it, or the reference is not", err)
	}
	for _, d := range found {
		if strings.Contains(d.Summary+d.Detail, "hunter2") {
			t.Errorf("a finding holds the secret: %s", d.Summary)
		}
	}
	// The secret is not part of the fingerprint either: another one gives the same.
	in.Live.VirtualHosts[0].Parameters[0].Value = map[string]any{"src-uri": "amqp://u:changed@other"}
	if moved := Moved(p, in.Live, nil); len(moved) != 0 {
		t.Errorf("moved: %v", moved)
	}

	in.Desired.VirtualHosts[0].Parameters[0].Value = map[string]any{
		"src-uri": "amqp://u:s3cret/x@y@h", "password": "topsecret", "dest-uri": []any{"amqps://h?password=quiet&x=1"},
	}
	p, _ = Compute(in)
	if _, err := Marshal(p); err == nil || !strings.Contains(err.Error(), "shovel/s") {
		t.Errorf("Marshal of a raw secret: %v", err)
	}
	data, err = MarshalMasked(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"s3cret", "topsecret", "quiet", "hunter2"} {
		if strings.Contains(string(data), secret) {
			t.Errorf("%q is in the masked form", secret)
		}
	}
	if _, err := Unmarshal(data); err == nil || !strings.Contains(err.Error(), "masked") {
		t.Errorf("Unmarshal of a masked plan: %v", err)
	}
}

func TestReferencesMatchLiveValues(t *testing.T) {
	for _, c := range []struct {
		want, have any
		equal      bool
	}{
		{"amqp://u:${env:P}@h", "amqp://u:hunter2@h", true},
		{"amqp://u:${env:P}@h", "amqp://v:hunter2@h", false},
		{"${env:A}-${env:B}", "x-y", true},
		{"${env:A}-${env:B}", "xy", false},
		{[]any{"${env:A}"}, []any{"x"}, true},
		{map[string]any{"u": "${env:A}"}, map[string]any{"u": "x", "w": "y"}, false},
		{"10", int64(10), false},
	} {
		if got := equalValue(c.want, c.have); got != c.equal {
			t.Errorf("equalValue(%v, %v) = %v", c.want, c.have, got)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	p, _ := Compute(sample())
	data, err := Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(data)
	for name, text := range map[string]string{
		"nothing":         "",
		"a list":          "[]",
		"something after": whole + "{}",
		"a future format": strings.Replace(whole, `"format_version": "1.0"`, `"format_version": "2.0"`, 1),
		"another action":  strings.Replace(whole, "\"create\"\n      ]", "\"destroy\"\n      ]", 1),
		"another kind":    strings.Replace(whole, `"kind": "queue"`, `"kind": "topic"`, 1),
		"another object":  strings.Replace(whole, `"name": "q",`, `"name": "r",`, 1),
		"a wrong ID":      strings.Replace(whole, `"id": "queue/shop/q"`, `"id": "queue/shop/r"`, 1),
		"a huge number":   strings.Replace(whole, `"priority": 1000`, `"priority": 99999999999999999999`, 1),
		"cut off":         whole[:len(whole)/2],
	} {
		if text == whole {
			t.Errorf("%s: the text is not changed", name)
		}
		if _, err := Unmarshal([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A later 1.x may add fields.
	if _, err := Unmarshal([]byte(strings.Replace(whole, `"format_version": "1.0"`, `"format_version": "1.4", "new": 1`, 1))); err != nil {
		t.Errorf("1.4: %v", err)
	}
}

func TestIsPlanFile(t *testing.T) {
	for text, want := range map[string]bool{
		`{"format_version":"1.0","changes":[],"routes":{}}`:            true,
		"\n {\"routes\":{},\"changes\":[],\"format_version\":\"1.0\"}": true,
		`{"format_version":"1.0","checked":3}`:                         false,
		`{"rabbit_version":"4.3.6","queues":[]}`:                       false,
		"version: 1\nqueues: {}\n":                                     false,
		`[]`:                                                           false,
		`{`:                                                            false,
		``:                                                             false,
	} {
		if got := IsPlanFile([]byte(text)); got != want {
			t.Errorf("IsPlanFile(%q) = %v", text, got)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	p, _ := Compute(sample())
	data, err := Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format_version":"1.0","changes":[{"id":"vhost/","object":{"kind":"vhost"},"actions":["create"],"after":{"kind":"vhost"}}],"routes":{"a":["a"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Unmarshal(data)
		if err != nil {
			return
		}
		Moved(p, &topology.Topology{}, nil)
		Remaining(p, &topology.Topology{}, p.Server)
		if _, err := MarshalMasked(p); err != nil {
			t.Errorf("cannot be written again: %v", err)
		}
	})
}

// TestSchema holds plans against docs/plan.schema.json, and the schema against a
// plan that it must refuse.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("../docs/plan.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	p, _ := Compute(sample())
	data, err := Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	s := schemaChecker{root: schema}
	check := func(data []byte) []string {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		s.errors = nil
		s.check(schema, v, "plan")
		return s.errors
	}
	if errors := check(data); len(errors) > 0 {
		t.Errorf("the plan does not follow the schema:\n%s", strings.Join(errors, "\n"))
	}
	for _, change := range [][2]string{{`"unlock"`, `"unlocks"`}, {`"actions": [`, `"actions": ["destroy", `}, {`"messages": 12`, `"messages": "12"`}, {`"kind": "binding"`, `"kind": "bind"`}} {
		bad := strings.Replace(string(data), change[0], change[1], 1)
		if bad == string(data) {
			t.Errorf("%s is not in the sample", change[0])
		} else if len(check([]byte(bad))) == 0 {
			t.Errorf("the schema takes %s", change[1])
		}
	}
}
