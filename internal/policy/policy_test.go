package policy

import (
	"fmt"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func pol(name, pattern string, priority int64, definition topology.Arguments) *topology.Policy {
	return &topology.Policy{Name: name, Pattern: pattern, ApplyTo: "queues", Priority: priority, Definition: definition}
}

var (
	v310 = catalog.Version{Major: 3, Minor: 10, Patch: 8}
	v40  = catalog.Version{Major: 4, Minor: 0, Patch: 5}
	v43  = catalog.Version{Major: 4, Minor: 3, Patch: 6}
)

// TestPrecedence holds the rules against the table of measured values: argument,
// policy, operator policy, and what was in effect.
func TestPrecedence(t *testing.T) {
	all := []catalog.Version{v310, v40, v43}
	for _, c := range []struct {
		setting  string
		types    []topology.QueueType
		versions []catalog.Version
		argument any
		policy   any
		operator any
		want     any
	}{
		{"max-length", []topology.QueueType{"classic", "quorum"}, all, int64(5), int64(2), nil, int64(2)},
		{"max-length", []topology.QueueType{"classic", "quorum"}, all, int64(2), int64(5), nil, int64(2)},
		{"max-length", []topology.QueueType{"classic", "quorum"}, all, int64(9), int64(5), int64(3), int64(3)},
		{"message-ttl", []topology.QueueType{"classic", "quorum"}, all, int64(9), int64(3), int64(5), int64(3)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all, int64(5), int64(2), nil, int64(2)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all, int64(2), int64(5), nil, int64(2)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[:1], nil, nil, nil, nil},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], nil, nil, nil, int64(20)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[:1], int64(-1), int64(3), nil, int64(0)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], int64(-1), int64(3), nil, int64(3)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], int64(3), int64(-1), nil, int64(3)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], int64(-2), nil, nil, int64(-1)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], nil, int64(5), int64(-1), int64(5)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:], nil, int64(-1), nil, int64(-1)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[2:], "5", nil, nil, int64(20)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[1:2], "5", nil, nil, int64(-1)},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[:1], true, nil, nil, nil},
		{"delivery-limit", []topology.QueueType{"quorum"}, all[:2], 5.5, nil, nil, int64(5)},
		{"delivery-limit", []topology.QueueType{"classic"}, all, int64(5), nil, nil, nil},
		{"expires", []topology.QueueType{"classic"}, all, int64(1000), int64(600000), nil, int64(1000)},
		{"expires", []topology.QueueType{"quorum"}, all[1:], int64(1000), int64(600000), nil, int64(1000)},
		{"expires", []topology.QueueType{"quorum"}, all[:1], int64(1000), int64(600000), nil, int64(600000)},
		{"overflow", []topology.QueueType{"classic"}, all, "reject-publish", "drop-head", nil, "reject-publish"},
		{"overflow", []topology.QueueType{"quorum"}, all, "reject-publish", "drop-head", nil, "drop-head"},
		{"overflow", []topology.QueueType{"classic"}, all[1:], "reject-publish", nil, "drop-head", "reject-publish"},
		{"overflow", []topology.QueueType{"quorum"}, all[1:], "reject-publish", nil, "drop-head", "drop-head"},
		{"overflow", []topology.QueueType{"classic", "quorum"}, all[1:], nil, "reject-publish", "drop-head", "drop-head"},
		{"dead-letter-exchange", []topology.QueueType{"classic", "quorum"}, all, "a", "p", nil, "a"},
		{"dead-letter-strategy", []topology.QueueType{"quorum"}, all, "at-least-once", "at-most-once", nil, "at-least-once"},
		{"delayed-retry-type", []topology.QueueType{"quorum"}, all[2:], "disabled", "all", nil, "all"},
		{"delayed-retry-min", []topology.QueueType{"quorum"}, all[2:], int64(500), int64(200), nil, int64(200)},
		{"delayed-retry-min", []topology.QueueType{"quorum"}, all[2:], nil, int64(500), int64(200), int64(500)},
		{"delayed-retry-max", []topology.QueueType{"quorum"}, all[2:], nil, int64(500), int64(200), int64(200)},
		{"delayed-retry-min", []topology.QueueType{"classic"}, all[2:], nil, int64(500), nil, nil},
		{"target-group-size", []topology.QueueType{"quorum"}, all[1:], nil, int64(5), int64(3), int64(5)},
	} {
		row := catalog.Lookup(c.setting)
		for _, v := range c.versions {
			for _, qt := range c.types {
				t.Run(fmt.Sprintf("%s/%s/%s/%v-%v-%v", c.setting, v, qt, c.argument, c.policy, c.operator), func(t *testing.T) {
					q := &topology.Queue{Name: "q", Type: qt, Arguments: topology.Arguments{}}
					var policies, operators []*topology.Policy
					if c.argument != nil {
						q.Arguments[row.Argument] = c.argument
					}
					if c.policy != nil {
						policies = append(policies, pol("p", "^q$", 0, topology.Arguments{row.PolicyKey: c.policy}))
					}
					if c.operator != nil {
						operators = append(operators, pol("o", "", 0, topology.Arguments{row.PolicyKey: c.operator}))
					}
					s := New(v, policies, operators)
					got := s.Effective(q, s.Queue("q", qt))[c.setting].Value
					if got != c.want {
						t.Errorf("in effect: %v, want %v", got, c.want)
					}
				})
			}
		}
	}
}

