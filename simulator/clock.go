package simulator

import (
	"container/heap"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// clock stands still until it is advanced.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers timers
	count  int
}

// newClock begins at a fixed time, so that runs are alike.
func newClock() *clock {
	return &clock{now: time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)}
}

// Now implements wire.Clock.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc implements wire.Clock. Functions are called one after the other by the
// goroutine that advances the clock.
func (c *clock) AfterFunc(d time.Duration, f func()) wire.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	t := &timer{clock: c, at: c.now.Add(max(d, 0)), order: c.count, f: f}
	heap.Push(&c.timers, t)
	return t
}

// step moves to the next timer that is due until then, and takes it off; without
// one it moves to that time and returns nil.
func (c *clock) step(until time.Time) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 || c.timers[0].at.After(until) {
		if until.After(c.now) {
			c.now = until
		}
		return nil
	}
	t := heap.Pop(&c.timers).(*timer)
	if t.at.After(c.now) {
		c.now = t.at
	}
	return t.f
}

// timer is a call that waits.
type timer struct {
	clock *clock
	at    time.Time
	order int // calls of the same time come in the order in which they were asked for
	f     func()
	index int // in the heap; -1: taken off
}

// Stop implements wire.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.index)
	return true
}

// timers is a heap by time.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].order < h[j].order
	}
	return h[i].at.Before(h[j].at)
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

// patience is how long, in real time, Advance waits for clients that hold
// deliveries without doing anything.
const patience = 50 * time.Millisecond

// Advance lets time pass: expiries, retries and timers of the clients on this broker
// happen in their order. Before each it waits until the clients are quiet: until
// everything that was delivered is settled, or nothing has happened for a moment of
// real time, as when a handler waits for the clock itself. It panics with RealTime.
func (b *Broker) Advance(d time.Duration) {
	if b.clock == nil {
		panic("simulator: Advance with RealTime")
	}
	until := b.clock.Now().Add(d)
	for {
		b.WaitIdle()
		f := b.clock.step(until)
		if f == nil {
			break
		}
		f()
	}
	b.WaitIdle()
}

// WaitIdle waits until the clients are quiet, as Advance does, and lets no time
// pass on the broker's clock.
func (b *Broker) WaitIdle() {
	const pause = 500 * time.Microsecond
	seen, quiet := uint64(0), time.Duration(-1)
	for quiet < patience {
		time.Sleep(pause)
		b.mu.Lock()
		now, busy := b.activity, b.busy()
		b.mu.Unlock()
		switch {
		case now != seen || quiet < 0:
			seen, quiet = now, 0
		case !busy && quiet >= 4*pause:
			return
		default:
			quiet += pause
		}
	}
}

// busy reports whether a client has something to settle.
func (b *Broker) busy() bool {
	for c := range b.open {
		for ch := range c.channels {
			if len(ch.unacked) > 0 {
				return true
			}
		}
	}
	return false
}
