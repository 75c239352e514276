package validate

import (
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// state is what all rules share on one virtual host.
type state struct {
	vhost         *topology.VirtualHost
	index         *topology.Index
	queues        []*topology.Queue     // ours
	live          *topology.VirtualHost // nil offline
	liveIndex     *topology.Index
	versions      []catalog.Version
	partial       bool // an export of 4.3, see leftOut
	binding       bool // the versions are chosen, not just all that there are
	exchangeTypes []string

	policies map[catalog.Version]*policy.Set
	resolved map[*topology.Queue]*resolved
	matched  map[catalog.Version][]matched
	written  map[*topology.Policy]bool
	graphs   map[catalog.Version]*flow.Graph
	circles  map[catalog.Version][]flow.Cycle
	ended    *ends // nil: not yet worked out
	similar  *similar
}

func newState(vhost, live *topology.VirtualHost, versions []catalog.Version, exchangeTypes []string) *state {
	s := &state{
		vhost: vhost, index: vhost.Index(), live: live, versions: versions, exchangeTypes: exchangeTypes,
		partial:  slices.ContainsFunc(vhost.Exchanges, func(e *topology.Exchange) bool { return e.InternalUnknown }),
		binding:  len(versions) < len(catalog.Releases),
		policies: map[catalog.Version]*policy.Set{},
		resolved: map[*topology.Queue]*resolved{},
		matched:  map[catalog.Version][]matched{},
		written:  map[*topology.Policy]bool{},
		graphs:   map[catalog.Version]*flow.Graph{},
		circles:  map[catalog.Version][]flow.Cycle{},
		similar:  &similar{names: map[topology.Kind][]string{}, found: map[topology.Key]string{}},
	}
	for _, p := range s.specPolicies() {
		s.written[p] = true
	}
	for _, q := range vhost.Queues {
		if !isExternal(q) {
			s.queues = append(s.queues, q)
		}
	}
	if live != nil {
		s.liveIndex = live.Index()
	}
	return s
}

// presence says what is known of an object that something refers to.
type presence int

const (
	missing  presence = iota // not declared, not on the broker
	liveOnly                 // on the broker and not in the spec
	external                 // said to exist, nothing more is known
	declared
)

// queue says whether a queue is there.
func (s *state) queue(name string) (*topology.Queue, presence) {
	if q := s.index.Queues[name]; q != nil {
		if isExternal(q) {
			return q, external
		}
		return q, declared
	}
	if s.isExternal(name) || s.leftOut(topology.End{Type: topology.ToQueue, Name: name}) {
		return nil, external
	}
	if s.liveIndex != nil {
		if q := s.liveIndex.Queues[name]; q != nil {
			return q, liveOnly
		}
	}
	return nil, missing
}

// exchange says whether an exchange is there; the broker's own are external.
func (s *state) exchange(name string) (*topology.Exchange, presence) {
	if e := s.index.Exchanges[name]; e != nil {
		if e.Intent != nil && e.Intent.External || strings.HasPrefix(name, "amq.") {
			return e, external
		}
		return e, declared
	}
	if isBuiltIn(name) || s.isExternal(name) || s.leftOut(topology.End{Type: topology.ToExchange, Name: name}) {
		return nil, external
	}
	if s.liveIndex != nil {
		if e := s.liveIndex.Exchanges[name]; e != nil {
			return e, liveOnly
		}
	}
	return nil, missing
}

// builtIn are the exchanges that every virtual host has, with their types.
var builtIn = map[string]string{
	"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers",
	"amq.match": "headers", "amq.rabbitmq.trace": "topic", "amq.rabbitmq.log": "topic",
}

func isBuiltIn(name string) bool { return name == "" || builtIn[name] != "" }

func (s *state) isExternal(name string) bool {
	return slices.ContainsFunc(s.vhost.External, func(x topology.ExternalPattern) bool {
		return x.Pattern != nil && x.Pattern.MatchString(name)
	})
}

// leftOut reports whether an end of a binding is there although the topology
// does not have it: exports of 4.3 leave out internal exchanges and exclusive
// queues and keep their bindings (measured).
func (s *state) leftOut(end topology.End) bool {
	return s.partial && (len(s.index.To[end]) > 0 || end.Type == topology.ToExchange && len(s.index.From[end.Name]) > 0)
}

func isExternal(q *topology.Queue) bool { return q.Intent != nil && q.Intent.External }

// typeOf is the queue's type, the virtual host's default where none is written.
func (s *state) typeOf(q *topology.Queue) topology.QueueType {
	switch {
	case q.Type != "":
		return q.Type
	case s.vhost.DefaultQueueType != "" && q.Durable && !q.AutoDelete && !q.Exclusive:
		return s.vhost.DefaultQueueType
	}
	return topology.Classic
}

// ours are the queues that the spec declares; on a live topology all.
func (s *state) ours() []*topology.Queue { return s.queues }

// ourExchanges are the exchanges that the spec declares; on a live topology all
// but the broker's own.
func (s *state) ourExchanges() []*topology.Exchange {
	var all []*topology.Exchange
	for _, e := range s.vhost.Exchanges {
		if e.Intent != nil && e.Intent.External || e.Name == "" || e.Intent == nil && strings.HasPrefix(e.Name, "amq.") {
			continue
		}
		all = append(all, e)
	}
	return all
}

// role is the queue's role.
func role(q *topology.Queue) topology.Role {
	if q.Intent == nil {
		return topology.RoleWork
	}
	return q.Intent.Role
}

// intent is what the spec says of a queue, empty on live state.
func intent(q *topology.Queue) *topology.QueueIntent {
	if q.Intent == nil {
		return &topology.QueueIntent{}
	}
	return q.Intent
}

// accepted reports whether the spec says with a reason that the queue loses
// messages in one of these ways.
func accepted(q *topology.Queue, ways ...string) bool {
	return slices.ContainsFunc(ways, func(w string) bool { return intent(q).Loses[w] != "" })
}

// place is where the spec gives a setting of a queue.
func place(q *topology.Queue, name string) topology.Position {
	in := intent(q)
	if s, ok := in.Settings[name]; ok && !s.Position.IsZero() {
		return s.Position
	}
	if row := catalog.Lookup(name); row != nil && row.Argument != "" {
		if at, ok := in.At["arguments."+row.Argument]; ok {
			return at
		}
	}
	return q.Position
}

// at is the place of the first of some spec keys below a queue that is written.
func at(q *topology.Queue, keys ...string) topology.Position {
	for _, k := range keys {
		if p, ok := intent(q).At[k]; ok {
			return p
		}
	}
	return q.Position
}

// newest is the newest version that the topology must be right for.
func (s *state) newest() catalog.Version { return s.versions[len(s.versions)-1] }

// meantToVanish reports whether the contract says that nothing need survive.
func meantToVanish(q *topology.Queue) bool {
	c := intent(q).Contract
	return c != nil && c.Survives == "nothing"
}

// isEphemeral reports whether a queue is made to go with its consumer, such as one
// for replies: transient-queue says what there is to say of it, unless a contract
// promises more.
func isEphemeral(q *topology.Queue) bool {
	return q.AutoDelete && !q.Durable && intent(q).Contract == nil
}

// isWritten reports whether a policy is one of specPolicies.
func (s *state) isWritten(p *topology.Policy) bool { return s.written[p] }

// specPolicies are the policies and operator policies that are written, not
// generated.
func (s *state) specPolicies() []*topology.Policy {
	var all []*topology.Policy
	for _, p := range s.vhost.Policies {
		if p.Queue == "" {
			all = append(all, p)
		}
	}
	return append(all, s.vhost.OperatorPolicies...)
}

// generatedPolicies are those that queues' settings make.
func (s *state) generatedPolicies() []*topology.Policy {
	return slices.DeleteFunc(slices.Clone(s.vhost.Policies), func(p *topology.Policy) bool { return p.Queue == "" })
}
