package specs

import (
	"fmt"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// maxDelay is the longest time that brokers take: ten years.
const maxDelay = 315_360_000_000 * time.Millisecond

// deriveRetry works out what a queue's retry stands for.
func (e *expansion) deriveRetry(q *Queue, d *derived) {
	r, t := q.Retry, e.typeOf(q)
	pos := q.At.place(q.Pos, "retry")
	if t == topology.Stream {
		e.fail(q, "setting-not-for-type", pos, fmt.Sprintf("queue %q: a stream does not know retry", q.Name),
			"A stream keeps its messages and gives none back; use a quorum or classic queue.")
		return
	}
	if r.MaxAttempts < 1 && (r.MaxAttempts < 0 || !q.At.place(topology.Position{}, "retry.max_attempts").IsZero()) {
		e.fail(q, "max-attempts", q.At.place(pos, "retry.max_attempts"),
			fmt.Sprintf("queue %q: max_attempts is %d, but the first delivery counts too", q.Name, r.MaxAttempts),
			"Write 1 for no second attempt, or leave it out for any number.")
	}
	if !e.checkDelays(q, pos) {
		return
	}
	d.retry = &topology.Retry{MaxAttempts: max(r.MaxAttempts, 0), Delays: slices.Clone(r.Delays)}
	d.retry.Mechanism = e.mechanism(q, t)
	switch d.retry.Mechanism {
	case topology.MechanismWaitQueue:
		e.deriveWaitQueues(q, d)
	case topology.MechanismPerMessage:
		e.derivePerMessage(q, d)
	case topology.MechanismRejectCycle:
		e.deriveRejectCycle(q, d)
	case topology.MechanismDelayedRetry:
		e.deriveDelayedRetry(q, d)
	case topology.MechanismDelayedExchange:
		e.deriveDelayedExchange(q, d)
	}
	// The server counts only on quorum queues. Copies that come back from a wait
	// queue start again at 0, so the limit never ends their loop; the consumer
	// adds the counts up. In a reject cycle the limit would send messages into
	// the wait queue, where the broker drops them as a cycle.
	if e.isQuorum(q) && r.MaxAttempts >= 1 && d.retry.Mechanism != topology.MechanismRejectCycle {
		d.settings = append(d.settings, wanted{
			name: "delivery-limit", value: r.MaxAttempts - 1, by: wayOf(q, "delivery-limit"),
			pos: q.At.place(pos, "retry.max_attempts"), why: fmt.Sprintf("retry.max_attempts %d", r.MaxAttempts),
		})
	}
}

// isQuorum reports whether the queue is known to be a quorum queue.
func (e *expansion) isQuorum(q *Queue) bool {
	return e.typeOf(q) == topology.Quorum && (q.Type != "" || !q.External)
}

// checkDelays tells delays that no broker takes.
func (e *expansion) checkDelays(q *Queue, pos topology.Position) bool {
	right := true
	for i, delay := range q.Retry.Delays {
		if delay >= time.Millisecond && delay <= maxDelay && delay%time.Millisecond == 0 {
			continue
		}
		right = false
		e.fail(q, "retry-delay", q.delayPlace(pos, i),
			fmt.Sprintf("queue %q: a message cannot wait %s", q.Name, FormatDuration(delay)),
			"RabbitMQ counts in whole milliseconds, from 1ms to ten years.")
	}
	return right
}

// delayPlace is where the i-th delay is written.
func (q *Queue) delayPlace(pos topology.Position, i int) topology.Position {
	return q.At.place(pos, fmt.Sprintf("retry.delays[%d]", i), "retry.delays")
}

// mechanism chooses how delays are done; it is empty when there are none.
// auto is decided by the spec alone, so that a file means the same everywhere.
func (e *expansion) mechanism(q *Queue, t topology.QueueType) topology.Mechanism {
	r := q.Retry
	if r.Mechanism != topology.MechanismAuto && r.Mechanism != "" {
		if len(r.Delays) == 0 && r.Mechanism != topology.MechanismDelayedExchange {
			e.fail(q, "retry-delays-missing", q.At.place(q.Pos, "retry.mechanism", "retry"),
				fmt.Sprintf("queue %q: mechanism %s needs delays", q.Name, r.Mechanism), "Write delays: [30s].")
			return ""
		}
		return r.Mechanism
	}
	switch {
	case len(r.Delays) == 0:
		return ""
	case t == topology.Quorum && growsEvenly(r.Delays) && e.requiresDelayedRetry():
		return topology.MechanismDelayedRetry
	}
	return topology.MechanismWaitQueue
}

// requiresDelayedRetry reports whether the spec is only for versions with the
// broker's own delayed retry.
func (e *expansion) requiresDelayedRetry() bool {
	return !slices.ContainsFunc(e.spec.Requires.Versions(), func(v catalog.Version) bool { return v.Below(catalog.V(4, 3)) })
}

// growsEvenly reports whether the delays are d, 2d, 3d ..., which is what the
// broker's own delayed retry can do.
func growsEvenly(delays []time.Duration) bool {
	for i, d := range delays {
		if d != delays[0]*time.Duration(i+1) {
			return false
		}
	}
	return len(delays) > 0
}

// distinct lists the different delays in the order in which they are first
// written, with their places in the list.
func distinct(delays []time.Duration) (list []time.Duration, index []int) {
	for i, d := range delays {
		if !slices.Contains(list, d) {
			list, index = append(list, d), append(index, i)
		}
	}
	return list, index
}

// deriveWaitQueues makes one wait queue for each delay: a queue releases only
// from its head, so that a long delay would hold up shorter ones behind it.
func (e *expansion) deriveWaitQueues(q *Queue, d *derived) {
	pos := q.At.place(q.Pos, "retry.delays", "retry")
	list, index := distinct(q.Retry.Delays)
	w := q.Retry.WaitQueue
	if len(list) > 1 && w.Name != "" && w.Names == "" {
		e.fail(q, "wait-queue-name", q.At.place(pos, "retry.wait_queue.name", "retry.wait_queue"),
			fmt.Sprintf("queue %q has %d delays, but one name for their wait queues", q.Name, len(list)),
			`Each delay needs a queue of its own: write names: "{queue}.retry.{delay}".`)
		return
	}
	names := map[time.Duration]string{}
	taken := map[string]time.Duration{}
	for i, delay := range list {
		place := q.delayPlace(pos, index[i])
		if made := q.handMade(delay); made != "" {
			names[delay] = made
			continue
		}
		name := waitQueueName(q.Name, w, delay, i+1, len(list) > 1)
		if other, twice := taken[name]; twice {
			e.fail(q, "wait-queue-name", q.At.place(pos, "retry.wait_queue.names", "retry.wait_queue"),
				fmt.Sprintf("queue %q: the delays %s and %s would share the wait queue %q", q.Name,
					FormatDuration(other), FormatDuration(delay), name),
				"Write {delay} or {n} into names.")
			return
		}
		taken[name], names[delay] = delay, name
		e.claimWaitQueue(q, name, delay, place)
	}
	for _, delay := range q.Retry.Delays {
		d.retry.WaitQueues = append(d.retry.WaitQueues, names[delay])
	}
}

// handMade names the wait queue that the spec itself gives for a delay.
func (q *Queue) handMade(delay time.Duration) string {
	if q.Role == topology.RoleWait {
		return ""
	}
	for _, d := range q.Delays {
		if d.Delay == delay {
			return d.Queue
		}
	}
	return ""
}

// oneDelay tells when a mechanism that has one fixed delay is given more.
func (e *expansion) oneDelay(q *Queue) bool {
	list, _ := distinct(q.Retry.Delays)
	if len(list) == 1 {
		return true
	}
	e.fail(q, "retry-delays", q.At.place(q.Pos, "retry.delays", "retry"),
		fmt.Sprintf("queue %q: mechanism %s has one delay, not %d", q.Name, q.Retry.Mechanism, len(list)),
		"Write one delay, or mechanism: wait-queue.")
	return false
}

// singleWaitQueue makes the only wait queue of a queue.
func (e *expansion) singleWaitQueue(q *Queue, d *derived, ttl time.Duration) string {
	delay := q.Retry.Delays[0]
	name := q.handMade(delay)
	if name == "" {
		name = waitQueueName(q.Name, q.Retry.WaitQueue, delay, 1, false)
		e.claimWaitQueue(q, name, ttl, q.delayPlace(q.At.place(q.Pos, "retry"), 0))
	}
	for range q.Retry.Delays {
		d.retry.WaitQueues = append(d.retry.WaitQueues, name)
	}
	return name
}

// derivePerMessage makes a wait queue without a TTL: each copy brings its own.
func (e *expansion) derivePerMessage(q *Queue, d *derived) {
	if e.oneDelay(q) {
		e.singleWaitQueue(q, d, 0)
	}
}

// deriveRejectCycle makes the wait queue the queue's own dead-letter route.
func (e *expansion) deriveRejectCycle(q *Queue, d *derived) {
	pos := q.At.place(q.Pos, "retry.mechanism", "retry")
	e.checkRejectCycle(q, pos)
	if !e.oneDelay(q) {
		return
	}
	name := e.singleWaitQueue(q, d, q.Retry.Delays[0])
	const why = "retry.mechanism reject-cycle"
	d.settings = append(d.settings,
		wanted{
			name: "dead-letter-exchange", value: "", by: e.routeWay(q, "dead-letter-exchange"), pos: pos, why: why,
		},
		wanted{
			name: "dead-letter-routing-key", value: name, by: e.routeWay(q, "dead-letter-routing-key"), pos: pos, why: why,
		})
	if e.isQuorum(q) {
		d.settings = append(d.settings, wanted{
			name: "delivery-limit", value: unlimited, by: topology.ByPolicy, pin: true, pos: pos, why: why,
		})
	}
}

// checkRejectCycle tells what would send messages into the wait queue without a
// reject: the broker drops them as a cycle when they come back.
func (e *expansion) checkRejectCycle(q *Queue, pos topology.Position) {
	refuse := func(key, why string) {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "reject-cycle-conflict",
			Summary:  fmt.Sprintf("queue %q: %s cannot stand beside mechanism reject-cycle", q.Name, key),
			Detail:   why + " Remove it, or write mechanism: wait-queue.",
			Object:   topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: q.Name},
			Position: q.At.place(pos, key), Related: []diag.Related{{Position: pos, Text: "the mechanism"}},
		})
	}
	for _, name := range []string{"message-ttl", "max-length", "max-length-bytes"} {
		row := catalog.Lookup(name)
		_, written := q.Settings[name]
		_, raw := q.Arguments[row.Argument]
		const why = "What expires or overflows would enter the wait queue without a reject, and the broker drops it silently when it comes back."
		switch {
		case written:
			refuse(row.SpecKey(), why)
		case raw:
			refuse("arguments."+row.Argument, why)
		}
	}
	if dl := q.DeadLetter; dl != nil {
		const why = "The queue's own dead-letter route is the wait queue; the consumer copies to dead_letter at the cap."
		if dl.Strategy != "" {
			refuse("dead_letter.strategy", why)
		}
		if dl.Categories != nil {
			refuse("dead_letter.categories", why)
		}
	}
}

