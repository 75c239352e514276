package broker

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// A user with the tag management alone reads everything that plan needs; what he
// may not see is unknown, never absent.
func TestManagementTagIsEnoughToRead(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost, hidden := b.VirtualHost(t), b.VirtualHostNamed(t, "hidden")
		admin := writerOf(t, clientOf(t, b), ViaHTTP, vhost)
		objects := []topology.Object{
			&topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{"x-delivery-limit": int64(4)}},
			&topology.Exchange{VirtualHost: vhost, Name: "x", Type: "topic", Durable: true, Internal: true},
			&topology.Binding{VirtualHost: vhost, Source: "x", Destination: "q", DestinationType: topology.ToQueue, RoutingKey: "#"},
			&topology.Policy{VirtualHost: vhost, Name: "p", Pattern: ".", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(1)}},
			&topology.Policy{VirtualHost: vhost, Name: "o", Operator: true, Pattern: ".", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(1)}},
		}
		create(t, admin, objects...)
		user, password := b.User(t, vhost, "management", "", "", "")
		c := clientOf(t, b.As(user, password))
		s := read(t, c, ReadOptions{Limits: true, Parameters: true, Permissions: true}, vhost, hidden, "absent", vhost)
		sameTexts(t, "topology", own(s.Topology.VirtualHost(vhost), declared...), texts(objects))
		if !slices.Equal(s.Missing, slices.Sorted(slices.Values([]string{hidden, "absent"}))) {
			t.Errorf("missing %q", s.Missing)
		}
		if len(s.Unknown) != 3 || !strings.Contains(s.Unknown[topology.KindParameter], "policymaker") || !strings.Contains(s.Unknown[topology.KindPermission], "administrator") {
			t.Errorf("unknown %q", s.Unknown)
		}
		if len(s.ExchangeTypes) < 4 || !slices.IsSorted(s.ExchangeTypes) || s.Version.String() != b.Version || s.ClusterName == "" {
			t.Errorf("version %s, cluster %q, types %q", s.Version, s.ClusterName, s.ExchangeTypes)
		}
	})
}

func TestMissingRightsToWrite(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		user, password := b.User(t, vhost, "management", "^mine", "", "")
		u := b.As(user, password)
		policy := &topology.Policy{VirtualHost: vhost, Name: "p", Pattern: ".", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(1)}}
		operator := *policy
		operator.Operator = true
		for _, via := range []Via{ViaAMQP, ViaHTTP} {
			w := writerOf(t, clientOf(t, u, withAMQP(b)), via, vhost)
			for _, c := range []struct {
				object topology.Object
				hint   string
			}{
				{&topology.Queue{VirtualHost: vhost, Name: "other", Durable: true}, "permission"},
				{&topology.Exchange{VirtualHost: vhost, Name: "other", Type: "topic", Durable: true}, "permission"},
				{policy, "policymaker"},
				{&operator, "administrator"},
				{&topology.Permission{VirtualHost: vhost, User: user}, "administrator"},
			} {
				err := w.Create(t.Context(), c.object)
				var e *Error
				if !IsAuth(err) || IsLoginFailed(err) || IsTransient(err) || IsNotFound(err) || !errors.As(err, &e) || e.Key != c.object.Key() || !strings.Contains(e.Hint, c.hint) {
					t.Errorf("%s: %s: auth %v: %v", via, c.object.Key(), IsAuth(err), err)
				}
			}
			// Siblings go on: the channel is replaced.
			create(t, w, &topology.Queue{VirtualHost: vhost, Name: "mine", Durable: true, Type: topology.Classic})
			err := w.Create(t.Context(), &topology.Binding{VirtualHost: vhost, Source: "nowhere", Destination: "mine", DestinationType: topology.ToQueue})
			if err == nil || IsUnknown(err) {
				t.Errorf("%s: a binding without rights: %v", via, err)
			}
			create(t, w, &topology.Queue{VirtualHost: vhost, Name: "mine.too", Durable: true, Type: topology.Classic})
		}
	})
}

