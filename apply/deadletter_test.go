package apply

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// breakage is how a run is disturbed at one of its changes.
type breakage struct {
	name string
	set  func(b *fakeBroker, id string)
}

var breakages = []breakage{
	{"refused", func(b *fakeBroker, id string) {
		b.faults = func(call string, _ int) error {
			if call == id {
				return errRefused
			}
			return nil
		}
	}},
	{"connection broken for good", func(b *fakeBroker, id string) {
		b.breaks = func(call string, _ int) bool { return call == id }
	}},
	{"nothing works from there on", func(b *fakeBroker, id string) {
		down := false
		b.faults = func(call string, _ int) error {
			if down = down || call == id; down {
				return errDown
			}
			return nil
		}
	}},
}

// disturbance is a run that breaks at a change, and a second one.
type disturbance struct {
	desired  *topology.Topology
	before   map[topology.Key]topology.Object
	version  catalog.Version
	at       string
	how      breakage
	parallel int
	gaps     bool // look for gaps
}

// run carries a disturbance out and says what is wrong. After every single change
// of the broker no queue may have a dead-letter route with a gap, unless it had
// it before.
func (d disturbance) run(t *testing.T) (problem string) {
	r := routesOf(d.desired, d.version)
	old := r.deadEnds(d.before)
	wrong := func(format string, args ...any) {
		if problem == "" {
			problem = fmt.Sprintf("%s at %s: ", d.how.name, d.at) + fmt.Sprintf(format, args...)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newFake()
		maps.Copy(b.objects, d.before)
		b.observe = func(objects map[topology.Key]topology.Object) {
			ends := r.deadEnds(objects)
			for _, q := range slices.Sorted(maps.Keys(ends)) {
				if d.gaps && old[q] == "" {
					wrong("%s", ends[q])
				}
			}
		}
		again := func() *plan.Plan {
			return planFor(d.desired, liveOf(d.desired.VirtualHosts[0].Name, b.objects), d.version)
		}
		d.how.set(b, d.at)
		res, err := Run(t.Context(), again(), b, Options{Parallel: d.parallel})
		if err != nil {
			wrong("%v", err)
			return
		}
		if len(res.Failed) == 0 {
			wrong("nothing failed")
		}
		// What is left must be exactly what the result says, and a second run must
		// finish it.
		b.faults, b.breaks = nil, nil
		after := again()
		if rest := Verify(res, after); rest != nil {
			wrong("%s is left and not accounted for", rest[0].Key)
		}
		if res, err = Run(t.Context(), after, b, Options{Parallel: d.parallel}); err != nil || res.Status() != Complete {
			wrong("second run: %v, %+v", err, res)
		}
		if last := again(); !last.Empty() {
			wrong("after two runs: %s %s", last.Changes[0].Action, last.Changes[0].Key)
		}
	})
	return problem
}

// Row A36, on every example and at every step of its plan.
func TestExamplesBrokenAtEveryStep(t *testing.T) {
	for _, e := range examples.List {
		text, err := fs.ReadFile(examples.FS, e.File)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []catalog.Version{catalog.V(3, 10), catalog.V(4, 0), catalog.V(4, 3)} {
			t.Run(e.Name+" "+v.String(), func(t *testing.T) {
				desired := mustExpand(t, string(text), v)
				p := planFor(desired, liveOf(desired.VirtualHosts[0].Name, nil), v)
				if p.Empty() || p.BlockedChanges() != nil {
					t.Fatalf("%d changes, blocked: %v", len(p.Changes), p.BlockedChanges())
				}
				for _, c := range p.Changes {
					for _, how := range breakages {
						for _, parallel := range []int{1, 4} {
							d := disturbance{desired: desired, version: v, at: c.Key.Address(), how: how, parallel: parallel, gaps: true}
							if problem := d.run(t); problem != "" {
								t.Error(problem)
							}
						}
					}
				}
			})
		}
	}
}

// Row A36 on random specs over brokers that hold a random part of them. Where
// dead letters go in circles something has to come first, so that gaps are only
// forbidden without; that everything gets done is asked of all.
func TestRandomSpecsBrokenAtAStep(t *testing.T) {
	for _, circles := range []bool{false, true} {
		t.Run(fmt.Sprintf("circles=%v", circles), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := rapid.SampledFrom([]catalog.Version{catalog.V(3, 10), catalog.V(4, 0), catalog.V(4, 3)}).Draw(rt, "version")
				text := randomSpec(rt, circles)
				desired := mustExpand(rt, text, v)
				before := map[topology.Key]topology.Object{}
				if rapid.Bool().Draw(rt, "over something") {
					before = randomPart(rt, desired.VirtualHosts[0])
				}
				p := planFor(desired, liveOf(desired.VirtualHosts[0].Name, before), v)
				if p.Empty() || p.BlockedChanges() != nil {
					rt.Skip("nothing to break")
				}
				d := disturbance{
					desired: desired, before: before, version: v, gaps: !circles,
					at:       rapid.SampledFrom(p.Changes).Draw(rt, "at").Key.Address(),
					how:      rapid.SampledFrom(breakages).Draw(rt, "how"),
					parallel: rapid.SampledFrom([]int{1, 2, 16}).Draw(rt, "parallel"),
				}
				if problem := d.run(t); problem != "" {
					rt.Fatalf("%s\n%s\nbefore: %v", problem, text, addresses(before))
				}
			})
		})
	}
}

