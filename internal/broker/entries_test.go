package broker

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// The short way gives what the long one gives, or leaves it to that.
func FuzzPlainTable(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, ` { "a" : 1 , "b":"x","c":true, "d":false }`, `{"a":-1}`, `{"a":1.5}`, `{"a":1e3}`, `{"a":9007199254740993}`, `{"a":null}`,
		`{"a":"\u00fc"}`, `{"a":"ü"}`, `{"a":[1]}`, `{"a":{"b":1}}`, `{"a":1,"a":2}`, `{"":""}`, `{"a":"}"}`, `{"a":-0}`, "{\"a\":\"\x7f\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) {
			_, _ = plainTable(b) // no panic
			return
		}
		table, ok := plainTable(b)
		if !ok {
			return
		}
		want, err := canonical(b)
		if m, is := want.(map[string]any); err != nil || !is || len(m)+len(table) > 0 && !reflect.DeepEqual(m, table) {
			t.Errorf("%s: %v, want %v (%v)", b, topology.Text(table), topology.Text(want), err)
		}
	})
}
