package topology

import (
	"regexp"
	"strconv"
)

// QueueType is classic, quorum or stream; the empty type means that none is
// written and the virtual host's default decides.
type QueueType string

// The queue types of RabbitMQ 3.10 to 4.3.
const (
	Classic QueueType = "classic"
	Quorum  QueueType = "quorum"
	Stream  QueueType = "stream"
)

// QueueTypes are all queue types.
var QueueTypes = []QueueType{Classic, Quorum, Stream}

// Topology is the state of one or more virtual hosts of a broker, desired or
// live.
type Topology struct {
	VirtualHosts []*VirtualHost
}

// VirtualHost returns the virtual host of that name, or nil.
func (t *Topology) VirtualHost(name string) *VirtualHost {
	for _, v := range t.VirtualHosts {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// VirtualHost holds the objects of one virtual host. Live state leaves out the
// default exchange and its bindings; it keeps amq.* exchanges, since they may
// be bound to.
type VirtualHost struct {
	Name  string
	Stack string // owner's name in the spec; empty: none, or live state

	// DefaultQueueType is what a queue without a type becomes. Empty: unknown.
	DefaultQueueType QueueType
	// Settings are those of the virtual host itself; nil: the spec does not say.
	Settings *VirtualHostSettings

	Exchanges        []*Exchange
	Queues           []*Queue
	Bindings         []*Binding
	Policies         []*Policy
	OperatorPolicies []*Policy
	Parameters       []*Parameter
	Permissions      []*Permission
	TopicPermissions []*TopicPermission

	// The following are set by specs only.
	Publishers []*Publisher
	Consumers  []*Consumer
	// External objects must exist and are never changed: patterns for objects
	// that frameworks make.
	External []ExternalPattern
	// Plugins are those that the spec requires of the broker.
	Plugins  []string
	Position Position
}

// Exchange returns the exchange of that name, or nil. It searches linearly; use
// Index for many look-ups.
func (v *VirtualHost) Exchange(name string) *Exchange {
	for _, e := range v.Exchanges {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// Queue returns the queue of that name, or nil. It searches linearly; use Index
// for many look-ups.
func (v *VirtualHost) Queue(name string) *Queue {
	for _, q := range v.Queues {
		if q.Name == name {
			return q
		}
	}
	return nil
}

// Objects lists everything that lives on a broker, by kind in the order in
// which kinds are created, each kind in its own order.
func (v *VirtualHost) Objects() []Object {
	all := make([]Object, 0, 1+len(v.Permissions)+len(v.TopicPermissions)+len(v.Parameters)+len(v.OperatorPolicies)+
		len(v.Policies)+len(v.Exchanges)+len(v.Queues)+len(v.Bindings))
	if v.Settings != nil {
		all = append(all, v.Settings)
	}
	for _, o := range v.Permissions {
		all = append(all, o)
	}
	for _, o := range v.TopicPermissions {
		all = append(all, o)
	}
	for _, o := range v.Parameters {
		all = append(all, o)
	}
	for _, o := range v.OperatorPolicies {
		all = append(all, o)
	}
	for _, o := range v.Policies {
		all = append(all, o)
	}
	for _, o := range v.Exchanges {
		all = append(all, o)
	}
	for _, o := range v.Queues {
		all = append(all, o)
	}
	for _, o := range v.Bindings {
		all = append(all, o)
	}
	return all
}

// Index finds the objects of a virtual host by name.
type Index struct {
	Exchanges map[string]*Exchange
	Queues    map[string]*Queue
	// From lists the bindings by source exchange, To those by destination.
	From map[string][]*Binding
	To   map[End][]*Binding
}

// End is one end of a binding: an exchange or a queue.
type End struct {
	Type DestinationType
	Name string
}

// Index builds the look-up tables.
func (v *VirtualHost) Index() *Index {
	x := &Index{
		Exchanges: make(map[string]*Exchange, len(v.Exchanges)),
		Queues:    make(map[string]*Queue, len(v.Queues)),
		From:      make(map[string][]*Binding),
		To:        make(map[End][]*Binding, len(v.Bindings)),
	}
	for _, e := range v.Exchanges {
		x.Exchanges[e.Name] = e
	}
	for _, q := range v.Queues {
		x.Queues[q.Name] = q
	}
	for _, b := range v.Bindings {
		x.From[b.Source] = append(x.From[b.Source], b)
		end := End{b.DestinationType, b.Destination}
		x.To[end] = append(x.To[end], b)
	}
	return x
}

// VirtualHostSettings are what a spec may say of the virtual host itself. Nil
// and empty fields are not stated.
type VirtualHostSettings struct {
	VirtualHost      string
	Description      *string
	Tags             []string
	DefaultQueueType QueueType
	// Limits are max-connections and max-queues. They are stated together: where the
	// map is not nil, one that it lacks is none.
	Limits              map[string]int64
	ProtectFromDeletion *bool
	Position            Position
}

// Exchange is an exchange. Arguments include alternate-exchange.
type Exchange struct {
	VirtualHost string
	Name        string
	Type        string
	Durable     bool
	AutoDelete  bool
	Internal    bool
	// InternalUnknown says that the source does not tell whether the exchange is
	// internal (definitions exports of 4.3).
	InternalUnknown bool
	Arguments       Arguments

	Intent   *ExchangeIntent // what only a spec says; nil on live state
	Position Position
}

// LockPrefix begins the names of the queues by which runs of rabbitctl exclude each
// other. They are never part of a topology.
const LockPrefix = "rabbitctl.lock:"

// HoldPrefix begins the name of the queue that holds the messages of another while
// that is replaced.
const HoldPrefix = "rabbitctl.hold:"

// Queue is a queue. Arguments do not hold x-queue-type, which is Type.
type Queue struct {
	VirtualHost string
	Name        string
	Type        QueueType
	Durable     bool
	AutoDelete  bool
	Exclusive   bool
	Arguments   Arguments

	Intent   *QueueIntent // what only a spec says; nil on live state
	Position Position
}

// DestinationType is what a binding leads to.
type DestinationType string

// The two ends that a binding can lead to.
const (
	ToQueue    DestinationType = "queue"
	ToExchange DestinationType = "exchange"
)

// Binding routes from a source exchange to a queue or an exchange.
type Binding struct {
	VirtualHost     string
	Source          string
	Destination     string
	DestinationType DestinationType
	RoutingKey      string
	Arguments       Arguments
	// PropertiesKey is the broker's own name for a live binding, as the
	// management API writes it; empty when unknown.
	PropertiesKey string

	Generated string // what in the spec made it, "" when it is written there
	Position  Position
}

// Policy is a policy or, with Operator, an operator policy.
type Policy struct {
	VirtualHost string
	Name        string
	Operator    bool
	Pattern     string
	ApplyTo     string // queues, classic_queues, quorum_queues, streams, exchanges, all
	Priority    int64
	Definition  Arguments

	// Queue is the queue that a generated policy belongs to; empty for others.
	Queue    string
	Position Position
	// At finds the place of a key below the policy: "definition.max-length".
	At map[string]Position
}

// Parameter is a runtime parameter of a component (shovel, federation-upstream).
type Parameter struct {
	VirtualHost string
	Component   string
	Name        string
	Value       any // canonical
	Position    Position
}

// Permission holds a user's three patterns in a virtual host.
type Permission struct {
	VirtualHost            string
	User                   string
	Configure, Write, Read string
	Position               Position
}

// TopicPermission holds a user's two patterns for a topic exchange.
type TopicPermission struct {
	VirtualHost string
	User        string
	Exchange    string
	Write, Read string
	Position    Position
}

// Publisher says who publishes what, for the flow analysis.
type Publisher struct {
	Name        string
	Exchange    string
	RoutingKeys []string
	Headers     map[string]any
	CC          []string
	Mandatory   bool
	Position    Position
}

// Consumer says who consumes from which queue.
type Consumer struct {
	Name     string
	Queue    string
	Prefetch int64
	Position Position
}

// ExternalPattern covers objects that frameworks make: they are never changed
// and may be referred to.
type ExternalPattern struct {
	Pattern  *regexp.Regexp
	Text     string
	Position Position
}

// Key implements Object.
func (s *VirtualHostSettings) Key() Key {
	return Key{Kind: KindVirtualHost, VirtualHost: s.VirtualHost}
}

// Key implements Object.
func (e *Exchange) Key() Key { return Key{KindExchange, e.VirtualHost, e.Name} }

// Key implements Object.
func (q *Queue) Key() Key { return Key{KindQueue, q.VirtualHost, q.Name} }

// Key implements Object. The name is "source => queue destination [key] {args}",
// with names quoted where they hold anything but letters, digits and . _ : -.
func (b *Binding) Key() Key {
	name := quoteName(b.Source) + " => " + string(b.DestinationType) + " " + quoteName(b.Destination)
	if b.RoutingKey != "" {
		name += " [" + quoteName(b.RoutingKey) + "]"
	}
	if len(b.Arguments) > 0 {
		name += " " + Text(b.Arguments)
	}
	return Key{KindBinding, b.VirtualHost, name}
}

// Key implements Object.
func (p *Policy) Key() Key {
	if p.Operator {
		return Key{KindOperatorPolicy, p.VirtualHost, p.Name}
	}
	return Key{KindPolicy, p.VirtualHost, p.Name}
}

// Key implements Object.
func (p *Parameter) Key() Key { return Key{KindParameter, p.VirtualHost, p.Component + "/" + p.Name} }

// Key implements Object.
func (p *Permission) Key() Key { return Key{KindPermission, p.VirtualHost, p.User} }

// Key implements Object.
func (p *TopicPermission) Key() Key {
	return Key{KindTopicPermission, p.VirtualHost, p.User + "/" + p.Exchange}
}

// Place implements Object.
func (s *VirtualHostSettings) Place() Position { return s.Position }

// Place implements Object.
func (e *Exchange) Place() Position { return e.Position }

// Place implements Object.
func (q *Queue) Place() Position { return q.Position }

// Place implements Object.
func (b *Binding) Place() Position { return b.Position }

// Place implements Object.
func (p *Policy) Place() Position { return p.Position }

// Place implements Object.
func (p *Parameter) Place() Position { return p.Position }

// Place implements Object.
func (p *Permission) Place() Position { return p.Position }

// Place implements Object.
func (p *TopicPermission) Place() Position { return p.Position }

// quoteName leaves plain names as they are and quotes all others, so that a
// composed name stays unambiguous and free of control characters.
func quoteName(s string) string {
	if s == "" {
		return `""`
	}
	for _, r := range s {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			r == '.' || r == '_' || r == ':' || r == '-' || r == '#' || r == '*'
		if !plain {
			return strconv.Quote(s)
		}
	}
	return s
}
