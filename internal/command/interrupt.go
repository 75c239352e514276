package command

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// interruptGrace is how long a command that changes nothing may take to end by
// itself after an interruption.
const interruptGrace = 2 * time.Second

// writing says whether a command line has begun to change a broker.
type writing struct{ atomic.Bool }

type writingKey struct{}

// beginWriting keeps an interruption from ending the program: from here on the
// command finishes its running steps and reports.
func beginWriting(ctx context.Context) {
	if w, ok := ctx.Value(writingKey{}).(*writing); ok {
		w.Store(true)
	}
}

// hasWritten reports whether a command line has begun to change a broker.
func hasWritten(ctx context.Context) bool {
	w, ok := ctx.Value(writingKey{}).(*writing)
	return ok && w.Load()
}

// interruptible runs f and returns its status. When ctx ends before f has begun
// to write, f is left behind after a moment: parsing and comparing do not look
// at a context.
func interruptible(ctx context.Context, s Streams, f func(context.Context) Exit) Exit {
	w := &writing{}
	done := make(chan Exit, 1)
	go func() { done <- f(context.WithValue(ctx, writingKey{}, w)) }()
	select {
	case status := <-done:
		return status
	case <-ctx.Done():
	}
	if !w.Load() {
		select {
		case status := <-done:
			return status
		case <-time.After(interruptGrace):
		}
	}
	if w.Load() {
		return <-done
	}
	fmt.Fprintln(s.Err, "rabbitctl: interrupted; nothing was changed")
	return ExitFailure
}
