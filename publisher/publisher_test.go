package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// Row C2: a thousand asynchronous publishes get a thousand results.
func TestThousandResolved(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("q", "quorum", nil)
		p := l.open(publisher.MaxOutstanding(100))
		var items []publisher.Item
		for i := range 1000 {
			items = append(items, publisher.Item{RoutingKey: "q", Message: publisher.Message{ID: fmt.Sprint(i), Body: []byte("x")}})
		}
		results, err := p.PublishBatch(l.Context(), items)
		l.must(err)
		all := l.drain("q")
		if len(results) != 1000 || len(all) != 1000 {
			l.Fatalf("%d results, %d messages", len(results), len(all))
		}
		for i, d := range all {
			if d.MessageId != fmt.Sprint(i) {
				l.Fatalf("message %d is %s: the order is lost", i, d.MessageId)
			}
		}
		if n := p.Health().Outstanding; n != 0 {
			l.Errorf("%d outstanding", n)
		}
	})
}

// Row C2: the connection is cut in the middle, and what is confirmed is there; the next
// publish works.
func TestCutInTheMiddle(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("q", "quorum", nil)
		p := l.open(publisher.ConfirmTimeout(20 * time.Second))
		confirmed := map[string]bool{}
		var pending []*publisher.Pending
		for i := range 1000 {
			if i == 500 {
				l.cut()
			}
			sent, err := p.PublishAsync(l.Context(), "", "q", publisher.Message{ID: fmt.Sprint(i)})
			if err != nil {
				var unknown *publisher.Unknown
				if !errors.As(err, &unknown) {
					l.Errorf("message %d: %v", i, err)
				}
				sent = nil
			}
			pending = append(pending, sent)
		}
		for i, sent := range pending {
			if sent == nil {
				continue
			}
			var unknown *publisher.Unknown
			switch err := sent.Wait(l.Context()); {
			case err == nil:
				confirmed[fmt.Sprint(i)] = true
			case !errors.As(err, &unknown) || unknown.RoutingKey != "q":
				l.Errorf("message %d: %v", i, err)
			}
		}
		l.must(p.Publish(l.Context(), "", "q", publisher.Message{ID: "last"}))
		there := map[string]bool{}
		for _, d := range l.drain("q") {
			there[d.MessageId] = true
		}
		for id := range confirmed {
			if !there[id] {
				l.Errorf("message %s was confirmed and is not there", id)
			}
		}
		if len(confirmed) < 400 || !there["last"] {
			l.Errorf("%d confirmed, the last one there: %t", len(confirmed), there["last"])
		}
	})
}

// Row C3: unroutable messages come back; with an alternate exchange they do not.
func TestUnroutable(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("rest", "classic", nil)
		l.exchange("bare", "direct", nil)
		l.exchange("rest", "fanout", nil)
		l.on(func(ch wire.Channel) { l.must(ch.QueueBind("rest", "", "rest", false, nil)) })
		l.exchange("safe", "direct", amqp091.Table{"alternate-exchange": "rest"})
		p := l.open()
		var returned *publisher.Returned
		if err := p.Publish(l.Context(), "bare", "nowhere", publisher.Message{}); !errors.As(err, &returned) || returned.Code != 312 ||
			returned.Exchange != "bare" || returned.RoutingKey != "nowhere" || returned.VirtualHost != l.vhost {
			l.Errorf("the result is %v", err)
		}
		l.must(p.Publish(l.Context(), "bare", "nowhere", publisher.Message{Optional: true}))
		l.must(p.Publish(l.Context(), "safe", "nowhere", publisher.Message{}))
		if n := l.depth("rest"); n != 1 {
			l.Errorf("%d messages in the queue of the alternate exchange", n)
		}
	})
}

