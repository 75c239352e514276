package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// The entries of lists and of definitions files. Pointers tell absent from
// empty; definitions of one virtual host have no vhost.
type (
	queueEntry struct {
		Name       *string   `json:"name"`
		VHost      *string   `json:"vhost"`
		Type       string    `json:"type"`
		Durable    *flag     `json:"durable"`
		AutoDelete flag      `json:"auto_delete"`
		Exclusive  flag      `json:"exclusive"`
		Arguments  arguments `json:"arguments"`
	}
	exchangeEntry struct {
		Name       *string   `json:"name"`
		VHost      *string   `json:"vhost"`
		Type       string    `json:"type"`
		Durable    *flag     `json:"durable"`
		AutoDelete flag      `json:"auto_delete"`
		Internal   *flag     `json:"internal"`
		Arguments  arguments `json:"arguments"`
	}
	bindingEntry struct {
		Source          *string   `json:"source"`
		VHost           *string   `json:"vhost"`
		Destination     *string   `json:"destination"`
		DestinationType string    `json:"destination_type"`
		RoutingKey      *string   `json:"routing_key"`
		Arguments       arguments `json:"arguments"`
		PropertiesKey   string    `json:"properties_key"`
	}
	policyEntry struct {
		Name       *string     `json:"name"`
		VHost      *string     `json:"vhost"`
		Pattern    string      `json:"pattern"`
		ApplyTo    string      `json:"apply-to"`
		Priority   json.Number `json:"priority"`
		Definition arguments   `json:"definition"`
	}
	parameterEntry struct {
		Name      *string  `json:"name"`
		VHost     *string  `json:"vhost"`
		Component string   `json:"component"`
		Value     anything `json:"value"`
	}
	permissionEntry struct {
		User      *string `json:"user"`
		VHost     *string `json:"vhost"`
		Exchange  string  `json:"exchange"`
		Configure string  `json:"configure"`
		Write     string  `json:"write"`
		Read      string  `json:"read"`
	}
	vhostEntry struct {
		Name             *string        `json:"name"`
		Description      *string        `json:"description"`
		Tags             tags           `json:"tags"`
		DefaultQueueType string         `json:"default_queue_type"`
		Protected        *flag          `json:"protected_from_deletion"`
		Limits           limits         `json:"limits"`
		Metadata         *vhostMetadata `json:"metadata"`
	}
	vhostMetadata struct {
		Description      *string `json:"description"`
		Tags             tags    `json:"tags"`
		DefaultQueueType string  `json:"default_queue_type"`
		Protected        *flag   `json:"protected_from_deletion"`
	}
	limitsEntry struct {
		VHost string `json:"vhost"`
		Value limits `json:"value"`
	}
)

// complete: an entry without it is none of RabbitMQ's.
func (e queueEntry) complete() bool     { return e.Name != nil }
func (e exchangeEntry) complete() bool  { return e.Name != nil }
func (e bindingEntry) complete() bool   { return e.Source != nil && e.Destination != nil }
func (e policyEntry) complete() bool    { return e.Name != nil }
func (e parameterEntry) complete() bool { return e.Name != nil }

// arguments is a table in canonical form. The API writes an empty one as {} or
// [], definitions may leave it out.
type arguments topology.Arguments

func (a *arguments) UnmarshalJSON(b []byte) error {
	if table, ok := plainTable(b); ok {
		*a = table
		return nil
	}
	v, err := canonical(b)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*a = nil
	case []any:
		if len(v) > 0 {
			return fmt.Errorf("a list, not a table")
		}
		*a = nil
	case map[string]any:
		*a = nil
		if len(v) > 0 {
			*a = v
		}
	default:
		return fmt.Errorf("%s, not a table", topology.Text(v))
	}
	return nil
}

func (a arguments) table() topology.Arguments { return topology.Arguments(a) }

// anything is a canonical JSON value.
type anything struct{ value any }

func (a *anything) UnmarshalJSON(b []byte) (err error) {
	a.value, err = canonical(b)
	return err
}

func canonical(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return topology.Canonical(v)
}

// plainTable reads a table whose values are plain texts, short integers, true and
// false, which is what arguments nearly always are: a tenth of the time of canonical,
// in an answer of which arguments are the larger part. ok false: it is not so plain.
// b is JSON that has been checked.
func plainTable(b []byte) (table map[string]any, ok bool) {
	skip := func() {
		for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t' || b[0] == ',' || b[0] == ':') {
			b = b[1:]
		}
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	b = b[1:]
	for skip(); len(b) > 0 && b[0] != '}'; skip() {
		var key string
		if key, b, ok = plainText(b); !ok {
			return nil, false
		}
		skip()
		var v any
		switch {
		case bytes.HasPrefix(b, []byte("true")):
			v, b = true, b[4:]
		case bytes.HasPrefix(b, []byte("false")):
			v, b = false, b[5:]
		case len(b) > 0 && b[0] == '"':
			if v, b, ok = plainText(b); !ok {
				return nil, false
			}
		default:
			end := bytes.IndexAny(b, ",} \n\r\t")
			if end < 1 || end > 15 {
				return nil, false
			}
			n, err := strconv.ParseInt(string(b[:end]), 10, 64)
			if err != nil {
				return nil, false
			}
			v, b = n, b[end:]
		}
		if table == nil {
			table = make(map[string]any, 4)
		}
		table[key] = v
	}
	return table, true
}

// plainText reads a text of visible ASCII without escapes.
func plainText(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", nil, false
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return string(b[1:i]), b[i+1:], true
		case c == '\\' || c < ' ' || c >= 0x7f:
			return "", nil, false
		}
	}
	return "", nil, false
}

// tags is a list of texts or one text with commas.
type tags []string

func (t *tags) UnmarshalJSON(b []byte) error {
	var list []string
	if json.Unmarshal(b, &list) == nil {
		*t = list
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("neither a list of tags nor a text")
	}
	*t = tags{}
	for _, one := range strings.Split(s, ",") {
		if one = strings.TrimSpace(one); one != "" {
			*t = append(*t, one)
		}
	}
	return nil
}

// limits are max-connections and max-queues; none is {} or [].
type limits map[string]int64

func (l *limits) UnmarshalJSON(b []byte) error {
	var a arguments
	if err := a.UnmarshalJSON(b); err != nil {
		return err
	}
	*l = nil
	for k, v := range a {
		n, ok := v.(int64)
		if !ok {
			return fmt.Errorf("the limit %q is %s, not an integer", k, topology.Text(v))
		}
		if *l == nil {
			*l = limits{}
		}
		(*l)[k] = n
	}
	return nil
}
