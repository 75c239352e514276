package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// faultOf classifies the errors of internal/broker.
func faultOf(err error) Fault {
	return Fault{Unknown: broker.IsUnknown(err), Transient: broker.IsTransient(err), NotFound: broker.IsNotFound(err)}
}

// clientFor connects to a broker, over AMQP by way of address if that is given.
func clientFor(t *testing.T, b *brokertest.Broker, address string) *broker.Client {
	t.Helper()
	if address == "" {
		address = b.AMQPAddress()
	}
	c, err := broker.New(broker.Options{
		URL: b.URL, AMQPURL: "amqp://" + address, Username: b.Username, Password: b.Password, Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func writerFor(t *testing.T, c *broker.Client, vhost string, via broker.Via) broker.Writer {
	t.Helper()
	w, err := c.Writer(t.Context(), []string{vhost}, via)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// planOn compares a spec with a broker. The queues of these tests hold nothing.
func planOn(t *testing.T, c *broker.Client, desired *topology.Topology) (*plan.Plan, *topology.Topology) {
	t.Helper()
	var names []string
	for _, v := range desired.VirtualHosts {
		names = append(names, v.Name)
	}
	state, err := c.Read(t.Context(), names, broker.ReadOptions{Parameters: true, Permissions: true, Limits: true})
	if err != nil {
		t.Fatal(err)
	}
	p := planFor(desired, state.Topology, state.Version)
	return p, state.Topology
}

func versionOf(t *testing.T, b *brokertest.Broker) catalog.Version {
	t.Helper()
	v, err := catalog.ParseVersion(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantEmpty(t *testing.T, c *broker.Client, desired *topology.Topology) {
	t.Helper()
	if p, _ := planOn(t, c, desired); !p.Empty() {
		t.Errorf("%d changes are left, first %s %s", len(p.Changes), p.Changes[0].Action, p.Changes[0].Key)
	}
}

// cutAfter lets n calls through and then breaks the broker's connections for
// good, as a network that fails.
type cutAfter struct {
	Broker
	cut func()

	mu   sync.Mutex
	left int
}

func (c *cutAfter) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		c.cut()
	}
	c.left--
}

func (c *cutAfter) Create(ctx context.Context, o topology.Object) error {
	c.pass()
	return c.Broker.Create(ctx, o)
}

func (c *cutAfter) Update(ctx context.Context, o topology.Object) error {
	c.pass()
	return c.Broker.Update(ctx, o)
}

// Row A36 on real brokers: apply of the refunds example is cut off after each of
// its steps.
func TestCutOffAfterEachStepOnBrokers(t *testing.T) {
	text, err := fs.ReadFile(examples.FS, "refunds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v := versionOf(t, b)
		for n := 0; ; n++ {
			vhost := b.VirtualHost(t)
			desired := mustExpand(t, strings.Replace(string(text), "vhost: /", "vhost: "+vhost, 1), v)
			direct := clientFor(t, b, "")
			p, _ := planOn(t, direct, desired)
			if n > len(p.Changes) {
				t.Fatalf("not finished after %d steps", n)
			}

			tcp := brokertest.Proxy(t, b.AMQPAddress())
			var down sync.Map
			api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
				_, cut := down.Load("down")
				return brokertest.CutConnection, "", cut
			})
			w := writerFor(t, clientFor(t, api.Broker, tcp.Address), vhost, broker.ViaAMQP)
			cut := &cutAfter{Broker: w, left: n, cut: func() {
				down.Store("down", true)
				tcp.Refuse(true)
				tcp.Cut()
			}}
			res := mustRun(t, t.Context(), p, cut, Options{Fault: faultOf, Timeout: 100 * time.Millisecond, Parallel: 1 + n%2*3})
			if len(res.Failed) == 0 && n < len(p.Changes) {
				t.Fatalf("cut off after %d steps, and nothing failed", n)
			}

			rest, live := planOn(t, direct, desired)
			objects := map[topology.Key]topology.Object{}
			for _, o := range live.VirtualHosts[0].Objects() {
				objects[o.Key()] = o
			}
			for _, gap := range routesOf(desired, v).deadEnds(objects) {
				t.Errorf("cut off after %d steps: %s", n, gap)
			}
			if differences := Verify(res, rest); differences != nil {
				t.Errorf("cut off after %d steps: %s is not as the result says", n, differences[0].Key)
			}
			if n == len(p.Changes) {
				return
			}
			res = mustRun(t, t.Context(), rest, writerFor(t, direct, vhost, broker.ViaAMQP), Options{Fault: faultOf})
			if res.Status() != Complete {
				t.Errorf("second run after %d steps: %+v", n, res.Failed)
			}
			wantEmpty(t, direct, desired)
		}
	})
}

// poison is a queue that makes the broker close the connection: an internal
// error of its own, a different one for each release.
func poison(b *brokertest.Broker, vhost string) *topology.Queue {
	q := &topology.Queue{VirtualHost: vhost, Name: "poison", Type: topology.Classic, Durable: true}
	q.Arguments = topology.Arguments{"x-queue-master-locator": "bogus"}
	if b.AtLeast("4.0") && !b.AtLeast("4.1") {
		q.Type, q.Arguments = topology.Stream, topology.Arguments{"x-max-age": "bogus"}
	}
	return q
}

func handMade(objects ...topology.Object) *plan.Plan {
	p := &plan.Plan{}
	for _, o := range objects {
		p.Changes = append(p.Changes, &plan.Change{ID: o.Key().Address(), Key: o.Key(), Action: plan.Create, After: o})
	}
	return p
}

func manyOnBroker(vhost string, n int) []topology.Object {
	var objects []topology.Object
	for i := range n {
		objects = append(objects, &topology.Queue{VirtualHost: vhost, Name: fmt.Sprintf("q%03d", i), Type: topology.Classic, Durable: true})
	}
	return objects
}

func queueNames(t *testing.T, b *brokertest.Broker, vhost string) []string {
	t.Helper()
	var queues []struct{ Name string }
	b.Get(t, brokertest.Path("queues", vhost)+"?disable_stats=true&enable_queue_totals=true", &queues)
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return names
}

func TestPoisonOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		objects := slices.Insert(manyOnBroker(vhost, 40), 7, topology.Object(poison(b, vhost)))
		w := writerFor(t, clientFor(t, b, ""), vhost, broker.ViaAMQP)
		res := mustRun(t, t.Context(), handMade(objects...), w, Options{Fault: faultOf})
		if len(res.Done) != 40 || len(res.Failed) != 1 || res.Failed[0].Change.Key.Name != "poison" {
			t.Fatalf("%d done, failed: %+v", len(res.Done), res.Failed)
		}
		if text := res.Failed[0].Err.Error(); !strings.Contains(text, `queue "poison" in virtual host "`+vhost) || !strings.Contains(text, "541") {
			t.Errorf("error %q", text)
		}
		if names := queueNames(t, b, vhost); len(names) != 40 {
			t.Errorf("%d queues: %v", len(names), names)
		}
		if res.Status() != Partial {
			t.Errorf("status %s", res.Status())
		}
	})
}

