package flow

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// drawTopology makes exchanges of every kind, bindings of every form and queues.
func drawTopology(t *rapid.T, v catalog.Version) *topology.VirtualHost {
	vhost := &topology.VirtualHost{Name: "v"}
	for i := range 5 {
		vhost.Queues = append(vhost.Queues, &topology.Queue{Name: fmt.Sprintf("q%d", i), Type: topology.Classic, Durable: true})
	}
	vhost.Queues[4].Name = "a.b" // a name that a key can be
	types := []string{"direct", "fanout", "topic", "topic", "headers", "headers"}
	if v.AtLeast(catalog.V(4, 0)) {
		types = append(types, "x-local-random")
	}
	if v.AtLeast(catalog.V(4, 3)) {
		types = append(types, "x-modulus-hash")
	}
	if rapid.Bool().Draw(t, "keys alone") {
		types = types[:4]
	}
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("e%d", i))
	}
	for _, name := range names {
		e := &topology.Exchange{Name: name, Type: rapid.SampledFrom(types).Draw(t, "type"), Durable: true}
		if rapid.Bool().Draw(t, "has alternate") {
			e.Arguments = topology.Arguments{"alternate-exchange": rapid.SampledFrom(append(names, "", "missing", "amq.fanout")).Draw(t, "alternate")}
		}
		vhost.Exchanges = append(vhost.Exchanges, e)
	}
	for range rapid.IntRange(2, 14).Draw(t, "bindings") {
		source := rapid.SampledFrom(vhost.Exchanges).Draw(t, "source")
		b := &topology.Binding{Source: source.Name, DestinationType: topology.ToQueue}
		if rapid.IntRange(0, 2).Draw(t, "to exchange") == 0 && source.Type != "x-local-random" { // which is for queues alone
			b.DestinationType, b.Destination = topology.ToExchange, rapid.SampledFrom(append(names, "amq.fanout")).Draw(t, "exchange")
		} else {
			b.Destination = rapid.SampledFrom(vhost.Queues).Draw(t, "queue").Name
		}
		if source.Type != "x-local-random" {
			b.RoutingKey = drawKey(t, "a", "b", "*", "#", "")
		}
		if source.Type == "headers" {
			b.Arguments = drawArguments(t)
		}
		vhost.Bindings = append(vhost.Bindings, b)
	}
	return vhost
}

func drawKey(t *rapid.T, words ...string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 3).Draw(t, "key"), ".")
}

// drawArguments makes the arguments of a headers binding.
func drawArguments(t *rapid.T) topology.Arguments {
	a := drawHeaders(t)
	if match := rapid.SampledFrom([]string{"", "all", "any", "all-with-x", "any-with-x"}).Draw(t, "match"); match != "" {
		a["x-match"] = match
	}
	return a
}

func drawHeaders(t *rapid.T) topology.Arguments {
	a := topology.Arguments{}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		a[rapid.SampledFrom([]string{"h", "k", "x-h", "X-k"}).Draw(t, "name")] = rapid.SampledFrom([]any{
			"1", "true", "", int64(1), int64(2), 1.0, 1.5, true, false, nil, []any{int64(1), "a"}, map[string]any{"a": int64(1)},
		}).Draw(t, "value")
	}
	return a
}

func drawMessage(t *rapid.T) Message {
	m := Message{Headers: drawHeaders(t)}
	m.Exchange = rapid.SampledFrom([]string{"e0", "e1", "e2", "e3", "e4", "amq.fanout", ""}).Draw(t, "publish to")
	m.Keys = []string{drawKey(t, "a", "b", "c", "*", "#", "")}
	if m.Exchange == "" && rapid.Bool().Draw(t, "by name") {
		m.Keys[0] = "q1"
	}
	for range rapid.IntRange(0, 3).Draw(t, "copies") - 1 {
		m.Keys = append(m.Keys, rapid.SampledFrom([]string{"a", "b", "a.b", "q2", "c.c"}).Draw(t, "copy"))
	}
	return m
}

// declareAll declares a topology on a broker.
func declareAll(t *testing.T, channel *amqp.Channel, vhost *topology.VirtualHost) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	for _, e := range vhost.Exchanges {
		must(channel.ExchangeDeclare(e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, false, table(e.Arguments)))
	}
	for _, q := range vhost.Queues {
		arguments := table(q.Arguments)
		arguments["x-queue-type"] = string(q.Type)
		_, err := channel.QueueDeclare(q.Name, q.Durable, q.AutoDelete, false, false, arguments)
		must(err)
	}
	for _, b := range vhost.Bindings {
		if b.DestinationType == topology.ToExchange {
			must(channel.ExchangeBind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments)))
		} else {
			must(channel.QueueBind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments)))
		}
	}
}

// table brings values to what the client sends: tables and lists of its own types.
func table(a map[string]any) amqp.Table {
	t := amqp.Table{}
	for k, v := range a {
		if m, ok := v.(map[string]any); ok {
			v = table(m)
		}
		t[k] = v
	}
	return t
}

// got is where a broker delivered a message.
type got struct {
	queues   []string
	returned bool
}

