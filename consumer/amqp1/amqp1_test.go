package amqp1_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer/amqp1"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// lab is a virtual host of a real broker that speaks AMQP 1.0.
type lab struct {
	*testing.T
	b     *brokertest.Broker
	vhost string
	url   string

	mu      sync.Mutex
	reports []error
}

func each(t *testing.T, run func(l *lab)) {
	brokertest.EachSince(t, "4.0", func(t *testing.T, b *brokertest.Broker) {
		t.Parallel()
		vhost := b.VirtualHost(t)
		run(&lab{T: t, b: b, vhost: vhost, url: b.AMQPURL(vhost)})
	})
}

func (l *lab) queue(name, kind string, args amqp091.Table) {
	l.Helper()
	all := amqp091.Table{"x-queue-type": kind}
	for k, v := range args {
		all[k] = v
	}
	l.b.DeclareQueue(l, l.vhost, name, all)
}

func (l *lab) publish(queue string, n int) {
	l.Helper()
	l.b.Publish(l, l.vhost, "", queue, n)
}

func (l *lab) open(queue string, opts ...amqp1.Option) (*amqp1.Consumer, error) {
	all := append([]amqp1.Option{amqp1.Queue(queue), amqp1.By("tester"), amqp1.Logger(slog.New(slog.DiscardHandler)), amqp1.OnReport(l.noted)}, opts...)
	return amqp1.Open(l.Context(), l.url, all...)
}

func (l *lab) noted(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, err)
}

func (l *lab) reported(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(errors.Join(l.reports...).Error(), text)
}

func (l *lab) run(queue string, h amqp1.Handler, opts ...amqp1.Option) (c *amqp1.Consumer, stop func() error) {
	l.Helper()
	c, err := l.open(queue, opts...)
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, h) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(40 * time.Second):
			return errors.New("Run does not end")
		}
	})
	l.Cleanup(func() { _ = stop() })
	return c, stop
}

// calls counts.
type calls struct {
	mu  sync.Mutex
	all []*amqp1.Message
}

func (c *calls) handle(o func(n int) amqp1.Outcome) amqp1.Handler {
	return func(_ context.Context, m *amqp1.Message) amqp1.Outcome {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, m)
		return o(len(c.all))
	}
}

func always(o amqp1.Outcome) func(int) amqp1.Outcome { return func(int) amqp1.Outcome { return o } }

func (c *calls) n() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

func (l *lab) eventually(what string, f func() bool) {
	l.Helper()
	brokertest.EventuallyTrue(l, 20*time.Second, what, f)
}

var toDead = amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

// Rows B1 and B7: annotations reach readers of both protocols, beside the broker's own
// reason.
func TestDiscard(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("dead", "quorum", nil)
		l.queue("work", "quorum", toDead)
		l.publish("work", 1)
		_, stop := l.run("work", new(calls).handle(always(amqp1.Discard(amqp1.DeadLetterInfo{Category: "business", Reason: "no stock", Annotations: map[string]any{"x-opt-shelf": int64(7)}}))))
		l.b.AwaitDepth(l, l.vhost, "dead", 1, 20*time.Second)
		if err := stop(); err != nil {
			l.Error(err)
		}
		// Read over 1.0, given back, read over 0.9.1.
		var seen calls
		_, stop = l.run("dead", seen.handle(always(amqp1.Release())), amqp1.Prefetch(1))
		l.eventually("a message", func() bool { return seen.n() >= 1 })
		if err := stop(); err != nil {
			l.Error(err)
		}
		a := seen.all[0].Annotations
		if a["x-opt-dead-letter-category"] != "business" || a["x-opt-dead-letter-reason"] != "no stock" || a["x-opt-shelf"] != int64(7) || a["x-opt-dead-letter-by"] != "tester" {
			l.Errorf("annotations %v", a)
		}
		d := l.b.AwaitMessage(l, l.vhost, "dead", 20*time.Second)
		if d.Headers["x-opt-dead-letter-category"] != "business" || d.Headers["x-opt-dead-letter-reason"] != "no stock" || d.Headers["x-opt-shelf"] != int64(7) {
			l.Errorf("headers %v", d.Headers)
		}
		if reason := d.Headers["x-death"].([]any)[0].(amqp091.Table)["reason"]; reason != "rejected" {
			l.Errorf("the broker's reason is %v", reason)
		}
	})
}

