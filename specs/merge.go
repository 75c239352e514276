package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// assemble makes the virtual hosts that the documents describe, in name order.
func (l *loader) assemble(documents []*document) []*VirtualHost {
	byName := map[string][]*document{}
	for _, d := range documents {
		byName[d.virtualHost] = append(byName[d.virtualHost], d)
	}
	var all []*VirtualHost
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, l.virtualHost(name, l.overlay(byName[name])))
	}
	return all
}

// assembly is a virtual host that is being put together.
type assembly struct {
	*loader
	*VirtualHost
	first map[topology.Key]topology.Position
	// stackAt and requiresAt are where these were first stated.
	stackAt, rabbitmqAt, pluginsAt topology.Position
	settingsBy                     SettingsBy
}

func (l *loader) virtualHost(name string, documents []*document) *VirtualHost {
	a := &assembly{loader: l, VirtualHost: &VirtualHost{Name: name, At: Places{}}, first: map[topology.Key]topology.Position{}}
	a.Pos = documents[0].root.pos()
	if n := documents[0].sections["vhost"]; n != nil {
		a.Pos = n.pos()
	}
	for _, doc := range documents {
		a.addPlaces(doc)
		a.addHeader(doc)
	}
	for _, doc := range documents {
		doc.settle(a.settingsBy)
		a.addObjects(doc)
	}
	return a.VirtualHost
}

// addPlaces enters the places of what the document says of the virtual host.
func (a *assembly) addPlaces(doc *document) {
	for i := range doc.root.table {
		e := &doc.root.table[i]
		n := doc.sections[e.key]
		if n == nil {
			continue
		}
		if _, ok := a.At[e.key]; ok {
			continue
		}
		a.At[e.key] = e.pos()
		if n.kind != tableNode && n.kind != listNode {
			a.At[e.key] = n.pos()
		}
		switch e.key {
		case "requires", "vhost_settings", "defaults":
			addPlaces(a.At, e.key, n)
		}
	}
}

// addHeader merges stack, requires, vhost_settings and external.
func (a *assembly) addHeader(doc *document) {
	d := &decoder{loader: a.loader, title: "the document"}
	read := func(key string, f func(n *node)) {
		n := doc.sections[key]
		if n == nil || n.kind == invalidNode {
			return
		}
		d.push(key)
		if n.kind == nullNode {
			d.noValue(n)
		} else {
			f(n)
		}
		d.pop()
	}
	read("stack", func(n *node) { a.addStack(d, n) })
	read("requires", func(n *node) { a.addRequires(readRequires(d, n), n) })
	read("vhost_settings", func(n *node) { a.addSettings(doc, n) })
	read("external", func(n *node) { a.External = append(a.External, doc.readExternal(n)...) })
}

func (a *assembly) addStack(d *decoder, n *node) {
	s, ok := d.readText(n)
	switch {
	case !ok:
	case !ownership.StackName.MatchString(s):
		d.wrongValue(n, fmt.Sprintf("must be 1 to 60 of the characters a-z 0-9 . _ -, not %q", shorten(s)))
	case a.Stack == "":
		a.Stack, a.stackAt = s, n.pos()
	case a.Stack != s:
		a.duplicate(n.pos(), "stack-conflict", fmt.Sprintf("virtual host %q has the stacks %q and %q", shorten(a.Name), a.Stack, s),
			"All documents of a virtual host have the same stack: bring them together, or put the objects into another virtual host.", a.stackAt)
	}
}

func (a *assembly) addRequires(r Requires, n *node) {
	const detail = "What a virtual host requires must be the same in all of its documents: state it once."
	if r.RabbitMQ.Text != "" {
		at := n.get("rabbitmq").pos()
		if a.Requires.RabbitMQ.Text == "" {
			a.Requires.RabbitMQ, a.rabbitmqAt = r.RabbitMQ, at
		} else if !slices.Equal(a.Requires.RabbitMQ.Ranges, r.RabbitMQ.Ranges) {
			a.duplicate(at, "requires-conflict", fmt.Sprintf("virtual host %q requires RabbitMQ %q and %q", shorten(a.Name), a.Requires.RabbitMQ.Text, r.RabbitMQ.Text), detail, a.rabbitmqAt)
		}
	}
	if r.Plugins != nil {
		at := n.get("plugins").pos()
		slices.Sort(r.Plugins)
		r.Plugins = slices.Compact(r.Plugins)
		if a.Requires.Plugins == nil {
			a.Requires.Plugins, a.pluginsAt = r.Plugins, at
		} else if !slices.Equal(a.Requires.Plugins, r.Plugins) {
			a.duplicate(at, "requires-conflict", fmt.Sprintf("virtual host %q requires different plugins in two places", shorten(a.Name)), detail, a.pluginsAt)
		}
	}
}

func knownVersions() string {
	return fmt.Sprintf("%s to %s", catalog.Oldest, catalog.Newest)
}

// addSettings reads vhost_settings.
func (a *assembly) addSettings(doc *document, n *node) {
	key := topology.Key{Kind: topology.KindVirtualHost, VirtualHost: a.Name}
	e := doc.root.entry("vhost_settings")
	if !a.isFirst(key, "vhost_settings of "+key.String(), e) {
		return
	}
	d := &decoder{loader: a.loader, object: key, title: fmt.Sprintf("virtual host %q", shorten(a.Name))}
	d.push("vhost_settings")
	a.Settings = &topology.VirtualHostSettings{VirtualHost: a.Name, Position: e.pos()}
	readTable(d, n, a.Settings, settingsFields, func(e *entry) bool {
		if e.key != "settings_by" {
			d.unknownKey(e, append(settingsFields.names(), "settings_by"))
			return true
		}
		d.push(e.key)
		d.readSettingsBy(e.value, &a.settingsBy)
		d.pop()
		return true
	})
}

