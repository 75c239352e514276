package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// judge blocks the changes of a virtual host that must not be made.
func (c *computation) judge(h *host) {
	for _, change := range c.plan.Changes {
		if change.Key.VirtualHost == h.name && (change.Action == Create || change.Action == Update) {
			c.checkSupport(h, change)
		}
	}
	c.judgeReplacements(h)
	steps := c.policySteps(h)
	c.judgePolicies(h, steps)
	for _, q := range h.desired.Queues {
		if q.Intent == nil || !q.Intent.External {
			c.judgeForeign(h, q)
			c.judgeLeft(h, q)
			c.judgeEffective(h, q)
		}
	}
	c.judgeHidden(h)
}

// step is one change of a policy, in plan order.
type step struct {
	change   *Change
	old, new *topology.Policy // old is nil for a new policy, new for a deleted one
	lossy    []string         // what queues would lose
	ignoring []string         // queues for which it would be ignored
	idle     []string         // the same, where nothing is lost by it
	holding  []string         // what holding queues would lose
	affected int
}

func (c *computation) policySteps(h *host) []*step {
	var steps []*step
	for _, change := range c.plan.Changes {
		after, _ := change.After.(*topology.Policy)
		before, _ := change.Before.(*topology.Policy)
		if after == nil && before == nil || change.Key.VirtualHost != h.name {
			continue
		}
		steps = append(steps, &step{change: change, old: before, new: after})
		change.Cost.SecondsEstimated = policySeconds(len(h.live.Queues), len(h.live.Policies)+len(steps))
	}
	return steps
}

// policySeconds is how long a broker is busy with one change of a policy: it
// matches every queue against every policy, about 2.5 microseconds each (measured
// on all three versions). Under a tenth of a second counts as nothing.
func policySeconds(queues, policies int) float64 {
	seconds := float64(queues) * float64(policies) * 2.5e-6
	if seconds < 0.1 {
		return 0
	}
	return seconds
}

// judgePolicies follows the policy changes one after another on every live queue
// and blocks those that would lose something there.
func (c *computation) judgePolicies(h *host, steps []*step) {
	at := map[*topology.Policy]int{}
	for i, s := range steps {
		for _, p := range []*topology.Policy{s.old, s.new} {
			if p != nil {
				at[p] = i
			}
		}
	}
	queues := append(slices.Clone(h.live.Queues), c.holdingQueues(h)...)
	slices.SortFunc(queues, func(a, b *topology.Queue) int { return strings.Compare(a.Name, b.Name) })
	undecided := map[*topology.Policy]bool{}
	for _, q := range queues {
		before, after := h.before.Candidates(q.Name, q.Type), h.after.Candidates(q.Name, q.Type)
		var touching []int
		for _, list := range [][]*topology.Policy{before.Policies, before.Operators, after.Policies, after.Operators} {
			for _, p := range list {
				if i, ok := at[p]; ok {
					touching = append(touching, i)
				}
			}
		}
		for _, p := range slices.Concat(before.Undecided, after.Undecided) {
			undecided[p] = true
		}
		if len(touching) == 0 {
			continue
		}
		slices.Sort(touching)
		w := walker{c: c, h: h, q: q, policies: before.Policies, operators: before.Operators}
		for _, i := range slices.Compact(touching) {
			s := steps[i]
			if d := h.leaving[q.Key()]; s.new == nil && d != nil && len(d.Blocked) == 0 {
				continue // the queue goes before
			}
			if h.have.Queues[q.Name] != nil { // not a holding queue to come
				s.affected++
			}
			w.take(s, slices.Contains(after.Policies, s.new) || slices.Contains(after.Operators, s.new))
		}
	}
	c.reportUndecided(h, undecided, at, steps)
	for _, s := range steps {
		c.blockStep(h, s)
	}
}

// walker follows the policies that match one live queue.
type walker struct {
	c                   *computation
	h                   *host
	q                   *topology.Queue
	policies, operators []*topology.Policy
}

func (w *walker) choose(policies, operators []*topology.Policy) policy.Match {
	m := policy.Choose(w.c.version, w.q.Type, policies)
	m.Operator = policy.Choose(w.c.version, w.q.Type, operators).Policy
	return m
}

