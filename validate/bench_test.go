package validate

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// estate is n queues, two bindings for each and a policy for every twenty: work
// queues with dead-letter queues and wait queues on topic, direct and headers
// exchanges.
func estate(n int) *topology.Topology {
	var objects []any
	exchange := func(name, kind string, a topology.Arguments) {
		objects = append(objects, &topology.Exchange{VirtualHost: "shop", Name: name, Type: kind, Durable: true, Arguments: a})
	}
	bind := func(source, queue, key string) {
		objects = append(objects, &topology.Binding{VirtualHost: "shop", Source: source, Destination: queue, DestinationType: topology.ToQueue, RoutingKey: key})
	}
	exchange("events", "topic", topology.Arguments{"alternate-exchange": "rest"})
	exchange("commands", "direct", topology.Arguments{"alternate-exchange": "rest"})
	exchange("dlx", "direct", nil)
	exchange("later", "topic", nil)
	exchange("rest", "fanout", nil)
	objects = append(objects, queueOf(topology.Quorum, "rest", topology.Arguments{"x-delivery-limit": int64(-1)}))
	bind("rest", "rest", "")
	for i := 0; i < n; i += 2 {
		work, other := fmt.Sprintf("team%d.work%d", i%50, i), fmt.Sprintf("team%d.dead%d", i%50, i)
		bind("events", work, fmt.Sprintf("team%d.order%d.#", i%50, i))
		bind("events", work, fmt.Sprintf("*.all%d.*", i%100))
		switch i % 6 {
		case 0: // dead letters by key
			objects = append(objects, queueOf(topology.Quorum, work, topology.Arguments{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": other}))
			objects = append(objects, queueOf(topology.Quorum, other, topology.Arguments{"x-delivery-limit": int64(-1)}))
			bind("dlx", other, other)
			bind("commands", other, other)
		case 2: // dead letters with their own keys
			objects = append(objects, queueOf(topology.Quorum, work, topology.Arguments{"x-dead-letter-exchange": "later"}))
			objects = append(objects, queueOf(topology.Classic, other, nil))
			bind("later", other, fmt.Sprintf("team%d.order%d.#", i%50, i))
			bind("commands", other, other)
		default: // wait queues that lead back
			objects = append(objects, queueOf(topology.Classic, work, topology.Arguments{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}))
			objects = append(objects, queueOf(topology.Classic, other, topology.Arguments{"x-message-ttl": int64(1000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}))
			bind("commands", other, other)
			bind("commands", other, other+".too")
		}
	}
	for i := range n / 20 {
		objects = append(objects, &topology.Policy{
			VirtualHost: "shop", Name: fmt.Sprintf("p%d", i), Pattern: fmt.Sprintf(`^team%d\.(work|old)%d$`, i%50, 2*i), ApplyTo: "queues",
			Definition: topology.Arguments{"max-length": int64(1000), "overflow": "reject-publish"},
		})
	}
	return host(objects...)
}

// processorTime is what the process has used of the processors, collecting garbage
// included: other work on the machine does not count.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkGrowth reports how much more processor time ten times the objects take (the goal is
// 15 times at most) and the most memory held (the goal is under 400 MB).
func BenchmarkGrowth(b *testing.B) {
	run := func(n int) (time.Duration, uint64) {
		desired := estate(n)
		best, held := time.Duration(1<<62), uint64(0)
		for range 3 {
			stop, most := make(chan bool), make(chan uint64)
			go func() {
				var peak uint64
				for {
					select {
					case <-stop:
						most <- peak
						return
					case <-time.After(20 * time.Millisecond):
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						peak = max(peak, m.HeapAlloc)
					}
				}
			}()
			runtime.GC()
			start := processorTime(b)
			if len(Check(Input{Topology: desired})) == 0 {
				b.Error("nothing is found")
			}
			best = min(best, processorTime(b)-start)
			stop <- true
			held = max(held, <-most)
		}
		return best, held
	}
	for b.Loop() {
		small, _ := run(1000)
		big, held := run(10000)
		b.ReportMetric(float64(big)/float64(small), "times-as-long")
		b.ReportMetric(float64(held>>20), "MB-held")
	}
}
