package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// guardedWriter deletes a queue only when it is proved that nothing is in it. The
// broker does not do it: it ignores if-empty on streams, refuses it on quorum
// queues and overlooks what is with consumers on classic ones.
type guardedWriter struct {
	apply.Broker
	writer broker.Writer
	client *broker.Client
	// queues are to be proved empty. The others were agreed to be deleted with what
	// they hold.
	queues map[topology.Key]*topology.Queue

	mu     sync.Mutex
	proofs map[topology.Key]broker.Emptiness // nil: not proved yet
}

func guard(b apply.Broker, writer broker.Writer, client *broker.Client, p *plan.Plan) *guardedWriter {
	g := &guardedWriter{Broker: b, writer: writer, client: client, queues: map[topology.Key]*topology.Queue{}}
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
		return g.deleteEmpty(ctx, q)
	}
	return g.Broker.Delete(ctx, o)
}

// deleteEmpty deletes a queue when it is proved empty and still is. The proof takes
// some seconds, so that it is made for all queues when the first one is to go: by
// then nothing is bound to it any more.
func (g *guardedWriter) deleteEmpty(ctx context.Context, q *topology.Queue) error {
	proof, existed, err := g.proof(ctx, q)
	if err != nil {
		return err
	}
	if existed && !proof.Empty {
		return fmt.Errorf("delete %s: it is not proved empty: %s", q.Key(), proof.Why)
	}
	if !existed {
		return nil // it counts as deleted; the read-back tells if it is there again
	}
	return g.writer.DeleteEmpty(ctx, q)
}

func (g *guardedWriter) proof(ctx context.Context, q *topology.Queue) (found broker.Emptiness, existed bool, err error) {
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
		if g.proofs, err = g.client.ProveEmpty(ctx, all); err != nil {
			g.proofs = nil
			return found, false, err
		}
	}
	found, existed = g.proofs[q.Key()]
	return found, existed, nil
}
