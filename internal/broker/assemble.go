package broker

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// gathered is one virtual host's entries, from lists or from definitions, on
// their way to the one form.
type gathered struct {
	vhost   *topology.VirtualHost
	leftOut []topology.Object
	hidden  map[string]bool // queues that are not part of the topology
	locks   map[string]bool
	sorted  bool
}

func newGathered(name string) *gathered {
	return &gathered{vhost: &topology.VirtualHost{Name: name}, hidden: map[string]bool{}, locks: map[string]bool{}}
}

// queue adds a queue. untyped is the type of one that does not say it.
func (g *gathered) queue(e queueEntry, untyped topology.QueueType, at topology.Position) {
	q := &topology.Queue{
		VirtualHost: g.vhost.Name, Name: *e.Name, Type: queueTypeOf(e, untyped), Durable: e.Durable == nil || bool(*e.Durable),
		AutoDelete: bool(e.AutoDelete), Exclusive: bool(e.Exclusive), Arguments: withoutType(e.Arguments.table()), Position: at,
	}
	switch {
	case strings.HasPrefix(q.Name, topology.LockPrefix):
		g.locks[q.Name] = true
	case q.Exclusive, strings.HasPrefix(q.Name, "amq.gen-"):
		g.hidden[q.Name] = true
		g.leftOut = append(g.leftOut, q)
	default:
		g.vhost.Queues = append(g.vhost.Queues, q)
	}
}

// queueTypeOf: the argument is what was declared; the field is there on all
// versions and the only source for an untyped queue on 3.10.
func queueTypeOf(e queueEntry, untyped topology.QueueType) topology.QueueType {
	if t, ok := e.Arguments["x-queue-type"].(string); ok && t != "" {
		return topology.QueueType(t)
	}
	if e.Type != "" {
		return topology.QueueType(e.Type)
	}
	return untyped
}

func withoutType(a topology.Arguments) topology.Arguments {
	if _, ok := a["x-queue-type"]; !ok {
		return a
	}
	if len(a) == 1 {
		return nil
	}
	a = a.Clone()
	delete(a, "x-queue-type")
	return a
}

// exchange adds an exchange, except the default one.
func (g *gathered) exchange(e exchangeEntry, at topology.Position) {
	if *e.Name == "" {
		return
	}
	x := &topology.Exchange{
		VirtualHost: g.vhost.Name, Name: *e.Name, Type: e.Type, Durable: e.Durable == nil || bool(*e.Durable),
		AutoDelete: bool(e.AutoDelete), InternalUnknown: e.Internal == nil, Arguments: e.Arguments.table(), Position: at,
	}
	if e.Internal != nil {
		x.Internal = bool(*e.Internal)
	}
	g.vhost.Exchanges = append(g.vhost.Exchanges, x)
}

// binding adds a binding, except those of the default exchange. It must come
// after the queues: a binding of a queue that is left out is left out too.
func (g *gathered) binding(e bindingEntry, at topology.Position) {
	if *e.Source == "" {
		return
	}
	b := &topology.Binding{
		VirtualHost: g.vhost.Name, Source: *e.Source, Destination: *e.Destination, DestinationType: topology.DestinationType(e.DestinationType),
		RoutingKey: e.key(), Arguments: e.Arguments.table(), PropertiesKey: e.PropertiesKey, Position: at,
	}
	toQueue := b.DestinationType == topology.ToQueue
	switch {
	case toQueue && (g.locks[b.Destination] || strings.HasPrefix(b.Destination, topology.LockPrefix)):
	case toQueue && (g.hidden[b.Destination] || strings.HasPrefix(b.Destination, "amq.gen-")):
		g.leftOut = append(g.leftOut, b)
	default:
		g.vhost.Bindings = append(g.vhost.Bindings, b)
	}
}

// key is the routing key; null and absent are the empty key.
func (e *bindingEntry) key() string {
	if e.RoutingKey == nil {
		return ""
	}
	return *e.RoutingKey
}

