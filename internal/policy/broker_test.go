package policy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// random draws policies for a broker of one version.
type random struct {
	*rand.Rand
	version catalog.Version
}

func (r random) pick(list ...string) string { return list[r.IntN(len(list))] }

// pattern draws a regular expression that every version takes.
func (r random) pattern() string {
	if r.IntN(3) == 0 {
		return r.pick("", ".*", "^orders$", `^orders\.`, "orders", `^a\.b\+c$`, "ü", "^rabbitctl:x$")
	}
	atom := func() string {
		return r.pick("o", "r", "orders", ".", `\.`, "[a-m]", "[^a-z]", `\d`, `\w`, `\W`, `\s`, "[[:alpha:]]", `[\w.-]`, "(?:a|o)", "(x|y)", `\x6f`, "ü",
			`(?:\bretry\b)`, "(?=o)", "(?<!s)", "(?i:O)", `\Q.\E`, `\+`)
	}
	var b strings.Builder
	b.WriteString(r.pick("", "^", "^"))
	for range 1 + r.IntN(4) {
		b.WriteString(atom() + r.pick("", "", "", "*", "+", "?", "{1,2}", "*?", "++"))
	}
	b.WriteString(r.pick("", "$", "|retry"))
	return b.String()
}

// value draws a value that the broker takes for the key.
func (r random) value(s *catalog.Setting) any {
	switch {
	case s.Name == "delivery-limit" && r.version.AtLeast(catalog.V(4, 0)):
		return int64(r.IntN(6) - 1)
	case s.Enum != nil:
		return r.pick(s.Enum...)
	case s.Value == catalog.Age:
		return r.pick("7D", "1h")
	case s.Value == catalog.Text:
		return r.pick("", "x")
	case s.Value == catalog.Boolean:
		return r.IntN(2) == 0
	}
	low := max(s.Min, 0)
	n := low + r.Int64N(50)
	if s.Name == "expires" { // or the queue is gone before it is read
		n += 3_600_000
	}
	if s.Max != 0 {
		n = min(n, s.Max)
	}
	return n
}

func (r random) definition(operator bool) topology.Arguments {
	var rows []*catalog.Setting
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		takes := s.TakesPolicy(r.version)
		if operator {
			takes = s.TakesOperatorPolicy(r.version)
		}
		// Mirroring and delayed retry want several keys at once.
		if takes && s.Plugin == "" && !strings.HasPrefix(s.Name, "ha-") && !strings.HasPrefix(s.Name, "delayed-retry") {
			rows = append(rows, s)
		}
	}
	d := topology.Arguments{}
	for range 1 + r.IntN(2) {
		s := rows[r.IntN(len(rows))]
		if r.IntN(2) == 0 { // what all queues know, so that policies act
			s = catalog.Lookup(r.pick("message-ttl", "max-length", "expires", "max-length-bytes"))
		}
		d[s.PolicyKey] = r.value(s)
	}
	if !operator && r.version.AtLeast(catalog.V(4, 3)) && r.IntN(5) == 0 {
		d["delayed-retry-type"], d["delayed-retry-min"] = "all", int64(100+r.IntN(500))
	}
	return d
}

func (r random) policies(operator bool) []*topology.Policy {
	priorities := r.Perm(9) // distinct: between equal ones RabbitMQ's choice is undefined
	var list []*topology.Policy
	for i := range r.IntN(5) {
		p := &topology.Policy{Name: fmt.Sprintf("p%d", i), Operator: operator, Priority: int64(priorities[i] - 2)}
		p.Pattern, p.Definition = r.pattern(), r.definition(operator)
		p.ApplyTo = r.pick("all", "queues", "queues", "exchanges")
		if r.version.AtLeast(catalog.V(4, 0)) && r.IntN(3) == 0 {
			p.ApplyTo = r.pick("classic_queues", "quorum_queues", "streams")
		}
		if operator && (p.ApplyTo == "exchanges" || p.ApplyTo == "all") {
			p.ApplyTo = "queues"
		}
		list = append(list, p)
	}
	return list
}

