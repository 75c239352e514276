package flow

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Cause is why a message leaves a queue without being acknowledged. The first four
// are x-death's reasons, in RabbitMQ's spelling.
type Cause string

// The causes.
const (
	Rejected      Cause = "rejected"       // by a consumer, without requeue
	Expired       Cause = "expired"        // its TTL is over
	Overflow      Cause = "maxlen"         // the queue is full
	DeliveryLimit Cause = "delivery_limit" // it was returned too often
	QueueExpired  Cause = "queue-expired"  // the queue was not used for long and is deleted
	Deleted       Cause = "deleted"        // somebody deletes or purges the queue
)

// Outcome is what becomes of it.
type Outcome string

// The outcomes.
const (
	DeadLettered Outcome = "dead-lettered" // published to the dead-letter exchange
	Dropped      Outcome = "dropped"       // deleted without a trace
	Refused      Outcome = "refused"       // not taken in the first place: the publisher gets a nack
	Stays        Outcome = "stays"         // at-least-once, until the target can take it
)

// Fate is what happens to messages of a queue for one cause.
type Fate struct {
	Cause   Cause
	Outcome Outcome
	// Configured: the queue's own settings bring it about. Otherwise it takes a
	// client: one that rejects, sets an expiration, or deletes the queue.
	Configured bool
	// Reach and Lost are where dead letters go; nil and empty for other outcomes.
	Reach *Reach
	Lost  Lost
	// Cycle: the messages come back into queues that they left by themselves, and
	// the broker drops them there. They are among the targets in Reach.
	Cycle []string
}

// Causes lists in a fixed order for what causes a queue's settings can make it give
// up messages by itself.
func (s *queueState) causes() []Cause {
	var all []Cause
	if s.queued == topology.Stream {
		return nil
	}
	if _, ok := s.number("message-ttl"); ok {
		all = append(all, Expired)
	}
	if s.drops() {
		all = append(all, Overflow)
	}
	if limit, ok := s.number("delivery-limit"); ok && limit >= 0 && s.queued == topology.Quorum {
		all = append(all, DeliveryLimit)
	}
	return all
}

// bounded reports whether a queue has a maximum length.
func (s *queueState) bounded() bool {
	_, length := s.number("max-length")
	_, bytes := s.number("max-length-bytes")
	return length || bytes
}

// drops reports whether a full queue gives up messages that it had, or, with
// reject-publish-dlx, dead-letters the new one. Quorum queues take
// reject-publish-dlx for drop-head (measured).
func (s *queueState) drops() bool {
	overflow, _ := s.text("overflow")
	return s.bounded() && overflow != "reject-publish"
}

// Causes lists for what causes a queue's settings make it give up messages without
// any client's doing.
func (g *Graph) Causes(queue string) []Cause {
	if s := g.byName[queue]; s != nil {
		return s.causes()
	}
	return nil
}

// Fates lists what happens to messages of a queue at each way of failing. Of a
// stream nothing fails: it keeps what its age and size allow.
func (g *Graph) Fates(queue string) []Fate {
	s := g.byName[queue]
	if s == nil {
		return nil
	}
	if s.queued == topology.Stream {
		return []Fate{{Cause: Deleted, Outcome: Dropped}}
	}
	all := []Fate{g.fate(s, Rejected, false)}
	_, expires := s.number("message-ttl")
	all = append(all, g.fate(s, Expired, expires))
	if s.bounded() {
		switch overflow, _ := s.text("overflow"); {
		case overflow == "reject-publish":
			all = append(all, Fate{Cause: Overflow, Outcome: Refused, Configured: true})
		case overflow == "reject-publish-dlx" && s.queued == topology.Classic && s.route == nil:
			all = append(all, Fate{Cause: Overflow, Outcome: Refused, Configured: true})
		default:
			all = append(all, g.fate(s, Overflow, true))
		}
	}
	if limit, ok := s.number("delivery-limit"); ok && limit >= 0 && s.queued == topology.Quorum {
		all = append(all, g.fate(s, DeliveryLimit, true))
	}
	if _, ok := s.number("expires"); ok {
		all = append(all, Fate{Cause: QueueExpired, Outcome: Dropped, Configured: true})
	}
	return append(all, Fate{Cause: Deleted, Outcome: Dropped})
}

func (g *Graph) fate(s *queueState, c Cause, configured bool) Fate {
	f := Fate{Cause: c, Configured: configured, Outcome: Dropped, Lost: Lost{g.none, g.none}}
	if s.route == nil {
		return f
	}
	f.Outcome = DeadLettered
	f.Reach, f.Lost = g.DeadLetters(s.queue.Name)
	switch {
	case s.route.AtLeastOnce && (f.Reach.Missing || f.Reach.Nowhere()):
		f.Outcome = Stays
	case f.Reach.Missing || f.Reach.Nowhere():
		f.Outcome = Dropped
	}
	if c != Rejected {
		if f.Reach.Target(s.queue.Name) != nil {
			f.Cycle = append(f.Cycle, s.queue.Name)
		}
	}
	return f
}

// LimitLoses says how a target's delivery limit treats dead letters of a quorum
// queue: from 4.3 on a message brings the count of its deliveries along, so that
// one that comes with limit or more used up is lost on its first return (measured;
// 4.0 and 3.10 count anew). Carried is the largest count that it can come with; -1:
// no bound is known. Loses: a message can come used up.
func (g *Graph) LimitLoses(source, target string) (limit, carried int64, loses bool) {
	from, to := g.byName[source], g.byName[target]
	if from == nil || to == nil || to.queued != topology.Quorum || from.queued != topology.Quorum {
		return 0, 0, false
	}
	limit, limited := to.number("delivery-limit")
	if !limited || limit < 0 || g.version.Below(catalog.V(4, 3)) {
		return limit, 0, false
	}
	n, counts := from.number("delivery-limit")
	if !counts || n < 0 {
		return limit, -1, true
	}
	return limit, n + 1, n >= limit
}