// deriveDelayedRetry turns delays into the settings of 4.3's own delayed retry:
// the n-th failure waits n times min, at most max.
func (e *expansion) deriveDelayedRetry(q *Queue, d *derived) {
	delays := q.Retry.Delays
	pos := q.At.place(q.Pos, "retry.delays", "retry")
	list, _ := distinct(delays)
	if len(list) == 1 {
		delays = list
	}
	if !growsEvenly(delays) {
		e.fail(q, "retry-delays", pos,
			fmt.Sprintf("queue %q: mechanism delayed-retry cannot wait so", q.Name),
			"RabbitMQ's own delayed retry knows one delay, or d, 2d, 3d and so on. Write such delays, or mechanism: wait-queue.")
		return
	}
	const why = "retry.delays"
	add := func(name string, value any) {
		d.settings = append(d.settings, wanted{name: name, value: value, by: wayOf(q, name), pos: pos, why: why})
	}
	add("delayed-retry-type", "failed")
	add("delayed-retry-min", delays[0].Milliseconds())
	add("delayed-retry-max", delays[len(delays)-1].Milliseconds())
}

// deriveDelayedExchange makes the exchange of the delayed message plugin.
func (e *expansion) deriveDelayedExchange(q *Queue, d *derived) {
	pos := q.At.place(q.Pos, "retry.mechanism", "retry")
	text := fmt.Sprintf("retry of queue %q", q.Name)
	d.retry.Exchange = q.Name + ".delay"
	if !e.checkName(q, "exchange", d.retry.Exchange, pos) {
		return
	}
	d.exchanges = append(d.exchanges, &topology.Exchange{
		VirtualHost: e.spec.Name, Name: d.retry.Exchange, Type: "x-delayed-message", Durable: true,
		Arguments: topology.Arguments{"x-delayed-type": "direct"}, Position: pos,
		Intent: &topology.ExchangeIntent{Generated: text},
	})
	d.bindings = append(d.bindings, &topology.Binding{
		VirtualHost: e.spec.Name, Source: d.retry.Exchange, Destination: q.Name, DestinationType: topology.ToQueue,
		RoutingKey: q.Name, Generated: text, Position: pos,
	})
}

// fail adds an error about a queue.
func (e *expansion) fail(q *Queue, code string, pos topology.Position, summary, detail string) {
	e.found.Add(diag.Diagnostic{
		Severity: diag.Error, Code: code, Summary: summary, Detail: detail,
		Object: topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: q.Name}, Position: pos,
	})
}

// checkName tells when a generated name is longer than RabbitMQ's names.
func (e *expansion) checkName(q *Queue, kind, name string, pos topology.Position) bool {
	if len(name) <= maxName {
		return true
	}
	e.fail(q, "name-too-long", pos,
		fmt.Sprintf("queue %q needs the %s %q, whose name has %d bytes; RabbitMQ takes %d", q.Name, kind, name, len(name), maxName),
		"Give the queue a shorter name.")
	return false
}
