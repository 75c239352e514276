package command

import (
	"fmt"
	"io"
	"time"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/plan"
)

// progress shows how far apply is: one line that is rewritten on a terminal,
// nothing elsewhere but faults that are tried again.
type progress struct {
	w        io.Writer
	terminal bool
	last     time.Time
	drawn    bool
}

func newProgress(s Streams) *progress { return &progress{w: s.Err, terminal: s.ErrTerminal} }

// redraw is how often the line is rewritten.
const redraw = 100 * time.Millisecond

func (p *progress) draw(n apply.Progress, what string) {
	if !p.terminal || time.Since(p.last) < redraw {
		return
	}
	p.last, p.drawn = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K%d/%d done, %d failed: %s", n.Done, n.Total, n.Failed, text.Truncate(text.Line(what), 60))
}

func (p *progress) finish() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// Started implements apply.Observer.
func (p *progress) Started(c *plan.Change, n apply.Progress) { p.draw(n, c.Key.Address()) }

// Done implements apply.Observer.
func (p *progress) Done(c *plan.Change, n apply.Progress) { p.draw(n, c.Key.Address()) }

// Failed implements apply.Observer.
func (p *progress) Failed(c *plan.Change, _ error, n apply.Progress) { p.draw(n, c.Key.Address()) }

// Retrying implements apply.Observer.
func (p *progress) Retrying(c *plan.Change, err error, wait time.Duration, _ apply.Progress) {
	p.finish()
	fmt.Fprintf(p.w, "%s: %s; trying again in %s\n", text.Line(c.Key.Address()), text.Line(err.Error()), wait.Round(10*time.Millisecond))
}
