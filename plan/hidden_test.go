package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestCase33: an override that somebody put up is noted, and nothing is changed.
func TestCase33(t *testing.T) {
	own := func() *topology.Policy {
		return &topology.Policy{VirtualHost: "/", Name: "pol.1", Pattern: "^work", ApplyTo: "queues", Priority: 10, Definition: topology.Arguments{"max-length": int64(100)}}
	}
	over := &topology.Policy{VirtualHost: "/", Name: "overrides.pol.1", Pattern: "^work", ApplyTo: "queues", Priority: 110, Definition: topology.Arguments{"max-length": int64(7)}}
	desired, live := &topology.VirtualHost{Name: "/"}, &topology.VirtualHost{Name: "/"}
	for i := range 14 {
		q := &topology.Queue{VirtualHost: "/", Name: fmt.Sprintf("work.%02d", i), Type: topology.Classic, Durable: true}
		live.Queues = append(live.Queues, q)
		if i == 0 {
			desired.Queues = append(desired.Queues, q)
		}
	}
	desired.Policies, live.Policies = []*topology.Policy{own()}, []*topology.Policy{own(), over}
	in := Input{
		Desired: &topology.Topology{VirtualHosts: []*topology.VirtualHost{desired}}, Live: &topology.Topology{VirtualHosts: []*topology.VirtualHost{live}},
		Server: Server{Version: catalog.V(4, 3)},
	}
	p, _ := Compute(in)
	want := Note{Key: own().Key(), Code: "policy-hidden", Text: `hidden by the policy "overrides.pol.1", which is not in the spec, on 14 queues: it has no effect there`}
	if !p.Empty() || !slices.Contains(p.Notes, want) {
		t.Errorf("%d changes, notes %+v", len(p.Changes), p.Notes)
	}
	over.Priority = 1
	if p, _ := Compute(in); len(p.Notes) > 0 {
		t.Errorf("an override of lower priority is noted: %+v", p.Notes)
	}
}
