package consumer

import (
	"fmt"
	"time"
)

// Outcome is what a handler decides about a delivery. The zero Outcome is none: it
// counts as an error of the handler.
type Outcome struct {
	kind     outcomeKind
	delay    time.Duration
	category string
	err      error
}

type outcomeKind string

const (
	outcomeAck        outcomeKind = "ack"
	outcomeRetry      outcomeKind = "retry"
	outcomeRetryAfter outcomeKind = "retry-after"
	outcomeRetryLater outcomeKind = "retry-later"
	outcomeDrop       outcomeKind = "drop"
	outcomeDeadLetter outcomeKind = "dead-letter"

	// What adapters return; the policies of the consumer make one of the others of it.
	outcomeFailed      outcomeKind = "error"
	outcomeUndecodable outcomeKind = "undecodable"
	outcomePanicked    outcomeKind = "panic"
)

// Ack says that the work is done: the message leaves the queue (basic.ack of this one
// delivery). Return it only after the effect is durable.
func Ack() Outcome { return Outcome{kind: outcomeAck} }

// Retry gives the message to a consumer again, at once. A quorum queue counts it and
// ends it at the delivery limit (basic.reject with requeue; basic.nack would not be
// counted by RabbitMQ 4.3). On a classic queue with a cap a copy with a raised count
// is published to the end of the queue, and the copy after the last attempt goes to
// the dead-letter queue. On queues with a mechanism of their own for waiting
// (delayed-retry, reject-cycle) it waits as RetryLater does.
func Retry() Outcome { return Outcome{kind: outcomeRetry} }

// RetryAfter gives the message to a consumer again when the delay has passed. The
// delay must be one that the spec declares; else the next longer one is taken, or the
// longest, and Report tells. On a queue without delays the delivery is kept back
// unsettled until then: it holds a place of the prefetch, and goes back at once when
// the consumer stops. At the last attempt nothing waits: the message is given up.
func RetryAfter(d time.Duration) Outcome { return Outcome{kind: outcomeRetryAfter, delay: d} }

// RetryLater is RetryAfter with the delay that the spec gives this attempt: the i-th
// retry waits the i-th delay, the last one repeats. Without delays it is Retry.
func RetryLater() Outcome { return Outcome{kind: outcomeRetryLater} }

// Drop gives the message up, because no attempt will do better (basic.reject without
// requeue): it goes where the queue's dead-letter route leads, and is deleted when the
// queue has none. The reason, which may be nil, is logged; it does not travel with the
// message.
func Drop(reason error) Outcome { return Outcome{kind: outcomeDrop, err: reason} }

// DeadLetter publishes the message to the dead-letter queue, or to the queue of a
// category that the spec declares, with the reason in its headers
// (x-opt-dead-letter-category, -reason, -time, -by), and acknowledges it when the
// broker has confirmed the copy. It works on every queue type. The category may be
// empty.
func DeadLetter(category string, reason error) Outcome {
	return Outcome{kind: outcomeDeadLetter, category: category, err: reason}
}

// String names the outcome for logs, without its reason.
func (o Outcome) String() string {
	switch {
	case o.kind == "":
		return "none"
	case o.kind == outcomeRetryAfter:
		return fmt.Sprintf("retry after %s", o.delay)
	case o.kind == outcomeDeadLetter && o.category != "":
		return fmt.Sprintf("dead-letter %q", o.category)
	}
	return string(o.kind)
}

// IsAck reports whether the outcome is Ack.
func (o Outcome) IsAck() bool { return o.kind == outcomeAck }

// Reason is why the handler gave the message up or failed; nil: not said.
func (o Outcome) Reason() error { return o.err }

// Policy says what becomes of a delivery that the handler could not judge.
type Policy struct {
	stop    bool
	outcome Outcome
}

// FailFast stops the consumer: Run returns the error, the delivery is left unsettled
// and comes back to the queue.
func FailFast() Policy { return Policy{stop: true} }

// Settle settles the delivery with an outcome and goes on. Settle(Ack()) skips the
// message: it is gone unprocessed.
func Settle(o Outcome) Policy { return Policy{outcome: o} }
