package simulator

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// host is a virtual host.
type host struct {
	broker      *Broker
	name        string
	defaultType topology.QueueType
	topology    *topology.VirtualHost
	exchanges   map[string]*topology.Exchange
	bindings    map[topology.Key]*topology.Binding
	queues      map[string]*queue
	policies    *policy.Set
	graph       *flow.Graph // nil: the topology changed since
	turn        int         // among bindings of which one gets a message
}

func newHost(b *Broker, name string) *host {
	h := &host{
		broker: b, name: name, defaultType: topology.Classic,
		topology:  &topology.VirtualHost{Name: name},
		exchanges: map[string]*topology.Exchange{}, bindings: map[topology.Key]*topology.Binding{}, queues: map[string]*queue{},
	}
	for name, kind := range map[string]string{
		"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers", "amq.match": "headers",
	} {
		h.exchanges[name] = &topology.Exchange{VirtualHost: h.name, Name: name, Type: kind, Durable: true}
	}
	h.setPolicies(nil, nil)
	return h
}

func (h *host) setPolicies(policies, operators []*topology.Policy) {
	h.policies = policy.New(h.broker.version, policies, operators)
	h.topology.Policies, h.topology.OperatorPolicies = policies, operators
	h.changed()
	for _, q := range h.inOrder() {
		q.configure()
		q.run()
	}
}

// changed says that messages may go elsewhere from now on.
func (h *host) changed() { h.graph = nil }

func (h *host) inOrder() []*queue {
	all := make([]*queue, 0, len(h.queues))
	for _, q := range h.queues {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queue) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// flow is the graph of the topology as it is now.
func (h *host) flow() *flow.Graph {
	if h.graph != nil {
		return h.graph
	}
	v := &topology.VirtualHost{
		Name: h.name, DefaultQueueType: h.defaultType,
		Policies: h.topology.Policies, OperatorPolicies: h.topology.OperatorPolicies,
	}
	for _, e := range h.exchanges {
		v.Exchanges = append(v.Exchanges, e)
	}
	slices.SortFunc(v.Exchanges, func(a, b *topology.Exchange) int { return strings.Compare(a.Name, b.Name) })
	for _, q := range h.inOrder() {
		v.Queues = append(v.Queues, q.declared)
	}
	for _, b := range h.bindings {
		v.Bindings = append(v.Bindings, b)
	}
	slices.SortFunc(v.Bindings, func(a, b *topology.Binding) int { return cmp.Compare(a.Key().Name, b.Key().Name) })
	h.graph = flow.New(v, h.broker.version, flow.Options{})
	return h.graph
}

// choose names the queues that a routing leads to: of those behind an exchange that
// hands each message to one of its bindings, one.
func (h *host) choose(r flow.Routing) []string {
	var out []string
	chances := map[string][]string{}
	var at []string
	for _, d := range r.Deliveries {
		if !d.Chance {
			out = append(out, d.Queue)
			continue
		}
		from := ""
		for _, s := range d.Path {
			if e := h.exchanges[s.Exchange]; e != nil && strings.HasPrefix(e.Type, "x-") {
				from = s.Exchange
				break
			}
		}
		if chances[from] == nil {
			at = append(at, from)
		}
		chances[from] = append(chances[from], d.Queue)
	}
	for _, from := range at {
		out = append(out, chances[from][h.turn%len(chances[from])])
		h.turn++
	}
	return out
}

// publish takes a message from a client. It reports whether it was routed to a queue
// at all, and whether every queue took it.
func (h *host) publish(m *message) (routed, taken bool, err error) {
	if m.exchange != "" {
		e := h.exchanges[m.exchange]
		if e == nil {
			return false, false, exception(amqp091.NotFound, "NOT_FOUND - no exchange '%s' in vhost '%s'", m.exchange, h.name)
		}
		if e.Internal {
			return false, false, exception(amqp091.AccessRefused,
				"ACCESS_REFUSED - cannot publish to internal exchange '%s' in vhost '%s'", m.exchange, h.name)
		}
	}
	h.broker.numbers++
	m.number = h.broker.numbers
	h.broker.tell(EventPublished, m, "", "")
	published := m.flow()
	published.Keys = append(slices.Clone(m.keys), m.blind...)
	queues := h.choose(h.flow().Route(published))
	taken = true
	for _, name := range queues {
		if q := h.queues[name]; q != nil {
			routed = true
			taken = q.publish(m, "", true) && taken
		}
	}
	if !routed {
		h.broker.tell(EventUnroutable, m, "", "no queue is there for it")
	}
	for _, name := range queues {
		if q := h.queues[name]; q != nil {
			q.run()
		}
	}
	return routed, taken, nil
}

// restart is what a restart of the node does.
func (h *host) restart() {
	for _, q := range h.inOrder() {
		if !q.declared.Durable {
			h.remove(q)
			continue
		}
		q.restart()
	}
	for name, e := range h.exchanges {
		if !e.Durable {
			h.removeExchange(name)
		}
	}
}

// remove takes a queue out of the virtual host with its messages.
func (h *host) remove(q *queue) {
	q.end()
	delete(h.queues, q.name())
	h.unbindAll(func(b *topology.Binding) bool {
		return b.DestinationType == topology.ToQueue && b.Destination == q.name()
	})
	h.changed()
}

func (h *host) removeExchange(name string) {
	delete(h.exchanges, name)
	h.unbindAll(func(b *topology.Binding) bool {
		return b.Source == name || b.DestinationType == topology.ToExchange && b.Destination == name
	})
	h.changed()
}

// unbindAll removes bindings, and auto-delete exchanges with the last of theirs.
func (h *host) unbindAll(which func(*topology.Binding) bool) {
	sources := map[string]bool{}
	for k, b := range h.bindings {
		if which(b) {
			delete(h.bindings, k)
			sources[b.Source] = true
		}
	}
	h.changed()
	for name := range sources {
		h.autoDelete(name)
	}
}

func (h *host) autoDelete(name string) {
	e := h.exchanges[name]
	if e == nil || !e.AutoDelete {
		return
	}
	for _, b := range h.bindings {
		if b.Source == name {
			return
		}
	}
	h.removeExchange(name)
}

// since reports whether the broker is of a release or newer.
func (h *host) since(major, minor int) bool { return h.broker.version.AtLeast(catalog.V(major, minor)) }
