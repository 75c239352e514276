package policy

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// slow is what a match takes that counts: those of sound patterns take
	// microseconds.
	slow = 2 * time.Millisecond
	// maxSlow is how much slow matches of one pattern may take together, maxAllSlow
	// those of all patterns of a group: thousands of names, or of patterns, that each
	// stay within matchTimeout would take minutes.
	maxSlow    = time.Second / 2
	maxAllSlow = 3 * time.Second
)

// budget is what matching the patterns of one group may still take.
type budget struct {
	all atomic.Int64
	of  []atomic.Int64 // by pattern
}

// tooSlow says why something was not tried.
func tooSlow() string {
	return fmt.Sprintf("it took too long: rabbitctl gives up after %s for one name, %s for one pattern and %s for all patterns", matchTimeout, maxSlow, maxAllSlow)
}

// spend counts one match of a pattern, and reports whether the pattern has had all
// that it may take.
func (b *budget) spend(pattern int, took time.Duration) (cut bool) {
	if took < slow {
		return false
	}
	b.all.Add(int64(took))
	return time.Duration(b.of[pattern].Add(int64(took))) > maxSlow
}

// over reports whether no pattern is to be tried any more.
func (b *budget) over() bool { return time.Duration(b.all.Load()) > maxAllSlow }