// Row B2: why classic queues are refused, and that they are.
func TestClassicRefused(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("dead", "classic", nil)
		l.queue("work", "classic", toDead)
		var wrong *amqp1.CheckError
		if _, err := l.open("work"); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "drops annotations") {
			l.Errorf("the error is %v", err)
		}
		if n := l.b.Depth(l, l.vhost, "work"); n != 0 {
			l.Errorf("%d messages", n)
		}
		// The raw frame, as the reason.
		l.publish("work", 1)
		r, m, done := l.raw("work")
		if err := r.ModifyMessage(l.Context(), m, &amqp.ModifyMessageOptions{UndeliverableHere: true, Annotations: amqp.Annotations{"x-opt-a": "b"}}); err != nil {
			l.Fatal(err)
		}
		done()
		if d := l.b.AwaitMessage(l, l.vhost, "dead", 20*time.Second); d.Headers["x-opt-a"] != nil {
			l.Errorf("the annotation came through: %v", d.Headers)
		}
		// Allowed, without annotations.
		l.publish("work", 2)
		var seen calls
		_, stop := l.run("work", seen.handle(func(n int) amqp1.Outcome {
			if n == 1 {
				return amqp1.Accept()
			}
			return amqp1.Requeue(amqp1.RequeueInfo{})
		}), amqp1.AllowClassic(), amqp1.OnError(amqp1.FailFast()))
		l.eventually("a refusal", func() bool { return seen.n() == 2 })
		if err := stop(); err == nil || !strings.Contains(err.Error(), "would lose its annotations") {
			l.Errorf("Run returned %v", err)
		}
		l.b.AwaitDepth(l, l.vhost, "work", 1, 20*time.Second)
	})
}

// raw takes a message with the client alone.
func (l *lab) raw(queue string) (r *amqp.Receiver, m *amqp.Message, done func()) {
	l.Helper()
	u, err := url.Parse(l.url)
	if err != nil {
		l.Fatal(err)
	}
	password, _ := u.User.Password()
	conn, err := amqp.Dial(l.Context(), "amqp://"+u.Host, &amqp.ConnOptions{HostName: "vhost:" + l.vhost, SASLType: amqp.SASLTypePlain(u.User.Username(), password)})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = conn.Close() })
	s, err := conn.NewSession(l.Context(), nil)
	if err != nil {
		l.Fatal(err)
	}
	r, err = s.NewReceiver(l.Context(), "/queues/"+url.PathEscape(queue), &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		l.Fatal(err)
	}
	m, err = r.Receive(l.Context(), nil)
	if err != nil {
		l.Fatal(err)
	}
	return r, m, func() { _ = conn.Close() }
}

// Row B3: a key without x- ends the broker's session; here nothing is sent.
func TestAnnotationNames(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("work", "quorum", nil)
		l.publish("work", 1)
		r, m, done := l.raw("work")
		err := r.ModifyMessage(l.Context(), m, &amqp.ModifyMessageOptions{DeliveryFailed: true, Annotations: amqp.Annotations{"dead-letter-category": "a"}})
		if err == nil {
			_, err = r.Receive(l.Context(), nil)
		}
		var ended *amqp.SessionError
		if !errors.As(err, &ended) {
			l.Logf("the raw frame gives %v", err)
		}
		if err == nil {
			l.Error("the broker took the raw frame")
		}
		done()
		l.eventually("the message is back", func() bool { return l.b.Depth(l, l.vhost, "work") == 1 })
		var seen calls
		_, stop := l.run("work", seen.handle(func(n int) amqp1.Outcome {
			if n == 1 {
				return amqp1.Discard(amqp1.DeadLetterInfo{Annotations: map[string]any{"dead-letter-category": "a"}})
			}
			return amqp1.Accept()
		}))
		l.eventually("the refusal", func() bool { return seen.n() == 2 && l.reported(`"dead-letter-category" does not begin with x-`) })
		if err := stop(); err != nil {
			l.Error(err)
		}
		if l.reported("the link to queue") {
			l.Errorf("the link was lost: %v", l.reports)
		}
	})
}

