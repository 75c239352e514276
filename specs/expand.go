package specs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// defaultTypeSince is the first series whose virtual hosts have a default queue
// type that works: 3.10.8 takes it and declares classic queues all the same.
var defaultTypeSince = catalog.V(3, 11)

// Expand turns the spec into the plain topology that the target should hold:
// settings become arguments or generated policies, and retry, dead_letter and
// roles become the exchanges, queues, bindings and settings that they stand for.
// What cannot be expanded as written is a finding; the topology then holds the
// rest. Equal input gives equal output.
func (s *Spec) Expand(t Target) (*topology.Topology, diag.List) {
	out := &topology.Topology{}
	var found findings
	for _, v := range s.VirtualHosts {
		e := newExpansion(v, t, &found)
		e.run()
		out.VirtualHosts = append(out.VirtualHosts, e.out)
	}
	found.Sort()
	return out, found
}

// expansion is the work on one virtual host.
type expansion struct {
	spec  *VirtualHost
	out   *topology.VirtualHost
	found *findings

	// version is the release to write for; judged are the releases that version
	// rules look at, and binding says that each of them must be right.
	version catalog.Version
	judged  []catalog.Version
	binding bool

	defaultType      topology.QueueType
	defaultTypeKnown bool

	queues    map[string]*Queue
	exchanges map[string]*Exchange
	generated *generated
	policies  *policy.Set // those of the spec, when a queue inherits one
	bindings  map[topology.Key]*topology.Binding
}

func newExpansion(v *VirtualHost, t Target, found *findings) *expansion {
	e := &expansion{
		spec: v, found: found,
		queues:    make(map[string]*Queue, len(v.Queues)),
		exchanges: make(map[string]*Exchange, len(v.Exchanges)),
		bindings:  make(map[topology.Key]*topology.Binding),
		generated: newGenerated(),
	}
	e.chooseVersion(t.Version)
	e.chooseDefaultType(t.DefaultQueueTypes)
	for _, x := range v.Exchanges {
		if _, twice := e.exchanges[x.Name]; !twice {
			e.exchanges[x.Name] = x
		}
	}
	for _, q := range v.Queues {
		if _, twice := e.queues[q.Name]; !twice {
			e.queues[q.Name] = q
		}
	}
	e.out = &topology.VirtualHost{
		Name: v.Name, Stack: v.Stack, Position: v.Pos,
		Settings:         v.Settings,
		Policies:         clones(v.Policies),
		OperatorPolicies: clones(v.OperatorPolicies),
		Parameters:       clones(v.Parameters),
		Permissions:      clones(v.Permissions),
		TopicPermissions: clones(v.TopicPermissions),
		Publishers:       clones(v.Publishers),
		Consumers:        clones(v.Consumers),
		External:         slices.Clone(v.External),
		Plugins:          slices.Clone(v.Requires.Plugins),
	}
	if e.defaultTypeKnown {
		e.out.DefaultQueueType = e.defaultType
	}
	return e
}

// chooseVersion decides which release is written for. Without a target it is
// the newest that requires allows, and version rules look at all of those.
func (e *expansion) chooseVersion(target catalog.Version) {
	if !target.IsZero() {
		e.version, e.judged, e.binding = target, []catalog.Version{target}, true
		return
	}
	e.judged = e.spec.Requires.Versions()
	e.binding = len(e.spec.Requires.RabbitMQ.Ranges) > 0
	if len(e.judged) == 0 { // newer than what is known, or a contradiction
		e.judged = []catalog.Version{catalog.Newest}
	}
	e.version = e.judged[len(e.judged)-1]
}

// chooseDefaultType decides what queues without a type become. What the spec
// says of the virtual host is in force by the time a queue is declared, so it
// goes before what the broker reports.
func (e *expansion) chooseDefaultType(live map[string]topology.QueueType) {
	e.defaultType, e.defaultTypeKnown = topology.Classic, true
	if e.version.Below(defaultTypeSince) {
		return
	}
	if s := e.spec.Settings; s != nil && s.DefaultQueueType != "" {
		e.defaultType = s.DefaultQueueType
		return
	}
	t, ok := live[e.spec.Name]
	if t != "" {
		e.defaultType = t
	}
	e.defaultTypeKnown = ok
}

