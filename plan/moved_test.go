package plan

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestMoved: a saved plan goes stale by what it touches, and by nothing else.
func TestMoved(t *testing.T) {
	desired := &caseHost{
		Exchanges: map[string]caseExchange{"x": {Type: "fanout"}},
		Queues:    map[string]caseQueue{"q": {Type: "classic"}, "new": {Type: "classic"}},
		Bindings:  []caseBinding{{From: "x", To: "q"}},
		Policies:  map[string]casePolicy{"p": {Pattern: "^q$", ApplyTo: "queues", Definition: map[string]any{"max-length": 5}}},
	}
	live := func() *caseHost {
		return &caseHost{
			DefaultQueueType: "classic",
			Queues:           map[string]caseQueue{"q": {Type: "classic"}, "other": {Type: "classic"}},
			Policies:         map[string]casePolicy{"theirs": {Pattern: "^(other|new)$", Definition: map[string]any{"max-length": 7}}},
		}
	}
	p, _ := Compute(Input{Desired: desired.topology(t), Live: live().topology(t), Server: Server{Version: versions[2]}})
	data, err := Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*caseHost)
		want   []string
	}{
		{"nothing", func(*caseHost) {}, nil},
		{"a queue that the plan does not touch", func(h *caseHost) { h.Queues["third"] = caseQueue{Type: "quorum"} }, nil},
		{"the queue was made meanwhile", func(h *caseHost) { h.Queues["new"] = caseQueue{Type: "classic"} }, []string{"queue/new"}},
		{"the exchange was made meanwhile", func(h *caseHost) { h.Exchanges = map[string]caseExchange{"x": {Type: "direct"}} }, []string{"exchange/x"}},
		{"the policy of a queue to be made", func(h *caseHost) {
			h.Policies["theirs"] = casePolicy{Pattern: "^(other|new)$", Definition: map[string]any{"max-length": 8}}
		}, []string{"queue/new"}},
		{"an operator policy on everything", func(h *caseHost) {
			h.OperatorPolicies = map[string]casePolicy{"op": {Pattern: "", ApplyTo: "queues", Definition: map[string]any{"max-length": 8}}}
		}, []string{"policy/p", "queue/new"}},
		{"an argument of a queue that the policy matches", func(h *caseHost) {
			h.Queues["q"] = caseQueue{Type: "classic", Arguments: map[string]any{"x-expires": 9}}
		}, []string{"policy/p"}},
		{
			"the default queue type", func(h *caseHost) { h.DefaultQueueType = "quorum" },
			[]string{"policy/p", "exchange/x", "queue/new", "binding/x => queue q"},
		},
	} {
		h := live()
		c.change(h)
		var got []string
		for _, k := range Moved(saved, h.topology(t), nil) {
			got = append(got, k.Address())
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: moved %q, want %q", c.name, got, c.want)
		}
	}
	if got := Moved(saved, &topology.Topology{}, nil); len(got) != len(saved.Changes) {
		t.Errorf("without the virtual host moved %v", got)
	}
}

// TestRemaining: what is left of a saved plan shrinks as it is carried out, and
// what was blocked stays blocked.
func TestRemaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		p, _ := Compute(in)
		data, err := Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		saved, err := Unmarshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if moved := Moved(saved, in.Live, nil); len(moved) > 0 {
			t.Fatalf("moved at once: %v", moved)
		}
		done := map[string]bool{}
		after := predict(in.Live, saved, func(c *Change) bool {
			done[c.ID] = rapid.Bool().Draw(t, "succeeds")
			return done[c.ID]
		})
		for _, c := range Remaining(saved, after, in.Server).Changes {
			if done[c.ID] && len(c.Blocked) == 0 {
				t.Fatalf("%s is done and remains", c.ID)
			}
		}
		if rest := Remaining(saved, Predict(in.Live, saved), in.Server); len(saved.BlockedChanges()) == 0 && !rest.Empty() {
			t.Fatalf("%d changes remain after all", len(rest.Changes))
		}
	})
}
