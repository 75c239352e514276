package amqp1

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
	"github.com/rabbitctl/rabbitctl/specs"
)

// Option sets up a consumer. Mistakes are reported by Open, all at once.
type Option func(*options)

type options struct {
	queue, category   string
	by                string
	prefetch, workers int
	history           int
	classic           bool
	stop              time.Duration
	onPanic, onError  Policy
	onReport          func(error)
	log               *slog.Logger
	tls               *tls.Config
	wrong             []string
	telemetry         telemetry.Providers
}

func defaults() options {
	return options{
		by: filepath.Base(os.Args[0]), category: DeadLetterCategory, prefetch: 10, workers: 1, history: 10, stop: 30 * time.Second,
		onPanic: FailFast(), onError: Settle(Requeue(RequeueInfo{Reason: "the handler failed"})), log: slog.Default(),
	}
}

func (o *options) complain(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// Queue names the queue.
func Queue(name string) Option { return func(o *options) { o.queue = name } }

// FromSpec names the queue, and takes the header of its categories from a spec.
func FromSpec(fsys fs.FS, file, queue string) Option {
	return func(o *options) {
		o.queue = queue
		files, err := specs.ReadFS(fsys, file)
		if err != nil {
			o.complain("read the spec: %v", err)
			return
		}
		spec, findings := specs.Load(specs.Input{Files: files})
		for _, d := range findings {
			if d.Severity == "error" {
				o.complain("%s: %s", d.Position, d.Summary)
			}
		}
		if findings.HasErrors() {
			return
		}
		found := false
		for _, v := range spec.VirtualHosts {
			for _, q := range v.Queues {
				if q.Name != queue {
					continue
				}
				found = true
				if q.DeadLetter != nil && q.DeadLetter.Categories != nil && q.DeadLetter.Categories.Header != "" {
					o.category = q.DeadLetter.Categories.Header
				}
			}
		}
		if !found {
			o.complain("the spec %s has no queue %q", file, queue)
		}
	}
}

// Prefetch is how many messages are at the consumer unsettled at a time (link credit); the
// default is 10.
func Prefetch(n int) Option {
	return func(o *options) {
		if n < 1 || n > 65535 {
			o.complain("Prefetch(%d): it is 1 to 65535", n)
		}
		o.prefetch = n
	}
}

// Concurrency is how many messages are handled at a time; the default is 1.
func Concurrency(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.complain("Concurrency(%d): it is at least 1", n)
		}
		o.workers = n
	}
}

// MaxHistory is how many entries the history of Requeue keeps, the oldest are dropped; the
// default is 10, 0 keeps none.
func MaxHistory(n int) Option { return func(o *options) { o.history = max(n, 0) } }

// AllowClassic takes a classic queue too. It drops annotations without a word, so that
// Requeue and Discard are errors of the handler there.
func AllowClassic() Option { return func(o *options) { o.classic = true } }

// By names the service in annotations; the default is the program's name.
func By(name string) Option { return func(o *options) { o.by = name } }

// StopTimeout is how long Run goes on with the messages that the consumer has when it is
// stopped; the default is 30 s. What is left is released.
func StopTimeout(d time.Duration) Option { return func(o *options) { o.stop = max(d, 0) } }

// OnPanic says what becomes of a message whose handler panics; the default is FailFast.
func OnPanic(p Policy) Option { return func(o *options) { o.onPanic = p } }

// OnError says what becomes of a message whose handler returns Failed, no outcome, or one
// that cannot be sent; the default is Settle(Requeue(...)), which counts.
func OnError(p Policy) Option { return func(o *options) { o.onError = p } }

// OnReport is told what goes wrong, from several goroutines; it must return soon.
func OnReport(f func(error)) Option { return func(o *options) { o.onReport = f } }

// Logger is used in place of slog.Default.
func Logger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.log = l
		}
	}
}

// TLS is used for a URL with amqps.
func TLS(c *tls.Config) Option { return func(o *options) { o.tls = c } }

// Policy says what becomes of a message that the handler could not judge.
type Policy struct {
	stop    bool
	outcome Outcome
}

// FailFast stops the consumer: Run returns the error, the message goes back to the queue.
func FailFast() Policy { return Policy{stop: true} }

// Settle settles the message with an outcome and goes on.
func Settle(o Outcome) Policy { return Policy{outcome: o} }
