package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/background"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// State is what a broker, or a definitions file, holds.
type State struct {
	Version     catalog.Version // zero: a file that does not say it
	ClusterName string
	// ExchangeTypes are those the broker has; nil: unknown, as for a file.
	ExchangeTypes []string
	// Topology has the virtual hosts that were asked for and are there, in the
	// order of their names. The default exchange and its bindings are not in it.
	Topology *topology.Topology
	// Missing are virtual hosts that were asked for and are not there, or that
	// the user has no permission in (see User.SeesAllVirtualHosts).
	Missing []string
	// Unknown says why objects of a kind could not be read: they may exist.
	Unknown map[topology.Kind]string
	// LeftOut are exclusive and server-named queues, which belong to connections,
	// and their bindings; of a broker all of them only with ReadOptions.LeftOut.
	LeftOut []topology.Object
	// Others counts the entries of a definitions file that belong to no virtual
	// host, by their section: users, global_parameters ...
	Others map[string]int
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
	// LeftOut asks for all of State.LeftOut. The broker's definitions lack exclusive
	// queues, so that the dearer lists are read.
	LeftOut bool
}

// Beginning is a read that goes on in the background, so that there is time to read
// specs. It serves one read.
type Beginning struct {
	client   *Client
	ctx      context.Context
	overview func() (*Overview, error)
	vhosts   func() (map[string]vhostEntry, error)
	records  func() (*ownership.Records, error) // nil: not wanted
	expected []string
	live     func() (*live, error) // of what is expected
}

// live is what the virtual hosts asked for hold.
type live struct {
	overview *Overview
	there    []*answers
	missing  []string
}

// Begin begins a read without waiting, with what every read begins with. When ctx ends
// the read fails.
func (c *Client) Begin(ctx context.Context) *Beginning {
	return &Beginning{
		client:   c,
		ctx:      ctx,
		overview: background.Start(func() (*Overview, error) { return c.glance(ctx) }),
		vhosts:   background.Start(func() (map[string]vhostEntry, error) { return c.virtualHosts(ctx) }),
	}
}

// BeginWithRecords is Begin for a read that needs Records too.
func (c *Client) BeginWithRecords(ctx context.Context) *Beginning {
	b := c.Begin(ctx)
	b.records = background.Start(func() (*ownership.Records, error) { return c.Records(ctx) })
	return b
}

// Records are what Client.Records reads.
func (b *Beginning) Records() (*ownership.Records, error) {
	if b.records == nil {
		return b.client.Records(b.ctx)
	}
	return b.records()
}

// Expect begins to read these virtual hosts. A wrong guess costs the broker the
// requests and changes no result.
func (b *Beginning) Expect(vhosts []string) {
	names := slices.Compact(slices.Sorted(slices.Values(vhosts)))
	if b.live == nil || !slices.Equal(names, b.expected) {
		b.expect(names, false)
	}
}

func (b *Beginning) expect(names []string, leftOut bool) {
	b.expected = names
	b.live = background.Start(func() (*live, error) { return b.read(names, leftOut) })
}

// Read reads the named virtual hosts, see Beginning.Read.
func (c *Client) Read(ctx context.Context, vhosts []string, o ReadOptions) (*State, error) {
	return c.Begin(ctx).Read(vhosts, o)
}

// Read reads the named virtual hosts. It needs the tag management and any
// permission in them. The number of requests is 2 + 2 for each virtual host for
// an administrator on 4.3 and later; else 2 + 5, or 2 + 4 and one for each exchange
// where that costs the broker less (see bindings); plus what ReadOptions cost. It is
// never one for each queue. Two run at a time, since a broker answers each on one
// core.
func (b *Beginning) Read(vhosts []string, o ReadOptions) (*State, error) {
	b.Expect(vhosts)
	if o.LeftOut {
		b.expect(b.expected, true)
	}
	l, err := b.live()
	if err != nil {
		return nil, err
	}
	s := &State{
		Version: l.overview.Version, ClusterName: l.overview.ClusterName, ExchangeTypes: l.overview.ExchangeTypes,
		Topology: &topology.Topology{}, Missing: l.missing, Unknown: map[topology.Kind]string{},
	}
	if len(l.there) == 0 {
		return s, nil
	}
	r := newReading(b.ctx, b.client, l.overview)
	var extra extras
	extra.read(r, o)
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	for _, a := range l.there {
		extra.fill(a.gathered)
		s.Topology.VirtualHosts = append(s.Topology.VirtualHosts, a.done())
		s.LeftOut = append(s.LeftOut, a.leftOut...)
	}
	extra.explain(s.Unknown)
	return s, nil
}

// read reads what the virtual hosts hold.
func (b *Beginning) read(names []string, leftOut bool) (*live, error) {
	overview, err := b.overview()
	if err != nil {
		return nil, err
	}
	// The list comes first: asked for the objects of a virtual host that is not
	// there, 3.10 and 4.0 answer 401 and 4.3 404.
	entries, err := b.vhosts()
	if err != nil {
		return nil, err
	}
	if b.records != nil {
		_, _ = b.records() // whoever must not read them is no administrator
	}
	l := &live{overview: overview}
	r := newReading(b.ctx, b.client, overview)
	for _, name := range names {
		if err := checkAddressable(ViaHTTP, "name of the virtual host", name); err != nil {
			return nil, named(err, vhostSentence("read %s", name), topology.Key{})
		}
		e, ok := entries[name]
		if !ok {
			l.missing = append(l.missing, name)
			continue
		}
		g := newGathered(name)
		g.settings(e, topology.Position{})
		g.vhost.DefaultQueueType = cmp.Or(g.vhost.DefaultQueueType, overview.DefaultQueueType, topology.Classic)
		l.there = append(l.there, r.read(g, leftOut))
	}
	if err := r.group.Wait(); err != nil {
		return nil, err
	}
	for _, a := range l.there {
		a.fill()
		a.sort()
	}
	return l, nil
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

// extras are the answers for all virtual hosts together. A refusal for lack of
// rights means that the kind is unknown, not that there is nothing.
type extras struct {
	limits      []limitsEntry
	parameters  []parameterEntry
	permissions []permissionEntry
	topic       []permissionEntry

	limitsErr, parametersErr, permissionsErr, topicErr error
}

func (x *extras) read(r *reading, o ReadOptions) {
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
		r.group.Go(func() error {
			err := named(r.get(one.path, one.into), "list the "+one.what, topology.Key{})
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

func strange(path, what string) error {
	return notManagement(&Error{Via: ViaHTTP, Step: "GET /api/" + path, Status: 200}, what)
}
