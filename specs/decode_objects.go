package specs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func compareText(a, b string) int { return strings.Compare(a, b) }

func (doc *document) decoder(key topology.Key) *decoder {
	return &decoder{loader: doc.loader, object: key, title: fmt.Sprintf("%s %q", key.Kind.Title(), shorten(key.Name))}
}

// checkName reports names that a broker does not take, or takes as another.
func (d *decoder) checkName(k topology.Kind, name string, at topology.Position) {
	switch {
	case name == "":
		d.finding(at, "name-empty", fmt.Sprintf("a name of kind %s is empty", k.Title()), "Give it a name.")
	case len(name) > maxName && k != topology.KindPolicy && k != topology.KindOperatorPolicy:
		d.finding(at, "name-too-long", fmt.Sprintf("the %s name %q has %d bytes", k.Title(), shorten(name), len(name)), "RabbitMQ takes at most 255 bytes.")
	case strings.ContainsAny(name, "\r\n") && (k == topology.KindQueue || k == topology.KindExchange):
		d.finding(at, "name-line-break", fmt.Sprintf("the %s name %q holds a line break", k.Title(), shorten(name)),
			"RabbitMQ removes line breaks from names without a word: the object would have another name. Remove them here.")
	}
}

// readExchange reads one exchange.
func (doc *document) readExchange(v *VirtualHost, e *entry, n *node) *Exchange {
	d := doc.decoder(topology.Key{Kind: topology.KindExchange, VirtualHost: v.Name, Name: e.key})
	d.checkName(topology.KindExchange, e.key, e.pos())
	x := &Exchange{Name: e.key, Pos: e.pos(), At: make(Places, n.size/2), Type: "direct", Durable: true}
	readExchangeTable(d, n, x)
	addPlaces(x.At, "", n)
	return x
}

// exchangeArguments maps the keys of a spec to the arguments they stand for:
// alternate_exchange, delayed_type, hash_header and so on.
var exchangeArguments = func() map[string]*catalog.ExchangeArgument {
	byKey := map[string]*catalog.ExchangeArgument{}
	for i := range catalog.ExchangeArguments {
		a := &catalog.ExchangeArguments[i]
		byKey[strings.ReplaceAll(strings.TrimPrefix(a.Name, "x-"), "-", "_")] = a
	}
	return byKey
}()

func readExchangeTable(d *decoder, n *node, x *Exchange) {
	own := topology.Arguments{}
	readTable(d, n, x, exchangeFields, func(e *entry) bool {
		a := exchangeArguments[e.key]
		if a == nil {
			d.unknownKey(e, slices.Concat(exchangeFields.names(), slices.Collect(maps.Keys(exchangeArguments))))
			return true
		}
		if e.value.kind == invalidNode {
			return true
		}
		d.push(e.key)
		if v, ok := d.exchangeArgument(a, e.value); ok {
			own[a.Name] = v
		}
		d.pop()
		return true
	})
	for name, v := range own {
		if _, twice := x.Arguments[name]; twice {
			key := strings.ReplaceAll(strings.TrimPrefix(name, "x-"), "-", "_")
			d.push("arguments." + name)
			d.settingTwice(n.get("arguments").get(name), key)
			d.pop()
			continue
		}
		if x.Arguments == nil {
			x.Arguments = topology.Arguments{}
		}
		x.Arguments[name] = v
	}
}

func (d *decoder) exchangeArgument(a *catalog.ExchangeArgument, n *node) (any, bool) {
	switch {
	case n.kind == nullNode:
		d.noValue(n)
		return nil, false
	case a.Value == catalog.Integer:
		return d.readInteger(n, a.Min)
	case a.Enum != nil:
		return d.readWord(n, a.Enum...)
	}
	return d.readText(n)
}

