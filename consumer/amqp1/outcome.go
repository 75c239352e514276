package amqp1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// The annotations that Requeue and Discard set. In AMQP 0.9.1 they are headers of the same
// name.
const (
	RequeueReason   = "x-opt-requeue-reason"
	RequeueTime     = "x-opt-requeue-time" // milliseconds since 1970
	RequeuedBy      = "x-opt-requeued-by"
	RequeueHistory  = "x-opt-requeue-history" // a list of maps with reason, time and by, the newest last
	DeadLetterCause = "x-opt-dead-letter-reason"
	// DeadLetterCategory is the default header of categories in a spec.
	DeadLetterCategory = "x-opt-dead-letter-category"
	DeadLetterTime     = "x-opt-dead-letter-time"
	DeadLetteredBy     = "x-opt-dead-letter-by"
)

// Outcome is what a handler decides about a message. The zero Outcome is none: it counts as
// an error of the handler.
type Outcome struct {
	kind        kind
	annotations map[string]any
	uncounted   bool
	info        RequeueInfo
	err         error
}

type kind string

const (
	accept  kind = "accept"
	refuse  kind = "reject"
	release kind = "release"
	requeue kind = "requeue"
	discard kind = "discard"
	failed  kind = "error"
)

// Accept says that the work is done: the message leaves the queue (accepted).
func Accept() Outcome { return Outcome{kind: accept} }

// Reject gives the message up (rejected): it goes where the queue's dead-letter route
// leads, and is deleted without one. On RabbitMQ 4.3 it counts as a failed delivery.
func Reject(reason error) Outcome { return Outcome{kind: refuse, err: reason} }

// Release gives the message back as if it had not been delivered (released). RabbitMQ 4.0
// to 4.2 count it as a return all the same, 4.3 does not.
func Release() Outcome { return Outcome{kind: release} }

// RequeueInfo says why a message goes back.
type RequeueInfo struct {
	Reason string
	// By names the service; empty: the program's name, or what the option By says.
	By string
	// Annotations are set too. Their names begin with x-.
	Annotations map[string]any
}

// Requeue gives the message back as a failed delivery (modified, delivery-failed): it
// counts towards the delivery limit. The three annotations of RequeueInfo and the history
// are set. Quorum queues keep them in memory.
func Requeue(info RequeueInfo) Outcome {
	return Outcome{kind: requeue, info: info, annotations: info.Annotations}
}

// WithoutCounting makes a Requeue one that RabbitMQ 4.3 does not count. A message that
// always goes back so never ends; 4.0 to 4.2 count every requeue.
func (o Outcome) WithoutCounting() Outcome {
	o.uncounted = o.kind == requeue
	return o
}

// DeadLetterInfo says why a message is given up.
type DeadLetterInfo struct {
	// Category chooses the queue where the queue's dead-letter exchange is a headers
	// exchange with categories; empty: none.
	Category string
	Reason   string
	// By names the service; empty: the program's name, or what the option By says.
	By string
	// Annotations are set too. Their names begin with x-.
	Annotations map[string]any
}

// Discard dead-letters the message with annotations (modified, undeliverable-here). The
// broker's own reason in x-death stays "rejected". Without a dead-letter route the message
// is deleted.
func Discard(info DeadLetterInfo) Outcome {
	all := maps.Clone(info.Annotations)
	if all == nil {
		all = map[string]any{}
	}
	if info.Category != "" {
		all[DeadLetterCategory] = info.Category
	}
	if info.Reason != "" {
		all[DeadLetterCause] = info.Reason
	}
	return Outcome{kind: discard, annotations: all, info: RequeueInfo{By: info.By}}
}

// Failed is what handlers return that have an error: it is settled as OnError says.
func Failed(err error) Outcome { return Outcome{kind: failed, err: err} }

// annotated reports whether the outcome needs annotations to arrive.
func (o Outcome) annotated() bool { return o.kind == requeue || o.kind == discard }

// check refuses annotations that would break the link: the broker's session ends with an
// internal error where a key does not begin with x- (measured on 4.0.5 and 4.3.6), and
// every message of that link comes back.
func (o Outcome) check() error {
	for _, name := range slices.Sorted(maps.Keys(o.annotations)) {
		if !strings.HasPrefix(name, "x-") {
			return fmt.Errorf("the annotation %q does not begin with x-, as RabbitMQ needs it; x-opt- is the convention", name)
		}
	}
	return nil
}

// modification is the outcome on the wire.
func (o Outcome) modification(m *amqp.Message, by string, history int, category string, now time.Time) *amqp.ModifyMessageOptions {
	all := amqp.Annotations{}
	for name, v := range o.annotations {
		if name == DeadLetterCategory {
			name = category
		}
		all[name] = v
	}
	if o.info.By != "" {
		by = o.info.By
	}
	if o.kind == discard {
		all[DeadLetterTime], all[DeadLetteredBy] = now.UnixMilli(), by
		return &amqp.ModifyMessageOptions{UndeliverableHere: true, Annotations: all}
	}
	all[RequeueReason], all[RequeueTime], all[RequeuedBy] = o.info.Reason, now.UnixMilli(), by
	if history > 0 {
		past, _ := m.Annotations[RequeueHistory].([]any)
		past = append(slices.Clone(past), map[string]any{"reason": o.info.Reason, "time": now.UnixMilli(), "by": by})
		all[RequeueHistory] = past[max(0, len(past)-history):]
	}
	return &amqp.ModifyMessageOptions{DeliveryFailed: !o.uncounted, Annotations: all}
}
