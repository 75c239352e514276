package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var upgradePolicyActs = Rule{
	Code: "upgrade-policy-acts", Severity: diag.Warning, Upgrade: true,
	Summary: "After the upgrade another policy acts on a queue, or none.",
	Doc: "A policy is in force for a queue as a whole or not at all, and which types know which keys changes between " +
		"versions: `ha-*` is gone from 4.0 on, where the broker refuses a policy with it; `max-in-memory-*` matches classic " +
		"queues before 4.0 only. The policy of the next lower priority then acts, with all that it says (measured: without " +
		"its ha-mode a policy that hid another one lets that act).",
	Fix: "Before the upgrade take the keys that go out of the policy, so that it goes on to act, and look at what the other " +
		"policy would do.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			t := p.typeOf(q)
			p.onUpgrade(q, q.Position, func(from, to catalog.Version) problem {
				before, after := p.match(q, from), p.match(q, to)
				ofPolicy, ofOperator := changedPolicy(before, after)
				// In a tie it is not defined which one acts.
				if ofPolicy && !before.Tie && !after.Tie && canExist(before.Policy, from) && canExist(after.Policy, from) {
					return upgradedPolicy(q, before.Policy, after.Policy, t, to)
				}
				if ofOperator && !before.OperatorTie && !after.OperatorTie && canExist(before.Operator, from) && canExist(after.Operator, from) {
					return upgradedPolicy(q, before.Operator, after.Operator, t, to)
				}
				return problem{}
			})
		}
	},
}

// canExist reports whether a version takes a policy: one that it refuses is not there
// before an upgrade. No policy can always be.
func canExist(p *topology.Policy, v catalog.Version) bool {
	if p == nil {
		return true
	}
	for key := range p.Definition {
		row := catalog.LookupPolicyKey(key)
		if row != nil && (!row.TakesPolicy(v) || p.Operator && !row.TakesOperatorPolicy(v)) {
			return false
		}
	}
	return p.ApplyTo == "" || slices.Contains(catalog.ApplyTo(v), p.ApplyTo)
}

// upgradedPolicy words that the policy that acts is another one after an upgrade.
func upgradedPolicy(q *topology.Queue, before, after *topology.Policy, t topology.QueueType, to catalog.Version) problem {
	why := ""
	if before != nil && !policy.Supports(to, t, before.Definition) {
		keys := list(unsupported(before, t, to), "and")
		why = fmt.Sprintf(" (%s is not for %s queues there)", keys, t)
		if !canExist(before, to) {
			why = fmt.Sprintf(" (it cannot have %s there)", keys)
		}
	}
	switch {
	case before == nil:
		return problemf("on RabbitMQ %s %s starts to act on queue %q: %s", to, policyName(after), q.Name, definition(after)).
			like("get %s on RabbitMQ %s, which starts to act: %s", policyName(after), to, definition(after))
	case after == nil:
		return problemf("on RabbitMQ %s %s no longer acts on queue %q%s: the queue loses %s", to, policyName(before), q.Name, why, definition(before)).
			like("lose %s on RabbitMQ %s%s: %s", policyName(before), to, why, definition(before))
	}
	return problemf("on RabbitMQ %s %s acts on queue %q in place of %s%s: %s", to, policyName(after), q.Name, policyName(before), why, definition(after)).
		like("get %s on RabbitMQ %s in place of %s%s: %s", policyName(after), to, policyName(before), why, definition(after))
}

// unsupported lists a policy's keys for which it does not act on a type of queues.
func unsupported(p *topology.Policy, t topology.QueueType, v catalog.Version) []string {
	var keys []string
	for _, key := range p.Definition.Keys() {
		if row := catalog.LookupPolicyKey(key); row != nil && !row.PolicyMatchesType(t, v) {
			keys = append(keys, key)
		}
	}
	return keys
}

// definition lists a policy's keys and values in one line.
func definition(p *topology.Policy) string {
	parts := make([]string, 0, len(p.Definition))
	for _, key := range p.Definition.Keys() {
		parts = append(parts, fmt.Sprintf("%s %s", key, topology.Text(p.Definition[key])))
	}
	return strings.Join(parts, ", ")
}

var upgradeMirroredQueue = Rule{
	Code: "upgrade-mirrored-queue", Severity: diag.Warning, Upgrade: true,
	Summary: "A classic queue is mirrored now; from 4.0 on no queue is.",
	Doc: "Mirroring of classic queues is gone in 4.0: a queue then lives on one node, and its messages with it. The broker " +
		"refuses policies with `ha-*` keys (400), and a definitions file with one as a whole (measured).",
	Fix: "Make it a quorum queue before the upgrade (`rabbitctl explain QUEUE` lists the steps), or accept that it lives on one " +
		"node, and take the ha- keys out of the policy.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			if p.typeOf(q) != topology.Classic {
				continue
			}
			p.onUpgrade(q, q.Position, func(from, to catalog.Version) problem {
				mode := p.effective(q, from)["ha-mode"]
				if mode.Policy == nil || p.effective(q, to).has("ha-mode") {
					return problem{}
				}
				return problemf("queue %q is mirrored by %s: from RabbitMQ 4.0 on it lives on one node", q.Name, policyName(mode.Policy)).
					like("are mirrored by %s: from RabbitMQ 4.0 on they live on one node", policyName(mode.Policy))
			})
		}
	},
}
