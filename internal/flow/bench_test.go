package flow

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// large makes n queues with two bindings each, dead-letter routes of every form, and
// a policy for every twenty queues.
func large(n int) *topology.VirtualHost {
	v := &topology.VirtualHost{Name: "v"}
	for _, e := range []struct{ name, kind string }{
		{"events", "topic"}, {"commands", "direct"}, {"dlx", "direct"}, {"dlx.topic", "topic"}, {"rest", "fanout"}, {"wait", "headers"},
	} {
		x := &topology.Exchange{Name: e.name, Type: e.kind, Durable: true}
		if e.name == "dlx.topic" {
			x.Arguments = topology.Arguments{"alternate-exchange": "rest"}
		}
		v.Exchanges = append(v.Exchanges, x)
	}
	bind := func(source, queue, key string, a topology.Arguments) {
		v.Bindings = append(v.Bindings, &topology.Binding{Source: source, Destination: queue, DestinationType: topology.ToQueue, RoutingKey: key, Arguments: a})
	}
	queue := func(name string, a topology.Arguments) {
		v.Queues = append(v.Queues, &topology.Queue{Name: name, Type: topology.Quorum, Durable: true, Arguments: a})
	}
	for i := 0; i < n; i += 2 {
		work, dead := fmt.Sprintf("team%d.work%d", i%50, i), fmt.Sprintf("team%d.dead%d", i%50, i)
		bind("events", work, fmt.Sprintf("team%d.order%d.#", i%50, i), nil)
		bind("events", work, fmt.Sprintf("*.all%d.*", i%100), nil)
		switch i % 6 {
		case 0: // by key
			queue(work, topology.Arguments{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": dead})
			bind("dlx", dead, dead, nil)
			bind("commands", dead, dead, nil)
		case 2: // with their own keys
			queue(work, topology.Arguments{"x-dead-letter-exchange": "dlx.topic"})
			bind("dlx.topic", dead, fmt.Sprintf("team%d.order%d.#", i%50, i), nil)
			if i < 20 {
				bind("rest", dead, "", nil)
			}
		default: // to a wait queue and back
			queue(work, topology.Arguments{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-delivery-limit": int64(-1)})
			bind("wait", dead, "", topology.Arguments{"x-match": "all", "queue": work})
			bind("commands", dead, dead, nil)
		}
		a := topology.Arguments{"x-message-ttl": int64(1000)}
		if i%6 == 4 {
			a["x-dead-letter-exchange"], a["x-dead-letter-routing-key"] = "", work
		}
		queue(dead, a)
	}
	for i := range n / 20 {
		v.Policies = append(v.Policies, &topology.Policy{
			Name: fmt.Sprintf("p%d", i), Pattern: fmt.Sprintf(`^team%d\.work%d$`, i%50, i), ApplyTo: "queues",
			Definition: topology.Arguments{"max-length": int64(1000), "overflow": "reject-publish"},
		})
	}
	return v
}

// questions asks everything of every queue and exchange.
func questions(v *topology.VirtualHost) (lost, cycles, left int) {
	g := New(v, catalog.V(4, 3), Options{})
	for _, at := range []*Graph{g, g.At(catalog.V(4, 0), nil)} {
		for _, q := range v.Queues {
			if _, l := at.DeadLetters(q.Name); !l.Possible.Empty() {
				lost++
			}
			at.Fates(q.Name)
		}
		for _, e := range v.Exchanges {
			if !at.Unroutable(e.Name, at.AllKeys()).Certain.Empty() {
				lost++
			}
		}
		cycles += len(at.Cycles())
	}
	return lost, cycles, g.left
}

// measure is the time of one run and what it holds at its end.
func measure(n int) (time.Duration, uint64) {
	v := large(n)
	best := time.Duration(1 << 62)
	var held uint64
	for range 3 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		questions(v)
		best = min(best, time.Since(start))
		runtime.ReadMemStats(&after)
		held = max(held, after.TotalAlloc-before.TotalAlloc)
	}
	return best, held
}

// BenchmarkGrowth reports how much longer ten times the objects take; the goal is
// 15 times at most.
func BenchmarkGrowth(b *testing.B) {
	for b.Loop() {
		small, _ := measure(1000)
		big, allocated := measure(10000)
		b.ReportMetric(float64(big)/float64(small), "times-as-long")
		b.ReportMetric(float64(allocated>>20), "MB-allocated")
	}
}

// TestLargeGraph: something is worked out on the benchmark's topology.
func TestLargeGraph(t *testing.T) {
	lost, cycles, left := questions(large(10000))
	if lost == 0 || cycles == 0 {
		t.Errorf("%d losses and %d cycles: nothing was worked out", lost, cycles)
	}
	if left < maxWork/2 {
		t.Errorf("a plain topology uses up %d of %d steps", maxWork-left, maxWork)
	}
}

func BenchmarkGraph(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("queues=%d", n), func(b *testing.B) {
			v := large(n)
			b.ReportAllocs()
			for b.Loop() {
				questions(v)
			}
		})
	}
}
