package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var versions = []catalog.Version{{Major: 3, Minor: 10, Patch: 8}, {Major: 4, Minor: 0, Patch: 5}, {Major: 4, Minor: 3, Patch: 6}}

// world draws a pair of a desired and a live virtual host from few names, so that
// they have much to do with each other.
type world struct {
	t       *rapid.T
	version catalog.Version
}

var (
	queueNames    = []string{"a", "b", "c", "d", "e", "f"}
	exchangeNames = []string{"x", "y", "z"}
	keys          = []string{"", "k", "a.b", "*.b", "#"}
)

func (w *world) pick(list []string, label string) string {
	return rapid.SampledFrom(list).Draw(w.t, label)
}

func (w *world) chance(percent int, label string) bool {
	return rapid.IntRange(0, 99).Draw(w.t, label) < percent
}

func (w *world) route(keys map[string]any, prefix string) {
	if w.chance(50, "default exchange") {
		keys[prefix+"dead-letter-exchange"] = ""
		keys[prefix+"dead-letter-routing-key"] = w.pick(queueNames, "target")
		return
	}
	keys[prefix+"dead-letter-exchange"] = w.pick(exchangeNames, "dlx")
	if w.chance(50, "with key") {
		keys[prefix+"dead-letter-routing-key"] = w.pick([]string{"k", "a.b"}, "dlx key")
	}
}

func (w *world) queue(name string) *topology.Queue {
	q := &topology.Queue{VirtualHost: "v", Name: name, Durable: true, Type: rapid.SampledFrom([]topology.QueueType{"classic", "quorum", ""}).Draw(w.t, "type")}
	args := map[string]any{}
	if w.chance(40, "route by argument") {
		w.route(args, "x-")
	}
	if w.chance(20, "ttl") {
		args["x-message-ttl"] = int64(rapid.IntRange(1, 3).Draw(w.t, "ttl")) * 1000
	}
	q.Arguments = args
	return q
}

func (w *world) intent(q *topology.Queue) {
	q.Intent = &topology.QueueIntent{Role: rapid.SampledFrom([]topology.Role{"", "", "wait", "dead-letter"}).Draw(w.t, "role")}
	if w.chance(8, "external") {
		q.Intent.External = true
	}
}

func (w *world) exchange(name string) *topology.Exchange {
	e := &topology.Exchange{
		VirtualHost: "v", Name: name, Durable: true,
		Type: w.pick([]string{"direct", "topic", "fanout", "headers"}, "exchange type"),
	}
	if w.chance(30, "ae") {
		e.Arguments = topology.Arguments{"alternate-exchange": w.pick(exchangeNames, "alternate")}
	}
	return e
}

func (w *world) policies(v *topology.VirtualHost, names []string) {
	for _, n := range names {
		p := &topology.Policy{VirtualHost: "v", Name: n, Priority: int64(rapid.IntRange(0, 3).Draw(w.t, "priority"))}
		p.Pattern = w.pick([]string{"^a$", "^[ab]$", "", "^(c|d)", "x"}, "pattern")
		p.ApplyTo = w.pick([]string{"queues", "all", "", "exchanges"}, "apply-to")
		d := map[string]any{"max-length": int64(9)}
		if w.chance(60, "route by policy") {
			w.route(d, "")
		}
		if w.chance(20, "ae by policy") {
			d["alternate-exchange"] = w.pick(exchangeNames, "alternate")
		}
		if w.chance(20, "limit") {
			d["delivery-limit"] = int64(4)
		}
		p.Definition = d
		v.Policies = append(v.Policies, p)
	}
}

func (w *world) bindings(v *topology.VirtualHost) {
	seen := map[topology.Key]bool{}
	for range rapid.IntRange(0, 8).Draw(w.t, "bindings") {
		if len(v.Exchanges) == 0 {
			return
		}
		b := &topology.Binding{VirtualHost: "v", Source: rapid.SampledFrom(v.Exchanges).Draw(w.t, "source").Name, RoutingKey: w.pick(keys, "key")}
		if w.chance(30, "e2e") || len(v.Queues) == 0 {
			b.DestinationType, b.Destination = topology.ToExchange, rapid.SampledFrom(v.Exchanges).Draw(w.t, "destination").Name
		} else {
			b.DestinationType, b.Destination = topology.ToQueue, rapid.SampledFrom(v.Queues).Draw(w.t, "destination").Name
		}
		if w.chance(20, "header") {
			b.Arguments = topology.Arguments{"x-match": "all", "n": int64(rapid.IntRange(1, 2).Draw(w.t, "n"))}
		}
		if !seen[b.Key()] {
			seen[b.Key()] = true
			v.Bindings = append(v.Bindings, b)
		}
	}
}

