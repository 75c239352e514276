package command

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/background"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

// comparison is everything that plan, apply and check work out before they go
// their own ways.
type comparison struct {
	spec     *specs.Spec
	desired  *topology.Topology
	state    *broker.State
	plan     *plan.Plan
	findings diag.List
	against  string
	// records are what stacks have recorded; nil: it could not be read. taken are
	// stacks that are taken over.
	records *ownership.Records
	taken   []string
}

// liveReader reads the live state of virtual hosts.
type liveReader func(ctx context.Context, spec *specs.Spec) (*broker.State, diag.List, error)

// fromBroker reads from a broker what was begun to be read.
func fromBroker(client *broker.Client, begun *broker.Beginning, owners map[string]*ownership.View) liveReader {
	return func(ctx context.Context, spec *specs.Spec) (*broker.State, diag.List, error) {
		state, err := begun.Read(vhostNames(spec), withRecorded(readOptions(spec), owners))
		if err != nil {
			return nil, nil, brokerError(err)
		}
		findings, err := readFindings(ctx, client, spec, state)
		return state, findings, err
	}
}

// fromDefinitions reads an exported definitions file; version is used when the
// file does not tell its own.
func fromDefinitions(name string, version catalog.Version) liveReader {
	return func(_ context.Context, spec *specs.Spec) (*broker.State, diag.List, error) {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read definitions: %w", err)
		}
		defer f.Close()
		only := ""
		if names := vhostNames(spec); len(names) == 1 {
			only = names[0] // an export of one virtual host does not name it
		}
		state, findings, err := broker.ReadDefinitions(f, name, only)
		if err != nil || findings.HasErrors() {
			return nil, findings, err
		}
		if !version.IsZero() {
			state.Version = version
		}
		return state, findings, nil
	}
}

// readOptions asks only for what the spec manages, since more needs more rights.
func readOptions(spec *specs.Spec) broker.ReadOptions {
	var o broker.ReadOptions
	for _, v := range spec.VirtualHosts {
		o.Limits = o.Limits || v.Settings != nil && v.Settings.Limits != nil
		o.Parameters = o.Parameters || len(v.Parameters) > 0
		o.Permissions = o.Permissions || len(v.Permissions)+len(v.TopicPermissions) > 0
	}
	return o
}

// readFindings says what the user's rights hide: it must not be taken for
// absent.
func readFindings(ctx context.Context, client *broker.Client, spec *specs.Spec, state *broker.State) (diag.List, error) {
	var list diag.List
	for _, kind := range slices.Sorted(maps.Keys(state.Unknown)) {
		if !managesKind(spec, kind) {
			continue
		}
		list.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "not-readable", Structural: true,
			Summary: fmt.Sprintf("the spec has %s objects, which this user must not read: %s", kind.Title(), state.Unknown[kind]),
			Detail:  "Log in as a user with the tag that this needs, or leave them out of the spec.",
		})
	}
	if len(state.Missing) == 0 {
		return list, nil
	}
	user, err := client.Whoami(ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	if user.SeesAllVirtualHosts() {
		return list, nil
	}
	for _, name := range state.Missing {
		list.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: "vhost-not-visible",
			Summary: fmt.Sprintf("virtual host %q is not there, or user %q has no permission in it", name, user.Name),
			Detail:  "A user sees only virtual hosts that it has a permission in, unless it is an administrator or has the tag monitoring.",
			Object:  topology.Key{Kind: topology.KindVirtualHost, VirtualHost: name},
		})
	}
	return list, nil
}

func managesKind(spec *specs.Spec, kind topology.Kind) bool {
	for _, v := range spec.VirtualHosts {
		n := map[topology.Kind]int{
			topology.KindParameter: len(v.Parameters), topology.KindPermission: len(v.Permissions),
			topology.KindTopicPermission: len(v.TopicPermissions), topology.KindOperatorPolicy: len(v.OperatorPolicies),
		}[kind]
		if n > 0 || kind == topology.KindVirtualHost && v.Settings != nil && v.Settings.Limits != nil {
			return true
		}
	}
	return false
}

func vhostNames(spec *specs.Spec) []string {
	names := make([]string, len(spec.VirtualHosts))
	for i, v := range spec.VirtualHosts {
		names[i] = v.Name
	}
	return names
}

// compare loads nothing itself: it reads the live side, expands the spec for it,
// applies the rules and computes the plan.
func compare(ctx context.Context, spec *specs.Spec, findings diag.List, read liveReader, in plan.Input, client *broker.Client) (*comparison, error) {
	c := &comparison{spec: spec, findings: findings}
	state, more, err := read(ctx, spec)
	c.findings = append(c.findings, more...)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return c, nil
	}
	c.state = state
	desired, more := spec.Expand(specs.Target{Version: state.Version, DefaultQueueTypes: defaultQueueTypes(state)})
	c.desired = desired
	c.findings = append(c.findings, more...)
	if c.findings.HasStructural() {
		return c, nil
	}
	c.findings = append(c.findings, requirementFindings(spec, state)...)
	check := background.Start(func() (diag.List, error) {
		return validate.Check(validate.Input{
			Topology: desired, Versions: versionsOf(spec, state), Live: state.Topology, ExchangeTypes: state.ExchangeTypes,
			Sources: spec.Files, Found: c.findings,
		}), nil
	})
	if client == nil {
		_, _ = check() // which is not about what is assumed
		assumeInternal(desired, state)
	}
	in.Desired, in.Live, in.Digest = desired, state.Topology, sync.OnceValue(spec.Digest)
	in.Server = plan.Server{Version: state.Version, ClusterName: state.ClusterName, ExchangeTypes: state.ExchangeTypes}
	in.Offline = client == nil
	p, more, err := planCounted(ctx, in, client)
	checked, _ := check()
	if err != nil {
		return nil, err
	}
	c.plan = p
	c.findings = append(checked, more...)
	c.findings.Sort()
	return c, nil
}

