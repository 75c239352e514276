package apply

import (
	"fmt"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/plan"
)

// BlockedError refuses a plan with changes that are blocked by a safety rule.
// Nothing was tried.
type BlockedError struct {
	Changes []*plan.Change // in plan order
}

// Error names the first blocked changes.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s blocked, nothing was applied: %s", count(len(e.Changes), "change is", "changes are"), names(e.Changes))
}

// ReplaceError refuses a plan with a replacement that nothing blocks when the Broker
// is no Replacer: deleting and creating again would lose messages. Nothing was tried.
type ReplaceError struct {
	Changes []*plan.Change // in plan order
}

// Error names the first replacements.
func (e *ReplaceError) Error() string {
	return "this broker cannot replace objects, nothing was applied: " + names(e.Changes)
}

// PlanError refuses a plan that cannot be carried out in any order: an unknown
// action, a missing object, one ID twice, or changes that wait for each other.
// Nothing was tried.
type PlanError struct {
	Problems []string
}

// Error lists the problems.
func (e *PlanError) Error() string {
	return "the plan cannot be carried out: " + strings.Join(e.Problems, "; ")
}

// OutageError stops a run: nothing succeeded for so long that the rest is not
// tried.
type OutageError struct {
	Silent time.Duration
	Last   error // of the last attempt
}

// Error says for how long nothing succeeded and what the last attempt met.
func (e *OutageError) Error() string {
	return fmt.Sprintf("nothing has succeeded for %s, last: %v", e.Silent.Round(time.Second), e.Last)
}

// Unwrap returns what the last attempt met.
func (e *OutageError) Unwrap() error { return e.Last }

func names(changes []*plan.Change) string {
	const most = 5
	var list []string
	for i, c := range changes {
		if i == most {
			list = append(list, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		list = append(list, fmt.Sprintf("%s %s", c.Action, c.Key))
	}
	return strings.Join(list, ", ")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
