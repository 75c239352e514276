package plan

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// dependencies builds the graph over the changes. Whatever points somewhere waits
// for the place it points at, so that after any step that fails no queue has a
// dead-letter route that leads nowhere.
func (c *computation) dependencies() *graph {
	g := &graph{index: map[string]int{}}
	keys := make([]topology.Key, 0, len(c.changes))
	for k := range c.changes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		g.add(id(k), c.changes[k])
	}
	if len(keys) == 0 {
		return g
	}
	for _, h := range c.hosts {
		newDependencies(c, h, g).connect()
	}
	g.joinRoutes()
	g.dropEmptyRoutes()
	g.breakCycles()
	return g
}

// dependencies adds the edges of one virtual host.
type dependencies struct {
	c *computation
	h *host
	g *graph
	// from lists the bindings that there will be, by source exchange: the spec's and
	// those that stay.
	from map[string][]*topology.Binding
	// byExchange finds the bindings of direct and topic exchanges by key.
	byExchange map[string]*keyIndex
}

func newDependencies(c *computation, h *host, g *graph) *dependencies {
	d := &dependencies{c: c, h: h, g: g, from: map[string][]*topology.Binding{}, byExchange: map[string]*keyIndex{}}
	wanted := make(map[topology.Key]bool, len(h.desired.Bindings))
	for _, b := range h.desired.Bindings {
		wanted[b.Key()] = true
		d.from[b.Source] = append(d.from[b.Source], b)
	}
	for _, b := range h.live.Bindings {
		if !wanted[b.Key()] {
			d.from[b.Source] = append(d.from[b.Source], b)
		}
	}
	return d
}

// created is the node of an object that is created; -1: it is there, or not ours.
func (d *dependencies) created(k topology.Key) int {
	if change := d.c.changes[k]; change != nil && change.Action == Create {
		return d.g.index[id(k)]
	}
	return -1
}

func (d *dependencies) queue(name string) int {
	return d.created(topology.Key{Kind: topology.KindQueue, VirtualHost: d.h.name, Name: name})
}

func (d *dependencies) exchange(name string) int {
	return d.created(topology.Key{Kind: topology.KindExchange, VirtualHost: d.h.name, Name: name})
}

// changed is the node of a policy that is created or updated; -1: neither.
func (d *dependencies) changed(p *topology.Policy) int {
	if d.c.changes[p.Key()] == nil {
		return -1
	}
	return d.g.index[id(p.Key())]
}

func (d *dependencies) end(b *topology.Binding) int {
	if b.DestinationType == topology.ToExchange {
		return d.exchange(b.Destination)
	}
	return d.queue(b.Destination)
}

func (d *dependencies) connect() {
	if d.h.missing {
		host := d.created(topology.Key{Kind: topology.KindVirtualHost, VirtualHost: d.h.name})
		for _, o := range d.h.desired.Objects() {
			if n := d.created(o.Key()); n != host {
				d.g.connect(n, host, hard)
			}
		}
	}
	for _, b := range d.h.desired.Bindings {
		n := d.created(b.Key())
		if n < 0 {
			continue
		}
		d.g.connect(n, d.exchange(b.Source), hard)
		d.g.connect(n, d.end(b), hard)
	}
	for _, e := range d.h.desired.Exchanges {
		d.connectExchange(e)
	}
	for _, q := range d.h.desired.Queues {
		d.connectQueue(q)
	}
	d.connectPolicies()
	d.connectTargets()
}

func (d *dependencies) connectExchange(e *topology.Exchange) {
	n := d.exchange(e.Name)
	if n < 0 {
		return
	}
	before, after := d.h.before.Exchange(e.Name), d.h.then.Exchange(e.Name)
	d.connectToPolicies(n, before, after)
	d.g.connect(n, d.alternate(e, after), deadLetter)
	for _, p := range everyone(before, after) {
		if to := d.alternate(e, policy.Match{Policy: p}); to >= 0 {
			d.g.nodes[n].fallback = append(d.g.nodes[n].fallback, edge{to, deadLetter})
		}
	}
}