// The connections break again and again, and the management API answers 503 at
// times: everything is done all the same.
func TestConnectionLossOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		tcp := brokertest.Proxy(t, b.AMQPAddress())
		var mu sync.Mutex
		puts := 0
		api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			if r.Method != http.MethodPut {
				return 0, "", false
			}
			mu.Lock()
			defer mu.Unlock()
			puts++
			return http.StatusServiceUnavailable, "the node is going down", puts%2 == 1
		})
		objects := manyOnBroker(vhost, 150)
		for i := range 3 {
			objects = append(objects, &topology.Policy{
				VirtualHost: vhost, Name: fmt.Sprintf("p%d", i), Pattern: "^none$", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(5)},
			})
		}
		cuts := 0
		rec := &cutting{every: 40, cut: func() { cuts++; tcp.Cut() }}
		w := writerFor(t, clientFor(t, api.Broker, tcp.Address), vhost, broker.ViaAMQP)
		res := mustRun(t, t.Context(), handMade(objects...), w, Options{Fault: faultOf, Observer: rec})
		if res.Status() != Complete || cuts < 3 {
			t.Fatalf("%s, %d cuts, failed: %+v", res.Status(), cuts, res.Failed)
		}
		if names := queueNames(t, b, vhost); len(names) != 150 {
			t.Errorf("%d queues", len(names))
		}
	})
}

// cutting cuts the connection at every so many changes.
type cutting struct {
	recorder
	every, done int
	cut         func()
}

func (c *cutting) Done(_ *plan.Change, p Progress) {
	if p.Done%c.every == 0 && p.Done > c.done {
		c.done = p.Done
		c.cut()
	}
}

func TestBrokerRestartOnBrokers(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			node := brokertest.StartNode(t, release)
			b := &node.Broker
			vhost := b.VirtualHost(t)
			w := writerFor(t, clientFor(t, b, ""), vhost, broker.ViaAMQP)
			restarted := make(chan struct{})
			rec := &cutting{every: 100, cut: sync.OnceFunc(func() {
				go func() {
					defer close(restarted)
					node.Restart()
				}()
			})}
			res := mustRun(t, t.Context(), handMade(manyOnBroker(vhost, 3000)...), w, Options{Fault: faultOf, Observer: rec, Timeout: 3 * time.Minute})
			<-restarted
			if res.Status() != Complete {
				t.Fatalf("%s: %d done, %d failed, %d not tried: %v", res.Status(), len(res.Done), len(res.Failed), len(res.NotTried), res.Failed)
			}
			if names := queueNames(t, b, vhost); len(names) != 3000 {
				t.Errorf("%d queues", len(names))
			}
			if rec.count("retrying") == 0 {
				t.Error("the restart was not noticed: nothing was tried again")
			}
		})
	}
}

