package simulator

import (
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/flow"
)

// retryEvery is how often at-least-once tries again to deliver a dead letter
// (measured: the broker's default).
const retryEvery = 180 * time.Second

// bury gives a message up: it goes to the dead-letter exchange, or nowhere.
func (q *queue) bury(e *entry, cause flow.Cause) {
	if !q.settings.deadLetters {
		q.tell(EventDeleted, e.message, string(cause)+", and the queue has no dead-letter route")
		return
	}
	if q.settings.atLeastOnce {
		e.cause, e.waiting = cause, nil
		q.dying = append(q.dying, e)
		q.tryDying(e)
		return
	}
	m, targets, ok := q.deadLetter(e, cause)
	if !ok {
		q.tell(EventDeleted, e.message, string(cause)+", and its dead-letter route leads to no exchange, or round in a circle that the broker cuts")
		return
	}
	q.tell(EventDeadLettered, m, string(cause))
	there := false
	for _, name := range targets {
		if to := q.host.queues[name]; to != nil {
			there = to.publish(m, cause, false) || there
		}
	}
	if !there {
		q.tell(EventDeleted, m, string(cause)+", and no queue took the dead letter")
	}
	for _, name := range targets {
		if to := q.host.queues[name]; to != nil && to != q {
			to.run()
		}
	}
}

// deadLetter is the message as it is published to the dead-letter exchange, and the
// queues to which that leads.
func (q *queue) deadLetter(e *entry, cause flow.Cause) (*message, []string, bool) {
	dead, routing, _, ok := q.host.flow().Die(q.name(), cause, e.message.flow())
	if !ok {
		return nil, nil, false
	}
	m := e.message.died(q, cause, dead, q.now())
	m.had = e.delivered || e.message.had
	switch {
	case q.host.since(4, 3):
		m.returns, m.acquired = e.returns, e.brought+e.acquired
	case q.host.since(4, 0) && q.quorum() && cause == flow.Rejected:
		m.returns = e.shown + 1
	case q.host.since(4, 0) && q.quorum() && e.lost:
		m.returns = e.shown + e.returns // not where a consumer gave it back (measured)
	}
	return m, q.host.choose(routing), true
}

// tryDying publishes a dead letter that must arrive; what is not taken is tried again
// later.
func (q *queue) tryDying(e *entry) {
	m, targets, ok := q.deadLetter(e, e.cause)
	if !ok {
		return
	}
	if e.waiting != nil {
		targets = e.waiting
	}
	var left []string
	for _, name := range targets {
		if to := q.host.queues[name]; to == nil || !to.publish(m, e.cause, true) {
			left = append(left, name)
		}
	}
	if len(targets) > 0 && len(left) == 0 {
		q.tell(EventDeadLettered, m, string(e.cause))
		q.dying = slices.DeleteFunc(q.dying, func(x *entry) bool { return x == e })
	} else {
		e.waiting, e.release = left, q.now().Add(retryEvery)
		q.tell(EventWaiting, e.message, string(e.cause)+", and no queue takes the dead letter; it is kept (at-least-once)")
	}
	for _, name := range targets {
		if to := q.host.queues[name]; to != nil && to != q {
			to.run()
		}
	}
}

func (q *queue) retryDying() {
	for _, e := range slices.Clone(q.dying) {
		if !e.release.IsZero() && !e.release.After(q.now()) {
			q.tryDying(e)
		}
	}
}

// how is the way in which a delivery comes back or ends.
type how int

const (
	acked how = iota
	rejected
	nacked
	lost // the channel or connection closed
)

var howText = map[how]string{rejected: "rejected with requeue", nacked: "nacked with requeue", lost: "its channel closed"}

// settle ends a delivery.
func (q *queue) settle(e *entry, by how, requeue bool) {
	if q.gone || !q.unacked[e] {
		return
	}
	delete(q.unacked, e)
	switch {
	case by == acked:
		q.tell(EventAcknowledged, e.message, "")
	case !requeue:
		q.tell(EventRejected, e.message, "")
		if by == rejected && q.host.since(4, 3) {
			e.returns++
		}
		q.bury(e, flow.Rejected)
	case q.quorum():
		q.tell(EventReturned, e.message, howText[by])
		q.comeBack(e, by)
	default:
		q.tell(EventReturned, e.message, howText[by])
		e.redelivered = true
		if by != nacked {
			e.returns++ // shown, from 4.3 on, where it is dead-lettered to
		}
		q.insert(e)
	}
	q.run()
}

// comeBack returns a message to a quorum queue: it is counted, given up beyond the
// limit, or delayed.
func (q *queue) comeBack(e *entry, by how) {
	s := q.settings
	counts := by != nacked || !q.host.since(4, 3)
	if counts {
		e.returns++
	}
	e.redelivered, e.lost = true, by == lost
	// On 4.3 also where this return does not count: a message may have brought more returns
	// along than the limit allows (measured).
	if s.limit >= 0 && int64(e.returns) > s.limit {
		q.bury(e, flow.DeliveryLimit)
		return
	}
	if !q.host.since(4, 0) {
		// Up to 3.13 it goes behind the others (measured on 3.10.8).
		q.host.broker.position++
		e.position = q.host.broker.position
	}
	failed := counts
	if s.retryType == "all" || s.retryType == "failed" && failed || s.retryType == "returned" && !failed {
		wait := s.retryMin
		if failed {
			wait = min(s.retryMin*time.Duration(e.returns), s.retryMax)
		}
		e.release = q.now().Add(wait)
		q.delayed = append(q.delayed, e)
		q.tell(EventWaiting, e.message, "for "+wait.String()+" (delayed retry)")
		return
	}
	q.insert(e)
}

func (q *queue) releaseDelayed() {
	q.delayed = slices.DeleteFunc(q.delayed, func(e *entry) bool {
		if e.release.After(q.now()) {
			return false
		}
		e.release = time.Time{}
		q.insert(e)
		return true
	})
}