func (g *gathered) policy(e policyEntry, operator bool, at topology.Position) {
	p := &topology.Policy{
		VirtualHost: g.vhost.Name, Name: *e.Name, Operator: operator, Pattern: e.Pattern, ApplyTo: cmp.Or(e.ApplyTo, "all"),
		Priority: priority(e.Priority), Definition: e.Definition.table(), Position: at,
	}
	if operator {
		g.vhost.OperatorPolicies = append(g.vhost.OperatorPolicies, p)
		return
	}
	g.vhost.Policies = append(g.vhost.Policies, p)
}

// priority: the broker takes any number, also 1.5 and 1e30; fractions are
// dropped, which keeps the order of all but ties within one integer.
func priority(n json.Number) int64 {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	switch {
	case err != nil && f == 0:
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(math.Floor(f))
}

// parameter adds a runtime parameter. Policies and limits are parameters inside
// the broker and kinds of their own here.
func (g *gathered) parameter(e parameterEntry, at topology.Position) {
	switch e.Component {
	case "policy", "operator_policy", "vhost-limits":
		return
	}
	g.vhost.Parameters = append(g.vhost.Parameters, &topology.Parameter{
		VirtualHost: g.vhost.Name, Component: e.Component, Name: *e.Name, Value: e.Value.value, Position: at,
	})
}

func (g *gathered) permission(e permissionEntry, at topology.Position) {
	g.vhost.Permissions = append(g.vhost.Permissions, &topology.Permission{
		VirtualHost: g.vhost.Name, User: *e.User, Configure: e.Configure, Write: e.Write, Read: e.Read, Position: at,
	})
}

func (g *gathered) topicPermission(e permissionEntry, at topology.Position) {
	g.vhost.TopicPermissions = append(g.vhost.TopicPermissions, &topology.TopicPermission{
		VirtualHost: g.vhost.Name, User: *e.User, Exchange: e.Exchange, Write: e.Write, Read: e.Read, Position: at,
	})
}

// settings takes over what an entry says of the virtual host itself. Metadata
// repeats it, and is the only place in some versions' definitions.
func (g *gathered) settings(e vhostEntry, at topology.Position) {
	s := &topology.VirtualHostSettings{VirtualHost: g.vhost.Name, Description: e.Description, Tags: e.Tags, Limits: e.Limits, Position: at}
	s.DefaultQueueType = queueType(e.DefaultQueueType)
	protected := e.Protected
	if m := e.Metadata; m != nil {
		if s.Description == nil {
			s.Description = m.Description
		}
		if s.Tags == nil {
			s.Tags = m.Tags
		}
		s.DefaultQueueType = cmp.Or(s.DefaultQueueType, queueType(m.DefaultQueueType))
		if protected == nil {
			protected = m.Protected
		}
	}
	if protected != nil {
		on := bool(*protected)
		s.ProtectFromDeletion = &on
	}
	g.vhost.Settings = s
	g.vhost.DefaultQueueType = s.DefaultQueueType
}

// done is the virtual host with everything sorted, so that equal brokers give equal
// states.
func (g *gathered) done() *topology.VirtualHost {
	if !g.sorted {
		g.sort()
	}
	byKey(g.vhost.Parameters)
	byKey(g.vhost.Permissions)
	byKey(g.vhost.TopicPermissions)
	return g.vhost
}

// sort sorts what most of the objects are. It may be done before the rest is there.
func (g *gathered) sort() {
	v := g.vhost
	byKey(v.Exchanges)
	byKey(v.Queues)
	byKey(v.Policies)
	byKey(v.OperatorPolicies)
	byKey(g.leftOut)
	keys := make(map[*topology.Binding]string, len(v.Bindings))
	for _, b := range v.Bindings {
		keys[b] = b.Key().Name
	}
	slices.SortStableFunc(v.Bindings, func(a, b *topology.Binding) int {
		return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a.PropertiesKey, b.PropertiesKey))
	})
	g.sorted = true
}

func byKey[O topology.Object](list []O) {
	slices.SortStableFunc(list, func(a, b O) int {
		x, y := a.Key(), b.Key()
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
	})
}
