package command

import (
	"errors"
	"fmt"
	"strings"
)

// Exit is an exit status of rabbitctl.
type Exit int

// The exit statuses, the same for every command. ExitMeanings is the one table
// that help and documentation show.
const (
	ExitFine     Exit = 0
	ExitFailure  Exit = 1
	ExitPending  Exit = 2
	ExitFindings Exit = 3
	ExitBlocked  Exit = 4
	ExitBroker   Exit = 5
	ExitPartial  Exit = 6
	ExitUsage    Exit = 64
)

// ExitMeanings says what each status means.
var ExitMeanings = []struct {
	Exit    Exit
	Meaning string
}{
	{ExitFine, "fine"},
	{ExitFailure, "failure not named below, or the question was answered no"},
	{ExitPending, "changes pending (plan --detailed-exitcode), missing or different (check, also after --wait)"},
	{ExitFindings, "findings at error level"},
	{ExitBlocked, "blocked by a safety rule, a saved plan that is stale, or the lock not had in time"},
	{ExitBroker, "broker unreachable, login or rights refused before the first write, not a management API, two different brokers"},
	{ExitPartial, "partly applied: failure, interruption or loss of the lock after the first write, or the read-back differs"},
	{ExitUsage, "usage: unknown command or flag, no terminal to ask and no --yes"},
}

// exitTable is ExitMeanings as text for the help.
func exitTable() string {
	var b strings.Builder
	for _, m := range ExitMeanings {
		fmt.Fprintf(&b, "   %2d  %s\n", m.Exit, m.Meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}

// exitError carries a status with a message; a message is empty when everything
// has been said already.
type exitError struct {
	exit Exit
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit ends a command with a status whose reason has been shown already.
func exit(status Exit) error {
	if status == ExitFine {
		return nil
	}
	return &exitError{exit: status}
}

// fail ends a command with a status and a message.
func fail(status Exit, err error) error { return &exitError{exit: status, err: err} }

// usagef ends a command because of how it was called.
func usagef(format string, args ...any) error {
	return fail(ExitUsage, fmt.Errorf(format, args...))
}

// statusOf is the status that an error ends the program with.
func statusOf(err error) Exit {
	if err == nil {
		return ExitFine
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.exit
	}
	return ExitFailure
}