var exchangeFields = fields[Exchange]{
	"type": func(d *decoder, x *Exchange, n *node) {
		if s, ok := d.readText(n); ok {
			if s == "" {
				d.wrongValue(n, "must name an exchange type, such as topic")
			} else {
				x.Type = s
			}
		}
	},
	"durable":                 setBool(func(x *Exchange) *bool { return &x.Durable }),
	"auto_delete":             setBool(func(x *Exchange) *bool { return &x.AutoDelete }),
	"internal":                setBool(func(x *Exchange) *bool { return &x.Internal }),
	"arguments":               func(d *decoder, x *Exchange, n *node) { x.Arguments = d.readArguments(n) },
	"allow_unknown_arguments": func(d *decoder, x *Exchange, n *node) { x.AllowUnknownArguments, _ = d.readTexts(n) },
	"bindings":                func(d *decoder, x *Exchange, n *node) { x.Bindings = d.readBindings(n) },
	"external":                setBool(func(x *Exchange) *bool { return &x.External }),
	"declared_by":             func(d *decoder, x *Exchange, n *node) { x.DeclaredByClients = d.readDeclaredBy(n) },
	"loses":                   func(d *decoder, x *Exchange, n *node) { x.Loses = d.readLoses(n, exchangeLosses) },
}

// readPolicy reads one policy or operator policy.
func (doc *document) readPolicy(v *VirtualHost, k topology.Kind, e *entry, n *node) *topology.Policy {
	d := doc.decoder(topology.Key{Kind: k, VirtualHost: v.Name, Name: e.key})
	d.checkName(k, e.key, e.pos())
	p := &topology.Policy{VirtualHost: v.Name, Name: e.key, Operator: k == topology.KindOperatorPolicy, ApplyTo: "all", Position: e.pos(), At: make(Places, n.size/2)}
	addPlaces(p.At, "", n)
	if !readTable(d, n, p, policyFields) {
		return p
	}
	d.requireKeys(n, map[string]string{
		"pattern":    `Write a regular expression for the names, such as "^orders$".`,
		"definition": "Write the settings, such as {max-length: 1000}.",
	})
	return p
}

// requireKeys reports keys that are not there, in the order of their names.
func (d *decoder) requireKeys(n *node, why map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(why)) {
		if n.get(key) == nil {
			d.missing(n.pos(), key, why[key])
		}
	}
}

func (d *decoder) readPriority(n *node) (int64, bool) {
	i, ok := integer(n)
	if !ok {
		d.wrongType(n, "an integer")
	}
	return i, ok
}

var policyFields = fields[topology.Policy]{
	"pattern":  setText(func(p *topology.Policy) *string { return &p.Pattern }),
	"apply_to": setWord(func(p *topology.Policy) *string { return &p.ApplyTo }, catalog.ApplyTo(catalog.Newest)...),
	"priority": func(d *decoder, p *topology.Policy, n *node) {
		if i, ok := d.readPriority(n); ok {
			p.Priority = i
		}
	},
	"definition": readDefinition,
}

// readDefinition reads RabbitMQ's own keys; keys in snake case are written as
// RabbitMQ has them.
func readDefinition(d *decoder, p *topology.Policy, n *node) {
	p.Definition = d.readArguments(n)
	for i := range n.table {
		e := &n.table[i]
		key := policyKey(e.key)
		if key == e.key {
			continue
		}
		d.push(e.key)
		if _, twice := p.Definition[key]; twice {
			d.settingTwice(e.value, key)
		} else {
			p.Definition[key] = p.Definition[e.key]
			p.At["definition."+key] = p.At["definition."+e.key]
		}
		d.pop()
		delete(p.Definition, e.key)
	}
}

func policyKey(key string) string {
	if catalog.LookupPolicyKey(key) != nil {
		return key
	}
	if s := catalog.LookupSpecKey(key); s != nil && s.PolicyKey != "" {
		return s.PolicyKey
	}
	return key
}

// readPermission reads a user's permission.
func (doc *document) readPermission(v *VirtualHost, e *entry, n *node) *topology.Permission {
	d := doc.decoder(topology.Key{Kind: topology.KindPermission, VirtualHost: v.Name, Name: e.key})
	d.checkName(topology.KindPermission, e.key, e.pos())
	p := &topology.Permission{VirtualHost: v.Name, User: e.key, Position: e.pos()}
	const why = `Write all three: configure, write and read. "" allows nothing, ".*" everything.`
	if readTable(d, n, p, permissionFields) {
		d.requireKeys(n, map[string]string{"configure": why, "write": why, "read": why})
	}
	return p
}

var permissionFields = fields[topology.Permission]{
	"configure": setText(func(p *topology.Permission) *string { return &p.Configure }),
	"write":     setText(func(p *topology.Permission) *string { return &p.Write }),
	"read":      setText(func(p *topology.Permission) *string { return &p.Read }),
}

