package catalog

import "github.com/rabbitctl/rabbitctl/internal/topology"

// ApplyTo lists the values of a policy's apply-to that version v takes.
func ApplyTo(v Version) []string {
	if v.AtLeast(V(3, 12)) {
		return []string{"all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"}
	}
	return []string{"all", "queues", "exchanges"}
}

// ApplyToType is the apply-to value for queues of type t alone, or "queues"
// where version v has none or the type is unknown.
func ApplyToType(t topology.QueueType, v Version) string {
	if v.Below(V(3, 12)) {
		return "queues"
	}
	switch t {
	case topology.Classic:
		return "classic_queues"
	case topology.Quorum:
		return "quorum_queues"
	case topology.Stream:
		return "streams"
	}
	return "queues"
}
