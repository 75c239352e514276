package replace

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Unfit says why a queue cannot be replaced in this way at all, and what to do; "" when
// it can.
func Unfit(have, want *topology.Queue) (why, remedy string) {
	switch {
	case have.Type == topology.Stream:
		return "it is a stream: what it keeps has offsets and times that no copy would have",
			"declare a new stream under another name, let it fill beside the old one, move its consumers, and delete the old one when nobody needs it"
	case want.Type == topology.Stream:
		return "a stream would keep what consumers of the queue acknowledge",
			"declare the stream under another name, bind it beside the queue, and move the consumers"
	case have.Exclusive:
		return "it belongs to one connection", "close that connection"
	case have.AutoDelete || want.AutoDelete:
		return "an auto_delete queue goes with its last consumer, and the messages with it",
			"have its last consumer cancel, which deletes it, and apply again"
	case len(have.Name)+len(trial("")) > 255:
		return fmt.Sprintf("its name is %d bytes long, and the names of the holding queue and its exchanges would pass RabbitMQ's limit of 255", len(have.Name)),
			"declare a new queue with a shorter name and move publishers and consumers"
	}
	return "", ""
}

// check refuses what could lose something, before anything is changed.
func (r *run) check(ctx context.Context) error {
	if why, remedy := Unfit(r.have, r.want); why != "" {
		return r.refuse(why, remedy)
	}
	seen := map[topology.Key]bool{}
	for _, b := range r.bindings(r.want.Name) {
		if seen[b.Key()] {
			return r.refuse(fmt.Sprintf("bindings to it look alike and differ only in the AMQP types of their arguments: %s", text.Line(b.Key().Name)),
				"delete those that nobody needs")
		}
		seen[b.Key()] = true
	}
	if err := r.checkHolding(); err != nil {
		return err
	}
	waiting, err := r.DeadLettering(ctx, r.have)
	if err != nil {
		return err
	}
	if waiting > 0 {
		return r.refuse(text.Plural(int(waiting), "message is", "messages are")+" still waiting to be dead-lettered at-least-once",
			"make the target of its dead-letter route reachable; the broker tries again every 3 minutes")
	}
	return r.unused(ctx)
}

// HoldingQueue is the queue that holds what a live queue has meanwhile; set matches the
// live policies. It loses nothing: replicated where it can be, on disk at once, without
// a limit, never refusing, and not dropping what a run that is killed again and again
// gives back. What expires in it by its own expiration goes where the old queue would
// have sent it.
func HoldingQueue(v catalog.Version, set *policy.Set, have *topology.Queue) *topology.Queue {
	q := &topology.Queue{
		VirtualHost: have.VirtualHost, Name: Holding(have.Name), Type: topology.Quorum, Durable: true,
		Arguments: topology.Arguments{"x-overflow": "reject-publish"},
	}
	if v.AtLeast(catalog.V(4, 0)) { // below, a negative limit is 0, and there is none by default
		q.Arguments["x-delivery-limit"] = int64(-1)
	}
	effective := set.Effective(have, set.Queue(have.Name, have.Type))
	for _, name := range []string{"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy"} {
		if v := effective[name].Value; v != nil && effective["dead-letter-exchange"].Value != nil {
			q.Arguments["x-"+name] = v
		}
	}
	return q
}

func (r *run) holdingQueue() *topology.Queue {
	return HoldingQueue(r.version, policy.New(r.version, r.host.Policies, r.host.OperatorPolicies), r.have)
}

// checkHolding refuses what could take messages out of the holding queue: policies
// that match its name, and a queue of that name that somebody else made.
func (r *run) checkHolding() error {
	q := r.hold
	if q == nil {
		q = r.holdingQueue()
	}
	if q.Type != topology.Quorum || !q.Durable {
		return r.refuse(fmt.Sprintf("queue %q is there and is no holding queue", q.Name), "delete it when nobody needs it")
	}
	set := policy.New(r.version, r.host.Policies, r.host.OperatorPolicies)
	m := set.Queue(q.Name, topology.Quorum)
	if len(m.Undecided) > 0 {
		return r.refuse(fmt.Sprintf("it cannot be told whether %s matches the holding queue %q", m.Undecided[0].Key(), q.Name), "write its pattern in a simpler way")
	}
	effective := set.Effective(q, m)
	for _, name := range []string{"max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit"} {
		v, set := effective[name]
		if n, ok := v.Value.(int64); !set || name == "delivery-limit" && ok && n < 0 {
			continue
		}
		from := "an argument of that queue"
		if v.Policy != nil {
			from = v.Policy.Key().String()
		}
		return r.refuse(fmt.Sprintf("the holding queue %q would have %s %s by %s, and could lose messages", q.Name, name, topology.Text(v.Value), from),
			fmt.Sprintf("change the pattern so that it does not match names that begin with %q, or put a policy of a higher priority for them", topology.HoldPrefix))
	}
	return nil
}

// pause is how often consumers are counted while they are waited for.
const pause = 500 * time.Millisecond

// unused waits until nobody consumes from the old queue, as long as the job says.
func (r *run) unused(ctx context.Context) error {
	for begun := time.Now(); ; {
		n, err := r.Count(ctx, r.have)
		switch {
		case err != nil:
			return err
		case n.Consumers == nil:
			return r.refuse("its consumers cannot be counted over AMQP", "use a user with rights on it")
		case *n.Consumers == 0:
			return nil
		case time.Since(begun) >= r.job.WaitConsumers:
			why := text.Plural(int(*n.Consumers), "consumer takes", "consumers take") + " its messages"
			if names, err := r.Consumers(ctx, r.have); err == nil && len(names) > 0 {
				why += ": " + strings.Join(names, ", ")
			}
			return r.refuse(why, "stop them, or have them waited for with --wait-consumers 5m")
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
