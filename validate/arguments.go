package validate

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// eachArgument calls f for every argument of our queues that the catalog knows
// and that is written as an argument: settings are judged by the expansion.
func (p *Pass) eachArgument(f func(q *topology.Queue, row *catalog.Setting, value any, at topology.Position)) {
	for _, q := range p.ours() {
		for _, name := range q.Arguments.Keys() {
			row := catalog.LookupArgument(name)
			if row == nil {
				continue
			}
			_, setting := intent(q).Settings[row.Name]
			if _, raw := intent(q).At["arguments."+name]; raw || !setting {
				f(q, row, q.Arguments[name], argumentAt(q, name))
			}
		}
	}
}

// argumentAt is where an argument is written, raw or as a setting.
func argumentAt(q *topology.Queue, name string) topology.Position {
	if at, ok := intent(q).At["arguments."+name]; ok {
		return at
	}
	if row := catalog.LookupArgument(name); row != nil {
		return place(q, row.Name)
	}
	return q.Position
}

// typesThat lists the queue types for which something holds on any version.
func (s *state) typesThat(holds func(topology.QueueType, catalog.Version) bool) []string {
	var types []string
	for _, t := range topology.QueueTypes {
		if slices.ContainsFunc(s.versions, func(v catalog.Version) bool { return holds(t, v) }) {
			types = append(types, string(t))
		}
	}
	return types
}

// accepts reports whether the broker takes an argument at all.
func accepts(row *catalog.Setting, t topology.QueueType, v catalog.Version) bool {
	return row.TakesArgument(t, v) || row.IgnoresArgument(t, v)
}

// leaveOut is what to do about a setting that is of no use.
func leaveOut(row *catalog.Setting) string {
	if why, ok := strings.CutPrefix(row.Instead, "nothing: "); ok {
		return "Leave it out: " + why + "."
	}
	if row.Instead != "" {
		return "Use " + row.Instead + " instead."
	}
	return "Leave it out."
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
