// Package background does work while something else is waited for.
package background

import "sync"

// Start starts f and returns a function that waits for its result, as often as it is
// called. A panic of f is one of whoever waits: in a goroutine of its own it would
// end the program with a status that means something else.
func Start[T any](f func() (T, error)) (wait func() (T, error)) {
	wait = sync.OnceValues(f)
	go func() {
		defer func() { _ = recover() }()
		_, _ = wait()
	}()
	return wait
}
