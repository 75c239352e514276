package simulator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// exception is an error of the broker: it closes the channel, or the connection
// where AMQP says so.
func exception(code int, format string, args ...any) error {
	return &amqp091.Error{Code: code, Reason: fmt.Sprintf(format, args...), Server: true}
}

// declareExchange makes an exchange or compares it with the one that is there.
func (h *host) declareExchange(e *topology.Exchange) error {
	if e.Name == "" {
		return exception(amqp091.AccessRefused, "ACCESS_REFUSED - operation not permitted on the default exchange")
	}
	e = &topology.Exchange{
		VirtualHost: h.name, Name: e.Name, Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: e.Internal,
		Arguments: e.Arguments.Clone(),
	}
	if !slices.Contains(catalog.ExchangeTypes(h.broker.version), e.Type) {
		text := "PRECONDITION_FAILED - unknown exchange type '%s'"
		code := amqp091.PreconditionFailed
		if !h.since(4, 0) {
			code, text = amqp091.CommandInvalid, "COMMAND_INVALID - unknown exchange type '%s'"
		}
		return exception(code, text, e.Type)
	}
	if old := h.exchanges[e.Name]; old != nil {
		for _, f := range []struct {
			name      string
			was, want any
		}{
			{"type", old.Type, e.Type},
			{"durable", old.Durable, e.Durable},
			{"auto_delete", old.AutoDelete, e.AutoDelete},
			{"internal", old.Internal, e.Internal},
		} {
			if f.was != f.want {
				return exception(amqp091.PreconditionFailed,
					"PRECONDITION_FAILED - inequivalent arg '%s' for exchange '%s' in vhost '%s': received '%v' but current is '%v'",
					f.name, e.Name, h.name, f.want, f.was)
			}
		}
		return h.compare("exchange", e.Name, old.Arguments, e.Arguments, func(name string) bool {
			a := catalog.LookupExchangeArgument(name)
			return a != nil && a.Compared
		})
	}
	if strings.HasPrefix(e.Name, "amq.") {
		return exception(amqp091.AccessRefused, "ACCESS_REFUSED - exchange name '%s' contains reserved prefix 'amq.*'", e.Name)
	}
	h.exchanges[e.Name] = e
	h.changed()
	return nil
}

// declareQueue makes a queue or compares it with the one that is there. The owner is
// the connection of an exclusive one.
func (h *host) declareQueue(declared *topology.Queue, owner *connection) (*queue, error) {
	d := &topology.Queue{
		VirtualHost: h.name, Name: declared.Name, Type: declared.Type, Durable: declared.Durable,
		AutoDelete: declared.AutoDelete, Exclusive: declared.Exclusive, Arguments: declared.Arguments.Clone(),
	}
	if t, ok := d.Arguments["x-queue-type"]; ok {
		text, _ := t.(string)
		d.Type = topology.QueueType(text)
		delete(d.Arguments, "x-queue-type")
	}
	if d.Type == "" {
		d.Type = topology.Classic
		if h.since(3, 11) && d.Durable && !d.AutoDelete && !d.Exclusive {
			d.Type = h.defaultType
		}
	}
	if !slices.Contains(topology.QueueTypes, d.Type) {
		return nil, exception(amqp091.PreconditionFailed,
			"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '%s' in vhost '%s': \"unsupported queue type '%s'\"", d.Name, h.name, d.Type)
	}
	if old := h.queues[d.Name]; old != nil {
		if err := old.mayUse(owner); err != nil {
			return nil, err
		}
		if err := h.compareQueue(old.declared, d); err != nil {
			return nil, err
		}
		old.touch()
		return old, nil
	}
	if strings.HasPrefix(d.Name, "amq.") && !strings.HasPrefix(d.Name, "amq.gen-") {
		return nil, exception(amqp091.AccessRefused, "ACCESS_REFUSED - queue name '%s' contains reserved prefix 'amq.*'", d.Name)
	}
	if err := h.checkQueue(d); err != nil {
		return nil, err
	}
	q := &queue{host: h, declared: d, unacked: map[*entry]bool{}}
	if d.Exclusive {
		q.owner = owner
	}
	h.queues[d.Name] = q
	h.changed()
	q.configure()
	q.touch()
	return q, nil
}

// checkQueue refuses what the broker refuses of a new queue.
func (h *host) checkQueue(d *topology.Queue) error {
	if d.Type != topology.Classic {
		for property, bad := range map[string]bool{"non-durable": !d.Durable, "auto-delete": d.AutoDelete, "exclusive-owner": d.Exclusive} {
			if bad {
				return exception(amqp091.PreconditionFailed,
					"PRECONDITION_FAILED - invalid property '%s' for queue '%s' in vhost '%s'", property, d.Name, h.name)
			}
		}
	}
	v := h.broker.version
	for _, name := range d.Arguments.Keys() {
		s := catalog.LookupArgument(name)
		switch {
		case s == nil || s.IsUnchecked(d.Type, v):
		case !s.TakesArgument(d.Type, v) && !s.IgnoresArgument(d.Type, v):
			return exception(amqp091.PreconditionFailed,
				"PRECONDITION_FAILED - invalid arg '%s' for queue '%s' in vhost '%s' of queue type rabbit_%s_queue", name, d.Name, h.name, d.Type)
		case refused(s, d.Arguments[name], d.Type, v):
			return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - invalid arg '%s' for queue '%s' in vhost '%s': %s",
				name, d.Name, h.name, topology.Text(d.Arguments[name]))
		}
	}
	_, key := d.Arguments["x-dead-letter-routing-key"]
	if _, exchange := d.Arguments["x-dead-letter-exchange"]; key && !exchange {
		return exception(amqp091.PreconditionFailed,
			"PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue '%s' in vhost '%s': routing_key_but_no_dlx_defined", d.Name, h.name)
	}
	return nil
}

