// Package scenario reads and runs scripted messages: what is published, what consumers do,
// how much time passes, and what is expected of it. It runs on the simulator.
package scenario

import (
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Scenario is a script.
type Scenario struct {
	// RabbitMQ is the version to simulate; empty: the newest that the spec allows.
	RabbitMQ string
	// VirtualHost is needed where the spec has several.
	VirtualHost string
	Steps       []Step
}

// Step is one line of a script: exactly one of its fields is set.
type Step struct {
	Position topology.Position
	Publish  *Publish
	Consume  *Consume
	Advance  time.Duration
	Restart  bool // the broker
	Cut      bool // all connections
	Expect   *Expect
}

// Publish publishes messages.
type Publish struct {
	Exchange, RoutingKey string
	// ID is the message id; of several the number is added. Empty: m and a number.
	ID         string
	Body       string
	Headers    map[string]any
	Expiration time.Duration
	Priority   int64
	Transient  bool
	Count      int64 // 0: one
}

// Consume is a consumer that takes what is in a queue and then goes.
type Consume struct {
	Queue   string
	Outcome string // see Outcomes
	// Delay is that of retry-after.
	Delay time.Duration
	// Category is that of dead-letter.
	Category string
	Count    int64 // how many deliveries at most; 0: until the queue is empty
}

// Outcomes are what a consumer does with a delivery: the frames of AMQP, and what package
// consumer makes of the outcomes of handlers.
var Outcomes = []string{"ack", "reject", "requeue", "nack", "crash", "retry", "retry-after", "retry-later", "drop", "dead-letter"}

// byHelper are those that package consumer carries out.
var byHelper = map[string]bool{"retry": true, "retry-after": true, "retry-later": true, "drop": true, "dead-letter": true}

// Expect is what must be so.
type Expect struct {
	// Queue has Messages.
	Queue    string
	Messages *int64
	// Message (an id) is In a queue, or was Acknowledged, or Lost.
	Message      string
	In           string
	Acknowledged bool
	Lost         bool
	// Deliveries of Message so far.
	Deliveries *int64
	// LostTotal is how many messages are gone without an acknowledgement.
	LostTotal *int64
}
