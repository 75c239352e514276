package simulator

import (
	"cmp"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

// queue is a queue with its messages.
type queue struct {
	host     *host
	declared *topology.Queue
	owner    *connection // of an exclusive queue
	settings settings

	ready   []*entry // by priority and position; of a stream all that it holds
	unacked map[*entry]bool
	dying   []*entry // dead letters that at-least-once keeps
	delayed []*entry // waiting in delayed retry

	consumers []*consumer // in the order of their turns
	hadOne    bool        // an auto-delete queue goes with its last consumer
	used      time.Time
	timer     wire.Timer // of what comes next: expiry of the head or of the queue
	due       time.Time
	gone      bool
}

// settings are those in effect.
type settings struct {
	ttl, expires             *time.Duration
	maxLength, maxBytes      *int64
	overflow                 string
	limit                    int64 // deliveries that may be returned; -1: no limit
	singleActive             bool
	maxPriority              int64
	retryType                string
	retryMin, retryMax       time.Duration
	deadLetters, atLeastOnce bool
}

// entry is one message in one queue.
type entry struct {
	message     *message
	position    uint64
	priority    int64
	expires     time.Time // zero: never
	redelivered bool
	returns     int  // counted returns
	shown       int  // what x-delivery-count has beside them
	acquired    int  // x-acquired-count
	brought     int  // what it was in the queue before, shown until this one counts
	lost        bool // it came back last because its channel closed
	delivered   bool
	release     time.Time // of a delayed one
	waiting     []string  // queues that have not taken a dead letter yet; nil: not tried
	cause       flow.Cause
}

func (q *queue) name() string { return q.declared.Name }

func (q *queue) quorum() bool { return q.declared.Type == topology.Quorum }

func (q *queue) stream() bool { return q.declared.Type == topology.Stream }

func (q *queue) now() time.Time { return q.host.broker.time.Now() }

// configure works out the settings in effect.
func (q *queue) configure() {
	h := q.host
	effective := h.policies.Effective(q.declared, h.policies.Queue(q.name(), q.declared.Type))
	number := func(name string) *int64 {
		if n, ok := effective[name].Value.(int64); ok {
			return &n
		}
		return nil
	}
	span := func(name string) *time.Duration {
		if n := number(name); n != nil {
			d := time.Duration(*n) * time.Millisecond
			return &d
		}
		return nil
	}
	text := func(name string) string { s, _ := effective[name].Value.(string); return s }
	s := settings{
		ttl: span("message-ttl"), expires: span("expires"), maxLength: number("max-length"), maxBytes: number("max-length-bytes"),
		overflow: text("overflow"), limit: -1, retryType: text("delayed-retry-type"),
	}
	if n := number("delivery-limit"); n != nil && q.quorum() {
		s.limit = max(*n, -1)
	}
	s.singleActive, _ = effective["single-active-consumer"].Value.(bool)
	if n := number("max-priority"); n != nil {
		s.maxPriority = *n
	}
	if low := span("delayed-retry-min"); low != nil && *low > 0 {
		s.retryMin, s.retryMax = *low, *low
		if high := span("delayed-retry-max"); high != nil {
			s.retryMax = *high
		}
	} else {
		s.retryType = ""
	}
	if d := h.flow().DeadLetter(q.name()); d != nil {
		s.deadLetters, s.atLeastOnce = true, d.AtLeastOnce
	}
	q.settings = s
}

// depth is the number of ready messages; of a stream a passive declare says 0.
func (q *queue) depth() int {
	if q.stream() {
		return 0
	}
	return len(q.ready)
}

func (q *queue) unackedInOrder() []*entry {
	all := make([]*entry, 0, len(q.unacked))
	for e := range q.unacked {
		all = append(all, e)
	}
	slices.SortFunc(all, inOrder)
	return all
}

func inOrder(a, b *entry) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.position, b.position))
}

// insert puts an entry into its place among the ready ones.
func (q *queue) insert(e *entry) {
	i, _ := slices.BinarySearchFunc(q.ready, e, inOrder)
	q.ready = slices.Insert(q.ready, i, e)
}