// Case 53: a virtual host, permissions, a policy, 6 exchanges, 10 queues and 31 bindings,
// written in any order, by one run.
func TestEverythingInAnyOrderOnBrokers(t *testing.T) {
	for _, via := range []broker.Via{broker.ViaAMQP, broker.ViaHTTP} {
		t.Run(string(via), func(t *testing.T) {
			brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
				user, _ := b.User(t, "", "", "", "", "")
				vhost := b.VirtualHost(t) // for its name and its end
				b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil)
				text := shuffledSpec(vhost, user)
				defer func() {
					if t.Failed() {
						t.Log(text)
					}
				}()
				desired := mustExpand(t, text, versionOf(t, b))
				host := desired.VirtualHosts[0]
				if len(host.Exchanges) != 6 || len(host.Queues) != 10 || len(host.Bindings) != 31 || len(host.Permissions) != 1 {
					t.Fatalf("%d exchanges, %d queues, %d bindings, %d permissions", len(host.Exchanges), len(host.Queues), len(host.Bindings), len(host.Permissions))
				}
				c := clientFor(t, b, "")
				p, _ := planOn(t, c, desired)
				if len(p.Changes) != 6+10+31+3 || p.Changes[0].Key.Kind != topology.KindVirtualHost {
					t.Fatalf("%d changes, first %s", len(p.Changes), p.Changes[0].Key)
				}
				res := mustRun(t, t.Context(), p, writerFor(t, c, vhost, via), Options{Fault: faultOf})
				if res.Status() != Complete {
					t.Fatalf("failed: %v, not tried: %d", res.Failed, len(res.NotTried))
				}
				wantEmpty(t, c, desired)
			})
		})
	}
}

func shuffledSpec(vhost, user string) string {
	var exchanges, queues []string
	kinds := []string{"topic", "direct", "fanout", "headers", "topic", "direct"}
	for i, kind := range kinds {
		bindings := ""
		if i > 0 { // 5 of exchanges
			bindings = fmt.Sprintf(", bindings: [{exchange: x0, routing_key: \"e%d.#\"}]", i)
		}
		exchanges = append(exchanges, fmt.Sprintf("  x%d: {type: %s%s}\n", i, kind, bindings))
	}
	for i := range 10 { // 26 of queues
		var keys []string
		for k := range 2 + i%2 {
			keys = append(keys, fmt.Sprintf("k%d.%d", i, k))
		}
		extra := ""
		if i == 0 {
			extra = ", {exchange: x3, match: any, arguments: {n: 1, s: \"1\"}}"
		}
		queues = append(queues, fmt.Sprintf("  q%d: {type: classic, bindings: [{exchange: x%d, routing_keys: [%s]}%s]}\n", i, i%3, strings.Join(keys, ", "), extra))
	}
	sections := []string{
		"exchanges:\n" + shuffled(exchanges), "queues:\n" + shuffled(queues),
		fmt.Sprintf("permissions:\n  %s: {configure: \"^$\", write: \".*\", read: \".*\"}\n", user),
		"policies:\n  cap: {pattern: \"^q1$\", apply_to: queues, definition: {max-length: 1000}}\n",
		"vhost: " + vhost + "\n", "version: 1\n",
	}
	return shuffled(sections)
}

func shuffled(parts []string) string {
	rand.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return strings.Join(parts, "")
}