func (w *world) subset(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(string) bool { return w.chance(40, "leave out") })
}

func (w *world) host(desired bool) *topology.VirtualHost {
	v := &topology.VirtualHost{Name: "v", DefaultQueueType: topology.Classic}
	for _, n := range w.subset(queueNames) {
		v.Queues = append(v.Queues, w.queue(n))
		if desired {
			w.intent(v.Queues[len(v.Queues)-1])
		}
	}
	for _, n := range w.subset(exchangeNames) {
		v.Exchanges = append(v.Exchanges, w.exchange(n))
	}
	w.policies(v, w.subset([]string{"p", "q"}))
	w.bindings(v)
	return v
}

// draw makes an input whose live side has whole and changed copies of what is
// desired, and things of its own.
func draw(t *rapid.T) Input {
	w := &world{t: t, version: rapid.SampledFrom(versions).Draw(t, "version")}
	desired := w.host(true)
	in := Input{Desired: &topology.Topology{VirtualHosts: []*topology.VirtualHost{desired}}, Server: Server{Version: w.version}}
	in.Counts = map[topology.Key]Counts{}
	none := int64(0)
	for _, n := range queueNames {
		if w.chance(90, "empty") {
			in.Counts[topology.Key{Kind: topology.KindQueue, VirtualHost: "v", Name: n}] = Counts{Messages: &none}
		}
	}
	if w.chance(20, "no virtual host") {
		in.Live = &topology.Topology{}
		return in
	}
	live := w.host(false)
	for i, q := range live.Queues {
		if d := desired.Queue(q.Name); d != nil && w.chance(70, "same queue") {
			n := *d
			n.Intent = nil
			live.Queues[i] = &n
		}
	}
	for i, e := range live.Exchanges {
		if d := desired.Exchange(e.Name); d != nil && w.chance(70, "same exchange") {
			live.Exchanges[i] = d
		}
	}
	in.Live = &topology.Topology{VirtualHosts: []*topology.VirtualHost{live}}
	return in
}

// TestSecondPlanIsEmpty: once a plan is carried out, what is left is what was
// blocked and what needs it.
func TestSecondPlanIsEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwned(t)
		p, _ := Compute(in)
		left := map[string]bool{}
		blocked := false
		for _, c := range p.Changes {
			left[c.ID] = true
			blocked = blocked || len(c.Blocked) > 0
		}
		in.Live = Predict(in.Live, p)
		second, _ := Compute(in)
		for _, c := range second.Changes {
			if !blocked {
				t.Fatalf("%s %s after everything was carried out: %+v", c.Action, c.Key, c.Fields)
			}
			if !left[c.ID] {
				t.Fatalf("%s %s is new in the second plan", c.Action, c.Key)
			}
		}
		third, _ := Compute(Input{Desired: in.Desired, Live: Predict(in.Live, second), Server: in.Server, Counts: in.Counts, Owners: in.Owners})
		if !blocked && !third.Empty() {
			t.Fatal("the third plan is not empty")
		}
	})
}

func shuffled(t *rapid.T, top *topology.Topology) *topology.Topology {
	out := &topology.Topology{}
	for _, v := range top.VirtualHosts {
		n := *v
		n.Queues = rapid.Permutation(v.Queues).Draw(t, "queues")
		n.Exchanges = rapid.Permutation(v.Exchanges).Draw(t, "exchanges")
		n.Bindings = rapid.Permutation(v.Bindings).Draw(t, "bindings")
		n.Policies = rapid.Permutation(v.Policies).Draw(t, "policies")
		out.VirtualHosts = append(out.VirtualHosts, &n)
	}
	return out
}

