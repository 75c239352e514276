package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func TestExchangeTables(t *testing.T) {
	for i, e := range ExchangeTypeTable {
		if i > 0 && ExchangeTypeTable[i-1].Name >= e.Name {
			t.Errorf("%s stands behind %s", e.Name, ExchangeTypeTable[i-1].Name)
		}
		if e.BuiltIn == nil && e.Plugin == "" || e.Doc == "" {
			t.Errorf("%s: nothing brings it, or no Doc", e.Name)
		}
		if got := LookupExchangeType(e.Name); got == nil || got.Name != e.Name {
			t.Errorf("%s is not found", e.Name)
		}
	}
	for i, a := range ExchangeArguments {
		if i > 0 && ExchangeArguments[i-1].Name >= a.Name {
			t.Errorf("%s stands behind %s", a.Name, ExchangeArguments[i-1].Name)
		}
		if a.Doc == "" || !strings.HasPrefix(a.URL, "https://") {
			t.Errorf("%s: Doc or URL", a.Name)
		}
		for _, typ := range a.Types {
			if LookupExchangeType(typ) == nil {
				t.Errorf("%s: unknown exchange type %s", a.Name, typ)
			}
		}
		if got := LookupExchangeArgument(a.Name); got == nil || got.Name != a.Name {
			t.Errorf("%s is not found", a.Name)
		}
	}
	if LookupExchangeType("bogus") != nil || LookupExchangeArgument("bogus") != nil {
		t.Error("something is found for bogus")
	}
}

func TestExchangeTypesByVersion(t *testing.T) {
	old := []string{"direct", "fanout", "headers", "topic"}
	if got := ExchangeTypes(V(3, 10)); !slices.Equal(got, old) {
		t.Errorf("3.10: %v", got)
	}
	if got := ExchangeTypes(V(4, 3)); !slices.Equal(got, append(old, "x-local-random", "x-modulus-hash")) {
		t.Errorf("4.3: %v", got)
	}
}

func TestApplyToType(t *testing.T) {
	for _, v := range Releases {
		for _, typ := range append([]topology.QueueType{""}, topology.QueueTypes...) {
			if got := ApplyToType(typ, v); !slices.Contains(ApplyTo(v), got) {
				t.Errorf("%s does not take %s", v, got)
			}
		}
	}
	if ApplyToType(stream, V(4, 0)) != "streams" || ApplyToType(stream, V(3, 11)) != "queues" || ApplyToType("", V(4, 0)) != "queues" {
		t.Error("ApplyToType")
	}
}
