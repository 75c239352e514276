package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// queue makes a queue with a dead-letter route to a queue by name: "name -> to", with
// settings as words: ttl, max, limit=2.
func queue(t topology.QueueType, name, to string, settings ...string) *topology.Queue {
	q := &topology.Queue{Name: name, Type: t, Durable: true, Arguments: topology.Arguments{}}
	if to != "" {
		q.Arguments["x-dead-letter-exchange"] = ""
		q.Arguments["x-dead-letter-routing-key"] = to
	}
	for _, s := range settings {
		switch s {
		case "ttl":
			q.Arguments["x-message-ttl"] = int64(100)
		case "max":
			q.Arguments["x-max-length"] = int64(1)
		case "reject-publish":
			q.Arguments["x-overflow"] = s
		case "at-least-once":
			q.Arguments["x-dead-letter-strategy"] = s
		default:
			var limit int64
			fmt.Sscanf(s, "limit=%d", &limit)
			q.Arguments["x-delivery-limit"] = limit
		}
	}
	return q
}

// text writes cycles for comparison: "a(expired) b() dropped certain".
func text(cycles []Cycle) []string {
	var all []string
	for _, c := range cycles {
		var words []string
		for _, h := range c.Hops {
			words = append(words, fmt.Sprintf("%s%v", h.Queue, h.Causes))
		}
		if c.Dropped {
			words = append(words, "dropped")
		}
		if c.Certain {
			words = append(words, "certain")
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func TestCycles(t *testing.T) {
	const c, q = topology.Classic, topology.Quorum
	for _, test := range []struct {
		name   string
		queues []*topology.Queue
		want   []string // on 4.x
		before []string // on 3.10, when another
	}{
		{name: "none", queues: []*topology.Queue{queue(c, "a", "b", "ttl"), queue(c, "b", "", "ttl")}},
		{
			name: "TTL alone (case 35)", queues: []*topology.Queue{queue(c, "c1", "c2", "ttl"), queue(c, "c2", "c1", "ttl")},
			want: []string{"c1[expired] c2[expired] dropped certain"},
		},
		{
			name: "to itself", queues: []*topology.Queue{queue(c, "a", "a", "ttl")},
			want: []string{"a[expired] dropped certain"},
		},
		{
			name: "by rejects", queues: []*topology.Queue{queue(c, "work", "wait"), queue(c, "wait", "work", "ttl")},
			want: []string{"work[] wait[expired] certain"},
		},
		{
			name: "a full queue", queues: []*topology.Queue{queue(c, "work", "wait", "max"), queue(c, "wait", "work", "ttl")},
			want: []string{"work[maxlen] wait[expired] dropped certain"},
		},
		{
			name: "a full queue that refuses", queues: []*topology.Queue{queue(c, "work", "wait", "max", "reject-publish"), queue(c, "wait", "work", "ttl")},
			want: []string{"work[] wait[expired] certain"},
		},
		{
			name: "a limit", queues: []*topology.Queue{queue(q, "work", "wait", "limit=3"), queue(q, "wait", "work", "ttl", "limit=-1")},
			want: []string{"work[delivery_limit] wait[expired] dropped certain"},
			// -1 is a limit of 0 there.
			before: []string{"work[delivery_limit] wait[expired delivery_limit] dropped certain"},
		},
		{
			name: "the default limit", queues: []*topology.Queue{queue(q, "work", "wait"), queue(c, "wait", "work", "ttl")},
			want:   []string{"work[delivery_limit] wait[expired] dropped certain"},
			before: []string{"work[] wait[expired] certain"},
		},
		{
			name: "two at once", queues: []*topology.Queue{
				queue(c, "a", "b", "ttl"), queue(c, "b", "a", "ttl"), queue(c, "x", "y"), queue(c, "y", "z", "ttl"), queue(c, "z", "x", "ttl"), queue(c, "in", "a"),
			},
			want: []string{"a[expired] b[expired] dropped certain", "x[] y[expired] z[expired] certain"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, v := range []catalog.Version{catalog.V(3, 10), catalog.V(4, 0), catalog.V(4, 3)} {
				want := test.want
				if v.Below(catalog.V(4, 0)) && test.before != nil {
					want = test.before
				}
				g := New(&topology.VirtualHost{Name: "v", Queues: test.queues}, v, Options{})
				if got := text(g.Cycles()); !slices.Equal(got, want) {
					t.Errorf("%s: cycles %q, want %q", v, got, want)
				}
			}
		})
	}
}

// TestCyclesAgainstDeaths holds the circles that are found to what becomes of single
// messages.
func TestCyclesAgainstDeaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vhost := drawDeaths(t)
		for _, e := range vhost.Exchanges {
			if e.Type == "headers" {
				e.Type = "topic"
			}
		}
		g := New(vhost, catalog.V(4, 3), Options{})
		cycles := g.Cycles()
		found := func(queue string) bool {
			return slices.ContainsFunc(cycles, func(c Cycle) bool { return c.Dropped && slices.Contains(c.Queues(), queue) })
		}
		for _, q := range vhost.Queues {
			keys, _ := g.Keys(q.Name).Some(4)
			round := false
			for _, key := range keys {
				if !comesBack(g, q.Name, Message{Keys: []string{key}}) {
					continue
				}
				round = true
				if !found(q.Name) {
					t.Fatalf("a message with key %q comes back to %q, and no cycle says so: %q\n%s", key, q.Name, text(cycles), describe(vhost))
				}
			}
			if len(cycles) > 0 && cycles[0].Hops[0].Queue == q.Name && cycles[0].Dropped && g.DeadLetter(q.Name).Fixed && !round {
				t.Fatalf("a cycle begins at %q, and no message comes back: %q\n%s", q.Name, text(cycles), describe(vhost))
			}
		}
	})
}

// comesBack reports whether a message comes back to a queue without any consumer's reject.
func comesBack(g *Graph, start string, m Message) bool {
	type at struct {
		queue string
		m     Message
	}
	todo := []at{{start, m}}
	for i := 0; i < len(todo); i++ {
		causes := g.Causes(todo[i].queue)
		if len(causes) == 0 {
			continue
		}
		dead, r, cycles, ok := g.Die(todo[i].queue, causes[0], todo[i].m)
		if !ok {
			continue
		}
		if slices.Contains(cycles, start) {
			return true
		}
		for _, d := range r.Deliveries {
			todo = append(todo, at{d.Queue, dead})
		}
	}
	return false
}

// TestManyInCircles: groups in which everything leads to everything end soon.
func TestManyInCircles(t *testing.T) {
	vhost := &topology.VirtualHost{Name: "v", Exchanges: []*topology.Exchange{{Name: "f", Type: "fanout"}}}
	for i := range 3000 {
		name := fmt.Sprint("q", i)
		vhost.Queues = append(vhost.Queues, &topology.Queue{Name: name, Type: topology.Classic, Durable: true, Arguments: topology.Arguments{
			"x-dead-letter-exchange": "f", "x-message-ttl": int64(1),
		}})
		vhost.Bindings = append(vhost.Bindings, &topology.Binding{Source: "f", Destination: name, DestinationType: topology.ToQueue})
	}
	cycles := New(vhost, catalog.Newest, Options{}).Cycles()
	if len(cycles) != 3000 || len(cycles[0].Hops) != 1 {
		t.Errorf("%d cycles, the first over %d queues; want each queue alone", len(cycles), len(cycles[0].Hops))
	}
}
