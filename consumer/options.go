package consumer

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Option sets up a consumer. Mistakes in options are reported by Open, all at once.
type Option func(*options)

type options struct {
	queue   string
	spec    *specSource
	declare bool

	copyTo    string
	inProcess bool
	host      *topology.VirtualHost // in place of a spec
	byHand    byHand
	fixed     []Problem
	tls       *tls.Config
	log       *slog.Logger
	checks    []Check
	tag       string
	args      map[string]any
	publish   CopyMode

	telemetry telemetry.Providers

	prefetch, concurrency            int
	onPanic, onError, onUndecodable  Policy
	onReport                         func(Report)
	countHeader, by                  string
	immediate                        int
	stopTimeout, confirmTimeout, max time.Duration
}

// byHand is what options say of the queue in place of a spec.
type byHand struct {
	kind        topology.QueueType
	maxAttempts int
	hasCap      bool
	dead        string
	delays      []time.Duration
	waits       []string
}

type specSource struct {
	fsys fs.FS
	file string
}

func defaults() options {
	return options{
		log: slog.Default(), prefetch: 10, concurrency: 1, countHeader: headerCount,
		onPanic: FailFast(), onError: Settle(Retry()), onUndecodable: Settle(Drop(nil)),
		stopTimeout: 30 * time.Second, confirmTimeout: 30 * time.Second, max: 10 * time.Minute,
	}
}

func (o *options) wrong(format string, args ...any) {
	o.fixed = append(o.fixed, Problem{Text: fmt.Sprintf(format, args...)})
}

// FromSpec reads the queue from a spec, such as one that is embedded in the program: its
// type, cap, delays and dead-letter route, and what must exist. The file may be a folder.
// Where a spec has several virtual hosts with this queue, that of the connection's URL
// is meant.
func FromSpec(fsys fs.FS, file, queue string) Option {
	return func(o *options) { o.spec, o.queue = &specSource{fsys, file}, queue }
}

// FromTopology is FromSpec for rabbitctl itself, with a spec that is expanded already.
func FromTopology(v *topology.VirtualHost, queue string) Option {
	return func(o *options) { o.host, o.queue = v, queue }
}

// Declare makes what the queue needs before it is checked, as the spec says it: for tests
// and for services whose topology nobody else looks after. See docs/consumer.md.
func Declare() Option { return func(o *options) { o.declare = true } }

// Queue names the queue where there is no spec. What is not said is not known: without
// MaxAttempts and DeadLetterTo nothing is counted.
func Queue(name string) Option { return func(o *options) { o.queue = name } }

// QueueType says that the queue is "classic" or "quorum", where there is no spec.
func QueueType(t string) Option {
	return func(o *options) {
		if t != string(topology.Classic) && t != string(topology.Quorum) {
			o.wrong("QueueType(%q): only classic and quorum queues are consumed", t)
		}
		o.byHand.kind = topology.QueueType(t)
	}
}

// MaxAttempts is the cap where there is no spec: n deliveries, the first included. It
// needs DeadLetterTo. On a quorum queue the broker counts, by a delivery limit of n - 1
// that its owner sets: Open refuses a cap there unless a check over the management API
// has seen that it is in effect.
func MaxAttempts(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.wrong("MaxAttempts(%d): the first delivery counts, so it is at least 1", n)
		}
		o.byHand.maxAttempts, o.byHand.hasCap = n, true
	}
}

// DeadLetterTo names the queue that takes a message after its last attempt, where there
// is no spec. It needs MaxAttempts.
func DeadLetterTo(queue string) Option {
	return func(o *options) {
		if queue == "" {
			o.wrong(`DeadLetterTo(""): name a queue`)
		}
		o.byHand.dead = queue
	}
}

// Delay says, where there is no spec, that messages in a queue go back after a delay: it
// must have x-message-ttl with that delay in milliseconds and the consumed queue as its
// dead-letter target. It may be given several times; each delay needs a queue of its own.
func Delay(d time.Duration, waitQueue string) Option {
	return func(o *options) {
		if d < time.Millisecond || waitQueue == "" {
			o.wrong("Delay(%s, %q): a delay is at least 1 ms and waits in a queue", d, waitQueue)
			return
		}
		o.byHand.delays, o.byHand.waits = append(o.byHand.delays, d), append(o.byHand.waits, waitQueue)
	}
}

// Prefetch is how many deliveries are at the consumer unsettled at a time; the default is
// 10. With a quorum queue each of them is charged one return when the consumer crashes.
func Prefetch(n int) Option {
	return func(o *options) {
		if n < 1 || n > 65535 {
			o.wrong("Prefetch(%d): 0 would be unlimited; it is 1 to 65535", n)
		}
		o.prefetch = n
	}
}