func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwned(t)
		p, found := Compute(in)
		in.Desired, in.Live = shuffled(t, in.Desired), shuffled(t, in.Live)
		again, foundAgain := Compute(in)
		if !reflect.DeepEqual(p.Notes, again.Notes) || !reflect.DeepEqual(found, foundAgain) || !reflect.DeepEqual(p.wantsCounts, again.wantsCounts) {
			t.Fatalf("notes or findings differ:\n%+v\n%+v", p.Notes, again.Notes)
		}
		if !reflect.DeepEqual(p.Changes, again.Changes) || !reflect.DeepEqual(p.Routes, again.Routes) ||
			!reflect.DeepEqual(p.Fingerprints, again.Fingerprints) || !reflect.DeepEqual(p.Unmanaged, again.Unmanaged) {
			t.Fatal("plans differ")
		}
	})
}

// TestOrderRespectsNeeds: whatever a change needs, through routes too, stands
// before it, and no route contains itself.
func TestOrderRespectsNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := Compute(drawOwned(t))
		done := map[string]bool{}
		inPlan := map[string]bool{}
		for _, c := range p.Changes {
			inPlan[c.ID] = true
		}
		var check func(id string, path []string)
		check = func(id string, path []string) {
			if slices.Contains(path, id) {
				t.Fatalf("%s contains itself: %v", id, path)
			}
			members, isRoute := p.Routes[id]
			switch {
			case !isRoute && !inPlan[id]:
				t.Fatalf("%s is neither change nor route", id)
			case !isRoute && !done[id]:
				t.Fatalf("%s is needed before it is done", id)
			}
			for _, m := range members {
				check(m, append(path, id))
			}
		}
		for _, c := range p.Changes {
			for _, n := range c.Needs {
				check(n, nil)
			}
			done[c.ID] = true
		}
	})
}

// arrives reports whether a message that is published to an exchange with the key
// (nil: some key) reaches a queue.
func arrives(v *topology.VirtualHost, set *policy.Set, exchange string, key *string, seen map[string]bool) bool {
	if exchange == "" {
		return key == nil || v.Queue(*key) != nil
	}
	e := v.Exchange(exchange)
	if e == nil || seen[exchange] {
		return false
	}
	seen[exchange] = true
	for _, b := range v.Bindings {
		takes := key == nil || e.Type != "direct" && e.Type != "topic" || e.Type == "direct" && b.RoutingKey == *key ||
			e.Type == "topic" && topicMatches(b.RoutingKey, *key)
		if b.Source != exchange || !takes {
			continue
		}
		if b.DestinationType == topology.ToQueue && v.Queue(b.Destination) != nil {
			return true
		}
		if b.DestinationType == topology.ToExchange && arrives(v, set, b.Destination, key, seen) {
			return true
		}
	}
	alternate, ok := set.EffectiveExchange(e, set.Exchange(e.Name))["alternate-exchange"].Value.(string)
	return ok && arrives(v, set, alternate, key, seen)
}

// routeOf is the dead-letter route in effect on a queue; ok: it has one.
func routeOf(v *topology.VirtualHost, set *policy.Set, q *topology.Queue) (exchange string, key *string, ok bool) {
	s := set.Effective(q, set.Queue(q.Name, q.Type))
	exchange, ok = s["dead-letter-exchange"].Value.(string)
	if k, stated := s["dead-letter-routing-key"].Value.(string); stated {
		key = &k
	}
	return exchange, key, ok
}

func matcher(v *topology.VirtualHost, version catalog.Version) *policy.Set {
	return policy.New(version, v.Policies, v.OperatorPolicies)
}

// everything is the live virtual host with all changes, blocked ones too.
func everything(in Input, p *Plan) *topology.VirtualHost {
	f := newForecast()
	for _, v := range in.Live.VirtualHosts {
		f.addHost(v)
	}
	for _, c := range p.Changes {
		f.put(c.After)
	}
	if v := f.topology.VirtualHost("v"); v != nil {
		return normalLive(v)
	}
	return &topology.VirtualHost{Name: "v"}
}

