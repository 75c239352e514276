package simulator

import "time"

// EventKind says what happened to a message.
type EventKind string

// The kinds of events.
const (
	EventPublished    EventKind = "published"     // to an exchange, by a client
	EventUnroutable   EventKind = "unroutable"    // no queue was there for it: it is gone
	EventQueued       EventKind = "queued"        // a queue took it
	EventRefused      EventKind = "refused"       // a full queue did not
	EventDelivered    EventKind = "delivered"     // to a consumer
	EventAcknowledged EventKind = "acknowledged"  // it left its queue
	EventRejected     EventKind = "rejected"      // without requeue
	EventReturned     EventKind = "returned"      // to its queue, by a consumer
	EventWaiting      EventKind = "waiting"       // for delayed retry, or for the target of an at-least-once dead letter
	EventDeadLettered EventKind = "dead-lettered" // it left its queue for where the route leads
	EventDeleted      EventKind = "deleted"       // it is gone from its queue and nowhere else
)

// Event is something that happened to a message.
type Event struct {
	At   time.Time
	Kind EventKind
	// Message numbers publishes by clients, from 1 on; dead letters keep the number.
	Message uint64
	ID      string // the property message_id
	// Exchange and RoutingKey are of published, unroutable and dead-lettered.
	Exchange, RoutingKey string
	// Queue is where it happened; empty for published and unroutable.
	Queue string
	// Reason is why: rejected, expired, maxlen or delivery_limit for dead letters, words
	// for what is deleted.
	Reason string
}

// Events calls f for everything that happens to messages, in order. It must not call the
// broker.
func Events(f func(Event)) Option {
	return func(b *Broker) error {
		b.events = f
		return nil
	}
}

func (b *Broker) tell(kind EventKind, m *message, queue, reason string) {
	if b.events == nil {
		return
	}
	e := Event{At: b.time.Now(), Kind: kind, Message: m.number, ID: m.properties.MessageId, Queue: queue, Reason: reason}
	if kind == EventPublished || kind == EventUnroutable || kind == EventDeadLettered {
		e.Exchange, e.RoutingKey = m.exchange, m.keys[0]
	}
	b.events(e)
}

func (q *queue) tell(kind EventKind, m *message, reason string) {
	q.host.broker.tell(kind, m, q.name(), reason)
}