// take tries a step on the queue and records what is lost; without a loss the
// queue's policies are then those after the step.
func (w *walker) take(s *step, matches bool) {
	if w.belongs(s) && w.c.replaced(w.h.name, w.q.Name) != nil {
		return // it is put with the new queue
	}
	list := w.policies
	operator := s.change.Key.Kind == topology.KindOperatorPolicy
	if operator {
		list = w.operators
	}
	changed := slices.DeleteFunc(slices.Clone(list), func(p *topology.Policy) bool { return p.Name == s.change.Key.Name })
	if matches {
		changed = append(changed, s.new)
		slices.SortFunc(changed, func(a, b *topology.Policy) int { return strings.Compare(a.Name, b.Name) })
	}
	policies, operators := w.policies, w.operators
	if operator {
		operators = changed
	} else {
		policies = changed
	}
	before, after := w.choose(w.policies, w.operators), w.choose(policies, operators)
	if matches && !policy.Supports(w.c.version, w.q.Type, s.new.Definition) {
		acted := s.old != nil && (before.Policy == s.old || before.Operator == s.old)
		if acted || w.belongs(s) {
			s.ignoring = append(s.ignoring, fmt.Sprintf("queue %q (%s)", w.q.Name, w.q.Type))
			return
		}
		s.idle = append(s.idle, fmt.Sprintf("queue %q (%s)", w.q.Name, w.q.Type))
	} else if w.belongs(s) {
		s.ignoring = append(s.ignoring, fmt.Sprintf("queue %q (%s)", w.q.Name, w.q.Type))
		return
	}
	losses := w.c.losses(w.q, w.h.after.Effective(w.q, before), w.h.after.Effective(w.q, after))
	if strings.HasPrefix(w.q.Name, topology.HoldPrefix) && len(losses) > 0 {
		s.holding = append(s.holding, fmt.Sprintf("%q: %s", w.q.Name, strings.Join(losses, ", ")))
		return
	}
	if len(losses) > 0 && !w.c.allows("lossy", w.q.Key(), s.change.Key) {
		if w.hasMessages() {
			s.lossy = append(s.lossy, fmt.Sprintf("%q%s: %s", w.q.Name, w.count(), strings.Join(losses, ", ")))
			return
		}
		s.change.NeedsEmpty = append(s.change.NeedsEmpty, w.q.Name)
	}
	w.policies, w.operators = policies, operators
}

// belongs reports whether the step is the generated policy of this queue while
// the queue waits for a replacement with another type.
func (w *walker) belongs(s *step) bool {
	if s.new == nil || s.new.Queue != w.q.Name {
		return false
	}
	want := w.h.want.Queues[w.q.Name]
	return want != nil && want.Type != w.q.Type
}

// hasMessages reports whether the queue holds messages, or may; it notes that the
// plan wants to know.
func (w *walker) hasMessages() bool {
	k := w.q.Key()
	if w.q.Type == topology.Stream { // streams are never empty unless said
		return true
	}
	counts, known := w.c.in.Counts[k]
	if !known && !w.c.in.Offline {
		w.c.wants[k] = true
	}
	return counts.Messages == nil || *counts.Messages > 0
}

func (w *walker) count() string {
	n := w.c.in.Counts[w.q.Key()].Messages
	switch {
	case w.q.Type == topology.Stream:
		return ""
	case n == nil:
		return " (number of messages unknown)"
	}
	return fmt.Sprintf(" (%s)", plural(int(*n), "message"))
}

func (c *computation) blockStep(h *host, s *step) {
	k := s.change.Key
	if s.affected > 0 {
		s.change.Reasons = append(s.change.Reasons, Reason{"queues-matched", fmt.Sprintf("it matches %s on the broker", plural(s.affected, "queue"))})
	}
	if len(s.holding) > 0 {
		s.change.block("holding-queue", fmt.Sprintf("write its pattern so that it does not match names that begin with %q, or make this change when the replacement is done", topology.HoldPrefix),
			"%s would take from what is held while a queue is replaced: %s", k, strings.Join(firstFew(s.holding), "; "))
	}
	if len(s.lossy) > 0 {
		s.change.block("lossy", fmt.Sprintf("empty the queues first, or allow it with --allow lossy=%s", k.Address()),
			"%s would lose messages of live queues: %s", k, strings.Join(firstFew(s.lossy), "; "))
	}
	if len(s.ignoring) > 0 {
		s.change.block("policy-ignored", "it goes with the replacement of the queue; or take the keys that the live type does not have out of it",
			"%s does not fit the live type of %s and would be without effect there", k, strings.Join(firstFew(s.ignoring), ", "))
	}
	if len(s.idle) > 0 {
		c.note(k, "policy-ignored", "it holds a key that their type does not have and is ignored as a whole for %s: %s",
			plural(len(s.idle), "queue"), strings.Join(firstFew(s.idle), ", "))
	}
}

