package plan

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// destinations says whether messages that go on from queues and exchanges arrive
// in any queue, once the changes of a plan are made. Other bindings may come and
// go without a plan getting stale by it.
type destinations struct {
	set    *policy.Set
	index  *topology.Index
	byKey  map[string]*keyIndex
	arrive map[string]bool // by exchange and key
}

func newDestinations(v catalog.Version, then *topology.VirtualHost) *destinations {
	return &destinations{
		set: policy.New(v, then.Policies, then.OperatorPolicies), index: then.Index(),
		byKey: map[string]*keyIndex{}, arrive: map[string]bool{},
	}
}

// ofQueue says what becomes of a queue's dead messages.
func (d *destinations) ofQueue(q *topology.Queue) string {
	settings := d.set.Effective(q, d.set.Queue(q.Name, q.Type))
	exchange, ok := settings["dead-letter-exchange"].Value.(string)
	if !ok {
		return "have no route"
	}
	var key *string
	if k, ok := settings["dead-letter-routing-key"].Value.(string); ok {
		key = &k
	}
	return d.of(exchange, key)
}

// ofExchange says what becomes of messages that an exchange cannot route.
func (d *destinations) ofExchange(e *topology.Exchange) string {
	alternate, ok := d.set.EffectiveExchange(e, d.set.Exchange(e.Name))["alternate-exchange"].Value.(string)
	if !ok {
		return "have no route"
	}
	return d.of(alternate, nil)
}

func (d *destinations) of(exchange string, key *string) string {
	if d.leads(exchange, key) {
		return "arrive"
	}
	return "are lost"
}

// leads reports whether a message with the key, or with any when it is nil, can
// arrive in a queue.
func (d *destinations) leads(exchange string, key *string) bool {
	id := exchange
	if key != nil {
		id = exchange + "\x00" + *key
	}
	known, ok := d.arrive[id]
	if !ok {
		known = d.follow(exchange, key, map[string]bool{})
		d.arrive[id] = known
	}
	return known
}

// follow is leads over exchanges that were not passed yet.
func (d *destinations) follow(exchange string, key *string, passed map[string]bool) bool {
	if exchange == "" {
		return key == nil || d.index.Queues[*key] != nil
	}
	e := d.index.Exchanges[exchange]
	if passed[exchange] || e == nil && !predeclared(exchange) {
		return false
	}
	passed[exchange] = true
	for _, b := range d.bindings(exchange, e, key) {
		if b.DestinationType == topology.ToQueue && d.index.Queues[b.Destination] != nil ||
			b.DestinationType == topology.ToExchange && d.follow(b.Destination, key, passed) {
			return true
		}
	}
	if e == nil {
		return false
	}
	alternate, ok := d.set.EffectiveExchange(e, d.set.Exchange(exchange))["alternate-exchange"].Value.(string)
	return ok && d.follow(alternate, key, passed)
}

func (d *destinations) bindings(exchange string, e *topology.Exchange, key *string) []*topology.Binding {
	all := d.index.From[exchange]
	if key == nil || e == nil || e.Type != "direct" && e.Type != "topic" {
		return all
	}
	index := d.byKey[exchange]
	if index == nil {
		index = newKeyIndex(all, e.Type == "topic")
		d.byKey[exchange] = index
	}
	return index.find(*key)
}

// hasEnds reports whether both ends of a binding are there.
func (d *destinations) hasEnds(b *topology.Binding) bool {
	exchange := func(name string) bool { return d.index.Exchanges[name] != nil || strings.HasPrefix(name, "amq.") }
	if b.DestinationType == topology.ToExchange {
		return exchange(b.Source) && exchange(b.Destination)
	}
	return exchange(b.Source) && d.index.Queues[b.Destination] != nil
}
