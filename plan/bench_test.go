package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// large is a virtual host of n queues with a binding and a generated policy each
// and one dead-letter exchange for all.
func large(n int) *topology.Topology {
	v := &topology.VirtualHost{Name: "v", DefaultQueueType: topology.Classic}
	v.Exchanges = []*topology.Exchange{{VirtualHost: "v", Name: "x", Type: "topic", Durable: true}, {VirtualHost: "v", Name: "dlx", Type: "fanout", Durable: true}}
	v.Queues = []*topology.Queue{{VirtualHost: "v", Name: "dead", Type: topology.Quorum, Durable: true}}
	v.Bindings = []*topology.Binding{{VirtualHost: "v", Source: "dlx", Destination: "dead", DestinationType: topology.ToQueue}}
	for i := range n {
		name := fmt.Sprintf("q%05d", i)
		v.Queues = append(v.Queues, &topology.Queue{
			VirtualHost: "v", Name: name, Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{"x-max-length": int64(1000)},
			Intent: &topology.QueueIntent{Settings: map[string]topology.SettingValue{
				"max-length": {Value: int64(1000)}, "delivery-limit": {Value: int64(4)}, "dead-letter-exchange": {Value: "dlx"},
			}},
		})
		v.Bindings = append(v.Bindings, &topology.Binding{VirtualHost: "v", Source: "x", Destination: name, DestinationType: topology.ToQueue, RoutingKey: name + ".#"})
		v.Policies = append(v.Policies, &topology.Policy{
			VirtualHost: "v", Name: "rabbitctl:" + name, Pattern: "^" + name + "$", ApplyTo: "queues", Priority: 1000, Queue: name,
			Definition: topology.Arguments{"delivery-limit": int64(4), "dead-letter-exchange": "dlx"},
		})
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
}

func benchmark(b *testing.B, in Input, changes int) {
	in.Server.Version = versions[2]
	for b.Loop() {
		p, _ := Compute(in)
		if len(p.Changes) != changes {
			b.Fatalf("%d changes, want %d", len(p.Changes), changes)
		}
	}
}

func BenchmarkUnchanged20000(b *testing.B) {
	in := Input{Desired: large(20000), Live: large(20000)}
	benchmark(b, in, 0)
}

func BenchmarkCreate5000(b *testing.B) {
	benchmark(b, Input{Desired: large(5000), Live: &topology.Topology{}}, 15005)
}

// BenchmarkPolicies5000: every policy of as many live queues changes.
func BenchmarkPolicies5000(b *testing.B) {
	live := large(5000)
	for _, p := range live.VirtualHosts[0].Policies {
		p.Definition = topology.Arguments{"dead-letter-exchange": "dlx"}
	}
	benchmark(b, Input{Desired: large(5000), Live: live}, 5000)
}

// BenchmarkDeletes5000: as many queues leave as stay, with what belongs to them.
func BenchmarkDeletes5000(b *testing.B) {
	in := Input{Desired: large(5000), Live: large(10000), Counts: map[topology.Key]Counts{}}
	view := &ownership.View{Stack: "s", Ours: map[topology.Key]ownership.State{}}
	none := int64(0)
	for _, o := range in.Live.VirtualHosts[0].Objects() {
		view.Ours[o.Key()] = ownership.Owned
		in.Counts[o.Key()] = Counts{Messages: &none, Consumers: &none}
	}
	in.Owners = map[string]*ownership.View{"v": view}
	benchmark(b, in, 15000)
}

// TestLinearInSize: a plan for 5,000 queues with one dead-letter exchange has a
// few edges a queue and not one for every pair.
func TestLinearInSize(t *testing.T) {
	const n = 5000
	start := time.Now()
	p, _ := Compute(Input{Desired: large(n), Live: &topology.Topology{}, Server: Server{Version: versions[2]}})
	edges := 0
	for _, c := range p.Changes {
		edges += len(c.Needs)
	}
	for _, members := range p.Routes {
		edges += len(members)
	}
	if edges > 10*n {
		t.Errorf("%d edges for %d queues", edges, n)
	}
	if len(p.Changes) != 3*n+5 {
		t.Errorf("%d changes", len(p.Changes))
	}
	if spent := time.Since(start); spent > 20*time.Second {
		t.Errorf("took %s", spent)
	}
}