// Row C4: a full queue refuses.
func TestFullQueue(t *testing.T) {
	eachLab(t, func(l *lab) {
		for kind, most := range map[string]int{"classic": 1, "quorum": 3} {
			l.queue(kind, kind, amqp091.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
			p := l.open()
			taken := 0
			for range 10 {
				var nacked *publisher.Nacked
				switch err := p.Publish(l.Context(), "", kind, publisher.Message{}); {
				case err == nil:
					taken++
				case !errors.As(err, &nacked) || nacked.RoutingKey != kind:
					l.Errorf("the result is %v", err)
				}
			}
			if taken < 1 || taken > most {
				l.Errorf("%s: %d taken", kind, taken)
			}
		}
	})
}

// Row C5: what a message has by default, and an id that is required.
func TestDefaults(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("q", "classic", nil)
		p := l.open(publisher.RequireMessageID(), publisher.AppID("shop"))
		var invalid *publisher.Invalid
		if err := p.Publish(l.Context(), "", "q", publisher.Message{}); !errors.As(err, &invalid) {
			l.Errorf("the result is %v", err)
		}
		l.must(p.Publish(l.Context(), "", "q", publisher.Message{
			ID: "refund-7", Body: []byte{0, 255}, ContentType: "application/json", Expiration: 90 * time.Second,
			Headers: map[string]any{"deep": map[string]any{"list": []any{"a", map[string]any{"b": true}}}, "n": 7},
		}))
		all := l.drain("q")
		if len(all) != 1 {
			l.Fatalf("%d messages", len(all))
		}
		d := all[0]
		if d.DeliveryMode != amqp091.Persistent || d.MessageId != "refund-7" || d.AppId != "shop" || d.Expiration != "90000" || string(d.Body) != "\x00\xff" ||
			time.Since(d.Timestamp).Abs() > time.Minute {
			l.Errorf("the message is %+v", d)
		}
		if deep := fmt.Sprint(d.Headers["deep"]); !strings.Contains(deep, "map[b:true]") {
			l.Errorf("headers are %v", d.Headers)
		}
	})
}

// What cannot be sent is refused before it breaks the connection for others.
func TestInvalid(t *testing.T) {
	b := simulator.New()
	l := &lab{T: t, dialer: b.Dialer("/"), sim: b}
	p := l.open()
	long := strings.Repeat("x", 256)
	for name, m := range map[string]publisher.Message{
		"id":         {ID: long},
		"header":     {Headers: map[string]any{"c": make(chan int)}},
		"deep":       {Headers: map[string]any{"a": []any{map[string]any{"b": struct{}{}}}}},
		"expiration": {Expiration: -time.Second},
		"too short":  {Expiration: time.Microsecond},
	} {
		var invalid *publisher.Invalid
		if err := p.Publish(t.Context(), "", "q", m); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var invalid *publisher.Invalid
	if err := p.Publish(t.Context(), "", long, publisher.Message{}); !errors.As(err, &invalid) {
		t.Errorf("a long key: %v", err)
	}
	if _, err := publisher.OpenWith(t.Context(), b.Dialer("/"), publisher.MaxOutstanding(0), publisher.ConfirmTimeout(-1)); err == nil ||
		!strings.Contains(err.Error(), "MaxOutstanding(0)") || !strings.Contains(err.Error(), "ConfirmTimeout(-1ns)") {
		t.Errorf("options: %v", err)
	}
}

// An exchange that is missing, or that the user must not write to, closes a channel: those
// who publish there are told, nobody else notices.
func TestMissingExchange(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("q", "classic", nil)
		p := l.open()
		var good []*publisher.Pending
		for range 50 {
			sent, err := p.PublishAsync(l.Context(), "", "q", publisher.Message{})
			l.must(err)
			good = append(good, sent)
		}
		for range 3 {
			var refused *publisher.Refused
			if err := p.Publish(l.Context(), "missing", "k", publisher.Message{}); !errors.As(err, &refused) || refused.Code != 404 || refused.Exchange != "missing" {
				l.Errorf("the result is %v", err)
			}
		}
		for _, sent := range good {
			l.must(sent.Wait(l.Context()))
		}
		l.exchange("missing", "fanout", nil)
		l.on(func(ch wire.Channel) { l.must(ch.QueueBind("q", "", "missing", false, nil)) })
		l.must(p.Publish(l.Context(), "missing", "k", publisher.Message{}))
		if n := l.depth("q"); n != 51 {
			l.Errorf("%d messages", n)
		}
	})
}

