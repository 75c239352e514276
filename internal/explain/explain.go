// Package explain answers two questions about a virtual host: what is in effect on a
// queue and why, and where a message goes that is published, and then where it goes
// each time something fails. It is pure: a topology, the version of RabbitMQ and what
// internal/policy and internal/flow know of both are turned into a value that
// internal/render writes.
//
// What brokers do was measured on RabbitMQ 3.10.8, 4.0.5 and 4.3.6; the tests hold the
// answers against all three.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Input is what is explained.
type Input struct {
	// VirtualHost is a desired or live state. It must not change afterwards.
	VirtualHost *topology.VirtualHost
	// Live is the broker's state beside a desired one: its policies act too, and its
	// objects can be led to. Nil: none.
	Live *topology.VirtualHost
	// Version of RabbitMQ; zero counts as the newest known.
	Version catalog.Version
}

// Explainer explains one virtual host on one version of RabbitMQ. It is not for
// several goroutines at once.
type Explainer struct {
	vhost   *topology.VirtualHost
	version catalog.Version
	index   *topology.Index
	set     *policy.Set
	graph   *flow.Graph
	circles func() []flow.Cycle // worked out once
	keys    map[*flow.Keys]string
}

// New prepares a virtual host.
func New(in Input) *Explainer {
	vhost := *in.VirtualHost
	if in.Version.IsZero() {
		in.Version = catalog.Newest
	}
	if in.Live != nil {
		vhost.Policies = withOthers(vhost.Policies, in.Live.Policies)
		vhost.OperatorPolicies = withOthers(vhost.OperatorPolicies, in.Live.OperatorPolicies)
	}
	e := &Explainer{
		keys:  map[*flow.Keys]string{},
		vhost: &vhost, version: in.Version, index: vhost.Index(),
		set:   policy.New(in.Version, vhost.Policies, vhost.OperatorPolicies),
		graph: flow.New(&vhost, in.Version, flow.Options{Live: in.Live}),
	}
	e.circles = sync.OnceValue(e.graph.Cycles)
	return e
}

// withOthers adds the live policies that the desired ones do not name.
func withOthers(desired, live []*topology.Policy) []*topology.Policy {
	all := slices.Clone(desired)
	for _, p := range live {
		if !slices.ContainsFunc(desired, func(d *topology.Policy) bool { return d.Name == p.Name }) {
			all = append(all, p)
		}
	}
	return all
}

// Queues lists the names of all queues, sorted.
func (e *Explainer) Queues() []string {
	names := make([]string, len(e.vhost.Queues))
	for i, q := range e.vhost.Queues {
		names[i] = q.Name
	}
	slices.Sort(names)
	return names
}

// typed is a queue with its type filled in, and where the type comes from.
func (e *Explainer) typed(q *topology.Queue) (*topology.Queue, string) {
	t := *q
	switch {
	case q.Type != "":
		return &t, "declared"
	case e.vhost.DefaultQueueType != "" && q.Durable && !q.AutoDelete && !q.Exclusive:
		t.Type = e.vhost.DefaultQueueType
		return &t, "the virtual host's default"
	}
	t.Type = topology.Classic
	return &t, "RabbitMQ's default"
}

// number is a setting's value as an integer.
func number(settings map[string]policy.Value, name string) (int64, bool) {
	n, ok := settings[name].Value.(int64)
	return n, ok
}

// effective are the settings in effect on a queue.
func (e *Explainer) effective(q *topology.Queue) map[string]policy.Value {
	return e.set.Effective(q, e.set.Queue(q.Name, q.Type))
}

// valueText writes a setting's value for people, with its unit.
func valueText(row *catalog.Setting, value any) string {
	n, ok := value.(int64)
	switch {
	case !ok || row == nil:
		return topology.Text(value)
	case row.Name == "delivery-limit" && n < 0:
		return "no limit"
	case row.Value == catalog.Milliseconds:
		return duration(n)
	case row.Value == catalog.Bytes:
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprint(n)
}

// duration writes milliseconds as a spec does: 30s, 1h30m, 250ms.
func duration(ms int64) string {
	if ms < 0 || ms > int64(time.Duration(1<<63-1)/time.Millisecond) {
		return fmt.Sprintf("%d ms", ms)
	}
	units := []struct {
		name string
		ms   int64
	}{{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}}
	text := ""
	for _, u := range units {
		if n := ms / u.ms; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
			ms %= u.ms
		}
	}
	return cmp.Or(text, "0ms")
}

// exchangeText names an exchange in a sentence.
func exchangeText(name string) string {
	if name == "" {
		return "the default exchange"
	}
	return fmt.Sprintf("exchange %q", name)
}

// keysText names a set of routing keys in a sentence: all of a few, or an example.
// Sets are shared among queues, and some cost time to look into.
func (e *Explainer) keysText(k *flow.Keys) string {
	text, known := e.keys[k]
	if !known {
		text = describeKeys(k)
		e.keys[k] = text
	}
	return text
}

func describeKeys(k *flow.Keys) string {
	keys, all := k.Some(3)
	switch {
	case len(keys) == 0:
		return "no routing key"
	case all && len(keys) == 1:
		return fmt.Sprintf("the routing key %q", keys[0])
	case all:
		return "the routing keys " + quoted(keys)
	}
	return fmt.Sprintf("routing keys such as %q", k.Example())
}

func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
