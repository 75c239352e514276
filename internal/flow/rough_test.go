package flow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestRough: where a pattern has more cases than are worked out, nothing is said to be
// lost that is not.
func TestRough(t *testing.T) {
	for _, c := range []struct {
		name, key, alternate string
		rough, lost          bool
	}{
		{"small", "#.a.*.*", "", false, true},
		{"small, with an alternate exchange", "#.a.*.*", "rest", false, false},
		{"wide", "#.a" + strings.Repeat(".*", 20), "", true, true},
		{"wide, with an alternate exchange", "#.a" + strings.Repeat(".*", 20), "rest", true, false},
	} {
		x := &topology.Exchange{Name: "x", Type: "topic", Durable: true}
		if c.alternate != "" {
			x.Arguments = topology.Arguments{"alternate-exchange": c.alternate}
		}
		v := &topology.VirtualHost{
			Name:      "v",
			Exchanges: []*topology.Exchange{x, {Name: "rest", Type: "fanout", Durable: true}},
			Queues:    []*topology.Queue{{Name: "q", Type: topology.Classic, Durable: true}},
			Bindings: []*topology.Binding{
				{Source: "x", Destination: "q", DestinationType: topology.ToQueue, RoutingKey: c.key},
				{Source: "rest", Destination: "q", DestinationType: topology.ToQueue},
			},
		}
		g := New(v, catalog.Newest, Options{})
		lost := g.Unroutable("x", g.AllKeys()).Certain
		if got := !lost.Empty(); got && !c.lost {
			t.Errorf("%s: %q is said to be lost", c.name, lost.Example())
		}
		if g.Rough() != c.rough {
			t.Errorf("%s: rough is %v", c.name, g.Rough())
		}
	}
}

// ring is n exchanges, each bound to the next, the last to the first; each has a queue.
func ring(n int) *topology.VirtualHost {
	v := &topology.VirtualHost{Name: "v"}
	for i := range n {
		name, next := fmt.Sprintf("x%d", i), fmt.Sprintf("x%d", (i+1)%n)
		v.Exchanges = append(v.Exchanges, &topology.Exchange{
			Name: name, Type: "topic", Durable: true, Arguments: topology.Arguments{"alternate-exchange": next},
		})
		v.Queues = append(v.Queues, &topology.Queue{
			Name: name, Type: topology.Classic, Durable: true,
			Arguments: topology.Arguments{"x-message-ttl": int64(1), "x-dead-letter-exchange": next, "x-dead-letter-routing-key": name},
		})
		v.Bindings = append(
			v.Bindings,
			&topology.Binding{Source: name, Destination: next, DestinationType: topology.ToExchange, RoutingKey: "#"},
			&topology.Binding{Source: name, Destination: name, DestinationType: topology.ToQueue, RoutingKey: "a"},
		)
	}
	return v
}

// TestRingOfExchanges: whatever is asked of thousands of exchanges that all lead to each
// other, so many are visited and no more, and it is told that not all was worked out.
func TestRingOfExchanges(t *testing.T) {
	const n = 5000
	v := ring(n)
	g := New(v, catalog.Newest, Options{})
	for _, e := range v.Exchanges {
		g.Unroutable(e.Name, g.AllKeys())
		if g.Open(e.Name) {
			t.Fatalf("exchange %s is said to lead somewhere unknown", e.Name)
		}
	}
	if len(g.ReachedFrom([]string{"x1", "x7"})) != n {
		t.Error("not every queue is reached")
	}
	if g.visits > 10*n || g.Rough() {
		t.Errorf("%d exchanges visited for what needs each once, rough: %v", g.visits, g.Rough())
	}
	for _, q := range v.Queues {
		g.DeadLetters(q.Name)
		g.Fates(q.Name)
	}
	g.Cycles()
	if g.visits > maxVisits+2*n || !g.Rough() {
		t.Errorf("%d exchanges visited, rough: %v", g.visits, g.Rough())
	}
}

// TestManyBindingsOfOneQueue: sets of thousands of bindings are united half by half.
func TestManyBindingsOfOneQueue(t *testing.T) {
	v := &topology.VirtualHost{
		Name:      "v",
		Exchanges: []*topology.Exchange{{Name: "x", Type: "topic", Durable: true}},
		Queues:    []*topology.Queue{{Name: "q", Type: topology.Classic, Durable: true}},
	}
	const n = 5000
	for i := range n {
		v.Bindings = append(v.Bindings, &topology.Binding{
			Source: "x", Destination: "q", DestinationType: topology.ToQueue, RoutingKey: fmt.Sprintf("a%d.*.b%d.#", i%70, i),
		})
	}
	g := New(v, catalog.Newest, Options{})
	reach := g.Reach("x", g.AllKeys())
	if len(reach.Targets) != 1 || reach.Targets[0].Keys.Wide() || !reach.Targets[0].Keys.Contains("a69.x.b4969.y.z") || reach.Targets[0].Keys.Contains("a69.x.b4968") {
		t.Error("the keys are wrong")
	}
	if used := maxWork - g.left; used > n*n/10 {
		t.Errorf("%d steps for %d bindings", used, n)
	}
}
