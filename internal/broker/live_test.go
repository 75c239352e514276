package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// clientOf is a client of a real broker; options change it.
func clientOf(t *testing.T, b *brokertest.Broker, change ...func(*Options)) *Client {
	t.Helper()
	o := Options{URL: b.URL, Username: b.Username, Password: b.Password, Timeout: 20 * time.Second}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func withAMQP(b *brokertest.Broker) func(*Options) {
	return func(o *Options) { o.AMQPURL = "amqp://" + b.AMQPAddress() }
}

func writerOf(t *testing.T, c *Client, via Via, vhosts ...string) Writer {
	t.Helper()
	w, err := c.Writer(t.Context(), vhosts, via)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("close the writer: %v", err)
		}
	})
	return w
}

func read(t *testing.T, c *Client, o ReadOptions, vhosts ...string) *State {
	t.Helper()
	s, err := c.Read(t.Context(), vhosts, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, w Writer, objects ...topology.Object) {
	t.Helper()
	for _, o := range objects {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// textOf is an object with all it has, for comparison.
func textOf(o topology.Object) string {
	var b strings.Builder
	b.WriteString(o.Key().String())
	for _, a := range o.Attributes() {
		fmt.Fprintf(&b, "\n    %s = %s", a.Name, topology.Text(a.Value))
	}
	return b.String()
}

// own are the objects of a virtual host without those that RabbitMQ makes, and
// without the virtual host itself and its permissions unless wanted.
func own(v *topology.VirtualHost, kinds ...topology.Kind) []string {
	var all []string
	for _, o := range v.Objects() {
		k := o.Key()
		if k.Kind == topology.KindExchange && strings.HasPrefix(k.Name, "amq.") {
			continue
		}
		for _, kind := range kinds {
			if k.Kind == kind {
				all = append(all, textOf(o))
			}
		}
	}
	return all
}

func texts[O topology.Object](objects []O) []string {
	all := make([]string, len(objects))
	for i, o := range objects {
		all[i] = textOf(o)
	}
	return all
}

func sameTexts(t *testing.T, what string, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, s := range want {
		count[s]++
	}
	for _, s := range got {
		count[s]--
	}
	for s, n := range count {
		switch {
		case n > 0:
			t.Errorf("%s: missing %s", what, s)
		case n < 0:
			t.Errorf("%s: not wanted %s", what, s)
		}
	}
}

var hostile = []string{
	"plain", "a/b", "100%", "%2F", "a b+c", "a?b#c", "üñî語", "*~", `quote"back\slash`, "tab\tbell\a", strings.Repeat("x", 255), "<b>&amp;",
	" ", " a  b ", "\x7f", "..a", "semi;colon=1", "' or '1", "a%20b", "{n}",
}

// everything is a topology with every kind of object and value.
func everything(vhost string, via Via) []topology.Object {
	var all []topology.Object
	names := hostile
	if via == ViaAMQP {
		names = slices.Concat(names, []string{".", ".."})
	}
	for i, n := range names {
		q := &topology.Queue{VirtualHost: vhost, Name: n, Type: topology.Classic, Durable: true}
		if i%4 == 1 {
			q.Type = topology.Quorum
		}
		x := &topology.Exchange{VirtualHost: vhost, Name: n, Type: []string{"direct", "fanout", "topic", "headers"}[i%4], Durable: i%3 != 2, AutoDelete: i%5 == 4, Internal: i%3 == 1}
		all = append(all, q, x)
		keys := []string{"", n, "k~" + n[:min(len(n), 200)]}
		if n != ".." {
			keys = append(keys, "..")
		}
		for _, key := range keys {
			all = append(all, &topology.Binding{VirtualHost: vhost, Source: n, Destination: n, DestinationType: topology.ToQueue, RoutingKey: key})
		}
		all = append(all, &topology.Binding{VirtualHost: vhost, Source: n, Destination: "amq.topic", DestinationType: topology.ToExchange, RoutingKey: n})
	}
	all = append(
		all,
		&topology.Queue{VirtualHost: vhost, Name: "stream", Type: topology.Stream, Durable: true, Arguments: topology.Arguments{"x-max-age": "7D", "x-max-length-bytes": int64(1) << 40}},
		&topology.Queue{VirtualHost: vhost, Name: "transient", Type: topology.Classic, Durable: false, AutoDelete: true, Arguments: topology.Arguments{
			"x-message-ttl": int64(30000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain", "x-single-active-consumer": true, "x-max-priority": int64(5),
		}},
		&topology.Queue{VirtualHost: vhost, Name: "values", Type: topology.Classic, Durable: true, Arguments: topology.Arguments{
			"x-own-big": int64(1)<<53 + 1, "x-own-min": int64(-1) << 62, "x-own-float": 1.5, "x-own-list": []any{int64(1), "1", true, 0.25}, "x-own-table": map[string]any{"a": int64(1), "b": "ü"},
		}},
		&topology.Queue{VirtualHost: vhost, Name: "delivery", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{"x-delivery-limit": int64(4)}},
		&topology.Exchange{VirtualHost: vhost, Name: "ae", Type: "topic", Durable: true, Arguments: topology.Arguments{"alternate-exchange": "plain", "x-own": int64(1)<<53 + 1}},
		&topology.Binding{VirtualHost: vhost, Source: "amq.headers", Destination: "values", DestinationType: topology.ToQueue, Arguments: topology.Arguments{"x-match": "all", "n": int64(1)<<53 + 1, "s": "1"}},
		&topology.Binding{VirtualHost: vhost, Source: "amq.headers", Destination: "values", DestinationType: topology.ToQueue, Arguments: topology.Arguments{"x-match": "any", "n": int64(1)}},
		&topology.Binding{VirtualHost: vhost, Source: "amq.headers", Destination: "values", DestinationType: topology.ToQueue, Arguments: topology.Arguments{"x-match": "any", "n": "1"}},
		&topology.Policy{VirtualHost: vhost, Name: "cap", Pattern: `^tmp\.`, ApplyTo: "queues", Priority: 10, Definition: topology.Arguments{"max-length": int64(10000), "overflow": "reject-publish"}},
		&topology.Policy{VirtualHost: vhost, Name: "ae/ %ü", Pattern: "", ApplyTo: "exchanges", Priority: -1, Definition: topology.Arguments{"alternate-exchange": "ae"}},
		&topology.Policy{VirtualHost: vhost, Name: "op", Operator: true, Pattern: "^x$", ApplyTo: "queues", Priority: 1, Definition: topology.Arguments{"max-length": int64(1)<<53 + 1}},
	)
	return all
}

var declared = []topology.Kind{topology.KindExchange, topology.KindQueue, topology.KindBinding, topology.KindPolicy, topology.KindOperatorPolicy}

// What is written is read back alike, by lists and from both kinds of
// definitions, over AMQP and over HTTP, and is gone after deleting.
func TestWriteReadDelete(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, via := range []Via{ViaAMQP, ViaHTTP} {
			t.Run(string(via), func(t *testing.T) {
				vhost := b.VirtualHostNamed(t, "a b+c/%")
				c := clientOf(t, b)
				w := writerOf(t, c, via, vhost)
				objects := everything(vhost, via)
				create(t, w, objects...)
				create(t, w, objects...) // again: nothing changes
				s := read(t, c, ReadOptions{}, vhost)
				sameTexts(t, "lists", own(s.Topology.VirtualHost(vhost), declared...), texts(objects))
				compareDefinitions(t, b, vhost, s)

				for i := len(objects) - 1; i >= 0; i-- {
					for range 2 { // the second time it is absent already
						if err := w.Delete(t.Context(), objects[i]); err != nil {
							t.Error(err)
						}
					}
				}
				s = read(t, c, ReadOptions{}, vhost)
				sameTexts(t, "after deleting", own(s.Topology.VirtualHost(vhost), declared...), nil)
			})
		}
	})
}

// compareDefinitions holds the definitions of the broker against its lists.
func compareDefinitions(t *testing.T, b *brokertest.Broker, vhost string, lists *State) {
	t.Helper()
	for _, path := range []string{brokertest.Path("definitions"), brokertest.Path("definitions", vhost)} {
		status, body := b.Do(t, "GET", path, nil)
		if status != 200 {
			t.Fatalf("GET %s: %d", path, status)
		}
		file, found, err := ReadDefinitions(strings.NewReader(string(body)), "export.json", vhost)
		if err != nil {
			t.Fatal(err)
		}
		if file.Version != lists.Version {
			t.Errorf("%s: version %s, want %s", path, file.Version, lists.Version)
		}
		if path == brokertest.Path("definitions") && file.ClusterName != "" && file.ClusterName != lists.ClusterName {
			t.Errorf("cluster %q, want %q", file.ClusterName, lists.ClusterName)
		}
		live, export := lists.Topology.VirtualHost(vhost), file.Topology.VirtualHost(vhost)
		if export == nil {
			t.Fatalf("%s: no virtual host %q", path, vhost)
		}
		if live.DefaultQueueType != export.DefaultQueueType {
			t.Errorf("%s: default queue type %q, want %q", path, export.DefaultQueueType, live.DefaultQueueType)
		}
		var want []string
		for _, o := range live.Objects() {
			x, isExchange := o.(*topology.Exchange)
			if isExchange && b.AtLeast("4.3") && !strings.HasPrefix(x.Name, "amq.") {
				if x.Internal { // 4.3 does not export it
					continue
				}
				y := *x
				y.InternalUnknown = true
				o = &y
			}
			for _, k := range declared {
				if o.Key().Kind == k {
					want = append(want, textOf(o))
				}
			}
		}
		var got []string
		for _, o := range export.Objects() {
			for _, k := range declared {
				if o.Key().Kind == k {
					got = append(got, textOf(o))
				}
			}
		}
		sameTexts(t, path, got, want)
		for _, d := range found {
			if d.Position.File != "export.json" || d.Code != "definitions-control-character" && !(b.AtLeast("4.3") && d.Code == "definitions-end-missing") &&
				path != brokertest.Path("definitions") {
				t.Errorf("%s: finding %+v", path, d)
			}
		}
	}
}

func TestUpdate(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		user, _ := b.User(t, "", "management", "", "", "")
		c := clientOf(t, b)
		w := writerOf(t, c, ViaAuto, vhost)
		if via, why := w.Via(); via != ViaAMQP || why != nil {
			t.Errorf("via %s, %v", via, why)
		}
		policy := &topology.Policy{VirtualHost: vhost, Name: "p", Pattern: "^a", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(1)}}
		permission := &topology.Permission{VirtualHost: vhost, User: user, Configure: "^a", Write: "^b", Read: ""}
		topic := &topology.TopicPermission{VirtualHost: vhost, User: user, Exchange: "amq.topic", Write: "^a", Read: "^b"}
		create(t, w, policy, permission, topic)
		policy.Pattern, policy.Priority, policy.Definition = "^b", 7, topology.Arguments{"message-ttl": int64(5)}
		permission.Read, topic.Read = ".*", ".*"
		description, on := "ü, d", true
		settings := &topology.VirtualHostSettings{VirtualHost: vhost, Description: &description, Limits: map[string]int64{"max-queues": 10, "max-connections": -1}}
		if b.AtLeast("4.0") {
			settings.DefaultQueueType = topology.Quorum
		}
		if b.AtLeast("4.1") {
			settings.ProtectFromDeletion = &on
		}
		for _, o := range []topology.Object{policy, permission, topic, settings} {
			if err := w.Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		// A second part: what is not stated stays.
		if err := w.Update(t.Context(), &topology.VirtualHostSettings{VirtualHost: vhost, Tags: []string{"x", "y"}}); err != nil {
			t.Fatal(err)
		}
		s := read(t, c, ReadOptions{Limits: true, Permissions: true, Parameters: true}, vhost)
		v := s.Topology.VirtualHost(vhost)
		sameTexts(t, "policies", texts(v.Policies), []string{textOf(policy)})
		sameTexts(t, "topic permissions", texts(v.TopicPermissions), []string{textOf(topic)})
		sameTexts(t, "permissions", texts(v.Permissions), []string{
			textOf(permission), textOf(&topology.Permission{VirtualHost: vhost, User: b.Username, Configure: ".*", Write: ".*", Read: ".*"}),
		})
		settings.Tags = []string{"x", "y"}
		live := *v.Settings
		if !b.AtLeast("4.1") {
			live.ProtectFromDeletion = nil
		}
		if settings.DefaultQueueType == "" {
			live.DefaultQueueType = ""
		}
		sameTexts(t, "settings", []string{textOf(&live)}, []string{textOf(settings)})
		if len(s.Unknown) != 0 {
			t.Errorf("unknown: %v", s.Unknown)
		}
		if want := map[bool]topology.QueueType{true: topology.Quorum, false: topology.Classic}[b.AtLeast("4.0")]; v.DefaultQueueType != want {
			t.Errorf("default queue type %s, want %s", v.DefaultQueueType, want)
		}
		if !b.AtLeast("4.0") { // taken without a word, and without effect
			err := w.Update(t.Context(), &topology.VirtualHostSettings{VirtualHost: vhost, DefaultQueueType: topology.Quorum})
			if err == nil || !strings.Contains(err.Error(), "newer version") {
				t.Errorf("default queue type: %v", err)
			}
		}
		off := false
		if !b.AtLeast("4.1") {
			if err := w.Update(t.Context(), &topology.VirtualHostSettings{VirtualHost: vhost, ProtectFromDeletion: &on}); err == nil || !strings.Contains(err.Error(), "deletion protection") {
				t.Errorf("deletion protection: %v", err)
			}
		} else {
			if err := w.Update(t.Context(), &topology.VirtualHostSettings{VirtualHost: vhost, ProtectFromDeletion: &off}); err != nil {
				t.Fatal(err)
			}
		}
		for _, o := range []topology.Object{policy, permission, topic} {
			if err := w.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
		for _, o := range []topology.Object{&topology.Queue{VirtualHost: vhost, Name: "q"}, &topology.Exchange{VirtualHost: vhost, Name: "x"}} {
			if err := w.Update(t.Context(), o); err == nil || IsTransient(err) {
				t.Errorf("update of %s: %v", o.Key(), err)
			}
		}
		if err := w.Delete(t.Context(), settings); err == nil {
			t.Error("a virtual host was deleted by its settings")
		}
	})
}

// Runtime parameters need a plugin; the broker's answers may repeat passwords,
// ours do not.
func TestParameters(t *testing.T) {
	n := brokertest.StartNode(t, "4.3", "--plugins", "rabbitmq_shovel,rabbitmq_federation")
	vhost := n.VirtualHost(t)
	c := clientOf(t, &n.Broker)
	w := writerOf(t, c, ViaHTTP, vhost)
	upstream := &topology.Parameter{VirtualHost: vhost, Component: "federation-upstream", Name: "a/b c", Value: map[string]any{"uri": "amqp://u:s3cret@host", "expires": int64(3600000)}}
	set := &topology.Parameter{VirtualHost: vhost, Component: "federation-upstream-set", Name: "s", Value: []any{map[string]any{"upstream": "a/b c"}}}
	create(t, w, upstream, set)
	upstream.Value = map[string]any{"uri": "amqp://u:s3cret@host", "expires": int64(7200000)}
	if err := w.Update(t.Context(), upstream); err != nil {
		t.Fatal(err)
	}
	s := read(t, c, ReadOptions{Parameters: true}, vhost)
	sameTexts(t, "parameters", texts(s.Topology.VirtualHosts[0].Parameters), []string{textOf(upstream), textOf(set)})
	bad := &topology.Parameter{VirtualHost: vhost, Component: "federation-upstream", Name: "bad", Value: map[string]any{"uri": "amqp://u:s3cret@host:port"}}
	if err := w.Create(t.Context(), bad); !IsPrecondition(err) || strings.Contains(fmt.Sprintf("%+v", err), "s3cret") {
		t.Errorf("bad URI: %v", err)
	}
	for _, o := range []topology.Object{set, upstream, upstream} {
		if err := w.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	if s := read(t, c, ReadOptions{Parameters: true}, vhost); len(s.Topology.VirtualHosts[0].Parameters) != 0 {
		t.Errorf("left over: %v", s.Topology.VirtualHosts[0].Parameters)
	}
}

// Different values name argument, wanted and present value, by both ways.
func TestInequivalentOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, via := range []Via{ViaAMQP, ViaHTTP} {
			vhost := b.VirtualHost(t)
			w := writerOf(t, clientOf(t, b), via, vhost)
			queue := func(a topology.Arguments) *topology.Queue {
				return &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true, Arguments: a}
			}
			create(t, w, queue(topology.Arguments{"x-message-ttl": int64(1000)}), &topology.Exchange{VirtualHost: vhost, Name: "x", Type: "direct", Durable: true})
			quorum := queue(topology.Arguments{"x-message-ttl": int64(1000)})
			quorum.Type = topology.Quorum
			transient := queue(topology.Arguments{"x-message-ttl": int64(1000)})
			transient.Durable = false
			for _, c := range []struct {
				object topology.Object
				want   Inequivalent
			}{
				{queue(topology.Arguments{"x-message-ttl": int64(2000)}), Inequivalent{"x-message-ttl", "2000", "1000"}},
				{queue(nil), Inequivalent{"x-message-ttl", "absent", "1000"}},
				{queue(topology.Arguments{"x-message-ttl": int64(1000), "x-max-length": int64(3)}), Inequivalent{"x-max-length", "3", "absent"}},
				{transient, Inequivalent{"durable", "false", "true"}},
				{&topology.Exchange{VirtualHost: vhost, Name: "x", Type: "topic", Durable: true}, Inequivalent{"type", "topic", "direct"}},
				{quorum, Inequivalent{"x-queue-type", "quorum", "classic"}},
			} {
				err := w.Create(t.Context(), c.object)
				var e *Error
				if !errors.As(err, &e) || !IsPrecondition(err) || IsTransient(err) || IsAuth(err) || IsUnknown(err) || e.Key != c.object.Key() {
					t.Errorf("%s: %s: %v", via, textOf(c.object), err)
					continue
				}
				got, ok := e.Inequivalent()
				if !ok || got != c.want {
					t.Errorf("%s: %+v (%v), want %+v: %s", via, got, ok, c.want, e.Reason)
				}
				if want := "want " + c.want.Want + ", have " + c.want.Have; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), vhost) {
					t.Errorf("%s: text %q lacks %q", via, err, want)
				}
			}
			// A float is no integer, even a whole one.
			err := w.Create(t.Context(), &topology.Queue{VirtualHost: vhost, Name: "f", Type: topology.Classic, Durable: true, Arguments: topology.Arguments{"x-message-ttl": 5.0}})
			if !IsPrecondition(err) {
				t.Errorf("%s: 5.0 as a TTL: %v", via, err)
			}
		}
	})
}

