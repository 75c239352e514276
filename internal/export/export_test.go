package export_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/compile"
	"github.com/rabbitctl/rabbitctl/internal/export"
	"github.com/rabbitctl/rabbitctl/internal/spectest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

var queueNames = []string{"q", "q.retry", "q.retry.30s", "q.retry.1m", "q.dead", "a ${b}", "1", "null", "- x", "ü/語", "q.retry.retry"}

// drawTopology draws a virtual host that is nearly what foldings look for, so that
// they are tried where they are just not right.
func drawTopology(t *rapid.T, v catalog.Version) *topology.Topology {
	vhost := &topology.VirtualHost{Name: rapid.SampledFrom([]string{"/", "x", "${y}"}).Draw(t, "vhost"), DefaultQueueType: topology.Classic}
	pick := func(list ...any) any { return rapid.SampledFrom(list).Draw(t, "value") }
	name := func() string { return rapid.SampledFrom(queueNames).Draw(t, "name") }
	settings := func(q topology.QueueType) map[string]any {
		all := map[string]any{}
		maybe := func(key string, v any) {
			if rapid.Bool().Draw(t, key) {
				all[key] = v
			}
		}
		if q == topology.Stream {
			maybe("max-age", pick("7D", "1M", "36h"))
			return all
		}
		maybe("dead-letter-exchange", pick("", "x"))
		maybe("dead-letter-routing-key", name())
		maybe("message-ttl", pick(int64(30000), int64(60000), int64(0), int64(1)))
		maybe("max-length", pick(int64(10), int64(0)))
		maybe("max-length-bytes", pick(int64(1<<20), int64(1000), int64(7)))
		maybe("overflow", pick("reject-publish", "drop-head"))
		if q == topology.Quorum {
			maybe("dead-letter-strategy", pick("at-least-once", "at-most-once"))
			maybe("delivery-limit", pick(int64(0), int64(4), int64(-1)))
		}
		return all
	}
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(queueNames), 0, 6, rapid.ID[string]).Draw(t, "queues") {
		q := &topology.Queue{VirtualHost: vhost.Name, Name: n, Type: rapid.SampledFrom(topology.QueueTypes).Draw(t, "type"), Durable: true}
		if q.Type == topology.Classic {
			q.Durable = rapid.IntRange(0, 5).Draw(t, "durable") > 0
		}
		q.Arguments = topology.Arguments{}
		for k, value := range settings(q.Type) {
			q.Arguments["x-"+k] = value
		}
		if rapid.IntRange(0, 5).Draw(t, "unknown") == 0 {
			q.Arguments[rapid.SampledFrom([]string{"x-foo", "foo", "x-${z}"}).Draw(t, "key")] = pick(nil, true, "1", int64(1), 1.5, []any{"a"}, map[string]any{"<<": "b"})
		}
		vhost.Queues = append(vhost.Queues, q)
		if definition := settings(q.Type); len(definition) > 0 && rapid.IntRange(0, 2).Draw(t, "policy") == 0 {
			vhost.Policies = append(vhost.Policies, &topology.Policy{
				VirtualHost: vhost.Name, Name: "rabbitctl:" + n, Pattern: rapid.SampledFrom([]string{"^" + n + "$", "^q\\.dead$"}).Draw(t, "pattern"),
				ApplyTo: rapid.SampledFrom([]string{catalog.ApplyToType(q.Type, v), "all"}).Draw(t, "apply-to"), Priority: 1000, Definition: definition,
			})
		}
	}
	vhost.Exchanges = append(vhost.Exchanges, &topology.Exchange{VirtualHost: vhost.Name, Name: "x", Type: "headers", Durable: true})
	for range rapid.IntRange(0, 4).Draw(t, "bindings") {
		b := &topology.Binding{VirtualHost: vhost.Name, Source: "x", Destination: name(), DestinationType: topology.ToQueue, RoutingKey: rapid.SampledFrom([]string{"", "k", "#", "${k}"}).Draw(t, "key")}
		if rapid.Bool().Draw(t, "headers") {
			b.Arguments = topology.Arguments{"x-match": pick("all", "any", "odd"), "n": pick("1", int64(1), true)}
		}
		same := func(o *topology.Binding) bool { return o.Key() == b.Key() }
		if vhost.Queue(b.Destination) != nil && !slices.ContainsFunc(vhost.Bindings, same) {
			vhost.Bindings = append(vhost.Bindings, b)
		}
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{vhost}}
}

