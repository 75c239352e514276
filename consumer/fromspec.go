package consumer

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
)

// declared is the queue and what it needs, as the options or the spec say.
type declared struct {
	queue *queue
	needs []need
	spec  *specs.Spec // nil without
	vhost string      // in the spec
	host  *topology.VirtualHost
}

// need is an object that must exist.
type need struct {
	kind topology.Kind
	name string
	what string // "its dead-letter queue"
}

// resolve works out the queue for a broker's version. Problems are all that is wrong
// with options and spec.
func (o *options) resolve(version string) (*declared, []Problem) {
	problems := slices.Clone(o.fixed)
	if o.queue == "" {
		return nil, append(problems, Problem{Text: "no queue is named: use FromSpec or Queue"})
	}
	var d *declared
	var more []Problem
	switch q := o.inHost(); {
	case q != nil:
		d = describe(o.host, q)
		d.host = o.host
	case o.spec != nil:
		d, more = o.fromSpec(version)
	default:
		d, more = o.fromOptions()
	}
	problems = append(problems, more...)
	if d == nil {
		return nil, problems
	}
	q := d.queue
	q.countHeader, q.immediate = o.countHeader, o.immediate
	q.categoryHeader = cmp.Or(q.categoryHeader, headerCategory)
	q.copyTo, q.inProcess = cmp.Or(o.copyTo, q.name), o.inProcess
	if o.copyTo != "" {
		d.needs = append(d.needs, need{kind: topology.KindQueue, name: o.copyTo, what: "where copies go"})
		if q.quorum() || q.maxAttempts == 0 {
			problems = append(problems, Problem{Object: fmt.Sprintf("queue %q", q.name), Text: "CopyTo has no effect: Retry makes no copies of a queue that counts itself or has no cap"})
		}
	}
	if q.kind == topology.Stream {
		problems = append(problems, Problem{Object: fmt.Sprintf("queue %q", q.name), Text: "it is a stream, which this package does not consume: its messages are not settled one by one"})
	}
	if o.publish != "" && !q.publishes() {
		problems = append(problems, Problem{
			Object: fmt.Sprintf("queue %q", q.name),
			Text:   "CopyPublish has no effect: of this queue no copies are made (the broker counts its attempts)",
		})
	}
	return d, problems
}

// inHost is the queue of FromTopology.
func (o *options) inHost() *topology.Queue {
	if o.host == nil {
		return nil
	}
	return o.host.Index().Queues[o.queue]
}

func (o *options) fromOptions() (*declared, []Problem) {
	h := o.byHand
	q := &queue{name: o.queue, kind: h.kind, maxAttempts: h.maxAttempts, delays: h.delays, waits: h.waits, dropIsLoss: true}
	d := &declared{queue: q, needs: []need{{kind: topology.KindQueue, name: q.name}}}
	object := fmt.Sprintf("queue %q", q.name)
	var problems []Problem
	switch {
	case h.hasCap && h.dead == "":
		problems = append(problems, Problem{Object: object, Text: "there is a cap (MaxAttempts) and no dead-letter queue: a message would be lost after its last attempt; add DeadLetterTo"})
	case !h.hasCap && h.dead != "":
		problems = append(problems, Problem{Object: object, Text: "there is a dead-letter queue (DeadLetterTo) and no cap: it would never get a message; add MaxAttempts"})
	}
	if h.kind == "" && (h.hasCap || len(h.delays) > 0) {
		problems = append(problems, Problem{Object: object, Text: "its type decides who counts attempts and is not known; add QueueType, or use FromSpec"})
	}
	if h.dead != "" {
		q.dead = &target{key: h.dead}
		d.needs = append(d.needs, need{kind: topology.KindQueue, name: h.dead, what: "its dead-letter queue"})
	}
	if len(h.delays) > 0 {
		q.mechanism = waitQueue
		for _, w := range h.waits {
			d.needs = append(d.needs, need{kind: topology.KindQueue, name: w, what: "its wait queue"})
		}
	}
	return d, problems
}

