package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// builder sorts the entries of a definitions file into virtual hosts.
type builder struct {
	*definitions
	state    *State
	byName   map[string]*gathered
	seen     map[topology.Key]topology.Position
	single   string // everything is in this virtual host
	fallback string // for an entry without one in a file of several
}

func (b *builder) gathered(name string) *gathered {
	g, ok := b.byName[name]
	if !ok {
		g = newGathered(name)
		b.byName[name] = g
	}
	return g
}

// in is the virtual host of an entry.
func (b *builder) in(vhost *string) *gathered {
	switch {
	case b.single != "":
		return b.gathered(b.single)
	case vhost == nil:
		return b.gathered(b.fallback)
	}
	return b.gathered(*vhost)
}

func (b *builder) build() {
	b.seen = map[topology.Key]topology.Position{}
	for _, e := range b.vhosts {
		if !b.named(e.value.Name, "vhosts", "name", e.at) || b.duplicate(topology.Key{Kind: topology.KindVirtualHost, VirtualHost: *e.value.Name}, e.at) {
			continue
		}
		b.gathered(*e.value.Name).settings(e.value, e.at)
	}
	for _, e := range b.queues {
		if b.named(e.value.Name, "queues", "name", e.at) {
			g := b.in(e.value.VHost)
			if !b.duplicate(topology.Key{Kind: topology.KindQueue, VirtualHost: g.vhost.Name, Name: *e.value.Name}, e.at) {
				g.queue(e.value, b.untyped(g), e.at)
			}
		}
	}
	b.buildExchanges()
	b.buildBindings()
	for _, e := range b.policies {
		if b.named(e.value.Name, "policies", "name", e.at) {
			b.policyOf(e, false)
		}
	}
	b.buildParameters()
	for _, e := range b.permissions {
		if b.named(e.value.User, "permissions", "user", e.at) {
			b.in(e.value.VHost).permission(e.value, e.at)
		}
	}
	for _, e := range b.topic {
		if b.named(e.value.User, "topic_permissions", "user", e.at) {
			b.in(e.value.VHost).topicPermission(e.value, e.at)
		}
	}
}

// untyped is the type of a queue without x-queue-type: in an export it is
// classic, since 4.x writes every type and before 4.0 only classic has none; in a
// file made by hand the virtual host's default decides on import.
func (b *builder) untyped(g *gathered) topology.QueueType {
	if b.version == "" && g.vhost.DefaultQueueType != "" {
		return g.vhost.DefaultQueueType
	}
	return topology.Classic
}

func (b *builder) buildExchanges() {
	leavesOutInternal := b.state.Version.AtLeast(catalog.V(4, 3))
	no := flag(false)
	for _, e := range b.exchanges {
		if !b.named(e.value.Name, "exchanges", "name", e.at) {
			continue
		}
		g := b.in(e.value.VHost)
		key := topology.Key{Kind: topology.KindExchange, VirtualHost: g.vhost.Name, Name: *e.value.Name}
		if e.value.Type == "" {
			b.problem("definitions-exchange-type", e.at, fmt.Sprintf("the %s has no type", key), "RabbitMQ refuses it on import: add its type.")
			continue
		}
		if e.value.Internal == nil && !leavesOutInternal {
			e.value.Internal = &no // before 4.3 only what is made by hand leaves it out
		}
		if !b.duplicate(key, e.at) {
			g.exchange(e.value, e.at)
		}
	}
	// Every virtual host has these, and no export lists them.
	for _, g := range b.byName {
		for _, x := range predeclared {
			if g.vhost.Exchange(x.Name) == nil {
				x.VirtualHost = g.vhost.Name
				g.vhost.Exchanges = append(g.vhost.Exchanges, &x)
			}
		}
	}
}

// predeclared are the exchanges that RabbitMQ makes in every virtual host (as
// listed by 3.10.8, 4.0.5 and 4.3.6).
var predeclared = []topology.Exchange{
	{Name: "amq.direct", Type: "direct", Durable: true},
	{Name: "amq.fanout", Type: "fanout", Durable: true},
	{Name: "amq.headers", Type: "headers", Durable: true},
	{Name: "amq.match", Type: "headers", Durable: true},
	{Name: "amq.rabbitmq.trace", Type: "topic", Durable: true, Internal: true},
	{Name: "amq.topic", Type: "topic", Durable: true},
}

