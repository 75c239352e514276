package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// guardedWriter deletes a queue only when it is proved that nothing is in it. The
// broker does not do it: it ignores if-empty on streams, refuses it on quorum
// queues and overlooks what is with consumers on classic ones.
type guardedWriter struct {
	apply.Broker
	client *broker.Client
	// queues are to be proved empty. The others were agreed to be deleted with what
	// they hold.
	queues map[topology.Key]*topology.Queue

	// prove says by queue why it is not empty; "": it is.
	prove func(context.Context, []*topology.Queue) (map[topology.Key]string, error)

	mu     sync.Mutex
	proofs map[topology.Key]string // nil: not proved yet
}

func guard(b apply.Broker, client *broker.Client, p *plan.Plan) *guardedWriter {
	g := &guardedWriter{Broker: b, client: client, queues: map[topology.Key]*topology.Queue{}}
	g.prove = func(context.Context, []*topology.Queue) (map[topology.Key]string, error) {
		return nil, errors.New("it cannot be proved that queues are empty")
	}
	for _, c := range p.Changes {
		if q, ok := c.Before.(*topology.Queue); ok && c.Action == plan.Delete && slices.Contains(c.NeedsEmpty, q.Name) {
			g.queues[c.Key] = q
		}
	}
	return g
}

// Delete implements apply.Broker.
func (g *guardedWriter) Delete(ctx context.Context, o topology.Object) error {
	if q := g.queues[o.Key()]; q != nil {
		gone, err := g.check(ctx, q)
		if gone || err != nil {
			return err
		}
	}
	return g.Broker.Delete(ctx, o)
}

// check proves that a queue is empty and asks it once more. The proof takes some
// seconds, so that it is made for all queues when the first one is to go: by then
// nothing is bound to it any more.
func (g *guardedWriter) check(ctx context.Context, q *topology.Queue) (gone bool, err error) {
	why, err := g.proof(ctx, q)
	if err != nil {
		return false, err
	}
	if why != "" {
		return false, fmt.Errorf("delete %s: it is not proved empty: %s", q.Key(), why)
	}
	counts, err := g.client.Counts(ctx, q.VirtualHost, []string{q.Name})
	if err != nil {
		return false, err
	}
	now, there := counts[q.Name]
	switch {
	case !there:
		return true, nil
	case now.Messages == nil || now.Consumers == nil:
		return false, fmt.Errorf("delete %s: what it holds cannot be counted", q.Key())
	case *now.Messages > 0 || *now.Consumers > 0:
		return false, fmt.Errorf("delete %s: it is in use again: %s, %s", q.Key(),
			text.Plural(int(*now.Messages), "message", "messages"), text.Plural(int(*now.Consumers), "consumer", "consumers"))
	}
	return false, nil
}

func (g *guardedWriter) proof(ctx context.Context, q *topology.Queue) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proofs == nil {
		all := make([]*topology.Queue, 0, len(g.queues))
		for _, one := range g.queues {
			all = append(all, one)
		}
		slices.SortFunc(all, func(a, b *topology.Queue) int {
			return cmp.Or(cmp.Compare(a.VirtualHost, b.VirtualHost), cmp.Compare(a.Name, b.Name))
		})
		found, err := g.prove(ctx, all)
		if err != nil {
			return "", err
		}
		g.proofs = found
	}
	why, ok := g.proofs[q.Key()]
	if !ok {
		why = "nothing is known of it"
	}
	return why, nil
}
