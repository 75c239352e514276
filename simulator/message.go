package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// message is what was published; queues share it, so that it is never changed.
type message struct {
	number     uint64 // see Event.Message
	exchange   string
	keys       []string // the routing key, then those of CC
	blind      []string // those of BCC, which only the first exchange sees
	properties amqp091.Publishing
	// flow has the headers in canonical form, for routing.
	headers map[string]any
	deaths  []death // the newest first
	first   *origin // of the first death
	last    *origin
	// returns and acquired are counts that a dead message brings along into a quorum
	// queue: up to 4.2 they are only shown there. had says that a consumer had it.
	returns, acquired int
	had               bool
}

// death is one entry of x-death.
type death struct {
	flow.Death
	exchange   string
	keys       []string
	at         time.Time
	expiration string // that the message had; empty: none
}

// origin is where a message died.
type origin struct{ queue, reason, exchange string }

// newMessage is a message as a client publishes it. The error is the broker's.
func newMessage(v catalog.Version, exchange, key string, p amqp091.Publishing) (*message, error) {
	p.Headers = maps.Clone(p.Headers)
	p.Body = slices.Clone(p.Body)
	m := &message{exchange: exchange, keys: []string{key}, properties: p}
	if p.Expiration != "" {
		if text := badExpiration(p.Expiration); text != "" {
			return nil, exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - invalid expiration '%s': %s", p.Expiration, text)
		}
	}
	for _, h := range []struct {
		name string
		to   *[]string
	}{{"CC", &m.keys}, {"BCC", &m.blind}} {
		list, ok := p.Headers[h.name]
		if !ok {
			continue
		}
		keys, ok := texts(list)
		if !ok {
			return nil, exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - invalid '%s' header", h.name)
		}
		*h.to = append(*h.to, keys...)
	}
	delete(m.properties.Headers, "BCC")
	if v.Below(catalog.V(4, 0)) {
		// Up to 3.13 a client's own x-death counts on (measured).
		m.deaths = readDeaths(p.Headers["x-death"])
	}
	m.headers = canonical(m.properties.Headers)
	return m, nil
}

// badExpiration says what the broker has against an expiration; "": nothing.
func badExpiration(s string) string {
	digits := strings.TrimLeft(s, "0123456789")
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err == nil && n < 0:
		return fmt.Sprintf("{value_negative,%d}", n)
	case err == nil && n > 315360000000:
		return fmt.Sprintf("{value_too_large,%d}", n)
	case err == nil:
		return ""
	case digits != s && digits != "":
		return fmt.Sprintf("{leftover_string,%q}", digits)
	}
	return "no_integer"
}

// texts reads a list of texts.
func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, false
		}
	}
	return out, true
}

// readDeaths reads an x-death header that a client sent.
func readDeaths(v any) []death {
	list, _ := v.([]any)
	var all []death
	for _, e := range list {
		t, ok := e.(amqp091.Table)
		if !ok {
			continue
		}
		d := death{}
		d.Queue, _ = t["queue"].(string)
		reason, _ := t["reason"].(string)
		d.Cause = flow.Cause(reason)
		count, _ := topology.Canonical(t["count"])
		n, _ := count.(int64)
		d.Count = int(n)
		d.exchange, _ = t["exchange"].(string)
		d.keys, _ = texts(t["routing-keys"])
		d.at, _ = t["time"].(time.Time)
		d.expiration, _ = t["original-expiration"].(string)
		all = append(all, d)
	}
	return all
}

// canonical brings headers into the form in which bindings are matched. What has no
// such form is left out: no binding can ask for it.
func canonical(t amqp091.Table) map[string]any {
	out := make(map[string]any, len(t))
	for k, v := range t {
		if c, err := topology.Canonical(plain(v)); err == nil {
			out[k] = c
		}
	}
	return out
}

// plain turns AMQP tables into maps.
func plain(v any) any {
	switch v := v.(type) {
	case amqp091.Table:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case time.Time:
		return v.Unix()
	}
	return v
}

func (m *message) flow() flow.Message {
	out := flow.Message{Exchange: m.exchange, Keys: m.keys, Headers: m.headers}
	for _, d := range m.deaths {
		out.Deaths = append(out.Deaths, d.Death)
	}
	return out
}

// died is the message as a queue publishes it to its dead-letter exchange.
func (m *message) died(from *queue, cause flow.Cause, dead flow.Message, at time.Time) *message {
	now := *m
	now.exchange, now.keys, now.headers = dead.Exchange, dead.Keys, dead.Headers
	now.properties.Headers = maps.Clone(m.properties.Headers)
	if len(dead.Keys) != len(m.keys) && from.host.broker.version.Below(catalog.V(4, 0)) {
		delete(now.properties.Headers, "CC")
	}
	now.properties.Expiration = ""
	details := make(map[flow.Death]death, len(m.deaths))
	for _, d := range m.deaths {
		details[flow.Death{Queue: d.Queue, Cause: d.Cause}] = d
	}
	now.deaths = nil
	for _, d := range dead.Deaths {
		full, ok := details[flow.Death{Queue: d.Queue, Cause: d.Cause}]
		if !ok {
			full = death{exchange: m.exchange, keys: m.keys, at: at, expiration: m.properties.Expiration}
		}
		full.Death = d
		now.deaths = append(now.deaths, full)
	}
	here := &origin{from.name(), string(cause), m.exchange}
	if m.first == nil {
		now.first = here
	}
	now.last = here
	return &now
}

// deathHeaders adds what the broker writes of a message's deaths.
func (m *message) deathHeaders(v catalog.Version, h amqp091.Table) {
	if len(m.deaths) == 0 || m.last == nil && v.Below(catalog.V(4, 0)) {
		return
	}
	list := make([]any, len(m.deaths))
	for i, d := range m.deaths {
		keys := make([]any, len(d.keys))
		for j, k := range d.keys {
			keys[j] = k
		}
		t := amqp091.Table{
			"count": int64(d.Count), "exchange": d.exchange, "queue": d.Queue, "reason": string(d.Cause),
			"routing-keys": keys, "time": d.at.Truncate(time.Second),
		}
		if d.expiration != "" {
			t["original-expiration"] = d.expiration
		}
		list[i] = t
	}
	h["x-death"] = list
	write := func(prefix string, o *origin) {
		if o != nil {
			h[prefix+"-queue"], h[prefix+"-reason"], h[prefix+"-exchange"] = o.queue, o.reason, o.exchange
		}
	}
	write("x-first-death", m.first)
	if v.AtLeast(catalog.V(4, 0)) {
		write("x-last-death", m.last)
	}
}
