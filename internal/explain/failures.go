package explain

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Failure is one way for messages to leave a queue without being acknowledged.
type Failure struct {
	// Cause is RabbitMQ's reason (rejected, expired, maxlen, delivery_limit), or
	// queue-expired, queue-deleted or purged, which never dead-letter.
	Cause string `json:"cause"`
	// When says in words when it happens on this queue.
	When string `json:"when"`
	// Happens is always where the queue's settings bring it about, client where it
	// takes one, never where nothing can.
	Happens string `json:"happens"`
	// Outcome is dead-lettered, dropped (deleted or lost), refused (the publisher gets
	// a nack), stays (at-least-once, until the target takes it) or none.
	Outcome string `json:"outcome"`
	// To are the queues that dead letters can come to; More counts those left out.
	To   []Target `json:"to"`
	More int      `json:"to_left_out"`
	// Text says in words what becomes of the message; empty where nothing can happen.
	Text string `json:"text"`
}

// Target is a queue that dead letters come to.
type Target struct {
	Queue string `json:"queue"`
	// Certain: nothing but the routing key decides it.
	Certain bool   `json:"certain"`
	By      string `json:"by"` // the way, in words
}

// The words of Failure.Happens.
const (
	always   = "always"
	byClient = "client"
	never    = "never"
)

// maxTargets bounds the targets listed for one cause.
const maxTargets = 8

// failures explains every way of failing of a queue (which causes dead-letter and
// which do not: measured on 3.10.8, 4.0.5 and 4.3.6).
func (e *Explainer) failures(q *topology.Queue, settings map[string]policy.Value) []Failure {
	if q.Type == topology.Stream {
		return []Failure{
			{Cause: "retention", When: "segments are older or larger than max-age and max-length-bytes allow", Happens: retention(settings), Outcome: "dropped", To: []Target{}, Text: "deleted: streams do not dead-letter"},
			{Cause: "queue-deleted", When: "somebody deletes the stream", Happens: byClient, Outcome: "dropped", To: []Target{}, Text: "all messages are deleted"},
		}
	}
	byCause := map[flow.Cause]flow.Fate{}
	for _, f := range e.graph.Fates(q.Name) {
		byCause[f.Cause] = f
	}
	all := []Failure{}
	for _, c := range []flow.Cause{flow.Rejected, flow.Expired, flow.Overflow, flow.DeliveryLimit} {
		f := Failure{Cause: string(c), To: []Target{}, Outcome: "none", Happens: never}
		f.When = when(c, q.Type, settings)
		if fate, ok := byCause[c]; ok {
			f.Happens = byClient
			if fate.Configured {
				f.Happens = always
			}
			e.outcome(&f, q, fate)
		}
		all = append(all, f)
	}
	expires := Failure{Cause: "queue-expired", To: []Target{}, Outcome: "none", Happens: never, When: "the queue has no expires"}
	if n, ok := number(settings, "expires"); ok {
		expires.When = fmt.Sprintf("nobody uses the queue for %s", duration(n))
		expires.Happens, expires.Outcome = always, "dropped"
		expires.Text = "deleted with the queue: queue expiry does not dead-letter"
	}
	return append(all, expires,
		Failure{Cause: "queue-deleted", When: "somebody deletes the queue", Happens: byClient, Outcome: "dropped", To: []Target{}, Text: "deleted with the queue: deleting does not dead-letter"},
		Failure{Cause: "purged", When: "somebody purges the queue", Happens: byClient, Outcome: "dropped", To: []Target{}, Text: "deleted: purging does not dead-letter"})
}

func retention(settings map[string]policy.Value) string {
	_, age := settings["max-age"]
	_, length := settings["max-length-bytes"]
	if age || length {
		return always
	}
	return never
}