var settingsFields = fields[topology.VirtualHostSettings]{
	"description": func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		if text, ok := d.readText(n); ok {
			s.Description = &text
		}
	},
	"tags": func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		if texts, _ := d.readTexts(n); n.kind == listNode {
			s.Tags = append([]string{}, texts...)
		}
	},
	"default_queue_type": func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		if t, ok := d.readQueueType(n); ok {
			s.DefaultQueueType = t
		}
	},
	"limits": func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		s.Limits = map[string]int64{}
		readTable(d, n, s, limitFields)
	},
	"protected_from_deletion": func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		if b, ok := d.readBool(n); ok {
			s.ProtectFromDeletion = &b
		}
	},
}

var limitFields = fields[topology.VirtualHostSettings]{
	"max_connections": setLimit("max-connections"),
	"max_queues":      setLimit("max-queues"),
}

// setLimit reads a limit; -1 is none.
func setLimit(name string) func(*decoder, *topology.VirtualHostSettings, *node) {
	return func(d *decoder, s *topology.VirtualHostSettings, n *node) {
		if i, ok := d.readInteger(n, -1); ok {
			s.Limits[name] = i
		}
	}
}

// isFirst reports an object that is there already.
func (a *assembly) isFirst(key topology.Key, title string, e *entry) bool {
	first, twice := a.first[key]
	if twice {
		a.duplicate(e.pos(), "duplicate-object", title+" is declared twice",
			"Remove one of the two. To change it for an environment, put the difference into a document with overlay: true.", first)
		return false
	}
	a.first[key] = e.pos()
	return true
}

// addObjects reads the objects of one document.
func (a *assembly) addObjects(doc *document) {
	is := func(k topology.Kind, e *entry) bool {
		key := topology.Key{Kind: k, VirtualHost: a.Name, Name: e.key}
		return a.isFirst(key, fmt.Sprintf("%s %q in virtual host %q", k.Title(), shorten(e.key), shorten(a.Name)), e)
	}
	doc.objects("exchanges", doc.exchange, func(e *entry, n *node) {
		if is(topology.KindExchange, e) {
			a.Exchanges = append(a.Exchanges, doc.readExchange(a.VirtualHost, e, n))
		}
	})
	doc.objects("queues", doc.queue, func(e *entry, n *node) {
		if is(topology.KindQueue, e) {
			a.Queues = append(a.Queues, doc.readQueue(a.VirtualHost, e, n))
		}
	})
	doc.objects("policies", nil, func(e *entry, n *node) {
		if is(topology.KindPolicy, e) {
			a.Policies = append(a.Policies, doc.readPolicy(a.VirtualHost, topology.KindPolicy, e, n))
		}
	})
	doc.objects("operator_policies", nil, func(e *entry, n *node) {
		if is(topology.KindOperatorPolicy, e) {
			a.OperatorPolicies = append(a.OperatorPolicies, doc.readPolicy(a.VirtualHost, topology.KindOperatorPolicy, e, n))
		}
	})
	doc.objects("permissions", nil, func(e *entry, n *node) {
		if is(topology.KindPermission, e) {
			a.Permissions = append(a.Permissions, doc.readPermission(a.VirtualHost, e, n))
		}
	})
	doc.objects("publishers", nil, func(e *entry, n *node) {
		if is("publisher", e) {
			a.Publishers = append(a.Publishers, doc.readPublisher(e, n))
		}
	})
	doc.objects("consumers", nil, func(e *entry, n *node) {
		if is("consumer", e) {
			a.Consumers = append(a.Consumers, doc.readConsumer(e, n))
		}
	})
	a.addNested(doc, "parameters", topology.KindParameter, func(component string, e *entry) {
		p := &topology.Parameter{VirtualHost: a.Name, Component: component, Name: e.key, Position: e.pos()}
		d := doc.decoder(p.Key())
		d.checkName(topology.KindParameter, e.key, e.pos())
		p.Value = d.readRaw(e.value)
		a.Parameters = append(a.Parameters, p)
	})
	a.addNested(doc, "topic_permissions", topology.KindTopicPermission, func(user string, e *entry) {
		a.TopicPermissions = append(a.TopicPermissions, doc.readTopicPermission(a.VirtualHost, user, e))
	})
}

// addNested reads a section with two levels of names.
func (a *assembly) addNested(doc *document, section string, k topology.Kind, f func(outer string, e *entry)) {
	doc.objects(section, nil, func(outer *entry, n *node) {
		d := &decoder{loader: a.loader, title: "the document", path: []string{section, outer.key}}
		if n.kind != tableNode {
			d.wrongType(n, "a map of names")
			return
		}
		d.checkName(k, outer.key, outer.pos())
		for i := range n.table {
			e := &n.table[i]
			key := topology.Key{Kind: k, VirtualHost: a.Name, Name: outer.key + "/" + e.key}
			title := fmt.Sprintf("%s %q in virtual host %q", k.Title(), shorten(strings.ReplaceAll(key.Name, "\n", " ")), shorten(a.Name))
			switch {
			case e.value.kind == invalidNode || !a.isFirst(key, title, e):
			case e.value.kind == nullNode:
				d.push(e.key)
				d.noValue(e.value)
				d.pop()
			default:
				f(outer.key, e)
			}
		}
	})
}
