// Package link keeps one AMQP connection for consumers and publishers: it is opened again
// when it is lost, for as long as nobody closes it.
package link

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// Link is a connection to a virtual host. It is safe for concurrent use.
type Link struct {
	wire.Dialer
	name string

	mu       sync.Mutex
	current  wire.Connection
	dialing  chan struct{} // closed when the dial that goes on has ended
	closed   bool
	blocked  string
	cleared  chan struct{} // closed when blocked becomes ""
	watchers map[int]func(reason string)
	next     int
}

// New makes a link that is not open yet. The broker shows the name beside its
// connection.
func New(d wire.Dialer, name string) *Link {
	return &Link{Dialer: d, name: name, watchers: map[int]func(string){}}
}

// Close ends the connection for good.
func (l *Link) Close() error {
	l.mu.Lock()
	current := l.current
	l.current, l.closed = nil, true
	l.unblock()
	l.mu.Unlock()
	if current == nil || current.IsClosed() {
		return nil
	}
	return current.Close()
}

// Open returns the connection that is there, or tries once to open one. Callers at the
// same time share an attempt.
func (l *Link) Open(ctx context.Context) (wire.Connection, error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, amqp091.ErrClosed
		case l.current != nil && !l.current.IsClosed():
			current := l.current
			l.mu.Unlock()
			return current, nil
		case l.dialing == nil:
			done := make(chan struct{})
			l.dialing = done
			l.mu.Unlock()
			conn, err := l.dial(ctx)
			l.mu.Lock()
			l.dialing = nil
			l.mu.Unlock()
			close(done)
			return conn, err
		}
		waiting := l.dialing
		l.mu.Unlock()
		select {
		case <-waiting:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *Link) dial(ctx context.Context) (wire.Connection, error) {
	conn, err := l.Dial(ctx, l.name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return nil, amqp091.ErrClosed
	}
	l.current = conn
	l.unblock()
	blocked := conn.NotifyBlocked(make(chan amqp091.Blocking, 1))
	go func() {
		for b := range blocked {
			l.note(conn, b)
		}
	}()
	return conn, nil
}

// unblock needs the lock.
func (l *Link) unblock() {
	if l.blocked != "" {
		l.blocked = ""
		close(l.cleared)
	}
}

func (l *Link) note(conn wire.Connection, b amqp091.Blocking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.current != conn:
		return
	case !b.Active:
		l.unblock()
		return
	case l.blocked == "":
		l.cleared = make(chan struct{})
	}
	l.blocked = cmp.Or(b.Reason, "no reason given")
	for _, w := range l.watchers {
		go w(l.blocked)
	}
}

// Blocked says why the broker takes no messages on this connection
// (connection.blocked); empty: it does. The channel is closed when it does again.
func (l *Link) Blocked() (reason string, cleared <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked, l.cleared
}

// Watch calls f in a goroutine of its own each time the broker blocks the connection,
// until stop is called.
func (l *Link) Watch(f func(reason string)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.watchers[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, id)
	}
}

const (
	firstWait   = 200 * time.Millisecond
	longestWait = 30 * time.Second
)

// Backoff is how long to wait after so many failed attempts in a row: doubled each time,
// with up to half taken off at random so that the services of a broker that comes back
// do not come all at once.
func Backoff(attempt int) time.Duration {
	d := longestWait
	if attempt < 10 {
		d = min(firstWait<<attempt, longestWait)
	}
	return d - time.Duration(rand.Int64N(int64(d)/2))
}
