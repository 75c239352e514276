package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/plan"
)

// stillEmpty counts once more the messages of queues that would lose them. Since
// the plan was made, somebody had to answer, or it was a file for days.
func (j *applyJob) stillEmpty(p *plan.Plan) error {
	keys := p.NeedsEmpty()
	if len(keys) == 0 {
		return nil
	}
	found, err := counts(j.c.Context, j.client, keys)
	if err != nil {
		return brokerError(err)
	}
	var b strings.Builder
	for _, k := range keys {
		switch n := found[k].Messages; {
		case n == nil:
			fmt.Fprintf(&b, "\n  %s: the number of messages is unknown", k)
		case *n > 0:
			fmt.Fprintf(&b, "\n  %s: %s", k, text.Plural(int(*n), "message", "messages"))
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return fail(ExitBlocked, errors.New("nothing was changed: queues that were empty when the plan was made would now lose messages:"+
		b.String()+"\nplan again"))
}