// typeOf is the type that the broker gives the queue. Only queues that every
// type can be take the default (measured on 4.0.5 and 4.3.6).
func (e *expansion) typeOf(q *Queue) topology.QueueType {
	switch {
	case q.Type != "":
		return q.Type
	case q.Durable && !q.AutoDelete:
		return e.defaultType
	}
	return topology.Classic
}

func (e *expansion) run() {
	e.checkDefaultType()
	for _, x := range e.spec.Exchanges {
		e.addExchange(x)
	}
	// What queues generate is collected first, because a generated queue may be
	// written too, before or after the queue that needs it.
	made := make(map[*Queue]*derived, len(e.spec.Queues))
	for _, q := range e.spec.Queues {
		made[q] = e.derive(q)
	}
	for _, q := range e.spec.Queues {
		e.addQueue(e.generated.merge(e, q, made[q]), made[q])
		for _, name := range e.generated.by[q] {
			c := e.generated.queues[name]
			e.addQueue(c.queue, &derived{generated: c.text, settings: c.settings(c.queue.Type)})
		}
		for _, x := range made[q].exchanges {
			e.addGeneratedExchange(x)
		}
		for _, b := range made[q].bindings {
			e.addBinding(b)
		}
	}
	e.checkPolicyNames()
}

// checkDefaultType tells what queues without a type rest on.
func (e *expansion) checkDefaultType() {
	var untyped []*Queue
	for _, q := range e.spec.Queues {
		if q.Type == "" && !q.External && q.Durable && !q.AutoDelete {
			untyped = append(untyped, q)
		}
	}
	if len(untyped) == 0 {
		return
	}
	if !e.defaultTypeKnown {
		noun := "1 queue has no type and is"
		if len(untyped) > 1 {
			noun = fmt.Sprintf("%d queues have no type and are", len(untyped))
		}
		e.found.Add(diag.Diagnostic{
			Severity: diag.Info, Code: "queue-type-defaulted",
			Summary: fmt.Sprintf("%s taken as classic, queue %q among them", noun, untyped[0].Name),
			Detail: "The virtual host's default queue type decides, and without a broker it is not known. " +
				"Write type: for each queue, or under defaults.queue.",
			Object:   topology.Key{Kind: topology.KindVirtualHost, VirtualHost: e.spec.Name},
			Position: untyped[0].Pos,
		})
	}
	s := e.spec.Settings
	if s != nil && s.DefaultQueueType != "" && s.DefaultQueueType != topology.Classic && e.version.Below(defaultTypeSince) {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "default-queue-type-unsupported",
			Summary: fmt.Sprintf("the default queue type %s has no effect on RabbitMQ %s: queue %q would be classic",
				s.DefaultQueueType, e.version, untyped[0].Name),
			Detail:   fmt.Sprintf("Write type: for each queue, or require RabbitMQ %s.", defaultTypeSince),
			Object:   s.Key(),
			Position: firstOf(s.Position, e.spec.Pos),
			Related:  []diag.Related{{Position: untyped[0].Pos, Text: "a queue without a type"}},
		})
	}
}

// addExchange writes an exchange of the spec and the bindings that lead to it.
func (e *expansion) addExchange(x *Exchange) {
	e.out.Exchanges = append(e.out.Exchanges, &topology.Exchange{
		VirtualHost: e.spec.Name, Name: x.Name, Type: cmp.Or(x.Type, "direct"),
		Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
		Arguments: x.Arguments.Clone(), Position: x.Pos,
		Intent: &topology.ExchangeIntent{
			External: x.External, DeclaredByClients: x.DeclaredByClients,
			Loses: maps.Clone(x.Loses), AllowUnknownArguments: slices.Clone(x.AllowUnknownArguments),
			Stated: stated(x.At, x.Arguments, "type", "durable", "auto_delete", "internal"),
			At:     maps.Clone(map[string]topology.Position(x.At)),
		},
	})
	e.addWrittenBindings(x.Bindings, topology.ToExchange, x.Name)
}

