package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

// fatal is what testing.T and rapid.T share.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// mustExpand reads a spec as the command does.
func mustExpand(t fatal, text string, v catalog.Version) *topology.Topology {
	t.Helper()
	spec, findings := specs.Load(specs.Input{Files: []specs.File{{Name: "spec.yaml", Data: []byte(text)}}})
	if findings.HasErrors() {
		t.Fatalf("load: %v\n%s", findings, text)
	}
	desired, findings := spec.Expand(specs.Target{Version: v})
	if findings.HasErrors() {
		t.Fatalf("expand: %v\n%s", findings, text)
	}
	return desired
}

// liveOf is what a broker that holds these objects would show.
func liveOf(vhost string, objects map[topology.Key]topology.Object) *topology.Topology {
	v := &topology.VirtualHost{Name: vhost, DefaultQueueType: topology.Classic}
	keys := slices.SortedFunc(maps.Keys(objects), func(a, b topology.Key) int {
		return strings.Compare(a.Address(), b.Address())
	})
	for _, k := range keys {
		switch o := objects[k].(type) {
		case *topology.Exchange:
			x := *o
			x.Intent = nil
			v.Exchanges = append(v.Exchanges, &x)
		case *topology.Queue:
			q := *o
			q.Intent = nil
			v.Queues = append(v.Queues, &q)
		case *topology.Binding:
			v.Bindings = append(v.Bindings, o)
		case *topology.Policy:
			p := *o
			p.Queue = ""
			v.Policies = append(v.Policies, &p)
		}
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
}

// planFor compares, with every live queue empty.
func planFor(desired, live *topology.Topology, v catalog.Version) *plan.Plan {
	var zero int64
	counts := map[topology.Key]plan.Counts{}
	for _, host := range live.VirtualHosts {
		for _, q := range host.Queues {
			counts[q.Key()] = plan.Counts{Messages: &zero, Consumers: &zero}
		}
	}
	p, _ := plan.Compute(plan.Input{
		Desired: desired, Live: live, Counts: counts, Server: plan.Server{Version: v, ExchangeTypes: []string{"direct", "fanout", "headers", "topic"}},
	})
	return p
}

// routes answers what stands on the dead-letter routes of one virtual host.
type routes struct {
	desired *topology.VirtualHost
	index   *topology.Index
	version catalog.Version
}

func routesOf(desired *topology.Topology, v catalog.Version) *routes {
	host := desired.VirtualHosts[0]
	return &routes{host, host.Index(), v}
}

// anyKey stands for the keys of the messages themselves.
const anyKey = "#"

// target is the dead-letter target in effect of a queue.
func (r *routes) target(q *topology.Queue, set *policy.Set) (exchange, key string, ok bool) {
	effective := set.Effective(q, set.Queue(q.Name, q.Type))
	exchange, ok = effective["dead-letter-exchange"].Value.(string)
	key = anyKey
	if routed, set := effective["dead-letter-routing-key"].Value.(string); set {
		key = routed
	}
	return exchange, key, ok
}

// takes reports whether a binding may take messages of a key.
func takes(x *topology.Exchange, b *topology.Binding, key string) bool {
	byKey := x.Type == "direct" || x.Type == "topic" && !strings.ContainsAny(b.RoutingKey, "*#")
	return !byKey || key == anyKey || key == b.RoutingKey
}

// needed lists what the spec puts on the way from an exchange to the queues where
// it ends, and whether the dead letters of those come back to queue home.
func (r *routes) needed(exchange, key, home string) (keys []topology.Key, back bool) {
	set := policy.New(r.version, r.desired.Policies, r.desired.OperatorPolicies)
	seen := map[topology.Key]bool{}
	type arrival struct{ exchange, key string }
	arrived := map[arrival]bool{}
	var visitQueue func(name string, further bool)
	var visitExchange func(name, key string, further bool)
	// Objects further on than the first queues are visited only for the way back.
	add := func(k topology.Key, further bool) (first bool) {
		first = !seen[k]
		seen[k] = true
		if first && !further {
			keys = append(keys, k)
		}
		return first
	}
	var ends []*topology.Queue
	visitQueue = func(name string, further bool) {
		back = back || name == home
		if q := r.index.Queues[name]; q != nil && add(q.Key(), further) {
			ends = append(ends, q)
		}
	}
	visitExchange = func(name, key string, further bool) {
		if name == "" {
			visitQueue(key, further)
			return
		}
		x := r.index.Exchanges[name]
		if x == nil || arrived[arrival{name, key}] {
			return
		}
		arrived[arrival{name, key}] = true
		add(x.Key(), further)
		for _, b := range r.index.From[name] {
			if !takes(x, b, key) {
				continue
			}
			add(b.Key(), further)
			if b.DestinationType == topology.ToExchange {
				visitExchange(b.Destination, key, further)
			} else {
				visitQueue(b.Destination, further)
			}
		}
		if alternate, ok := x.Arguments["alternate-exchange"].(string); ok {
			visitExchange(alternate, key, further)
		}
	}
	visitExchange(exchange, key, false)
	for i := 0; i < len(ends); i++ { // grows while it is walked
		if x, key, ok := r.target(ends[i], set); ok {
			visitExchange(x, key, true)
		}
	}
	return keys, back
}

// deadEnds lists the queues whose dead-letter route in effect misses something
// that the spec puts on it. Left out are routes that come back to their queue:
// one of a circle has to be first.
func (r *routes) deadEnds(objects map[topology.Key]topology.Object) map[string]string {
	live := liveOf(r.desired.Name, objects).VirtualHosts[0]
	set := policy.New(r.version, live.Policies, nil)
	ends := map[string]string{}
	for _, q := range live.Queues {
		exchange, key, ok := r.target(q, set)
		if !ok {
			continue
		}
		keys, back := r.needed(exchange, key, q.Name)
		if back {
			continue
		}
		for _, k := range keys {
			if objects[k] == nil {
				ends[q.Name] = fmt.Sprintf("%s has a dead-letter route through %q, where %s is missing", q.Key(), exchange, k)
			}
		}
	}
	return ends
}

func TestDeadEndsAreSeen(t *testing.T) {
	desired := mustExpand(t, `
version: 1
exchanges: {dlx: {type: fanout, alternate_exchange: ae}, ae: {type: fanout}}
queues:
  work: {type: classic, dead_letter: {exchange: dlx, settings_by: arguments}}
  plain: {type: classic, dead_letter: dead}
  dead: {type: classic, bindings: [{exchange: dlx}], role: dead-letter, owner: me}
  lost: {type: classic, bindings: [{exchange: ae}], role: dead-letter, owner: me}
`, catalog.Newest)
	r := routesOf(desired, catalog.Newest)
	all := map[topology.Key]topology.Object{}
	for _, o := range desired.VirtualHosts[0].Objects() {
		all[o.Key()] = o
	}
	if ends := r.deadEnds(all); len(ends) > 0 {
		t.Errorf("complete: %v", ends)
	}
	for _, o := range desired.VirtualHosts[0].Objects() {
		some := maps.Clone(all)
		delete(some, o.Key())
		want := 1
		switch o.Key().Name {
		case "work", "plain", "rabbitctl:plain", "rabbitctl:dead":
			want = 0
		case "dead":
			want = 2
		}
		if ends := r.deadEnds(some); len(ends) != want {
			t.Errorf("without %s: %v, want %d", o.Key(), ends, want)
		}
	}
}
