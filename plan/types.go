// Package plan compares a desired topology with a live one and says what has to
// change, in which order, at which cost, and what must not be done without
// consent. It is pure: it reads nothing and changes nothing.
//
// The package serves the command; its Go API may change. The JSON form of a
// plan is documented in docs/plan-json.md and keeps its promise.
package plan

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Action is what is done with an object.
type Action string

// The actions. A replace is a delete and a create; queues keep their messages.
const (
	Create  Action = "create"
	Update  Action = "update"
	Replace Action = "replace"
	Delete  Action = "delete"
)

// Server is what the plan has to know of the broker.
type Server struct {
	Version     catalog.Version `json:"-"`
	ClusterName string          `json:"cluster_name,omitempty"`
	// ExchangeTypes are those that the broker reports; nil: unknown, as for a
	// definitions file.
	ExchangeTypes []string `json:"-"`
}

// Input is what Compute compares.
type Input struct {
	Desired *topology.Topology
	Live    *topology.Topology
	Server  Server
	// Digest identifies the spec; it is asked only for what is written down.
	Digest func() string
	// Counts holds what is known of live queues, by key; nil or absent: unknown.
	Counts map[topology.Key]Counts
	// Offline says that the live side is a file: counts stay unknown.
	Offline bool
	// Targets limits the plan to these objects and what they need; empty: all.
	Targets []topology.Key
	// Allowed are consents given by --allow and --adopt.
	Allowed []Consent
	// ConsumersLeave says that a replacement waits for the consumers of its queue, so
	// that they do not block it.
	ConsumersLeave bool
	// Owners says by virtual host what is recorded of who owns what; without,
	// nothing is deleted but generated policies that their queue no longer needs.
	Owners map[string]*ownership.View
	// Destroy deletes virtual hosts that are recorded too, when nothing else is in
	// them. User is who does it: its own permissions go with them.
	Destroy bool
	User    string
	// Secret resolves the references in a desired value such as a parameter's, so that
	// a changed secret is seen; nil, or false for one that is not set: a reference
	// stands for anything.
	Secret func(value any) (resolved any, ok bool)
}

// Counts is what a live queue holds. Nil: unknown.
type Counts struct {
	Messages  *int64 `json:"messages,omitempty"`
	Consumers *int64 `json:"consumers,omitempty"`
}

// Consent allows one action on the objects of a kind whose name is Name, or matches
// it as a shell pattern.
type Consent struct {
	Action string // replace, delete, lossy, adopt
	Kind   topology.Kind
	Name   string
}

// Plan is the result. Changes are in an order in which they can be carried out
// one by one.
type Plan struct {
	Server Server
	// Digest identifies the spec; nil: unknown.
	Digest  func() string
	Changes []*Change
	// Routes are named groups of changes: "route/VHOST/EXCHANGE" is done when
	// everything that messages of that exchange need to arrive is done,
	// "route/VHOST/EXCHANGE/KEY" for messages with one routing key. Members are
	// IDs of changes and of other routes; no route contains itself.
	Routes map[string][]string
	// Notes are differences that need no change, and hints.
	Notes []Note
	// Unmanaged are live objects that the spec does not name and that are not
	// recorded as the stack's; they are never touched.
	Unmanaged []topology.Key
	// LeftBehind are live objects that are recorded as the stack's, are not in the
	// spec any more and are not deleted by this plan.
	LeftBehind []topology.Key
	// Adopt are live objects that are as the spec says and will be recorded as the
	// stack's, so that they are deleted when they leave the spec.
	Adopt []topology.Key
	// Stacks are the stacks by virtual host whose records the plan was made from.
	Stacks map[string]string
	// Fingerprints are of the live state that the changes were computed from, by
	// the change's ID.
	Fingerprints map[string]string

	wantsCounts []topology.Key
}

// SpecDigest identifies the spec that the plan was made of; empty: unknown.
func (p *Plan) SpecDigest() string {
	if p.Digest == nil {
		return ""
	}
	return p.Digest()
}

// WantsCounts are the live queues whose number of messages decides whether a
// change is blocked, or belongs to its cost. Compute again with Input.Counts
// filled; streams are not among them, they never count as empty.
func (p *Plan) WantsCounts() []topology.Key { return p.wantsCounts }

// Change is one object's difference.
type Change struct {
	// ID is unique in the plan: "queue/VHOST/NAME" with the parts path-escaped.
	ID     string
	Key    topology.Key
	Action Action
	// Before is the live object, nil on create; After the desired one, nil on
	// delete.
	Before, After topology.Object
	Fields        []Field
	Reasons       []Reason
	Cost          Cost
	// Blocked says why apply must not do it; empty: it may.
	Blocked []Block
	// Needs are IDs of changes and routes that must be done before.
	Needs []string
	// NeedsEmpty are queues that would lose messages by it and that were empty when
	// they were counted, so that it is not blocked; they must still be. The delete of
	// a queue that names itself here needs the proof that it is empty.
	NeedsEmpty []string
}

// Field is one differing field. A nil Old or New means absent.
type Field struct {
	Name     string
	Old, New any
	// Fixed says that the broker fixes the field at declaration.
	Fixed bool
}

// Reason explains a change; it never decides anything in apply.
type Reason struct {
	Code string // missing, differs, fixed-at-declaration, ...
	Text string
}

// Cost is what a change puts at risk or has to restore.
type Cost struct {
	Counts
	// Bindings is how many bindings a replacement has to restore.
	Bindings int
	// SecondsEstimated is how long the broker is expected to be busy with it, for
	// policies on many queues; 0: negligible.
	SecondsEstimated float64
}

// Block is a reason not to run a change, and what lifts it.
type Block struct {
	Code   string // replace, lossy, effective-value, exchange-type-missing, ...
	Text   string
	Unlock string
}

// Note is a difference that needs no change.
type Note struct {
	Key  topology.Key
	Code string
	Text string
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Adopt) == 0 }

// WithoutVirtualHosts takes the deletes of virtual hosts out of a plan: each is done
// when everything else is, since all that is in one goes with it.
func (p *Plan) WithoutVirtualHosts() (rest *Plan, hosts []*Change) {
	n := *p
	n.Changes = nil
	for _, c := range p.Changes {
		if c.Action == Delete && c.Key.Kind == topology.KindVirtualHost && len(c.Blocked) == 0 {
			hosts = append(hosts, c)
		} else {
			n.Changes = append(n.Changes, c)
		}
	}
	return &n, hosts
}

// NeedsEmpty are the queues that have to be empty still when the plan is carried
// out.
func (p *Plan) NeedsEmpty() []topology.Key {
	var keys []topology.Key
	for _, c := range p.Changes {
		if len(c.Blocked) == 0 {
			for _, name := range c.NeedsEmpty {
				keys = append(keys, topology.Key{Kind: topology.KindQueue, VirtualHost: c.Key.VirtualHost, Name: name})
			}
		}
	}
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

// BlockedChanges are the changes that apply must not do.
func (p *Plan) BlockedChanges() []*Change {
	var blocked []*Change
	for _, c := range p.Changes {
		if len(c.Blocked) > 0 {
			blocked = append(blocked, c)
		}
	}
	return blocked
}
