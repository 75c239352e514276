package consumer

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing that is not as the consumer needs it.
type Problem struct {
	// Object is what it is about, such as `queue "refunds"`; empty: the options.
	Object string
	// Field is the setting or argument that differs; empty: the whole object.
	Field string
	// Want is what is declared, Have what there is; empty: nothing to say.
	Want, Have string
	// Text says what is wrong and what to do.
	Text string
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Object)
	if p.Field != "" {
		fmt.Fprintf(&b, " %s", p.Field)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(p.Text)
	if p.Want != "" || p.Have != "" {
		fmt.Fprintf(&b, " (want %s, have %s)", p.Want, p.Have)
	}
	return b.String()
}

// CheckError lists everything that keeps a consumer from starting.
type CheckError struct {
	// Queue and Broker say of what: the broker with its virtual host.
	Queue, Broker string
	Problems      []Problem
}

func (e *CheckError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "\n  " + p.String()
	}
	where := ""
	if e.Broker != "" {
		where = " on " + e.Broker
	}
	return fmt.Sprintf("the consumer of queue %q%s must not start:%s", e.Queue, where, strings.Join(lines, ""))
}

// PanicError is what a handler panicked with, where OnPanic is FailFast.
type PanicError struct {
	Queue string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("the handler of queue %q panicked: %v", e.Queue, e.Value)
}

// HandlerError is an error that ended the consumer, as OnError or OnDecodeError says.
type HandlerError struct {
	Queue string
	Err   error
}

func (e *HandlerError) Error() string {
	return fmt.Sprintf("the handler of queue %q: %v", e.Queue, e.Err)
}

// Unwrap returns the handler's error.
func (e *HandlerError) Unwrap() error { return e.Err }

// ErrNotSettled is reported when a handler ended after its channel was closed: nobody
// can be told any more, and the broker gives the message to a consumer again.
var ErrNotSettled = errors.New("the channel of the delivery is closed; the broker delivers the message again")

var (
	errNoDeadLetter = errors.New("no dead-letter queue is known to publish to; the message stays in its queue")
	errNoOutcome    = errors.New("the handler returned no outcome")
	errStopped      = errors.New("the consumer was stopped")
)