// size is what max-length and max-length-bytes are held against.
func (q *queue) size() (messages, bytes int64) {
	for _, list := range [][]*entry{q.ready, q.dying} {
		for _, e := range list {
			messages++
			bytes += int64(len(e.message.properties.Body))
		}
	}
	return messages, bytes
}

func (q *queue) exceeds(messages, bytes int64) bool {
	s := q.settings
	return s.maxLength != nil && messages > *s.maxLength || s.maxBytes != nil && bytes > *s.maxBytes
}

// publish takes a message, or refuses it. The caller runs the queue afterwards. The
// cause is that of a dead letter.
func (q *queue) publish(m *message, cause flow.Cause, answered bool) bool {
	overflow := q.settings.overflow
	if q.settings.maxLength != nil || q.settings.maxBytes != nil {
		messages, bytes := q.size()
		switch {
		case q.stream():
		case overflow == "reject-publish" && q.quorum():
			// A quorum queue refuses once it is over its limit: it holds one more.
			// It cannot refuse a dead letter that nobody waits for an answer of (measured).
			if answered && q.exceeds(messages, bytes) {
				q.tell(EventRefused, m, "the queue is full")
				return false
			}
		case (overflow == "reject-publish" || overflow == "reject-publish-dlx") && !q.quorum():
			if q.taker() == nil && q.exceeds(messages+1, bytes+int64(len(m.properties.Body))) {
				q.tell(EventRefused, m, "the queue is full")
				if overflow == "reject-publish-dlx" {
					q.bury(&entry{message: m}, flow.Overflow)
				}
				return false
			}
		}
	}
	q.host.broker.position++
	e := &entry{message: m, position: q.host.broker.position}
	if q.quorum() && cause != "" {
		if q.host.since(4, 3) {
			e.returns, e.brought = m.returns, m.acquired
		} else {
			e.shown = m.returns
		}
	}
	e.redelivered = cause != "" && q.bringsRedelivered(m)
	if p := int64(m.properties.Priority); q.settings.maxPriority > 0 {
		e.priority = min(p, q.settings.maxPriority)
	}
	e.expires = q.expiry(m)
	if q.stream() {
		e.expires = time.Time{}
	}
	q.insert(e)
	q.tell(EventQueued, m, "")
	return true
}

// bringsRedelivered says whether a dead letter that a consumer had is shown as
// redelivered where it arrives (measured).
func (q *queue) bringsRedelivered(m *message) bool {
	switch {
	case !m.had:
		return false
	case q.host.since(4, 3):
		return true
	}
	return q.host.since(4, 0) && q.quorum() && m.returns > 0
}

// expiry is when a message that arrives now expires.
func (q *queue) expiry(m *message) time.Time {
	var ttl *time.Duration
	if q.settings.ttl != nil {
		ttl = q.settings.ttl
	}
	if own := m.expiration(); own != nil && (ttl == nil || *own < *ttl) {
		ttl = own
	}
	if ttl == nil {
		return time.Time{}
	}
	return q.now().Add(*ttl)
}

func (m *message) expiration() *time.Duration {
	if m.properties.Expiration == "" {
		return nil
	}
	d, err := time.ParseDuration(m.properties.Expiration + "ms")
	if err != nil {
		return nil
	}
	return &d
}

// run does what is due: delivers, drops what is too much or too old, and sets the
// timer for what comes next.
func (q *queue) run() {
	if q.gone {
		return
	}
	if q.stream() {
		q.runStream()
		return
	}
	q.releaseDelayed()
	for len(q.ready) > 0 {
		head := q.ready[0]
		if c := q.taker(); c != nil && (!q.expired(head) || q.untouchedZero(head)) {
			q.ready = q.ready[1:]
			q.turn(c)
			c.take(q, head)
			continue
		}
		if q.expired(head) {
			q.ready = q.ready[1:]
			q.bury(head, flow.Expired)
			continue
		}
		break
	}
	q.dropHead()
	q.schedule()
}

