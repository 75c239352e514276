package replace

import (
	"context"
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// out empties the old queue into the holding queue and puts the new one in its place.
func (r *run) out(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	if err := r.try(ctx); err != nil {
		return err
	}
	begun := r.hold != nil
	if !begun {
		hold := r.holdingQueue()
		if err := r.Create(ctx, hold); err != nil {
			return err
		}
		r.hold = hold
	}
	if err := r.way(ctx, Holding(r.want.Name), r.hold.Name); err != nil {
		return err
	}
	if err := r.reached(Held); err != nil {
		return err
	}
	bindings := r.bindings(r.want.Name)
	if err := r.lead(ctx, bindings, r.hold.Name); err != nil {
		return err
	}
	if err := r.reached(HeldBound); err != nil {
		return err
	}
	if err := r.unbind(ctx, bindings); err != nil {
		return err
	}
	if !begun {
		n, err := r.ready(ctx, r.hold)
		if err != nil {
			return err
		}
		r.report.Twice += n
	}
	if err := r.reached(Unbound); err != nil {
		return err
	}
	for round := 1; ; round++ {
		swapped, why, err := r.takeOut(ctx)
		switch {
		case err != nil:
			return err
		case swapped:
			return r.reached(Swapped)
		case round == rounds:
			return r.refuse("it cannot be proved empty: "+why,
				"stop who publishes to it by the default exchange, let who has taken messages acknowledge them, and see that dead letters arrive")
		}
	}
}

// takeOut is one round of emptying the old queue.
func (r *run) takeOut(ctx context.Context) (swapped bool, why string, err error) {
	if err := r.unused(ctx); err != nil {
		return false, "", err
	}
	n, err := r.Move(ctx, r.have, Holding(r.want.Name), 0)
	r.report.Out += n
	if err != nil {
		return false, "", err
	}
	why, err = r.Prove(ctx, r.have)
	if err != nil || why != "" {
		return false, why, err
	}
	if err := r.reached(Emptied); err != nil {
		return false, "", err
	}
	if why, err := r.late(ctx); err != nil || why != "" {
		return false, why, err
	}
	// The old queue is empty and unused: what a policy that does not fit it takes from
	// it costs nothing, and the time without a queue stays short.
	if err := r.put(ctx); err != nil {
		return false, "", err
	}
	gap, why, err := r.Swap(ctx, r.have, r.want)
	if err != nil || why != "" {
		return false, why, err
	}
	r.report.Gap = gap
	return true, "", nil
}

// late leads away the bindings that clients have made to the old queue since it was
// unbound, which would go with it. why says that there were some: messages may have
// come by them.
func (r *run) late(ctx context.Context) (why string, err error) {
	host, _, err := r.Read(ctx, r.want.VirtualHost)
	if err != nil {
		return "", err
	}
	if host == nil {
		return "", r.refuse("its virtual host is not there", "plan again")
	}
	r.host = host
	bindings := r.bindings(r.want.Name)
	if len(bindings) == 0 {
		return "", nil
	}
	before, err := r.ready(ctx, r.hold)
	if err != nil {
		return "", err
	}
	if err := r.lead(ctx, bindings, r.hold.Name); err != nil {
		return "", err
	}
	if err := r.unbind(ctx, bindings); err != nil {
		return "", err
	}
	after, err := r.ready(ctx, r.hold)
	r.report.Twice += max(0, after-before)
	return fmt.Sprintf("it was bound to exchange %q meanwhile", bindings[0].Source), err
}

// lead makes bindings again with another destination.
func (r *run) lead(ctx context.Context, bindings []*topology.Binding, queue string) error {
	for _, b := range bindings {
		if err := r.Create(ctx, leading(b, queue)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) unbind(ctx context.Context, bindings []*topology.Binding) error {
	for _, b := range bindings {
		if err := r.Delete(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) put(ctx context.Context) error {
	for _, p := range r.job.Policies {
		if err := r.Put(ctx, p); err != nil {
			return err
		}
	}
	return r.reached(Policies)
}

// declare continues after a run that was killed when the old queue was deleted.
func (r *run) declare(ctx context.Context) error {
	old := &topology.Queue{Name: r.want.Name, Type: topology.Classic} // what it was nobody knows
	if why, remedy := Unfit(old, r.want); why != "" {
		return r.refuse(why, remedy)
	}
	if err := r.put(ctx); err != nil {
		return err
	}
	if err := r.Create(ctx, r.want); err != nil {
		return err
	}
	return r.reached(Swapped)
}

// back empties the holding queue into the new queue and deletes it.
func (r *run) back(ctx context.Context) error {
	if err := r.read(ctx); err != nil { // the bindings of the holding queue
		return err
	}
	if r.hold == nil {
		return nil
	}
	exchange := Returning(r.want.Name)
	if err := r.way(ctx, exchange, r.want.Name); err != nil {
		return err
	}
	// Most come back before the new queue is bound, and so stand before what is
	// published then.
	n, err := r.ready(ctx, r.hold)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := r.moveBack(ctx, exchange, n); err != nil {
			return err
		}
	}
	if err := r.reached(Returned); err != nil {
		return err
	}
	before, err := r.ready(ctx, r.hold)
	if err != nil {
		return err
	}
	bindings := r.bindings(r.hold.Name)
	if err := r.lead(ctx, bindings, r.want.Name); err != nil {
		return err
	}
	r.report.Bindings += len(bindings)
	if err := r.reached(Bound); err != nil {
		return err
	}
	if err := r.unbind(ctx, bindings); err != nil {
		return err
	}
	after, err := r.ready(ctx, r.hold)
	if err != nil {
		return err
	}
	r.report.Twice += max(0, after-before)
	if err := r.reached(HeldFree); err != nil {
		return err
	}
	if err := r.emptyHolding(ctx, exchange); err != nil {
		return err
	}
	for _, name := range []string{exchange, Holding(r.want.Name)} {
		if err := r.Delete(ctx, &topology.Exchange{VirtualHost: r.want.VirtualHost, Name: name}); err != nil {
			return err
		}
	}
	if err := r.reached(Cleared); err != nil {
		return err
	}
	if err := r.DeleteEmpty(ctx, r.hold); err != nil {
		return err
	}
	return r.reached(Done)
}

func (r *run) moveBack(ctx context.Context, exchange string, limit int64) error {
	n, err := r.Move(ctx, r.hold, exchange, limit)
	r.report.Back += n
	return err
}

// emptyHolding brings back the rest until the holding queue is proved empty.
func (r *run) emptyHolding(ctx context.Context, exchange string) error {
	for round := 1; ; round++ {
		if err := r.moveBack(ctx, exchange, 0); err != nil {
			return err
		}
		why, err := r.Prove(ctx, r.hold)
		if err != nil {
			return err
		}
		if why == "" {
			return r.reached(HeldEmpty)
		}
		if round == rounds {
			return r.refuse(fmt.Sprintf("the new queue is in use, but queue %q cannot be proved empty: %s", r.hold.Name, why),
				"see who publishes to it or consumes from it")
		}
	}
}

// ready is how many messages of a queue are ready.
func (r *run) ready(ctx context.Context, q *topology.Queue) (int64, error) {
	n, err := r.Count(ctx, q)
	if err != nil {
		return 0, err
	}
	if n.Ready == nil {
		return 0, fmt.Errorf("count the messages of %s: it cannot be asked over AMQP: it is not there, belongs to another connection, or a right is missing", q.Key())
	}
	return *n.Ready, nil
}

// try has the broker say whether it takes the new queue before the old one is gone.
func (r *run) try(ctx context.Context) error {
	q := *r.want
	q.Name = trial(r.want.Name)
	if left := r.host.Queue(q.Name); left != nil { // by a run that was killed, maybe for another spec
		if err := r.DeleteEmpty(ctx, left); err != nil {
			return err
		}
	}
	if err := r.Create(ctx, &q); err != nil {
		return fmt.Errorf("%s is not replaced, the broker does not take the new queue: %w", r.want.Key(), err)
	}
	if err := r.DeleteEmpty(ctx, &q); err != nil {
		return err
	}
	return r.reached(Tried)
}
