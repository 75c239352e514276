package broker

import (
	"context"
	"encoding/json"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/internal/background"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// reading is one read of several virtual hosts.
type reading struct {
	client   *Client
	overview *Overview
	ctx      context.Context
	group    *errgroup.Group
	turns    chan struct{} // a broker answers each request on one core: two at a time
}

func newReading(ctx context.Context, c *Client, overview *Overview) *reading {
	r := &reading{client: c, overview: overview, turns: make(chan struct{}, 2)}
	r.group, r.ctx = errgroup.WithContext(ctx)
	return r
}

func (r *reading) get(path string, into any) error {
	r.turns <- struct{}{}
	defer func() { <-r.turns }()
	return r.client.get(r.ctx, path, into)
}

// list reads one list of a virtual host.
func list[T interface{ complete() bool }](r *reading, vhost, what, path string, into *[]T) error {
	err := r.get(path, into)
	if err == nil && !complete(*into) {
		err = strange(path, "entries without a name")
	}
	return named(err, vhostSentence("list the "+what+" of %s", vhost), topology.Key{})
}

func complete[T interface{ complete() bool }](all []T) bool {
	return !slices.ContainsFunc(all, func(e T) bool { return !e.complete() })
}

// answers are those for one virtual host.
type answers struct {
	*gathered
	definitions *vhostDefinitions // nil: lists
	exchanges   []exchangeEntry
	queues      []queueEntry
	bindings    [][]bindingEntry
	policies    []policyEntry
	operator    []policyEntry
}

// read reads a virtual host from what costs the broker least: before 4.3 its
// definitions take a time that grows with queues times bindings (5,000 of each: more
// than a second, twice as long as the lists), on 4.3 a quarter of that of the lists.
func (r *reading) read(g *gathered, leftOut bool) *answers {
	a := &answers{gathered: g}
	exchanges := background.Start(func() (none struct{}, err error) {
		path := "exchanges/" + escape(g.vhost.Name)
		err = list(r, g.vhost.Name, "exchanges", path, &a.exchanges)
		if err == nil && len(a.exchanges) == 0 { // every virtual host has the default exchange
			err = named(strange(path, "no exchanges"), vhostSentence("list the exchanges of %s", g.vhost.Name), topology.Key{})
		}
		return none, err
	})
	r.group.Go(func() error {
		if !leftOut && r.overview.Version.AtLeast(catalog.V(4, 3)) && isASCII(g.vhost.Name) && !r.client.limited.Load() {
			d, err := r.definitions(g.vhost.Name)
			switch {
			case err == nil:
				a.definitions = d
				_, err = exchanges()
				return err
			case IsLoginFailed(err) || IsUnreachable(err) || r.ctx.Err() != nil:
				return err
			case IsAuth(err):
				r.client.limited.Store(true)
			}
			// Whatever else is wrong, such as a proxy that keeps definitions back, the
			// lists may still do.
		}
		r.lists(a)
		if _, err := exchanges(); err != nil {
			return err
		}
		r.bindings(a)
		return nil
	})
	return a
}

// lists reads a virtual host list by list. Statistics are off: they cost 4 to 16
// times as much and are stale. Pages are never asked for: each costs a whole listing.
func (r *reading) lists(a *answers) {
	name, path := a.vhost.Name, escape(a.vhost.Name)
	r.group.Go(func() error { return list(r, name, "queues", "queues/"+path+"?disable_stats=true", &a.queues) })
	r.group.Go(func() error { return list(r, name, "policies", "policies/"+path, &a.policies) })
	r.group.Go(func() error { return list(r, name, "operator policies", "operator-policies/"+path, &a.operator) })
}

// queuesPerRequest is how many bindings of the default exchange cost the broker as
// much as one request more (3.10.8, 4.0.5 and 4.3.6: 1 ms and 0.03 ms).
const queuesPerRequest = 30

// bindings reads the bindings of all exchanges but the default one. The list of the
// virtual host has one of that for each queue too: with many queues and few exchanges
// it costs a multiple of asking exchange by exchange.
func (r *reading) bindings(a *answers) {
	name, path := a.vhost.Name, escape(a.vhost.Name)
	var sources []string
	for _, e := range a.exchanges {
		if *e.Name != "" {
			sources = append(sources, *e.Name)
		}
	}
	unaddressable := func(x string) bool { return checkAddressable(ViaHTTP, "", x) != nil }
	if len(sources)*queuesPerRequest > r.overview.Queues || slices.ContainsFunc(sources, unaddressable) {
		a.bindings = make([][]bindingEntry, 1)
		r.group.Go(func() error { return list(r, name, "bindings", "bindings/"+path, &a.bindings[0]) })
		return
	}
	a.bindings = make([][]bindingEntry, len(sources))
	for i, x := range sources {
		r.group.Go(func() error {
			return list(r, name, "bindings", "exchanges/"+path+"/"+escape(x)+"/bindings/source", &a.bindings[i])
		})
	}
}

func (a *answers) fill() {
	untyped := a.vhost.DefaultQueueType
	if d := a.definitions; d != nil {
		untyped = topology.Classic // 4.x writes every type
		a.queues, a.bindings, a.policies, a.operator = d.Queues, [][]bindingEntry{d.Bindings}, d.Policies, d.operator
		d.hide(a.gathered)
	}
	for _, e := range a.queues {
		a.queue(e, untyped, topology.Position{})
	}
	for _, e := range a.exchanges {
		a.exchange(e, topology.Position{})
	}
	for _, all := range a.bindings {
		for _, e := range all {
			a.binding(e, topology.Position{})
		}
	}
	for _, e := range a.policies {
		a.policy(e, false, topology.Position{})
	}
	for _, e := range a.operator {
		a.policy(e, true, topology.Position{})
	}
}

// isASCII: definitions of other virtual hosts are cut off by 4.3.6, since their name
// is in them (and their length is counted in characters).
func isASCII(name string) bool {
	return !slices.ContainsFunc([]byte(name), func(b byte) bool { return b >= 0x80 })
}

// vhostDefinitions is an answer of definitions/VHOST. 4.3 leaves internal exchanges
// and exclusive queues out, but not the bindings of either; all versions leave out
// amq.* exchanges. Operator policies are parameters.
type vhostDefinitions struct {
	Queues     []queueEntry     `json:"queues"`
	Bindings   []bindingEntry   `json:"bindings"`
	Policies   []policyEntry    `json:"policies"`
	Parameters []parameterEntry `json:"parameters"`
	operator   []policyEntry
}

// definitions needs the tag administrator.
func (r *reading) definitions(vhost string) (*vhostDefinitions, error) {
	path := "definitions/" + escape(vhost)
	d := &vhostDefinitions{}
	err := r.get(path, d)
	if err == nil {
		err = d.check(path)
	}
	return d, named(err, vhostSentence("read the definitions of %s", vhost), topology.Key{})
}

func (d *vhostDefinitions) check(path string) error {
	if d.Queues == nil || d.Bindings == nil || d.Policies == nil || d.Parameters == nil {
		return strange(path, "no definitions of a virtual host")
	}
	if !complete(d.Queues) || !complete(d.Bindings) || !complete(d.Policies) || !complete(d.Parameters) {
		return strange(path, "entries without a name")
	}
	for _, e := range d.Parameters {
		if e.Component == operatorPolicies {
			p, err := operatorPolicy(e)
			if err != nil {
				return strange(path, "an operator policy of another form")
			}
			d.operator = append(d.operator, p)
		}
	}
	return nil
}

// hide hides the exclusive queues that bindings name.
func (d *vhostDefinitions) hide(g *gathered) {
	there := make(map[string]bool, len(d.Queues))
	for _, e := range d.Queues {
		there[*e.Name] = true
	}
	for _, e := range d.Bindings {
		if topology.DestinationType(e.DestinationType) == topology.ToQueue && !there[*e.Destination] {
			g.hidden[*e.Destination] = true
		}
	}
}

const operatorPolicies = "operator_policy"

// operatorPolicy is the operator policy that a parameter of definitions is.
func operatorPolicy(e parameterEntry) (policyEntry, error) {
	var p policyEntry
	raw, err := json.Marshal(jsonValue(e.Value.value))
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	p.Name, p.VHost = e.Name, e.VHost
	return p, err
}