func TestLookAlikeBindings(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		c := clientOf(t, b)
		w := writerOf(t, c, ViaAMQP, vhost)
		create(t, w, &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true})
		bind := func(v any) *topology.Binding {
			return &topology.Binding{VirtualHost: vhost, Source: "amq.headers", Destination: "q", DestinationType: topology.ToQueue, Arguments: topology.Arguments{"a": v}}
		}
		create(t, w, bind(int64(1)), bind(1.0), bind("1"))
		if n := len(read(t, c, ReadOptions{}, vhost).Topology.VirtualHosts[0].Bindings); n != 3 {
			t.Errorf("%d bindings, want 3", n)
		}
		if err := w.Delete(t.Context(), bind(int64(1))); err == nil || !strings.Contains(err.Error(), "look alike") {
			t.Errorf("deleting one of two that look alike: %v", err)
		}
		if err := w.Delete(t.Context(), bind("1")); err != nil {
			t.Error(err)
		}
		s := read(t, c, ReadOptions{}, vhost)
		for _, x := range s.Topology.VirtualHosts[0].Bindings {
			if x.Arguments["a"] == "1" {
				t.Errorf("left over: %+v", x)
			}
		}
	})
}

// What belongs to connections is left out, with its bindings; lock queues are not
// seen at all.
func TestLeftOut(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		ch := b.Channel(t, vhost)
		for _, q := range []string{"private", "rabbitctl.lock:stack"} {
			if _, err := ch.QueueDeclare(q, false, false, true, false, nil); err != nil {
				t.Fatal(err)
			}
			if err := ch.QueueBind(q, "k", "amq.topic", false, nil); err != nil {
				t.Fatal(err)
			}
		}
		named, err := ch.QueueDeclare("", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := read(t, clientOf(t, b), ReadOptions{LeftOut: true}, vhost)
		sameTexts(t, "topology", own(s.Topology.VirtualHosts[0], declared...), nil)
		var left []string
		for _, o := range s.LeftOut {
			left = append(left, o.Key().Address())
		}
		want := "binding/amq.topic => queue private [k], queue/" + named.Name + ", queue/private"
		if got := strings.Join(left, ", "); got != want {
			t.Errorf("left out %s, want %s", got, want)
		}
		if got := len(s.Topology.VirtualHosts[0].Exchanges); got < 6 {
			t.Errorf("%d exchanges, want those of amq.*", got)
		}
	})
}
