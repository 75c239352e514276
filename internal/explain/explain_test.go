package explain

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

type args = topology.Arguments

func queue(name string, t topology.QueueType, a args) *topology.Queue {
	return &topology.Queue{Name: name, Type: t, Durable: true, Arguments: a}
}

func policyNamed(name string, priority int64, pattern string, d args) *topology.Policy {
	return &topology.Policy{Name: name, Priority: priority, Pattern: pattern, ApplyTo: "queues", Definition: d}
}

func host(objects ...topology.Object) *topology.VirtualHost {
	v := &topology.VirtualHost{Name: "v"}
	for _, o := range objects {
		switch o := o.(type) {
		case *topology.Queue:
			v.Queues = append(v.Queues, o)
		case *topology.Exchange:
			v.Exchanges = append(v.Exchanges, o)
		case *topology.Binding:
			v.Bindings = append(v.Bindings, o)
		case *topology.Policy:
			if o.Operator {
				v.OperatorPolicies = append(v.OperatorPolicies, o)
			} else {
				v.Policies = append(v.Policies, o)
			}
		}
	}
	return v
}

func deadTo(name string) args {
	return args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name}
}

func with(a args, more ...any) args {
	a = a.Clone()
	for i := 0; i < len(more); i += 2 {
		a[more[i].(string)] = more[i+1]
	}
	return a
}