func TestChoice(t *testing.T) {
	ttl := topology.Arguments{"message-ttl": int64(1)}
	both := topology.Arguments{"message-ttl": int64(1), "delivery-limit": int64(3)}
	low := pol("low", "", 0, ttl)
	high := pol("high", "^q", 10, both)
	twin := pol("atwin", "^q", 10, ttl)
	quorum := &topology.Policy{Name: "quorum", Pattern: "q", ApplyTo: "quorum_queues", Priority: 50, Definition: ttl}
	unread := pol("unread", `^\p{L}`, 99, ttl)
	s := New(v43, []*topology.Policy{low, high, quorum, unread}, []*topology.Policy{pol("op", "x|q", 3, both)})

	m := s.Queue("q", topology.Classic)
	// A policy with one key that the type does not know is ignored as a whole.
	if m.Policy != low || m.Operator != nil || len(m.Ignored) != 2 || m.Ignored[0] != high {
		t.Errorf("classic: %+v", m)
	}
	if len(m.Undecided) != 1 || m.Undecided[0] != unread || s.Problem(unread) == "" {
		t.Errorf("undecided: %+v, %q", m.Undecided, s.Problem(unread))
	}
	m = s.Queue("q", topology.Quorum)
	if m.Policy != quorum || m.Operator == nil || len(m.Ignored) != 0 || len(m.Hidden) != 2 || m.Hidden[0] != high || m.Hidden[1] != low {
		t.Errorf("quorum: %+v", m)
	}
	if m := s.Exchange("q"); m.Policy != nil {
		t.Errorf("apply-to queues acts on an exchange: %+v", m)
	}
	m = New(v43, []*topology.Policy{high, low, twin}, nil).Queue("q", topology.Quorum)
	if !m.Tie || m.Policy != twin {
		t.Errorf("tie: %+v", m)
	}

	m = Match{
		Policy:   pol("p", "", 0, topology.Arguments{"queue-version": int64(1)}),
		Operator: pol("o", "", 0, topology.Arguments{"queue-version": int64(2), "overflow": "drop-head"}),
	}
	if got, want := s.Definition(m), (topology.Arguments{"queue-version": int64(2), "overflow": "drop-head"}); !got.Equal(want) {
		t.Errorf("definition: %v, want %v", got, want)
	}

	// A policy for everything shadows that of an exchange, whatever its keys.
	ae := &topology.Policy{Name: "ae", Pattern: "^x$", ApplyTo: "exchanges", Definition: topology.Arguments{"alternate-exchange": "un"}}
	all := &topology.Policy{Name: "all", Pattern: "", ApplyTo: "all", Priority: 1, Definition: ttl}
	s = New(v310, []*topology.Policy{ae, all}, nil)
	if m := s.Exchange("x"); m.Policy != all || len(m.Hidden) != 1 {
		t.Errorf("exchange: %+v", m)
	}
	s = New(v310, []*topology.Policy{ae}, nil)
	x := &topology.Exchange{Name: "x"}
	if got := s.EffectiveExchange(x, s.Exchange("x"))["alternate-exchange"]; got.Value != "un" || got.Origin != FromPolicy {
		t.Errorf("alternate exchange: %+v", got)
	}
	x.Arguments = topology.Arguments{"alternate-exchange": "own"}
	if got := s.EffectiveExchange(x, s.Exchange("x"))["alternate-exchange"]; got.Value != "own" {
		t.Errorf("alternate exchange: %+v", got)
	}
}

// BenchmarkGenerated: 5,000 queues with a policy each, beside one for all.
func BenchmarkGenerated(b *testing.B) {
	policies := []*topology.Policy{pol("default", `^q\d+$`, 0, topology.Arguments{"max-length": int64(9)})}
	for i := range 5000 {
		policies = append(policies, pol(fmt.Sprintf("rabbitctl:q%d", i), fmt.Sprintf("^q%d$", i), 1000, topology.Arguments{"delivery-limit": int64(4)}))
	}
	for b.Loop() {
		s := New(v43, policies, nil)
		for i := range 5000 {
			q := &topology.Queue{Name: fmt.Sprintf("q%d", i), Type: topology.Quorum}
			m := s.Queue(q.Name, q.Type)
			if s.Effective(q, m)["delivery-limit"].Value != int64(4) {
				b.Fatal("wrong")
			}
		}
	}
}
