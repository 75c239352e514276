package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// statisticsLag is how late the statistics of the management API may be with the
// intervals that RabbitMQ comes with (5 s for the tick of a quorum queue, 5 s for
// the collection): the latest seen was 7.6 s, on each of 3.10.8, 4.0.5 and 4.3.6.
const statisticsLag = 10 * time.Second

// Emptiness says whether deleting a queue loses a message. Counts are nil when
// they are not known or do not exist for the queue's type.
type Emptiness struct {
	Empty bool
	Why   string // why it does not count as empty, in words safe to show
	// Messages are all that the queue holds, those in the next three included.
	Messages, Unacknowledged *int64
	// DeadLettering wait for the confirm of an at-least-once dead letter, for ever
	// when its target is missing; a passive declaration does not count them.
	DeadLettering *int64
	// Delayed wait for a delayed retry (4.3); a passive declaration does not count
	// them.
	Delayed   *int64
	Consumers *int64
}

// ProveEmpty finds out which queues hold nothing and have no consumer, so that
// they can be deleted without loss. No broker tells at once: a passive
// declaration is current and overlooks what is unacknowledged, being
// dead-lettered or delayed; the statistics have that and are late. So a queue is
// empty when it has no consumer and nothing ready by passive declaration, the
// statistics say 0 to everything, they do so again after the longest lag
// (Options.StatisticsLag; one wait for all queues), and it is still unused and
// empty by passive declaration. What the broker does not tell is not 0. Without
// AMQP nothing is empty, and a stream never is. A queue that is not there is not
// in the answer.
//
// What it cannot see: a message that is published and taken by basic.get during
// the wait and not acknowledged yet.
func (c *Client) ProveEmpty(ctx context.Context, queues []*topology.Queue) (map[topology.Key]Emptiness, error) {
	p := &proof{client: c, found: make(map[topology.Key]Emptiness, len(queues)), open: map[string]map[string]bool{}}
	for _, q := range queues {
		p.found[q.Key()] = Emptiness{}
		p.keep(q.VirtualHost, q.Name)
	}
	overview, err := c.Overview(ctx)
	if err != nil {
		return nil, err
	}
	p.version = overview.Version
	if err := p.passive(ctx); err != nil {
		return nil, err
	}
	// A queue that was just made has no statistics yet, one that was just emptied has
	// old ones.
	for begun := time.Now(); ; {
		unknown, err := p.statistics(ctx, time.Since(begun) < c.statisticsLag)
		if err != nil {
			return nil, err
		}
		if !unknown {
			break
		}
		if err := sleep(ctx, min(time.Second, c.statisticsLag)); err != nil {
			return nil, named(err, "wait for the statistics of queues", topology.Key{})
		}
	}
	if len(p.open) == 0 {
		return p.found, nil
	}
	if err := sleep(ctx, c.statisticsLag); err != nil {
		return nil, named(err, "wait for the statistics of queues", topology.Key{})
	}
	if _, err := p.statistics(ctx, false); err != nil {
		return nil, err
	}
	if err := p.passive(ctx); err != nil {
		return nil, err
	}
	for vhost, names := range p.open {
		for name := range names {
			e := p.found[queueKey(vhost, name)]
			e.Empty = true
			p.found[queueKey(vhost, name)] = e
		}
	}
	return p.found, nil
}

func queueKey(vhost, name string) topology.Key {
	return topology.Key{Kind: topology.KindQueue, VirtualHost: vhost, Name: name}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return &Error{class: cancelled, Err: context.Cause(ctx)}
	}
}

// proof is under way: open are the queues, by virtual host, against which nothing
// was found yet.
type proof struct {
	client  *Client
	version catalog.Version
	found   map[topology.Key]Emptiness
	open    map[string]map[string]bool
}

func (p *proof) keep(vhost, name string) {
	if p.open[vhost] == nil {
		p.open[vhost] = map[string]bool{}
	}
	p.open[vhost][name] = true
}

