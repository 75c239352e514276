package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// form says how far an object is folded.
type form int

const (
	folded   form = iota // every short form
	unrouted             // neither via nor categories
	plainly              // settings by their names, nothing generated
	rawly                // arguments as the broker has them, policies as they are
)

// host is one virtual host on its way into a document.
type host struct {
	source  *topology.VirtualHost // what is written
	index   *topology.Index
	version catalog.Version
	secrets secretNames

	forms        map[string]form // of queues
	rawExchanges map[string]bool
	// ofConnections are the queues that are left out as exclusive or named by the
	// server.
	ofConnections map[string]bool
	short         bool // what queues have in common is written once
	found         diag.List
	reported      map[topology.Key]bool

	// Worked out anew for each writing.
	policies map[string]*topology.Policy // generated policies by queue
	priority int64                       // of generated policies
	// byFold lists the queues whose short form says something of an object.
	byFold map[topology.Key][]string
	// hidden are objects that a queue's short form stands for.
	hidden map[topology.Key]bool
	plans  map[string]*queuePlan
	from   map[string][]*topology.Binding // bindings by source; nil: not yet
	fill   map[string]bool                // what the header asks to fill in
}

func newHost(v *topology.VirtualHost, version catalog.Version, secrets secretNames) *host {
	h := &host{version: version, secrets: secrets, forms: map[string]form{}, rawExchanges: map[string]bool{}, ofConnections: map[string]bool{}, reported: map[topology.Key]bool{}}
	copied := *v
	h.source = &copied
	h.source.Exchanges = slices.DeleteFunc(slices.Clone(v.Exchanges), func(x *topology.Exchange) bool { return x.Name == "" })
	h.source.Queues = slices.DeleteFunc(slices.Clone(v.Queues), func(q *topology.Queue) bool {
		gone := q.Exclusive || strings.HasPrefix(q.Name, "amq.gen-")
		if gone {
			h.ofConnections[q.Name] = true
		}
		return gone
	})
	h.index = h.source.Index()
	seen := map[topology.Key]bool{}
	h.source.Bindings = slices.DeleteFunc(slices.Clone(v.Bindings), func(b *topology.Binding) bool {
		if b.Source == "" || seen[b.Key()] {
			return true
		}
		seen[b.Key()] = true
		missing := h.missingEnd(b)
		if missing == "" {
			return false
		}
		detail := "Write it by hand, together with what is missing, if it is meant."
		if version.AtLeast(catalog.V(4, 3)) {
			detail = "RabbitMQ 4.3 leaves internal exchanges and exclusive queues out of definitions; export from the broker itself to have the exchange."
		}
		h.leaveOut(b.Key(), "binding-end-missing", fmt.Sprintf("the %s is not exported: the %s is not there", b.Key(), missing), detail)
		return true
	})
	h.index = h.source.Index()
	return h
}

func (h *host) missingEnd(b *topology.Binding) string {
	switch {
	case h.index.Exchanges[b.Source] == nil && !strings.HasPrefix(b.Source, "amq."):
		return fmt.Sprintf("exchange %q", b.Source)
	case b.DestinationType == topology.ToQueue && h.index.Queues[b.Destination] == nil:
		return fmt.Sprintf("queue %q", b.Destination)
	case b.DestinationType == topology.ToExchange && h.index.Exchanges[b.Destination] == nil && !strings.HasPrefix(b.Destination, "amq."):
		return fmt.Sprintf("exchange %q", b.Destination)
	}
	return ""
}

func (h *host) leaveOut(k topology.Key, code, summary, detail string) {
	if h.reported[k] {
		return
	}
	h.reported[k] = true
	h.found.Add(diag.Diagnostic{Severity: diag.Warning, Code: code, Summary: summary, Detail: detail, Object: k})
}

// unfold writes in a longer form what was wrong, and leaves out what no spec can
// say. It reports whether anything is different now.
func (h *host) unfold(wrong, broken map[topology.Key]bool) bool {
	progress := false
	raise := func(queue string) {
		if h.index.Queues[queue] != nil && h.forms[queue] < rawly {
			h.forms[queue]++
			progress = true
		}
	}
	var stuck []topology.Key
	for _, set := range []map[topology.Key]bool{wrong, broken} {
		for _, k := range slices.SortedFunc(maps.Keys(set), func(a, b topology.Key) int { return strings.Compare(a.String()+a.Name, b.String()+b.Name) }) {
			if k.VirtualHost != h.source.Name {
				continue
			}
			before := progress
			progress = false
			for _, q := range h.byFold[k] {
				raise(q)
			}
			if k.Kind == topology.KindQueue && !progress {
				raise(k.Name)
			}
			if queue, ok := strings.CutPrefix(k.Name, generatedPrefix); ok && k.Kind == topology.KindPolicy && !progress {
				raise(queue)
			}
			if k.Kind == topology.KindExchange && !h.rawExchanges[k.Name] && h.index.Exchanges[k.Name] != nil {
				h.rawExchanges[k.Name], progress = true, true
			}
			if !progress {
				stuck = append(stuck, k)
			}
			progress = before || progress
		}
	}
	if progress {
		return true
	}
	for _, k := range stuck {
		if broken[k] {
			if h.drop(k) {
				h.leaveOut(k, "not-expressible", fmt.Sprintf("the %s is not exported: the spec language cannot say it", k), "Keep it by other means.")
				progress = true
			}
			continue
		}
		h.leaveOut(k, "export-differs", fmt.Sprintf("the spec does not say exactly what the %s is", k), "Compare it by hand: rabbitctl plan shows the difference.")
	}
	return progress
}