// Concurrency is how many deliveries are handled at a time; the default is 1. It should
// not exceed Prefetch.
func Concurrency(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.wrong("Concurrency(%d): it is at least 1", n)
		}
		o.concurrency = n
	}
}

// OnPanic says what becomes of a delivery whose handler panics; the default is FailFast.
func OnPanic(p Policy) Option { return func(o *options) { o.onPanic = p } }

// OnError says what becomes of a delivery whose handler returns an error (see Func) or
// no outcome; the default is Settle(Retry()).
func OnError(p Policy) Option { return func(o *options) { o.onError = p } }

// OnDecodeError says what becomes of a delivery that JSON or Typed cannot decode; the
// default is Settle(Drop(nil)), since it will be no better next time.
func OnDecodeError(p Policy) Option { return func(o *options) { o.onUndecodable = p } }

// OnReport is told what goes wrong, from several goroutines; it must return soon.
func OnReport(f func(Report)) Option { return func(o *options) { o.onReport = f } }

// Logger is used in place of slog.Default.
func Logger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// CountHeader is the header of the number of attempts on copies; the default is
// rabbitctl-attempts. It is decimal text. The names x-rabbitctl-retry-count and
// x-ruststream-retry-count are read in any case.
func CountHeader(name string) Option {
	return func(o *options) {
		if name == "" || len(name) > 255 {
			o.wrong("CountHeader(%q): a header's name has 1 to 255 bytes", name)
			return
		}
		o.countHeader = name
	}
}

// ImmediateRetries makes the first n RetryLater of a message Retry.
func ImmediateRetries(n int) Option { return func(o *options) { o.immediate = max(n, 0) } }

// CopyMode is how copies are published.
type CopyMode string

const (
	// Confirmed: the original is acknowledged when the broker has confirmed the copy and
	// a queue was there for it. A fault in between doubles the message. The default.
	Confirmed CopyMode = "confirmed"
	// Transactional: copy and acknowledgement are committed together (tx.commit). Each
	// settlement waits for a commit. A copy for which no queue is there is lost.
	Transactional CopyMode = "transactional"
	// FireAndForget: nothing is waited for; a copy may be lost.
	FireAndForget CopyMode = "fire-and-forget"
)

// CopyPublish chooses how copies are published. Open refuses it for a queue of which no
// copies are made.
func CopyPublish(m CopyMode) Option {
	return func(o *options) {
		switch {
		case m != Confirmed && m != Transactional && m != FireAndForget:
			o.wrong("CopyPublish(%q): it is confirmed, transactional or fire-and-forget", m)
		case o.publish != "" && o.publish != m:
			o.wrong("CopyPublish is both %s and %s: a channel cannot do both", o.publish, m)
		}
		o.publish = m
	}
}

// CopyTo makes the copies of Retry, on a classic queue with a cap, go to another queue than
// the one that is consumed: one from which somebody brings them back.
func CopyTo(queue string) Option {
	return func(o *options) {
		if queue == "" {
			o.wrong(`CopyTo(""): name a queue`)
		}
		o.copyTo = queue
	}
}

// DelayInProcess makes RetryAfter on a queue without delays acknowledge the message, wait in
// this process and then publish a copy, so that no place of the prefetch is held. A crash
// while it waits loses the message; a stop in order publishes it at once. Without this
// option the delivery is held back unsettled, and nothing is lost.
func DelayInProcess() Option { return func(o *options) { o.inProcess = true } }

// ConfirmTimeout is how long the confirm of a copy is waited for before the original goes
// back to its queue; the default is 30 s.
func ConfirmTimeout(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.wrong("ConfirmTimeout(%s): it is more than 0", d)
		}
		o.confirmTimeout = d
	}
}

// StopTimeout is how long Run goes on with the deliveries that the consumer has when it
// is stopped; the default is 30 s. What is left goes back to the queue.
func StopTimeout(d time.Duration) Option { return func(o *options) { o.stopTimeout = max(d, 0) } }

// MaxHold bounds how long a delivery is kept back by RetryAfter on a queue without
// delays; the default is 10 minutes. It must stay under the broker's consumer timeout,
// 30 minutes by default.
func MaxHold(d time.Duration) Option { return func(o *options) { o.max = max(d, 0) } }

// Tag is the consumer tag; the default is one of its own.
func Tag(tag string) Option { return func(o *options) { o.tag = tag } }

// Priority is the consumer's priority (x-priority): the broker prefers higher ones.
func Priority(n int) Option {
	return func(o *options) { o.args = map[string]any{"x-priority": int32(n)} }
}

// By names the service in the headers of DeadLetter; the default is the name of the
// program.
func By(name string) Option { return func(o *options) { o.by = name } }

// TLS is used for a URL with amqps.
func TLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }
