package ownership

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func key(kind topology.Kind, name string) topology.Key {
	return topology.Key{Kind: kind, VirtualHost: "shop", Name: name}
}

func stored(t *testing.T, r *Record) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRecordAsStored(t *testing.T) {
	r := &Record{
		Stack: "refunds", VirtualHost: "shop", Digest: "abc", Time: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Objects: map[topology.Key]State{
			key("queue", "b"): Owned, key("queue", "a"): Owned, key("exchange", "x"): Pending, key("vhost", ""): Owned,
		},
	}
	want := `{"format":1,"stack":"refunds","vhost":"shop","spec":"abc","time":"2026-05-04T03:02:01Z",` +
		`"owned":{"queue":["a","b"],"vhost":[""]},"pending":{"exchange":["x"]}}`
	if got := stored(t, r); got != want {
		t.Errorf("stored as\n%s\nwant\n%s", got, want)
	}
	back, err := Parse(r.Name(), []byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(back.Objects, r.Objects) || back.Stack != r.Stack || back.Digest != r.Digest || !back.Time.Equal(r.Time) {
		t.Errorf("read back: %+v", back)
	}
	if got := stored(t, &Record{Stack: "s", VirtualHost: "v"}); strings.Contains(got, "{}") {
		t.Errorf("an empty table, which RabbitMQ gives back as a list: %s", got)
	}
}

// TestNames: a record is found by its stack and virtual host, whatever these hold.
func TestNames(t *testing.T) {
	if got := Name("refunds", "/"); got != "rabbitctl:refunds:8a5edab28263" {
		t.Errorf("name %q", got)
	}
	seen := map[string]string{}
	for _, vhost := range []string{"", "/", "a:b", strings.Repeat("x", 255), "ü/%2f"} {
		name := Name("a.b-c_d", vhost)
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q have one record", vhost, other)
		}
		seen[name] = vhost
		if len(name) > 85 || strings.ContainsAny(name, "/% ") {
			t.Errorf("name %q", name)
		}
	}
}