// refused reports whether the broker refuses a value of an argument; what it takes
// and then understands otherwise is not refused.
func refused(s *catalog.Setting, value any, t topology.QueueType, v catalog.Version) bool {
	if s.TakesAnyValue(t, v) {
		return false
	}
	if s.CheckValue(value) != "" {
		return true
	}
	return slices.ContainsFunc(s.Narrow, func(n catalog.Narrow) bool {
		return n.Refused && n.ByArgument && (n.QueueType == "" || n.QueueType == t) && n.Has(v)
	}) && s.CheckValueFor(value, t, v, topology.ByArgument) != ""
}

func (h *host) compareQueue(old, d *topology.Queue) error {
	for _, f := range []struct {
		name      string
		was, want any
	}{
		{"x-queue-type", old.Type, d.Type}, {"durable", old.Durable, d.Durable}, {"auto_delete", old.AutoDelete, d.AutoDelete},
	} {
		if f.was != f.want {
			return exception(amqp091.PreconditionFailed,
				"PRECONDITION_FAILED - inequivalent arg '%s' for queue '%s' in vhost '%s': received '%v' but current is '%v'",
				f.name, d.Name, h.name, f.want, f.was)
		}
	}
	if old.Exclusive != d.Exclusive {
		return locked(d.Name, h.name)
	}
	return h.compare("queue", d.Name, old.Arguments, d.Arguments, func(name string) bool {
		s := catalog.LookupArgument(name)
		return s != nil && s.IsCompared(d.Type, h.broker.version)
	})
}

// compare refuses other arguments where the broker compares them.
func (h *host) compare(what, name string, old, want topology.Arguments, compared func(string) bool) error {
	names := slices.Concat(old.Keys(), want.Keys())
	slices.Sort(names)
	for _, key := range slices.Compact(names) {
		was, had := old[key]
		now, has := want[key]
		if !compared(key) || had == has && topology.Equal(was, now) {
			continue
		}
		text := fmt.Sprintf("received '%v' but current is '%v'", now, was)
		switch {
		case !has:
			text = fmt.Sprintf("received none but current is the value '%v'", was)
		case !had:
			text = fmt.Sprintf("received the value '%v' but current is none", now)
		}
		return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg '%s' for %s '%s' in vhost '%s': %s",
			key, what, name, h.name, text)
	}
	return nil
}

func locked(queue, vhost string) error {
	return exception(amqp091.ResourceLocked, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '%s'. "+
		"It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.",
		queue, vhost)
}

// bind makes a binding; one that is there is no error.
func (h *host) bind(b *topology.Binding) error {
	b = &topology.Binding{
		VirtualHost: h.name, Source: b.Source, Destination: b.Destination, DestinationType: b.DestinationType,
		RoutingKey: b.RoutingKey, Arguments: b.Arguments.Clone(),
	}
	if err := h.ends(b); err != nil {
		return err
	}
	if h.exchanges[b.Source].Type == "headers" {
		switch m, ok := b.Arguments["x-match"]; {
		case !ok, m == "all", m == "any", m == "all-with-x", m == "any-with-x":
		default:
			return exception(amqp091.PreconditionFailed,
				"PRECONDITION_FAILED - Invalid x-match field value %v; expected all, any, all-with-x, or any-with-x", topology.Text(m))
		}
	}
	if h.exchanges[b.Source].Type == "x-local-random" && b.RoutingKey != "" {
		return exception(amqp091.PreconditionFailed, "PRECONDITION_FAILED - Non empty binding '%s' key not permitted", b.RoutingKey)
	}
	h.bindings[b.Key()] = b
	h.changed()
	return nil
}

func (h *host) ends(b *topology.Binding) error {
	if b.Source == "" || b.DestinationType == topology.ToExchange && b.Destination == "" {
		return exception(amqp091.AccessRefused, "ACCESS_REFUSED - operation not permitted on the default exchange")
	}
	if h.exchanges[b.Source] == nil {
		return exception(amqp091.NotFound, "NOT_FOUND - no exchange '%s' in vhost '%s'", b.Source, h.name)
	}
	if b.DestinationType == topology.ToQueue && h.queues[b.Destination] == nil {
		return exception(amqp091.NotFound, "NOT_FOUND - no queue '%s' in vhost '%s'", b.Destination, h.name)
	}
	if b.DestinationType == topology.ToExchange && h.exchanges[b.Destination] == nil {
		return exception(amqp091.NotFound, "NOT_FOUND - no exchange '%s' in vhost '%s'", b.Destination, h.name)
	}
	return nil
}

// unbind removes a binding; one that is not there is no error.
func (h *host) unbind(b *topology.Binding) {
	key := b.Key()
	if h.bindings[key] == nil {
		return
	}
	delete(h.bindings, key)
	h.changed()
	h.autoDelete(b.Source)
}
