package specs

import (
	"fmt"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func readRetry(d *decoder, q *Queue, n *node) {
	r := &Retry{Mechanism: topology.MechanismAuto}
	if readTable(d, n, r, retryFields(q)) {
		q.Retry = r
	}
}

func retryFields(q *Queue) fields[Retry] {
	return fields[Retry]{
		"max_attempts": func(d *decoder, r *Retry, n *node) {
			if i, ok := d.readInteger(n, 1); ok {
				r.MaxAttempts = i
			}
		},
		"delays": func(d *decoder, r *Retry, n *node) {
			d.readList(n, func(item *node) {
				if item.kind == tableNode { // names the wait queue that serves the delay
					if t, ok := d.readDelay(item); ok {
						r.Delays = append(r.Delays, t.Delay)
						q.Delays = append(q.Delays, t)
					}
				} else if t, ok := d.readWait(item); ok {
					r.Delays = append(r.Delays, t)
				}
			})
		},
		"mechanism": setWord(func(r *Retry) *topology.Mechanism { return &r.Mechanism },
			topology.MechanismAuto, topology.MechanismWaitQueue, topology.MechanismRejectCycle,
			topology.MechanismDelayedRetry, topology.MechanismDelayedExchange, topology.MechanismPerMessage),
		"wait_queue": func(d *decoder, r *Retry, n *node) {
			readTable(d, n, &r.WaitQueue, waitQueueFields)
			if e := n.entry("name"); e != nil && n.entry("names") != nil {
				d.finding(e.pos(), "setting-twice", d.subject()+" has both name and names", "Keep names where there are several delays, else name.")
			}
		},
	}
}

var waitQueueFields = fields[WaitQueue]{
	"name":  func(d *decoder, w *WaitQueue, n *node) { d.readQueueName(n, &w.Name) },
	"names": func(d *decoder, w *WaitQueue, n *node) { d.readQueueName(n, &w.Names) },
	"type": func(d *decoder, w *WaitQueue, n *node) {
		if t, ok := d.readQueueType(n); ok {
			w.Type = t
		}
	},
}

// readQueueName reads the name of a queue that is to be generated.
func (d *decoder) readQueueName(n *node, name *string) {
	if s, ok := d.readText(n); ok {
		*name = s
		d.checkName(topology.KindQueue, s, n.pos())
	}
}

// readWait reads a delay that a wait queue can have.
func (d *decoder) readWait(n *node) (time.Duration, bool) {
	t, ok := d.readDuration(n)
	if !ok {
		return 0, false
	}
	if t < time.Millisecond || t > maxDelay {
		d.wrongValue(n, fmt.Sprintf("must be from 1ms to %s, not %s", FormatDuration(maxDelay), FormatDuration(t)))
		return 0, false
	}
	return t, true
}

// readDelay reads {delay: 1m, queue: delay.1m}.
func (d *decoder) readDelay(n *node) (topology.Delay, bool) {
	var t topology.Delay
	if !readTable(d, n, &t, delayFields) {
		return t, false
	}
	for _, key := range []string{"delay", "queue"} {
		if n.get(key) == nil {
			d.missing(n.pos(), key, "Write both: {delay: 1m, queue: NAME}.")
			return t, false
		}
	}
	return t, t.Delay > 0
}

var delayFields = fields[topology.Delay]{
	"delay": func(d *decoder, t *topology.Delay, n *node) { t.Delay, _ = d.readWait(n) },
	"queue": setText(func(t *topology.Delay) *string { return &t.Queue }),
}

// readDeadLetter reads a queue's name or the whole route.
func (d *decoder) readDeadLetter(n *node) *DeadLetter {
	dl := &DeadLetter{}
	if n.kind == textNode {
		s := n.text
		dl.Queue = &s
		return dl
	}
	if n.kind != tableNode {
		d.wrongType(n, "the name of a queue or a map")
		return nil
	}
	readTable(d, n, dl, deadLetterFields)
	return dl
}

var deadLetterFields = fields[DeadLetter]{
	"queue":       setOptional(func(dl *DeadLetter) **string { return &dl.Queue }),
	"exchange":    setOptional(func(dl *DeadLetter) **string { return &dl.Exchange }),
	"routing_key": setOptional(func(dl *DeadLetter) **string { return &dl.RoutingKey }),
	"via":         setText(func(dl *DeadLetter) *string { return &dl.Via }),
	"strategy":    setWord(func(dl *DeadLetter) *string { return &dl.Strategy }, "at-most-once", "at-least-once"),
	"method":      setWord(func(dl *DeadLetter) *string { return &dl.Method }, "auto", "modified", "republish"),
	"settings_by": setWord(func(dl *DeadLetter) *topology.By { return &dl.SettingsBy }, topology.ByPolicy, topology.ByArgument),
	"categories":  readCategories,
}

func setOptional(field func(dl *DeadLetter) **string) func(*decoder, *DeadLetter, *node) {
	return func(d *decoder, dl *DeadLetter, n *node) {
		if s, ok := d.readText(n); ok {
			*field(dl) = &s
		}
	}
}

func readCategories(d *decoder, dl *DeadLetter, n *node) {
	c := &topology.Categories{Header: categoryHeader}
	if !readTable(d, n, c, categoryFields) {
		return
	}
	if n.get("routes") == nil {
		d.missing(n.pos(), "routes", "Write one queue for each category.")
	}
	slices.SortFunc(c.Routes, func(a, b topology.CategoryRoute) int { return compareText(a.Name, b.Name) })
	dl.Categories = c
}

var categoryFields = fields[topology.Categories]{
	"header": setText(func(c *topology.Categories) *string { return &c.Header }),
	"routes": func(d *decoder, c *topology.Categories, n *node) {
		if n.kind != tableNode {
			d.wrongType(n, "a map of categories")
			return
		}
		for i := range n.table {
			e := &n.table[i]
			d.push(e.key)
			r := topology.CategoryRoute{Name: e.key}
			d.readCategoryRoute(e.value, &r)
			c.Routes = append(c.Routes, r)
			d.pop()
		}
	},
	"otherwise": func(d *decoder, c *topology.Categories, n *node) { d.readCategoryRoute(n, &c.Otherwise) },
}

func (d *decoder) readCategoryRoute(n *node, r *topology.CategoryRoute) {
	if readTable(d, n, r, categoryRouteFields) && n.get("queue") == nil {
		d.missing(n.pos(), "queue", "Name the queue of the category.")
	}
}

var categoryRouteFields = fields[topology.CategoryRoute]{
	"queue": func(d *decoder, r *topology.CategoryRoute, n *node) { d.readQueueName(n, &r.Queue) },
	"type": func(d *decoder, r *topology.CategoryRoute, n *node) {
		if t, ok := d.readQueueType(n); ok {
			r.Type = t
		}
	},
	"owner":  setText(func(r *topology.CategoryRoute) *string { return &r.Owner }),
	"replay": setWord(func(r *topology.CategoryRoute) *string { return &r.Replay }, "automatic", "manual"),
}