// planCounted computes a plan, with the message counts that it wants to know when
// there is a broker to ask.
func planCounted(ctx context.Context, in plan.Input, client *broker.Client) (*plan.Plan, diag.List, error) {
	p, findings := plan.Compute(in)
	wanted := p.WantsCounts()
	if client == nil || len(wanted) == 0 {
		return p, findings, nil
	}
	var err error
	if in.Counts, err = counts(ctx, client, wanted); err != nil {
		return nil, nil, brokerError(err)
	}
	p, findings = plan.Compute(in)
	return p, findings, nil
}

// counts reads message counts over AMQP, and what waits to be dead-lettered from the
// statistics. Where AMQP cannot be reached they stay
// unknown, and unknown is never taken for empty.
func counts(ctx context.Context, client *broker.Client, keys []topology.Key) (map[topology.Key]plan.Counts, error) {
	byVHost := map[string][]string{}
	for _, k := range keys {
		byVHost[k.VirtualHost] = append(byVHost[k.VirtualHost], k.Name)
	}
	all := map[topology.Key]plan.Counts{}
	for _, vhost := range slices.Sorted(maps.Keys(byVHost)) {
		found, err := client.Counts(ctx, vhost, byVHost[vhost])
		if err != nil && !broker.IsUnreachable(err) && !broker.IsAuth(err) {
			return nil, err
		}
		waiting, err := client.DeadLettering(ctx, vhost)
		if err != nil {
			return nil, err
		}
		for name, n := range found {
			if n.Messages != nil { // what is on its way to a dead-letter queue is lost with the rest
				*n.Messages += waiting[name]
			}
			all[topology.Key{Kind: topology.KindQueue, VirtualHost: vhost, Name: name}] = plan.Counts{Messages: n.Messages, Consumers: n.Consumers}
		}
	}
	return all, nil
}

// assumeInternal adds internal exchanges to what an export of 4.3 says: it leaves
// them out but keeps their bindings, and a broker has no binding without ends.
// Which settings they have cannot be told, so those of the spec are taken.
func assumeInternal(desired *topology.Topology, state *broker.State) {
	if state.Version.Below(catalog.V(4, 3)) {
		return
	}
	for _, want := range desired.VirtualHosts {
		live := state.Topology.VirtualHost(want.Name)
		if live == nil {
			continue
		}
		x := live.Index()
		for _, e := range want.Exchanges {
			bound := len(x.From[e.Name])+len(x.To[topology.End{Type: topology.ToExchange, Name: e.Name}]) > 0
			if e.Internal && bound && x.Exchanges[e.Name] == nil {
				assumed := *e
				assumed.Intent, assumed.Position = nil, topology.Position{}
				live.Exchanges = append(live.Exchanges, &assumed)
			}
		}
	}
}

// versionsOf is the broker's version, or when a file does not tell it all that
// the spec allows.
func versionsOf(spec *specs.Spec, state *broker.State) []catalog.Version {
	if state.Version.IsZero() {
		return spec.Versions()
	}
	return []catalog.Version{state.Version}
}

func defaultQueueTypes(state *broker.State) map[string]topology.QueueType {
	types := map[string]topology.QueueType{}
	for _, v := range state.Topology.VirtualHosts {
		if v.DefaultQueueType != "" {
			types[v.Name] = v.DefaultQueueType
		}
	}
	return types
}

// requirementFindings compares the spec's requires with the broker.
func requirementFindings(spec *specs.Spec, state *broker.State) diag.List {
	var list diag.List
	for _, v := range spec.VirtualHosts {
		if c := v.Requires.RabbitMQ; !state.Version.IsZero() && !c.Allows(state.Version) {
			list.Add(diag.Diagnostic{
				Severity: diag.Error, Code: "requires-not-met", Structural: true,
				Summary:  fmt.Sprintf("the spec requires RabbitMQ %s, the broker is %s", c.Text, state.Version),
				Detail:   "Use another broker, or change requires.rabbitmq if the spec is right for this version.",
				Position: v.At["requires.rabbitmq"],
			})
		}
	}
	return list
}

// blocking are the findings that stop plan and apply: structural ones, and
// errors about objects that the plan would create or change. Old sins elsewhere
// are only shown.
func (c *comparison) blocking() bool {
	if c.findings.HasStructural() {
		return true
	}
	touched := map[topology.Key]bool{}
	if c.plan != nil {
		for _, ch := range c.plan.Changes {
			touched[ch.Key] = true
		}
	}
	return slices.ContainsFunc(c.findings, func(d diag.Diagnostic) bool {
		return d.Severity == diag.Error && (touched[d.Object] || d.Object == topology.Key{})
	})
}

// targets reads --target KIND/NAME; the virtual host is that of the spec.
func targets(c *cli.Context, spec *specs.Spec) ([]topology.Key, error) {
	var keys []topology.Key
	for _, t := range c.StringSlice("target") {
		kind, name, err := splitAddress(t)
		if err != nil {
			return nil, usagef("--target: %w", err)
		}
		if kind == topology.KindVirtualHost {
			keys = append(keys, topology.Key{Kind: kind, VirtualHost: name})
			continue
		}
		keys = append(keys, topology.Key{Kind: kind, Name: name}) // in whichever virtual host
	}
	return keys, nil
}
