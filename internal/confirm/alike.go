package confirm

import (
	"bytes"
	"reflect"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// alike says how well a returned message fits one that was sent, from 1 on.
func alike(m amqp091.Publishing, r amqp091.Return) int {
	score := 1
	for _, same := range []bool{
		bytes.Equal(m.Body, r.Body),
		m.MessageId == r.MessageId,
		m.CorrelationId == r.CorrelationId,
		m.Type == r.Type && m.AppId == r.AppId && m.ReplyTo == r.ReplyTo && m.UserId == r.UserId,
		m.ContentType == r.ContentType && m.ContentEncoding == r.ContentEncoding,
		m.DeliveryMode == r.DeliveryMode && m.Priority == r.Priority && m.Expiration == r.Expiration,
		m.Timestamp.Unix() == r.Timestamp.Unix(),
		len(m.Headers) == len(r.Headers) && reflect.DeepEqual(plain(m.Headers), plain(r.Headers)),
	} {
		if same {
			score++
		}
	}
	return score
}

// plain brings a header value to one form before and after it was on the wire,
// which does not keep every type.
func plain(v any) any {
	switch v := v.(type) {
	case amqp091.Table:
		all := make(map[string]any, len(v))
		for k, e := range v {
			all[k] = plain(e)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = plain(e)
		}
		return all
	case time.Time:
		return v.Unix()
	case amqp091.Decimal, nil:
		return v
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return int64(r.Uint())
	case reflect.Float32, reflect.Float64:
		return r.Float()
	}
	return v
}