// when says in words when a cause happens.
func when(c flow.Cause, t topology.QueueType, settings map[string]policy.Value) string {
	switch c {
	case flow.Rejected:
		return "a consumer rejects it without requeue (basic.reject, basic.nack)"
	case flow.Expired:
		if n, ok := number(settings, "message-ttl"); ok {
			return fmt.Sprintf("it is not taken within %s, or its own expiration if that is shorter", duration(n))
		}
		return "its own expiration is over; the queue has no message-ttl"
	case flow.Overflow:
		var bounds []string
		if n, ok := number(settings, "max-length"); ok {
			bounds = append(bounds, plural(n, "message"))
		}
		if n, ok := number(settings, "max-length-bytes"); ok {
			bounds = append(bounds, plural(n, "byte"))
		}
		if bounds == nil {
			return "the queue has no maximum length"
		}
		overflow, _ := settings["overflow"].Value.(string)
		if overflow == "" || overflow == "reject-publish-dlx" && t == topology.Quorum {
			overflow = "drop-head"
		}
		return fmt.Sprintf("the queue holds more than %s (%s)", strings.Join(bounds, " or "), overflow)
	case flow.DeliveryLimit:
		if n, ok := number(settings, "delivery-limit"); ok && n >= 0 && t == topology.Quorum {
			return fmt.Sprintf("it is returned %s", times(n+1))
		}
		return "the queue has no delivery limit"
	}
	return ""
}

// outcome fills in what becomes of messages.
func (e *Explainer) outcome(f *Failure, q *topology.Queue, fate flow.Fate) {
	f.Outcome = string(fate.Outcome)
	route := e.graph.DeadLetter(q.Name)
	switch {
	case fate.Outcome == flow.Refused:
		f.Text = "the new message is refused: the publisher gets a nack, if it uses confirms"
		return
	case route == nil:
		f.Text = "deleted: the queue has no dead-letter exchange"
		return
	}
	to := exchangeText(route.Exchange)
	if route.Fixed {
		to += fmt.Sprintf(" with the routing key %q", route.Key)
	} else {
		to += " with its own routing key"
	}
	var parts []string
	switch {
	case fate.Outcome == flow.Stays:
		parts = append(parts, fmt.Sprintf("published to %s, which leads to no queue: it stays here until it does (at-least-once)", to))
	case fate.Reach != nil && fate.Reach.Missing:
		parts = append(parts, fmt.Sprintf("lost: published to %s, which does not exist", to))
	case fate.Outcome == flow.Dropped:
		parts = append(parts, fmt.Sprintf("lost: published to %s, which leads to no queue", to))
	default:
		parts = append(parts, "dead-lettered to "+to)
		if lost := fate.Lost.Certain; lost != nil && !lost.Empty() {
			what := "lost"
			if route.AtLeastOnce {
				what = "kept here until a binding takes them"
			}
			parts = append(parts, fmt.Sprintf("messages with %s are %s: no binding takes them", e.keysText(lost), what))
		}
	}
	if fate.Reach != nil {
		for _, t := range fate.Reach.Targets {
			if len(f.To) >= maxTargets {
				f.More++
				continue
			}
			f.To = append(f.To, Target{Queue: t.Queue, Certain: !t.Certain.Empty(), By: pathText(t.Path())})
		}
		if fate.Reach.Open {
			parts = append(parts, "it may go elsewhere too: not all bindings on the way are known")
		}
	}
	if len(fate.Cycle) > 0 {
		parts = append(parts, "it comes back into the same queue, where the broker drops it")
	}
	f.Text = strings.Join(parts, "; ")
}

// pathText is a way through exchanges in words.
func pathText(path []flow.Step) string {
	steps := make([]string, 0, len(path))
	for _, s := range path {
		text := exchangeText(s.Exchange)
		switch {
		case s.Alternate:
			text += ", no binding takes it: its alternate exchange"
		case s.Binding != nil && s.Binding.RoutingKey != "" && len(s.Binding.Arguments) > 0:
			text += fmt.Sprintf(" by binding %q %s", s.Binding.RoutingKey, topology.Text(s.Binding.Arguments))
		case s.Binding != nil && s.Binding.RoutingKey != "":
			text += fmt.Sprintf(" by binding %q", s.Binding.RoutingKey)
		case s.Binding != nil && len(s.Binding.Arguments) > 0:
			text += " by binding " + topology.Text(s.Binding.Arguments)
		case s.Binding != nil:
			text += " by its binding"
		default:
			text += " by name"
		}
		steps = append(steps, text)
	}
	return strings.Join(steps, " -> ")
}

