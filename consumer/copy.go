package consumer

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rabbitmq/amqp091-go"
)

// Headers of copies. They have no x-: the broker and its clients treat those specially.
const (
	headerCount          = "rabbitctl-attempts"
	headerOriginQueue    = "rabbitctl-origin-queue"
	headerOriginExchange = "rabbitctl-origin-exchange"
	headerOriginKey      = "rabbitctl-origin-key"

	headerCategory = "x-opt-dead-letter-category"
	headerReason   = "x-opt-dead-letter-reason"
	headerTime     = "x-opt-dead-letter-time"
	headerBy       = "x-opt-dead-letter-by"
)

// notCopied are headers that would mean something else on a copy: counts of the broker,
// which 4.x shows again on the copy's first delivery, further routing keys, the delay of a
// delayed exchange, and the death history, by which 3.10 sees circles that are none and
// drops messages.
var notCopied = []string{
	"x-delivery-count", "x-acquired-count", "CC", "BCC", "x-delay",
	"x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
	"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason",
}

// maxReason bounds the reason in a header, in bytes: headers have to fit into one frame.
const maxReason = 1024

// build makes a copy: everything of the message but what belongs to this one delivery.
// foreign says that its user_id had to be left out: the broker refuses one that is not
// the connection's.
func (c *copyOf) build(q *queue, m amqp091.Delivery, user, by string, now time.Time) (out amqp091.Publishing, foreign bool) {
	headers := amqp091.Table{}
	maps.Copy(headers, m.Headers)
	for name := range headers {
		if slices.Contains(notCopied, name) {
			delete(headers, name)
		}
	}
	headers[q.countHeader] = strconv.Itoa(c.count)
	if _, copied := headers[headerOriginQueue]; !copied {
		headers[headerOriginQueue] = q.name
		headers[headerOriginExchange] = m.Exchange
		headers[headerOriginKey] = m.RoutingKey
	}
	if c.withReason {
		delete(headers, q.categoryHeader)
		if c.category != "" {
			headers[q.categoryHeader] = c.category
		}
		headers[headerReason] = cut(c.reason, maxReason)
		headers[headerTime] = now.UnixMilli()
		headers[headerBy] = by
	}
	out = amqp091.Publishing{
		Headers: headers, Body: m.Body, DeliveryMode: amqp091.Persistent,
		ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo,
		MessageId: m.MessageId, Type: m.Type, AppId: m.AppId, Timestamp: m.Timestamp, Priority: m.Priority,
	}
	if m.UserId == user {
		out.UserId = m.UserId
	} else {
		foreign = m.UserId != ""
	}
	if c.expiration > 0 {
		out.Expiration = strconv.FormatInt(c.expiration.Milliseconds(), 10)
	}
	if c.delay > 0 {
		headers["x-delay"] = c.delay.Milliseconds()
	}
	return out, foreign
}

// cut shortens a text to so many bytes of valid UTF-8.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
