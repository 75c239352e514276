package publisher

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/confirm"
)

// Target is where a message was published to.
type Target struct {
	// Broker names it with its virtual host, without a password.
	Broker, VirtualHost  string
	Exchange, RoutingKey string
}

func (t Target) String() string {
	return fmt.Sprintf("publish to exchange %q with key %q on %s", t.Exchange, t.RoutingKey, t.Broker)
}

// Invalid: the message cannot be sent as it is. Nothing was sent.
type Invalid struct {
	Target
	Text string
}

func (e *Invalid) Error() string { return fmt.Sprintf("%s: %s", e.Target, e.Text) }

// Returned: no queue was there for the message, so it is nowhere (basic.return; the
// broker confirms it all the same). An exchange with an alternate exchange that has a
// queue returns nothing.
type Returned struct {
	Target
	Code int    // 312
	Text string // NO_ROUTE
}

func (e *Returned) Error() string {
	return fmt.Sprintf("%s: no queue takes it (%d %s)", e.Target, e.Code, e.Text)
}

// Nacked: a queue refused the message (basic.nack), because it is full and its overflow is
// reject-publish, or it failed. Other queues may have it. The broker does not say which
// queue.
type Nacked struct{ Target }

func (e *Nacked) Error() string {
	return fmt.Sprintf("%s: refused by the broker (basic.nack): a queue behind it is full or failed", e.Target)
}

// Refused: the broker closed the channel because of this publish: the exchange does not
// exist, or the user may not write to it. The message is nowhere.
type Refused struct {
	Target
	Code int    // 403 or 404
	Text string // the broker's own words
}

func (e *Refused) Error() string { return fmt.Sprintf("%s: %d %q", e.Target, e.Code, e.Text) }

// Unknown: no answer came in time, or the connection was lost. The message may have
// arrived or not: publish it again with the same ID.
type Unknown struct {
	Target
	Cause error
}

func (e *Unknown) Error() string {
	return fmt.Sprintf("%s: not known whether it arrived: %v", e.Target, e.Cause)
}

// Unwrap returns the cause.
func (e *Unknown) Unwrap() error { return e.Cause }

// NotSent: there was no connection, or no room among the outstanding messages, in time.
// Nothing was sent.
type NotSent struct {
	Target
	Cause error
}

func (e *NotSent) Error() string { return fmt.Sprintf("%s: not sent: %v", e.Target, e.Cause) }

// Unwrap returns the cause.
func (e *NotSent) Unwrap() error { return e.Cause }

func (p *Publisher) at(exchange, key string) Target {
	return Target{Broker: p.link.String(), VirtualHost: p.link.VirtualHost(), Exchange: exchange, RoutingKey: key}
}

// typed makes our error of a result.
func (t Target) typed(err error) error {
	var returned *confirm.Returned
	var nacked *confirm.Nacked
	var unknown *confirm.Unknown
	var closed *amqp091.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &returned):
		return &Returned{Target: t, Code: returned.Code, Text: returned.Text}
	case errors.As(err, &nacked):
		return &Nacked{t}
	case errors.As(err, &closed) && t.blames(closed):
		return &Refused{Target: t, Code: closed.Code, Text: closed.Reason}
	case errors.As(err, &unknown):
		return &Unknown{t, unknown.Cause}
	}
	return &Unknown{t, err}
}

// blames reports whether the broker closed a channel because of this exchange: all that
// was on the way to it then has not arrived.
func (t Target) blames(e *amqp091.Error) bool {
	return (e.Code == amqp091.NotFound || e.Code == amqp091.AccessRefused) && strings.Contains(e.Reason, "exchange '"+t.Exchange+"'")
}
