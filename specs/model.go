// Package specs reads rabbitctl's spec language: YAML documents that describe
// virtual hosts. Load decodes and merges documents into a Spec, keeping the
// place of every key; Expand turns a Spec into the plain topology that a broker
// of a given version should hold, with the queues, exchanges, bindings and
// policies that retry, dead_letter and categories stand for. Everything after
// reading is pure.
//
// The package serves the command and the consumer package; its Go API may
// change.
package specs

import (
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Spec is what one or more documents say, merged: defaults, variables,
// repetition and overlays are worked in, shorthands are still as written.
type Spec struct {
	// VirtualHosts are in name order.
	VirtualHosts []*VirtualHost
	// Files holds the text of each file by name, to show a finding's line.
	Files map[string][]byte
}

// VirtualHost is everything that is said of one virtual host.
type VirtualHost struct {
	Name     string
	Pos      topology.Position
	At       Places
	Stack    string
	Requires Requires
	Settings *topology.VirtualHostSettings

	// Objects are in the order in which they are written.
	Exchanges        []*Exchange
	Queues           []*Queue
	Policies         []*topology.Policy
	OperatorPolicies []*topology.Policy
	Parameters       []*topology.Parameter
	Permissions      []*topology.Permission
	TopicPermissions []*topology.TopicPermission
	Publishers       []*topology.Publisher
	Consumers        []*topology.Consumer
	External         []topology.ExternalPattern
}

// Requires is what the broker must offer.
type Requires struct {
	RabbitMQ Constraint // zero: any version
	Plugins  []string
}

// Constraint is a set of versions such as ">=3.10" or ">=4.0 <4.3".
type Constraint struct {
	Text   string
	Ranges []catalog.Range // all must hold; none: every version
}

// Places finds the place of a key below an object: "retry.max_attempts",
// "arguments.x-foo", "bindings[0].routing_keys[1]". A place is that of the
// value, or of the key where the value is a collection.
type Places map[string]topology.Position

// SettingsBy says how settings reach the broker.
type SettingsBy struct {
	Default topology.By
	Each    map[string]topology.By // by canonical setting name
}

// Of returns how one setting reaches the broker.
func (s SettingsBy) Of(name string) topology.By {
	if by, ok := s.Each[name]; ok {
		return by
	}
	return s.Default
}

// Exchange is an exchange as written.
type Exchange struct {
	Name       string
	Pos        topology.Position
	At         Places
	Type       string // default direct
	Durable    bool
	AutoDelete bool
	Internal   bool
	// Arguments hold alternate-exchange, x-delayed-type and hash-header too.
	Arguments             topology.Arguments
	AllowUnknownArguments []string
	Bindings              []*Binding // for which this exchange is the destination
	External              bool
	DeclaredByClients     bool
	Loses                 map[string]string
}

// Queue is a queue as written, after defaults.
type Queue struct {
	Name       string
	Pos        topology.Position
	At         Places
	Type       topology.QueueType // "": the virtual host's default
	Durable    bool
	AutoDelete bool
	// Settings are by canonical name, values canonical and in RabbitMQ's unit.
	Settings              map[string]any
	Arguments             topology.Arguments
	AllowUnknownArguments []string
	SettingsBy            SettingsBy
	PolicyPriority        int64 // of the generated policy; default 1000
	InheritPolicy         bool
	HidesPolicy           []string
	Bindings              []*Binding

	Retry      *Retry
	DeadLetter *DeadLetter
	Role       topology.Role
	Owner      string
	Delays     []topology.Delay
	Contract   *topology.Contract
	Loses      map[string]string
	Drills     string

	External          bool
	DeclaredByClients bool
}

// Binding is one entry of bindings: one source and any number of keys.
type Binding struct {
	Pos         topology.Position
	Exchange    string
	RoutingKeys []string // at least one; "" is the empty key
	KeyPos      []topology.Position
	Match       string // x-match; "" when not written
	Arguments   topology.Arguments
}

// Retry is a queue's retry as written.
type Retry struct {
	MaxAttempts int64 // 0: not written
	Delays      []time.Duration
	Mechanism   topology.Mechanism // auto when not written
	WaitQueue   WaitQueue
}

// WaitQueue overrides the names and type of generated wait queues.
type WaitQueue struct {
	Name  string             // with one delay
	Names string             // template with {queue}, {delay} and {n} (from 1)
	Type  topology.QueueType // "": that of the work queue
}

// DeadLetter is a queue's dead-letter route as written. Nil texts are not
// written.
type DeadLetter struct {
	Queue      *string
	Exchange   *string
	RoutingKey *string
	Via        string
	Strategy   string
	Method     string
	Categories *topology.Categories
	SettingsBy topology.By // "": as the queue says
}

// Target is the broker that a spec is expanded for.
type Target struct {
	// Version decides what can be written: zero takes the newest release that
	// the spec's requires allows.
	Version catalog.Version
	// DefaultQueueTypes are those of live virtual hosts, by name. A virtual host
	// that is absent counts as classic, and the expansion notes it.
	DefaultQueueTypes map[string]topology.QueueType
}

// File is a named text to load.
type File struct {
	Name string
	Data []byte
}

// Input is everything that Load reads.
type Input struct {
	Files []File
	// Set holds variables given one by one (--set), Values files of variables,
	// Environment those of RABBITCTL_VAR_ variables without that prefix. The
	// first that has a name wins; then the document's default. Texts of Set and
	// Environment are read as YAML scalars.
	Set         map[string]string
	Values      []File
	Environment map[string]string
}

// findings is what decoding and expansion collect.
type findings = diag.List