// settle ends the proof for a queue: why it is not empty, or "" when it is gone.
func (p *proof) settle(vhost, name, why string) {
	key := queueKey(vhost, name)
	if why == "" {
		delete(p.found, key)
	} else {
		e := p.found[key]
		e.Why = why
		p.found[key] = e
	}
	delete(p.open[vhost], name)
	if len(p.open[vhost]) == 0 {
		delete(p.open, vhost)
	}
}

// passive asks the queues themselves for what is ready and who consumes.
func (p *proof) passive(ctx context.Context) error {
	for _, vhost := range slices.Sorted(maps.Keys(p.open)) {
		names := slices.Sorted(maps.Keys(p.open[vhost]))
		counts, err := p.client.Counts(ctx, vhost, names)
		if err != nil && !IsUnreachable(err) && !IsAuth(err) {
			return err
		}
		for _, name := range names {
			n, there := counts[name]
			switch {
			case err != nil:
				p.settle(vhost, name, "it cannot be asked over AMQP: "+err.Error())
			case !there:
				p.settle(vhost, name, "")
			case n.Messages == nil || n.Consumers == nil:
				p.settle(vhost, name, "it cannot be asked over AMQP: it belongs to another connection, or a right is missing")
			default:
				e := p.found[queueKey(vhost, name)]
				e.Messages, e.Consumers = n.Messages, n.Consumers
				p.found[queueKey(vhost, name)] = e
				if why := holds(e); why != "" {
					p.settle(vhost, name, why)
				}
			}
		}
	}
	return nil
}

// statistics reads the full statistics of all open queues, one list for each
// virtual host. With patience those that have none yet, or still show what a passive
// declaration no longer does, are left open, and unknown says that there are some.
func (p *proof) statistics(ctx context.Context, patience bool) (unknown bool, err error) {
	for _, vhost := range slices.Sorted(maps.Keys(p.open)) {
		var list []statisticsEntry
		path := "queues/" + escape(vhost)
		if err := named(p.client.get(ctx, path, &list), vhostSentence("read the statistics of the queues of %s", vhost), topology.Key{}); err != nil {
			return false, err
		}
		byName := make(map[string]*statisticsEntry, len(list))
		for i := range list {
			byName[list[i].Name] = &list[i]
		}
		for _, name := range slices.Sorted(maps.Keys(p.open[vhost])) {
			s := byName[name]
			if s == nil {
				p.settle(vhost, name, "the management API does not list it")
				continue
			}
			missing := s.missing(p.version)
			if missing != "" && patience {
				unknown = true
				continue
			}
			key := queueKey(vhost, name)
			consumers := p.found[key].Consumers
			e := Emptiness{
				Messages: s.Messages, Unacknowledged: s.Unacknowledged, DeadLettering: s.DeadLettering, Delayed: s.Delayed, Consumers: consumers,
			}
			p.found[key] = e
			switch {
			case s.Type == string(topology.Stream):
				p.settle(vhost, name, "it is a stream, which keeps messages that were read")
			case missing != "":
				p.settle(vhost, name, "the management API does not tell "+missing)
			default:
				switch why := holds(e); {
				case why != "" && patience: // what was there some seconds ago, maybe
					unknown = true
				case why != "":
					p.settle(vhost, name, why)
				}
			}
		}
	}
	return unknown, nil
}

// DeadLettering counts by queue what waits in a virtual host for the confirm of an
// at-least-once dead letter, which no passive declaration counts. It is from the
// statistics, some seconds late; queues of which nothing is told are left out.
func (c *Client) DeadLettering(ctx context.Context, vhost string) (map[string]int64, error) {
	var list []statisticsEntry
	err := c.get(ctx, "queues/"+escape(vhost)+"?columns=name,messages_dlx", &list)
	if err != nil {
		return nil, named(err, vhostSentence("read the statistics of the queues of %s", vhost), topology.Key{})
	}
	waiting := map[string]int64{}
	for _, s := range list {
		if s.DeadLettering != nil {
			waiting[s.Name] = *s.DeadLettering
		}
	}
	return waiting, nil
}

