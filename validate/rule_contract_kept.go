package validate

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var notNodeLossSafe = Rule{
	Code: "not-node-loss-safe", Severity: diag.Error,
	Summary: "A queue's contract says that its messages survive the loss of a node, and a queue on their way does not.",
	Doc: "A classic queue lives on one node, and its messages are gone with that node's disk. Quorum queues and streams have " +
		"members on several nodes, unless they are made with one. Asked of the queue, its dead-letter queues and its wait queues.",
	Fix: "Make it a quorum queue or a stream, or say `survives: restart` in the contract.",
	Check: func(p *Pass) {
		told := map[string]bool{} // many queues can rest on one
		tell := func(promised, q *topology.Queue, as string) {
			if !told[q.Name] {
				told[q.Name] = true
				p.replicated(promised, q, as)
			}
		}
		var promising []*topology.Queue
		for _, q := range p.ours() {
			if c := intent(q).Contract; c != nil && c.Survives == "node-loss" {
				promising = append(promising, q)
				tell(q, q, "")
			}
		}
		for _, q := range promising {
			for _, w := range p.restsOn(q) {
				tell(q, w.queue, w.as)
			}
		}
	},
}

// resting is a queue that the promise of another one rests on.
type resting struct {
	queue *topology.Queue
	as    string
}

// restsOn lists the declared queues that messages of a queue go to when they fail
// or wait.
func (p *Pass) restsOn(q *topology.Queue) []resting {
	var all []resting
	add := func(name, as string) {
		if target := p.index.Queues[name]; target != nil && !isExternal(target) {
			all = append(all, resting{target, as})
		}
	}
	in := intent(q)
	if in.Retry != nil {
		for _, name := range in.Retry.WaitQueues {
			add(name, "a wait queue")
		}
	}
	reach, _ := p.graph(p.newest()).DeadLetters(q.Name)
	for _, name := range targets(reach) {
		add(name, "a dead-letter queue")
	}
	if in.DeadLetter != nil && in.DeadLetter.Queue != "" {
		add(in.DeadLetter.Queue, "a dead-letter queue")
	}
	return all
}

// replicated reports a queue that is on one node only.
func (p *Pass) replicated(promised, q *topology.Queue, as string) {
	var lacks string
	t, set := p.typeOf(q), p.effective(q, p.newest())
	members := map[topology.QueueType]string{topology.Quorum: "quorum-initial-group-size", topology.Stream: "initial-cluster-size"}[t]
	n, given := set.number(members)
	switch {
	case members == "":
		lacks = "is a classic queue, which lives on one node"
	case given && n == 1:
		lacks = fmt.Sprintf("is made with one member (%s)", members)
	default:
		return
	}
	b := problemf("queue %q promises to survive the loss of a node and %s", promised.Name, lacks)
	if as != "" {
		b = problemf("queue %q promises to survive the loss of a node, and %s of it, queue %q, %s", promised.Name, as, q.Name, lacks)
	}
	b.related = related(promised.Intent.Contract.Position, fmt.Sprintf("the contract of queue %q", promised.Name))
	at := q.Position
	if given {
		at = place(q, members)
	}
	p.report(q, at, b)
}

var contractNotKept = Rule{
	Code: "contract-not-kept", Severity: diag.Error,
	Summary: "A queue's contract promises what its topology does not do.",
	Doc: "Two promises are held against the topology here: that messages that keep failing end in the queue that after_failure " +
		"names, and that a message comes again after a crash of its consumer. A quorum queue with the delivery limit 0 gives a " +
		"message up at its first return, that of a crash too; a queue that deletes itself is gone with its consumer, and " +
		"its messages with it (measured). not-restart-safe and not-node-loss-safe hold what survives.",
	Fix: "Correct the contract, or the topology.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			c := intent(q).Contract
			if c == nil || c.None {
				continue
			}
			p.report(q, at(q, "contract.after_failure", "contract"), p.afterFailure(q, c))
			if c.RedeliveredAfterCrash == nil || !*c.RedeliveredAfterCrash {
				continue
			}
			if q.AutoDelete {
				p.report(q, at(q, "auto_delete"), problemf("queue %q promises that a message comes again after a crash of its consumer, and deletes itself when its last consumer is gone", q.Name))
			}
			p.onVersions(q, at(q, "retry.max_attempts", "delivery_limit", "arguments.x-delivery-limit"), func(v catalog.Version) problem {
				if n, _, limited := p.limit(q, v); p.typeOf(q) != topology.Quorum || !limited || n > 0 {
					return problem{}
				}
				return problemf("queue %q promises that a message comes again after a crash of its consumer, and gives it up after one delivery", q.Name)
			})
		}
	},
}

// afterFailure holds where the contract says that messages go against where they
// do.
func (p *Pass) afterFailure(q *topology.Queue, c *topology.Contract) problem {
	promised := c.AfterFailureQueue
	if promised == "" {
		return problem{}
	}
	if _, known := p.queue(promised); known == missing {
		return problemf("the contract of queue %q names the queue %q for messages that keep failing, which is not declared", q.Name, promised)
	}
	// A consumer that counts sends its last copy there; only then does it matter where.
	if d := intent(q).DeadLetter; d != nil && d.Queue == promised {
		return problem{}
	}
	ends, open := p.finally(q)
	if open || len(ends) == 0 || slices.Contains(ends, promised) {
		return problem{} // without a route other rules say that they are lost
	}
	shown := ends[:min(len(ends), shownNames)]
	return problemf("the contract of queue %q says that messages that keep failing go to queue %q; its dead-letter route leads to %s", q.Name, promised, quoted(shown, "and"))
}

// maxFollowed bounds how many queues one queue's dead letters are followed into.
const maxFollowed = 1000

// finally lists the queues that the dead letters of a queue can come to, directly or
// by further routes; open says that there may be others.
func (p *Pass) finally(q *topology.Queue) (names []string, open bool) {
	g := p.graph(p.newest())
	seen := map[string]bool{q.Name: true}
	next := []string{q.Name}
	for len(next) > 0 {
		if len(names) > maxFollowed {
			return names, true
		}
		reach, _ := g.DeadLetters(next[0])
		next = next[1:]
		open = open || reach.Open
		for _, name := range targets(reach) {
			if !seen[name] {
				seen[name] = true
				names, next = append(names, name), append(next, name)
			}
		}
	}
	return names, open
}
