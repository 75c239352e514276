package specs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var update = flag.Bool("update", false, "write golden files")

// load reads one text as the file t.yaml.
func load(text string) (*Spec, diag.List) {
	return Load(Input{Files: []File{{Name: "t.yaml", Data: []byte(text)}}})
}

// lines writes findings as "LINE:COLUMN CODE", the form of the tables below.
func lines(list diag.List) []string {
	var all []string
	for _, d := range list {
		all = append(all, fmt.Sprintf("%d:%d %s", d.Position.Line, d.Position.Column, d.Code))
	}
	return all
}

func texts(list diag.List) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%s: %s: %s: %s | %s\n", d.Position, d.Severity, d.Code, d.Summary, d.Detail)
		for _, r := range d.Related {
			fmt.Fprintf(&b, "  %s: %s\n", r.Position, r.Text)
		}
	}
	return b.String()
}

func testFile(t testing.TB, name string) File {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "specs", name))
	if err != nil {
		t.Fatal(err)
	}
	return File{Name: name, Data: data}
}

// TestGolden holds what is understood of whole specs, with all places.
func TestGolden(t *testing.T) {
	for _, name := range []string{"design", "complete"} {
		t.Run(name, func(t *testing.T) {
			spec, list := Load(Input{Files: []File{testFile(t, name+".yaml")}})
			if len(list) > 0 {
				t.Fatalf("findings:\n%s", texts(list))
			}
			var b strings.Builder
			dumpSpec(&b, "", reflect.ValueOf(spec.VirtualHosts))
			got := b.String()
			golden := filepath.Join("..", "testdata", "specs", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is understood differently from %s; run with -update and read the difference", name, golden)
			}
		})
	}
}

// dumpSpec writes what is not zero, one value a line.
func dumpSpec(b *strings.Builder, path string, v reflect.Value) {
	if !v.IsValid() || v.IsZero() {
		return
	}
	if m, ok := v.Interface().(fmt.Stringer); ok {
		fmt.Fprintf(b, "%s = %s\n", path, strings.TrimPrefix(m.String(), v.Type().String()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		dumpSpec(b, path, v.Elem())
	case reflect.Struct:
		if p, ok := v.Interface().(topology.Position); ok {
			fmt.Fprintf(b, "%s @ %d:%d\n", path, p.Line, p.Column)
			return
		}
		for i := range v.NumField() {
			dumpSpec(b, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			dumpSpec(b, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			dumpSpec(b, fmt.Sprintf("%s[%s]", path, k), v.MapIndex(k))
		}
	default:
		fmt.Fprintf(b, "%s = %#v\n", path, v.Interface())
	}
}
