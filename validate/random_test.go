package validate

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Names and values that make objects refer to each other, and some that hurt.
var (
	names  = []string{"", "a", "b", "c", "a.b", "amq.topic", "amq.x", "a\x1b[31m\n", "\xff", "ü#*"}
	values = []any{
		nil, true, "", "a", "b", "a\x1b[2J", "drop-head", "reject-publish", "reject-publish-dlx", "at-least-once", "all", "lazy", "1D",
		int64(-1), int64(0), int64(1), int64(1) << 62, 1.5,
		[]any{"a"},
		map[string]any{"a": int64(1)},
	}
	patterns = []string{"", ".*", "^a$", "a", "(", "^(?!a)", "(a+)+$", "\x00"}
	kinds    = []string{"direct", "fanout", "topic", "headers", "x-delayed-message", "x-local-random", "pigeon", ""}
)

func randomArguments(t *rapid.T, keys []string) topology.Arguments {
	a := topology.Arguments{}
	for range rapid.IntRange(0, 5).Draw(t, "arguments") {
		a[rapid.SampledFrom(keys).Draw(t, "argument")] = rapid.SampledFrom(values).Draw(t, "value")
	}
	return a
}

func randomTopology(t *rapid.T) *topology.Topology {
	arguments, policyKeys := []string{"x-foo", "max-length", "x-\x1b"}, []string{"x-foo", "max-\x1b"}
	for _, s := range catalog.Settings {
		if s.Argument != "" {
			arguments = append(arguments, s.Argument)
		}
		if s.PolicyKey != "" {
			policyKeys = append(policyKeys, s.PolicyKey)
		}
	}
	name := rapid.SampledFrom(names)
	v := &topology.VirtualHost{Name: "v\x1b", Position: topology.Position{File: "f", Line: 1}}
	for range rapid.IntRange(0, 6).Draw(t, "queues") {
		q := &topology.Queue{
			VirtualHost: v.Name, Name: name.Draw(t, "queue"), Type: rapid.SampledFrom(append([]topology.QueueType{""}, topology.QueueTypes...)).Draw(t, "type"),
			Durable: rapid.Bool().Draw(t, "durable"), AutoDelete: rapid.Bool().Draw(t, "auto"), Arguments: randomArguments(t, arguments),
		}
		if rapid.Bool().Draw(t, "intent") {
			q.Intent = randomIntent(t, name)
		}
		v.Queues = append(v.Queues, q)
	}
	for range rapid.IntRange(0, 5).Draw(t, "exchanges") {
		e := &topology.Exchange{
			VirtualHost: v.Name, Name: name.Draw(t, "exchange"), Type: rapid.SampledFrom(kinds).Draw(t, "kind"), Durable: rapid.Bool().Draw(t, "durable"),
			Arguments: randomArguments(t, []string{"alternate-exchange", "x-delayed-type", "hash-header", "x-\x1b"}),
		}
		if rapid.Bool().Draw(t, "intent") {
			e.Intent = &topology.ExchangeIntent{External: rapid.Bool().Draw(t, "external")}
		}
		v.Exchanges = append(v.Exchanges, e)
	}
	for range rapid.IntRange(0, 8).Draw(t, "bindings") {
		v.Bindings = append(v.Bindings, &topology.Binding{
			VirtualHost: v.Name, Source: name.Draw(t, "source"), Destination: name.Draw(t, "destination"), RoutingKey: name.Draw(t, "key"),
			DestinationType: rapid.SampledFrom([]topology.DestinationType{topology.ToQueue, topology.ToExchange}).Draw(t, "to"),
			Arguments:       randomArguments(t, []string{"x-match", "x-opt-a", "a"}),
		})
	}
	for range rapid.IntRange(0, 4).Draw(t, "policies") {
		p := &topology.Policy{
			VirtualHost: v.Name, Name: name.Draw(t, "policy"), Pattern: rapid.SampledFrom(patterns).Draw(t, "pattern"),
			ApplyTo:  rapid.SampledFrom([]string{"", "all", "queues", "quorum_queues", "exchanges", "nothing"}).Draw(t, "apply"),
			Priority: rapid.Int64Range(0, 2).Draw(t, "priority"), Definition: randomArguments(t, policyKeys),
		}
		if rapid.Bool().Draw(t, "operator") {
			p.Operator = true
			v.OperatorPolicies = append(v.OperatorPolicies, p)
			continue
		}
		if rapid.Bool().Draw(t, "generated") {
			p.Queue = name.Draw(t, "of")
		}
		v.Policies = append(v.Policies, p)
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
}

func randomIntent(t *rapid.T, name *rapid.Generator[string]) *topology.QueueIntent {
	in := &topology.QueueIntent{
		Role:     rapid.SampledFrom([]topology.Role{"", topology.RoleDeadLetter, topology.RoleWait}).Draw(t, "role"),
		External: rapid.Bool().Draw(t, "external"),
		Settings: map[string]topology.SettingValue{
			"max-length": {Value: rapid.SampledFrom(values).Draw(t, "max-length"), By: topology.ByPolicy}, "none": {},
		},
		Delays: []topology.Delay{{Delay: time.Second, Queue: name.Draw(t, "delay")}},
	}
	if rapid.Bool().Draw(t, "retry") {
		in.Retry = &topology.Retry{
			MaxAttempts: rapid.Int64Range(0, 3).Draw(t, "attempts"), Delays: []time.Duration{time.Second, 2 * time.Second},
			Mechanism:  rapid.SampledFrom([]topology.Mechanism{topology.MechanismWaitQueue, topology.MechanismRejectCycle, topology.MechanismPerMessage}).Draw(t, "mechanism"),
			WaitQueues: rapid.SliceOfN(name, 0, 3).Draw(t, "wait queues"),
		}
	}
	if rapid.Bool().Draw(t, "dead letter") {
		in.DeadLetter = &topology.DeadLetter{Queue: name.Draw(t, "dead")}
		if rapid.Bool().Draw(t, "categories") {
			in.DeadLetter.Categories = &topology.Categories{}
		}
	}
	if rapid.Bool().Draw(t, "contract") {
		in.Contract = &topology.Contract{
			Survives:          rapid.SampledFrom([]string{"", "nothing", "restart", "node-loss"}).Draw(t, "survives"),
			AfterFailureQueue: name.Draw(t, "after"),
		}
	}
	return in
}

// TestRandomTopologies: no topology makes a rule panic, equal input gives equal
// findings, and nothing in them can act on a terminal.
func TestRandomTopologies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Topology: randomTopology(t), Live: nil}
		if rapid.Bool().Draw(t, "live") {
			in.Live = randomTopology(t)
			in.ExchangeTypes = []string{"direct", "fanout"}
		}
		if rapid.Bool().Draw(t, "one version") {
			in.Versions = []catalog.Version{rapid.SampledFrom(catalog.Releases).Draw(t, "version")}
		}
		first := Check(in)
		if again := Check(in); !reflect.DeepEqual(first, again) {
			t.Fatalf("two runs differ:\n%s\n%s", describe(first), describe(again))
		}
		for _, d := range first {
			for _, text := range []string{d.Summary, d.Detail} {
				if strings.ContainsFunc(text, unicode.IsControl) {
					t.Fatalf("%s: a control character gets out: %q", d.Code, text)
				}
			}
		}
	})
}
