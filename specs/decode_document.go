package specs

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// document is one YAML document after variables and repetition.
type document struct {
	*loader
	src         *source
	root        *node
	overlay     bool
	virtualHost string
	// sections are the values of the top-level keys. An overlay changes those of
	// the documents below it.
	sections map[string]*node

	// What the defaults section says.
	queue, exchange *node
	settingsBy      SettingsBy
	policyPriority  int64
	inheritPolicy   bool
}

// documentKeys are the keys of a document. Those with true hold objects by name,
// which may be repeated with for_each.
var documentKeys = map[string]bool{
	"version": false, "stack": false, "vhost": false, "requires": false, "variables": false, "defaults": false,
	"overlay": false, "cluster": false, "vhost_settings": false, "external": false,
	"parameters": false, "topic_permissions": false,
	"exchanges": true, "queues": true, "policies": true, "operator_policies": true,
	"permissions": true, "publishers": true, "consumers": true,
}

// file reads the documents of a file.
func (l *loader) file(f File) []*document {
	src, roots := l.parse(f)
	var documents []*document
	for _, y := range roots {
		if doc := l.document(src, y); doc != nil {
			documents = append(documents, doc)
		}
	}
	return documents
}

// document reads one document; nil when it is empty or none.
func (l *loader) document(src *source, y *yaml.Node) *document {
	if y.Kind == yaml.ScalarNode && y.Tag == "!!null" {
		return nil
	}
	before := l.budget
	root := l.documentRoot(src, y)
	if root.kind != tableNode {
		if root.kind != invalidNode {
			l.report(root.pos(), "wrong-type", "a document must be a map of keys, not "+root.kind.title(), "A spec begins with: version: 1")
		}
		return nil
	}
	if int64(root.size) > l.budget-before+maxExtra {
		l.tooLarge(root.pos())
		return nil
	}
	doc := &document{loader: l, src: src, root: root, sections: map[string]*node{}, virtualHost: "/"}
	d := decoder{loader: l, title: "the document"}
	for i := range root.table {
		e := &root.table[i]
		repeats, ok := documentKeys[e.key]
		switch {
		case !ok:
			d.unknownKey(e, documentKeyNames())
		case repeats:
			doc.sections[e.key] = l.repeat(e.value)
		default:
			doc.sections[e.key] = e.value
		}
	}
	doc.header(&d)
	if root.get("cluster") != nil && !doc.describesVirtualHost() {
		return nil
	}
	doc.readDefaults()
	return doc
}

// documentRoot converts a document with its own variables.
func (l *loader) documentRoot(src *source, y *yaml.Node) *node {
	c := l.converter(src, nil)
	var variables *node
	if y.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(y.Content); i += 2 {
			if y.Content[i].Value == "variables" && y.Content[i].Kind == yaml.ScalarNode {
				// Variables do not refer to each other: the section is taken out.
				variables = c.convert(y.Content[i+1], 2)
				root := *y
				root.Content = slices.Clone(y.Content)
				root.Content[i+1] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: y.Content[i+1].Line, Column: y.Content[i+1].Column}
				y = &root
				break
			}
		}
	}
	return l.converter(src, l.readVariables(variables)).convert(y, 1)
}

func documentKeyNames() []string {
	var names []string
	for k := range documentKeys {
		names = append(names, k)
	}
	return names
}

// describesVirtualHost reports whether the document says anything of a virtual
// host, besides what may stand over a cluster section.
func (doc *document) describesVirtualHost() bool {
	for k := range doc.sections {
		if !slices.Contains([]string{"version", "stack", "requires", "variables", "overlay", "cluster"}, k) {
			return true
		}
	}
	return false
}

// header reads what stands over the objects: version, vhost, overlay, cluster.
func (doc *document) header(d *decoder) {
	switch v := doc.sections["version"]; {
	case v == nil:
		doc.report(doc.root.pos(), "version-missing", "the document has no version", "Begin it with: version: 1")
	case v.kind == invalidNode:
	case v.kind != intNode || v.value != int64(1):
		doc.report(v.pos(), "version-unknown", fmt.Sprintf("version %q is none that this release of rabbitctl reads", shorten(v.text)), "Write: version: 1")
	}
	if n := doc.sections["overlay"]; n != nil {
		d.push("overlay")
		doc.overlay, _ = d.readBool(n)
		d.pop()
	}
	if n := doc.sections["vhost"]; n != nil {
		d.push("vhost")
		if s, ok := d.readText(n); ok {
			doc.virtualHost = s
			d.checkName(topology.KindVirtualHost, s, n.pos())
		}
		d.pop()
	}
	if e := doc.root.entry("cluster"); e != nil {
		doc.report(e.pos(), "cluster-not-supported", "cluster-wide objects (users, user limits, global parameters) are not supported by this release",
			"Leave the section out and manage them with rabbitmqctl.")
	}
}