func TestMissingEnds(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		for _, via := range []Via{ViaAMQP, ViaHTTP} {
			w := writerOf(t, clientOf(t, b), via, vhost)
			err := w.Create(t.Context(), &topology.Binding{VirtualHost: vhost, Source: "amq.topic", Destination: "gone", DestinationType: topology.ToQueue})
			if !IsNotFound(err) || !strings.Contains(err.Error(), "no queue 'gone'") {
				t.Errorf("%s: %v", via, err)
			}
			err = w.Create(t.Context(), &topology.Queue{VirtualHost: "no such host", Name: "q", Durable: true})
			if !IsNotFound(err) || !strings.Contains(err.Error(), `virtual host "no such host"`) {
				t.Errorf("%s: missing virtual host: %v", via, err)
			}
			err = w.Create(t.Context(), &topology.Exchange{VirtualHost: vhost, Name: "amq.mine", Type: "topic", Durable: true})
			if err == nil || IsTransient(err) {
				t.Errorf("%s: reserved name: %v", via, err)
			}
		}
	})
}

func TestWrongPassword(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		bad := b.As(b.Username, "secret-that-is-wrong")
		c := clientOf(t, bad, withAMQP(b))
		_, err := c.Read(t.Context(), []string{vhost}, ReadOptions{})
		if !IsAuth(err) || !IsLoginFailed(err) || IsUnreachable(err) || strings.Contains(err.Error(), "secret-that") {
			t.Errorf("read: %v", err)
		}
		if _, err := c.Writer(t.Context(), []string{vhost}, ViaAuto); !IsLoginFailed(err) {
			t.Errorf("writer: %v", err)
		}
		alone, err := New(Options{AMQPURL: "amqp://" + b.AMQPAddress(), Username: bad.Username, Password: bad.Password})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := alone.Passive(t.Context(), vhost, []topology.Object{&topology.Queue{VirtualHost: vhost, Name: "q"}}); !IsLoginFailed(err) || strings.Contains(err.Error(), "secret-that") {
			t.Errorf("AMQP: %v", err)
		}
		// The right password over HTTP, a user without a permission over AMQP.
		user, password := b.User(t, "", "administrator", "", "", "")
		if _, err := clientOf(t, b.As(user, password), withAMQP(b)).Writer(t.Context(), []string{vhost}, ViaAuto); !IsAuth(err) || !strings.Contains(err.Error(), hintVHost) {
			t.Errorf("no permission in the virtual host: %v", err)
		}
	})
}

// Two URLs of different brokers are refused before anything is written.
func TestDifferentBrokers(t *testing.T) {
	var brokers []*brokertest.Broker
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) { brokers = append(brokers, b) })
	if len(brokers) < 2 {
		t.Skip("needs two brokers")
	}
	for i, b := range brokers {
		other := brokers[(i+1)%len(brokers)]
		_, err := clientOf(t, b, withAMQP(other)).Writer(t.Context(), []string{"/"}, ViaAuto)
		if !errors.Is(err, ErrDifferentBrokers) || !strings.Contains(err.Error(), other.Version) {
			t.Errorf("%s and %s: %v", b.Version, other.Version, err)
		}
		if _, err := clientOf(t, b, withAMQP(other)).Counts(t.Context(), "/", []string{"q"}); !errors.Is(err, ErrDifferentBrokers) {
			t.Errorf("counts of %s by %s: %v", b.Version, other.Version, err)
		}
	}
}

