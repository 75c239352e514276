package plan

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// drawOwned is draw with a record of who owns what on the live side.
func drawOwned(t *rapid.T) Input {
	in := draw(t)
	w := &world{t: t}
	view := &ownership.View{Stack: "s", Ours: map[topology.Key]ownership.State{}, Others: map[topology.Key]string{}}
	if v := in.Live.VirtualHost("v"); v != nil {
		for _, o := range v.Objects() {
			if w.chance(75, "ours") {
				view.Ours[o.Key()] = rapid.SampledFrom([]ownership.State{ownership.Owned, ownership.Pending}).Draw(t, "state")
			}
			if w.chance(5, "another's") {
				view.Others[o.Key()] = "other"
			}
		}
	}
	in.Owners = map[string]*ownership.View{"v": view}
	none := int64(0)
	for k, n := range in.Counts {
		in.Counts[k] = Counts{Messages: n.Messages, Consumers: &none}
	}
	return in
}

// TestOnlyOursIsDeleted: what is deleted is recorded as ours and nobody else's, is
// not in the spec, and nothing of others goes with it.
func TestOnlyOursIsDeleted(t *testing.T) {
	deletes := 0
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwned(t)
		p, _ := Compute(in)
		live := in.Live.VirtualHost("v")
		if live == nil {
			return
		}
		named := map[topology.Key]bool{}
		for _, o := range in.Desired.VirtualHost("v").Objects() {
			named[o.Key()] = true
		}
		gone := map[topology.Key]bool{}
		for _, c := range p.Changes {
			if c.Action != Delete || len(c.Blocked) > 0 {
				continue
			}
			deletes++
			gone[c.Key] = true
			if !in.Owners["v"].Owns(c.Key) || named[c.Key] {
				t.Fatalf("%s is deleted\n%s", c.Key, dump(in, p))
			}
		}
		then := Predict(in.Live, p).VirtualHost("v")
		left := map[topology.Key]bool{}
		for _, o := range then.Objects() {
			left[o.Key()] = true
		}
		for _, o := range live.Objects() {
			if k := o.Key(); !left[k] && !gone[k] {
				t.Fatalf("%s went with something\n%s", k, dump(in, p))
			}
		}
	})
	if deletes == 0 {
		t.Error("nothing was ever deleted")
	}
}

// TestNoRouteIsCutByDeletes: whatever deletes fail, dead letters and unroutable
// messages of what is there arrive as they did before the first delete, unless their
// route is part of a circle, which has to be cut somewhere.
func TestNoRouteIsCutByDeletes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwned(t)
		p, _ := Compute(in)
		live := in.Live.VirtualHost("v")
		if live == nil {
			return
		}
		then := normalLive(Predict(in.Live, &Plan{Changes: p.Changes, Routes: p.Routes}).VirtualHost("v"))
		whole := normalLive(predict(in.Live, p, func(c *Change) bool { return c.Action != Delete }).VirtualHost("v"))
		circle := circular(whole, in.Server.Version)
		var failed []string
		now := normalLive(predict(in.Live, p, func(c *Change) bool {
			fails := c.Action == Delete && rapid.IntRange(0, 4).Draw(t, "fails") == 0
			if fails {
				failed = append(failed, c.ID)
			}
			return !fails
		}).VirtualHost("v"))
		for _, v := range []*topology.VirtualHost{then, now} {
			set, before := matcher(v, in.Server.Version), matcher(whole, in.Server.Version)
			for _, q := range v.Queues {
				exchange, key, ok := routeOf(v, set, q)
				if !ok || circle[q.Name] || arrives(v, set, exchange, key, map[string]bool{}) {
					continue
				}
				was, wasKey, had := routeOf(whole, before, whole.Queue(q.Name))
				if had && arrives(whole, before, was, wasKey, map[string]bool{}) {
					t.Fatalf("queue %q dead-letters to %q, which leads nowhere; failed: %v\n%s", q.Name, exchange, failed, dump(in, p))
				}
			}
		}
	})
}

// TestDeletesComeLast: nothing is deleted before all else in its virtual host is
// done.
func TestDeletesComeLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawOwned(t)
		p, _ := Compute(in)
		last := slices.IndexFunc(p.Changes, func(c *Change) bool { return c.Action == Delete })
		if last < 0 {
			return
		}
		for _, c := range p.Changes[last:] {
			if c.Action != Delete {
				t.Fatalf("%s %s comes after a delete", c.Action, c.Key)
			}
		}
		if last == 0 {
			return
		}
		predict(in.Live, p, func(c *Change) bool {
			if c.Action == Delete {
				t.Fatalf("%s is deleted although %s failed", c.Key, p.Changes[0].Key)
			}
			return c != p.Changes[0]
		})
	})
}

// TestSavedOwnership: deletes, what is adopted and the stacks survive a saved plan; a
// stack's name that is none is refused.
func TestSavedOwnership(t *testing.T) {
	host := &topology.VirtualHost{Name: "v", Exchanges: []*topology.Exchange{
		{VirtualHost: "v", Name: "x", Type: "fanout", Durable: true}, {VirtualHost: "v", Name: "y", Type: "fanout", Durable: true},
	}}
	wanted := &topology.VirtualHost{Name: "v", Exchanges: host.Exchanges[:1]}
	view := &ownership.View{Stack: "s", Ours: map[topology.Key]ownership.State{host.Exchanges[1].Key(): ownership.Owned}}
	in := Input{
		Desired: &topology.Topology{VirtualHosts: []*topology.VirtualHost{wanted}},
		Live:    &topology.Topology{VirtualHosts: []*topology.VirtualHost{host}}, Server: Server{Version: versions[2]},
		Owners: map[string]*ownership.View{"v": view}, Allowed: []Consent{{Action: "adopt", Kind: topology.KindExchange, Name: "*"}},
	}
	p, _ := Compute(in)
	data, err := Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(saved.Changes) != 1 || saved.Changes[0].Action != Delete || len(saved.Adopt) != 1 || saved.Stacks["v"] != "s" {
		t.Fatalf("%s", data)
	}
	if moved := Moved(saved, in.Live, in.Owners); len(moved) != 0 {
		t.Errorf("moved: %v", moved)
	}
	for name, owners := range map[string]map[string]*ownership.View{
		"not read":  nil,
		"forgotten": {"v": {Stack: "s"}},
		"another's": {"v": {Stack: "s", Ours: view.Ours, Others: map[topology.Key]string{host.Exchanges[1].Key(): "t"}}},
	} {
		if moved := Moved(saved, in.Live, owners); len(moved) != 1 {
			t.Errorf("%s: moved %v", name, moved)
		}
	}
	if left := Remaining(saved, in.Live, in.Server); len(left.Changes) != 1 {
		t.Errorf("remaining: %v", left.Changes)
	}
	if left := Remaining(saved, Predict(in.Live, saved), in.Server); len(left.Changes) != 0 {
		t.Errorf("remaining after it: %v", left.Changes)
	}
	if _, err := Unmarshal([]byte(strings.Replace(string(data), `"v": "s"`, `"v": "S/"`, 1))); err == nil {
		t.Error("a stack's name that is none was taken")
	}
}