// Case 6: a queue appears with other settings after the plan was made. The run
// fails for it and says so, and reading back confirms it.
func TestConflictingQueueOnBrokers(t *testing.T) {
	for _, via := range []broker.Via{broker.ViaAMQP, broker.ViaHTTP} {
		t.Run(string(via), func(t *testing.T) {
			brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
				vhost := b.VirtualHost(t)
				desired := mustExpand(t, fmt.Sprintf(`
version: 1
vhost: %s
exchanges: {x: {type: fanout}}
queues:
  e: {type: classic, message_ttl: 1ms, settings_by: arguments, bindings: [{exchange: x}]}
  f: {type: classic, bindings: [{exchange: x}]}
`, vhost), versionOf(t, b))
				c := clientFor(t, b, "")
				p, _ := planOn(t, c, desired)
				b.Put(t, brokertest.Path("queues", vhost, "e"), `{"durable":true,"arguments":{"x-message-ttl":30000}}`)

				res := mustRun(t, t.Context(), p, writerFor(t, c, vhost, via), Options{Fault: faultOf})
				if len(res.Failed) != 1 || res.Failed[0].Change.Key.Name != "e" || res.Failed[0].Unknown || res.Failed[0].Attempts != 1 {
					t.Fatalf("failed: %+v", res.Failed)
				}
				for _, want := range []string{`queue "e" in virtual host "` + vhost, "x-message-ttl", "want 1", "have 30000"} {
					if text := res.Failed[0].Err.Error(); !strings.Contains(text, want) {
						t.Errorf("error %q does not say %q", text, want)
					}
				}
				if len(res.NotTried) != 1 || res.NotTried[0].Cause != res.Failed[0].Change || len(res.Done) != len(p.Changes)-2 {
					t.Errorf("not tried %v, done %v", outcomes(res.NotTried), outcomes(res.Done))
				}
				if res.Status() != Partial {
					t.Errorf("status %s", res.Status())
				}
				after, live := planOn(t, c, desired)
				if rest := Verify(res, after); rest != nil {
					t.Errorf("differences: %v", rest[0].Key)
				}
				if q := live.VirtualHosts[0].Queue("e"); q == nil || !topology.Equal(q.Arguments["x-message-ttl"], int64(30000)) {
					t.Errorf("the queue was changed: %+v", q)
				}
				// A result that claimed it would be found out.
				claimed := &Result{Done: slices.Concat(res.Done, res.Failed), NotTried: res.NotTried}
				if rest := Verify(claimed, after); len(rest) != 1 || rest[0].Key.Name != "e" {
					t.Errorf("a false claim gave %v", rest)
				}
			})
		})
	}
}

// A user who may configure some names only: those are done, each of the others
// is named, and the broker's state tells which exit code is right.
func TestMissingRightsOnBrokers(t *testing.T) {
	for _, via := range []broker.Via{broker.ViaAMQP, broker.ViaHTTP} {
		t.Run(string(via), func(t *testing.T) {
			brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
				vhost := b.VirtualHost(t)
				limited := b.As(b.User(t, vhost, "management", `^ok\.`, ".*", ".*"))
				queue := func(name string) topology.Object {
					return &topology.Queue{VirtualHost: vhost, Name: name, Type: topology.Classic, Durable: true}
				}
				needs := &topology.Exchange{VirtualHost: vhost, Name: "ok.needs", Type: "fanout", Durable: true}
				p := handMade(queue("ok.1"), queue("no.1"), queue("ok.2"), queue("no.2"), needs)
				p.Changes[4].Needs = []string{"queue/no.1"}

				w := writerFor(t, clientFor(t, limited, ""), vhost, via)
				res := mustRun(t, t.Context(), p, w, Options{Fault: faultOf})
				wantLists(t, res, []string{"queue/ok.1", "queue/ok.2"}, []string{"queue/no.1", "queue/no.2"}, []string{"exchange/ok.needs"}, nil)
				for _, o := range res.Failed {
					if !broker.IsAuth(o.Err) || !strings.Contains(o.Err.Error(), o.Change.Key.String()) || o.Attempts != 1 {
						t.Errorf("%+v", o)
					}
				}
				if res.Status() != Partial || res.Refused() {
					t.Errorf("status %s", res.Status())
				}
				if names := queueNames(t, b, vhost); !slices.Equal(names, []string{"ok.1", "ok.2"}) {
					t.Errorf("queues %v", names)
				}

				res = mustRun(t, t.Context(), handMade(queue("no.1"), queue("no.2")), w, Options{Fault: faultOf})
				if res.Status() != NothingChanged || !res.Refused() {
					t.Errorf("status %s: nothing was changed", res.Status())
				}
			})
		})
	}
}

// Ctrl-C between two steps: what runs is finished and a second run does the rest.
func TestInterruptOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := clientFor(t, b, "")
		objects := manyOnBroker(vhost, 60)
		rec := &cutting{every: 20, cut: cancel}
		res := mustRun(t, ctx, handMade(objects...), writerFor(t, c, vhost, broker.ViaAMQP), Options{Fault: faultOf, Observer: rec, Parallel: 4})
		if len(res.Failed) > 0 || len(res.Done) < 20 || len(res.Done) > 24 || len(res.Done)+len(res.NotTried) != 60 {
			t.Fatalf("%d done, %d not tried, failed %v", len(res.Done), len(res.NotTried), res.Failed)
		}
		if !errors.Is(res.Stopped, context.Canceled) {
			t.Errorf("stopped: %v", res.Stopped)
		}
		if names := queueNames(t, b, vhost); len(names) != len(res.Done) {
			t.Errorf("%d queues, %d done", len(names), len(res.Done))
		}
	})
}