// untouchedZero: a message whose time to live is zero reaches a consumer that waits.
func (q *queue) untouchedZero(e *entry) bool {
	return !e.delivered && e.expires.Equal(q.now()) && q.expiry(e.message).Equal(q.now())
}

func (q *queue) expired(e *entry) bool {
	return !e.expires.IsZero() && !e.expires.After(q.now())
}

// dropHead gives up the oldest messages while there are too many.
func (q *queue) dropHead() {
	o := q.settings.overflow
	if o == "reject-publish" || o == "reject-publish-dlx" && !q.quorum() {
		return
	}
	for len(q.ready) > 0 && q.exceeds(q.size()) {
		head := q.ready[0]
		q.ready = q.ready[1:]
		q.bury(head, flow.Overflow)
	}
}

// schedule sets the timer for the next thing that only time brings.
func (q *queue) schedule() {
	var due time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if len(q.ready) > 0 {
		earlier(q.ready[0].expires)
	}
	for _, e := range q.delayed {
		earlier(e.release)
	}
	for _, e := range q.dying {
		earlier(e.release)
	}
	if q.settings.expires != nil && len(q.consumers) == 0 {
		earlier(q.used.Add(*q.settings.expires))
	}
	if due.Equal(q.due) {
		return
	}
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
	q.due = due
	if due.IsZero() {
		return
	}
	b := q.host.broker
	q.timer = b.time.AfterFunc(due.Sub(q.now()), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if q.gone || q.due.IsZero() || q.due.After(q.now()) {
			return
		}
		q.due = time.Time{}
		if q.settings.expires != nil && len(q.consumers) == 0 && !q.used.Add(*q.settings.expires).After(q.now()) {
			q.host.remove(q)
			return
		}
		q.retryDying()
		q.run()
	})
}

// touch says that the queue is used: x-expires counts from here.
func (q *queue) touch() {
	q.used = q.now()
	q.schedule()
}

// mayUse refuses other connections than the owner of an exclusive queue.
func (q *queue) mayUse(c *connection) error {
	if q.owner != nil && q.owner != c {
		return locked(q.name(), q.host.name)
	}
	return nil
}

// end takes the queue down: its consumers are told.
func (q *queue) end() {
	q.gone = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, c := range slices.Clone(q.consumers) {
		c.cancelled()
	}
	for _, list := range [][]*entry{q.ready, q.dying, q.delayed, q.unackedInOrder()} {
		for _, e := range list {
			q.tell(EventDeleted, e.message, "its queue is gone")
		}
	}
	q.consumers, q.ready, q.dying, q.delayed = nil, nil, nil, nil
	for e := range q.unacked {
		delete(q.unacked, e)
	}
}

// restart keeps what is on disk: all of quorum queues, persistent messages of
// classic ones.
func (q *queue) restart() {
	if q.declared.Type != topology.Classic {
		return
	}
	q.ready = slices.DeleteFunc(q.ready, func(e *entry) bool {
		lost := e.message.properties.DeliveryMode != amqp091.Persistent
		if lost {
			q.tell(EventDeleted, e.message, "it was transient and the broker restarted")
		}
		return lost
	})
}

// headers are those with which an entry is delivered; get says by basic.get.
func (q *queue) headers(e *entry, get bool) amqp091.Table {
	v := q.host.broker.version
	h := amqp091.Table{}
	for k, value := range e.message.properties.Headers {
		h[k] = value
	}
	e.message.deathHeaders(v, h)
	if q.quorum() {
		n := e.returns
		if n == 0 {
			n = e.shown
		}
		if n > 0 || get && v.Below(catalog.V(4, 0)) {
			h["x-delivery-count"] = int64(n)
		}
		acquired := e.acquired - 1
		if acquired <= 0 {
			acquired = e.brought
		}
		if acquired > 0 && v.AtLeast(catalog.V(4, 3)) {
			h["x-acquired-count"] = int64(acquired)
		}
	}
	if len(h) == 0 {
		return nil
	}
	return h
}
