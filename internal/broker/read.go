package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// State is what a broker, or a definitions file, holds.
type State struct {
	Version     catalog.Version // zero: a file that does not say it
	ClusterName string
	// ExchangeTypes are those the broker has; nil: unknown, as for a file.
	ExchangeTypes []string
	Listeners     []Listener
	// Topology has the virtual hosts that were asked for and are there, in the
	// order of their names. The default exchange and its bindings are not in it.
	Topology *topology.Topology
	// Missing are virtual hosts that were asked for and are not there, or that
	// the user has no permission in (see User.SeesAllVirtualHosts).
	Missing []string
	// Unknown says why objects of a kind could not be read: they may exist.
	Unknown map[topology.Kind]string
	// LeftOut are exclusive and server-named queues, which belong to connections,
	// and their bindings.
	LeftOut []topology.Object
}

// ReadOptions say what to read besides exchanges, queues, bindings, policies and
// operator policies. Each costs one or two requests, whatever the number of
// objects.
type ReadOptions struct {
	// Limits are the limits of virtual hosts (tag management).
	Limits bool
	// Parameters are runtime parameters (tag policymaker).
	Parameters bool
	// Permissions are permissions and topic permissions (tag administrator).
	Permissions bool
}

// Read reads the named virtual hosts. It needs the tag management and any
// permission in them. The number of requests is 2 + 5 for each virtual host, plus
// what ReadOptions cost, never one for each object; two run at a time, since a
// broker answers each on one core.
func (c *Client) Read(ctx context.Context, vhosts []string, o ReadOptions) (*State, error) {
	overview, err := c.Overview(ctx)
	if err != nil {
		return nil, err
	}
	// The list comes first: asked for the objects of a virtual host that is not
	// there, 3.10 and 4.0 answer 401 and 4.3 404.
	entries, err := c.virtualHosts(ctx)
	if err != nil {
		return nil, err
	}
	s := &State{
		Version: overview.Version, ClusterName: overview.ClusterName, ExchangeTypes: overview.ExchangeTypes,
		Listeners: overview.Listeners, Topology: &topology.Topology{}, Unknown: map[topology.Kind]string{},
	}
	names := slices.Compact(slices.Sorted(slices.Values(vhosts)))
	var there []*gathered
	for _, name := range names {
		if err := checkAddressable(ViaHTTP, "name of the virtual host", name); err != nil {
			return nil, named(err, vhostSentence("read %s", name), topology.Key{})
		}
		e, ok := entries[name]
		if !ok {
			s.Missing = append(s.Missing, name)
			continue
		}
		g := newGathered(name)
		g.settings(e, topology.Position{})
		g.vhost.DefaultQueueType = cmp.Or(g.vhost.DefaultQueueType, overview.DefaultQueueType, topology.Classic)
		there = append(there, g)
	}
	if len(there) == 0 {
		return s, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	lists := make([]lists, len(there))
	for i, g := range there {
		lists[i].read(ctx, c, group, g.vhost.Name)
	}
	var extra extras
	extra.read(ctx, c, group, o)
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, g := range there {
		lists[i].fill(g)
		extra.fill(g)
		s.Topology.VirtualHosts = append(s.Topology.VirtualHosts, g.done())
		s.LeftOut = append(s.LeftOut, g.leftOut...)
	}
	extra.explain(s.Unknown)
	return s, nil
}

// virtualHosts lists the virtual hosts that the user sees.
func (c *Client) virtualHosts(ctx context.Context) (map[string]vhostEntry, error) {
	const op = "list the virtual hosts"
	var list []vhostEntry
	if err := c.get(ctx, "vhosts", &list); err != nil {
		return nil, named(err, op, topology.Key{})
	}
	byName := make(map[string]vhostEntry, len(list))
	for _, e := range list {
		if e.Name == nil {
			return nil, named(strange("vhosts", "a virtual host without a name"), op, topology.Key{})
		}
		byName[*e.Name] = e
	}
	return byName, nil
}

// lists are the answers for one virtual host.
type lists struct {
	queues    []queueEntry
	exchanges []exchangeEntry
	bindings  []bindingEntry
	policies  []policyEntry
	operator  []policyEntry
}

// read starts the requests. Statistics are off: they cost 4 to 16 times as much
// and are stale. Pages are never asked for: each costs a whole listing.
func (l *lists) read(ctx context.Context, c *Client, group *errgroup.Group, vhost string) {
	for _, one := range []struct {
		what, path string
		into       any
		complete   func() bool
	}{
		{"queues", "queues/" + escape(vhost) + "?disable_stats=true", &l.queues, func() bool {
			return !slices.ContainsFunc(l.queues, func(e queueEntry) bool { return e.Name == nil })
		}},
		{"bindings", "bindings/" + escape(vhost), &l.bindings, func() bool {
			return !slices.ContainsFunc(l.bindings, func(e bindingEntry) bool { return e.Source == nil || e.Destination == nil })
		}},
		{"exchanges", "exchanges/" + escape(vhost), &l.exchanges, func() bool {
			// Every virtual host has the default exchange and those of amq.*.
			return len(l.exchanges) > 0 && !slices.ContainsFunc(l.exchanges, func(e exchangeEntry) bool { return e.Name == nil })
		}},
		{"policies", "policies/" + escape(vhost), &l.policies, func() bool {
			return !slices.ContainsFunc(l.policies, func(e policyEntry) bool { return e.Name == nil })
		}},
		{"operator policies", "operator-policies/" + escape(vhost), &l.operator, func() bool {
			return !slices.ContainsFunc(l.operator, func(e policyEntry) bool { return e.Name == nil })
		}},
	} {
		group.Go(func() error {
			err := c.get(ctx, one.path, one.into)
			if err == nil && !one.complete() {
				err = strange(one.path, "entries without a name")
			}
			return named(err, vhostSentence("list the "+one.what+" of %s", vhost), topology.Key{})
		})
	}
}

func strange(path, what string) error {
	return notManagement(&Error{Via: ViaHTTP, Step: "GET /api/" + path, Status: 200}, what)
}

func (l *lists) fill(g *gathered) {
	for _, e := range l.queues {
		g.queue(e, g.vhost.DefaultQueueType, topology.Position{})
	}
	for _, e := range l.exchanges {
		g.exchange(e, topology.Position{})
	}
	for _, e := range l.bindings {
		g.binding(e, topology.Position{})
	}
	for _, e := range l.policies {
		g.policy(e, false, topology.Position{})
	}
	for _, e := range l.operator {
		g.policy(e, true, topology.Position{})
	}
}

// extras are the answers for all virtual hosts together. A refusal for lack of
// rights means that the kind is unknown, not that there is nothing.
type extras struct {
	limits      []limitsEntry
	parameters  []parameterEntry
	permissions []permissionEntry
	topic       []permissionEntry

	limitsErr, parametersErr, permissionsErr, topicErr error
}

func (x *extras) read(ctx context.Context, c *Client, group *errgroup.Group, o ReadOptions) {
	for _, one := range []struct {
		wanted     bool
		what, path string
		into       any
		denied     *error
	}{
		{o.Limits, "limits of virtual hosts", "vhost-limits", &x.limits, &x.limitsErr},
		{o.Parameters, "runtime parameters", "parameters", &x.parameters, &x.parametersErr},
		{o.Permissions, "permissions", "permissions", &x.permissions, &x.permissionsErr},
		{o.Permissions, "topic permissions", "topic-permissions", &x.topic, &x.topicErr},
	} {
		if !one.wanted {
			*one.denied = errNotAsked
			continue
		}
		group.Go(func() error {
			err := named(c.get(ctx, one.path, one.into), "list the "+one.what, topology.Key{})
			if IsAuth(err) {
				*one.denied = err
				return nil
			}
			return err
		})
	}
}

var errNotAsked = fmt.Errorf("not read")

func (x *extras) fill(g *gathered) {
	here := func(vhost *string) bool { return vhost != nil && *vhost == g.vhost.Name }
	for _, e := range x.limits {
		if e.VHost == g.vhost.Name {
			g.vhost.Settings.Limits = e.Value
		}
	}
	for _, e := range x.parameters {
		if here(e.VHost) && e.Name != nil {
			g.parameter(e, topology.Position{})
		}
	}
	for _, e := range x.permissions {
		if here(e.VHost) && e.User != nil {
			g.permission(e, topology.Position{})
		}
	}
	for _, e := range x.topic {
		if here(e.VHost) && e.User != nil {
			g.topicPermission(e, topology.Position{})
		}
	}
}

func (x *extras) explain(unknown map[topology.Kind]string) {
	for kind, err := range map[topology.Kind]error{
		topology.KindParameter: x.parametersErr, topology.KindPermission: x.permissionsErr, topology.KindTopicPermission: x.topicErr,
	} {
		if err != nil {
			unknown[kind] = err.Error()
		}
	}
	if x.limitsErr != nil {
		unknown[topology.KindVirtualHost] = strings.TrimSpace("limits: " + x.limitsErr.Error())
	}
}
