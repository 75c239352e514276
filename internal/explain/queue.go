package explain

import (
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Queue explains one queue.
type Queue struct {
	VirtualHost string `json:"vhost"`
	Name        string `json:"name"`
	// RabbitMQ is the version that the answer is for.
	RabbitMQ string `json:"rabbitmq"`
	Type     string `json:"type"`
	// TypeFrom says where the type comes from, in words.
	TypeFrom   string            `json:"type_from"`
	Durable    bool              `json:"durable"`
	AutoDelete bool              `json:"auto_delete"`
	Exclusive  bool              `json:"exclusive"`
	External   bool              `json:"external"`
	Role       string            `json:"role,omitempty"`
	Owner      string            `json:"owner,omitempty"`
	Generated  string            `json:"generated,omitempty"` // what in the spec made it
	Position   topology.Position `json:"position,omitzero"`

	Settings []Setting `json:"settings"`
	// Idle are arguments that do nothing on this queue.
	Idle     []Idle   `json:"without_effect"`
	Policies []Policy `json:"policies"`
	// Incoming are the bindings that lead to the queue; the default exchange leads to
	// it too. More counts those left out.
	Incoming []string `json:"incoming"`
	More     int      `json:"incoming_left_out"`

	Deliveries Deliveries `json:"deliveries"`
	// Failures are all ways to leave the queue without being acknowledged.
	Failures []Failure `json:"failures"`
	// Then are the queues that dead letters come to, and what happens there.
	Then     []Stage   `json:"then"`
	LeftOut  int       `json:"then_left_out"`
	Cycles   []Cycle   `json:"cycles"`
	ToQuorum *ToQuorum `json:"to_quorum,omitempty"`
}

// maxIncoming bounds the bindings listed.
const maxIncoming = 20

// Queue explains a queue; nil: there is none of that name.
func (e *Explainer) Queue(name string) *Queue {
	raw := e.index.Queues[name]
	if raw == nil {
		return nil
	}
	q, from := e.typed(raw)
	out := &Queue{
		VirtualHost: e.vhost.Name, Name: name, RabbitMQ: e.version.String(), Type: string(q.Type), TypeFrom: from,
		Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Position: q.Position,
		Incoming: []string{}, Then: []Stage{}, Cycles: []Cycle{},
	}
	if in := q.Intent; in != nil {
		out.External, out.Role, out.Owner, out.Generated = in.External, string(in.Role), in.Owner, in.Generated
	}
	match := e.set.Queue(name, q.Type)
	effective := e.set.Effective(q, match)
	out.Settings, out.Idle = e.settings(q, match, effective)
	out.Policies = e.policies(q, match)
	for i, b := range e.index.To[topology.End{Type: topology.ToQueue, Name: name}] {
		if i >= maxIncoming {
			out.More++
			continue
		}
		out.Incoming = append(out.Incoming, bindingText(b))
	}
	out.Deliveries = e.deliveries(q, effective)
	out.Failures = e.failures(q, effective)
	out.Then, out.LeftOut = e.then(name)
	out.Cycles = e.cycles(name)
	out.ToQuorum = e.toQuorum(q, effective)
	return out
}