func (o *options) fromSpec(version string) (*declared, []Problem) {
	files, err := specs.ReadFS(o.spec.fsys, o.spec.file)
	if err != nil {
		return nil, []Problem{{Text: fmt.Sprintf("read the spec: %v", err)}}
	}
	spec, findings := specs.Load(specs.Input{Files: files})
	if findings.HasErrors() {
		return nil, ofFindings(findings)
	}
	v, _ := catalog.ParseVersion(version) // none: the newest that the spec allows
	expanded, findings := spec.Expand(specs.Target{Version: v})
	if findings.HasErrors() {
		return nil, ofFindings(findings)
	}
	var found []*topology.VirtualHost
	for _, host := range expanded.VirtualHosts {
		if host.Index().Queues[o.queue] != nil {
			found = append(found, host)
		}
	}
	if len(found) == 0 {
		return nil, []Problem{{Object: fmt.Sprintf("queue %q", o.queue), Text: fmt.Sprintf("the spec %s has no such queue; it has %s", o.spec.file, queueNames(expanded))}}
	}
	if len(found) > 1 {
		return nil, []Problem{{Object: fmt.Sprintf("queue %q", o.queue), Text: "the spec has it in several virtual hosts; give the consumer the file of one"}}
	}
	if h := o.byHand; h.hasCap || h.dead != "" || len(h.delays) > 0 || h.kind != "" {
		return nil, []Problem{{Text: "MaxAttempts, DeadLetterTo, Delay and QueueType are for queues without a spec: the spec says it"}}
	}
	d := describe(found[0], found[0].Index().Queues[o.queue])
	d.spec, d.vhost, d.host = spec, found[0].Name, found[0]
	return d, nil
}

func ofFindings(list diag.List) []Problem {
	var all []Problem
	for _, d := range list {
		if d.Severity == diag.Error {
			all = append(all, Problem{Object: d.Position.String(), Text: d.Summary + " [" + d.Code + "]"})
		}
	}
	return all
}

func queueNames(t *topology.Topology) string {
	var names []string
	for _, v := range t.VirtualHosts {
		for _, q := range v.Queues {
			names = append(names, fmt.Sprintf("%q", q.Name))
		}
	}
	const shown = 8
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), n-shown)
	}
	return strings.Join(names, ", ")
}

// describe says what an expanded spec says of a queue.
func describe(v *topology.VirtualHost, from *topology.Queue) *declared {
	in := from.Intent
	if in == nil {
		in = &topology.QueueIntent{}
	}
	q := &queue{name: from.Name, kind: cmp.Or(from.Type, topology.Classic), dropIsLoss: in.DeadLetter == nil}
	d := &declared{queue: q, needs: []need{{kind: topology.KindQueue, name: q.name}}}
	add := func(kind topology.Kind, name, what string) {
		n := need{kind: kind, name: name, what: what}
		if name != "" && !slices.Contains(d.needs, n) {
			d.needs = append(d.needs, n)
		}
	}
	if r := in.Retry; r != nil {
		q.maxAttempts, q.mechanism, q.delays, q.waits, q.exchange = int(r.MaxAttempts), r.Mechanism, r.Delays, r.WaitQueues, r.Exchange
		for _, w := range q.waits {
			add(topology.KindQueue, w, "its wait queue")
		}
		add(topology.KindExchange, q.exchange, "its delayed exchange")
	}
	if dl := in.DeadLetter; dl != nil {
		q.dead = deadTarget(dl)
		add(topology.KindQueue, dl.Queue, "its dead-letter queue")
		add(topology.KindExchange, dl.Exchange, "its dead-letter exchange")
		add(topology.KindExchange, dl.Via, "its dead-letter exchange")
		if c := dl.Categories; c != nil {
			q.categoryTo, q.categoryHeader = c.Exchange, c.Header
			add(topology.KindExchange, c.Exchange, "the exchange of its categories")
			add(topology.KindExchange, c.AlternateExchange, "the exchange for dead letters without category")
			for _, route := range append(slices.Clone(c.Routes), c.Otherwise) {
				add(topology.KindQueue, route.Queue, "a queue of its categories")
			}
		}
	}
	for _, b := range v.Bindings {
		if b.DestinationType == topology.ToQueue && b.Destination == q.name {
			add(topology.KindExchange, b.Source, "an exchange it is bound to")
		}
	}
	return d
}

// deadTarget is where the last copy goes.
func deadTarget(dl *topology.DeadLetter) *target {
	switch {
	case dl.Categories != nil:
		return &target{exchange: dl.Categories.Exchange, ownKey: true}
	case dl.Queue != "":
		return &target{key: dl.Queue}
	case dl.RoutingKey != nil:
		return &target{exchange: dl.Exchange, key: *dl.RoutingKey}
	}
	return &target{exchange: dl.Exchange, ownKey: true}
}

// programName is how copies name who made them, where nobody says it.
func programName() string { return filepath.Base(os.Args[0]) }
