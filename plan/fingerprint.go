package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Moved lists the objects of a saved plan whose live state is no longer the one
// that the plan was computed from: the object itself, for what touches queues the
// policy and operator policy that act on them and the default queue type, and
// whether messages that go on from there still arrive somewhere. A plan with any
// must not be applied.
func Moved(saved *Plan, live *topology.Topology, owners map[string]*ownership.View) []topology.Key {
	v := saved.Server.Version
	if v.IsZero() {
		v = catalog.Newest
	}
	prints := newPrinter(live, v, saved.Changes, saved.Stacks, owners)
	var keys []topology.Key
	for _, c := range saved.Changes {
		if saved.Fingerprints[c.ID] != prints.of(c) {
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// Elsewhere says why a saved plan is not for a broker: another version decides
// differently what can be done and how. What the plan does not know, as when it
// was made against a file, does not count. "": it is for this one.
func Elsewhere(saved *Plan, now Server) string {
	was := saved.Server
	if was.ClusterName != "" && now.ClusterName != "" && was.ClusterName != now.ClusterName {
		return fmt.Sprintf("it was made for the broker %q, and this is %q", was.ClusterName, now.ClusterName)
	}
	if !was.Version.IsZero() && !now.Version.IsZero() && was.Version != now.Version {
		return fmt.Sprintf("it was made for RabbitMQ %s, and this is %s", was.Version, now.Version)
	}
	return ""
}

// printer makes fingerprints over one live state.
type printer struct {
	live    *topology.Topology
	version catalog.Version
	changes []*Change
	hosts   map[string]*printedHost
	// stacks are those whose records the plan was made from, by virtual host.
	stacks map[string]string
	owners map[string]*ownership.View
}

type printedHost struct {
	host    *topology.VirtualHost
	objects map[topology.Key]topology.Object
	set     *policy.Set
	// matched lists by change of a policy the queues that it matches before or
	// after.
	matched map[string][]*topology.Queue
	// texts of queues with what acts on them are made once: a policy may match all.
	texts map[string]string
	index *topology.Index // made on first use
	// then is the virtual host as the changes will leave it.
	then *destinations
}

func newPrinter(live *topology.Topology, v catalog.Version, changes []*Change, stacks map[string]string, owners map[string]*ownership.View) *printer {
	return &printer{live: live, version: v, changes: changes, hosts: map[string]*printedHost{}, stacks: stacks, owners: owners}
}

// host prepares a virtual host on first use; nil: it does not exist.
func (p *printer) host(name string) *printedHost {
	if h, ok := p.hosts[name]; ok {
		return h
	}
	p.hosts[name] = nil
	if p.live == nil {
		return nil
	}
	v := p.live.VirtualHost(name)
	if v == nil {
		return nil
	}
	v = normalLive(v)
	h := &printedHost{
		host: v, objects: map[topology.Key]topology.Object{}, set: policy.New(p.version, v.Policies, v.OperatorPolicies),
		matched: map[string][]*topology.Queue{}, texts: map[string]string{},
	}
	for _, o := range v.Objects() {
		h.objects[o.Key()] = o
	}
	h.match(p)
	h.then = newDestinations(p.version, after(v, p.changes, true))
	p.hosts[name] = h
	return h
}

func (h *printedHost) match(p *printer) {
	var policies []*topology.Policy
	changes := map[*topology.Policy]string{}
	for _, c := range p.changes {
		after, ok := c.After.(*topology.Policy)
		if !ok || c.Key.VirtualHost != h.host.Name {
			continue
		}
		versions := []*topology.Policy{after}
		if before, ok := h.objects[c.Key].(*topology.Policy); ok {
			versions = append(versions, before)
		}
		for _, v := range versions {
			changes[v] = c.ID
			policies = append(policies, v)
		}
	}
	if policies == nil {
		return
	}
	set := policy.New(p.version, policies, nil)
	queues := slices.Clone(h.host.Queues)
	slices.SortFunc(queues, func(a, b *topology.Queue) int { return strings.Compare(a.Name, b.Name) })
	for _, q := range queues {
		if q.Exclusive { // they come and go with their connections
			continue
		}
		m := set.Candidates(q.Name, q.Type)
		for _, v := range append(m.Policies, m.Undecided...) {
			list := h.matched[changes[v]]
			if len(list) == 0 || list[len(list)-1] != q {
				h.matched[changes[v]] = append(list, q)
			}
		}
	}
}

// of is the fingerprint of the live state that a change rests on.
func (p *printer) of(c *Change) string {
	sum := sha256.New()
	h := p.host(c.Key.VirtualHost)
	if h == nil {
		io.WriteString(sum, "no virtual host")
		return hex.EncodeToString(sum.Sum(nil))
	}
	fmt.Fprintf(sum, "default queue type %q\n", h.host.DefaultQueueType)
	if c.Key.Kind == topology.KindVirtualHost && h.host.Settings != nil {
		writeObject(sum, h.host.Settings)
	}
	o := h.objects[c.Key]
	if o == nil {
		io.WriteString(sum, "absent\n")
	} else {
		writeObject(sum, o)
	}
	if stack := p.stacks[c.Key.VirtualHost]; stack != "" && c.Before != nil {
		fmt.Fprintf(sum, "recorded %s\n", recordedAs(p.owners[c.Key.VirtualHost], stack, c.Key))
	}
	if c.After == nil {
		h.writeAttached(sum, c.Key)
	}
	switch after := c.After.(type) {
	case *topology.Queue:
		q, _ := o.(*topology.Queue)
		if q == nil {
			q = &topology.Queue{Name: after.Name, Type: after.Type}
		}
		io.WriteString(sum, h.acting(q))
		fmt.Fprintf(sum, "dead letters %s\n", h.then.ofQueue(after))
	case *topology.Exchange:
		fmt.Fprintf(sum, "unroutable messages %s\n", h.then.ofExchange(after))
	case *topology.Binding:
		fmt.Fprintf(sum, "both ends %t\n", h.then.hasEnds(after))
	case *topology.Policy:
		for _, q := range h.matched[c.ID] {
			fmt.Fprintf(sum, "%s dead letters %s\n", h.queue(q), h.then.ofQueue(q))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// recordedAs says whose object it is.
func recordedAs(v *ownership.View, stack string, k topology.Key) string {
	switch {
	case v == nil || v.Why != "" || v.Stack != stack:
		return "unknown"
	case v.Others[k] != "":
		return fmt.Sprintf("other %q", v.Others[k])
	case v.Owns(k):
		return "ours"
	}
	return "nobody's"
}

// writeAttached writes the bindings that go with a deleted queue or exchange.
func (h *printedHost) writeAttached(w io.Writer, k topology.Key) {
	var names []string
	if h.index == nil {
		h.index = h.host.Index()
	}
	switch k.Kind {
	case topology.KindExchange:
		for _, b := range slices.Concat(h.index.From[k.Name], h.index.To[topology.End{Type: topology.ToExchange, Name: k.Name}]) {
			names = append(names, b.Key().Name)
		}
	case topology.KindQueue:
		for _, b := range h.index.To[topology.End{Type: topology.ToQueue, Name: k.Name}] {
			names = append(names, b.Key().Name)
		}
	}
	slices.Sort(names)
	fmt.Fprintf(w, "bindings %q\n", names)
}

func (h *printedHost) queue(q *topology.Queue) string {
	text, ok := h.texts[q.Name]
	if !ok {
		sum := sha256.New()
		writeObject(sum, q)
		io.WriteString(sum, h.acting(q))
		text = hex.EncodeToString(sum.Sum(nil))
		h.texts[q.Name] = text
	}
	return text
}

// acting writes what acts on a queue.
func (h *printedHost) acting(q *topology.Queue) string {
	sum := sha256.New()
	m := h.set.Queue(q.Name, q.Type)
	for _, p := range []*topology.Policy{m.Policy, m.Operator} {
		if p == nil {
			io.WriteString(sum, "none\n")
		} else {
			writeObject(sum, p)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)) + "\n"
}

// writeObject writes an object so that different ones give different text, secrets
// left out.
func writeObject(w io.Writer, o topology.Object) {
	k := o.Key()
	fmt.Fprintf(w, "%s %q %q\n", k.Kind, k.VirtualHost, k.Name)
	for _, a := range o.Attributes() {
		safe, _ := mask(a.Value)
		fmt.Fprintf(w, "%q %s\n", a.Name, topology.Text(safe))
	}
}
