package publisher

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// Message is what is published. It must not be changed until its result is known. The zero
// value of every field but Body is fine.
type Message struct {
	// ID is the property message_id. It should name the business event, and stay the
	// same when the message is published again: consumers tell doubles by it.
	ID   string
	Body []byte
	// Headers have values that AMQP knows: text, []byte, bool, integers, floats,
	// time.Time, nil, []any and map[string]any of these.
	Headers map[string]any

	ContentType, ContentEncoding, CorrelationID, ReplyTo, Type string
	Priority                                                   uint8
	// Timestamp has seconds; zero: now.
	Timestamp time.Time
	// Expiration is how long the message may wait in a queue, in whole milliseconds; 0:
	// as long as the queue says.
	Expiration time.Duration
	// Transient messages in classic queues do not survive a restart of the broker.
	Transient bool
	// Optional messages may find no queue: that is no error then. Others are published
	// mandatory.
	Optional bool
}

// longest is how long a name, a key and a short property may be, in bytes.
const longest = 255

// properties are the message on the wire; what cannot be sent is an error before
// anything is sent, since it would break the connection for the others.
func (p *Publisher) properties(exchange, key string, m Message) (amqp091.Publishing, error) {
	invalid := func(format string, args ...any) (amqp091.Publishing, error) {
		return amqp091.Publishing{}, &Invalid{p.at(exchange, key), fmt.Sprintf(format, args...)}
	}
	if p.options.requireID && m.ID == "" {
		return invalid("the message has no ID, which RequireMessageID asks for")
	}
	for _, short := range []struct{ what, value string }{
		{"the exchange's name", exchange},
		{"the routing key", key},
		{"ID", m.ID},
		{"ContentType", m.ContentType},
		{"ContentEncoding", m.ContentEncoding},
		{"CorrelationID", m.CorrelationID},
		{"ReplyTo", m.ReplyTo},
		{"Type", m.Type},
	} {
		if len(short.value) > longest {
			return invalid("%s has %d bytes, AMQP allows %d", short.what, len(short.value), longest)
		}
	}
	if m.Expiration < 0 || m.Expiration > 0 && m.Expiration < time.Millisecond {
		return invalid("Expiration %s: it is a number of milliseconds", m.Expiration)
	}
	headers := table(m.Headers)
	if err := headers.Validate(); err != nil {
		return invalid("headers: %v", err)
	}
	out := amqp091.Publishing{
		Headers: headers, Body: m.Body, MessageId: m.ID, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		CorrelationId: m.CorrelationID, ReplyTo: m.ReplyTo, Type: m.Type, AppId: p.options.appID, Priority: m.Priority,
		Timestamp: m.Timestamp, DeliveryMode: amqp091.Persistent,
	}
	if out.Timestamp.IsZero() {
		out.Timestamp = p.clock.Now()
	}
	if m.Transient {
		out.DeliveryMode = amqp091.Transient
	}
	if m.Expiration > 0 {
		out.Expiration = strconv.FormatInt(m.Expiration.Milliseconds(), 10)
	}
	return out, nil
}

// table is a map as the client wants it, with those inside.
func table(m map[string]any) amqp091.Table {
	if m == nil {
		return nil
	}
	all := make(amqp091.Table, len(m)+1) // one more for who adds a header
	for k, v := range m {
		all[k] = wireValue(v)
	}
	return all
}

func wireValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return table(v)
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = wireValue(e)
		}
		return all
	}
	return v
}
