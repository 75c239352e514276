package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// carriers are the changes that give a desired queue its settings: its creation
// and its generated policy.
func (c *computation) carriers(h *host, q *topology.Queue) []*Change {
	var list []*Change
	if change := c.changes[q.Key()]; change != nil && change.Action == Create {
		list = append(list, change)
	}
	if g := h.generated[q.Name]; g != nil {
		if change := c.changes[g.Key()]; change != nil {
			list = append(list, change)
		}
	}
	return list
}

// judgeForeign looks for policies of others that come in the way of a queue's
// generated policy.
func (c *computation) judgeForeign(h *host, q *topology.Queue) {
	g := h.generated[q.Name]
	if g == nil {
		return
	}
	t := q.Type
	live := h.have.Queues[q.Name]
	if live != nil {
		t = live.Type
	}
	if !policy.Supports(c.version, t, g.Definition) || !policy.AppliesTo(g.ApplyTo, t) {
		return // it goes with the queue's replacement
	}
	before := h.before.Queue(q.Name, t).Policy
	for _, p := range h.after.Candidates(q.Name, t).Policies {
		if p.Name == g.Name || h.managed[p.Key()] || !policy.Supports(c.version, t, p.Definition) {
			continue
		}
		switch {
		case p.Priority >= g.Priority:
			c.foreignWins(h, q, g, p)
		case live != nil && before != nil && before.Name == g.Name, c.mayHide(q, p):
		default:
			c.hidesForeign(h, q, g, p)
		}
	}
}

// generatedPrefix begins the names of generated policies; the queue's follows.
const generatedPrefix = "rabbitctl:"

// settingsOf lists what a policy sets.
func settingsOf(p *topology.Policy) string {
	var settings []string
	for _, key := range p.Definition.Keys() {
		settings = append(settings, fmt.Sprintf("%s %s", text.Line(key), text.Line(topology.Text(p.Definition[key]))))
	}
	return strings.Join(settings, ", ")
}

// judgeLeft looks for the policy that an earlier spec had generated for a queue
// which now needs none. Where it is not deleted, as another stack's, it acts.
func (c *computation) judgeLeft(h *host, q *topology.Queue) {
	if h.generated[q.Name] != nil || !c.inPlan(q) {
		return
	}
	t := q.Type
	if live := h.have.Queues[q.Name]; live != nil {
		t = live.Type
	}
	p := h.after.Queue(q.Name, t).Policy
	if p == nil || p.Name != generatedPrefix+q.Name || len(p.Definition) == 0 {
		return
	}
	c.warn(q, "generated-policy-left",
		fmt.Sprintf("the policy %q of an earlier spec still gives queue %q settings that it no longer has: %s", p.Name, q.Name, settingsOf(p)),
		"declare them again, or delete the policy by hand when no message needs it")
}

func (c *computation) foreignWins(h *host, q *topology.Queue, g, foreign *topology.Policy) {
	how := fmt.Sprintf("with priority %d, as %q has; RabbitMQ then chooses in an undefined way", foreign.Priority, g.Name)
	if foreign.Priority > g.Priority {
		how = fmt.Sprintf("with priority %d, above the %d of %q, and wins", foreign.Priority, g.Priority, g.Name)
	}
	summary := fmt.Sprintf("the policy %q, which is not in the spec, matches queue %q %s", foreign.Name, q.Name, how)
	remedy := fmt.Sprintf("give the queue a policy_priority above %d, or take the queue out of the pattern of %q", foreign.Priority, foreign.Name)
	carriers := c.carriers(h, q)
	for _, change := range carriers {
		change.block("foreign-policy-wins", remedy, "%s", summary)
	}
	if len(carriers) == 0 && c.inPlan(q) {
		c.warn(q, "foreign-policy-wins", summary, remedy)
	}
}

// mayHide reports whether the queue says that its generated policy may hide the
// other one.
func (c *computation) mayHide(q *topology.Queue, foreign *topology.Policy) bool {
	return q.Intent != nil && (q.Intent.InheritPolicy || slices.Contains(q.Intent.HidesPolicy, foreign.Name))
}

func (c *computation) hidesForeign(h *host, q *topology.Queue, g, foreign *topology.Policy) {
	for _, change := range c.carriers(h, q) {
		change.block("hides-foreign-policy", fmt.Sprintf("say inherit_policy: true or hides_policy: [%q] on the queue", foreign.Name),
			"the policy %q, which is not in the spec, matches queue %q and would be hidden by %q: of several policies only the highest acts",
			foreign.Name, q.Name, g.Name)
	}
}

// critical are the settings of which a wrong value loses messages.
var critical = []string{"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "overflow"}

// judgeEffective compares what the spec declares for a queue with what will be in
// effect: arguments left over and policies of others may win.
func (c *computation) judgeEffective(h *host, q *topology.Queue) {
	if q.Intent == nil || len(q.Intent.Settings) == 0 || !c.inPlan(q) {
		return
	}
	actual := q
	if live := h.have.Queues[q.Name]; live != nil {
		actual = live
	}
	if actual.Type != q.Type {
		return // it is to be replaced, and nothing of it is as declared
	}
	m := h.after.Queue(q.Name, q.Type)
	effective := h.after.Effective(actual, m)
	if m.Tie && !h.isGenerated(m.Policy) {
		c.warn(q, "policy-tie", fmt.Sprintf("several policies of priority %d match %s; RabbitMQ chooses in an undefined way", m.Policy.Priority, q.Key()),
			"give them different priorities")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Intent.Settings)) {
		row := catalog.Lookup(name)
		if row == nil || !row.TakesArgument(q.Type, c.version) && !row.PolicyActsOn(q.Type, c.version) {
			continue // checkSupport speaks of it
		}
		if row.Effect == catalog.AtDeclaration && actual != q {
			continue // what a policy says now no longer matters
		}
		want, have := q.Intent.Settings[name].Value, effective[name]
		if c.sameSetting(row, q.Type, want, have.Value) {
			continue
		}
		c.differsInEffect(h, q, row, want, have)
	}
}

func (h *host) isGenerated(p *topology.Policy) bool {
	for _, g := range h.generated {
		if g.Name == p.Name {
			return true
		}
	}
	return false
}

func (c *computation) differsInEffect(h *host, q *topology.Queue, row *catalog.Setting, want any, have policy.Value) {
	source := string(have.Origin)
	if have.Policy != nil {
		source = fmt.Sprintf("%s %q", have.Origin, have.Policy.Name)
	}
	if have.Value == nil {
		source = "nothing sets it"
	} else {
		source = "by " + source
	}
	value := "absent"
	if have.Value != nil {
		value = text.Line(topology.Text(have.Value))
	}
	summary := fmt.Sprintf("%s of queue %q is declared as %s, in effect will be %s (%s)", row.Name, q.Name, text.Line(topology.Text(want)), value, source)
	if !slices.Contains(critical, row.Name) {
		c.note(q.Key(), "effective-value", "%s", summary)
		return
	}
	remedy := "declare the value that is in effect, or take away what sets it"
	carriers := c.carriers(h, q)
	for _, change := range carriers {
		change.block("effective-value", remedy, "%s", summary)
	}
	switch {
	case len(carriers) > 0:
	case c.changes[q.Key()] != nil: // its replacement says the rest
		c.note(q.Key(), "effective-value", "%s", summary)
	default:
		c.warn(q, "effective-value", summary, remedy)
	}
}

// inPlan reports whether a plan with targets is about the queue.
func (c *computation) inPlan(q *topology.Queue) bool {
	return c.wanted == nil || c.wanted[q.Key()] || c.changes[q.Key()] != nil
}
