package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Arguments are the optional arguments of a queue, exchange or binding, or the
// definition of a policy. Values are canonical: nil, bool, string, int64,
// float64, []any or map[string]any (see Canonical).
type Arguments map[string]any

// Keys are the names in sorted order.
func (a Arguments) Keys() []string { return slices.Sorted(maps.Keys(a)) }

// Clone copies the table; nested values are shared, they are never changed.
func (a Arguments) Clone() Arguments { return maps.Clone(a) }

// Equal compares two tables by value; nil and empty are equal.
func (a Arguments) Equal(b Arguments) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !Equal(v, w) {
			return false
		}
	}
	return true
}

// Canonical brings a decoded JSON, YAML or AMQP value to one form: integers of
// every width become int64, json.Number becomes int64 when it has an integral
// value and float64 otherwise (JSON does not tell 10 from 10.0, and neither
// does RabbitMQ's API), tables become map[string]any and lists []any.
func Canonical(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("the number %d does not fit into 64 bits with sign", v)
		}
		return int64(v), nil
	case uint:
		return Canonical(uint64(v))
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	case json.Number:
		return canonicalNumber(v)
	case []byte:
		return string(v), nil
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			c, err := Canonical(e)
			if err != nil {
				return nil, err
			}
			list[i] = c
		}
		return list, nil
	case Arguments:
		return Canonical(map[string]any(v))
	case map[string]any:
		table := make(map[string]any, len(v))
		for k, e := range v {
			c, err := Canonical(e)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", k, err)
			}
			table[k] = c
		}
		return table, nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be sent to RabbitMQ", v)
}

func canonicalNumber(n json.Number) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i, nil
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%q is not a number that can be represented", n.String())
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return int64(f), nil
	}
	return f, nil
}

// CanonicalArguments is Canonical for a whole table; an empty table is nil.
func CanonicalArguments(m map[string]any) (Arguments, error) {
	if len(m) == 0 {
		return nil, nil
	}
	v, err := Canonical(m)
	if err != nil {
		return nil, err
	}
	return Arguments(v.(map[string]any)), nil
}

// Equal compares canonical values. An integer equals a float of the same value,
// since JSON does not keep the difference; a string never equals a number.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			return float64(a) == b
		}
		return false
	case float64:
		switch b := b.(type) {
		case int64:
			return a == float64(b)
		case float64:
			return a == b || math.IsNaN(a) && math.IsNaN(b)
		}
		return false
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && Arguments(a).Equal(Arguments(b))
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// Text writes a canonical value for people and for sorting: strings quoted with
// control characters escaped, tables with sorted keys, numbers of equal value
// alike.
func Text(v any) string {
	var b strings.Builder
	writeText(&b, v)
	return b.String()
}

func writeText(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case string:
		b.WriteString(strconv.Quote(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			b.WriteString(strconv.FormatInt(int64(v), 10))
			return
		}
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			writeText(b, e)
		}
		b.WriteByte(']')
	case map[string]any:
		writeTable(b, v)
	case Arguments:
		writeTable(b, v)
	default:
		fmt.Fprint(b, v)
	}
}

func writeTable(b *strings.Builder, table map[string]any) {
	b.WriteByte('{')
	for i, k := range Arguments(table).Keys() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Quote(k))
		b.WriteString(": ")
		writeText(b, table[k])
	}
	b.WriteByte('}')
}
