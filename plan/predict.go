package plan

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Predict is the live topology as it will be once the plan is carried out: every
// change that is not blocked and does not need one that is. Neither argument is
// changed. A plan computed against it has only what could not be done.
func Predict(live *topology.Topology, p *Plan) *topology.Topology {
	return predict(live, p, func(*Change) bool { return true })
}

// predict carries out the changes for which succeeds is true and whose needs are
// done, as apply does.
func predict(live *topology.Topology, p *Plan, succeeds func(*Change) bool) *topology.Topology {
	f := newForecast()
	if live != nil {
		for _, v := range live.VirtualHosts {
			f.addHost(v)
		}
	}
	open := map[string]bool{} // changes that are not done
	gone := map[topology.Key]bool{}
	for _, c := range p.Changes {
		open[c.ID] = true
	}
	// Whatever a route waits for stands before those that wait for the route, so
	// that its state no longer changes once it is asked for.
	routes := map[string]bool{}
	var fulfilled func(id string) bool
	fulfilled = func(id string) bool {
		members, isRoute := p.Routes[id]
		if !isRoute {
			return !open[id]
		}
		ok, known := routes[id]
		if !known {
			ok = !slices.ContainsFunc(members, func(m string) bool { return !fulfilled(m) })
			routes[id] = ok
		}
		return ok
	}
	for _, c := range p.Changes {
		if len(c.Blocked) == 0 && !slices.ContainsFunc(c.Needs, func(n string) bool { return !fulfilled(n) }) && succeeds(c) {
			delete(open, c.ID)
			if c.After == nil {
				gone[c.Key] = true
			} else {
				f.put(c.After)
			}
		}
	}
	for i, v := range f.topology.VirtualHosts {
		f.topology.VirtualHosts[i] = without(v, gone)
	}
	return f.topology
}

// after is a live virtual host as the changes will leave it that are not blocked;
// creations and updates only, or deletes too.
func after(live *topology.VirtualHost, changes []*Change, deletes bool) *topology.VirtualHost {
	f := newForecast()
	f.addHost(live)
	gone := map[topology.Key]bool{}
	for _, c := range changes {
		switch {
		case len(c.Blocked) > 0 || c.Key.VirtualHost != live.Name:
		case c.After != nil:
			f.put(c.After)
		case deletes:
			gone[c.Key] = true
		}
	}
	return without(f.hosts[live.Name], gone)
}

// without is a virtual host without some objects and, as a broker has it, without
// bindings of what is gone.
func without(v *topology.VirtualHost, gone map[topology.Key]bool) *topology.VirtualHost {
	if len(gone) == 0 {
		return v
	}
	n := *v
	n.Exchanges, n.Queues = stay(v.Exchanges, gone), stay(v.Queues, gone)
	n.Policies, n.OperatorPolicies, n.Parameters = stay(v.Policies, gone), stay(v.OperatorPolicies, gone), stay(v.Parameters, gone)
	n.Permissions, n.TopicPermissions = stay(v.Permissions, gone), stay(v.TopicPermissions, gone)
	n.Bindings = slices.DeleteFunc(stay(v.Bindings, gone), func(b *topology.Binding) bool {
		from, to := endKeys(b)
		return gone[from] || gone[to]
	})
	return &n
}

func stay[T topology.Object](list []T, gone map[topology.Key]bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(o T) bool { return gone[o.Key()] })
}

// endKeys are the keys of the objects that a binding connects.
func endKeys(b *topology.Binding) (from, to topology.Key) {
	from = topology.Key{Kind: topology.KindExchange, VirtualHost: b.VirtualHost, Name: b.Source}
	to = topology.Key{Kind: topology.KindExchange, VirtualHost: b.VirtualHost, Name: b.Destination}
	if b.DestinationType == topology.ToQueue {
		to.Kind = topology.KindQueue
	}
	return from, to
}

// forecast is a live topology that is being changed.
type forecast struct {
	topology *topology.Topology
	hosts    map[string]*topology.VirtualHost
	places   map[topology.Key]int // of objects in the list of their kind
}

func newForecast() *forecast {
	return &forecast{topology: &topology.Topology{}, places: map[topology.Key]int{}, hosts: map[string]*topology.VirtualHost{}}
}

func (f *forecast) addHost(v *topology.VirtualHost) {
	n := *v
	n.Exchanges, n.Queues, n.Bindings = slices.Clone(v.Exchanges), slices.Clone(v.Queues), slices.Clone(v.Bindings)
	n.Policies, n.OperatorPolicies = slices.Clone(v.Policies), slices.Clone(v.OperatorPolicies)
	n.Parameters, n.Permissions = slices.Clone(v.Parameters), slices.Clone(v.Permissions)
	n.TopicPermissions = slices.Clone(v.TopicPermissions)
	f.topology.VirtualHosts = append(f.topology.VirtualHosts, &n)
	f.hosts[n.Name] = &n
	index(f, n.Exchanges)
	index(f, n.Queues)
	index(f, n.Bindings)
	index(f, n.Policies)
	index(f, n.OperatorPolicies)
	index(f, n.Parameters)
	index(f, n.Permissions)
	index(f, n.TopicPermissions)
}

func index[T topology.Object](f *forecast, list []T) {
	for i, o := range list {
		f.places[o.Key()] = i
	}
}

// put creates or updates an object as a broker does: what only a spec says is not
// stored.
func (f *forecast) put(o topology.Object) {
	v := f.hosts[o.Key().VirtualHost]
	if v == nil {
		f.addHost(&topology.VirtualHost{Name: o.Key().VirtualHost})
		v = f.hosts[o.Key().VirtualHost]
	}
	switch o := o.(type) {
	case *topology.VirtualHostSettings:
		putSettings(v, o)
	case *topology.Exchange:
		n := *o
		n.Intent = nil
		v.Exchanges = put(f, v.Exchanges, &n)
	case *topology.Queue:
		n := *o
		n.Intent = nil
		v.Queues = put(f, v.Queues, &n)
	case *topology.Binding:
		v.Bindings = put(f, v.Bindings, o)
	case *topology.Policy:
		if o.Operator {
			v.OperatorPolicies = put(f, v.OperatorPolicies, o)
		} else {
			v.Policies = put(f, v.Policies, o)
		}
	case *topology.Parameter:
		v.Parameters = put(f, v.Parameters, o)
	case *topology.Permission:
		v.Permissions = put(f, v.Permissions, o)
	case *topology.TopicPermission:
		v.TopicPermissions = put(f, v.TopicPermissions, o)
	}
}

func put[T topology.Object](f *forecast, list []T, o T) []T {
	if i, ok := f.places[o.Key()]; ok {
		list[i] = o
		return list
	}
	f.places[o.Key()] = len(list)
	return append(list, o)
}

// putSettings sets what is stated and leaves the rest.
func putSettings(v *topology.VirtualHost, want *topology.VirtualHostSettings) {
	n := topology.VirtualHostSettings{VirtualHost: v.Name}
	if v.Settings != nil {
		n = *v.Settings
	}
	if want.Description != nil {
		n.Description = want.Description
	}
	if want.Tags != nil {
		n.Tags = want.Tags
	}
	if want.ProtectFromDeletion != nil {
		n.ProtectFromDeletion = want.ProtectFromDeletion
	}
	if want.Limits != nil {
		n.Limits = want.Limits
	}
	if want.DefaultQueueType != "" {
		n.DefaultQueueType = want.DefaultQueueType
		v.DefaultQueueType = want.DefaultQueueType
	}
	v.Settings = &n
}
