package plan

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// VirtualHosts are the virtual hosts that the plan speaks of, sorted.
func (p *Plan) VirtualHosts() []string {
	var names []string
	for _, c := range p.Changes {
		names = append(names, c.Key.VirtualHost)
	}
	for _, n := range p.Notes {
		names = append(names, n.Key.VirtualHost)
	}
	for _, k := range slices.Concat(p.Unmanaged, p.LeftBehind, p.Adopt) {
		names = append(names, k.VirtualHost)
	}
	for name := range p.Stacks { // their records are kept, also where nothing changes
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func isThere(live *topology.Topology, k topology.Key) bool {
	v := live.VirtualHost(k.VirtualHost)
	return v != nil && slices.ContainsFunc(v.Objects(), func(o topology.Object) bool { return o.Key() == k })
}

// Remaining is what of a saved plan is not done on a broker: the plan for the
// objects that it creates or changes, compared anew. What was blocked stays so.
func Remaining(saved *Plan, live *topology.Topology, server Server) *Plan {
	f := newForecast()
	blocked := map[string][]Block{}
	for _, c := range saved.Changes {
		if c.After == nil {
			continue
		}
		if v, ok := c.After.(*topology.VirtualHostSettings); ok {
			if f.hosts[v.VirtualHost] == nil {
				f.addHost(&topology.VirtualHost{Name: v.VirtualHost})
			}
			f.hosts[v.VirtualHost].Settings = v
		} else {
			f.put(c.After)
		}
		blocked[c.ID] = c.Blocked
	}
	p, _ := Compute(Input{Desired: f.topology, Live: live, Server: server, Digest: saved.Digest})
	for _, c := range p.Changes {
		c.Blocked = blocked[c.ID]
	}
	p.Unmanaged, p.Notes = nil, nil // the saved plan does not name what it leaves as it is
	for _, c := range saved.Changes {
		if c.Action == Delete && isThere(live, c.Key) {
			left := *c
			left.Needs = nil
			p.Changes = append(p.Changes, &left)
		}
	}
	return p
}