func addresses(objects map[topology.Key]topology.Object) []string {
	var all []string
	for k := range objects {
		all = append(all, k.Address())
	}
	slices.Sort(all)
	return all
}

// randomSpec writes a small spec full of dead-letter routes. Each exchange has a
// rank. Without circles only queues from its rank on are behind it, and only those
// below dead-letter to it.
func randomSpec(t *rapid.T, circles bool) string {
	var b strings.Builder
	pick := func(label string, choices ...string) string { return rapid.SampledFrom(choices).Draw(t, label) }
	queues := rapid.IntRange(1, 6).Draw(t, "queues")
	ranks := rapid.SliceOfN(rapid.IntRange(0, queues), 1, 4).Draw(t, "ranks")
	exchange := func(fits func(rank int) bool) (string, bool) {
		var some []string
		for i, rank := range ranks {
			if circles || fits(rank) {
				some = append(some, fmt.Sprintf("x%d", i))
			}
		}
		if len(some) == 0 {
			return "", false
		}
		return pick("exchange", some...), true
	}
	slices.Sort(ranks) // so that a later exchange may stand behind an earlier one

	fmt.Fprintf(&b, "version: 1\ndefaults: {queue: {settings_by: %s}}\nexchanges:\n", pick("by", "policy", "arguments"))
	for i := range ranks {
		fmt.Fprintf(&b, "  x%d: {type: %s", i, pick("type", "direct", "fanout", "topic"))
		if i+1 < len(ranks) && rapid.Bool().Draw(t, "alternate") {
			fmt.Fprintf(&b, ", alternate_exchange: x%d", rapid.IntRange(i+1, len(ranks)-1).Draw(t, "to"))
		}
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "bound") == 0 {
			fmt.Fprintf(&b, ", bindings: [{exchange: x%d, routing_key: k}]", rapid.IntRange(0, i-1).Draw(t, "from"))
		}
		b.WriteString("}\n")
	}
	b.WriteString("queues:\n")
	for i := range queues {
		fmt.Fprintf(&b, "  q%d:\n    type: %s\n", i, pick("queue type", "classic", "quorum"))
		if x, ok := exchange(func(rank int) bool { return rank <= i }); ok && rapid.Bool().Draw(t, "bind") {
			fmt.Fprintf(&b, "    bindings: [{exchange: %s, routing_keys: [k, l]}]\n", x)
		}
		first := i + 1
		if circles {
			first = 0
		}
		target, x := "", ""
		if first < queues {
			target = fmt.Sprintf("q%d", rapid.IntRange(first, queues-1).Draw(t, "target"))
		}
		x, behind := exchange(func(rank int) bool { return rank > i })
		switch way := pick("dead letter", "none", "queue", "exchange", "via", "retry"); {
		case way == "queue" && target != "":
			fmt.Fprintf(&b, "    dead_letter: %s\n", target)
		case way == "exchange" && behind:
			fmt.Fprintf(&b, "    dead_letter: {exchange: %s, settings_by: %s}\n", x, pick("route by", "policy", "arguments"))
		case way == "via" && behind && target != "" && (circles || !slices.Contains(ranks, queues)):
			fmt.Fprintf(&b, "    dead_letter: {queue: q%d, via: %s}\n", queues-1, x)
		case way == "retry" && target != "":
			fmt.Fprintf(&b, "    retry: {max_attempts: 3, delays: [%s], mechanism: wait-queue}\n    dead_letter: %s\n", pick("delays", "1s", "1s, 5s"), target)
		}
	}
	return b.String()
}

// randomPart picks objects of a virtual host that can exist together: a binding
// only with its ends.
func randomPart(t *rapid.T, v *topology.VirtualHost) map[topology.Key]topology.Object {
	some := map[topology.Key]topology.Object{}
	for _, o := range v.Objects() { // bindings come last
		if !rapid.Bool().Draw(t, "exists") {
			continue
		}
		if b, ok := o.(*topology.Binding); ok {
			to := topology.Key{Kind: topology.KindQueue, VirtualHost: v.Name, Name: b.Destination}
			if b.DestinationType == topology.ToExchange {
				to.Kind = topology.KindExchange
			}
			from := topology.Key{Kind: topology.KindExchange, VirtualHost: v.Name, Name: b.Source}
			if some[to] == nil || some[from] == nil {
				continue
			}
		}
		some[o.Key()] = o
	}
	return some
}
