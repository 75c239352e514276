package specs

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// inherit copies into a queue's generated policy what a policy of the spec would
// give the queue: on a broker only one policy acts, the others are hidden as a
// whole. The queue's own settings stay. A dead-letter route is one thing: a
// queue with its own takes no part of another.
func (e *expansion) inherit(q *Queue, t topology.QueueType, definition topology.Arguments, settings map[string]topology.SettingValue) {
	if e.policies == nil {
		e.policies = policy.New(e.version, e.spec.Policies, nil)
	}
	from := e.policies.Queue(q.Name, t).Policy
	if from == nil {
		return
	}
	if from.Priority >= q.PolicyPriority {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "inherited-policy-priority",
			Summary: fmt.Sprintf("queue %q: the generated policy has priority %d and is hidden by policy %q, which has %d", q.Name,
				q.PolicyPriority, from.Name, from.Priority),
			Detail:   "Give the policy a lower priority, or raise defaults.policy_priority.",
			Object:   topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: q.Name},
			Position: q.Pos, Related: []diag.Related{{Position: from.Position, Text: "the policy"}},
		})
		return
	}
	_, routed := settings["dead-letter-exchange"]
	for _, key := range from.Definition.Keys() {
		row := catalog.LookupPolicyKey(key)
		if row == nil { // a plugin's key
			if _, own := definition[key]; !own {
				definition[key] = from.Definition[key]
			}
			continue
		}
		_, own := settings[row.Name]
		if own || routed && strings.HasPrefix(row.Name, "dead-letter-") {
			continue
		}
		definition[key] = from.Definition[key]
		settings[row.Name] = topology.SettingValue{Value: from.Definition[key], By: topology.ByPolicy, Position: from.Position}
	}
}
