package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Via is the protocol by which something is done.
type Via string

// The ways. ViaAuto is AMQP when it can be reached and HTTP otherwise.
const (
	ViaAuto Via = "auto"
	ViaAMQP Via = "amqp"
	ViaHTTP Via = "http"
)

var (
	// ErrNotManagementAPI says that what answered is not RabbitMQ's management
	// API: a web page, a redirect to a login, another program's JSON.
	ErrNotManagementAPI = errors.New("not a RabbitMQ management API")
	// ErrDifferentBrokers says that the management URL and the AMQP URL lead to
	// different brokers.
	ErrDifferentBrokers = errors.New("the management URL and the AMQP URL lead to different brokers")
)

// class says how far a call came.
type class int

const (
	refused     class = iota // the broker answered and said no
	unreachable              // no connection, or it was lost
	timeout                  // no answer in time
	cancelled                // the caller's context ended
	notSent                  // given up before anything was sent
	wrongServer              // ErrNotManagementAPI, ErrDifferentBrokers
)

// Error is a failed call: what was tried on which object, and what the broker
// said.
type Error struct {
	// Op is what was tried: "declare", or a whole sentence when Key is zero.
	Op string
	// Key is the object; zero for lists and connections.
	Key topology.Key
	Via Via
	// Step is the request ("PUT /api/queues/shop/orders", "queue.declare") or
	// the part of connecting that failed.
	Step string
	// Status is the HTTP status or the AMQP reply code; 0: there was no answer.
	Status int
	// Reason is the broker's own text.
	Reason string
	// Hint says which right is missing or what to do; may be empty.
	Hint string
	// Unknown says that the request was sent and no answer came: the broker may
	// have done it or not.
	Unknown bool
	// ConnectionClosed says that the AMQP connection is gone, with everything
	// that was under way on it.
	ConnectionClosed bool
	Err              error

	class class
	// settling says that the request met a fault before: a node that comes up
	// answers 404 to writes until it knows its virtual hosts (3.10, measured).
	settling bool
}

// Error implements error. The text is one line and safe to show.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if (e.Key != topology.Key{}) {
		b.WriteString(" " + e.Key.String())
	}
	b.WriteString(": ")
	switch {
	case e.Status != 0:
		if d, ok := e.Inequivalent(); ok {
			fmt.Fprintf(&b, "%s: want %s, have %s", d.Argument, d.Want, d.Have)
			break
		}
		b.WriteString(e.said())
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	default:
		b.WriteString("failed")
	}
	if e.Unknown {
		b.WriteString("; whether it was done is unknown")
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	if e.Step != "" {
		b.WriteString(" [" + e.Step + "]")
	}
	return text.Line(b.String())
}

// said is the broker's answer in words.
func (e *Error) said() string {
	name := "HTTP"
	if e.Via == ViaAMQP {
		name = "AMQP"
	}
	reason := strings.Join(strings.Fields(e.Reason), " ")
	if errors.Is(e.Err, ErrNotManagementAPI) {
		return fmt.Sprintf("%v: %s answer %d: %s", e.Err, name, e.Status, reason)
	}
	if reason == "" {
		return fmt.Sprintf("the broker answered %s %d without a reason", name, e.Status)
	}
	return fmt.Sprintf("the broker answered %s %d: %s", name, e.Status, reason)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func as(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// IsUnreachable reports whether there was no connection, it was lost, or no
// answer came in time.
func IsUnreachable(err error) bool {
	e, ok := as(err)
	return ok && (e.class == unreachable || e.class == timeout)
}

// IsTimeout reports whether no answer came in time.
func IsTimeout(err error) bool {
	e, ok := as(err)
	return ok && e.class == timeout
}

// IsAuth reports whether the login failed or the user lacks a right; Hint says
// which.
func IsAuth(err error) bool {
	e, ok := as(err)
	return ok && e.class == refused && e.isAuth()
}

// IsLoginFailed reports whether user name, password or token were refused.
func IsLoginFailed(err error) bool {
	e, ok := as(err)
	return ok && e.class == refused && e.isAuth() && e.Hint == hintLogin
}

// IsNotFound reports whether the object, or one that it needs, is not there.
func IsNotFound(err error) bool {
	e, ok := as(err)
	if !ok || e.class != refused {
		return false
	}
	switch {
	case e.Status == 404:
		return true
	case e.Via == ViaAMQP:
		return e.Status == 530 && strings.Contains(e.Reason, "not found")
	}
	return e.Status == 400 && (strings.HasPrefix(e.Reason, "no queue '") || strings.HasPrefix(e.Reason, "no exchange '"))
}

// IsPrecondition reports whether the broker refused because the object exists
// and differs, or because a value is wrong: AMQP 406, HTTP 400. Inequivalent
// tells the first from the second.
func IsPrecondition(err error) bool {
	e, ok := as(err)
	if !ok || e.class != refused {
		return false
	}
	if e.Via == ViaAMQP {
		return e.Status == 406
	}
	return e.Status == 400
}

// IsLocked reports whether a queue is exclusive to another connection.
func IsLocked(err error) bool {
	e, ok := as(err)
	return ok && e.class == refused && (e.Via == ViaAMQP && e.Status == 405 || strings.Contains(e.Reason, "RESOURCE_LOCKED") ||
		strings.HasPrefix(e.Reason, "cannot obtain exclusive access to locked queue"))
}

// IsTransient reports whether the same call may work later: connection loss, no
// answer in time, HTTP 429 and 5xx, a 404 to a write that met one of these before, AMQP
// 320 (a node shuts down) and 506. The request itself has already been repeated a few times.
func IsTransient(err error) bool {
	e, ok := as(err)
	switch {
	case !ok:
		return false
	case e.class == unreachable, e.class == timeout:
		return true
	case e.class != refused:
		return false
	case e.Via == ViaAMQP:
		return e.Status == 320 || e.Status == 506
	}
	return e.Status == 429 || e.Status >= 500 || e.Status == 404 && e.settling
}

// IsUnknown reports whether the request was sent and no answer came, so that
// only reading tells whether it was done.
func IsUnknown(err error) bool {
	e, ok := as(err)
	return ok && e.Unknown
}

// local is an error that was found before anything was sent.
func local(format string, args ...any) *Error {
	return &Error{class: notSent, Err: fmt.Errorf(format, args...)}
}

// named completes an error with what was tried on which object.
func named(err error, op string, key topology.Key) error {
	if err == nil {
		return nil
	}
	if e, ok := as(err); ok {
		if e.Op == "" {
			e.Op, e.Key = op, key
		}
		e.hint()
		return e
	}
	e := &Error{Op: op, Key: key, Err: err, class: notSent}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.class = cancelled
	}
	return e
}