func (d *dependencies) alternate(e *topology.Exchange, m policy.Match) int {
	name, ok := d.h.then.EffectiveExchange(e, m)["alternate-exchange"].Value.(string)
	if !ok {
		return -1
	}
	return d.route(name, nil)
}

func (d *dependencies) connectQueue(q *topology.Queue) {
	n := d.queue(q.Name)
	replaced := false
	if change := d.c.changes[q.Key()]; n < 0 && change != nil && change.Action == Replace {
		n, replaced = d.g.index[id(q.Key())], true
	}
	if n < 0 {
		return
	}
	before, after := d.h.before.Queue(q.Name, q.Type), d.h.then.Queue(q.Name, q.Type)
	if replaced {
		d.connectReplaced(q, n, after)
		return
	}
	d.connectToPolicies(n, before, after)
	if after.Operator != nil {
		d.g.connect(n, d.changed(after.Operator), byPolicy)
	}
	d.g.connect(n, d.deadLetter(q, after), deadLetter)
	for _, p := range everyone(before, after) {
		if to := d.deadLetter(q, policy.Match{Policy: p}); to >= 0 {
			d.g.nodes[n].fallback = append(d.g.nodes[n].fallback, edge{to, deadLetter})
		}
	}
}

// connectReplaced has a replacement wait for the route that the new queue is to have,
// and what is only for the new queue wait for the replacement: its generated policy
// when the type changes, and new bindings while a holding queue has the old ones.
func (d *dependencies) connectReplaced(q *topology.Queue, n int, after policy.Match) {
	d.g.connect(n, d.deadLetter(q, after), deadLetter)
	have := d.h.have.Queues[q.Name]
	if p := d.h.generated[q.Name]; p != nil && (have == nil || have.Type != q.Type) {
		d.g.connect(d.changed(p), n, hard)
	}
	if d.h.have.Queues[topology.HoldPrefix+q.Name] == nil && !d.c.allows("replace", q.Key()) {
		return
	}
	for _, b := range d.h.desired.Bindings {
		if b.DestinationType == topology.ToQueue && b.Destination == q.Name {
			d.g.connect(d.created(b.Key()), n, hard)
		}
	}
}

// connectToPolicies has a new queue or exchange wait for the policy that is to act
// on it, and for the change of every policy that would act in its place until
// then.
func (d *dependencies) connectToPolicies(n int, before, after policy.Match) {
	if after.Policy != nil {
		d.g.connect(n, d.changed(after.Policy), byPolicy)
	}
	for _, p := range everyone(before, policy.Match{}) {
		if p != nil && (after.Policy == nil || p.Priority >= after.Policy.Priority) {
			d.g.connect(n, d.changed(p), byPolicy)
		}
	}
}

// everyone lists the policies that may act while policies are being changed; nil
// stands for none of them.
func everyone(before, after policy.Match) []*topology.Policy {
	all := []*topology.Policy{nil}
	for _, m := range []policy.Match{before, after} {
		if m.Policy != nil {
			all = append(all, m.Policy)
			all = append(all, m.Hidden...)
		}
	}
	return all
}

// deadLetter is the node of the dead-letter route that a queue has with the
// policies of m; -1: there is nothing to wait for.
func (d *dependencies) deadLetter(q *topology.Queue, m policy.Match) int {
	settings := d.h.then.Effective(q, m)
	exchange, ok := settings["dead-letter-exchange"].Value.(string)
	if !ok {
		return -1
	}
	if k, ok := settings["dead-letter-routing-key"].Value.(string); ok {
		return d.route(exchange, &k)
	}
	return d.route(exchange, nil)
}

