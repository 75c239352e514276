// Package simulator is a RabbitMQ node inside the process, for tests of services:
// exchanges and queues of all types, expiry, limits, overflow, dead-lettering with
// its headers and its dropped cycles, delivery limits as each version counts them,
// delayed retry, confirms and returns. It has no network and no storage.
//
// The clock is the simulator's own: it stands still until Advance, so that a test
// of an hour's wait takes no time. Inside testing/synctest, RealTime gives it the
// bubble's clock.
//
// What it does was measured on RabbitMQ 3.10.8, 4.0.5 and 4.3.6: one suite of
// scenarios runs on the simulator as each version and on real brokers.
package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/specs"
)

// Broker is one simulated node. It is safe for concurrent use.
type Broker struct {
	version catalog.Version
	text    string // the version as clients see it
	clock   *clock // nil: the machine's
	time    wire.Clock

	mu       sync.Mutex
	hosts    map[string]*host
	open     map[*connection]bool
	ids      int    // of connections
	position uint64 // of messages in queues
	activity uint64 // counts what clients do
	down     bool
	events   func(Event) // nil: nobody wants them
	numbers  uint64      // of messages published by clients
	blocking bool
}

// Option changes what New makes.
type Option func(*Broker) error

// Version makes the broker behave as that version, such as "3.10" or "4.3.6". The
// default is 4.3.
func Version(v string) Option {
	return func(b *Broker) error {
		parsed, err := catalog.ParseVersion(v)
		if err != nil {
			return err
		}
		b.version, b.text = parsed, v
		return nil
	}
}

// RealTime gives the broker the machine's clock, which inside testing/synctest is
// the bubble's. Advance cannot be used then.
func RealTime() Option {
	return func(b *Broker) error {
		b.clock = nil
		return nil
	}
}

// New makes a broker with the virtual host "/" and nothing else in it. It panics on
// an option that cannot be.
func New(options ...Option) *Broker {
	b := &Broker{
		version: catalog.Newest, text: catalog.Newest.String(), clock: newClock(),
		hosts: map[string]*host{}, open: map[*connection]bool{},
	}
	for _, o := range options {
		if err := o(b); err != nil {
			panic("simulator: " + err.Error())
		}
	}
	b.time = wire.System
	if b.clock != nil {
		b.time = b.clock
	}
	b.hosts["/"] = newHost(b, "/")
	return b
}

// Load declares what specs say, as apply would on an empty broker. The names are
// files of fsys. The error lists what is wrong with them.
func (b *Broker) Load(fsys fs.FS, names ...string) error {
	files, err := specs.ReadFS(fsys, names...)
	if err != nil {
		return err
	}
	spec, findings := specs.Load(specs.Input{Files: files})
	if findings.HasErrors() {
		return findingsError(findings)
	}
	expanded, findings := spec.Expand(specs.Target{Version: b.version})
	if findings.HasErrors() {
		return findingsError(findings)
	}
	return b.Declare(expanded)
}

func findingsError(list diag.List) error {
	var all []error
	for _, d := range list {
		if d.Severity == diag.Error {
			all = append(all, fmt.Errorf("%s: %s: %s", d.Position, d.Code, d.Summary))
		}
	}
	return errors.Join(all...)
}

// Declare makes the objects of a topology: virtual hosts, policies, exchanges,
// queues and bindings.
func (b *Broker) Declare(t *topology.Topology) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range t.VirtualHosts {
		h := b.hosts[v.Name]
		if h == nil {
			h = newHost(b, v.Name)
			b.hosts[v.Name] = h
		}
		h.setPolicies(v.Policies, v.OperatorPolicies)
		if t := cmp.Or(v.DefaultQueueType, settingsType(v)); t != "" {
			h.defaultType = t
		}
		for _, e := range v.Exchanges {
			if e.Intent != nil && e.Intent.External {
				continue
			}
			if err := h.declareExchange(e); err != nil {
				return fmt.Errorf("declare %s: %w", e.Key(), err)
			}
		}
		for _, q := range v.Queues {
			if _, err := h.declareQueue(q, nil); err != nil {
				return fmt.Errorf("declare %s: %w", q.Key(), err)
			}
		}
		for _, bind := range v.Bindings {
			if err := h.bind(bind); err != nil {
				return fmt.Errorf("create %s: %w", bind.Key(), err)
			}
		}
	}
	return nil
}

func settingsType(v *topology.VirtualHost) topology.QueueType {
	if v.Settings == nil {
		return ""
	}
	return v.Settings.DefaultQueueType
}

// Message is a message in a queue.
type Message struct {
	ID                   string // the property message_id
	Exchange, RoutingKey string
	Headers              map[string]any
	Body                 []byte
	// State is ready, unacked (a consumer has it), dead-lettering (at least once, and
	// its target does not take it) or delayed (4.3's delayed retry).
	State string
}

// Messages lists what is in a queue in the order in which it would be delivered; the
// ready ones first. It fails when there is no such queue.
func (b *Broker) Messages(vhost, queue string) ([]Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.find(vhost, queue)
	if err != nil {
		return nil, err
	}
	var all []Message
	add := func(state string, entries []*entry) {
		for _, e := range entries {
			m := e.message
			all = append(all, Message{
				ID: m.properties.MessageId, Exchange: m.exchange, RoutingKey: m.keys[0],
				Headers: q.headers(e, false), Body: slices.Clone(m.properties.Body), State: state,
			})
		}
	}
	add("ready", q.ready)
	add("unacked", q.unackedInOrder())
	add("dead-lettering", q.dying)
	add("delayed", q.delayed)
	return all, nil
}

// Depth is how many messages of a queue are ready: what a passive declare shows. A
// queue that does not exist has none.
func (b *Broker) Depth(vhost, queue string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, err := b.find(vhost, queue)
	if err != nil {
		return 0
	}
	return q.depth()
}

// Queues lists the names of the queues of a virtual host, sorted.
func (b *Broker) Queues(vhost string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.hosts[vhost]
	if h == nil {
		return nil
	}
	var names []string
	for name := range h.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (b *Broker) find(vhost, queue string) (*queue, error) {
	h := b.hosts[vhost]
	if h == nil {
		return nil, fmt.Errorf("there is no virtual host %q", vhost)
	}
	q := h.queues[queue]
	if q == nil {
		return nil, fmt.Errorf("there is no queue %q in virtual host %q", queue, vhost)
	}
	return q, nil
}

// CutConnections closes every connection as a lost network does: what was unacked
// comes back. Clients may connect again at once.
func (b *Broker) CutConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeAll(&closeReason{code: 320, text: "CONNECTION_FORCED - cut by the test", lost: true})
}

// Stop takes the node down: connections end, and no new one is made until Start.
// Transient queues, exchanges and messages are gone afterwards.
func (b *Broker) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = true
	b.closeAll(&closeReason{code: 320, text: "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"})
	for _, h := range b.hosts {
		h.restart()
	}
}

// Start takes the node up again.
func (b *Broker) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = false
}

// Now is the broker's time.
func (b *Broker) Now() time.Time { return b.time.Now() }