// Row B4: what Requeue writes, and a history of at most ten.
func TestRequeueHistory(t *testing.T) {
	each(t, func(l *lab) {
		l.queue("work", "quorum", amqp091.Table{"x-delivery-limit": 100})
		l.publish("work", 1)
		var seen calls
		_, stop := l.run("work", func(ctx context.Context, m *amqp1.Message) amqp1.Outcome {
			n := 0
			seen.handle(func(i int) amqp1.Outcome { n = i; return amqp1.Accept() })(ctx, m)
			if n > 15 {
				return amqp1.Release()
			}
			return amqp1.Requeue(amqp1.RequeueInfo{Reason: fmt.Sprint("try ", n)})
		}, amqp1.Prefetch(1))
		l.eventually("sixteen calls", func() bool { return seen.n() >= 16 })
		if err := stop(); err != nil {
			l.Error(err)
		}
		history, _ := seen.all[15].Annotations["x-opt-requeue-history"].([]any)
		if len(history) != 10 {
			l.Fatalf("the history is %v", seen.all[15].Annotations)
		}
		if last := history[9].(map[string]any); last["reason"] != "try 15" || last["by"] != "tester" {
			l.Errorf("the newest is %v", last)
		}
		// Readers of AMQP 0.9.1 see texts and numbers; lists and maps are not shown there.
		d := l.b.AwaitMessage(l, l.vhost, "work", 20*time.Second)
		ms, _ := d.Headers["x-opt-requeue-time"].(int64)
		if d.Headers["x-opt-requeue-reason"] != "try 15" || d.Headers["x-opt-requeued-by"] != "tester" || time.Since(time.UnixMilli(ms)).Abs() > time.Minute {
			l.Errorf("headers %v", d.Headers)
		}
	})
}

