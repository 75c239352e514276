package graph

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Input is what is drawn.
type Input struct {
	Title    string
	Notes    []string
	Topology *topology.Topology
	// Version decides which settings are in effect; zero: the newest known.
	Version  catalog.Version
	Findings diag.List
}

// New makes the drawing of a topology. Virtual hosts are drawn in their order,
// objects in the order in which the topology has them.
func New(in Input) *Drawing {
	d := &Drawing{Title: in.Title, Notes: in.Notes}
	findings := newBook(in.Findings)
	if in.Topology != nil {
		for _, v := range in.Topology.VirtualHosts {
			if v == nil {
				continue
			}
			d.VirtualHosts = append(d.VirtualHosts, v.Name)
			b := &builder{
				drawing: d, vhost: v, version: in.Version, index: v.Index(), findings: findings,
				policies: policy.New(in.Version, v.Policies, v.OperatorPolicies),
				nodes:    map[topology.End]*Node{}, queues: map[string]*queue{}, edges: map[route]*Edge{},
			}
			b.build()
		}
	}
	d.Elsewhere = findings.rest()
	return d
}

// builder draws one virtual host.
type builder struct {
	drawing  *Drawing
	vhost    *topology.VirtualHost
	version  catalog.Version
	index    *topology.Index
	policies *policy.Set
	findings *book
	nodes    map[topology.End]*Node
	queues   map[string]*queue
	edges    map[route]*Edge
}

// route identifies an edge: what leads from one node to another in one way is one
// edge, however many bindings it stands for.
type route struct {
	from, to *Node
	link     Link
}

// queue is a queue with what acts on it.
type queue struct {
	*topology.Queue
	node  *Node
	match policy.Match
	// effective are its settings by canonical name.
	effective map[string]policy.Value
	// deadLetterExchange is nil when dead letters are dropped.
	deadLetterExchange   *string
	deadLetterRoutingKey *string
	waits                bool
}

func (b *builder) build() {
	for _, e := range b.vhost.Exchanges {
		b.exchange(e)
	}
	for _, q := range b.vhost.Queues {
		b.queue(q)
	}
	b.classify()
	for _, e := range b.vhost.Bindings {
		b.binding(e)
	}
	for _, e := range b.vhost.Exchanges {
		b.alternate(e)
	}
	for _, q := range b.vhost.Queues {
		b.failures(b.queues[q.Name])
	}
	for _, p := range b.vhost.Publishers {
		b.publisher(p)
	}
	for _, c := range b.vhost.Consumers {
		n := b.add(&Node{Class: ClassConsumer, Name: c.Name, Kind: "consumer"})
		if c.Prefetch > 0 {
			n.Settings = append(n.Settings, Setting{Name: "prefetch", Value: strconv.FormatInt(c.Prefetch, 10)})
		}
		b.link(b.end(topology.ToQueue, c.Queue), n, LinkConsume)
	}
	for _, p := range b.vhost.Policies {
		b.policyFindings(p)
	}
	b.dropIdle()
}

func (b *builder) add(n *Node) *Node {
	n.ID = "n" + strconv.Itoa(len(b.drawing.Nodes)+1)
	n.VirtualHost = b.vhost.Name
	b.drawing.Nodes = append(b.drawing.Nodes, n)
	return n
}

func (b *builder) exchange(e *topology.Exchange) {
	end := topology.End{Type: topology.ToExchange, Name: e.Name}
	if b.nodes[end] != nil {
		return
	}
	n := b.add(&Node{Class: ClassExchange, Name: e.Name, Kind: e.Type + " exchange", Findings: b.findings.take(e.Key())})
	match := b.policies.Exchange(e.Name)
	n.Settings = exchangeSettings(e, match, b.policies.EffectiveExchange(e, match))
	b.nodes[end] = n
}

func (b *builder) queue(q *topology.Queue) {
	end := topology.End{Type: topology.ToQueue, Name: q.Name}
	if b.nodes[end] != nil {
		return
	}
	t := q.Type
	if t == "" {
		t = b.vhost.DefaultQueueType
	}
	if t == "" {
		t = topology.Classic
	}
	typed := *q
	typed.Type = t
	item := &queue{Queue: &typed}
	item.match = b.policies.Queue(q.Name, t)
	item.effective = b.policies.Effective(&typed, item.match)
	item.deadLetterExchange = stringOf(item.effective["dead-letter-exchange"].Value)
	item.deadLetterRoutingKey = stringOf(item.effective["dead-letter-routing-key"].Value)
	if t == topology.Stream {
		item.deadLetterExchange = nil // streams have no dead letters
	}
	item.node = b.add(&Node{Class: ClassQueue, Name: q.Name, Kind: string(t) + " queue", Findings: b.findings.take(q.Key())})
	item.node.Settings = queueSettings(item)
	b.nodes[end], b.queues[q.Name] = item.node, item
}

func stringOf(v any) *string {
	if s, ok := v.(string); ok {
		return &s
	}
	return nil
}

