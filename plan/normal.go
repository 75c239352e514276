package plan

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// since311 is the first series with a default queue type of virtual hosts (3.10.8
// takes one and ignores it).
var since311 = catalog.V(3, 11)

// normalLive brings a live virtual host into the form that is compared. The
// original is not changed. Lock queues are left out.
func normalLive(v *topology.VirtualHost) *topology.VirtualHost {
	n := *v
	n.Queues = make([]*topology.Queue, 0, len(v.Queues))
	for _, q := range v.Queues {
		if strings.HasPrefix(q.Name, topology.LockPrefix) {
			continue
		}
		// Definitions of older versions do not write the type of classic queues.
		n.Queues = append(n.Queues, normalQueue(q, topology.Classic))
	}
	n.Exchanges = normalExchanges(v.Exchanges)
	n.Bindings = slices.DeleteFunc(slices.Clone(v.Bindings), func(b *topology.Binding) bool { return b.Source == "" })
	n.Policies, n.OperatorPolicies = normalPolicies(v.Policies), normalPolicies(v.OperatorPolicies)
	return &n
}

// normalDesired does the same for the desired side. Queues without a type get the
// one that the broker will give them.
func normalDesired(v, live *topology.VirtualHost, version catalog.Version) *topology.VirtualHost {
	n := *v
	t := live.DefaultQueueType
	if v.Settings != nil && v.Settings.DefaultQueueType != "" {
		t = v.Settings.DefaultQueueType
	}
	if t == "" || version.Below(since311) {
		t = topology.Classic
	}
	n.Queues = make([]*topology.Queue, len(v.Queues))
	for i, q := range v.Queues {
		n.Queues[i] = normalQueue(q, t)
	}
	n.Exchanges = normalExchanges(v.Exchanges)
	n.Policies, n.OperatorPolicies = normalPolicies(v.Policies), normalPolicies(v.OperatorPolicies)
	return &n
}

// normalExchanges leaves out the default exchange; an exchange without a type is
// direct.
func normalExchanges(list []*topology.Exchange) []*topology.Exchange {
	all := slices.DeleteFunc(slices.Clone(list), func(e *topology.Exchange) bool { return e.Name == "" })
	for i, e := range all {
		if e.Type == "" {
			n := *e
			n.Type = "direct"
			all[i] = &n
		}
	}
	return all
}

func normalQueue(q *topology.Queue, t topology.QueueType) *topology.Queue {
	_, typed := q.Arguments["x-queue-type"]
	if q.Type != "" && !typed {
		return q
	}
	n := *q
	if typed {
		n.Arguments = q.Arguments.Clone()
		written, _ := n.Arguments["x-queue-type"].(string)
		delete(n.Arguments, "x-queue-type")
		if n.Type == "" {
			n.Type = topology.QueueType(written)
		}
	}
	if n.Type == "" {
		n.Type = t
		if !q.Durable || q.AutoDelete || q.Exclusive {
			n.Type = topology.Classic // the default holds for lasting queues only
		}
	}
	return &n
}

func normalPolicies(list []*topology.Policy) []*topology.Policy {
	all := slices.Clone(list)
	for i, p := range all {
		if p.ApplyTo == "" {
			n := *p
			n.ApplyTo = "all"
			all[i] = &n
		}
	}
	return all
}

// predeclared reports whether every broker has the exchange.
func predeclared(exchange string) bool { return exchange == "" || strings.HasPrefix(exchange, "amq.") }
