package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Writer changes single objects. It is safe for concurrent use; exchanges,
// queues and bindings gain from about 16 calls at a time.
type Writer interface {
	// Create declares, binds or puts an object. One that exists and is the same
	// is no error.
	Create(ctx context.Context, o topology.Object) error
	// Update puts an object that can change in place: all but exchanges, queues
	// and bindings.
	Update(ctx context.Context, o topology.Object) error
	// Delete removes an object; one that is not there counts as removed. It does
	// not ask whether a queue is empty. Settings of a virtual host cannot be
	// deleted.
	Delete(ctx context.Context, o topology.Object) error
	// DeleteEmpty removes a queue that ProveEmpty found empty, unless something has
	// come since, which is ErrNotEmpty. q.Type must be the live type. A classic queue
	// is deleted with if-empty and if-unused, which leaves no window for what is
	// ready and for consumers, and overlooks unacknowledged messages. Quorum queues
	// know neither: they are asked on the same channel right before, which leaves one
	// round trip; what came in it was lost, and the error says how many messages. A
	// stream is refused, and so is any queue without AMQP.
	DeleteEmpty(ctx context.Context, q *topology.Queue) error
	// Via is how exchanges, queues and bindings are declared, and why not over
	// AMQP when ViaAuto chose HTTP (else nil).
	Via() (Via, error)
	Close() error
}

type writer struct {
	client   *Client
	overview *Overview
	via      Via
	why      error

	mu    sync.Mutex
	pools map[string]*pool
}

// Writer makes a writer for the virtual hosts. Before anything is written it
// compares the broker behind the AMQP address with the one behind the management
// URL; two different ones are ErrDifferentBrokers. ViaAuto chooses AMQP when
// anything answers there.
func (c *Client) Writer(ctx context.Context, vhosts []string, via Via) (Writer, error) {
	overview, err := c.Overview(ctx)
	if err != nil {
		return nil, err
	}
	w := &writer{client: c, overview: overview, via: via, pools: map[string]*pool{}}
	if via == ViaHTTP {
		return w, nil
	}
	w.via = ViaAMQP
	for _, v := range vhosts {
		_, err := w.pool(v).connect(ctx)
		switch {
		case err == nil:
			return w, nil
		case IsNotFound(err):
			continue // made later: then it is compared on connecting
		case via == ViaAuto && IsUnreachable(err):
			w.via, w.why = ViaHTTP, named(err, "connect over AMQP", topology.Key{})
			return w, nil
		}
		_ = w.Close()
		return nil, named(err, vhostSentence("connect to %s", v), topology.Key{})
	}
	return w, nil
}

// Via implements Writer.
func (w *writer) Via() (Via, error) { return w.via, w.why }

// Close implements Writer.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pools {
		p.end()
	}
	return nil
}

func (w *writer) pool(vhost string) *pool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.pools[vhost]
	if !ok {
		p = w.client.newPool(vhost, w.overview)
		w.pools[vhost] = p
	}
	return p
}

// Create implements Writer.
func (w *writer) Create(ctx context.Context, o topology.Object) error {
	if err := w.ready(ctx, "create", o); err != nil {
		return err
	}
	switch o := o.(type) {
	case *topology.Exchange:
		return named(w.declareExchange(ctx, o), "declare", o.Key())
	case *topology.Queue:
		return named(w.declareQueue(ctx, o), "declare", o.Key())
	case *topology.Binding:
		return named(w.bind(ctx, o), "create", o.Key())
	}
	return named(w.put(ctx, o), "put", o.Key())
}

// Update implements Writer.
func (w *writer) Update(ctx context.Context, o topology.Object) error {
	if err := w.ready(ctx, "update", o); err != nil {
		return err
	}
	switch o.(type) {
	case *topology.Exchange, *topology.Queue, *topology.Binding:
		return named(local("the broker cannot change it in place"), "update", o.Key())
	}
	return named(w.put(ctx, o), "update", o.Key())
}

// Delete implements Writer.
func (w *writer) Delete(ctx context.Context, o topology.Object) error {
	if err := w.ready(ctx, "delete", o); err != nil {
		return err
	}
	err := w.remove(ctx, o)
	if e, ok := as(err); ok && e.class == refused && e.Via == ViaHTTP && e.Status == http.StatusNotFound {
		return nil
	}
	return named(err, "delete", o.Key())
}

func (w *writer) ready(ctx context.Context, op string, o topology.Object) error {
	if o == nil {
		return &Error{Op: op, class: notSent, Err: errors.New("no object")}
	}
	if ctx.Err() != nil {
		return named(&Error{class: cancelled, Err: context.Cause(ctx)}, op, o.Key())
	}
	via := w.via
	if _, declared := declarable(o); !declared {
		via = ViaHTTP
	}
	return named(checkNames(via, o), op, o.Key())
}

// declarable tells the three kinds that are declared over AMQP.
func declarable(o topology.Object) (topology.Kind, bool) {
	switch k := o.Key().Kind; k {
	case topology.KindExchange, topology.KindQueue, topology.KindBinding:
		return k, true
	default:
		return k, false
	}
}

// checkNames checks each name that an object is addressed by.
func checkNames(via Via, o topology.Object) error {
	type part struct{ what, name string }
	parts := []part{{"name of the virtual host", o.Key().VirtualHost}}
	var unbounded []part
	switch o := o.(type) {
	case *topology.Exchange:
		if o.Name == "" {
			return local("the default exchange cannot be changed")
		}
		parts = append(parts, part{"name of the exchange", o.Name})
	case *topology.Queue:
		if o.Name == "" {
			return local("the name of the queue is empty")
		}
		parts = append(parts, part{"name of the queue", o.Name})
	case *topology.Binding:
		if o.Source == "" || o.Destination == "" {
			return local("bindings of the default exchange cannot be changed")
		}
		if o.DestinationType != topology.ToQueue && o.DestinationType != topology.ToExchange {
			return local("the destination type %q is neither queue nor exchange", o.DestinationType)
		}
		parts = append(parts, part{"name of the source exchange", o.Source}, part{"name of the destination", o.Destination})
		if len(o.RoutingKey) > 255 {
			return local("the routing key is %d bytes long; RabbitMQ's limit is 255", len(o.RoutingKey))
		}
	case *topology.Policy:
		unbounded = []part{{"name of the policy", o.Name}}
	case *topology.Parameter:
		unbounded = []part{{"name of the component", o.Component}, {"name of the parameter", o.Name}}
	case *topology.Permission:
		parts = append(parts, part{"name of the user", o.User})
	case *topology.TopicPermission:
		// Deleting with an empty exchange in the path would delete those of all.
		parts = append(parts, part{"name of the user", o.User}, part{"name of the exchange", o.Exchange})
	}
	for _, p := range parts {
		if err := checkAddressable(via, p.what, p.name); err != nil {
			return err
		}
	}
	for _, p := range unbounded {
		if err := checkPath(via, p.what, p.name); err != nil {
			return err
		}
	}
	return nil
}

func unknownObject(o topology.Object) error {
	return fmt.Errorf("objects of type %T cannot be written", o)
}