// reportUndecided reports policies whose pattern cannot be decided; a change of
// one is blocked.
func (c *computation) reportUndecided(h *host, undecided map[*topology.Policy]bool, at map[*topology.Policy]int, steps []*step) {
	for _, p := range slices.Concat(h.live.Policies, h.live.OperatorPolicies, h.desired.Policies, h.desired.OperatorPolicies) {
		if !undecided[p] {
			continue
		}
		undecided[p] = false
		problem := h.after.Problem(p)
		if problem == "" {
			problem = h.before.Problem(p)
		}
		if i, ok := at[p]; ok {
			steps[i].change.block("pattern-undecided", "write the pattern in a simpler way",
				"it is unknown which queues %s matches: %s", p.Key(), problem)
			continue
		}
		c.warn(p, "pattern-undecided", fmt.Sprintf("it is unknown which queues %s matches: %s", p.Key(), problem),
			"the plan takes it for a policy that matches none; write its pattern in a simpler way")
	}
}

// losses compares the settings in effect on a live queue before and after a
// change and names what may cost messages.
func (c *computation) losses(q *topology.Queue, before, after map[string]policy.Value) []string {
	var found []string
	add := func(name string) {
		found = append(found, describe(Field{Name: name, Old: before[name].Value, New: after[name].Value}))
	}
	for _, name := range []string{"delivery-limit", "expires", "max-length", "max-length-bytes", "message-ttl"} {
		old, wasSet := number(before[name].Value)
		now, isSet := number(after[name].Value)
		if name == "delivery-limit" {
			wasSet, isSet = wasSet && old >= 0, isSet && now >= 0
		}
		if isSet && (!wasSet || now < old) {
			add(name)
		}
	}
	if old, now := ageOf(before), ageOf(after); now > 0 && (old == 0 || now < old) {
		add("max-age")
	}
	if exchange := before["dead-letter-exchange"].Value; exchange != nil {
		if !topology.Equal(exchange, after["dead-letter-exchange"].Value) {
			add("dead-letter-exchange")
		}
		if !topology.Equal(before["dead-letter-routing-key"].Value, after["dead-letter-routing-key"].Value) {
			add("dead-letter-routing-key")
		}
	}
	if rejects(q.Type, before) && !rejects(q.Type, after) {
		add("overflow")
	}
	if atLeastOnce(q.Type, before) && !atLeastOnce(q.Type, after) {
		found = append(found, "dead-lettering is no longer at-least-once")
	}
	return found
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// ageOf is the effective max-age of a stream in seconds; 0: none.
func ageOf(settings map[string]policy.Value) float64 {
	s, _ := settings["max-age"].Value.(string)
	d, err := catalog.ParseAge(s)
	if err != nil {
		return 0
	}
	return d.Seconds()
}

// rejects reports whether a full queue refuses new messages instead of dropping
// its oldest (reject-publish-dlx acts as drop-head on quorum queues).
func rejects(t topology.QueueType, settings map[string]policy.Value) bool {
	o := settings["overflow"].Value
	return o == "reject-publish" || o == "reject-publish-dlx" && t != topology.Quorum
}

// atLeastOnce reports whether dead-lettering is in effect at-least-once: that
// needs the strategy, overflow reject-publish and an exchange.
func atLeastOnce(t topology.QueueType, settings map[string]policy.Value) bool {
	return t == topology.Quorum && settings["dead-letter-strategy"].Value == "at-least-once" &&
		settings["overflow"].Value == "reject-publish" && settings["dead-letter-exchange"].Value != nil
}