// classify tells wait queues and dead-letter queues apart. A spec says which are
// which; on a broker a queue that expires its messages and sends them on is taken
// for a wait queue, and a queue that gets the dead letters of another that is none
// for a dead-letter queue.
func (b *builder) classify() {
	for _, q := range b.vhost.Queues {
		item := b.queues[q.Name]
		_, expires := item.effective["message-ttl"]
		item.waits = expires && item.deadLetterExchange != nil && q.Intent == nil
		if q.Intent != nil && q.Intent.Role == topology.RoleWait {
			item.waits = true
		}
	}
	for _, q := range b.vhost.Queues {
		if q.Intent != nil && q.Intent.Retry != nil {
			for _, name := range q.Intent.Retry.WaitQueues {
				if w := b.queues[name]; w != nil {
					w.waits = true
				}
			}
		}
	}
	dead := b.deadLetterTargets()
	for _, q := range b.vhost.Queues {
		item := b.queues[q.Name]
		switch {
		case item.waits:
			item.node.Class, item.node.Kind = ClassWait, string(item.Type)+" wait queue"
		case dead[q.Name]:
			item.node.Class, item.node.Kind = ClassDeadLetter, string(item.Type)+" dead-letter queue"
		case item.Type == topology.Stream:
			item.node.Class, item.node.Kind = ClassStream, "stream"
		}
		if q.Intent != nil && q.Intent.External {
			item.node.Kind += ", external"
		}
	}
}

// deadLetterTargets names the queues that dead letters end in: those with the
// role, and in live state those that dead letters come to, when nothing else is
// bound to them.
func (b *builder) deadLetterTargets() map[string]bool {
	dead := map[string]bool{}
	var routes *flow.Graph
	for _, q := range b.vhost.Queues {
		item := b.queues[q.Name]
		if q.Intent != nil {
			if q.Intent.Role == topology.RoleDeadLetter {
				dead[q.Name] = true
			}
			continue
		}
		if item.deadLetterExchange == nil || item.waits {
			continue
		}
		if routes == nil {
			routes = flow.New(b.vhost, b.version, flow.Options{})
		}
		reach, _ := routes.DeadLetters(q.Name)
		for _, t := range reach.Targets {
			if t.Queue != q.Name && b.onlyFrom(t.Queue, *item.deadLetterExchange) {
				dead[t.Queue] = true
			}
		}
	}
	return dead
}

// onlyFrom reports whether a queue is bound to no other exchange.
func (b *builder) onlyFrom(queue, exchange string) bool {
	end := topology.End{Type: topology.ToQueue, Name: queue}
	return !slices.ContainsFunc(b.index.To[end], func(o *topology.Binding) bool { return o.Source != exchange })
}

// end finds the node that something names, and makes one for what is not there.
func (b *builder) end(t topology.DestinationType, name string) *Node {
	end := topology.End{Type: t, Name: name}
	if n := b.nodes[end]; n != nil {
		return n
	}
	n := &Node{Class: ClassMissing, Name: name, Kind: "missing " + string(t)}
	switch {
	case t == topology.ToExchange && name == "":
		n.Class, n.Name, n.Kind = ClassExchange, "(default exchange)", "default exchange"
	case b.external(name):
		n.Kind = string(t) + ", external"
	case t == topology.ToExchange && len(name) > 4 && name[:4] == "amq.":
		n.Class, n.Kind = ClassExchange, "built-in exchange"
	}
	b.nodes[end] = b.add(n)
	return n
}

func (b *builder) external(name string) bool {
	return slices.ContainsFunc(b.vhost.External, func(p topology.ExternalPattern) bool {
		return p.Pattern != nil && p.Pattern.MatchString(name)
	})
}

// link adds an edge or, where there is one of its kind, only its labels.
func (b *builder) link(from, to *Node, link Link, labels ...string) *Edge {
	key := route{from, to, link}
	e := b.edges[key]
	if e == nil {
		e = &Edge{ID: "e" + strconv.Itoa(len(b.drawing.Edges)+1), From: from, To: to, Link: link}
		b.edges[key] = e
		b.drawing.Edges = append(b.drawing.Edges, e)
	}
	for _, l := range labels {
		if l != "" && !slices.Contains(e.Labels, l) {
			e.Labels = append(e.Labels, l)
		}
	}
	return e
}

func (b *builder) binding(o *topology.Binding) {
	label := o.RoutingKey
	if len(o.Arguments) > 0 {
		if label != "" {
			label += " "
		}
		label += topology.Text(o.Arguments)
	}
	e := b.link(b.end(topology.ToExchange, o.Source), b.end(o.DestinationType, o.Destination), LinkBinding, label)
	e.Findings = append(e.Findings, b.findings.take(o.Key())...)
}

func (b *builder) alternate(e *topology.Exchange) {
	effective := b.policies.EffectiveExchange(e, b.policies.Exchange(e.Name))
	if name := stringOf(effective["alternate-exchange"].Value); name != nil {
		b.link(b.end(topology.ToExchange, e.Name), b.end(topology.ToExchange, *name), LinkAlternate)
	}
}

