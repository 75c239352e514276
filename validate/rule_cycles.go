package validate

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// eachCycle calls check for the circles of dead-letter routes over more than one
// queue, at the queue that at picks, per version. A queue that leads to itself is
// told by dead-letters-to-itself.
func (p *Pass) eachCycle(at func(c flow.Cycle) []*topology.Queue, check func(q *topology.Queue, c flow.Cycle, v catalog.Version) problem) {
	byQueue := map[*topology.Queue]map[catalog.Version]flow.Cycle{}
	for _, v := range p.versions {
		for _, c := range p.cycles(v) {
			if len(c.Hops) < 2 || p.meansToLose(c) {
				continue
			}
			for _, q := range at(c) {
				if byQueue[q] == nil {
					byQueue[q] = map[catalog.Version]flow.Cycle{}
				}
				if _, known := byQueue[q][v]; !known {
					byQueue[q][v] = c
				}
			}
		}
	}
	for _, q := range p.ours() {
		cycles := byQueue[q]
		if cycles == nil {
			continue
		}
		p.onVersions(q, routeAt(q), func(v catalog.Version) problem {
			c, ok := cycles[v]
			if !ok {
				return problem{}
			}
			b := check(q, c, v)
			if !c.Certain {
				b = b.as(diag.Warning) // a header, a hash or something unknown decides
			}
			return b
		})
	}
}

// meansToLose reports whether one of the queues on a circle accepts what it loses.
func (p *Pass) meansToLose(c flow.Cycle) bool {
	return slices.ContainsFunc(c.Hops, func(h flow.Hop) bool {
		q := p.index.Queues[h.Queue]
		return q != nil && slices.ContainsFunc(h.Causes, func(cause flow.Cause) bool {
			word := string(cause)
			if cause == flow.Overflow {
				word = "overflow"
			}
			return accepted(q, word)
		})
	})
}

// onlyByLimit lists the queues of a circle that only a delivery limit makes give up
// messages without a reject. Nobody returns messages to a wait queue.
func (p *Pass) onlyByLimit(c flow.Cycle) []*topology.Queue {
	var all []*topology.Queue
	for _, h := range c.Hops {
		q := p.index.Queues[h.Queue]
		if q != nil && role(q) != topology.RoleWait && len(h.Causes) == 1 && h.Causes[0] == flow.DeliveryLimit {
			all = append(all, q)
		}
	}
	return all
}

// way names the queues of a circle, from one on: "b", "c" and back.
func way(c flow.Cycle, from string) string {
	names := c.Queues()
	i := slices.Index(names, from)
	names = slices.Concat(names[i+1:], names[:i])
	if len(names) > shownNames {
		names = append(names[:shownNames:shownNames], fmt.Sprintf("%d more", len(names)-shownNames))
	}
	return quoted(names, "and")
}

// fate says what becomes of a message at the end of its round.
func fate(c flow.Cycle) string {
	if slices.ContainsFunc(c.Hops, func(h flow.Hop) bool { return h.AtLeastOnce }) {
		return "they stay for ever in the last queue before it, or are dropped"
	}
	return "they are dropped"
}

var limitIntoWaitQueue = Rule{
	Code: "limit-into-wait-queue", Severity: diag.Error,
	Summary: "A delivery limit sends messages into a wait queue that leads back to the same queue.",
	Doc: "When the wait is over the broker sees a cycle in which nobody rejected the message, and deletes it without a word " +
		"(measured on all versions). Only messages that a consumer rejects without requeue survive such a cycle.",
	Fix: "Set the delivery limit to unlimited and let the consumer count (`retry: {mechanism: reject-cycle, ...}`), or lead " +
		"the dead-letter route to a queue that keeps its messages.",
	Check: func(p *Pass) {
		p.eachCycle(func(c flow.Cycle) []*topology.Queue {
			if !c.Dropped {
				return nil
			}
			return p.onlyByLimit(c)
		}, func(q *topology.Queue, c flow.Cycle, v catalog.Version) problem {
			n, set, _ := p.limit(q, v)
			if !set {
				return problemf("queue %q dead-letters into %s, which leads back, and has the default delivery limit of %d: messages that reach it are deleted",
					q.Name, way(c, q.Name), n).as(diag.Warning)
			}
			return problemf("queue %q dead-letters into %s, which leads back, and has the delivery limit %d: messages that reach it are deleted", q.Name, way(c, q.Name), n)
		})
	},
}

