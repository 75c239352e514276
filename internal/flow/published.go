package flow

import "github.com/rabbitctl/rabbitctl/internal/topology"

// Published is what a publisher publishes with one of its routing keys.
type Published struct {
	By *topology.Publisher
	// Key is the key as the spec has it, which may be a topic pattern; Keys are those
	// that it stands for.
	Key  string
	Keys *Keys
	// Missing: the exchange does not exist.
	Missing bool
	Lost    Lost
}

// Published lists what the spec says is published, by exchange, publisher and key.
func (g *Graph) Published() []Published {
	var all []Published
	for _, p := range g.vhost.Publishers {
		for _, pub := range g.published[p.Exchange] {
			if pub.by != p {
				continue
			}
			for i, keys := range pub.keys {
				one := Published{By: p, Keys: keys, Missing: g.exchange(p.Exchange) == nil}
				if i < len(p.RoutingKeys) {
					one.Key = p.RoutingKeys[i]
				}
				one.Lost = g.lost(p.Exchange, class{keys, pub.class.cc}, pub.view)
				all = append(all, one)
			}
		}
	}
	return all
}

// Unguarded works out which messages that are published to an exchange without the
// mandatory flag come to no queue: those of its publishers, else, where none is
// named, messages with any key. A publisher's key of which nothing arrives is left out:
// Published tells of it. Where the spec names publishers, an exchange that
// gets messages otherwise and has no publisher of its own has none.
func (g *Graph) Unguarded(exchange string) Lost {
	list := g.published[exchange]
	total := Lost{g.none, g.none}
	if len(list) == 0 {
		if x := g.exchange(exchange); x != nil && len(g.published) > 0 && g.isTarget(x) {
			return total
		}
		return g.lost(exchange, class{keys: g.all}, anyHeaders)
	}
	for _, p := range list {
		if p.by.Mandatory {
			continue
		}
		for _, keys := range p.keys {
			l := g.lost(exchange, class{keys, p.class.cc}, p.view)
			if l.Certain != keys {
				total = Lost{g.union(total.Certain, l.Certain), g.union(total.Possible, l.Possible)}
			}
		}
	}
	return total
}

// Reached reports whether anything leads to a queue: a binding that something
// published matches, dead letters, copies of a consumer, a shovel. Otherwise only who
// publishes to the default exchange by its name reaches it.
func (g *Graph) Reached(queue string) bool {
	in := g.inflows()[queue]
	return in != nil && in.reached
}