// drop takes an object out of what is exported.
func (h *host) drop(k topology.Key) bool {
	n := len(h.source.Objects())
	s := h.source
	s.Exchanges = without(s.Exchanges, k)
	s.Queues = without(s.Queues, k)
	s.Policies = without(s.Policies, k)
	s.OperatorPolicies = without(s.OperatorPolicies, k)
	s.Parameters = without(s.Parameters, k)
	s.Permissions = without(s.Permissions, k)
	s.TopicPermissions = without(s.TopicPermissions, k)
	s.Bindings = slices.DeleteFunc(slices.Clone(s.Bindings), func(b *topology.Binding) bool {
		gone := b.Key() == k || k.Kind == topology.KindExchange && b.Source == k.Name ||
			string(b.DestinationType) == string(k.Kind) && b.Destination == k.Name
		if gone {
			h.leaveOut(b.Key(), "not-expressible", fmt.Sprintf("the %s is not exported: nor is one of its ends", b.Key()), "Keep it by other means.")
		}
		return gone
	})
	h.index = s.Index()
	return len(s.Objects()) < n
}

func without[O topology.Object](list []O, k topology.Key) []O {
	return slices.DeleteFunc(slices.Clone(list), func(o O) bool { return o.Key() == k })
}

// write writes the document.
func (h *host) write(b *strings.Builder, first bool) {
	h.prepare()
	var doc table
	doc.add("version", scalar("1"))
	doc.add("vhost", text(h.source.Name))
	h.addSettings(&doc)
	queues := h.queues()
	usual := h.usual()
	if h.short {
		queues = families(queues)
		hoist(queues, &usual)
	}
	if t := h.defaults(usual); len(t) > 0 {
		doc.add("defaults", t)
	}
	h.addExchanges(&doc)
	if len(queues) > 0 {
		var all table
		for _, q := range queues {
			all.add(name(q.name), q.table)
		}
		doc.add("queues", all)
	}
	h.addPolicies(&doc)
	h.addRest(&doc)
	h.header(b, first)
	open := map[string]bool{"exchanges": true, "queues": true, "policies": true, "operator_policies": true, "parameters": true, "permissions": true, "topic_permissions": true}
	for i, p := range doc {
		levels := 0
		if open[p.key] {
			levels = 2
			if i > 0 {
				b.WriteByte('\n')
			}
		}
		table{p}.block(b, 0, levels)
	}
}

func (h *host) addSettings(doc *table) {
	s := h.source.Settings
	if s == nil {
		return
	}
	var t table
	if s.Description != nil && *s.Description != "" {
		t.add("description", text(*s.Description))
	}
	if len(s.Tags) > 0 {
		t.add("tags", texts(s.Tags))
	}
	// Every queue has its type here; the default is for queues of applications.
	if s.DefaultQueueType != "" && s.DefaultQueueType != topology.Classic && !h.version.Below(catalog.V(3, 11)) {
		t.add("default_queue_type", text(string(s.DefaultQueueType)))
	}
	var limits table
	for _, k := range []string{"max-connections", "max-queues"} {
		if n, ok := s.Limits[k]; ok {
			limits.add(strings.ReplaceAll(k, "-", "_"), integer(n))
		}
	}
	if len(limits) > 0 {
		t.add("limits", limits)
	}
	if s.ProtectFromDeletion != nil && *s.ProtectFromDeletion {
		t.add("protected_from_deletion", boolean(true))
	}
	if len(t) > 0 {
		doc.add("vhost_settings", t)
	}
}

func (h *host) addExchanges(doc *table) {
	var all table
	for _, x := range h.source.Exchanges {
		bindings := h.bindings(topology.End{Type: topology.ToExchange, Name: x.Name})
		if h.hidden[x.Key()] || strings.HasPrefix(x.Name, "amq.") && len(bindings) == 0 {
			continue
		}
		var t table
		if strings.HasPrefix(x.Name, "amq.") {
			t.add("external", boolean(true)) // every virtual host has it
		} else {
			t = h.exchange(x)
		}
		if len(bindings) > 0 {
			t.add("bindings", bindings)
		}
		all.add(name(x.Name), t)
	}
	if len(all) > 0 {
		doc.add("exchanges", all)
	}
}

