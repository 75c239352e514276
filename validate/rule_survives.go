package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var notRestartSafe = Rule{
	Code: "not-restart-safe", Severity: diag.Error,
	Summary: "A queue's contract says that its messages survive a restart, and something on their way does not.",
	Doc: "A restart deletes what is not durable. A queue that deletes itself or expires takes its messages along at any time; " +
		"neither dead-letters them. The same holds for the exchanges that feed the queue, its dead-letter exchange and " +
		"queues, its wait queues and their alternate exchanges.",
	Fix: "Remove the named property, or say `survives: nothing` in the contract.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			c := intent(q).Contract
			if c == nil || c.Survives != "restart" && c.Survives != "node-loss" {
				continue
			}
			s := survival{Pass: p, promised: q, seen: map[topology.Key]bool{}}
			s.queue(q, "")
		}
	},
}

// survival walks everything that the promise of one queue rests on.
type survival struct {
	*Pass
	promised *topology.Queue
	seen     map[topology.Key]bool
}

// queue checks a queue, the exchanges that feed it and where it leads; as says
// what it is to the promised queue.
func (s *survival) queue(q *topology.Queue, as string) {
	if q == nil || isExternal(q) || s.seen[q.Key()] {
		return
	}
	s.seen[q.Key()] = true
	s.flags(q, as, q.Durable, q.AutoDelete, q.Exclusive)
	v := s.newest()
	if set := s.effective(q, v); set.has("expires") {
		s.tell(q, as, "expires"+set.from("expires"))
	}
	for _, b := range s.index.To[topology.End{Type: topology.ToQueue, Name: q.Name}] {
		s.exchange(b.Source, "a source")
	}
	if r := s.graph(v).DeadLetter(q.Name); r != nil {
		s.exchange(r.Exchange, "the dead-letter exchange")
		reach, _ := s.graph(v).DeadLetters(q.Name)
		for _, name := range targets(reach) {
			s.queue(s.index.Queues[name], "a dead-letter queue")
		}
	}
	in := intent(q)
	if in.DeadLetter != nil && in.DeadLetter.Queue != "" {
		s.queue(s.index.Queues[in.DeadLetter.Queue], "the dead-letter queue")
	}
	if in.Retry != nil {
		for _, name := range in.Retry.WaitQueues {
			s.queue(s.index.Queues[name], "a wait queue")
		}
		s.exchange(in.Retry.Exchange, "the delay exchange")
	}
}

func (s *survival) exchange(name, as string) {
	e := s.isDeclaredExchange(name)
	if e == nil || s.seen[e.Key()] {
		return
	}
	s.seen[e.Key()] = true
	s.flags(e, as, e.Durable, e.AutoDelete, false)
	if ae, _, ok := s.alternate(e); ok {
		s.exchange(ae, "an alternate exchange")
	}
}

func (s *survival) flags(o topology.Object, as string, durable, autoDelete, exclusive bool) {
	if !durable {
		s.tell(o, as, "is not durable")
	}
	if autoDelete {
		s.tell(o, as, "deletes itself (auto_delete)")
	}
	if exclusive {
		s.tell(o, as, "is exclusive")
	}
}

func (s *survival) tell(o topology.Object, as, what string) {
	k := o.Key()
	b := problemf("queue %q promises to survive a restart and %s", s.promised.Name, what)
	if as != "" {
		b = problemf("queue %q promises to survive a restart, and %s of it, %s %q, %s", s.promised.Name, as, k.Kind.Title(), k.Name, what)
	}
	b.related = related(s.promised.Intent.Contract.Position, fmt.Sprintf("the contract of queue %q", s.promised.Name))
	s.report(o, o.Place(), b)
}
