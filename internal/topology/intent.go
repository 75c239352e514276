package topology

import "time"

// Role is what a queue is for.
type Role string

// The roles that a spec can give; a queue without one is a work queue.
const (
	RoleWork       Role = ""
	RoleDeadLetter Role = "dead-letter"
	RoleWait       Role = "wait"
)

// By says how a setting reaches the broker.
type By string

// The two ways.
const (
	ByArgument By = "arguments"
	ByPolicy   By = "policy"
)

// SettingValue is one setting of a queue as the spec wants it to be in effect.
type SettingValue struct {
	Value    any // canonical, in RabbitMQ's unit: milliseconds, bytes, counts
	By       By
	Position Position
}

// QueueIntent is what a spec says of a queue beyond what is sent to the broker.
type QueueIntent struct {
	Role     Role
	Owner    string
	External bool // must exist, is never changed
	// DeclaredByClients: applications redeclare the queue themselves.
	DeclaredByClients bool
	// Settings are the wanted values by canonical name ("message-ttl"), those of
	// retry and dead_letter included.
	Settings map[string]SettingValue
	// Stated are the fields that the spec itself states, for external queues:
	// "type", "durable", "auto_delete" and argument names.
	Stated map[string]bool

	Retry      *Retry
	DeadLetter *DeadLetter
	Contract   *Contract
	Loses      map[string]string // expired, overflow, rejected, ... to the reason
	Delays     []Delay           // of a hand-made wait queue
	// InheritPolicy allows a policies: entry to match a queue that has a
	// generated policy; expansion copies the keys that the queue does not set.
	InheritPolicy bool
	HidesPolicy   []string
	// AllowUnknownArguments are x- names that the catalog does not know and the
	// user means.
	AllowUnknownArguments []string

	// Generated names what made the queue (`retry of queue "refunds"`); empty
	// when it is written under queues:.
	Generated string
	// Drills says whether rabbitctl drill may use the queue.
	Drills string
	// At finds the place of a spec key below the queue: "retry.max_attempts".
	At map[string]Position
}

// ExchangeIntent is what a spec says of an exchange beyond what is sent.
type ExchangeIntent struct {
	External              bool
	DeclaredByClients     bool
	Loses                 map[string]string // unrouted to the reason
	AllowUnknownArguments []string
	Generated             string
	Stated                map[string]bool
	At                    map[string]Position
}

// Mechanism is how a delayed retry is done.
type Mechanism string

// The mechanisms of design section 3.
const (
	MechanismAuto            Mechanism = "auto"
	MechanismWaitQueue       Mechanism = "wait-queue"
	MechanismRejectCycle     Mechanism = "reject-cycle"
	MechanismDelayedRetry    Mechanism = "delayed-retry"
	MechanismDelayedExchange Mechanism = "delayed-exchange"
	MechanismPerMessage      Mechanism = "per-message"
)

// Retry is how often and after which delays a message is tried again.
type Retry struct {
	// MaxAttempts counts deliveries, the first included; 0: not stated.
	MaxAttempts int64
	Delays      []time.Duration
	// Mechanism is the one chosen: never auto after the spec was expanded, and
	// empty when there are no delays.
	Mechanism Mechanism
	// WaitQueues are the queues of the delays, in the same order; empty for
	// mechanisms without.
	WaitQueues []string
	// Exchange is the delayed exchange of MechanismDelayedExchange.
	Exchange string
}

// DeadLetter is where a message goes when it is given up.
type DeadLetter struct {
	Queue      string // "" when only an exchange is named
	Exchange   string // "" is the default exchange
	RoutingKey *string
	Via        string
	Strategy   string // at-most-once, at-least-once or ""
	Method     string // auto, modified, republish or ""
	Categories *Categories
}

// Categories route dead letters by a header to queues with different owners.
type Categories struct {
	Header    string
	Routes    []CategoryRoute
	Otherwise CategoryRoute
	// Exchange and AlternateExchange are the generated exchanges.
	Exchange          string
	AlternateExchange string
}

// CategoryRoute is one category and its queue.
type CategoryRoute struct {
	Name   string
	Queue  string
	Type   QueueType
	Owner  string
	Replay string // automatic, manual or ""
}

// Contract answers the four questions of a queue.
type Contract struct {
	None                  bool // contract: none
	Reason                string
	PublisherMayRetry     *bool
	Survives              string // nothing, restart, node-loss or ""
	RedeliveredAfterCrash *bool
	AfterFailureQueue     string
	AfterFailureOwner     string
	Position              Position
}

// Delay is one delay that a hand-made wait queue serves.
type Delay struct {
	Delay time.Duration
	Queue string
}