var ttlCycleLoses = Rule{
	Code: "ttl-cycle-loses", Severity: diag.Error,
	Summary: "Messages go round from queue to queue without anybody rejecting them, and are dropped.",
	Doc: "Each queue gives messages up by itself, when their TTL is over or it is full, and its dead-letter route leads to the " +
		"next. The broker drops a message that would come back to a queue where it died before when no consumer has " +
		"rejected it in between. From a queue with at-least-once it does not leave any more, and stays there for ever (both " +
		"measured). A wait queue that a consumer publishes to is no cycle.",
	Fix: "Remove the TTL or the maximum length of one of the queues, or lead a route out of the circle.",
	Check: func(p *Pass) {
		p.eachCycle(func(c flow.Cycle) []*topology.Queue {
			if !c.Dropped || len(p.onlyByLimit(c)) > 0 {
				return nil
			}
			return p.firstOurs(c)
		}, func(q *topology.Queue, c flow.Cycle, _ catalog.Version) problem {
			b := problemf("messages that queue %q gives up by itself (%s) go through %s and back without a reject: %s", q.Name, causes(c, q.Name), way(c, q.Name), fate(c))
			b.related = p.places(c, q)
			return b
		})
	},
}

var rejectCycleWithoutCap = Rule{
	Code: "reject-cycle-without-cap", Severity: diag.Warning,
	Summary: "Rejected messages go round for ever, and nothing counts.",
	Doc: "The broker never drops a message that a consumer rejected on its way round (40 rounds measured). One that always " +
		"fails goes on for ever, unless the consumer counts and gives it up: the spec does not say that it does.",
	Fix: "Say so with `retry: {max_attempts: N, mechanism: reject-cycle, delays: [...]}`, and let the consumer look at x-death; " +
		"or lead the route of the work queue to a dead-letter queue.",
	Check: func(p *Pass) {
		p.eachCycle(func(c flow.Cycle) []*topology.Queue {
			if c.Dropped || slices.ContainsFunc(c.Hops, func(h flow.Hop) bool { return p.counts(h.Queue) }) {
				return nil
			}
			for _, h := range c.Hops {
				if q := p.index.Queues[h.Queue]; len(h.Causes) == 0 && q != nil {
					return []*topology.Queue{q}
				}
			}
			return nil
		}, func(q *topology.Queue, c flow.Cycle, _ catalog.Version) problem {
			return problemf("messages that a consumer of queue %q rejects come back through %s, and nothing says after how many times it gives up", q.Name, way(c, q.Name)).
				like("get back what their consumers reject, and nothing says after how many times they give up")
		})
	},
}

// counts reports whether the spec says that a queue's consumer gives up.
func (p *Pass) counts(queue string) bool {
	q := p.index.Queues[queue]
	return q != nil && intent(q).Retry != nil && intent(q).Retry.MaxAttempts > 0
}

// firstOurs is the first queue of a circle that the spec declares.
func (p *Pass) firstOurs(c flow.Cycle) []*topology.Queue {
	for _, h := range c.Hops {
		if q := p.index.Queues[h.Queue]; q != nil && !isExternal(q) {
			return []*topology.Queue{q}
		}
	}
	return nil
}

// causes says why a queue of a circle gives up messages by itself.
func causes(c flow.Cycle, queue string) string {
	words := map[flow.Cause]string{flow.Expired: "TTL", flow.Overflow: "maximum length", flow.DeliveryLimit: "delivery limit"}
	var all []string
	for _, h := range c.Hops {
		if h.Queue != queue {
			continue
		}
		for _, cause := range h.Causes {
			// Every quorum queue has a limit; it is of no interest beside another cause.
			if cause != flow.DeliveryLimit || len(h.Causes) == 1 {
				all = append(all, words[cause])
			}
		}
	}
	return list(all, "or")
}

// places are those of the other queues on a circle.
func (p *Pass) places(c flow.Cycle, first *topology.Queue) []diag.Related {
	var all []diag.Related
	for _, h := range c.Hops {
		if q := p.index.Queues[h.Queue]; q != nil && q != first && len(all) < shownNames {
			all = append(all, diag.Related{Position: routeAt(q), Text: fmt.Sprintf("the route of queue %q", q.Name)})
		}
	}
	return all
}