// connectPolicies has each changed policy wait for the routes that queues and
// exchanges on the broker have once it is changed: those of the policies that
// match them then. Any of these may act, one of a higher priority may fail.
func (d *dependencies) connectPolicies() {
	for _, q := range d.h.live.Queues {
		before, after := d.h.before.Queue(q.Name, q.Type), d.h.then.Queue(q.Name, q.Type)
		touching := d.touching(before, after)
		if len(touching) == 0 {
			continue
		}
		for _, p := range everyone(policy.Match{}, after) {
			to := d.deadLetter(q, policy.Match{Policy: p})
			for _, n := range touching {
				d.g.connect(n, to, deadLetter)
			}
		}
	}
	for _, e := range d.h.live.Exchanges {
		before, after := d.h.before.Exchange(e.Name), d.h.then.Exchange(e.Name)
		for _, n := range d.touching(before, after) {
			for _, p := range everyone(policy.Match{}, after) {
				d.g.connect(n, d.alternate(e, policy.Match{Policy: p}), deadLetter)
			}
		}
	}
}

// targetPrefix begins the names of the nodes of targets.
const targetPrefix = "target/"

func isTarget(n *node) bool { return strings.HasPrefix(n.id, targetPrefix) }

// connectTargets gives targets that are on the broker a node, which waits for the
// route that they need: it may be missing although they are as they should be.
func (d *dependencies) connectTargets() {
	for _, k := range slices.SortedFunc(maps.Keys(d.c.wanted), compareKeys) {
		if k.VirtualHost != d.h.name {
			continue
		}
		to := -1
		switch k.Kind {
		case topology.KindQueue:
			if q := d.h.have.Queues[k.Name]; q != nil {
				to = d.deadLetter(q, d.h.then.Queue(q.Name, q.Type))
			}
		case topology.KindExchange:
			if e := d.h.have.Exchanges[k.Name]; e != nil {
				to = d.alternate(e, d.h.then.Exchange(e.Name))
			}
		}
		if to >= 0 {
			d.g.connect(d.g.add(targetPrefix+id(k), nil), to, deadLetter)
		}
	}
}

// touching lists the nodes of changed policies that act, or could, before or after.
func (d *dependencies) touching(before, after policy.Match) []int {
	var nodes []int
	for _, p := range everyone(before, after) {
		if p == nil {
			continue
		}
		if n := d.changed(p); n >= 0 && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// route is the node of everything that messages which are published to an
// exchange, with that routing key or with any, need to arrive. It is made on
// first use.
func (d *dependencies) route(exchange string, key *string) int {
	if exchange == "" {
		if key != nil {
			return d.queue(*key)
		}
		return -1
	}
	e := d.h.want.Exchanges[exchange]
	if e == nil {
		e = d.h.have.Exchanges[exchange]
	}
	if e == nil || e.Type != "direct" && e.Type != "topic" {
		key = nil
	}
	name := "route/" + url.PathEscape(d.h.name) + "/" + url.PathEscape(exchange)
	if key != nil {
		name += "/" + url.PathEscape(*key)
	}
	if n, ok := d.g.index[name]; ok {
		return n
	}
	n := d.g.add(name, nil)
	// An exchange that has to be replaced routes in another way until then.
	if k := (topology.Key{Kind: topology.KindExchange, VirtualHost: d.h.name, Name: exchange}); d.c.changes[k] != nil {
		d.g.connect(n, d.g.index[id(k)], deadLetter)
	}
	for _, b := range d.bindings(exchange, e, key) {
		d.g.connect(n, d.created(b.Key()), deadLetter)
		d.g.connect(n, d.end(b), deadLetter)
		if b.DestinationType == topology.ToExchange {
			d.g.connect(n, d.route(b.Destination, key), deadLetter)
		}
	}
	if e != nil {
		effective := d.h.then.EffectiveExchange(e, d.h.then.Exchange(exchange))
		if alternate, ok := effective["alternate-exchange"].Value.(string); ok {
			d.g.connect(n, d.route(alternate, key), deadLetter)
		}
	}
	return n
}

// bindings lists the bindings of an exchange that messages with the key take; all
// without a key.
func (d *dependencies) bindings(exchange string, e *topology.Exchange, key *string) []*topology.Binding {
	all := d.from[exchange]
	if key == nil {
		return all
	}
	index := d.byExchange[exchange]
	if index == nil {
		index = newKeyIndex(all, e.Type == "topic")
		d.byExchange[exchange] = index
	}
	return index.find(*key)
}
