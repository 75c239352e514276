package plan

import (
	"net/url"
	"slices"

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
	for _, h := range c.hosts {
		d := newDependencies(c, h, g)
		d.connect()
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
	// byExchange finds the bindings of direct and topic exchanges by key.
	byExchange map[string]*keyIndex
}

func newDependencies(c *computation, h *host, g *graph) *dependencies {
	return &dependencies{c: c, h: h, g: g, byExchange: map[string]*keyIndex{}}
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
}

func (d *dependencies) connectExchange(e *topology.Exchange) {
	n := d.exchange(e.Name)
	if n < 0 {
		return
	}
	m := d.h.after.Exchange(e.Name)
	if m.Policy != nil {
		d.g.connect(n, d.changed(m.Policy), byPolicy)
	}
	if alternate, ok := d.h.after.EffectiveExchange(e, m)["alternate-exchange"].Value.(string); ok {
		d.g.connect(n, d.route(alternate, nil), deadLetter)
	}
}

func (d *dependencies) connectQueue(q *topology.Queue) {
	n := d.queue(q.Name)
	if n < 0 {
		return
	}
	m := d.h.after.Queue(q.Name, q.Type)
	for _, p := range []*topology.Policy{m.Policy, m.Operator} {
		if p != nil {
			d.g.connect(n, d.changed(p), byPolicy)
		}
	}
	d.connectDeadLetter(n, d.h.after.Effective(q, m))
}

// connectDeadLetter has a node wait for the route that settings in effect name.
func (d *dependencies) connectDeadLetter(n int, settings map[string]policy.Value) {
	exchange, ok := settings["dead-letter-exchange"].Value.(string)
	if !ok {
		return
	}
	var key *string
	if k, ok := settings["dead-letter-routing-key"].Value.(string); ok {
		key = &k
	}
	if exchange == "" {
		if key != nil {
			d.g.connect(n, d.queue(*key), deadLetter)
		}
		return
	}
	d.g.connect(n, d.route(exchange, key), deadLetter)
}

// connectPolicies has each changed policy wait for the routes that it gives to
// queues and exchanges that exist. It may act on any that it matches: one of a
// higher priority may come later, or fail.
func (d *dependencies) connectPolicies() {
	changed := map[*topology.Policy]int{}
	for _, p := range d.h.desired.Policies {
		if n := d.changed(p); n >= 0 {
			changed[p] = n
		}
	}
	if len(changed) == 0 {
		return
	}
	for _, q := range d.h.live.Queues {
		for _, p := range d.h.after.Candidates(q.Name, q.Type).Policies {
			n, ok := changed[p]
			_, exchange := p.Definition["dead-letter-exchange"]
			_, key := p.Definition["dead-letter-routing-key"]
			if ok && (exchange || key) && policy.Supports(d.c.version, q.Type, p.Definition) {
				d.connectDeadLetter(n, d.h.after.Effective(q, policy.Match{Policy: p}))
			}
		}
	}
	for _, e := range d.h.live.Exchanges {
		m := d.h.after.Exchange(e.Name)
		for _, p := range append(m.Hidden, m.Policy) {
			if p == nil {
				continue
			}
			n, ok := changed[p]
			if alternate, is := p.Definition["alternate-exchange"].(string); ok && is {
				d.g.connect(n, d.route(alternate, nil), deadLetter)
			}
		}
	}
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
	d.g.connect(n, d.exchange(exchange), deadLetter)
	for _, b := range d.bindings(exchange, e, key) {
		d.g.connect(n, d.created(b.Key()), deadLetter)
		d.g.connect(n, d.end(b), deadLetter)
		if b.DestinationType == topology.ToExchange {
			d.g.connect(n, d.route(b.Destination, key), deadLetter)
		}
	}
	if e != nil {
		effective := d.h.after.EffectiveExchange(e, d.h.after.Exchange(exchange))
		if alternate, ok := effective["alternate-exchange"].Value.(string); ok {
			d.g.connect(n, d.route(alternate, key), deadLetter)
		}
	}
	return n
}

// bindings lists the desired bindings of an exchange that messages with the key
// take; all without a key.
func (d *dependencies) bindings(exchange string, e *topology.Exchange, key *string) []*topology.Binding {
	all := d.h.want.From[exchange]
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