// readTopicPermission reads a user's permission for one topic exchange.
func (doc *document) readTopicPermission(v *VirtualHost, user string, e *entry) *topology.TopicPermission {
	p := &topology.TopicPermission{VirtualHost: v.Name, User: user, Exchange: e.key, Position: e.pos()}
	d := doc.decoder(p.Key())
	const why = `Write both: write and read. "" allows only the empty routing key's part, ".*" everything.`
	if readTable(d, e.value, p, topicPermissionFields) {
		d.requireKeys(e.value, map[string]string{"write": why, "read": why})
	}
	return p
}

var topicPermissionFields = fields[topology.TopicPermission]{
	"write": setText(func(p *topology.TopicPermission) *string { return &p.Write }),
	"read":  setText(func(p *topology.TopicPermission) *string { return &p.Read }),
}

// readPublisher reads who publishes what.
func (doc *document) readPublisher(e *entry, n *node) *topology.Publisher {
	d := &decoder{loader: doc.loader, title: fmt.Sprintf("publisher %q", shorten(e.key))}
	p := &topology.Publisher{Name: e.key, Position: e.pos()}
	if readTable(d, n, p, publisherFields) {
		d.requireKeys(n, map[string]string{"exchange": `Name the exchange; "" is the default exchange.`})
	}
	return p
}

var publisherFields = fields[topology.Publisher]{
	"exchange": setText(func(p *topology.Publisher) *string { return &p.Exchange }),
	"routing_key": func(d *decoder, p *topology.Publisher, n *node) {
		if s, ok := d.readText(n); ok {
			p.RoutingKeys = append(p.RoutingKeys, s)
		}
	},
	"routing_keys": func(d *decoder, p *topology.Publisher, n *node) {
		texts, _ := d.readTexts(n)
		p.RoutingKeys = append(p.RoutingKeys, texts...)
	},
	"headers":   func(d *decoder, p *topology.Publisher, n *node) { p.Headers = d.readArguments(n) },
	"cc":        func(d *decoder, p *topology.Publisher, n *node) { p.CC, _ = d.readTexts(n) },
	"mandatory": setBool(func(p *topology.Publisher) *bool { return &p.Mandatory }),
}

// readConsumer reads who consumes what.
func (doc *document) readConsumer(e *entry, n *node) *topology.Consumer {
	d := &decoder{loader: doc.loader, title: fmt.Sprintf("consumer %q", shorten(e.key))}
	c := &topology.Consumer{Name: e.key, Position: e.pos()}
	if readTable(d, n, c, consumerFields) {
		d.requireKeys(n, map[string]string{"queue": "Name the queue that it consumes from."})
	}
	return c
}

var consumerFields = fields[topology.Consumer]{
	"queue": setText(func(c *topology.Consumer) *string { return &c.Queue }),
	"prefetch": func(d *decoder, c *topology.Consumer, n *node) {
		i, ok := d.readInteger(n, 0)
		if ok && i > 65535 {
			d.wrongValue(n, fmt.Sprintf("must be at most 65535, not %d", i))
			return
		}
		c.Prefetch = i
	},
}

// readExternal reads the patterns of objects that others make.
func (doc *document) readExternal(n *node) []topology.ExternalPattern {
	var all []topology.ExternalPattern
	d := &decoder{loader: doc.loader, title: "the document"}
	d.push("external")
	d.readList(n, func(item *node) {
		p := topology.ExternalPattern{Position: item.pos()}
		if !readTable(d, item, &p, externalFields) {
			return
		}
		d.requireKeys(item, map[string]string{"pattern": `Write a regular expression for the names, such as "^reply_".`})
		if p.Pattern != nil {
			all = append(all, p)
		}
	})
	return all
}

var externalFields = fields[topology.ExternalPattern]{
	"pattern": func(d *decoder, p *topology.ExternalPattern, n *node) {
		s, ok := d.readText(n)
		if !ok {
			return
		}
		pattern, err := regexp.Compile(s)
		if err != nil {
			d.wrongValue(n, fmt.Sprintf("must be a regular expression (%s)", text.Line(strings.TrimPrefix(err.Error(), "error parsing regexp: "))))
			return
		}
		p.Pattern, p.Text, p.Position = pattern, s, n.pos()
	},
}
