package broker

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

const overviewJSON = `{"rabbitmq_version":"4.3.6","cluster_name":"c","node":"n","exchange_types":[{"name":"topic"},{"name":"direct"}],
	"listeners":[{"node":"n","protocol":"amqp","port":5673},{"node":"m","protocol":"amqp","port":5674}]}`

// fakeAPI answers like the management API of a small broker.
func fakeAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	answers := map[string]string{
		"/api/overview":              overviewJSON,
		"/api/vhosts":                `[{"name":"/","tags":[]}]`,
		"/api/queues/%2F":            `[{"name":"q","vhost":"/","durable":true,"auto_delete":false,"exclusive":null,"arguments":{"x-message-ttl":9007199254740993,"x-queue-type":"quorum"},"type":"quorum"}]`,
		"/api/exchanges/%2F":         `[{"name":"","type":"direct","durable":true},{"name":"x","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":[]}]`,
		"/api/bindings/%2F":          `[{"source":"","destination":"q","destination_type":"queue","routing_key":"q"},{"source":"x","destination":"q","destination_type":"queue","routing_key":null,"arguments":{},"properties_key":"~"}]`,
		"/api/policies/%2F":          `[{"name":"p","pattern":".","apply-to":"all","priority":1.5,"definition":{"max-length":5}},{"name":"big","pattern":".","priority":1e30,"definition":{}}]`,
		"/api/operator-policies/%2F": `[]`,
		"/api/whoami":                `{"name":"u","tags":"management,policymaker"}`,
	}
	if body, ok := answers[r.URL.EscapedPath()]; ok && r.Method == "GET" {
		_, _ = w.Write([]byte(body))
		return
	}
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"error":"Object Not Found","reason":"Not Found"}`))
}

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return at(t, Options{URL: server.URL})
}

func at(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if c.transport != nil {
		c.transport.backoff = time.Millisecond
	}
	t.Cleanup(c.Close)
	return c
}

func TestReadNormalises(t *testing.T) {
	c := serve(t, fakeAPI)
	s, err := c.Read(t.Context(), []string{"/", "gone"}, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := s.Topology.VirtualHost("/")
	q := v.Queues[0]
	if q.Type != topology.Quorum || len(q.Arguments) != 1 || q.Arguments["x-message-ttl"] != int64(9007199254740993) {
		t.Errorf("queue %+v", q)
	}
	if len(v.Exchanges) != 1 || v.Exchanges[0].Arguments != nil || len(v.Bindings) != 1 || v.Bindings[0].RoutingKey != "" || v.Bindings[0].PropertiesKey != "~" {
		t.Errorf("exchanges %v, bindings %v", v.Exchanges, v.Bindings)
	}
	if v.Policies[0].Name != "big" || v.Policies[0].Priority <= 1<<62 || v.Policies[0].ApplyTo != "all" || v.Policies[1].Priority != 1 {
		t.Errorf("policies %+v %+v", v.Policies[0], v.Policies[1])
	}
	if len(s.Missing) != 1 || s.Missing[0] != "gone" || v.DefaultQueueType != topology.Classic {
		t.Errorf("missing %v, default %s", s.Missing, v.DefaultQueueType)
	}
	me, err := c.Whoami(t.Context())
	if err != nil || !me.Has("policymaker") {
		t.Errorf("%+v %v", me, err)
	}
	if address, encrypted := c.AMQPAddress(&Overview{Node: "n", Listeners: []Listener{{"m", "amqp", 1}, {"n", "amqp", 2}}}); address != "127.0.0.1:2" || encrypted {
		t.Errorf("AMQP at %s, %v", address, encrypted)
	}
}

// Whatever answers and is no management API is named, and is never an empty
// broker.
func TestNotAManagementAPI(t *testing.T) {
	write := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	only := func(path, body string) http.HandlerFunc { // one list is wrong
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.EscapedPath() == path {
				_, _ = w.Write([]byte(body))
				return
			}
			fakeAPI(w, r)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"HTML 404", write(404, "text/html", "<html><title>Not\x1b[31m here</title>"), "a web page"},
		{"HTML 200", write(200, "text/html", "<!DOCTYPE html><title>Shop</title>"), `"Shop"`},
		{"HTML by its text", write(200, "text/plain", " <p>"), "a web page"},
		{"text 404", write(404, "text/plain", "404 page not found\n"), "404 page not found"},
		{"JSON of another program", write(200, "application/json", `{"status":"ok"}`), "without a RabbitMQ version"},
		{"JSON 404 of another program", write(404, "application/json", `{"error":"no such route"}`), "no /api/overview"},
		{"a list", write(200, "application/json", `[]`), "another form"},
		{"null", write(200, "application/json", `null`), "another form"},
		{"empty", write(200, "application/json", ``), "another form"},
		{"login page", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example/start?secret=1", http.StatusFound)
		}, "a redirect to https://login.example/start"},
		{"queues null", only("/api/queues/%2F", "null"), "another form"},
		{"queues object", only("/api/queues/%2F", `{"items":[]}`), "another form"},
		{"queues without names", only("/api/queues/%2F", `[{"id":1}]`), "without a name"},
		{"queues page", only("/api/queues/%2F", `<html>`), "a web page"},
		{"no exchanges", only("/api/exchanges/%2F", `[]`), "no exchanges"},
		{"bindings cut", only("/api/bindings/%2F", `[{"source":"x"`), "another form"},
		{"vhosts strange", only("/api/vhosts", `[{}]`), "without a name"},
		{"policies strange", only("/api/policies/%2F", `[{"name":"p","definition":[1]}]`), "another form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := serve(t, c.handler).Read(t.Context(), []string{"/"}, ReadOptions{})
			if s != nil || !errors.Is(err, ErrNotManagementAPI) || IsTransient(err) || IsAuth(err) || IsNotFound(err) {
				t.Fatalf("state %v, error %v", s, err)
			}
			if !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\x1b\n") || strings.Contains(err.Error(), "secret=1") {
				t.Errorf("text %q lacks %q", err, c.want)
			}
		})
	}
}

func TestProxyLoginAndBadGateway(t *testing.T) {
	_, err := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you", http.StatusUnauthorized) }).Overview(t.Context())
	if !IsAuth(err) || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("401: %v", err)
	}
	calls := 0
	_, err = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(502)
		_, _ = w.Write([]byte("<html><title>502 Bad Gateway</title>"))
	}).Overview(t.Context())
	if !IsTransient(err) || errors.Is(err, ErrNotManagementAPI) || !strings.Contains(err.Error(), "502") || calls != attempts {
		t.Errorf("502 after %d calls: %v", calls, err)
	}
}

func TestRepeats(t *testing.T) {
	var calls atomic.Int64
	failing := func(then http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch calls.Add(1) {
			case 1:
				w.WriteHeader(500)
			case 2: // no answer at all
				conn, _, _ := w.(http.Hijacker).Hijack()
				conn.Close()
			case 3:
				w.WriteHeader(503)
				_, _ = w.Write([]byte(`{"error":"x","reason":"y"}`))
			default:
				then(w, r)
			}
		}
	}
	if _, err := serve(t, failing(fakeAPI)).Overview(t.Context()); err != nil || calls.Load() != 4 {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
	// Writes are repeated with their body.
	calls.Store(0)
	var bodies []string
	c := serve(t, failing(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1000)
		n, _ := r.Body.Read(b)
		bodies = append(bodies, r.Method+" "+r.URL.EscapedPath()+" "+string(b[:n]))
		w.WriteHeader(201)
	}))
	w := &writer{client: c, via: ViaHTTP}
	err := w.Create(t.Context(), &topology.Queue{VirtualHost: "/", Name: "a b/+", Durable: false, Type: topology.Classic, Arguments: topology.Arguments{"f": 5.0, "i": int64(1)<<53 + 1}})
	want := `PUT /api/queues/%2F/a%20b%2F+ {"arguments":{"f":5.0,"i":9007199254740993,"x-queue-type":"classic"},"auto_delete":false,"durable":false}`
	if err != nil || len(bodies) != 1 || bodies[0] != want {
		t.Errorf("%v: %q, want %q", err, bodies, want)
	}
	// A refusal is not repeated.
	calls.Store(0)
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(400)
		_, _ = w.Write([]byte(`{"error":"bad_request","reason":["not_boolean","yes"]}`))
	})
	err = (&writer{client: c, via: ViaHTTP}).Create(t.Context(), &topology.Queue{VirtualHost: "/", Name: "q"})
	if !IsPrecondition(err) || IsTransient(err) || calls.Load() != 1 || !strings.Contains(err.Error(), "not_boolean") {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	for _, o := range []Options{{URL: "http://" + address}, {URL: "http://user:topsecret@" + address}} {
		_, err := at(t, o).Overview(t.Context())
		if !IsUnreachable(err) || !IsTransient(err) || IsUnknown(err) || !strings.Contains(err.Error(), address) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%v", err)
		}
	}
	_, err = at(t, Options{AMQPURL: "amqp://" + address}).Passive(t.Context(), "/", []topology.Object{&topology.Queue{Name: "q"}})
	if !IsUnreachable(err) || !strings.Contains(err.Error(), address) {
		t.Errorf("AMQP: %v", err)
	}
}

// A server that hangs ends with a timeout that names the step; a context that
// ends stops at once.
func TestHang(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/body") {
			_, _ = w.Write([]byte("["))
			w.(http.Flusher).Flush()
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	for prefix, want := range map[string]string{"": "waiting for the answer", "/body": "reading the answer"} {
		_, err := at(t, Options{URL: server.URL + prefix, Timeout: 50 * time.Millisecond}).Overview(t.Context())
		if !IsTimeout(err) || !IsUnreachable(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "overview") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	w := &writer{client: at(t, Options{URL: server.URL, Timeout: 50 * time.Millisecond}), via: ViaHTTP}
	if err := w.Create(t.Context(), &topology.Queue{VirtualHost: "/", Name: "q"}); !IsUnknown(err) || !IsTimeout(err) {
		t.Errorf("write: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("interrupted")
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	_, err := at(t, Options{URL: server.URL}).Overview(ctx)
	if !errors.Is(err, stop) || IsTransient(err) || IsUnreachable(err) {
		t.Errorf("cancelled: %v", err)
	}
	// A TCP server that never says a word, over AMQP and as a TLS server.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := listener.Addr().String()
	for url, want := range map[string]string{"amqp://" + silent: "AMQP login", "amqps://" + silent: "TLS handshake"} {
		_, err := at(t, Options{AMQPURL: url, Timeout: 50 * time.Millisecond}).Counts(t.Context(), "/", []string{"q"})
		if !IsTimeout(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := at(t, Options{URL: "https://" + silent, Timeout: 50 * time.Millisecond}).Overview(t.Context()); !IsTimeout(err) || !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("https: %v", err)
	}
}

func TestCancelledBeforeAWrite(t *testing.T) {
	calls := 0
	c := serve(t, func(http.ResponseWriter, *http.Request) { calls++ })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &writer{client: c, via: ViaHTTP}
	for _, o := range []topology.Object{&topology.Policy{VirtualHost: "/", Name: "p"}, &topology.Queue{VirtualHost: "/", Name: "q"}} {
		if err := w.Create(ctx, o); !errors.Is(err, context.Canceled) || IsUnknown(err) {
			t.Errorf("%v", err)
		}
	}
	if calls != 0 {
		t.Errorf("%d requests after the end", calls)
	}
}

// One policy at a time, and none after the context ends.
func TestPoliciesAreSerial(t *testing.T) {
	var now, most, calls atomic.Int64
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(20 * time.Millisecond)
		now.Add(-1)
		w.WriteHeader(204)
	})
	w := &writer{client: c, via: ViaHTTP}
	ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
	defer cancel()
	done := make(chan error)
	for i := range 10 {
		go func() {
			done <- w.Create(ctx, &topology.Policy{VirtualHost: "/", Name: fmt.Sprint(i), Operator: i%2 == 1})
		}()
	}
	failed := 0
	for range 10 {
		if <-done != nil {
			failed++
		}
	}
	if most.Load() != 1 || failed == 0 || calls.Load() == 10 {
		t.Errorf("%d at a time, %d calls, %d failed", most.Load(), calls.Load(), failed)
	}
}

// rabbit-hole asks to close each connection; one is used all the same, answers
// may be compressed, prefix and token are used.
func TestTransportRepairs(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tok en" || r.Header.Get("User-Agent") != "rabbitctl/1" || !strings.HasPrefix(r.URL.Path, "/a b/rabbit/") {
			t.Errorf("%s %s", r.URL, r.Header)
		}
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip is not asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		_, _ = z.Write([]byte(`{"name":"u","tags":["administrator"]}`))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := at(t, Options{URL: server.URL + "/a%20b/rabbit/", Token: "tok en", UserAgent: "rabbitctl/1"})
	for range 5 {
		if me, err := c.Whoami(t.Context()); err != nil || !me.SeesAllVirtualHosts() {
			t.Fatalf("%+v %v", me, err)
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for 5 requests", connections.Load())
	}
	for userinfo, want := range map[string]string{"": "guest:guest", "me:p%2Fw@": "me:p/w"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user+":"+password != want {
				t.Errorf("login %s:%s, want %s", user, password, want)
			}
			fakeAPI(w, r)
		}))
		if _, err := at(t, Options{URL: strings.Replace(server.URL, "://", "://"+userinfo, 1)}).Overview(t.Context()); err != nil {
			t.Error(err)
		}
		server.Close()
	}
}

func TestOptions(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.pem")
	noPEM := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(noPEM, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{}, "neither"},
		{Options{URL: "localhost:15672"}, "must begin with http:// or https://"},
		{Options{URL: "http://"}, "names no host"},
		{Options{URL: "http://u:s3cret/x@host:1"}, "percent-encoded"},
		{Options{URL: "http://host/?a=1"}, "query"},
		{Options{AMQPURL: "http://host"}, "must begin with amqp:// or amqps://"},
		{Options{AMQPURL: "amqp://host?heartbeat=x"}, "cannot be read"},
		{Options{AMQPURL: "amqp://host?auth_mechanism=ntlm"}, "plain and external"},
		{Options{URL: "https://host", CAFile: missing}, "CA file"},
		{Options{URL: "https://host", CAFile: noPEM}, "no certificate"},
		{Options{URL: "https://host", CertFile: missing}, "both"},
		{Options{URL: "https://host", CertFile: missing, KeyFile: missing}, "client certificate"},
	} {
		_, err := New(c.options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v, want %q", c.options, err, c.want)
		}
	}
	c := at(t, Options{URL: "https://rabbit.example/prefix"})
	if address, encrypted := c.AMQPAddress(&Overview{Listeners: []Listener{{"n", "amqp", 5672}}}); address != "rabbit.example:5671" || !encrypted {
		t.Errorf("AMQP at %s, encrypted %v: a password must not leave TLS", address, encrypted)
	}
	c = at(t, Options{URL: "http://u:p@rabbit.example", AMQPURL: "amqps://[::1]/vhost?auth_mechanism=external&heartbeat=5"})
	if address, encrypted := c.AMQPAddress(nil); address != "[::1]:5671" || !encrypted || !c.amqp.external || c.amqp.heartbeat != 5*time.Second || c.amqp.login.username != "u" {
		t.Errorf("AMQP at %s, %v, %+v", address, encrypted, c.amqp)
	}
}
