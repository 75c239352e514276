package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// way is where dead or unroutable messages go on from a queue or an exchange that
// uses it.
type way struct {
	user     topology.Key
	exchange string
	key      *string
}

// routes finds the ways that need what is to be deleted.
type routes struct {
	c       *computation
	h       *host
	then    *topology.VirtualHost // all done but the deletes
	index   *topology.Index
	set     *policy.Set
	before  *destinations
	deletes []*Change
}

func newRoutes(c *computation, h *host, deletes []*Change) *routes {
	then := after(h.live, c.plan.Changes, false)
	return &routes{
		c: c, h: h, then: then, index: then.Index(), set: policy.New(c.version, then.Policies, then.OperatorPolicies),
		before: newDestinations(c.version, then), deletes: deletes,
	}
}

// gone are the objects whose delete is not blocked.
func (r *routes) gone() map[topology.Key]*Change {
	gone := map[topology.Key]*Change{}
	for _, d := range r.deletes {
		if len(d.Blocked) == 0 {
			gone[d.Key] = d
		}
	}
	return gone
}

// protect blocks deletes until none takes the last route of messages that die, or
// cannot be routed, in what stays: declared here, or made by others. A blocked
// delete stays too, with what it needs.
func (r *routes) protect() {
	for {
		gone := r.gone()
		if len(gone) == 0 {
			return
		}
		left := map[topology.Key]bool{}
		for k := range gone {
			left[k] = true
		}
		rest := newDestinations(r.c.version, without(r.then, left))
		for _, w := range ways(r.c, rest) {
			r.keep(w, rest, gone)
		}
		r.keepAttached(gone)
		r.keepSettings(gone)
		if len(r.gone()) == len(gone) {
			return
		}
	}
}

// ways lists where messages go on in a virtual host, by user.
func ways(c *computation, d *destinations) []way {
	var list []way
	for _, q := range d.index.Queues {
		list = append(list, waysOfQueue(d.set, q, d.set.Queue(q.Name, q.Type))...)
	}
	for _, e := range d.index.Exchanges {
		list = append(list, waysOfExchange(d.set, e, d.set.Exchange(e.Name))...)
	}
	slices.SortFunc(list, func(a, b way) int {
		return cmp.Or(compareKeys(a.user, b.user), strings.Compare(a.exchange, b.exchange))
	})
	return list
}

func waysOfQueue(set *policy.Set, q *topology.Queue, m policy.Match) []way {
	settings := set.Effective(q, m)
	exchange, ok := settings["dead-letter-exchange"].Value.(string)
	if !ok {
		return nil
	}
	w := way{user: q.Key(), exchange: exchange}
	if k, ok := settings["dead-letter-routing-key"].Value.(string); ok {
		w.key = &k
	}
	return []way{w}
}

func waysOfExchange(set *policy.Set, e *topology.Exchange, m policy.Match) []way {
	alternate, ok := set.EffectiveExchange(e, m)["alternate-exchange"].Value.(string)
	if !ok {
		return nil
	}
	return []way{{user: e.Key(), exchange: alternate}}
}

// keep blocks the deletes that would end a way.
func (r *routes) keep(w way, rest *destinations, gone map[topology.Key]*Change) {
	if rest.leads(w.exchange, w.key) {
		r.keepKeys(w, rest, gone)
		return
	}
	if r.before.leads(w.exchange, w.key) {
		for _, k := range r.passed(w) {
			r.blockLast(gone[k], w)
		}
		return
	}
	// It leads nowhere already; but does it act only once a policy is deleted?
	for _, was := range r.waysOf(w.user, false) {
		if r.before.leads(was.exchange, was.key) {
			for _, p := range r.policiesOf(w.user) {
				r.blockLast(gone[p], w)
			}
		}
	}
}

// keepKeys blocks the delete of a binding that took messages with keys of their own
// when no binding of the same reach is left beside it.
func (r *routes) keepKeys(w way, rest *destinations, gone map[topology.Key]*Change) {
	if w.key != nil {
		return
	}
	for _, k := range r.passed(w) {
		d := gone[k]
		if d == nil || k.Kind != topology.KindBinding {
			continue
		}
		b := d.Before.(*topology.Binding)
		e := rest.index.Exchanges[b.Source]
		if e == nil || e.Type == "fanout" {
			continue
		}
		covered := slices.ContainsFunc(rest.index.From[b.Source], func(o *topology.Binding) bool {
			return o.RoutingKey == b.RoutingKey && o.Arguments.Equal(b.Arguments) || e.Type == "topic" && o.RoutingKey == "#"
		})
		alternate := waysOfExchange(rest.set, e, rest.set.Exchange(e.Name))
		if !covered && !slices.ContainsFunc(alternate, func(a way) bool { return rest.leads(a.exchange, a.key) }) {
			r.blockLast(d, w)
		}
	}
}

func (r *routes) blockLast(d *Change, w way) {
	if d == nil || r.c.allows("delete", d.Key) {
		return
	}
	what := "dead messages of"
	if w.user.Kind == topology.KindExchange {
		what = "unroutable messages of"
	}
	d.block("last-route", "give them another way first, or agree that they are lost: "+flagFor("--allow", "delete", d.Key),
		"%s %s would go nowhere without it", what, w.user)
}

