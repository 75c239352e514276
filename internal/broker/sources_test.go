package broker

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// by reads a virtual host as a broker of another version or size would be read.
func by(t *testing.T, c *Client, vhost string, o ReadOptions, change func(*Overview)) *State {
	t.Helper()
	start := c.Begin(t.Context())
	overview := start.overview
	start.overview = func() (*Overview, error) {
		o, err := overview()
		if err == nil {
			change(o)
		}
		return o, err
	}
	s, err := start.Read([]string{vhost}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each source gives the same state: definitions, and lists with the bindings of the
// virtual host or exchange by exchange.
func TestSourcesAgree(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for seed := range uint64(6) {
			vhost := b.VirtualHost(t)
			c := clientOf(t, b)
			objects := randomObjects(rand.New(rand.NewPCG(seed, 1)), vhost)
			create(t, writerOf(t, c, ViaHTTP, vhost), objects...)
			ch := b.Channel(t, vhost)
			for i := range 3 { // exclusive, server-named, a lock
				name := []string{"private", "", "rabbitctl.lock:stack"}[i]
				q, err := ch.QueueDeclare(name, false, false, i != 1, false, nil)
				if err == nil {
					err = ch.QueueBind(q.Name, "k", "amq.topic", false, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			lists := by(t, c, vhost, ReadOptions{}, func(o *Overview) { o.Version, o.Queues = catalog.V(3, 10), 0 })
			want := texts(lists.Topology.VirtualHost(vhost).Objects())
			if got := own(lists.Topology.VirtualHost(vhost), declared...); len(got) != len(objects) {
				t.Errorf("seed %d: %d objects, want %d", seed, len(got), len(objects))
			}
			for what, s := range map[string]*State{
				"exchange by exchange": by(t, c, vhost, ReadOptions{}, func(o *Overview) { o.Version, o.Queues = catalog.V(3, 10), 1<<30 }),
				"definitions":          by(t, c, vhost, ReadOptions{}, func(o *Overview) { o.Version = catalog.V(4, 3) }),
				"as chosen":            read(t, c, ReadOptions{}, vhost),
			} {
				got := texts(s.Topology.VirtualHost(vhost).Objects())
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: %s", seed, what)
					sameTexts(t, what, got, want)
				}
				if s.Topology.VirtualHost(vhost).DefaultQueueType != lists.Topology.VirtualHost(vhost).DefaultQueueType {
					t.Errorf("%s: another default type", what)
				}
			}
		}
	})
}

// randomObjects are objects that all versions take, in the order of their needs.
func randomObjects(r *rand.Rand, vhost string) []topology.Object {
	var all []topology.Object
	values := []any{int64(1), int64(1)<<53 + 1, "1", "", true, 1.5, []any{int64(1), "a"}, map[string]any{"a": "ü\n\"\\"}}
	arguments := func(known topology.Arguments, own string) topology.Arguments {
		a := known.Clone()
		for i := range r.IntN(3) {
			if a == nil {
				a = topology.Arguments{}
			}
			a[fmt.Sprint(own, i)] = values[r.IntN(len(values))]
		}
		return a
	}
	names := slices.DeleteFunc(slices.Clone(hostile), func(string) bool { return r.IntN(3) == 0 })
	for i, n := range names {
		q := &topology.Queue{VirtualHost: vhost, Name: n, Type: topology.QueueTypes[r.IntN(len(topology.QueueTypes))], Durable: true}
		if q.Type == topology.Classic {
			q.Arguments = arguments(topology.Arguments{"x-message-ttl": int64(r.IntN(1 << 30))}, "x-own-")
			q.AutoDelete = r.IntN(4) == 0
		}
		x := &topology.Exchange{
			VirtualHost: vhost, Name: n, Type: []string{"direct", "fanout", "topic", "headers"}[r.IntN(4)],
			Durable: r.IntN(3) > 0, Internal: r.IntN(3) == 0, Arguments: arguments(nil, "x-own-"),
		}
		all = append(all, q, x)
		for k := range r.IntN(3) {
			key := []string{"", "k", n}[k]
			all = append(all, &topology.Binding{
				VirtualHost: vhost, Source: n, Destination: n, DestinationType: topology.ToQueue, RoutingKey: key, Arguments: arguments(nil, "h"),
			})
		}
		if i > 0 {
			all = append(all, &topology.Binding{VirtualHost: vhost, Source: n, Destination: names[i-1], DestinationType: topology.ToExchange, RoutingKey: n})
		}
		if r.IntN(4) == 0 {
			all = append(all, &topology.Policy{
				VirtualHost: vhost, Name: n, Operator: r.IntN(2) == 0, Pattern: "^" + fmt.Sprint(i), ApplyTo: "queues", Priority: int64(r.IntN(9) - 4),
				Definition: topology.Arguments{"max-length": int64(r.IntN(1 << 30))},
			})
		}
	}
	return all
}

// A name that 4.3 answers with cut-off definitions for is read by lists, and so is
// what keeps its definitions back.
func TestListsWhereDefinitionsFail(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHostNamed(t, "wirt-ü")
		q := &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true}
		create(t, writerOf(t, clientOf(t, b), ViaHTTP, vhost), q)
		sameTexts(t, "name", own(read(t, clientOf(t, b), ReadOptions{}, vhost).Topology.VirtualHost(vhost), declared...), texts([]*topology.Queue{q}))

		plain := b.VirtualHost(t)
		q.VirtualHost = plain
		create(t, writerOf(t, clientOf(t, b), ViaHTTP, plain), q)
		for _, answer := range []struct {
			status int
			body   string
		}{
			{403, `{"error":"forbidden","reason":"not here"}`},
			{404, `<html>`},
			{200, `{"queues":[{"name":"q"`},
			{200, `{"queues":[]}`},
			{200, `{"queues":[],"bindings":[],"policies":[],"parameters":[{"name":"o","component":"operator_policy","value":[1]}]}`},
			{401, `{"error":"not_authorised","reason":"not administrator"}`},
		} {
			asked := false
			proxy := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
				if strings.HasPrefix(r.URL.Path, "/api/definitions/") {
					asked = true
					return answer.status, answer.body, true
				}
				return 0, "", false
			})
			c := clientOf(t, b, func(o *Options) { o.URL = proxy.URL })
			sameTexts(t, answer.body, own(read(t, c, ReadOptions{}, plain).Topology.VirtualHost(plain), declared...), texts([]*topology.Queue{q}))
			if asked != b.AtLeast("4.3") {
				t.Errorf("asked for the definitions: %v", asked)
			}
		}
	})
}