// The number of requests does not depend on the number of queues and bindings: for an
// administrator on 4.3 it is four, else at most six and one for each exchange, the
// default exchange included.
func TestRequestsAreConstant(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost, other := b.VirtualHost(t), b.VirtualHost(t)
		user, password := b.User(t, vhost, "management", "", "", "")
		policymaker, secret := b.User(t, vhost, "policymaker", "", "", "")
		proxy := brokertest.HTTPProxy(t, b, func(*http.Request) (int, string, bool) { return 0, "", false })
		as := func(name, password string) *Client {
			c, err := New(Options{URL: proxy.URL, Username: name, Password: password})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return c
		}
		w := writerOf(t, clientOf(t, b), ViaAMQP, vhost)
		count := func(c *Client, o ReadOptions, vhosts ...string) int {
			t.Helper()
			proxy.Forget()
			read(t, c, o, vhosts...)
			for _, r := range proxy.Requests() {
				if strings.Contains(r.String(), "page") || strings.Contains(r.String(), "queues") && !strings.Contains(r.String(), "disable_stats=true") {
					t.Errorf("asked for a page or statistics: %s", r)
				}
			}
			return len(proxy.Requests())
		}
		exchanges := 7 // the default one and those of amq.*
		for i := range 3 {
			create(t, w, &topology.Exchange{VirtualHost: vhost, Name: fmt.Sprint("x", i), Type: "topic", Durable: true})
			exchanges++
		}
		admin := as(b.Username, b.Password)
		limited, records := as(user, password), as(policymaker, secret)
		if _, err := limited.Records(t.Context()); !IsAuth(err) { // as plan does first
			t.Fatal(err)
		}
		for _, queues := range []int{0, 400} {
			var group errgroup.Group
			group.SetLimit(40) // more than there are channels
			for i := range queues {
				group.Go(func() error {
					q := &topology.Queue{VirtualHost: vhost, Name: fmt.Sprint("q", i), Type: topology.Classic, Durable: true}
					return errors.Join(w.Create(t.Context(), q), w.Create(t.Context(), &topology.Binding{
						VirtualHost: vhost, Source: "amq.topic", Destination: q.Name, DestinationType: topology.ToQueue, RoutingKey: q.Name,
					}))
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			most := 5 + exchanges // and one for the records makes six
			if n := count(limited, ReadOptions{}, vhost); n < 7 || n > most {
				t.Errorf("%d queues, tag management: %d requests, want at most %d: %v", queues, n, most, proxy.Requests())
			}
			if n := count(records, ReadOptions{}, vhost); n > most+1 { // asks for the definitions once
				t.Errorf("%d queues, tag policymaker: %d requests, want at most %d: %v", queues, n, most+1, proxy.Requests())
			}
			if b.AtLeast("4.3") {
				most = 4
			}
			if n := count(admin, ReadOptions{}, vhost); n > most {
				t.Errorf("%d queues, administrator: %d requests, want at most %d: %v", queues, n, most, proxy.Requests())
			}
		}
		alone := count(admin, ReadOptions{}, vhost)
		if n := count(admin, ReadOptions{}, "absent"); n != 2 {
			t.Errorf("an absent virtual host: %d requests, want 2", n)
		}
		two := count(admin, ReadOptions{}, vhost, other)
		if n := count(admin, ReadOptions{Limits: true, Parameters: true, Permissions: true}, vhost, other); n != two+4 || two <= alone || two >= 2*alone {
			t.Errorf("%d requests for one, %d for two, %d with all else", alone, two, n)
		}
	})
}

// A connection error of the broker (540) makes the step unknown and closes the
// connection; the next call dials again.
func TestConnectionErrorAndNewConnection(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		proxy := brokertest.Proxy(t, b.AMQPAddress())
		w := writerOf(t, clientOf(t, b, func(o *Options) { o.AMQPURL = "amqp://" + proxy.Address }), ViaAMQP, vhost)
		create(t, w, &topology.Queue{VirtualHost: vhost, Name: "before", Type: topology.Classic, Durable: true})
		if !b.AtLeast("4.3") { // 541, the whole connection
			err := w.Create(t.Context(), &topology.Queue{VirtualHost: vhost, Name: "s", Type: topology.Stream, Durable: true, Arguments: topology.Arguments{"x-max-age": "bogus"}})
			var e *Error
			if !errors.As(err, &e) || !e.ConnectionClosed || !IsUnknown(err) || e.Status != 541 || IsTransient(err) {
				t.Errorf("541: %v", err)
			}
		}
		create(t, w, &topology.Queue{VirtualHost: vhost, Name: "between", Type: topology.Classic, Durable: true})
		proxy.Cut()
		err := w.Create(t.Context(), &topology.Queue{VirtualHost: vhost, Name: "cut", Type: topology.Classic, Durable: true})
		if err != nil && (!IsTransient(err) || !IsUnreachable(err)) {
			t.Errorf("after a cut: %v", err)
		}
		create(t, w, &topology.Queue{VirtualHost: vhost, Name: "after", Type: topology.Classic, Durable: true})
	})
}