// statisticsEntry is a queue in the full list. Only quorum queues have
// messages_dlx, only those of 4.3 messages_delayed (seen on all three versions);
// null or absent otherwise says that no statistics have come yet.
type statisticsEntry struct {
	Name           string `json:"name"`
	Type           string `json:"type"`
	Messages       *int64 `json:"messages"`
	Unacknowledged *int64 `json:"messages_unacknowledged"`
	DeadLettering  *int64 `json:"messages_dlx"`
	Delayed        *int64 `json:"messages_delayed"`
}

// missing names the counts that the queue should have.
func (s *statisticsEntry) missing(v catalog.Version) string {
	quorum := s.Type != string(topology.Classic) && s.Type != string(topology.Stream)
	var names []string
	for _, f := range []struct {
		name  string
		value *int64
		due   bool
	}{
		{"messages", s.Messages, true},
		{"messages_unacknowledged", s.Unacknowledged, true},
		{"messages_dlx", s.DeadLettering, quorum},
		{"messages_delayed", s.Delayed, quorum && !v.Below(catalog.V(4, 3))},
	} {
		if f.due && f.value == nil {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ", ")
}

// holds says what a queue has that deleting it would take from somebody.
func holds(e Emptiness) string {
	var parts []string
	for _, f := range []struct {
		n         *int64
		one, many string
	}{
		{e.Messages, "message", "messages"},
		{e.Unacknowledged, "unacknowledged", "unacknowledged"},
		{e.DeadLettering, "waiting to be dead-lettered", "waiting to be dead-lettered"},
		{e.Delayed, "waiting for a delayed retry", "waiting for a delayed retry"},
		{e.Consumers, "consumer", "consumers"},
	} {
		if f.n != nil && *f.n != 0 {
			parts = append(parts, text.Plural(int(*f.n), f.one, f.many))
		}
	}
	return strings.Join(parts, ", ")
}

// ErrNotEmpty says that a queue was not deleted, since it holds something or is in
// use.
var ErrNotEmpty = errors.New("not deleted")

// DeleteEmpty implements Writer.
func (w *writer) DeleteEmpty(ctx context.Context, q *topology.Queue) error {
	const op = "delete"
	if err := w.ready(ctx, op, q); err != nil {
		return err
	}
	switch {
	case w.via == ViaHTTP:
		return named(local("a queue that must be empty is deleted over AMQP only"), op, q.Key())
	case q.Type == topology.Stream:
		return named(local("a stream never counts as empty"), op, q.Key())
	}
	deleted, why := 0, ""
	err := w.pool(q.VirtualHost).do(ctx, "queue.delete", func(ch *amqp.Channel) (err error) {
		deleted, why, err = deleteIfEmpty(ch, q)
		return err
	})
	e, ok := as(err)
	switch {
	case why != "":
		return named(&Error{class: notSent, Err: fmt.Errorf("%w: it has %s", ErrNotEmpty, why)}, op, q.Key())
	case IsNotFound(err):
		return nil
	case ok && e.class == refused && e.Status == 406:
		e.Err = ErrNotEmpty
		return named(e, op, q.Key())
	case err == nil && deleted > 0:
		return named(local(lostWith, plural(deleted)), op, q.Key())
	}
	return named(err, op, q.Key())
}

const lostWith = "it was deleted with %s, which came in the moment before"

func plural(messages int) string { return text.Plural(messages, "message", "messages") }

// deleteIfEmpty deletes a queue unless it has something ready or a consumer, which a
// classic one does by itself. Nothing is deleted when why is not "".
func deleteIfEmpty(ch *amqp.Channel, q *topology.Queue) (deleted int, why string, err error) {
	classic := q.Type == topology.Classic
	if !classic {
		state, err := ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
		if err != nil {
			return 0, "", err
		}
		messages, consumers := int64(state.Messages), int64(state.Consumers)
		if why = holds(Emptiness{Messages: &messages, Consumers: &consumers}); why != "" {
			return 0, why, nil
		}
	}
	deleted, err = ch.QueueDelete(q.Name, classic, classic, false)
	return deleted, "", err
}
