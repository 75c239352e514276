package consumer

import (
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// queue is what is known of the queue that is consumed: from a spec, or from options.
type queue struct {
	name        string
	kind        topology.QueueType // "": not known
	countHeader string

	// maxAttempts counts deliveries, the first included; 0: no cap.
	maxAttempts int
	// dead is where the last copy goes; nil: nowhere.
	dead *target
	// dropIsLoss says that nothing is known to take what is rejected.
	dropIsLoss bool

	mechanism      mechanism
	delays         []time.Duration // ascending or not, as declared
	waits          []string        // the wait queue of each delay; one for perMessage
	exchange       string          // of delayedExchange
	immediate      int             // how many of the first RetryLater are Retry
	categoryTo     string          // the headers exchange of categories; "": none are declared
	categoryHeader string
	copyTo         string // where the copies of Retry go
	inProcess      bool   // RetryAfter without delays acknowledges first
}

// target is an exchange and a routing key.
type target struct {
	exchange, key string
	ownKey        bool // the key that the message was first published with
}

type mechanism = topology.Mechanism

const (
	waitQueue       = topology.MechanismWaitQueue
	rejectCycle     = topology.MechanismRejectCycle
	delayedRetry    = topology.MechanismDelayedRetry
	delayedExchange = topology.MechanismDelayedExchange
	perMessage      = topology.MechanismPerMessage
)

func (q *queue) quorum() bool { return q.kind == topology.Quorum }

// publishes reports whether any outcome may need a copy.
func (q *queue) publishes() bool {
	return q.inProcess || q.dead != nil || q.categoryTo != "" || len(q.waits) > 0 || q.exchange != "" || q.maxAttempts > 0 && !q.quorum()
}

// action is what is done with a delivery.
type action struct {
	verb verb
	copy *copyOf       // for publish
	wait time.Duration // before the verb is carried out, with the delivery unsettled
	// rounded is the delay that is waited in place of the one asked for.
	rounded time.Duration
	// err says why the outcome could not be done as asked.
	err error
}

type verb string

const (
	ack     verb = "ack"     // basic.ack
	requeue verb = "requeue" // basic.reject with requeue
	reject  verb = "reject"  // basic.reject without
	publish verb = "publish" // a copy, then basic.ack
	detach  verb = "detach"  // basic.ack, then a copy when its time has come
)

// copyOf describes a copy.
type copyOf struct {
	to    target
	count int // what the count header says
	dead  bool
	// headers go on top of the message's own.
	category, reason string
	withReason       bool
	expiration       time.Duration // per message; 0: none
	delay            time.Duration // of a delayed exchange; 0: none
}

// decide says what an outcome comes to. It knows nothing of policies: the outcome is one
// of Ack, Retry, RetryAfter, RetryLater, Drop and DeadLetter.
func (q *queue) decide(f facts, o Outcome) action {
	switch o.kind {
	case outcomeAck:
		return action{verb: ack}
	case outcomeDrop:
		if q.mechanism == rejectCycle { // a reject would come back
			return q.bury(f, o)
		}
		return action{verb: reject}
	case outcomeDeadLetter:
		return q.bury(f, o)
	}
	if q.last(f) {
		return q.giveUp(f)
	}
	switch q.mechanism {
	case delayedRetry:
		return action{verb: requeue, rounded: q.roundedNative(o)}
	case rejectCycle:
		return action{verb: reject}
	}
	delay := o.delay
	if o.kind == outcomeRetryLater {
		delay = q.rung(f)
	}
	if o.kind == outcomeRetry || delay <= 0 {
		return q.again(f)
	}
	if len(q.delays) == 0 && q.inProcess {
		return action{verb: detach, wait: delay, copy: &copyOf{to: target{key: q.name}, count: sum(f.spent(), 1)}}
	}
	if len(q.delays) == 0 {
		a := q.again(f)
		a.wait = delay
		return a
	}
	return q.later(f, delay)
}

// last reports whether no attempt is left after this one.
func (q *queue) last(f facts) bool { return q.maxAttempts > 0 && f.spent()+1 >= q.maxAttempts }

// giveUp is the end of the last attempt.
func (q *queue) giveUp(f facts) action {
	switch {
	case !q.quorum() || q.mechanism == rejectCycle:
		return q.bury(f, Outcome{})
	case f.copies > 0:
		// The broker counts a copy from the start: its limit alone would never end this.
		return action{verb: reject}
	}
	return action{verb: requeue} // which the delivery limit ends
}

// bury publishes the message to where it is looked after.
func (q *queue) bury(f facts, o Outcome) action {
	c := &copyOf{count: sum(f.spent(), 1), dead: true, category: o.category, withReason: o.kind == outcomeDeadLetter}
	if o.err != nil {
		c.reason, c.withReason = o.err.Error(), true
	}
	switch {
	case q.categoryTo != "" && o.kind == outcomeDeadLetter:
		c.to = target{exchange: q.categoryTo}
	case q.dead != nil:
		c.to = *q.dead
	case o.kind == outcomeDeadLetter:
		return action{verb: requeue, wait: pause, err: errNoDeadLetter}
	default:
		return action{verb: reject}
	}
	return action{verb: publish, copy: c}
}

// again is an attempt at once.
func (q *queue) again(f facts) action {
	if q.quorum() || q.maxAttempts == 0 {
		return action{verb: requeue}
	}
	return action{verb: publish, copy: &copyOf{to: target{key: q.copyTo}, count: sum(f.spent(), 1)}}
}

// later sends a copy where it waits.
func (q *queue) later(f facts, delay time.Duration) action {
	i := q.nearest(delay)
	a := action{verb: publish, copy: &copyOf{count: sum(f.spent(), 1)}}
	if q.delays[i] != delay {
		a.rounded = q.delays[i]
	}
	switch q.mechanism {
	case delayedExchange:
		a.copy.to = target{exchange: q.exchange, key: q.name}
		a.copy.delay = q.delays[i]
	case perMessage:
		a.copy.to = target{key: q.waits[0]}
		a.copy.expiration = q.delays[i]
	default:
		a.copy.to = target{key: q.waits[i]}
	}
	return a
}

// nearest is the shortest declared delay that is not under d, or the longest.
func (q *queue) nearest(d time.Duration) int {
	best := -1
	for i, declared := range q.delays {
		if declared >= d && (best < 0 || declared < q.delays[best]) {
			best = i
		}
	}
	if best < 0 {
		best = slices.Index(q.delays, slices.Max(q.delays))
	}
	return best
}

// rung is the delay of the attempt to come: 0 is none.
func (q *queue) rung(f facts) time.Duration {
	i := f.spent() - q.immediate
	if i < 0 || len(q.delays) == 0 {
		return 0
	}
	return q.delays[min(i, len(q.delays)-1)]
}

// roundedNative is the delay that RabbitMQ's own delayed retry waits, where another was
// asked for.
func (q *queue) roundedNative(o Outcome) time.Duration {
	if o.kind == outcomeRetryAfter && len(q.delays) > 0 && !slices.Contains(q.delays, o.delay) {
		return q.delays[q.nearest(o.delay)]
	}
	return 0
}

// overCap reports whether a message used its attempts up before this delivery, so that
// the handler must not see it: only the broker's count is to be trusted so far.
func (q *queue) overCap(f facts) bool {
	return q.quorum() && q.mechanism != rejectCycle && q.maxAttempts > 0 && f.spent() >= q.maxAttempts
}