// TestEditedRecords: what somebody has broken by hand is an error that says what is
// wrong, never an empty record.
func TestEditedRecords(t *testing.T) {
	name := Name("refunds", "shop")
	for text, want := range map[string]string{
		``: "no record", `null`: "format 0", `[]`: "no record", `"x"`: "no record", `{}`: "format 0", `{"format":1`: "no record",
		`{"format":2,"stack":"refunds","vhost":"shop"}`:                                       "a later rabbitctl",
		`{"format":"1","stack":"refunds","vhost":"shop"}`:                                     "no record",
		`{"format":1,"stack":"REFUNDS","vhost":"shop"}`:                                       "not the name of a stack",
		`{"format":1,"stack":"refunds","vhost":"other"}`:                                      "another name",
		`{"format":1,"stack":"other","vhost":"shop"}`:                                         "another name",
		`{"format":1,"stack":"refunds","vhost":"shop","time":"soon"}`:                         "not a time",
		`{"format":1,"stack":"refunds","vhost":"shop","owned":["queue"]}`:                     "tables of lists",
		`{"format":1,"stack":"refunds","vhost":"shop","owned":{"queue":"orders"}}`:            "tables of lists",
		`{"format":1,"stack":"refunds","vhost":"shop","pending":{"queue":[1]}}`:               "tables of lists",
		`{"format":1,"stack":"refunds","vhost":"shop","owned":{"queue":[{"name":"orders"}]}}`: "tables of lists",
	} {
		if _, err := Parse(name, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	// What RabbitMQ makes of empty tables, and kinds of a later version.
	r, err := Parse(name, []byte(`{"format":1,"stack":"refunds","vhost":"shop","owned":[],"pending":{"shard":["s"]},"more":1}`))
	if err != nil || len(r.Objects) != 1 {
		t.Errorf("%v %+v", err, r)
	}
}

func FuzzParse(f *testing.F) {
	name := Name("refunds", "shop")
	f.Add(`{"format":1,"stack":"refunds","vhost":"shop","owned":{"queue":["a"]},"pending":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := Parse(name, []byte(text)); err == nil {
			again, err := Parse(name, []byte(stored(t, r)))
			if err != nil || !SameObjects(r, again) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// TestMerge: the rules for what a run does to a record.
func TestMerge(t *testing.T) {
	a, b, c, d := key("queue", "a"), key("queue", "b"), key("queue", "c"), key("queue", "d")
	r := &Record{Objects: map[topology.Key]State{a: Owned, b: Pending, c: Owned}}
	got := r.With(Changes{Pending: []topology.Key{a, d}, Owned: []topology.Key{b}, Gone: []topology.Key{c}})
	if want := (map[topology.Key]State{a: Owned, b: Owned, d: Pending}); !maps.Equal(got.Objects, want) {
		t.Errorf("got %v, want %v", got.Objects, want)
	}
	if r.Objects[b] != Pending || len(r.Objects) != 3 {
		t.Errorf("the original changed: %v", r.Objects)
	}
	if SameObjects(r, got) || !SameObjects(r, r.With(Changes{})) || !SameObjects(nil, &Record{}) || SameObjects(nil, r) {
		t.Error("SameObjects")
	}
}

func parameters(records ...*Record) map[string]json.RawMessage {
	all := map[string]json.RawMessage{"cluster_name": json.RawMessage(`"rabbit"`), "rabbitctl:mine": json.RawMessage(`3`)}
	for _, r := range records {
		data, _ := json.Marshal(r)
		all[r.Name()] = data
	}
	return all
}

func TestView(t *testing.T) {
	ours, theirs, both, old := key("queue", "ours"), key("queue", "theirs"), key("queue", "both"), key("queue", "old")
	all := parameters(
		&Record{Stack: "s", VirtualHost: "shop", Objects: map[topology.Key]State{ours: Owned, both: Pending}},
		&Record{Stack: "t", VirtualHost: "shop", Objects: map[topology.Key]State{theirs: Owned, both: Owned}},
		&Record{Stack: "was", VirtualHost: "shop", Objects: map[topology.Key]State{old: Owned}},
		&Record{Stack: "s", VirtualHost: "other", Objects: map[topology.Key]State{{Kind: "queue", VirtualHost: "other", Name: "x"}: Owned}},
	)
	records := Read(all)
	v := records.View("s", "shop", nil)
	if v.Why != "" || !v.Owns(ours) || v.Owns(both) || v.Owns(theirs) || v.Owns(old) || v.Others[theirs] != "t" || v.Others[both] != "t" {
		t.Errorf("%+v", v)
	}
	if v := records.View("s", "shop", []string{"was"}); !v.Owns(old) || v.Others[old] != "" {
		t.Errorf("taken over: %+v", v)
	}
	if v := records.View("", "shop", nil); v.Why == "" || v.Others[ours] != "s" || v.Owns(ours) {
		t.Errorf("without a stack: %+v", v)
	}
	if list, broken := records.Stack("s"); len(list) != 2 || list[0].VirtualHost != "other" || len(broken) != 0 {
		t.Errorf("records of s: %v %v", list, broken)
	}
	// Broken, ours is not used; another's is told.
	all[Name("s", "shop")] = json.RawMessage(`{"format":1}`)
	records = Read(all)
	if v := records.View("s", "shop", nil); v.Why == "" || v.Owns(ours) {
		t.Errorf("broken: %+v", v)
	}
	if broken := records.BrokenHere("shop"); len(broken) != 1 || broken[Name("s", "shop")] == nil {
		t.Errorf("broken: %v", broken)
	}
	if _, broken := records.Stack("s"); len(broken) != 1 {
		t.Errorf("broken: %v", broken)
	}
	var none *View
	if none.Owns(ours) || Unavailable("s", "no right").Owns(ours) {
		t.Error("owned without a record")
	}
}

// TestSize: twenty thousand objects fit into what brokers take (5 MB on 3.10).
func TestSize(t *testing.T) {
	r := &Record{Stack: "s", VirtualHost: "shop", Objects: map[topology.Key]State{}}
	for i := range 5000 {
		name := fmt.Sprintf("some-team.orders.of-a-service-with-a-long-name.%d", i)
		for _, k := range []topology.Key{
			key("queue", name), key("queue", name+".dead"), key("policy", "rabbitctl:"+name),
			key("binding", "orders.events => queue "+name+" ["+name+"]"),
		} {
			r.Objects[k] = Owned
		}
	}
	if n := len(stored(t, r)); n > 2_000_000 {
		t.Errorf("%d bytes", n)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Record{Stack: rapid.StringMatching(`[a-z0-9._-]{1,60}`).Draw(t, "stack"), VirtualHost: rapid.String().Draw(t, "vhost"), Objects: map[topology.Key]State{}}
		for range rapid.IntRange(0, 9).Draw(t, "objects") {
			k := topology.Key{Kind: rapid.SampledFrom([]topology.Kind{"queue", "binding"}).Draw(t, "kind"), VirtualHost: r.VirtualHost, Name: rapid.String().Draw(t, "name")}
			r.Objects[k] = rapid.SampledFrom([]State{Owned, Pending}).Draw(t, "state")
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(r.Name(), data)
		if err != nil || !SameObjects(r, back) {
			t.Fatalf("%s: %v", data, err)
		}
	})
}