// keepAttached blocks the delete of a queue or an exchange while a binding that
// stays leads to it or from it: it would go with it.
func (r *routes) keepAttached(gone map[topology.Key]*Change) {
	for _, b := range r.then.Bindings {
		if gone[b.Key()] != nil {
			continue
		}
		from, to := endKeys(b)
		for _, k := range []topology.Key{from, to} {
			d := gone[k]
			if d == nil || r.c.allows("delete", k) {
				continue
			}
			other := from
			if k == from {
				other = to
			}
			if gone[other] != nil && r.c.allows("delete", other) {
				continue
			}
			d.block("binding-left", "delete the binding first, or let it go with it: "+flagFor("--allow", "delete", k),
				"a binding that stays would go with it: %s", b.Key().Name)
		}
	}
}

// keepSettings blocks the delete of the generated policy of a queue that stays.
func (r *routes) keepSettings(gone map[topology.Key]*Change) {
	for k, d := range gone {
		p, ok := d.Before.(*topology.Policy)
		if !ok {
			continue
		}
		q := r.h.leaving[topology.Key{Kind: topology.KindQueue, VirtualHost: k.VirtualHost, Name: queueOf(p)}]
		if q != nil && len(q.Blocked) > 0 {
			d.block("queue-stays", "it goes with the queue", "it holds the settings of %s, whose delete is blocked", q.Key)
		}
	}
}

// keepHost leaves the virtual host behind while anything would go with it that is
// not deleted before.
func (r *routes) keepHost() {
	gone := r.gone()
	here := topology.Key{Kind: topology.KindVirtualHost, VirtualHost: r.h.name}
	if gone[here] == nil {
		return
	}
	var left []string
	for _, o := range r.then.Objects() {
		p, permission := o.(*topology.Permission)
		if gone[o.Key()] == nil && !isPredeclared(o) && !(permission && p.User == r.c.in.User) {
			left = append(left, o.Key().Address())
		}
	}
	if len(left) == 0 {
		return
	}
	r.c.note(here, "vhost-in-use", "it stays, since %s would go with it: %s", plural(len(left), "object"), strings.Join(firstFew(left), ", "))
	r.c.plan.LeftBehind = append(r.c.plan.LeftBehind, here)
	r.deletes = slices.DeleteFunc(r.deletes, func(d *Change) bool { return d.Key == here })
}

// passed lists what messages on a way pass, with all done but the deletes.
func (r *routes) passed(w way) []topology.Key {
	var keys []topology.Key
	seen := map[string]bool{}
	queue := func(name string) {
		keys = append(keys, topology.Key{Kind: topology.KindQueue, VirtualHost: r.h.name, Name: name})
	}
	var pass func(exchange string)
	pass = func(exchange string) {
		if exchange == "" {
			if w.key != nil {
				queue(*w.key)
			}
			return
		}
		if seen[exchange] {
			return
		}
		seen[exchange] = true
		keys = append(keys, topology.Key{Kind: topology.KindExchange, VirtualHost: r.h.name, Name: exchange})
		e := r.index.Exchanges[exchange]
		for _, b := range r.before.bindings(exchange, e, w.key) {
			keys = append(keys, b.Key())
			if b.DestinationType == topology.ToQueue {
				queue(b.Destination)
			} else {
				pass(b.Destination)
			}
		}
		if e != nil {
			for _, a := range waysOfExchange(r.set, e, r.set.Exchange(exchange)) {
				pass(a.exchange)
			}
		}
	}
	pass(w.exchange)
	return keys
}

// waysOf are the ways of a user before the deletes: with the policies that act
// then, or with any that might while they are being deleted.
func (r *routes) waysOf(user topology.Key, might bool) []way {
	var list []way
	if q := r.index.Queues[user.Name]; user.Kind == topology.KindQueue && q != nil {
		m := r.set.Queue(q.Name, q.Type)
		list = waysOfQueue(r.set, q, m)
		if might {
			for _, p := range everyone(policy.Match{}, m) {
				list = append(list, waysOfQueue(r.set, q, policy.Match{Policy: p, Operator: m.Operator})...)
			}
		}
	}
	if e := r.index.Exchanges[user.Name]; user.Kind == topology.KindExchange && e != nil {
		m := r.set.Exchange(e.Name)
		list = waysOfExchange(r.set, e, m)
		if might {
			for _, p := range everyone(policy.Match{}, m) {
				list = append(list, waysOfExchange(r.set, e, policy.Match{Policy: p})...)
			}
		}
	}
	return list
}

// policiesOf are the keys of the policies that match a user before the deletes.
func (r *routes) policiesOf(user topology.Key) []topology.Key {
	var m policy.Match
	if q := r.index.Queues[user.Name]; user.Kind == topology.KindQueue && q != nil {
		m = r.set.Queue(q.Name, q.Type)
	} else if user.Kind == topology.KindExchange {
		m = r.set.Exchange(user.Name)
	}
	var keys []topology.Key
	for _, p := range append(everyone(policy.Match{}, m), m.Operator) {
		if p != nil {
			keys = append(keys, p.Key())
		}
	}
	return keys
}