// readDefaults reads the defaults section. Its values are checked here, once,
// and not again for each object that takes them.
func (doc *document) readDefaults() {
	doc.policyPriority = defaultPolicyPriority
	n := doc.sections["defaults"]
	if n == nil || n.kind == nullNode {
		return
	}
	d := &decoder{loader: doc.loader, title: "the document"}
	d.push("defaults")
	readTable(d, n, doc, fields[document]{
		"queue": func(d *decoder, doc *document, n *node) {
			doc.queue = d.canonicalQueueKeys(n)
			scratch := &Queue{}
			readQueueTable(d, doc.queue, scratch)
			doc.forbidInDefaults(d, doc.queue, "external", "declared_by")
		},
		"exchange": func(d *decoder, doc *document, n *node) {
			doc.exchange = n
			scratch := &Exchange{}
			readExchangeTable(d, n, scratch)
			doc.forbidInDefaults(d, n, "external", "declared_by")
		},
		"settings_by":    func(d *decoder, _ *document, n *node) { d.readSettingsBy(n, &SettingsBy{}) }, // see settle
		"inherit_policy": setBool(func(doc *document) *bool { return &doc.inheritPolicy }),
		"policy_priority": func(d *decoder, doc *document, n *node) {
			if p, ok := d.readPriority(n); ok {
				doc.policyPriority = p
			}
		},
	})
}

// settle works out how settings reach the broker where an object does not say:
// base is what the virtual host says.
func (doc *document) settle(base SettingsBy) {
	doc.settingsBy = base
	quiet := &decoder{loader: newLoader()} // mistakes are reported already
	for _, n := range []*node{doc.sections["defaults"].get("settings_by"), doc.queue.get("settings_by")} {
		if n != nil {
			quiet.readSettingsBy(n, &doc.settingsBy)
		}
	}
	if doc.settingsBy.Default == "" {
		doc.settingsBy.Default = topology.ByPolicy
	}
}

// forbidInDefaults reports keys that say something of one object only.
func (doc *document) forbidInDefaults(d *decoder, n *node, keys ...string) {
	for _, k := range keys {
		if e := n.entry(k); e != nil {
			d.finding(e.pos(), "not-a-default", fmt.Sprintf("%q cannot be a default", k), "Write it at each object that it is true of.")
		}
	}
}

// objects calls f for each named object of a section, with the defaults worked
// in.
func (doc *document) objects(section string, defaults *node, f func(e *entry, n *node)) {
	n := doc.sections[section]
	if n == nil || n.kind == nullNode || n.kind == invalidNode {
		return
	}
	d := &decoder{loader: doc.loader, title: "the document"}
	d.push(section)
	if n.kind != tableNode {
		d.wrongType(n, "a map of names")
		return
	}
	for i := range n.table {
		e := &n.table[i]
		body := e.value
		if body.kind == invalidNode {
			continue
		}
		if body.kind == nullNode { // "orders:" alone is an object with nothing said
			body = body.withTable(nil)
			body.kind = tableNode
		}
		if section == "queues" {
			key := topology.Key{Kind: topology.KindQueue, VirtualHost: doc.virtualHost, Name: e.key}
			body = doc.decoder(key).canonicalQueueKeys(body)
		}
		if body.kind == tableNode && !body.isTrue("external") {
			body = doc.withDefaults(body, defaults, e.key)
		}
		if !doc.spend(body) {
			return
		}
		f(e, body)
	}
}

// readRequires reads the requires section.
func readRequires(d *decoder, n *node) Requires {
	var r Requires
	readTable(d, n, &r, fields[Requires]{
		"rabbitmq": func(d *decoder, r *Requires, n *node) {
			s := n.text // 4.0 is a number to YAML
			if n.kind != intNode && n.kind != floatNode {
				var ok bool
				if s, ok = d.readText(n); !ok {
					return
				}
			}
			c, err := ParseConstraint(s)
			if err != nil {
				d.wrongValue(n, err.Error())
				return
			}
			r.RabbitMQ = c
			if len(r.Versions()) == 0 {
				d.wrongValue(n, fmt.Sprintf("allows none of the known versions (%s)", knownVersions()))
			}
		},
		"plugins": func(d *decoder, r *Requires, n *node) { r.Plugins, _ = d.readTexts(n) },
	})
	return r
}
