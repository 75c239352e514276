package validate

import (
	"fmt"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// waiting is a wait queue and what it is for.
type waiting struct {
	queue *topology.Queue
	uses  []use
	// perMessage: each copy brings its own expiration.
	perMessage bool
}

// use is one delay that a wait queue serves.
type use struct {
	delay time.Duration
	work  *topology.Queue // nil when the wait queue itself names the delay
	at    topology.Position
}

// waitQueues lists the wait queues of the spec in its order.
func (p *Pass) waitQueues() []*waiting {
	var all []*waiting
	byName := map[string]*waiting{}
	get := func(name string) *waiting {
		q := p.index.Queues[name]
		if q == nil || isExternal(q) {
			return nil
		}
		if byName[name] == nil {
			byName[name] = &waiting{queue: q}
			all = append(all, byName[name])
		}
		return byName[name]
	}
	for _, q := range p.vhost.Queues {
		in := intent(q)
		if in.Role == topology.RoleWait {
			w := get(q.Name)
			for i, d := range in.Delays {
				if w != nil && (d.Queue == "" || d.Queue == q.Name) {
					w.uses = append(w.uses, use{delay: d.Delay, at: at(q, fmt.Sprintf("delays[%d]", i), "delays")})
				}
			}
		}
		if in.Retry == nil {
			continue
		}
		for i, name := range in.Retry.WaitQueues {
			w := get(name)
			if w == nil || i >= len(in.Retry.Delays) {
				continue
			}
			w.perMessage = w.perMessage || in.Retry.Mechanism == topology.MechanismPerMessage
			w.uses = append(w.uses, use{
				delay: in.Retry.Delays[i], work: q,
				at: at(q, fmt.Sprintf("retry.delays[%d]", i), "retry.delays", "retry"),
			})
		}
	}
	return all
}

// eachWaitQueue calls check for every wait queue, per version.
func (p *Pass) eachWaitQueue(name string, check func(w *waiting, v catalog.Version) problem) {
	for _, w := range p.waitQueues() {
		p.onVersions(w.queue, place(w.queue, name), func(v catalog.Version) problem { return check(w, v) })
	}
}

var waitQueueExpires = Rule{
	Code: "wait-queue-expires", Severity: diag.Error,
	Summary: "A wait queue is deleted when it is not used.",
	Doc: "Publishing is no use. When the queue expires it goes with its messages, and none is dead-lettered (measured). Of a queue " +
		"that no spec calls a wait queue it is a warning, where it expires before its messages do.",
	Fix: "Remove expires, or the policy that sets it.",
	Check: func(p *Pass) {
		p.eachWaitQueue("expires", func(w *waiting, v catalog.Version) problem {
			set := p.effective(w.queue, v)
			if !set.has("expires") {
				return problem{}
			}
			return problemf("the wait queue %q expires%s, and the waiting messages with it", w.queue.Name, set.from("expires"))
		})
		known := map[*topology.Queue]bool{}
		for _, w := range p.waitQueues() {
			known[w.queue] = true
		}
		for _, q := range p.ours() {
			if known[q] || accepted(q, "expired") {
				continue
			}
			p.onVersions(q, place(q, "expires"), func(v catalog.Version) problem {
				set := p.effective(q, v)
				expires, ok := set.number("expires")
				ttl, waits := set.number("message-ttl")
				if !ok || !waits || expires > ttl || !p.routed(q, v) {
					return problem{}
				}
				return problemf("queue %q expires after %d ms without use%s, before its messages do after %d ms: they are deleted with it and never dead-lettered",
					q.Name, expires, set.from("expires"), ttl).
					like("expire before their messages do: these are deleted with them and never dead-lettered").as(diag.Warning)
			})
		}
	},
}

var waitQueueBounded = Rule{
	Code: "wait-queue-bounded", Severity: diag.Error,
	Summary: "A wait queue has a maximum length and drops its oldest messages.",
	Doc: "A full queue with drop-head, which is the default, gives up the message that has waited longest: it goes back " +
		"before its time, or is lost.",
	Fix: "Remove the maximum, or set overflow to reject-publish: the consumer's copy is then refused and the message stays in the work queue.",
	Check: func(p *Pass) {
		p.eachWaitQueue("max-length", func(w *waiting, v catalog.Version) problem {
			set := p.effective(w.queue, v)
			for _, name := range []string{"max-length", "max-length-bytes"} {
				if overflow, _ := set.text("overflow"); set.has(name) && overflow != "reject-publish" {
					return problemf("the wait queue %q has %s%s and drops its oldest messages when it is full", w.queue.Name, name, set.from(name))
				}
			}
			return problem{}
		})
	},
}

var waitQueueWithoutTTL = Rule{
	Code: "wait-queue-without-ttl", Severity: diag.Error,
	Summary: "A wait queue has no message TTL.",
	Doc: "Nothing leaves it. Copies with an expiration of their own do, but a queue gives up messages from its head only: a " +
		"long delay holds up every shorter one behind it (measured, on quorum queues too).",
	Fix: "Give the queue a message_ttl, and each delay a queue of its own.",
	Check: func(p *Pass) {
		p.eachWaitQueue("message-ttl", func(w *waiting, v catalog.Version) problem {
			if w.perMessage || p.effective(w.queue, v).has("message-ttl") {
				return problem{}
			}
			return problemf("the wait queue %q has no message TTL: nothing leaves it", w.queue.Name)
		})
	},
}

var waitQueueTTLShorter = Rule{
	Code: "wait-queue-ttl-shorter", Severity: diag.Error,
	Summary: "A wait queue's message TTL is not the delay that it is used for.",
	Doc:     "The smaller of all TTLs wins: argument, policy, operator policy and the message's own expiration.",
	Fix:     "Set the TTL to the delay. A changed delay needs a new queue, as the argument is fixed.",
	Check: func(p *Pass) {
		p.eachWaitQueue("message-ttl", func(w *waiting, v catalog.Version) problem {
			set := p.effective(w.queue, v)
			ttl, ok := set.number("message-ttl")
			for _, u := range w.uses {
				want := u.delay.Milliseconds()
				switch {
				case !ok || want == ttl:
				case ttl < want:
					return problemf("the wait queue %q gives messages up after %d ms%s, before the delay of %s is over", w.queue.Name, ttl, set.from("message-ttl"), u.delay)
				case !w.perMessage:
					return problemf("the wait queue %q holds messages for %d ms%s, longer than the delay of %s", w.queue.Name, ttl, set.from("message-ttl"), u.delay).
						as(diag.Warning)
				}
			}
			return problem{}
		})
	},
}

var waitQueueWithoutReturn = Rule{
	Code: "wait-queue-without-return", Severity: diag.Error,
	Summary: "Messages do not come back from a wait queue to the work queue.",
	Doc:     "Where a message's TTL is over and no dead-letter route leads on, it is deleted; where the route leads elsewhere, it ends there.",
	Fix:     "Dead-letter the wait queue straight back: exchange \"\" and the work queue's name as routing key.",
	Check: func(p *Pass) {
		p.eachWaitQueue("dead-letter-exchange", func(w *waiting, v catalog.Version) problem {
			r := p.graph(v).DeadLetter(w.queue.Name)
			if r == nil {
				return problemf("the wait queue %q has no dead-letter route: messages are deleted when their time is over", w.queue.Name)
			}
			if !r.Fixed {
				return problem{} // the copies' own keys lead back
			}
			where, _ := p.graph(v).DeadLetters(w.queue.Name)
			for _, u := range w.uses {
				if u.work != nil && where.Target(u.work.Name) == nil && !where.Open {
					return problemf("messages do not come back from the wait queue %q to queue %q: its route leads to %s", w.queue.Name, u.work.Name, whereTo(where))
				}
			}
			return problem{}
		})
	},
}

func whereTo(r *flow.Reach) string {
	names := targets(r)
	if len(names) == 0 {
		return "no queue"
	}
	if len(names) > shownNames {
		return quoted(names[:shownNames], ",") + " and others"
	}
	return quoted(names, "and")
}

var mixedDelays = Rule{
	Code: "mixed-delays", Severity: diag.Error,
	Summary: "One wait queue serves several delays.",
	Doc: "A queue releases messages from its head only, classic and quorum alike: 300 ms behind 4 s came out after 4 s " +
		"(measured).",
	Fix: "Use one wait queue for each delay.",
	Check: func(p *Pass) {
		for _, w := range p.waitQueues() {
			for _, u := range w.uses {
				first := w.uses[0]
				if u.delay == first.delay {
					continue
				}
				b := problemf("the wait queue %q serves the delays %s and %s", w.queue.Name, first.delay, u.delay)
				b.related = related(first.at, "the other delay")
				p.report(w.queue, u.at, b)
				break
			}
		}
	},
}