// addWrittenBindings writes one binding for each routing key.
func (e *expansion) addWrittenBindings(written []*Binding, kind topology.DestinationType, name string) {
	for _, b := range written {
		args := b.Arguments.Clone()
		if b.Match != "" {
			if old, both := args["x-match"]; both && old != b.Match {
				e.found.Add(diag.Diagnostic{
					Severity: diag.Error, Code: "setting-contradiction",
					Summary: fmt.Sprintf("match is %q, but the argument x-match is %s", b.Match, topology.Text(old)),
					Detail:  "Write match: alone.",
					Object:  topology.Key{Kind: topology.Kind(kind), VirtualHost: e.spec.Name, Name: name}, Position: b.Pos,
				})
			}
			if args == nil {
				args = topology.Arguments{}
			}
			args["x-match"] = b.Match
		}
		keys := b.RoutingKeys
		if len(keys) == 0 {
			keys = []string{""}
		}
		for i, key := range keys {
			pos := b.Pos
			if i < len(b.KeyPos) && !b.KeyPos[i].IsZero() {
				pos = b.KeyPos[i]
			}
			e.addBinding(&topology.Binding{
				VirtualHost: e.spec.Name, Source: b.Exchange, Destination: name, DestinationType: kind,
				RoutingKey: key, Arguments: args.Clone(), Position: pos,
			})
		}
	}
}

// addBinding adds a binding unless it is there: a generated one may be written
// too. Two written ones are a mistake.
func (e *expansion) addBinding(b *topology.Binding) {
	first, twice := e.bindings[b.Key()]
	if !twice {
		e.bindings[b.Key()] = b
		e.out.Bindings = append(e.out.Bindings, b)
		return
	}
	if first.Generated == "" && b.Generated == "" {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "duplicate-binding",
			Summary: fmt.Sprintf("the binding %s is written twice", b.Key().Name),
			Detail:  "Remove one of them.",
			Object:  b.Key(), Position: b.Position,
			Related: []diag.Related{{Position: first.Position, Text: "first written here"}},
		})
	}
}

// checkPolicyNames finds policies of the spec that have the name of a generated
// one.
func (e *expansion) checkPolicyNames() {
	generated := map[string]*topology.Policy{}
	for _, p := range e.out.Policies {
		if p.Queue != "" {
			generated[p.Name] = p
		}
	}
	for _, p := range e.spec.Policies {
		if g := generated[p.Name]; g != nil {
			e.found.Add(diag.Diagnostic{
				Severity: diag.Error, Code: "policy-name-taken",
				Summary:  fmt.Sprintf("policy %q has the name of the policy that is generated for queue %q", p.Name, g.Queue),
				Detail:   "Give it another name: names that begin with rabbitctl: belong to generated policies.",
				Object:   p.Key(),
				Position: p.Position,
				Related:  []diag.Related{{Position: g.Position, Text: "the queue"}},
			})
		}
	}
}

// stated lists which of the properties and arguments are written.
func stated(at Places, args topology.Arguments, properties ...string) map[string]bool {
	s := map[string]bool{}
	for _, p := range properties {
		if _, ok := at[p]; ok {
			s[p] = true
		}
	}
	for k := range args {
		s[k] = true
	}
	return s
}

// place is the first of the keys that is written below an object, or the
// object's own place.
func (at Places) place(object topology.Position, keys ...string) topology.Position {
	for _, k := range keys {
		if p, ok := at[k]; ok && !p.IsZero() {
			return p
		}
	}
	return object
}

func firstOf(list ...topology.Position) topology.Position {
	for _, p := range list {
		if !p.IsZero() {
			return p
		}
	}
	return topology.Position{}
}

func clones[T any](list []*T) []*T {
	if list == nil {
		return nil
	}
	copies := make([]*T, len(list))
	for i, v := range list {
		c := *v
		copies[i] = &c
	}
	return copies
}
