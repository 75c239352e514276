package consumer

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// Delivery is a message that a handler works on. Body and headers must not be changed
// and are the handler's until it returns.
type Delivery struct {
	Body []byte
	// Headers are those that the message arrived with, the broker's among them.
	Headers map[string]any
	// Exchange and RoutingKey are those it was last published with: after a wait
	// queue the default exchange, see Origin.
	Exchange, RoutingKey string
	// Redelivered says that it was delivered before, perhaps to a consumer that never
	// looked at it.
	Redelivered bool

	MessageID, CorrelationID, ReplyTo, Type, AppID string
	ContentType, ContentEncoding                   string
	Timestamp                                      time.Time // with seconds, zero: none
	Priority                                       uint8

	queue string
	raw   amqp091.Delivery
	facts facts
	trace context.Context // of its span
}

// Attempt is which attempt this is, from 1 on, by what is counted: copies by their
// header, returns of a quorum queue by the broker, rounds of a reject cycle by x-death.
// A classic queue counts neither crashes nor requeues.
func (d *Delivery) Attempt() int { return d.facts.spent() + 1 }

// RedeliveryCount is how often the broker counted a return of this message to its
// queue (x-delivery-count), 0 for the first delivery. It is known on quorum queues
// only, and where the type of the queue is not known once there was a return.
func (d *Delivery) RedeliveryCount() (n int, known bool) {
	return d.facts.returns, d.facts.returnsKnown
}

// AcquiredCount is how often the broker handed this message out before
// (x-acquired-count): RabbitMQ 4.3 counts so on quorum queues, also what it does not
// count as a failure. It is not known elsewhere.
func (d *Delivery) AcquiredCount() (n int, known bool) {
	v, ok := d.Headers["x-acquired-count"]
	if !ok {
		return 0, false
	}
	n, ok = count(v)
	return n, ok
}

// Origin is where the message was first published, for copies that waited; else
// Exchange and RoutingKey.
func (d *Delivery) Origin() (exchange, routingKey string) {
	e, hasExchange := d.Headers[headerOriginExchange].(string)
	k, hasKey := d.Headers[headerOriginKey].(string)
	if hasExchange && hasKey {
		return e, k
	}
	return d.Exchange, d.RoutingKey
}

// Death is one entry of the header x-death: that a message was dead-lettered from a
// queue for a reason.
type Death struct {
	Queue       string
	Reason      string // rejected, expired, maxlen or delivery_limit
	Count       int    // how often for this reason from this queue
	Exchange    string
	RoutingKeys []string
	Time        time.Time // of the first
}

// Deaths is the message's death history, the latest first. RabbitMQ 4.x begins a new one
// for what clients publish.
func (d *Delivery) Deaths() []Death { return deaths(d.Headers) }

func deaths(headers map[string]any) []Death {
	list, _ := headers["x-death"].([]any)
	var all []Death
	for _, e := range list {
		t, ok := e.(amqp091.Table)
		if !ok {
			continue
		}
		death := Death{}
		death.Queue, _ = t["queue"].(string)
		death.Reason, _ = t["reason"].(string)
		death.Exchange, _ = t["exchange"].(string)
		death.Time, _ = t["time"].(time.Time)
		death.Count, _ = count(t["count"])
		keys, _ := t["routing-keys"].([]any)
		for _, k := range keys {
			if k, ok := k.(string); ok {
				death.RoutingKeys = append(death.RoutingKeys, k)
			}
		}
		all = append(all, death)
	}
	return all
}

// facts are what is counted of a delivery.
type facts struct {
	copies       int // deliveries that copies stand for, by header
	returns      int
	returnsKnown bool
	cycle        bool // rejections are counted
	rounds       int
	// badCount is a count header that cannot be read, and counts as 0.
	badCount string
}

func (f facts) spent() int {
	if f.cycle {
		// Not the returns: from 4.0 on x-delivery-count goes round with the message and
		// counts each rejection once more (measured).
		return sum(f.copies, f.rounds)
	}
	return sum(f.copies, f.returns)
}

// sum adds counts, which may come from anybody.
func sum(a, b int) int {
	if a > math.MaxInt32 || b > math.MaxInt32 {
		return math.MaxInt32
	}
	return a + b
}

// read takes the counts from a delivery's headers.
func (q *queue) read(headers amqp091.Table) facts {
	var f facts
	for _, name := range slices.Compact([]string{q.countHeader, headerCount, "x-rabbitctl-retry-count", "x-ruststream-retry-count"}) {
		v, ok := headers[name]
		if !ok {
			continue
		}
		n, ok := count(v)
		if !ok {
			f.badCount = name
			continue
		}
		f.copies = max(f.copies, n)
	}
	returns, counted := count(headers["x-delivery-count"])
	if q.quorum() || q.kind == "" && counted {
		f.returns, f.returnsKnown = returns, true
	}
	if f.cycle = q.mechanism == rejectCycle; f.cycle {
		for _, d := range deaths(headers) {
			if d.Queue == q.name && d.Reason == "rejected" {
				f.rounds = sum(f.rounds, d.Count)
			}
		}
	}
	return f
}

// count reads a number that may be of any integer type or written as text.
func count(v any) (int, bool) {
	var n int64
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int8:
		n = int64(v)
	case int16:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	case uint8:
		n = int64(v)
	case uint16:
		n = int64(v)
	case uint32:
		n = int64(v)
	case uint64:
		n = int64(min(v, math.MaxInt32))
	case string:
		parsed, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			return 0, false
		}
		n = parsed
	default:
		return 0, false
	}
	if n < 0 {
		return 0, false
	}
	return int(min(n, math.MaxInt32)), true
}

func newDelivery(q *queue, raw amqp091.Delivery) *Delivery {
	return &Delivery{
		Body: raw.Body, Headers: raw.Headers, Exchange: raw.Exchange, RoutingKey: raw.RoutingKey, Redelivered: raw.Redelivered,
		MessageID: raw.MessageId, CorrelationID: raw.CorrelationId, ReplyTo: raw.ReplyTo, Type: raw.Type, AppID: raw.AppId,
		ContentType: raw.ContentType, ContentEncoding: raw.ContentEncoding, Timestamp: raw.Timestamp, Priority: raw.Priority,
		queue: q.name, raw: raw, facts: q.read(raw.Headers), trace: context.Background(),
	}
}
