package consumer

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
)

// State is what a consumer is doing.
type State string

// The states of a consumer.
const (
	StateReady        State = "ready"        // Open found everything, Run was not called
	StateRunning      State = "running"      // the broker delivers
	StateReconnecting State = "reconnecting" // no deliveries until the broker or the queue is back
	StateStopping     State = "stopping"     // the last deliveries are handled
	StateStopped      State = "stopped"
)

// Health is for probes: alive as long as the state is not stopped, ready when it is
// running and nothing is blocked.
type Health struct {
	Queue string
	State State
	Since time.Time
	// Err is what was wrong last; nil while running.
	Err error
	// Blocked says why the broker takes no messages from this connection, so that
	// copies wait (connection.blocked); empty: it does.
	Blocked string
	// InFlight is how many deliveries are being handled or settled.
	InFlight int
}

// OK reports whether the consumer does its work.
func (h Health) OK() bool { return h.State == StateRunning && h.Blocked == "" }

// Health says how the consumer is.
func (c *Consumer) Health() Health {
	blocked, _ := c.conn.link.Blocked()
	c.mu.Lock()
	defer c.mu.Unlock()
	return Health{Queue: c.queue.name, State: c.state, Since: c.since, Err: c.lastErr, Blocked: blocked, InFlight: c.inFlight}
}

func (c *Consumer) become(s State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != s {
		c.state, c.since = s, c.clock.Now()
	}
	c.lastErr = err
}

func (c *Consumer) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight += n
	c.otel.inFlight.Add(context.Background(), int64(n), metric.WithAttributes(telemetry.System, c.otel.queue))
}
