package plan

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// orderDeletes blocks the deletes that would cut a route off and puts the others
// into an order in which none is ever cut off on the way: bindings first, so that
// nothing more arrives, then who uses a route before what it consists of. All wait
// until everything else in the virtual host is done, so that the new is there
// before the old goes.
func (c *computation) orderDeletes(h *host) {
	var deletes, others []*Change
	for _, change := range c.plan.Changes {
		switch {
		case change.Key.VirtualHost != h.name:
		case change.Action == Delete:
			deletes = append(deletes, change)
		default:
			others = append(others, change)
		}
	}
	if len(deletes) == 0 {
		return
	}
	r := newRoutes(c, h, deletes)
	r.protect()
	r.keepHost()
	deletes = r.deletes
	o := &deleteOrder{gone: r.gone(), hard: map[*Change][]*Change{}, soft: map[*Change][]*Change{}}
	o.connect(r)

	var first, last []string
	changes := "changes/" + url.PathEscape(h.name)
	removals := "deletes/" + url.PathEscape(h.name)
	for _, change := range others {
		first = append(first, change.ID)
	}
	for _, d := range o.gone {
		if len(first) > 0 {
			d.Needs = append(d.Needs, changes)
		}
		switch {
		case isPermission(d):
			d.Needs = append(d.Needs, removals) // whoever deletes may need them
		case d.Key.Kind == topology.KindVirtualHost:
			for _, other := range o.gone {
				if other != d {
					d.Needs = append(d.Needs, other.ID)
				}
			}
		default:
			last = append(last, d.ID)
		}
	}
	if len(first) > 0 {
		slices.Sort(first)
		c.plan.Routes[changes] = first
	}
	slices.Sort(last)
	c.plan.Routes[removals] = last
	sorted := o.sort(deletes)
	for _, d := range sorted {
		for _, need := range slices.Concat(o.hard[d], o.soft[d]) {
			d.Needs = append(d.Needs, need.ID)
		}
		slices.Sort(d.Needs)
		d.Needs = slices.Compact(d.Needs)
	}
	c.plan.Changes = slices.DeleteFunc(c.plan.Changes, func(change *Change) bool {
		return change.Action == Delete && change.Key.VirtualHost == h.name
	})
	c.plan.Changes = append(c.plan.Changes, sorted...)
}

func isPermission(c *Change) bool {
	return c.Key.Kind == topology.KindPermission || c.Key.Kind == topology.KindTopicPermission
}

// deleteOrder is what waits for what among the deletes that are not blocked.
type deleteOrder struct {
	gone map[topology.Key]*Change
	hard map[*Change][]*Change
	// soft needs give way where they go in a circle, as those of a work queue and
	// its wait queue do.
	soft map[*Change][]*Change
}

func (o *deleteOrder) need(of map[*Change][]*Change, from, to *Change) {
	if from != nil && to != nil && from != to && !slices.Contains(of[from], to) {
		of[from] = append(of[from], to)
	}
}

func (o *deleteOrder) connect(r *routes) {
	for _, b := range r.then.Bindings {
		from, to := endKeys(b)
		o.need(o.hard, o.gone[from], o.gone[b.Key()])
		o.need(o.hard, o.gone[to], o.gone[b.Key()])
	}
	users := make([]topology.Key, 0, len(r.then.Queues)+len(r.then.Exchanges))
	for _, q := range r.then.Queues {
		users = append(users, q.Key())
	}
	for _, e := range r.then.Exchanges {
		users = append(users, e.Key())
	}
	slices.SortFunc(users, compareKeys)
	for _, user := range users {
		var before []*Change // what is deleted before its routes are
		if d := o.gone[user]; d != nil {
			before = append(before, d)
		}
		for _, p := range r.policiesOf(user) {
			if d := o.gone[p]; d != nil {
				o.need(o.hard, d, o.gone[user]) // its settings hold while it is there
				if o.gone[user] == nil {
					before = append(before, d)
				}
			}
		}
		if len(before) == 0 {
			continue
		}
		for _, w := range r.waysOf(user, true) {
			for _, k := range r.passed(w) {
				for _, d := range before {
					o.need(o.soft, o.gone[k], d)
				}
			}
		}
	}
}

// sort puts the blocked deletes first and the others behind what they need.
func (o *deleteOrder) sort(deletes []*Change) []*Change {
	slices.SortFunc(deletes, func(a, b *Change) int {
		return cmp.Or(cmp.Compare(deleteRank[a.Key.Kind], deleteRank[b.Key.Kind]), compareKeys(a.Key, b.Key))
	})
	var sorted, left []*Change
	for _, d := range deletes {
		if len(d.Blocked) > 0 {
			sorted = append(sorted, d)
		} else {
			left = append(left, d)
		}
	}
	done := map[*Change]bool{}
	open := func(d *Change) *Change {
		for _, need := range slices.Concat(o.hard[d], o.soft[d]) {
			if !done[need] {
				return need
			}
		}
		return nil
	}
	for len(left) > 0 {
		count := len(left)
		left = slices.DeleteFunc(left, func(d *Change) bool {
			if open(d) != nil {
				return false
			}
			done[d] = true
			sorted = append(sorted, d)
			return true
		})
		if len(left) == count {
			o.relax(left[0], open)
		}
	}
	return sorted
}

// relax has one delete not wait for the others of the circle that begins at d or
// that d waits for: a queue that keeps its messages rather than one where they only
// wait, since nothing feeds that one afterwards. Its bindings then go with it.
func (o *deleteOrder) relax(d *Change, open func(*Change) *Change) {
	at := map[*Change]int{}
	var path []*Change
	for {
		if start, back := at[d]; back {
			path = path[start:]
			break
		}
		at[d] = len(path)
		path = append(path, d)
		d = open(d)
	}
	waits := func(d *Change) int {
		q, ok := d.Before.(*topology.Queue)
		if !ok {
			return 2
		}
		if _, expires := q.Arguments["x-message-ttl"]; expires {
			return 1
		}
		return 0
	}
	slices.SortFunc(path, func(a, b *Change) int {
		return cmp.Or(cmp.Compare(waits(a), waits(b)), compareKeys(a.Key, b.Key))
	})
	inside := func(need *Change) bool { return slices.Contains(path, need) }
	o.hard[path[0]] = slices.DeleteFunc(o.hard[path[0]], inside)
	o.soft[path[0]] = slices.DeleteFunc(o.soft[path[0]], inside)
}

// deleteRank orders kinds as they are deleted: who brings and takes messages first.
var deleteRank = map[topology.Kind]int{
	topology.KindParameter: 0, topology.KindBinding: 1, topology.KindQueue: 2, topology.KindExchange: 3, topology.KindPolicy: 4,
	topology.KindOperatorPolicy: 5, topology.KindTopicPermission: 6, topology.KindPermission: 7,
	topology.KindVirtualHost: 8,
}
