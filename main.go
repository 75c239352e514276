// Command rabbitctl plans, applies, validates and checks the topology of
// RabbitMQ brokers from YAML specs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rabbitctl/rabbitctl/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program at once
	}()
	os.Exit(command.Run(ctx, os.Args[1:], command.OSStreams()))
}
