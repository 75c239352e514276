// Package export writes a live topology as a spec that a person would have
// written: dead-letter routes, wait queues, categories and generated policies in
// their short form. Every short form is tried: the text is read again, expanded
// and compared with the source, and what would change anything is written out
// in full instead. The package is pure.
package export

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	display "github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

// Input is what is exported.
type Input struct {
	// Topology is live state, from a broker or a definitions file.
	Topology *topology.Topology
	// Version is the broker's; zero: unknown.
	Version catalog.Version
	// LeftOut are queues of connections and their bindings, which are told of.
	LeftOut []topology.Object
}

// Document is the spec of one virtual host.
type Document struct {
	VirtualHost string
	Text        []byte
}

// Spec writes the spec, one document for each virtual host. The findings say
// what could not be written, and what is left to fill in. The text never holds a
// password: secrets in parameters become references to environment variables.
func Spec(in Input) ([]byte, diag.List) {
	hosts, found := fold(in)
	return write(hosts), found
}

// Documents is Spec with a file for each virtual host.
func Documents(in Input) ([]Document, diag.List) {
	hosts, found := fold(in)
	all := make([]Document, len(hosts))
	for i, h := range hosts {
		all[i] = Document{h.source.Name, write(hosts[i : i+1])}
	}
	return all, found
}

// fold finds out how far each virtual host can be folded.
func fold(in Input) ([]*host, diag.List) {
	var found diag.List
	var hosts []*host
	names := secretNames{}
	for _, v := range in.Topology.VirtualHosts {
		h := newHost(v, in.Version, names)
		for _, o := range in.LeftOut {
			if q, ok := o.(*topology.Queue); ok && q.VirtualHost == v.Name {
				h.ofConnections[q.Name] = true
			}
		}
		hosts = append(hosts, h)
	}
	for {
		wrong, broken := differing(write(hosts), hosts, in)
		progress := false
		for _, h := range hosts {
			if h.unfold(wrong, broken) {
				progress = true
			}
		}
		if !progress {
			break
		}
	}
	shorten(hosts, in)
	for _, h := range hosts {
		if n := len(h.ofConnections); n > 0 {
			found.Add(diag.Diagnostic{
				Severity: diag.Info, Code: "queue-of-connection", Object: topology.Key{Kind: topology.KindVirtualHost, VirtualHost: h.source.Name, Name: h.source.Name},
				Summary: fmt.Sprintf("%s of virtual host %q left out: exclusive or named by the server", display.Plural(n, "queue", "queues"), h.source.Name),
				Detail:  "They belong to connections of applications, which declare them.",
			})
		}
		found = append(found, h.found...)
	}
	found.Sort()
	return hosts, found
}

// shorten writes what queues have in common once, where that says the same.
func shorten(hosts []*host, in Input) {
	before, _ := differing(write(hosts), hosts, in)
	for _, h := range hosts {
		h.short = true
	}
	wrong, broken := differing(write(hosts), hosts, in)
	maps.DeleteFunc(wrong, func(k topology.Key, _ bool) bool { return before[k] })
	for _, h := range hosts {
		is := func(k topology.Key) bool { return k.VirtualHost == h.source.Name || k.VirtualHost == "" }
		if slices.ContainsFunc(slices.Collect(maps.Keys(wrong)), is) || slices.ContainsFunc(slices.Collect(maps.Keys(broken)), is) {
			h.short = false
		}
	}
}

// write renders every virtual host with the foldings that are left.
func write(hosts []*host) []byte {
	var b strings.Builder
	for i, h := range hosts {
		h.write(&b, i == 0)
	}
	return []byte(b.String())
}

// differing reads the text as plan would. It lists the objects of the source that
// it does not say exactly, and those that make it unreadable.
func differing(text []byte, hosts []*host, in Input) (wrong, broken map[topology.Key]bool) {
	wrong, broken = map[topology.Key]bool{}, map[topology.Key]bool{}
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "export", Data: text}}})
	for _, d := range found {
		if d.Structural && d.Severity == diag.Error {
			broken[d.Object] = true
		}
	}
	types := map[string]topology.QueueType{}
	source := &topology.Topology{}
	for _, h := range hosts {
		if h.source.DefaultQueueType != "" {
			types[h.source.Name] = h.source.DefaultQueueType
		}
		source.VirtualHosts = append(source.VirtualHosts, h.source)
	}
	desired, found := spec.Expand(specs.Target{Version: in.Version, DefaultQueueTypes: types})
	for _, d := range found {
		if d.Severity == diag.Error {
			wrong[d.Object] = true
		}
	}
	p, _ := plan.Compute(plan.Input{Desired: desired, Live: source, Server: plan.Server{Version: in.Version}, Offline: true})
	for _, c := range p.Changes {
		wrong[c.Key] = true
	}
	for _, n := range p.Notes {
		if n.Code == "argument-differs" {
			wrong[n.Key] = true
		}
	}
	for _, k := range p.Unmanaged {
		wrong[k] = true
	}
	return wrong, broken
}
