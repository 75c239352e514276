package apply

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// failingDelete fails one delete, the nth.
type failingDelete struct {
	Broker
	nth  int64
	seen atomic.Int64
}

func (f *failingDelete) Delete(ctx context.Context, o topology.Object) error {
	if f.seen.Add(1) == f.nth {
		return errors.New("it is made to fail")
	}
	return f.Broker.Delete(ctx, o)
}

var generatedNames = regexp.MustCompile(`\b([xq])(\d)\b`)

// part is a random spec whose names begin with a letter of its own.
func part(t *rapid.T, vhost, letter string) string {
	text := generatedNames.ReplaceAllString(randomSpec(t, false), letter+"$1$2")
	return strings.Replace(text, "version: 1\n", fmt.Sprintf("version: 1\nvhost: %q\n", vhost), 1)
}

// together is the topology of several specs of one virtual host.
func together(t fatal, b *brokertest.Broker, texts ...string) *topology.Topology {
	v, err := catalog.ParseVersion(b.Version)
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := mustExpand(t, texts[0], v)
	into := all.VirtualHosts[0]
	for _, text := range texts[1:] {
		more := mustExpand(t, text, v).VirtualHosts[0]
		into.Exchanges = append(into.Exchanges, more.Exchanges...)
		into.Queues = append(into.Queues, more.Queues...)
		into.Bindings = append(into.Bindings, more.Bindings...)
		into.Policies = append(into.Policies, more.Policies...)
	}
	return all
}

// ownedPlan plans for a stack that has recorded what is given; all queues are empty
// and unused.
func ownedPlan(t *testing.T, c *broker.Client, desired *topology.Topology, ours map[topology.Key]ownership.State) (*plan.Plan, *topology.VirtualHost) {
	t.Helper()
	vhost := desired.VirtualHosts[0].Name
	state, err := c.Read(t.Context(), []string{vhost}, broker.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live, none := state.Topology.VirtualHosts[0], int64(0)
	in := plan.Input{
		Desired: desired, Live: state.Topology, Counts: map[topology.Key]plan.Counts{},
		Server: plan.Server{Version: state.Version, ExchangeTypes: state.ExchangeTypes},
		Owners: map[string]*ownership.View{vhost: {Stack: "s", Ours: ours}},
	}
	for _, q := range live.Queues {
		in.Counts[q.Key()] = plan.Counts{Messages: &none, Consumers: &none}
	}
	p, _ := plan.Compute(in)
	return p, live
}

// TestOneSpecAfterAnotherOnBrokers: a random spec, then another that has a part of
// it; what is live then is the second spec and what others made, whichever delete
// fails on the way the next run finishes, and there is nothing left to do.
func TestOneSpecAfterAnotherOnBrokers(t *testing.T) {
	const rounds = 12
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		c := clientFor(t, b, "")
		deletes := 0
		for seed := range rounds {
			vhost := b.VirtualHost(t)
			texts := rapid.Custom(func(t *rapid.T) []string {
				return []string{part(t, vhost, "s"), part(t, vhost, "a"), part(t, vhost, "b")}
			}).Example(seed)
			first, second := together(t, b, texts[0], texts[1]), together(t, b, texts[0], texts[2])
			w := writerFor(t, c, vhost, broker.ViaAMQP)

			ours := map[topology.Key]ownership.State{}
			p, _ := ownedPlan(t, c, first, ours)
			mustRun(t, t.Context(), p, w, Options{Fault: faultOf})
			for _, o := range first.VirtualHosts[0].Objects() {
				ours[o.Key()] = ownership.Owned
			}
			b.DeclareQueue(t, vhost, "foreign", nil)
			b.DeclareExchange(t, vhost, "foreign", "fanout", nil)
			b.Bind(t, vhost, "foreign", "foreign", "", nil)
			b.Bind(t, vhost, "sx0", "foreign", "theirs", nil)

			p, _ = ownedPlan(t, c, second, ours)
			if blocked := p.BlockedChanges(); len(blocked) > 0 {
				t.Fatalf("%s is blocked: %s", blocked[0].Key, blocked[0].Blocked[0].Text)
			}
			gone := 0
			for _, change := range p.Changes {
				if change.Action == plan.Delete {
					gone++
				}
			}
			deletes += gone
			if gone > 1 {
				res, err := Run(t.Context(), p, &failingDelete{Broker: w, nth: int64(1 + seed%gone)}, Options{Fault: faultOf})
				if err != nil || len(res.Failed) != 1 {
					t.Fatalf("%v, failed %d", err, len(res.Failed))
				}
				for _, o := range res.Failed {
					if o.Change.Action != plan.Delete {
						t.Fatalf("%s %s failed: %v", o.Change.Action, o.Change.Key, o.Err)
					}
				}
				p, _ = ownedPlan(t, c, second, ours)
			}
			mustRun(t, t.Context(), p, w, Options{Fault: faultOf})

			p, live := ownedPlan(t, c, second, ours)
			if !p.Empty() {
				t.Errorf("round %d: %s %s is left\n%s", seed, p.Changes[0].Action, p.Changes[0].Key, strings.Join(texts, "---\n"))
			}
			want := []string{"binding/foreign => queue foreign", "binding/sx0 => queue foreign [theirs]", "exchange/foreign", "queue/foreign"}
			for _, o := range second.VirtualHosts[0].Objects() {
				want = append(want, o.Key().Address())
			}
			var got []string
			for _, o := range live.Objects() {
				e, isExchange := o.(*topology.Exchange)
				if o.Key().Kind != topology.KindVirtualHost && !(isExchange && strings.HasPrefix(e.Name, "amq.")) {
					got = append(got, o.Key().Address())
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, slices.Compact(want)) {
				t.Errorf("round %d: live are\n%q, want\n%q\n%s", seed, got, want, strings.Join(texts, "---\n"))
			}
		}
		if deletes == 0 {
			t.Error("nothing was ever deleted")
		}
	})
}
