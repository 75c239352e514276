package specs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Digest is the SHA-256 of what the virtual hosts say, in hexadecimal: places,
// comments and the order of keys make no difference. Every field counts, also
// those added later. It costs a quarter of Load and is computed at each call.
func (s *Spec) Digest() string {
	h := sha256.New()
	for _, v := range s.VirtualHosts {
		c := *v
		c.Exchanges = sorted(v.Exchanges, func(e *Exchange) string { return e.Name })
		c.Queues = sorted(v.Queues, func(q *Queue) string { return q.Name })
		c.Policies = sorted(v.Policies, func(p *topology.Policy) string { return p.Name })
		c.OperatorPolicies = sorted(v.OperatorPolicies, func(p *topology.Policy) string { return p.Name })
		c.Parameters = sorted(v.Parameters, func(p *topology.Parameter) string { return p.Component + "\x00" + p.Name })
		c.Permissions = sorted(v.Permissions, func(p *topology.Permission) string { return p.User })
		c.TopicPermissions = sorted(v.TopicPermissions, func(p *topology.TopicPermission) string { return p.User + "\x00" + p.Exchange })
		c.Publishers = sorted(v.Publishers, func(p *topology.Publisher) string { return p.Name })
		c.Consumers = sorted(v.Consumers, func(p *topology.Consumer) string { return p.Name })
		c.External = sorted(v.External, func(p topology.ExternalPattern) string { return p.Text })
		writeValue(h, reflect.ValueOf(c))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sorted[T any](list []T, key func(T) string) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	return list
}

// Values of these types say where something is written, not what. A constraint's
// text has its ranges beside it; a pattern's has its text.
var placeTypes = map[reflect.Type]bool{
	reflect.TypeFor[topology.Position]():            true,
	reflect.TypeFor[[]topology.Position]():          true,
	reflect.TypeFor[Places]():                       true,
	reflect.TypeFor[map[string]topology.Position](): true,
	reflect.TypeFor[*regexp.Regexp]():               true,
}

// writeValue writes a value so that different values give different text.
func writeValue(w io.Writer, v reflect.Value) {
	if !v.IsValid() {
		fmt.Fprint(w, "nil;")
		return
	}
	if placeTypes[v.Type()] {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			fmt.Fprint(w, "nil;")
			return
		}
		writeValue(w, v.Elem())
	case reflect.Struct:
		fmt.Fprint(w, "{")
		for i := range v.NumField() {
			if !v.Field(i).IsZero() { // a field that is added later keeps digests
				fmt.Fprint(w, v.Type().Field(i).Name, ":")
				writeValue(w, v.Field(i))
			}
		}
		fmt.Fprint(w, "}")
	case reflect.Slice:
		fmt.Fprint(w, "[")
		for i := range v.Len() {
			writeValue(w, v.Index(i))
		}
		fmt.Fprint(w, "]")
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		fmt.Fprint(w, "(")
		for _, k := range keys {
			fmt.Fprintf(w, "%q:", k.String())
			writeValue(w, v.MapIndex(k))
		}
		fmt.Fprint(w, ")")
	case reflect.String:
		fmt.Fprintf(w, "%q;", v.String())
	default:
		fmt.Fprintf(w, "%s %v;", v.Kind(), v.Interface())
	}
}