// failures draws where the messages of a queue go when they are given up, and
// where they wait.
func (b *builder) failures(q *queue) {
	if q.deadLetterExchange != nil {
		link, label := LinkDeadLetter, ""
		if q.waits {
			link = LinkReturn
			if ttl, ok := q.effective["message-ttl"]; ok {
				label = "after " + duration(ttl.Value)
			}
		}
		switch {
		case *q.deadLetterExchange != "":
			key := label
			if q.deadLetterRoutingKey != nil {
				key = joinWords(label, *q.deadLetterRoutingKey)
			}
			b.link(q.node, b.end(topology.ToExchange, *q.deadLetterExchange), link, key)
		case q.deadLetterRoutingKey != nil:
			to := b.end(topology.ToQueue, *q.deadLetterRoutingKey)
			if w := b.queues[*q.deadLetterRoutingKey]; w != nil && w.waits && link == LinkDeadLetter {
				link, label = LinkRetry, "rejected"
			}
			b.link(q.node, to, link, label)
		default:
			b.link(q.node, b.end(topology.ToExchange, ""), link, joinWords(label, "own routing key"))
		}
	}
	if q.Intent == nil {
		return
	}
	if r := q.Intent.Retry; r != nil {
		for i, name := range r.WaitQueues {
			label := "retry"
			if i < len(r.Delays) {
				label = fmt.Sprintf("retry %s", formatDuration(r.Delays[i].Milliseconds()))
			}
			b.link(q.node, b.end(topology.ToQueue, name), LinkRetry, label)
		}
		if r.Exchange != "" {
			b.link(q.node, b.end(topology.ToExchange, r.Exchange), LinkRetry, "retry")
		}
	}
	b.copies(q)
}

// copies draws the dead letters that the consumer itself publishes: on a queue
// without a dead-letter exchange of its own, and into the queues of categories.
func (b *builder) copies(q *queue) {
	d := q.Intent.DeadLetter
	if d == nil {
		return
	}
	var to *Node
	switch {
	case d.Categories != nil && d.Categories.Exchange != "":
		to = b.end(topology.ToExchange, d.Categories.Exchange)
	case d.Queue != "" && d.Via == "":
		to = b.end(topology.ToQueue, d.Queue)
	case d.Exchange != "":
		to = b.end(topology.ToExchange, d.Exchange)
	case d.Via != "":
		to = b.end(topology.ToExchange, d.Via)
	default:
		return
	}
	if b.edges[route{q.node, to, LinkDeadLetter}] == nil {
		b.link(q.node, to, LinkDeadLetter, "by the consumer")
	}
}

func (b *builder) publisher(p *topology.Publisher) {
	n := b.add(&Node{Class: ClassPublisher, Name: p.Name, Kind: "publisher"})
	if p.Mandatory {
		n.Settings = append(n.Settings, Setting{Name: "mandatory", Value: "true"})
	}
	if len(p.Headers) > 0 {
		n.Settings = append(n.Settings, Setting{Name: "headers", Value: topology.Text(p.Headers)})
	}
	for _, cc := range p.CC {
		n.Settings = append(n.Settings, Setting{Name: "CC", Value: cc})
	}
	if p.Exchange != "" {
		b.link(n, b.end(topology.ToExchange, p.Exchange), LinkPublish, p.RoutingKeys...)
		return
	}
	for _, key := range p.RoutingKeys { // the default exchange leads to the queue of that name
		b.link(n, b.end(topology.ToQueue, key), LinkPublish, "default exchange")
	}
	if len(p.RoutingKeys) == 0 {
		b.link(n, b.end(topology.ToExchange, ""), LinkPublish)
	}
}

// policyFindings shows findings on a policy at the queues that it acts on, and that it
// is hidden where it is.
func (b *builder) policyFindings(p *topology.Policy) {
	list := b.findings.look(p.Key())
	if len(list) == 0 {
		return
	}
	shown := map[int]bool{}
	for _, q := range b.vhost.Queues {
		item := b.queues[q.Name]
		acts := item.match.Policy == p || slices.Contains(item.match.Ignored, p) || p.Queue == q.Name
		for i, d := range list {
			if d.Code == "policy-hidden" && !slices.Contains(item.match.Hidden, p) || d.Code != "policy-hidden" && !acts {
				continue
			}
			item.node.Findings = append(item.node.Findings, d)
			shown[i] = true
		}
	}
	if len(shown) == len(list) {
		b.findings.take(p.Key())
	}
}

// dropIdle leaves out the exchanges that every virtual host has when nothing is
// bound to them: they would be the greater part of a small drawing.
func (b *builder) dropIdle() {
	used := map[*Node]bool{}
	for _, e := range b.drawing.Edges {
		used[e.From], used[e.To] = true, true
	}
	b.drawing.Nodes = slices.DeleteFunc(b.drawing.Nodes, func(n *Node) bool {
		return n.Class == ClassExchange && !used[n] && len(n.Findings) == 0 && len(n.Name) > 4 && n.Name[:4] == "amq."
	})
}
