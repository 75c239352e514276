package flow

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestHostile: bindings whose sets of keys have more states than atoms are in the
// world, and circles of exchanges and queues through them, take bounded work, and
// what is said of single keys is still exact.
func TestHostile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return []string{"#", "*", "a", "b", "#", "c"}[random.IntN(6)] }
	v := &topology.VirtualHost{Name: "v"}
	const many = 300
	for i := range many {
		name := fmt.Sprint(i)
		e := &topology.Exchange{Name: name, Type: "topic", Durable: true, Internal: i > 5}
		if i%3 == 0 {
			e.Arguments = topology.Arguments{"alternate-exchange": fmt.Sprint(random.IntN(many))}
		}
		v.Exchanges = append(v.Exchanges, e)
		q := &topology.Queue{Name: name, Type: topology.Classic, Durable: true, Arguments: topology.Arguments{
			"x-dead-letter-exchange": fmt.Sprint(random.IntN(many)), "x-message-ttl": int64(1),
		}}
		v.Queues = append(v.Queues, q)
		for range 12 {
			b := &topology.Binding{Source: name, Destination: fmt.Sprint(random.IntN(many)), DestinationType: topology.ToQueue}
			if random.IntN(3) == 0 {
				b.DestinationType = topology.ToExchange
			}
			var words []string
			for range 1 + random.IntN(20) {
				words = append(words, word())
			}
			b.RoutingKey = strings.Join(words, ".")
			v.Bindings = append(v.Bindings, b)
		}
	}
	g := New(v, catalog.Newest, Options{})
	for _, e := range v.Exchanges {
		g.Unroutable(e.Name, g.AllKeys())
	}
	for _, q := range v.Queues {
		g.DeadLetters(q.Name)
		g.Fates(q.Name)
	}
	g.Cycles()
	// When the work is used up, what is wide already is still looked up.
	if g.left < -4*maxWork || g.visits > maxVisits+many || g.spent > 2*maxTargets || g.looked > 129*maxLooked {
		t.Errorf("%d steps left, %d visits, %d targets, %d queues looked at", g.left, g.visits, g.spent, g.looked)
	}
	if !g.Rough() {
		t.Error("it is not told that the work was cut off")
	}
	for range 50 {
		var words []string
		for range random.IntN(12) {
			words = append(words, []string{"a", "b", "c", "d"}[random.IntN(4)])
		}
		key, exchange := strings.Join(words, "."), fmt.Sprint(random.IntN(many))
		lost := g.Unroutable(exchange, g.Key(key))
		if routed := len(g.Route(Message{Exchange: exchange, Keys: []string{key}}).Deliveries) > 0; routed == !lost.Certain.Empty() {
			t.Errorf("key %q at exchange %s is routed: %v, said to be lost: %v", key, exchange, routed, !lost.Certain.Empty())
		}
	}
}

// TestLongRing: of a ring of thousands of queues the circle is found once, not once
// for every queue.
func TestLongRing(t *testing.T) {
	v := &topology.VirtualHost{Name: "/"}
	const n = 3000
	for i := range n {
		v.Queues = append(v.Queues, &topology.Queue{
			VirtualHost: "/", Name: fmt.Sprintf("q%d", i), Type: topology.Classic, Durable: true,
			Arguments: topology.Arguments{"x-message-ttl": int64(1), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": fmt.Sprintf("q%d", (i+1)%n)},
		})
	}
	g := New(v, catalog.Newest, Options{})
	if got := g.Cycles(); len(got) != 1 || len(got[0].Hops) != n || !got[0].Dropped {
		t.Errorf("%d cycles", len(got))
	}
	if looked := g.looked; looked > 2*maxLooked {
		t.Errorf("looked at %d queues", looked)
	}
}