// A broker that stops answering ends with an error that names the step.
func TestStalledAMQP(t *testing.T) {
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	proxy := brokertest.Proxy(t, b.AMQPAddress())
	c := clientOf(t, b, func(o *Options) { o.AMQPURL, o.Timeout = "amqp://"+proxy.Address, time.Second })
	w := writerOf(t, c, ViaAMQP, vhost)
	queue := &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true}
	create(t, w, queue)
	proxy.Stall(true)
	start := time.Now()
	err := w.Create(t.Context(), queue)
	if !IsTimeout(err) || !IsUnknown(err) || !IsTransient(err) || !strings.Contains(err.Error(), "queue.declare") || time.Since(start) > 10*time.Second {
		t.Errorf("stalled: %v after %s", err, time.Since(start))
	}
	err = w.Create(t.Context(), queue) // now the login hangs
	if !IsTimeout(err) || IsUnknown(err) || IsAuth(err) || !strings.Contains(err.Error(), "login") {
		t.Errorf("stalled login: %v", err)
	}
	proxy.Stall(false)
	create(t, w, queue)
}

func TestAutoFallsBackToHTTP(t *testing.T) {
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	proxy := brokertest.Proxy(t, b.AMQPAddress())
	proxy.Refuse(true)
	c := clientOf(t, b, func(o *Options) { o.AMQPURL = "amqp://" + proxy.Address })
	w := writerOf(t, c, ViaAuto, vhost)
	via, why := w.Via()
	if via != ViaHTTP || !IsUnreachable(why) {
		t.Errorf("via %s, %v", via, why)
	}
	create(t, w, &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Quorum, Durable: true})
	if !b.HasQueue(t, vhost, "q") {
		t.Error("no queue")
	}
	if _, err := c.Writer(t.Context(), []string{vhost}, ViaAMQP); !IsUnreachable(err) || IsAuth(err) {
		t.Errorf("AMQP alone: %v", err)
	}
}

// Nothing is left running after success, refusal, loss and stalling.
func TestNoGoroutineLeaks(t *testing.T) {
	b := brokertest.One(t)
	vhost := b.VirtualHost(t)
	b.HasQueue(t, vhost, "warm up")
	http.DefaultClient.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond)
	before := runtime.NumGoroutine()
	t.Run("work", func(t *testing.T) {
		proxy := brokertest.Proxy(t, b.AMQPAddress())
		c := clientOf(t, b, func(o *Options) { o.AMQPURL, o.Timeout = "amqp://"+proxy.Address, time.Second })
		w := writerOf(t, c, ViaAMQP, vhost)
		queue := &topology.Queue{VirtualHost: vhost, Name: "q", Type: topology.Classic, Durable: true}
		for range 20 {
			create(t, w, queue)
			_ = w.Create(t.Context(), &topology.Exchange{VirtualHost: vhost, Name: "x", Type: "bogus"})
		}
		_, _ = c.Counts(t.Context(), vhost, []string{"q", "missing"})
		_, _ = clientOf(t, b.As("nobody", "wrong"), func(o *Options) { o.AMQPURL = "amqp://" + proxy.Address }).Counts(t.Context(), vhost, []string{"q"})
		proxy.Cut()
		_ = w.Create(t.Context(), queue)
		proxy.Stall(true)
		_ = w.Create(t.Context(), queue)
		_, _ = c.Counts(t.Context(), vhost, []string{"q"})
		proxy.Stall(false)
		read(t, c, ReadOptions{}, vhost)
	})
	brokertest.EventuallyTrue(t, 10*time.Second, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+2 })
	if n := runtime.NumGoroutine(); n > before+2 {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, before %d:\n%s", n, before, buf[:runtime.Stack(buf, true)])
	}
}
