package flow

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// everyHeaders are the headers that the enumeration tries.
var everyHeaders = []map[string]any{
	nil, {"h": "1"}, {"h": int64(1)}, {"k": true}, {"x-h": "1"}, {"h": "1", "k": true, "x-h": "1", "X-k": ""},
}

// wants are keys and headers of messages and where single ones go.
func wants(g *Graph, exchange string, keys []string) (may, must []string) {
	for i, h := range everyHeaders {
		var some, sure []string
		for _, d := range g.Route(Message{Exchange: exchange, Keys: keys, Headers: h}).Deliveries {
			some = append(some, d.Queue)
			if !d.Chance {
				sure = append(sure, d.Queue)
			}
		}
		may = append(may, some...)
		if i == 0 {
			must = sure
		}
		must = slices.DeleteFunc(must, func(q string) bool { return !slices.Contains(sure, q) })
	}
	return may, must
}

// TestSpreadAgreesWithEnumeration holds what is said of sets of messages to what
// happens to each message of a small alphabet.
func TestSpreadAgreesWithEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vhost := drawTopology(t, catalog.V(4, 3))
		g := New(vhost, catalog.V(4, 3), Options{})
		plain := !slices.ContainsFunc(vhost.Exchanges, func(e *topology.Exchange) bool { k := kinds[e.Type]; return k == headers || k == oneOf })
		exchange := rapid.SampledFrom([]string{"", "e0", "e1", "amq.fanout"}).Draw(t, "exchange")
		k := g.minus(g.patterns(rapid.SliceOfN(anyPattern(), 1, 3).Draw(t, "in")), g.patterns(rapid.SliceOfN(anyPattern(), 0, 2).Draw(t, "out")))
		c := class{keys: k}
		var copies []string
		if rapid.Bool().Draw(t, "copied") {
			copies = []string{rapid.SampledFrom([]string{"a", "b.a", "q1", "a.b"}).Draw(t, "copy")}
			c.cc = ccOf(copies)
		}
		reach, lost := g.spread(exchange, c, anyHeaders), g.lost(exchange, c, anyHeaders)
		for _, key := range append(shortKeys(), "q1", "q2", "a.b") {
			if !k.Contains(key) {
				continue
			}
			may, must := wants(g, exchange, append([]string{key}, copies...))
			for _, q := range vhost.Queues {
				target := reach.Target(q.Name)
				said := target != nil && target.Keys.Contains(key)
				sure := target != nil && target.Certain.Contains(key)
				comes := slices.Contains(may, q.Name)
				switch {
				case comes && !said:
					t.Fatalf("%q from %q comes to %q, and the spread does not say so\n%s", key, exchange, q.Name, describe(vhost))
				case sure && !slices.Contains(must, q.Name):
					t.Fatalf("%q from %q does not certainly come to %q\n%s", key, exchange, q.Name, describe(vhost))
				case plain && (said != comes || sure != comes):
					t.Fatalf("%q from %q comes to %q: %v, said %v, certainly %v\n%s", key, exchange, q.Name, comes, said, sure, describe(vhost))
				}
			}
			switch {
			case lost.Certain.Contains(key) && len(may) > 0:
				t.Fatalf("%q %q from %q is said to be lost and comes to %q\n%s", key, copies, exchange, may, describe(vhost))
			case !lost.Possible.Contains(key) && len(must) == 0 && !chosen(g, exchange, append([]string{key}, copies...)):
				t.Fatalf("%q %q from %q is said to arrive and may be lost\n%s", key, copies, exchange, describe(vhost))
			case plain && copies == nil && (lost.Certain.Contains(key) != (len(may) == 0) || lost.Possible != lost.Certain):
				t.Fatalf("%q from %q comes to %q; lost: certainly %v, possibly %v\n%s", key, exchange, may, lost.Certain.Contains(key), lost.Possible.Contains(key), describe(vhost))
			}
		}
	})
}

// chosen reports whether, whatever the headers, the message comes to some queue,
// though it is a matter of chance or of headers to which.
func chosen(g *Graph, exchange string, keys []string) bool {
	return !slices.ContainsFunc(everyHeaders, func(h map[string]any) bool {
		return len(g.Route(Message{Exchange: exchange, Keys: keys, Headers: h}).Deliveries) == 0
	})
}

// drawFlow adds dead-letter routes and publishers with plain keys.
func drawFlow(t *rapid.T) *topology.VirtualHost {
	vhost := drawTopology(t, catalog.V(3, 10))
	for _, e := range vhost.Exchanges {
		if e.Type == "headers" {
			e.Type = "topic"
		}
	}
	for _, q := range vhost.Queues {
		if rapid.Bool().Draw(t, "dead letters") {
			q.Arguments = topology.Arguments{"x-dead-letter-exchange": rapid.SampledFrom([]string{"", "e0", "e1", "e2", "missing"}).Draw(t, "exchange")}
			if rapid.Bool().Draw(t, "fixed") {
				q.Arguments["x-dead-letter-routing-key"] = rapid.SampledFrom([]string{"a", "b", "q0", "a.b"}).Draw(t, "key")
			}
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "publishers") {
		p := &topology.Publisher{Name: fmt.Sprint(i), Exchange: rapid.SampledFrom([]string{"e0", "e1", ""}).Draw(t, "to")}
		p.RoutingKeys = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a.b", "q3", "c"}), 1, 2).Draw(t, "keys")
		if rapid.Bool().Draw(t, "copied") {
			p.CC = []string{rapid.SampledFrom([]string{"a", "b.a", "q1", "a.b"}).Draw(t, "copy")}
		}
		vhost.Publishers = append(vhost.Publishers, p)
	}
	return vhost
}

// TestInflowHoldsWhatComes: every key with which a published message, or a dead
// letter of it, comes into a queue is among the keys that can.
func TestInflowHoldsWhatComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vhost := drawFlow(t)
		g := New(vhost, catalog.V(4, 3), Options{})
		type at struct {
			queue string
			keys  string
		}
		seen := map[at]bool{}
		var todo []at
		message := map[at][]string{}
		arrive := func(r Routing, keys []string) {
			for _, d := range r.Deliveries {
				a := at{d.Queue, fmt.Sprint(keys)}
				if !seen[a] {
					seen[a] = true
					message[a] = keys
					todo = append(todo, a)
				}
			}
		}
		for _, p := range vhost.Publishers {
			for _, key := range p.RoutingKeys {
				keys := append([]string{key}, p.CC...)
				arrive(g.Route(Message{Exchange: p.Exchange, Keys: keys}), keys)
			}
		}
		for len(todo) > 0 {
			a := todo[0]
			todo = todo[1:]
			if !g.Keys(a.queue).Contains(message[a][0]) {
				t.Fatalf("%q comes to %q, whose keys are not said to have it\n%s", message[a], a.queue, describe(vhost))
			}
			if !g.inflows()[a.queue].reached {
				t.Fatalf("%q comes to %q, to which nothing is said to lead", message[a], a.queue)
			}
			if dead, r, _, ok := g.Die(a.queue, Rejected, Message{Keys: message[a]}); ok {
				arrive(r, dead.Keys)
			}
		}
		for _, q := range vhost.Queues {
			reach, lost := g.DeadLetters(q.Name)
			if reach == nil || lost.Certain == nil {
				t.Fatalf("nothing is said of the dead letters of %q", q.Name)
			}
		}
		g.Cycles()
	})
}