// reached lists the queues that a route can lead to.
func reached(v *topology.VirtualHost, set *policy.Set, exchange string, key *string, seen map[string]bool, add func(string)) {
	if exchange == "" {
		if key != nil {
			add(*key)
		}
		return
	}
	e := v.Exchange(exchange)
	if e == nil || seen[exchange] {
		return
	}
	seen[exchange] = true
	for _, b := range v.Bindings {
		if b.Source != exchange {
			continue
		}
		if b.DestinationType == topology.ToQueue {
			add(b.Destination)
		} else {
			reached(v, set, b.Destination, nil, seen, add)
		}
	}
	if alternate, ok := set.EffectiveExchange(e, set.Exchange(e.Name))["alternate-exchange"].Value.(string); ok {
		reached(v, set, alternate, nil, seen, add)
	}
}

// circular finds the queues whose dead letters can come back to them.
func circular(v *topology.VirtualHost, version catalog.Version) map[string]bool {
	set := matcher(v, version)
	next := map[string][]string{}
	for _, q := range v.Queues {
		if exchange, key, ok := routeOf(v, set, q); ok {
			reached(v, set, exchange, key, map[string]bool{}, func(n string) { next[q.Name] = append(next[q.Name], n) })
		}
	}
	circle := map[string]bool{}
	for _, q := range v.Queues {
		seen := map[string]bool{}
		todo := slices.Clone(next[q.Name])
		for len(todo) > 0 {
			n := todo[0]
			todo = todo[1:]
			if n == q.Name {
				circle[n] = true
			}
			if !seen[n] {
				seen[n] = true
				todo = append(todo, next[n]...)
			}
		}
	}
	return circle
}

// TestNoDeadEndAfterAnyFailure: whatever steps fail, no queue has a dead-letter
// route that leads nowhere, unless that route leads nowhere before, or after
// everything, too, or the queue is part of a circle, which has to begin somewhere.
func TestNoDeadEndAfterAnyFailure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := draw(t)
		p, _ := Compute(in)
		for _, c := range p.Changes { // consent to everything: the order has to hold by itself
			if c.Action != Replace && !slices.ContainsFunc(c.Blocked, func(b Block) bool { return b.Code == "external-missing" }) {
				c.Blocked = nil
			}
		}
		final := everything(in, p)
		circle := circular(final, in.Server.Version)
		stop := rapid.IntRange(0, len(p.Changes)).Draw(t, "stop after")
		n := 0
		var failed []string
		now := predict(in.Live, p, func(c *Change) bool {
			n++
			fails := n > stop || rapid.IntRange(0, 9).Draw(t, "fails") == 0
			if fails {
				failed = append(failed, c.ID)
			}
			return !fails
		})
		v := now.VirtualHost("v")
		if v == nil {
			return
		}
		v = normalLive(v)
		before := in.Live.VirtualHost("v")
		set, finally := matcher(v, in.Server.Version), matcher(final, in.Server.Version)
		for _, q := range v.Queues {
			exchange, key, ok := routeOf(v, set, q)
			if !ok || circle[q.Name] || arrives(v, set, exchange, key, map[string]bool{}) || !arrives(final, finally, exchange, key, map[string]bool{}) {
				continue
			}
			if before != nil && before.Queue(q.Name) != nil {
				old := normalLive(before)
				e, k, had := routeOf(old, matcher(old, in.Server.Version), old.Queue(q.Name))
				if had && e == exchange && reflect.DeepEqual(k, key) {
					continue
				}
			}
			t.Fatalf("queue %q dead-letters to %q, which leads nowhere; failed: %v\n%s", q.Name, exchange, failed, dump(in, p))
		}
	})
}

// dump writes an input and its plan for a failing test.
func dump(in Input, p *Plan) string {
	var b strings.Builder
	for _, side := range []*topology.Topology{in.Desired, in.Live} {
		for _, v := range side.VirtualHosts {
			for _, o := range v.Objects() {
				fmt.Fprintf(&b, "  %s:", o.Key())
				for _, a := range o.Attributes() {
					fmt.Fprintf(&b, " %s=%s", a.Name, topology.Text(a.Value))
				}
				b.WriteString("\n")
			}
		}
		b.WriteString("--\n")
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %s %s needs %q blocked %v\n", c.Action, c.ID, c.Needs, c.Blocked)
	}
	for _, r := range slices.Sorted(maps.Keys(p.Routes)) {
		fmt.Fprintf(&b, "  %s: %q\n", r, p.Routes[r])
	}
	return b.String()
}