func (b *builder) buildBindings() {
	for _, e := range b.bindings {
		if e.value.Source == nil || e.value.Destination == nil {
			b.problem("definitions-binding", e.at, "a binding without source or destination", "Add them, or remove the binding.")
			continue
		}
		switch topology.DestinationType(e.value.DestinationType) {
		case topology.ToQueue, topology.ToExchange:
		default:
			b.problem("definitions-binding", e.at, fmt.Sprintf("a binding with the destination_type %q", e.value.DestinationType),
				"The destination_type is queue or exchange.")
			continue
		}
		g := b.in(e.value.VHost)
		if e.value.RoutingKey == nil {
			b.warn("definitions-routing-key", e.at, topology.Key{}, fmt.Sprintf("a binding from exchange %q to %q has no routing_key", *e.value.Source, *e.value.Destination),
				`It is read as the empty key; RabbitMQ 3.10 to 4.3 make the key "undefined" of it on import. Write "routing_key": "".`)
		}
		before := len(g.vhost.Bindings)
		g.binding(e.value, e.at)
		if len(g.vhost.Bindings) > before {
			b.checkEnds(g, g.vhost.Bindings[before])
		}
	}
}

// checkEnds reports a binding whose ends are not in the file. 4.3 leaves internal
// exchanges and exclusive queues out of exports but keeps their bindings.
func (b *builder) checkEnds(g *gathered, x *topology.Binding) {
	missing := ""
	switch {
	case !b.has(topology.KindExchange, g, x.Source):
		missing = fmt.Sprintf("exchange %q", x.Source)
	case x.DestinationType == topology.ToExchange && !b.has(topology.KindExchange, g, x.Destination):
		missing = fmt.Sprintf("exchange %q", x.Destination)
	case x.DestinationType == topology.ToQueue && !b.has(topology.KindQueue, g, x.Destination):
		missing = fmt.Sprintf("queue %q", x.Destination)
	default:
		return
	}
	detail := "RabbitMQ 3.10 skips such a binding on import without a word, 4.x refuses the file."
	if b.state.Version.AtLeast(catalog.V(4, 3)) {
		detail = "RabbitMQ 4.3 leaves internal exchanges and exclusive queues out of exports but keeps their bindings."
	}
	b.warn("definitions-end-missing", x.Position, x.Key(), fmt.Sprintf("the %s needs the %s, which the file does not have", x.Key(), missing), detail)
}

func (b *builder) has(kind topology.Kind, g *gathered, name string) bool {
	if kind == topology.KindExchange && slices.ContainsFunc(predeclared, func(x topology.Exchange) bool { return x.Name == name }) {
		return true
	}
	_, ok := b.seen[topology.Key{Kind: kind, VirtualHost: g.vhost.Name, Name: name}]
	return ok
}

func (b *builder) policyOf(e entry[policyEntry], operator bool) {
	g := b.in(e.value.VHost)
	kind := topology.KindPolicy
	if operator {
		kind = topology.KindOperatorPolicy
	}
	if !b.duplicate(topology.Key{Kind: kind, VirtualHost: g.vhost.Name, Name: *e.value.Name}, e.at) {
		g.policy(e.value, operator, e.at)
	}
}

// buildParameters: operator policies and limits are parameters in a file.
func (b *builder) buildParameters() {
	for _, e := range b.parameters {
		if !b.named(e.value.Name, "parameters", "name", e.at) {
			continue
		}
		g := b.in(e.value.VHost)
		switch e.value.Component {
		case operatorPolicies:
			if p, err := operatorPolicy(e.value); err != nil {
				b.wrongType("operator policy", err, e.at)
			} else {
				b.policyOf(entry[policyEntry]{p, e.at}, true)
			}
		case "vhost-limits":
			var l limits
			if raw, err := json.Marshal(jsonValue(e.value.Value.value)); err == nil && b.into(&l, "limits", raw, e.at) {
				if g.vhost.Settings == nil {
					g.vhost.Settings = &topology.VirtualHostSettings{VirtualHost: g.vhost.Name, Position: e.at}
				}
				g.vhost.Settings.Limits = l
			}
		default:
			if !b.duplicate(topology.Key{Kind: topology.KindParameter, VirtualHost: g.vhost.Name, Name: e.value.Component + "/" + *e.value.Name}, e.at) {
				g.parameter(e.value, e.at)
			}
		}
	}
}

// named checks that an entry has a name.
func (b *builder) named(name *string, section, field string, at topology.Position) bool {
	switch {
	case name == nil || *name == "" && section != "exchanges":
		b.problem("definitions-name-missing", at, fmt.Sprintf("an entry of %q has no %s", section, field), "Add it, or remove the entry.")
		return false
	case strings.ContainsFunc(*name, unicode.IsControl):
		b.warn("definitions-control-character", at, topology.Key{}, fmt.Sprintf("an entry of %q has a control character in its %s: %q", section, field, *name),
			"RabbitMQ allows it except for line breaks, which it removes; hardly anybody means it.")
	}
	return true
}

// duplicate reports an object that the file has twice; the first one counts, as
// on import.
func (b *builder) duplicate(key topology.Key, at topology.Position) bool {
	first, ok := b.seen[key]
	if !ok {
		b.seen[key] = at
		return false
	}
	b.warn("definitions-duplicate", at, key, fmt.Sprintf("the file has the %s twice", key), fmt.Sprintf("The first one, at %s, is taken.", first))
	return true
}