// Stage is a queue that dead letters come to, and how they leave it.
type Stage struct {
	Queue string `json:"queue"`
	Type  string `json:"type,omitempty"`
	// From are the queues whose dead letters come here; with Retry the queue whose
	// consumer publishes copies here.
	From     []string  `json:"from"`
	Retry    bool      `json:"retry"`
	Failures []Failure `json:"failures"` // those that can happen
}

// maxStages bounds the queues on the way of dead letters that are listed.
const maxStages = 20

// then follows dead letters from queue to queue, each once.
func (e *Explainer) then(name string) ([]Stage, int) {
	stages, left := []Stage{}, 0
	at := map[string]int{name: -1}
	next := []string{name}
	if q := e.index.Queues[name]; q.Intent != nil && q.Intent.Retry != nil {
		for _, wait := range q.Intent.Retry.WaitQueues {
			if _, seen := at[wait]; seen || len(stages) >= maxStages {
				continue
			}
			at[wait] = len(stages)
			stages = append(stages, Stage{Queue: wait, From: []string{name}, Retry: true, Failures: []Failure{}})
			next = append(next, wait)
		}
	}
	for len(next) > 0 {
		from := next[0]
		next = next[1:]
		for _, fate := range e.graph.Fates(from) {
			if fate.Reach == nil {
				continue
			}
			for _, t := range fate.Reach.Targets {
				i, seen := at[t.Queue]
				switch {
				case seen && i >= 0:
					if stages[i].From[len(stages[i].From)-1] != from {
						stages[i].From = append(stages[i].From, from)
					}
				case seen:
				case len(stages) >= maxStages:
					at[t.Queue] = -1
					left++
				default:
					at[t.Queue] = len(stages)
					stages = append(stages, Stage{Queue: t.Queue, From: []string{from}, Failures: []Failure{}})
					next = append(next, t.Queue)
				}
			}
		}
	}
	for i := range stages {
		raw := e.index.Queues[stages[i].Queue]
		if raw == nil {
			continue // it is there, and nothing more is known
		}
		q, _ := e.typed(raw)
		stages[i].Type = string(q.Type)
		for _, f := range e.failures(q, e.effective(q)) {
			if f.Happens == always || f.Cause == string(flow.Rejected) {
				stages[i].Failures = append(stages[i].Failures, f)
			}
		}
	}
	return stages, left
}

// Cycle is a circle of dead-letter routes that the queue is on.
type Cycle struct {
	Queues []string `json:"queues"`
	// Dropped: the broker ends it by deleting the message; otherwise it goes round
	// for as long as consumers reject it.
	Dropped bool   `json:"dropped"`
	Text    string `json:"text"`
}

func (e *Explainer) cycles(name string) []Cycle {
	all := []Cycle{}
	for _, c := range e.circles() {
		queues := c.Queues()
		hops := make([]string, 0, len(c.Hops)+1)
		on := false
		for _, h := range c.Hops {
			on = on || h.Queue == name
			text := fmt.Sprintf("%q", h.Queue)
			if len(h.Causes) > 0 && c.Dropped {
				causes := make([]string, len(h.Causes))
				for i, cause := range h.Causes {
					causes[i] = string(cause)
				}
				text += " (" + strings.Join(causes, ", ") + ")"
			}
			hops = append(hops, text)
		}
		if !on {
			continue
		}
		hops = append(hops, fmt.Sprintf("%q", c.Hops[0].Queue))
		text := strings.Join(hops, " -> ")
		if c.Dropped {
			text += ": the broker drops a message that comes back here without a consumer having rejected it on the way"
		} else {
			text += ": goes round for as long as a consumer rejects it; nothing on the broker ends it"
		}
		all = append(all, Cycle{queues, c.Dropped, text})
	}
	return all
}
