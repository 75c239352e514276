package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// lockHeartbeat is at most how long the connection of a lock may be silent: after
// three of them holder and broker both take it for lost. It stays under the 60 s
// after which a cluster gives up a silent node (net_ticktime), so that a holder
// whose node is gone knows before another can have the lock.
const lockHeartbeat = 10 * time.Second

// lockRetry is the wait between attempts to take a lock.
const lockRetry = time.Second

// LockOptions say what to do while somebody else holds a lock.
type LockOptions struct {
	// Wait is how long to try; 0: once.
	Wait time.Duration
	// OnWait is told at once that another holds the lock, and by a second call who
	// does, should that be seen only later: the management API shows connections
	// some seconds late. holder is "" when it is not known, else safe to show.
	OnWait func(holder string)
}

// Lock is the right to be the only one that changes a stack in a virtual host. It
// is an exclusive queue on a connection of its own, so that the broker frees it
// when the holder dies, also by kill -9 (3 to 11 ms later on one machine; when the
// network is cut, after the heartbeat).
type Lock struct {
	queue  string
	conn   *connection
	ch     *amqp.Channel
	lost   chan error
	closed atomic.Bool
}

// LockedError says that somebody else held a lock for as long as it was waited for.
type LockedError struct {
	VirtualHost, Queue string
	Holder             string // safe to show; "" when it cannot be seen
	Node               string // where the queue is; "" when it cannot be seen
	Waited             time.Duration
	// NotALock: the queue is there and belongs to no connection, so that it never
	// gets free by itself.
	NotALock bool
}

// Error implements error.
func (e *LockedError) Error() string {
	where := topology.Key{Kind: topology.KindQueue, VirtualHost: e.VirtualHost, Name: e.Queue}.String()
	if e.NotALock {
		return fmt.Sprintf("the lock is %s, and that queue is there as an ordinary one; delete it", where)
	}
	by := "another connection; the management API does not show this user whose"
	switch {
	case e.Holder != "":
		by = e.Holder
	case e.Node != "":
		// Seen on 4.3 when the holder's node was killed; before 4.3 it is freed then.
		by += fmt.Sprintf(" (the lock is on node %q; if that is down, it is free again when the node is back)", e.Node)
	}
	return fmt.Sprintf("%s is held by %s; waited %s", where, by, e.Waited.Round(time.Second))
}

// Lock takes the lock of a stack, which may be "", in a virtual host. Errors:
// *LockedError when another has it until the wait is over; IsNotFound without the
// virtual host; IsAuth when the user lacks the configure or read permission for
// the queue's name, or every permission; IsUnreachable without AMQP.
//
// The queue is a transient classic one whatever the virtual host's default type.
// A consumer on it keeps a policy with expires from deleting it.
func (c *Client) Lock(ctx context.Context, vhost, stack string, o LockOptions) (*Lock, error) {
	name := topology.LockPrefix + stack
	op := vhostSentence("take the lock "+fmt.Sprintf("%q", name)+" in %s", vhost)
	if err := checkAddressable(ViaAMQP, "name of the lock", name); err != nil {
		return nil, named(err, op, topology.Key{})
	}
	var overview *Overview
	if c.base != "" {
		var err error
		if overview, err = c.Overview(ctx); err != nil {
			return nil, err
		}
	}
	id := rand.Text()
	begun, waiting, known := time.Now(), false, ""
	for {
		l, err := c.tryLock(ctx, vhost, name, id, overview)
		if err == nil {
			return l, nil
		}
		// A fault while another's lock is waited for is waited out as well.
		if !IsLocked(err) && (!waiting || !IsTransient(err)) {
			return nil, named(err, op, topology.Key{})
		}
		over := time.Since(begun)+lockRetry > o.Wait
		if !waiting || known == "" || over {
			held := &LockedError{VirtualHost: vhost, Queue: name}
			c.seeHolder(ctx, held, id)
			holder := held.Holder
			if over || held.NotALock {
				held.Holder, held.Waited = cmp.Or(holder, known), time.Since(begun)
				return nil, held
			}
			if o.OnWait != nil && (!waiting || holder != "") {
				o.OnWait(holder)
			}
			waiting, known = true, holder
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, named(&Error{Via: ViaAMQP, class: cancelled, Err: context.Cause(ctx)}, op, topology.Key{})
		}
	}
}

