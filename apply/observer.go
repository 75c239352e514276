package apply

import (
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

// Progress counts the changes of a run that are not blocked.
type Progress struct {
	Total    int
	Running  int
	Done     int
	Failed   int
	NotTried int // known so far: what they need has failed or is blocked
}

// Observer is told what a run does. The calls come one at a time, from one
// goroutine, and hold the run up while they last.
type Observer interface {
	// Started is called once for every change that is tried.
	Started(c *plan.Change, p Progress)
	// Retrying says that an attempt met a fault and that another follows, not
	// before the wait is over.
	Retrying(c *plan.Change, err error, wait time.Duration, p Progress)
	Done(c *plan.Change, p Progress)
	Failed(c *plan.Change, err error, p Progress)
}

type silent struct{}

func (silent) Started(*plan.Change, Progress)                        {}
func (silent) Retrying(*plan.Change, error, time.Duration, Progress) {}
func (silent) Done(*plan.Change, Progress)                           {}
func (silent) Failed(*plan.Change, error, Progress)                  {}
