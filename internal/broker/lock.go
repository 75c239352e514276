package broker

import (
	"context"
	"sync/atomic"
)

// lock is a mutex whose Lock gives up when the context ends.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) Lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lock) Unlock() { <-l }

// once remembers that something happened.
type once struct{ atomic.Bool }

func (o *once) set()      { o.Store(true) }
func (o *once) was() bool { return o.Load() }