// TestExportChangesNothing holds the export of any topology to be exact: nothing
// to change, nothing left out, no difference explained away.
func TestExportChangesNothing(t *testing.T) {
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { changesNothing(t, drawTopology(t, v), v) })
		})
	}
}

// TestExportOfRandomSpecs: the same for what specs make.
func TestExportOfRandomSpecs(t *testing.T) {
	for _, v := range versions {
		t.Run(v.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := spectest.Draw(t, v, "a ${b}", "c")
				t.Log(text)
				spec, _ := specs.Load(specs.Input{Files: []specs.File{{Name: "s", Data: []byte(text)}}})
				desired, _ := spec.Expand(specs.Target{Version: v})
				definitions, _, err := compile.Definitions(desired, v)
				if err != nil {
					t.Fatal(err)
				}
				live, found, err := broker.ReadDefinitions(bytes.NewReader(definitions), "definitions.json", "")
				if err != nil || found.HasErrors() {
					t.Fatalf("%v %v\n%s", found, err, definitions)
				}
				changesNothing(t, live.Topology, v)
			})
		})
	}
}

var versions = []catalog.Version{{Major: 3, Minor: 10, Patch: 8}, {Major: 4, Minor: 0, Patch: 5}, {Major: 4, Minor: 3, Patch: 6}}

func changesNothing(t *rapid.T, live *topology.Topology, v catalog.Version) {
	text, found := export.Spec(export.Input{Topology: live, Version: v})
	if len(found) > 0 {
		t.Fatalf("findings: %v\n%s", found, text)
	}
	spec, wrong := specs.Load(specs.Input{Files: []specs.File{{Name: "e", Data: text}}})
	if len(wrong) > 0 {
		t.Fatalf("%v\n%s", wrong, text)
	}
	desired, _ := spec.Expand(specs.Target{Version: v})
	for _, h := range live.VirtualHosts {
		written := desired.VirtualHost(h.Name)
		if written == nil {
			t.Fatalf("virtual host %q is not in\n%s", h.Name, text)
		}
		for _, o := range h.Objects() {
			if o.Key().Kind == topology.KindVirtualHost || o.Key().Kind == topology.KindExchange && strings.HasPrefix(o.Key().Name, "amq.") {
				continue // plan compares the one, every virtual host has the others
			}
			same := func(d topology.Object) bool {
				return d.Key() == o.Key() && fmt.Sprint(describe(d)) == fmt.Sprint(describe(o))
			}
			if !slices.ContainsFunc(written.Objects(), same) {
				t.Fatalf("%s is not the same\n%s", o.Key(), text)
			}
		}
	}
	p, _ := plan.Compute(plan.Input{Desired: desired, Live: live, Server: plan.Server{Version: v}, Offline: true})
	if !p.Empty() || len(p.Unmanaged) > 0 {
		t.Fatalf("plan has %d changes, %v unmanaged\n%s", len(p.Changes), p.Unmanaged, text)
	}
	if again, _ := export.Spec(export.Input{Topology: live, Version: v}); !bytes.Equal(text, again) {
		t.Fatalf("two exports differ\n%s", text)
	}
}

func describe(o topology.Object) []string {
	var all []string
	for _, a := range o.Attributes() {
		all = append(all, a.Name+"="+topology.Text(a.Value))
	}
	return all
}
