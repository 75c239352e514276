package publisher

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
)

// Option sets up a publisher. Mistakes are reported by Open, all at once.
type Option func(*options)

type options struct {
	name, appID string
	requireID   bool
	outstanding int
	timeout     time.Duration
	log         *slog.Logger
	tls         *tls.Config
	wrong       []error
	telemetry   telemetry.Providers
}

func defaults() options {
	return options{name: filepath.Base(os.Args[0]), outstanding: 1000, timeout: 30 * time.Second, log: slog.Default()}
}

func (o *options) complain(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Errorf(format, args...))
}

// check returns all that is wrong with the options.
func (o *options) check() error {
	if len(o.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("publisher: %w", errors.Join(o.wrong...))
}

// Name is shown by the broker beside the connection; the default is the program's.
func Name(name string) Option { return func(o *options) { o.name = name } }

// AppID is the property app_id of every message.
func AppID(id string) Option {
	return func(o *options) {
		if len(id) > longest {
			o.complain("AppID has %d bytes, AMQP allows %d", len(id), longest)
		}
		o.appID = id
	}
}

// RequireMessageID refuses messages without an ID.
func RequireMessageID() Option { return func(o *options) { o.requireID = true } }

// MaxOutstanding is how many messages may wait for their confirm at a time; the default is
// 1000. More wait in PublishAsync.
func MaxOutstanding(n int) Option {
	return func(o *options) {
		if n < 1 {
			o.complain("MaxOutstanding(%d): it is at least 1", n)
		}
		o.outstanding = n
	}
}

// ConfirmTimeout bounds each publish, from waiting for a connection to the confirm; the
// default is 30 s.
func ConfirmTimeout(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.complain("ConfirmTimeout(%s): it is more than 0", d)
		}
		o.timeout = d
	}
}

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
