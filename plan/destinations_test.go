package plan

import (
	"reflect"
	"slices"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestMovedRoute: a saved plan is stale when messages that go on no longer arrive
// anywhere, and only then.
func TestMovedRoute(t *testing.T) {
	live := func() *caseHost {
		return &caseHost{
			DefaultQueueType: "classic",
			Exchanges: map[string]caseExchange{
				"direct": {Type: "direct"}, "topic": {Type: "topic"}, "round": {Type: "fanout"}, "back": {Type: "fanout"},
				"ae": {Type: "fanout", Arguments: map[string]any{"alternate-exchange": "topic"}}, "source": {Type: "fanout"},
			},
			Queues: map[string]caseQueue{"dead": {Type: "classic"}, "far": {Type: "classic"}, "live": {Type: "classic"}},
			Bindings: []caseBinding{
				{From: "direct", To: "dead", Key: "k"},
				{From: "topic", To: "far", Key: "a.#"},
				{From: "round", Exchange: "back"},
				{From: "back", Exchange: "round"},
				{From: "back", To: "far"},
			},
		}
	}
	argument := func(exchange, key string) caseQueue {
		q := caseQueue{Type: "classic", Arguments: map[string]any{"x-dead-letter-exchange": exchange}}
		if key != "" {
			q.Arguments["x-dead-letter-routing-key"] = key
		}
		return q
	}
	desired := &caseHost{
		Exchanges: map[string]caseExchange{"new": {Type: "fanout", Arguments: map[string]any{"alternate-exchange": "round"}}},
		Queues: map[string]caseQueue{
			"q1": argument("", "dead"), "q2": argument("direct", "k"), "q3": argument("topic", "a.b"), "q4": argument("round", ""),
			"q5": argument("ae", "a"), "q6": argument("", "q7"), "q7": {Type: "classic"}, "q8": {Type: "classic"},
		},
		Bindings: []caseBinding{{From: "source", To: "live"}},
		Policies: map[string]casePolicy{
			"p": {Pattern: "^live$", ApplyTo: "queues", Definition: map[string]any{"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}},
		},
	}
	saved, _ := Compute(Input{Desired: desired.topology(t), Live: live().topology(t), Server: Server{Version: versions[2]}})
	for _, c := range []struct {
		name   string
		change func(*caseHost)
		want   []string
	}{
		{"nothing", func(*caseHost) {}, nil},
		{"other bindings and queues", func(h *caseHost) {
			h.Queues["more"] = caseQueue{Type: "classic"}
			h.Bindings = append(h.Bindings, caseBinding{From: "direct", To: "more", Key: "other"}, caseBinding{From: "topic", To: "more", Key: "a.b"})
		}, nil},
		{"the dead-letter queue", func(h *caseHost) {
			delete(h.Queues, "dead")
			h.Bindings = h.Bindings[1:]
		}, []string{"policy/p", "queue/q1", "queue/q2"}},
		{"the binding for one key", func(h *caseHost) { h.Bindings[0].Key = "l" }, []string{"queue/q2"}},
		{"a queue at the far end", func(h *caseHost) {
			delete(h.Queues, "far")
			h.Bindings = slices.Delete(h.Bindings, 1, 2)
			h.Bindings = h.Bindings[:3]
		}, []string{"exchange/new", "queue/q3", "queue/q4", "queue/q5"}},
		{"an exchange", func(h *caseHost) {
			delete(h.Exchanges, "source")
		}, []string{"binding/source => queue live"}},
	} {
		h := live()
		c.change(h)
		var got []string
		for _, k := range Moved(saved, h.topology(t), nil) {
			got = append(got, string(k.Kind)+"/"+k.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: moved %q, want %q", c.name, got, c.want)
		}
	}
}

func TestElsewhere(t *testing.T) {
	at := func(name, version string) Server {
		s := Server{ClusterName: name}
		if version != "" {
			v, err := catalog.ParseVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			s.Version = v
		}
		return s
	}
	now := at("a", "4.3.6")
	for _, c := range []struct {
		was  Server
		here bool
	}{{now, true}, {at("", "4.3.6"), true}, {at("", ""), true}, {at("b", "4.3.6"), false}, {at("a", "4.0.5"), false}} {
		if got := Elsewhere(&Plan{Server: c.was}, now); (got == "") != c.here {
			t.Errorf("made for %v: %q", c.was, got)
		}
	}
}

// TestNeedsEmpty: a change that rests on a queue being empty says so, also in its
// file; one that was agreed to, or loses nothing, does not.
func TestNeedsEmpty(t *testing.T) {
	key := topology.Key{Kind: topology.KindQueue, VirtualHost: "/", Name: "q"}
	zero := int64(0)
	in := Input{
		Desired: (&caseHost{Policies: map[string]casePolicy{"p": {Pattern: "^q$", ApplyTo: "queues", Definition: map[string]any{"max-length": 5}}}}).topology(t),
		Live:    (&caseHost{Queues: map[string]caseQueue{"q": {Type: "classic"}}}).topology(t),
		Counts:  map[topology.Key]Counts{key: {Messages: &zero}},
	}
	key.VirtualHost = in.Desired.VirtualHosts[0].Name
	in.Counts = map[topology.Key]Counts{key: {Messages: &zero}}
	p, _ := Compute(in)
	data, err := Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Plan{p, saved} {
		if got := p.NeedsEmpty(); !reflect.DeepEqual(got, []topology.Key{key}) || len(p.BlockedChanges()) > 0 {
			t.Errorf("needs %v empty, blocked %v", got, p.BlockedChanges())
		}
	}
	in.Allowed = []Consent{{Action: "lossy", Kind: topology.KindPolicy, Name: "p"}}
	if p, _ := Compute(in); len(p.NeedsEmpty()) > 0 || len(p.BlockedChanges()) > 0 {
		t.Errorf("agreed to: needs %v empty, blocked %v", p.NeedsEmpty(), p.BlockedChanges())
	}
}