// Row B5: what counts.
func TestCounting(t *testing.T) {
	each(t, func(l *lab) {
		limited := amqp091.Table{"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
		l.queue("dead", "classic", nil)
		l.queue("counted", "quorum", limited)
		l.queue("free", "quorum", limited)
		l.publish("counted", 1)
		var seen calls
		_, stop := l.run("counted", seen.handle(always(amqp1.Requeue(amqp1.RequeueInfo{Reason: "again"}))))
		d := l.b.AwaitMessage(l, l.vhost, "dead", 20*time.Second)
		if err := stop(); err != nil {
			l.Error(err)
		}
		if reason := d.Headers["x-death"].([]any)[0].(amqp091.Table)["reason"]; seen.n() != 3 || reason != "delivery_limit" {
			l.Errorf("%d calls, reason %v", seen.n(), reason)
		}
		for i, m := range seen.all {
			if m.DeliveryCount() != i {
				l.Errorf("call %d has delivery count %d", i+1, m.DeliveryCount())
			}
		}
		l.publish("free", 1)
		var free calls
		_, stop = l.run("free", free.handle(func(n int) amqp1.Outcome {
			if n >= 20 {
				return amqp1.Accept()
			}
			return amqp1.Requeue(amqp1.RequeueInfo{Reason: "again"}).WithoutCounting()
		}))
		want := 20
		if !l.b.AtLeast("4.3") {
			want = 3 // every requeue counts before
		}
		l.eventually("all calls", func() bool { return free.n() == want })
		time.Sleep(200 * time.Millisecond)
		if err := stop(); err != nil {
			l.Error(err)
		}
		if free.n() != want {
			l.Errorf("%d calls, want %d", free.n(), want)
		}
	})
}

// Row B6: each outcome.
func TestOutcomes(t *testing.T) {
	each(t, func(l *lab) {
		for _, c := range []struct {
			name    string
			first   amqp1.Outcome
			calls   int
			dead    int
			counted bool // the second delivery has a count
		}{
			{"accept", amqp1.Accept(), 1, 0, false},
			{"reject", amqp1.Reject(errors.New("bad")), 1, 1, false},
			{"release", amqp1.Release(), 2, 0, !l.b.AtLeast("4.3")},
			{"requeue", amqp1.Requeue(amqp1.RequeueInfo{}), 2, 0, true},
			{"discard", amqp1.Discard(amqp1.DeadLetterInfo{}), 1, 1, false},
		} {
			dead := "dead." + c.name
			l.queue(dead, "classic", nil)
			l.queue(c.name, "quorum", amqp091.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
			l.publish(c.name, 1)
			var seen calls
			_, stop := l.run(c.name, seen.handle(func(n int) amqp1.Outcome {
				if n == 1 {
					return c.first
				}
				return amqp1.Accept()
			}))
			l.eventually(c.name, func() bool { return seen.n() == c.calls && l.b.Depth(l, l.vhost, dead) == c.dead })
			if err := stop(); err != nil {
				l.Error(err)
			}
			if n := l.b.Depth(l, l.vhost, c.name); n != 0 || seen.n() != c.calls {
				l.Errorf("%s: %d messages left, %d calls", c.name, n, seen.n())
			}
			if c.calls == 2 && (seen.all[1].DeliveryCount() == 1) != c.counted {
				l.Errorf("%s: the second delivery has count %d", c.name, seen.all[1].DeliveryCount())
			}
		}
	})
}

// Rows B8 and B16: categories by modified outcome.
func TestCategories(t *testing.T) {
	each(t, func(l *lab) {
		l.b.DeclareExchange(l, l.vhost, "work.dead", "headers", amqp091.Table{"alternate-exchange": "rest"})
		l.b.DeclareExchange(l, l.vhost, "rest", "fanout", nil)
		for _, q := range []string{"transient", "business", "rest"} {
			l.queue(q, "classic", nil)
		}
		l.b.Bind(l, l.vhost, "rest", "rest", "", nil)
		for _, c := range []string{"transient", "business"} {
			l.b.Bind(l, l.vhost, "work.dead", c, "", amqp091.Table{"x-match": "all-with-x", "x-opt-category": c})
		}
		l.queue("work", "quorum", amqp091.Table{"x-dead-letter-exchange": "work.dead"})
		spec := `version: 1
vhost: /
queues:
  work:
    type: quorum
    dead_letter:
      categories:
        header: x-opt-category
        routes: {transient: {queue: transient, owner: a}, business: {queue: business, owner: b}}
        otherwise: {queue: rest, owner: a}
`
		l.publish("work", 3)
		var seen calls
		categories := []string{"business", "unheard-of", ""}
		l.run("work", seen.handle(func(n int) amqp1.Outcome {
			return amqp1.Discard(amqp1.DeadLetterInfo{Category: categories[n-1], Reason: "r"})
		}), amqp1.FromSpec(fstest.MapFS{"spec.yaml": {Data: []byte(spec)}}, "spec.yaml", "work"))
		l.b.AwaitDepth(l, l.vhost, "rest", 2, 20*time.Second)
		l.b.AwaitDepth(l, l.vhost, "business", 1, 20*time.Second)
		if n := l.b.Depth(l, l.vhost, "transient"); n != 0 {
			l.Errorf("%d transient", n)
		}
	})
}