// publishAll publishes messages one by one, each mandatory and confirmed, and reads
// from every queue what came: confirms come after delivery to classic queues.
func publishAll(t *testing.T, channel *amqp.Channel, vhost *topology.VirtualHost, messages []Message) []got {
	t.Helper()
	results := make([]got, len(messages))
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, len(messages)))
	for i, m := range messages {
		p := amqp.Publishing{MessageId: fmt.Sprint(i), Headers: table(m.Headers)}
		if len(m.Keys) > 1 {
			var cc []any
			for _, key := range m.Keys[1:] {
				cc = append(cc, key)
			}
			p.Headers["CC"] = cc
		}
		confirm, err := channel.PublishWithDeferredConfirm(m.Exchange, m.Keys[0], true, false, p)
		if err != nil {
			t.Fatal(err)
		}
		if !confirm.Wait() {
			t.Fatalf("message %d was refused", i)
		}
	}
	for len(returns) > 0 {
		r := <-returns
		var i int
		fmt.Sscan(r.MessageId, &i)
		results[i].returned = true
	}
	for _, q := range vhost.Queues {
		for {
			d, ok, err := channel.Get(q.Name, true)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			var i int
			fmt.Sscan(d.MessageId, &i)
			results[i].queues = append(results[i].queues, q.Name)
		}
	}
	return results
}

// compare says how what the broker did differs from what the graph says.
func compare(r Routing, g got) string {
	for _, queue := range g.queues {
		if !slices.ContainsFunc(r.Deliveries, func(d Delivery) bool { return d.Queue == queue }) {
			return fmt.Sprintf("queue %q got it", queue)
		}
	}
	chance := false
	for _, d := range r.Deliveries {
		chance = chance || d.Chance
		if !d.Chance && !slices.Contains(g.queues, d.Queue) {
			return fmt.Sprintf("queue %q did not get it", d.Queue)
		}
	}
	if slices.Sort(g.queues); len(slices.Compact(slices.Clone(g.queues))) != len(g.queues) {
		return fmt.Sprintf("a queue got it twice: %q", g.queues)
	}
	if !chance && g.returned != (len(r.Deliveries) == 0) {
		return fmt.Sprintf("returned is %v", g.returned)
	}
	return ""
}

// TestRouteOnBrokers holds the routing of single messages to that of real brokers:
// random exchanges, bindings, headers and messages.
func TestRouteOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		for round := range brokertest.Rounds(12, 200) {
			ok := t.Run(fmt.Sprint(round), func(t *testing.T) {
				vhost := rapid.Custom(func(t *rapid.T) *topology.VirtualHost { return drawTopology(t, version) }).Example(round)
				messages := rapid.SliceOfN(rapid.Custom(drawMessage), 40, 40).Example(round)
				name := b.VirtualHost(t)
				channel := b.Channel(t, name)
				declareAll(t, channel, vhost)
				g := New(vhost, version, Options{})
				for i, result := range publishAll(t, channel, vhost, messages) {
					if wrong := compare(g.Route(messages[i]), result); wrong != "" {
						t.Errorf("%+v: %s; the graph says %+v\n%s", messages[i], wrong, g.Route(messages[i]), describe(vhost))
					}
				}
			})
			if !ok {
				return
			}
		}
	})
}

func describe(vhost *topology.VirtualHost) string {
	var b strings.Builder
	for _, e := range vhost.Exchanges {
		fmt.Fprintf(&b, "exchange %s %s %s\n", e.Name, e.Type, topology.Text(e.Arguments))
	}
	for _, q := range vhost.Queues {
		fmt.Fprintf(&b, "queue %s %s %s\n", q.Name, q.Type, topology.Text(q.Arguments))
	}
	for _, x := range vhost.Bindings {
		fmt.Fprintf(&b, "binding %s => %s %s %q %s\n", x.Source, x.DestinationType, x.Destination, x.RoutingKey, topology.Text(x.Arguments))
	}
	return b.String()
}

// TestAlternateByPolicy: a policy gives an exchange its alternate, and one on the
// default exchange does nothing.
func TestAlternateByPolicy(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		host := &topology.VirtualHost{
			Name:      "v",
			Exchanges: []*topology.Exchange{{Name: "e", Type: "topic", Durable: true}, {Name: "net", Type: "fanout", Durable: true}},
			Queues:    []*topology.Queue{{Name: "q0", Type: topology.Classic, Durable: true}},
			Bindings:  []*topology.Binding{{Source: "net", Destination: "q0", DestinationType: topology.ToQueue}},
			Policies:  []*topology.Policy{{Name: "net", Pattern: ".*", ApplyTo: "exchanges", Definition: topology.Arguments{"alternate-exchange": "net"}}},
		}
		channel := b.Channel(t, vhost)
		declareAll(t, channel, host)
		p := host.Policies[0]
		status, body := b.Do(t, http.MethodPut, brokertest.Path("policies", vhost, p.Name), map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "definition": p.Definition,
		})
		if status/100 != 2 {
			t.Fatalf("%d %s", status, body)
		}
		version, _ := catalog.ParseVersion(b.Version)
		messages := []Message{{Exchange: "e", Keys: []string{"k"}}, {Exchange: "", Keys: []string{"nobody"}}, {Exchange: "amq.direct", Keys: []string{"k"}}}
		g := New(host, version, Options{})
		for i, result := range publishAll(t, channel, host, messages) {
			if wrong := compare(g.Route(messages[i]), result); wrong != "" {
				t.Errorf("%+v: %s; the graph says %+v", messages[i], wrong, g.Route(messages[i]))
			}
		}
	})
}