// Row C7: fire and forget says nothing and waits for nothing.
func TestFireAndForget(t *testing.T) {
	eachLab(t, func(l *lab) {
		l.queue("q", "classic", nil)
		p := l.open()
		f := p.FireAndForget()
		l.must(f.Publish(l.Context(), "", "nowhere", publisher.Message{}))
		l.must(f.Publish(l.Context(), "missing", "k", publisher.Message{}))
		l.eventually("a message", func() bool {
			_ = f.Publish(l.Context(), "", "q", publisher.Message{})
			return l.depth("q") > 0
		})
		if d := l.drain("q")[0]; d.DeliveryMode == amqp091.Persistent {
			l.Error("the message is persistent")
		}
	})
}

// Row C8: a broker without memory stops publishers; the result is not known, or nothing is
// sent, and it goes on when there is room again.
func TestBlocked(t *testing.T) {
	check := func(l *lab, block, unblock func()) {
		l.queue("q", "classic", nil)
		p := l.open(publisher.ConfirmTimeout(time.Second))
		l.must(p.Publish(l.Context(), "", "q", publisher.Message{}))
		block()
		var unknown *publisher.Unknown
		var notSent *publisher.NotSent
		l.eventually("blocked", func() bool {
			err := p.Publish(l.Context(), "", "q", publisher.Message{})
			return errors.As(err, &unknown) || errors.As(err, &notSent)
		})
		l.eventually("health", func() bool { return p.Health().Blocked != "" && !p.Health().OK() })
		if err := p.Publish(l.Context(), "", "q", publisher.Message{}); !errors.As(err, &notSent) || !strings.Contains(err.Error(), "takes no messages") {
			l.Errorf("the result is %v", err)
		}
		unblock()
		l.eventually("published again", func() bool { return p.Publish(l.Context(), "", "q", publisher.Message{}) == nil })
		if !p.Health().OK() {
			l.Errorf("health is %+v", p.Health())
		}
	}
	t.Run("simulated", func(t *testing.T) {
		b := simulator.New(simulator.RealTime())
		l := &lab{T: t, dialer: b.Dialer("/"), sim: b, vhost: "/"}
		check(l.start(), func() { b.Block("memory") }, b.Unblock)
	})
	for _, v := range []string{"3.10", "4.0", "4.3"} {
		t.Run("broker "+v, func(t *testing.T) {
			t.Parallel()
			n := brokertest.StartNode(t, v)
			l := &lab{T: t, dialer: wire.AMQP{URL: n.AMQPURL("/")}, broker: &n.Broker, vhost: "/"}
			check(l.start(), func() { n.Ctl("set_vm_memory_high_watermark", "0") }, func() { n.Ctl("set_vm_memory_high_watermark", "0.4") })
		})
	}
}

// The broker goes away for some seconds: publishing waits for it.
func TestBrokerRestarts(t *testing.T) {
	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), sim: b, vhost: "/"}
	l.start()
	l.queue("q", "quorum", nil)
	p := l.open()
	b.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var notSent *publisher.NotSent
	if err := p.Publish(ctx, "", "q", publisher.Message{}); !errors.As(err, &notSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the result is %v", err)
	}
	if h := p.Health(); h.OK() || h.Err == nil {
		t.Errorf("health is %+v", h)
	}
	result := make(chan error, 1)
	go func() { result <- p.Publish(t.Context(), "", "q", publisher.Message{}) }()
	time.Sleep(300 * time.Millisecond)
	b.Start()
	if err := <-result; err != nil {
		t.Error(err)
	}
	if !p.Health().OK() {
		t.Errorf("health is %+v", p.Health())
	}
}

// Closing waits for confirms, ends what waits, and leaves nothing behind.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), sim: b, vhost: "/"}
	l.start()
	l.queue("q", "quorum", nil)
	p, err := publisher.OpenWith(t.Context(), l.dialer)
	l.must(err)
	var all []*publisher.Pending
	for range 100 {
		sent, err := p.PublishAsync(t.Context(), "", "q", publisher.Message{})
		l.must(err)
		all = append(all, sent)
	}
	l.must(p.Close(t.Context()))
	for _, sent := range all {
		l.must(sent.Wait(t.Context()))
	}
	var notSent *publisher.NotSent
	if err := p.Publish(t.Context(), "", "q", publisher.Message{}); !errors.As(err, &notSent) {
		t.Errorf("the result is %v", err)
	}
	l.must(p.Close(t.Context()))
	l.must(l.conn.Close())
	l.eventually("no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