// TestRandomPoliciesOnBrokers holds the model against brokers: for random queues,
// exchanges, policies and operator policies both agree on what acts where and, on
// 4.3, on the merged definition.
func TestRandomPoliciesOnBrokers(t *testing.T) {
	names := []string{"orders", "orders.retry", "my-orders", "Orders", "a.b+c", "ünïcode", "rabbitctl:x", "x y", "o", "12", "dead/orders", "retry"}
	rounds := brokertest.Rounds(25, 400)
	if testing.Short() {
		rounds = 5
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		vhost := b.VirtualHost(t)
		types := map[string]topology.QueueType{}
		for i, n := range names {
			types[n] = topology.QueueTypes[i%3]
			b.Put(t, brokertest.Path("queues", vhost, n), map[string]any{"durable": true, "arguments": map[string]any{"x-queue-type": types[n]}})
			b.Put(t, brokertest.Path("exchanges", vhost, n), map[string]any{"durable": true, "type": "direct"})
		}
		for round := range rounds {
			r := random{rand.New(rand.NewPCG(7, uint64(round))), version}
			policies, operators := r.policies(false), r.policies(true)
			putPolicies(t, b, vhost, "policies", policies)
			putPolicies(t, b, vhost, "operator-policies", operators)
			compareWithBroker(t, b, vhost, types, New(version, policies, operators), fmt.Sprintf("round %d, %s", round, describe(policies, operators)))
			for _, p := range policies {
				b.Do(t, "DELETE", brokertest.Path("policies", vhost, p.Name), nil)
			}
			for _, p := range operators {
				b.Do(t, "DELETE", brokertest.Path("operator-policies", vhost, p.Name), nil)
			}
			if t.Failed() {
				return
			}
		}
	})
}

func putPolicies(t *testing.T, b *brokertest.Broker, vhost, kind string, list []*topology.Policy) {
	t.Helper()
	for _, p := range list {
		b.Put(t, brokertest.Path(kind, vhost, p.Name), map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition,
		})
	}
}

func describe(lists ...[]*topology.Policy) string {
	var b strings.Builder
	for _, list := range lists {
		for _, p := range list {
			fmt.Fprintf(&b, "[%s operator=%v %q %s priority %d %s] ", p.Name, p.Operator, p.Pattern, p.ApplyTo, p.Priority, topology.Text(p.Definition))
		}
	}
	return b.String()
}

func name(p *topology.Policy) string {
	if p == nil {
		return ""
	}
	return p.Name
}

func compareWithBroker(t *testing.T, b *brokertest.Broker, vhost string, types map[string]topology.QueueType, s *Set, round string) {
	t.Helper()
	var queues []struct {
		Name       string
		Policy     string
		Operator   string         `json:"operator_policy"`
		Definition map[string]any `json:"effective_policy_definition"`
	}
	b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true", &queues)
	if len(queues) != len(types) {
		t.Fatalf("%d queues, want %d", len(queues), len(types))
	}
	for _, q := range queues {
		m := s.Queue(q.Name, types[q.Name])
		if len(m.Undecided) > 0 {
			for _, p := range m.Undecided { // only what folds bytes above 127 may be left open
				if !strings.Contains(p.Pattern, "(?i") {
					t.Errorf("%s: pattern %q is undecided for %q: %s", round, p.Pattern, q.Name, s.Problem(p))
				}
			}
			continue
		}
		if name(m.Policy) != q.Policy {
			t.Errorf("%s: policy of %s queue %q is %q, the model says %q", round, types[q.Name], q.Name, q.Policy, name(m.Policy))
		}
		if !b.AtLeast("4.3") { // below, lists without statistics do not show the rest
			continue
		}
		if name(m.Operator) != q.Operator {
			t.Errorf("%s: operator policy of %s queue %q is %q, the model says %q", round, types[q.Name], q.Name, q.Operator, name(m.Operator))
		}
		shown, err := topology.CanonicalArguments(q.Definition)
		if err != nil {
			t.Fatal(err)
		}
		if want := s.Definition(m); !want.Equal(shown) {
			t.Errorf("%s: in effect on %s queue %q: %v, the model says %v", round, types[q.Name], q.Name, shown, want)
		}
	}
	var exchanges []struct{ Name, Policy string }
	b.Get(t, brokertest.Path("exchanges", vhost), &exchanges)
	for _, e := range exchanges {
		if m := s.Exchange(e.Name); len(m.Undecided) == 0 && name(m.Policy) != e.Policy {
			t.Errorf("%s: policy of exchange %q is %q, the model says %q", round, e.Name, e.Policy, name(m.Policy))
		}
	}
}