// TestSettings: each value has its source and what it beats.
func TestSettings(t *testing.T) {
	operator := policyNamed("top", 0, "^q$", args{"max-length": int64(50)})
	operator.Operator = true
	v := host(
		queue("q", topology.Quorum, args{"x-max-length": int64(100), "x-overflow": "drop-head", "x-delivery-limt": int64(1), "x-dead-letter-exchange": "a"}),
		policyNamed("p", 5, "^q$", args{"max-length": int64(80), "overflow": "reject-publish", "dead-letter-exchange": "b"}),
		policyNamed("low", 1, "q", args{"message-ttl": int64(1000)}),
		policyNamed("streams", 9, "q", args{"max-age": "1D", "message-ttl": int64(1)}),
		operator,
	)
	q := New(Input{VirtualHost: v, Version: catalog.V(4, 3)}).Queue("q")
	var got []string
	for _, s := range q.Settings {
		line := fmt.Sprintf("%s %s by %s", s.Name, s.Text, s.Source)
		for _, o := range s.Overrides {
			line += fmt.Sprintf("; not %s of %s: %s", o.Text, o, o.Why)
		}
		got = append(got, line)
	}
	for _, p := range q.Policies {
		got = append(got, fmt.Sprintf("%s %s: %s", p.State, p.Name, p.Why))
	}
	for _, i := range q.Idle {
		got = append(got, fmt.Sprintf("idle %s: %s", i.Argument, i.Why))
	}
	want := []string{
		`dead-letter-exchange "a" by argument; not "b" of policy "p": here an argument beats a policy`,
		`delivery-limit 20 by RabbitMQ's default`,
		`max-length 50 by operator policy "top"; not 100 of argument: of two numbers the smaller counts; not 80 of policy "p": of two numbers the smaller counts`,
		`overflow "reject-publish" by policy "p"; not "drop-head" of argument: here a policy beats an argument`,
		`acts p: `,
		`acts top: `,
		`hidden low: "p" has priority 5, this one 1; a queue has one policy, and the keys of others do not count`,
		`ignored streams: as a whole, since quorum queues of RabbitMQ 4.3 do not know max-age`,
		`idle x-delivery-limt: RabbitMQ does not know it and keeps it without a word`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTies: of policies with the same priority it is said that nothing is sure.
func TestTies(t *testing.T) {
	v := host(queue("q", topology.Classic, nil), policyNamed("a", 1, "q", args{"max-length": int64(1)}), policyNamed("b", 1, "q", args{"max-length": int64(2)}))
	q := New(Input{VirtualHost: v}).Queue("q")
	if len(q.Policies) != 2 || !strings.Contains(q.Policies[0].Why, "not defined") || !strings.Contains(q.Policies[1].Why, "not defined") {
		t.Errorf("%+v", q.Policies)
	}
}

// TestDeliveries: how often a message is tried, by type and version.
func TestDeliveries(t *testing.T) {
	for _, c := range []struct {
		name    string
		q       *topology.Queue
		version catalog.Version
		most    int64
		by      string
	}{
		{"limit", queue("q", topology.Quorum, args{"x-delivery-limit": int64(4)}), catalog.V(4, 3), 5, "broker"},
		{"default", queue("q", topology.Quorum, nil), catalog.V(4, 0), 21, "broker"},
		{"default before 4.0", queue("q", topology.Quorum, nil), catalog.V(3, 10), 0, "nobody"},
		{"-1", queue("q", topology.Quorum, args{"x-delivery-limit": int64(-1)}), catalog.V(4, 0), 0, "nobody"},
		{"-1 before 4.0", queue("q", topology.Quorum, args{"x-delivery-limit": int64(-1)}), catalog.V(3, 10), 1, "broker"},
		{"classic", queue("q", topology.Classic, nil), catalog.V(4, 3), 0, "nobody"},
		{"stream", queue("q", topology.Stream, nil), catalog.V(4, 3), 0, "nobody"},
		{
			"classic with a cap", &topology.Queue{Name: "q", Type: topology.Classic, Durable: true, Intent: &topology.QueueIntent{
				Retry: &topology.Retry{MaxAttempts: 5, Delays: []time.Duration{30 * time.Second}, Mechanism: topology.MechanismWaitQueue, WaitQueues: []string{"q.retry"}},
			}}, catalog.V(4, 3), 5, "consumer",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New(Input{VirtualHost: host(c.q), Version: c.version}).Queue("q").Deliveries
			if d.Most != c.most || d.CountedBy != c.by || len(d.Text) == 0 {
				t.Errorf("%+v, want %d by %s", d, c.most, c.by)
			}
		})
	}
}

// TestFailures is row C13: what dead-letters and what does not.
func TestFailures(t *testing.T) {
	v := host(
		queue("q", topology.Quorum, with(deadTo("dead"), "x-message-ttl", int64(60000), "x-max-length", int64(10), "x-expires", int64(3600000))),
		queue("dead", topology.Classic, nil),
		queue("full", topology.Classic, args{"x-max-length": int64(10), "x-overflow": "reject-publish"}),
		queue("nowhere", topology.Classic, deadTo("missing")),
		queue("log", topology.Stream, args{"x-max-age": "1D"}),
	)
	e := New(Input{VirtualHost: v, Version: catalog.V(4, 3)})
	for name, want := range map[string]string{
		"q":       "rejected client dead-lettered, expired always dead-lettered, maxlen always dead-lettered, delivery_limit always dead-lettered, queue-expired always dropped, queue-deleted client dropped, purged client dropped",
		"full":    "rejected client dropped, expired client dropped, maxlen always refused, delivery_limit never none, queue-expired never none, queue-deleted client dropped, purged client dropped",
		"nowhere": "rejected client dropped, expired client dropped, maxlen never none, delivery_limit never none, queue-expired never none, queue-deleted client dropped, purged client dropped",
		"log":     "retention always dropped, queue-deleted client dropped",
	} {
		var got []string
		for _, f := range e.Queue(name).Failures {
			got = append(got, f.Cause+" "+f.Happens+" "+f.Outcome)
			if f.When == "" || f.Happens != never && f.Text == "" {
				t.Errorf("%s: %+v is not in words", name, f)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s\nwant %s", name, strings.Join(got, ", "), want)
		}
	}
}

// TestCycles: what goes round and what the broker drops (case 35, row A39).
func TestCycles(t *testing.T) {
	v := host(
		queue("c1", topology.Classic, with(deadTo("c2"), "x-message-ttl", int64(300))),
		queue("c2", topology.Classic, with(deadTo("c1"), "x-message-ttl", int64(300))),
		queue("work", topology.Classic, deadTo("wait")),
		queue("wait", topology.Classic, with(deadTo("work"), "x-message-ttl", int64(300))),
	)
	e := New(Input{VirtualHost: v})
	if c := e.Queue("c1").Cycles; len(c) != 1 || !c[0].Dropped || !strings.Contains(c[0].Text, "drops") {
		t.Errorf("c1: %+v", c)
	}
	if c := e.Queue("work").Cycles; len(c) != 1 || c[0].Dropped || !strings.Contains(c[0].Text, "nothing on the broker ends it") {
		t.Errorf("work: %+v", c)
	}
	p := e.Publish(Message{Key: "c1"})
	last := p.Stages[len(p.Stages)-1]
	found := false
	for _, f := range last.Failures {
		found = found || f.Outcome == "dropped" && strings.Contains(f.Text, "come back") && f.Causes[0] == "expired"
	}
	if !found {
		t.Errorf("nothing is dropped at the end: %+v", last)
	}
}

// TestPublish: what is routed, and what becomes of the rest.
func TestPublish(t *testing.T) {
	bind := func(x, q, key string, a args) *topology.Binding {
		return &topology.Binding{Source: x, Destination: q, DestinationType: topology.ToQueue, RoutingKey: key, Arguments: a}
	}
	exchange := func(name, kind string, a args) *topology.Exchange {
		return &topology.Exchange{Name: name, Type: kind, Durable: true, Arguments: a}
	}
	internal := exchange("inner", "fanout", nil)
	internal.Internal = true
	v := host(
		exchange("orders", "topic", args{"alternate-exchange": "rest"}), exchange("rest", "fanout", nil), exchange("plain", "direct", nil),
		exchange("hash", "x-consistent-hash", nil), exchange("h", "headers", nil), internal,
		queue("a", topology.Classic, nil), queue("b", topology.Classic, nil), queue("left", topology.Classic, nil),
		bind("orders", "a", "order.#", nil), bind("rest", "left", "", nil), bind("plain", "a", "k", nil),
		bind("hash", "a", "1", nil), bind("hash", "b", "1", nil), bind("h", "b", "", args{"x-match": "all", "n": int64(1)}),
	)
	e := New(Input{VirtualHost: v, Version: catalog.V(4, 3)})
	for _, c := range []struct {
		message Message
		outcome string
		queues  string
	}{
		{Message{Exchange: "orders", Key: "order.new"}, "routed", "a"},
		{Message{Exchange: "orders", Key: "refund"}, "routed", "left"},
		{Message{Exchange: "orders", Key: "refund", CC: []string{"order.x"}}, "routed", "a"},
		{Message{Exchange: "plain", Key: "nobody"}, "unroutable", ""},
		{Message{Exchange: "", Key: "b"}, "routed", "b"},
		{Message{Exchange: "", Key: "nobody"}, "unroutable", ""},
		{Message{Exchange: "missing", Key: "k"}, "no-exchange", ""},
		{Message{Exchange: "inner", Key: "k"}, "internal-exchange", ""},
		{Message{Exchange: "hash", Key: "k"}, "routed", "a? b?"},
		{Message{Exchange: "h", Headers: map[string]any{"n": int64(1)}}, "routed", "b"},
		{Message{Exchange: "h", Headers: map[string]any{"n": "1"}}, "unroutable", ""},
	} {
		p := e.Publish(c.message)
		var queues []string
		for _, r := range p.Routes {
			name := r.Queue
			if r.Chance {
				name += "?"
			}
			queues = append(queues, name)
		}
		if p.Outcome != c.outcome || strings.Join(queues, " ") != c.queues || p.Text == "" || p.Reaches() != (c.outcome == "routed") {
			t.Errorf("%+v: %s to %v (%s), want %s to %s", c.message, p.Outcome, queues, p.Text, c.outcome, c.queues)
		}
	}
}

// TestToQuorum is case 10: what the way to a quorum queue is, and what changes.
func TestToQuorum(t *testing.T) {
	v := host(
		queue("q", topology.Classic, args{"x-max-priority": int64(5)}),
		&topology.Exchange{Name: "x", Type: "topic", Durable: true},
		&topology.Binding{Source: "x", Destination: "q", DestinationType: topology.ToQueue, RoutingKey: "a.#"},
		&topology.Policy{Name: "classic", ApplyTo: "classic_queues", Pattern: "q", Definition: args{"message-ttl": int64(1)}},
		queue("unbound", topology.Classic, nil), queue("done", topology.Quorum, nil),
	)
	e := New(Input{VirtualHost: v, Version: catalog.V(4, 3)})
	to := e.Queue("q").ToQuorum
	changes, steps := strings.Join(to.Changes, "\n"), strings.Join(to.Steps, "\n")
	for _, want := range []string{"x-max-priority is refused", `"classic" no longer acts`, "21 deliveries"} {
		if !strings.Contains(changes, want) {
			t.Errorf("%q is not among the changes:\n%s", want, changes)
		}
	}
	// The new binding is there before the old one goes, on both ways.
	order := []string{"bind it like", "Only then remove these bindings", "Count again", "x-queue-type quorum", "Bind \"q\" again before"}
	at := -1
	for _, part := range order {
		next := strings.Index(steps, part)
		if next <= at {
			t.Errorf("%q is not after the step before:\n%s", part, steps)
		}
		at = next
	}
	if e.Queue("done").ToQuorum != nil {
		t.Error("a quorum queue becomes none")
	}
	if steps := strings.Join(e.Queue("unbound").ToQuorum.Steps, "\n"); !strings.Contains(steps, "Nothing is bound") {
		t.Error(steps)
	}
}

// TestUnknown: what is not there is no answer.
func TestUnknown(t *testing.T) {
	if q := New(Input{VirtualHost: host()}).Queue("q"); q != nil {
		t.Errorf("%+v", q)
	}
}

// TestLive: policies that only the broker has act on what a spec declares.
func TestLive(t *testing.T) {
	q := New(Input{
		VirtualHost: host(queue("q", topology.Classic, nil), policyNamed("same", 1, "x", args{"max-length": int64(1)})),
		Live:        host(policyNamed("vendor", 1, "q", args{"max-length": int64(2)}), policyNamed("same", 9, "q", args{"max-length": int64(3)})),
	}).Queue("q")
	if len(q.Settings) != 1 || q.Settings[0].Policy != "vendor" {
		t.Errorf("%+v", q.Settings)
	}
}

// TestLadder: a ladder of 28 topic exchanges has 2^28 ways and is explained at once.
func TestLadder(t *testing.T) {
	data, err := os.ReadFile("../../testdata/real/04-binary-delay-28-broken.json")
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := broker.ReadDefinitions(bytes.NewReader(data), "04", "")
	if err != nil {
		t.Fatal(err)
	}
	// As it is meant: each level leads on to the next.
	for _, repaired := range []bool{false, true} {
		v := state.Topology.VirtualHosts[0]
		if repaired {
			for _, q := range v.Queues {
				if level := strings.TrimPrefix(q.Name, "wait-level-"); level != q.Name && level != "00" {
					var n int
					fmt.Sscan(strings.TrimLeft(level, "0"), &n)
					q.Arguments["x-dead-letter-exchange"] = fmt.Sprintf("wait-level-%02d", n-1)
				}
			}
		}
		started := time.Now()
		e := New(Input{VirtualHost: v})
		e.Queue("wait-level-27")
		one := time.Since(started)
		for _, q := range e.Queues() {
			if got := e.Queue(q); got == nil || len(got.Then) > maxStages {
				t.Errorf("%s: %+v", q, got)
			}
		}
		p := e.Publish(Message{Exchange: "wait-level-27", Key: strings.Repeat("1.", 28) + "target"})
		if len(p.Stages) > maxMessageStages {
			t.Errorf("%d stages", len(p.Stages))
		}
		want := 1
		if repaired {
			want = 28
		}
		if len(p.Stages) < want {
			t.Errorf("repaired %v: %d stages, want %d", repaired, len(p.Stages), want)
		}
		// Far from what is usual, also with -race on a busy machine, and far from what
		// 2^28 ways would take.
		limit := 5 * time.Second
		if repaired {
			limit = time.Minute
		}
		if took := time.Since(started); took > limit {
			t.Errorf("took %v", took)
		} else {
			t.Logf("repaired %v: one queue %v, all and a message %v, %d stages, %d left out", repaired, one, took, len(p.Stages), p.LeftOut)
		}
	}
}

func TestDuration(t *testing.T) {
	for ms, want := range map[int64]string{0: "0ms", 1: "1ms", 1500: "1s500ms", 90000: "1m30s", 86400000: "1d", -1: "-1 ms", 1<<63 - 1: "9223372036854775807 ms"} {
		if got := duration(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}
