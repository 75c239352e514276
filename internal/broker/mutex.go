package broker

import (
	"context"
	"sync/atomic"
)

// mutex is a mutex whose Lock gives up when the context ends.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (l mutex) Lock(ctx context.Context) error {
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

func (l mutex) Unlock() { <-l }

// once remembers that something happened.
type once struct{ atomic.Bool }

func (o *once) set()      { o.Store(true) }
func (o *once) was() bool { return o.Load() }