// tryLock tries once. Each try has a connection of its own, so that a connection
// with the properties of a holder is nearly always the holder's.
func (c *Client) tryLock(ctx context.Context, vhost, name, id string, o *Overview) (*Lock, error) {
	conn, err := c.dial(ctx, vhost, o, func(config *amqp.Config) {
		if config.Heartbeat <= 0 || config.Heartbeat > lockHeartbeat {
			config.Heartbeat = lockHeartbeat
		}
		for k, v := range holderProperties(name, id) {
			config.Properties[k] = v
		}
	})
	if err != nil {
		return nil, err
	}
	l := &Lock{queue: name, conn: conn, lost: make(chan error, 1)}
	err = sameBroker(conn.Properties, o)
	var deliveries <-chan amqp.Delivery
	for _, step := range []struct {
		name, right string
		call        func() error
	}{
		{"channel.open", "", func() (err error) { l.ch, err = conn.Channel(); return err }},
		{"queue.declare", "configure", func() error {
			_, err := l.ch.QueueDeclare(name, false, false, true, false, amqp.Table{"x-queue-type": string(topology.Classic)})
			return err
		}},
		{"basic.consume", "read", func() (err error) {
			// Nobody should publish here; what comes is thrown away.
			deliveries, err = l.ch.Consume(name, "", true, true, false, false, nil)
			return err
		}},
	} {
		if err != nil {
			break
		}
		err = conn.within(ctx, step.name, step.call)
		if e, ok := as(err); ok && e.class == refused && e.isAuth() && step.right != "" {
			// 3.10 does not say which of the rights.
			e.Hint = fmt.Sprintf("the user lacks the %s permission for %q, in which the lock is held", step.right, name)
		}
	}
	if err != nil {
		conn.end()
		return nil, err
	}
	closes := conn.NotifyClose(make(chan *amqp.Error, 1))
	go l.watch(deliveries, closes)
	return l, nil
}

// watch reports the loss of the lock: deliveries end when the consumer, the
// channel or the connection does.
func (l *Lock) watch(deliveries <-chan amqp.Delivery, closes <-chan *amqp.Error) {
	for range deliveries {
	}
	if l.closed.Load() {
		return
	}
	err := fmt.Errorf("the lock %q is lost: its queue was deleted, or its node is down", l.queue)
	select {
	case reason := <-closes:
		err = fmt.Errorf("the lock %q is lost with its connection", l.queue)
		if reason != nil {
			err = fmt.Errorf("%w: %s", err, text.Line(redact(reason.Reason)))
		}
	default:
	}
	l.lost <- err
	l.conn.wire.Close() // it holds nothing any more
}

// Lost gives one error when the lock is gone although nobody closed it: the
// connection was lost, or the queue was deleted. Somebody else may have it then.
func (l *Lock) Lost() <-chan error { return l.lost }

// Close frees the lock. The next one can have it when Close returns, as far as
// the broker answered.
func (l *Lock) Close() {
	if l.closed.Swap(true) {
		return
	}
	_ = l.conn.within(context.Background(), "queue.delete", func() error {
		_, err := l.ch.QueueDelete(l.queue, false, false, false)
		return err
	})
	l.conn.end()
}

// Keys of the client properties by which a holder is known to others.
const (
	lockProperty      = "rabbitctl_lock"
	lockIDProperty    = "rabbitctl_lock_id"
	lockUserProperty  = "rabbitctl_user"
	lockStartProperty = "rabbitctl_started"
)

func holderProperties(name, id string) amqp.Table {
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	return amqp.Table{
		lockProperty: name, lockIDProperty: id, lockUserProperty: cmp.Or(who, os.Getenv("USER")),
		lockStartProperty: time.Now().UTC().Format(time.RFC3339),
	}
}

// holderEntry is a connection in the management API.
type holderEntry struct {
	Properties map[string]any `json:"client_properties"`
}

// describe is the holder in words; the properties are another program's, so that
// nothing about them is certain.
func (h holderEntry) describe() string {
	property := func(key string) string {
		switch v := h.Properties[key].(type) {
		case string:
			return text.Truncate(text.Line(v), 80)
		case float64:
			return fmt.Sprintf("%.0f", v)
		}
		return "?"
	}
	return fmt.Sprintf("%s@%s (process %s, %s, since %s)", property(lockUserProperty), property("host"),
		property("pid"), property("version"), property(lockStartProperty))
}

// seeHolder asks the management API who holds a lock, as far as it tells. The owner
// of a queue is in its statistics, some seconds late; before, the only other
// connection that says it holds this lock is taken for the holder.
func (c *Client) seeHolder(ctx context.Context, held *LockedError, id string) {
	if c.base == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(c.timeout, 5*time.Second))
	defer cancel()
	var queue struct {
		Node      string          `json:"node"`
		Exclusive *flag           `json:"exclusive"`
		Owner     json.RawMessage `json:"owner_pid_details"` // an empty list or table when not known
	}
	if c.get(ctx, "queues/"+escape(held.VirtualHost)+"/"+escape(held.Queue), &queue) != nil {
		return // gone by now, or not to be seen
	}
	held.Node = queue.Node
	var owner struct{ Name string }
	if json.Unmarshal(queue.Owner, &owner) == nil && owner.Name != "" {
		var h holderEntry
		if c.get(ctx, "connections/"+escape(owner.Name), &h) == nil && h.Properties != nil {
			held.Holder = h.describe()
			return
		}
	}
	if queue.Exclusive != nil && !bool(*queue.Exclusive) && owner.Name == "" {
		held.NotALock = true
		return
	}
	var list []holderEntry
	if c.get(ctx, "vhosts/"+escape(held.VirtualHost)+"/connections?columns=client_properties", &list) != nil {
		return
	}
	var found []string
	for _, h := range list {
		if h.Properties[lockProperty] == held.Queue && h.Properties[lockIDProperty] != id {
			found = append(found, h.describe())
		}
	}
	if len(found) == 1 {
		held.Holder = found[0]
	}
}
