package validate

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var policyKeysTogether = Rule{
	Code: "policy-keys-together", Severity: diag.Error,
	Summary: "Keys of a policy that the broker does not take together, or one without another.",
	Doc: "`ha-params` and the other `ha-` keys want `ha-mode`, and each mode its own `ha-params`: the broker (before 4.0) refuses the " +
		"policy with 400. So it does with two of `federation-upstream`, `federation-upstream-set` and `federation-upstream-pattern`: " +
		"`cannot specify federation-upstream, federation-upstream-set or federation-upstream-pattern together`. `routing-key` (rabbitmq_sharding) wants `shards-per-node`.",
	Fix: "Correct the keys.",
	Check: func(p *Pass) {
		for _, policy := range append(p.specPolicies(), p.generatedPolicies()...) {
			p.report(policy, policy.At["definition"], upstreamTwice(policy))
			if d := policy.Definition; d["routing-key"] != nil && d["shards-per-node"] == nil {
				p.report(policy, policy.At["definition"], problemf("%s has routing-key without shards-per-node", policyName(policy)).
					do("Set shards-per-node too, the number of queues that the plugin rabbitmq_sharding makes on each node."))
			}
			if wrong := mirroring(policy); wrong.summary != "" {
				p.onVersions(policy, policy.At["definition"], func(v catalog.Version) problem {
					if !catalog.LookupPolicyKey("ha-mode").TakesPolicy(v) {
						return problem{} // policy-key-unknown says so
					}
					return wrong
				})
			}
		}
	},
}

// upstreamTwice: a policy names its federation upstreams in one way.
func upstreamTwice(policy *topology.Policy) problem {
	keys := slices.DeleteFunc(policy.Definition.Keys(), func(k string) bool { return !strings.HasPrefix(k, "federation-upstream") })
	if len(keys) < 2 {
		return problem{}
	}
	return problemf("%s has %s: brokers refuse a policy with more than one of them", policyName(policy), list(keys, "and")).
		do("Keep one of them.")
}

// mirroring: ha-params fit ha-mode, and no other ha- key stands without it.
func mirroring(policy *topology.Policy) problem {
	keys := slices.DeleteFunc(policy.Definition.Keys(), func(k string) bool { return !strings.HasPrefix(k, "ha-") })
	mode, given := policy.Definition["ha-mode"]
	params, some := policy.Definition["ha-params"]
	wants := func(what string) problem {
		has := "without ha-params"
		if some {
			has = "with ha-params " + topology.Text(params)
		}
		return problemf("%s has ha-mode %s %s", policyName(policy), mode, has).do("This mode wants ha-params to be %s.", what)
	}
	switch {
	case len(keys) > 0 && !given:
		return problemf("%s has %s without ha-mode", policyName(policy), list(keys, "and")).do("Set ha-mode too, or remove the others.")
	case mode == "all" && some:
		return problemf("%s has ha-mode all with ha-params, which only exactly and nodes have", policyName(policy)).do("Remove ha-params.")
	case mode == "exactly":
		if n, ok := params.(int64); !ok || n < 1 {
			return wants("the number of mirrors, an integer of at least 1")
		}
	case mode == "nodes":
		if names, ok := params.([]any); !ok || len(names) == 0 {
			return wants("a list of node names")
		}
	}
	return problem{}
}
