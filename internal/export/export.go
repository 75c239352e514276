// Package export writes a live topology as a spec that a person would have
// written: dead-letter routes, wait queues, categories and generated policies in
// their short form. Every short form is tried: the text is read again, expanded
// and compared with the source, and what would change anything is written out
// in full instead. The package is pure.
package export

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
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
}

// Spec writes the spec, one document for each virtual host. The findings say
// what could not be written, and what is left to fill in. The text never holds a
// password: secrets in parameters become references to environment variables.
func Spec(in Input) ([]byte, diag.List) {
	var found diag.List
	var hosts []*host
	names := secretNames{}
	for _, v := range in.Topology.VirtualHosts {
		h := newHost(v, in.Version, names)
		hosts = append(hosts, h)
	}
	for {
		text := write(hosts)
		progress := false
		wrong, broken := differing(text, hosts, in)
		for _, h := range hosts {
			if h.unfold(wrong, broken) {
				progress = true
			}
		}
		if !progress {
			for _, h := range hosts {
				found = append(found, h.found...)
			}
			found.Sort()
			return text, found
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