func (h *host) exchange(x *topology.Exchange) table {
	var t, rest table
	var unknown []string
	t.add("type", text(x.Type))
	if !x.Durable {
		t.add("durable", boolean(false))
	}
	if x.AutoDelete {
		t.add("auto_delete", boolean(true))
	}
	if x.Internal {
		t.add("internal", boolean(true))
	}
	for _, arg := range x.Arguments.Keys() {
		i := slices.IndexFunc(catalog.ExchangeArguments, func(a catalog.ExchangeArgument) bool { return a.Name == arg })
		if i < 0 {
			unknown = append(unknown, arg)
		}
		if i < 0 || h.rawExchanges[x.Name] {
			rest.add(name(arg), raw(x.Arguments[arg]))
			continue
		}
		t.add(strings.ReplaceAll(strings.TrimPrefix(arg, "x-"), "-", "_"), raw(x.Arguments[arg]))
	}
	addArguments(&t, rest, unknown)
	return t
}

func addArguments(t *table, arguments table, unknown []string) {
	if len(arguments) > 0 {
		t.add("arguments", arguments)
	}
	if len(unknown) > 0 {
		t.add("allow_unknown_arguments", texts(unknown))
	}
}

// bindings are those that lead to a queue or exchange, the keys of one source
// and equal arguments together.
func (h *host) bindings(to topology.End) sequence {
	type group struct {
		source string
		args   topology.Arguments
		keys   []string
	}
	var groups []*group
	byName := map[string]*group{}
	for _, b := range h.index.To[to] {
		if h.hidden[b.Key()] {
			continue
		}
		id := b.Source + "\x00" + topology.Text(b.Arguments)
		g := byName[id]
		if g == nil {
			g = &group{source: b.Source, args: b.Arguments}
			byName[id] = g
			groups = append(groups, g)
		}
		g.keys = append(g.keys, b.RoutingKey)
	}
	var list sequence
	for _, g := range groups {
		var t, rest table
		t.add("exchange", text(g.source))
		switch {
		case len(g.keys) > 1:
			t.add("routing_keys", texts(slices.Sorted(slices.Values(g.keys))))
		case g.keys[0] != "":
			t.add("routing_key", text(g.keys[0]))
		}
		for _, k := range g.args.Keys() {
			word, _ := g.args[k].(string)
			if k == "x-match" && slices.Contains([]string{"all", "any", "all-with-x", "any-with-x"}, word) {
				t.add("match", text(word))
				continue
			}
			rest.add(name(k), raw(g.args[k]))
		}
		addArguments(&t, rest, nil)
		list = append(list, t)
	}
	return list
}

func (h *host) addPolicies(doc *table) {
	for _, section := range []struct {
		key  string
		list []*topology.Policy
	}{{"policies", h.source.Policies}, {"operator_policies", h.source.OperatorPolicies}} {
		var all table
		for _, p := range section.list {
			if h.hidden[p.Key()] {
				continue
			}
			var t table
			t.add("pattern", text(p.Pattern))
			if p.ApplyTo != "" && p.ApplyTo != "all" {
				t.add("apply_to", text(p.ApplyTo))
			}
			if p.Priority != 0 {
				t.add("priority", integer(p.Priority))
			}
			t.add("definition", tableOf(p.Definition))
			all.add(name(p.Name), t)
		}
		if len(all) > 0 {
			doc.add(section.key, all)
		}
	}
}

func tableOf(a topology.Arguments) table {
	t, _ := raw(map[string]any(a)).(table)
	return t
}

func (h *host) addRest(doc *table) {
	nested := func(key string, outer []string, inner func(o string) table) {
		var all table
		for _, o := range slices.Compact(outer) {
			all.add(name(o), inner(o))
		}
		if len(all) > 0 {
			doc.add(key, all)
		}
	}
	var components, users []string
	for _, p := range h.source.Parameters {
		components = append(components, p.Component)
	}
	slices.Sort(components)
	nested("parameters", components, func(component string) table {
		var t table
		for _, p := range h.source.Parameters {
			if p.Component == component {
				v, names := h.secrets.value(p)
				t = append(t, pair{key: quote(name(p.Name)), value: v, comment: secretComment(names)})
			}
		}
		return t
	})
	var permissions table
	for _, p := range h.source.Permissions {
		permissions.add(name(p.User), table{{"configure", text(p.Configure), ""}, {"write", text(p.Write), ""}, {"read", text(p.Read), ""}})
	}
	if len(permissions) > 0 {
		doc.add("permissions", permissions)
	}
	for _, p := range h.source.TopicPermissions {
		users = append(users, p.User)
	}
	slices.Sort(users)
	nested("topic_permissions", users, func(user string) table {
		var t table
		for _, p := range h.source.TopicPermissions {
			if p.User == user {
				t.add(name(p.Exchange), table{{"write", text(p.Write), ""}, {"read", text(p.Read), ""}})
			}
		}
		return t
	})
}
