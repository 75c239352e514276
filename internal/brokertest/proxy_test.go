package brokertest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// echo starts a server that sends back what it gets.
func echo(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(connection, connection)
				connection.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

func dial(t *testing.T, p *TCPProxy) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	connection.SetDeadline(time.Now().Add(10 * time.Second))
	return connection
}

// say sends a word and returns what comes back.
func say(connection net.Conn, word string) (string, error) {
	if _, err := io.WriteString(connection, word); err != nil {
		return "", err
	}
	answer := make([]byte, len(word))
	n, err := io.ReadFull(connection, answer)
	return string(answer[:n]), err
}

func TestProxyPassesAndCuts(t *testing.T) {
	p := Proxy(t, echo(t))
	connection := dial(t, p)
	if answer, err := say(connection, "hello"); err != nil || answer != "hello" {
		t.Fatalf("%q %v", answer, err)
	}
	if p.BytesSent() != 5 || p.Connections() != 1 {
		t.Errorf("%d bytes on %d connections", p.BytesSent(), p.Connections())
	}
	p.Cut()
	if _, err := say(connection, "hello"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("after the cut: %v", err)
	}
	if answer, err := say(dial(t, p), "again"); err != nil || answer != "again" {
		t.Errorf("a new connection: %q %v", answer, err)
	}
}

func TestProxyRefuses(t *testing.T) {
	p := Proxy(t, echo(t))
	connection := dial(t, p)
	p.Refuse(true)
	if _, err := net.Dial("tcp", p.Address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while refusing: %v", err)
	}
	if _, err := say(connection, "old"); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	p.Refuse(false)
	if _, err := say(dial(t, p), "new"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestProxyCutsAfterBytes(t *testing.T) {
	p := Proxy(t, echo(t))
	connection := dial(t, p)
	p.CutAfterBytes(7)
	if _, err := say(connection, "12345"); err != nil {
		t.Fatal(err)
	}
	if answer, err := say(connection, "67890"); err == nil {
		t.Errorf("got %q after the cut", answer)
	}
	if p.BytesSent() != 7 {
		t.Errorf("%d bytes", p.BytesSent())
	}
	if _, err := say(dial(t, p), "once only"); err != nil {
		t.Error(err)
	}
}

func TestProxyHoldsBack(t *testing.T) {
	p := Proxy(t, echo(t))
	connection := dial(t, p)
	p.Delay(50 * time.Millisecond)
	begin := time.Now()
	if _, err := say(connection, "slow"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("there and back in %v", took)
	}
	p.Delay(0)
	p.Stall(true)
	connection.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := say(connection, "held"); !errors.Is(err, errTimeout(err)) {
		t.Errorf("while stalled: %v", err)
	}
	p.Stall(false)
	connection.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 4)
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "held" {
		t.Errorf("afterwards: %q %v", answer, err)
	}
}

// errTimeout returns err when it is a timeout.
func errTimeout(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return err
	}
	return errors.New("a timeout")
}

func TestProxyBeforeBroker(t *testing.T) {
	b := One(t)
	vhost := b.VirtualHost(t)
	p := Proxy(t, b.AMQPAddress())
	connection, err := amqp.Dial("amqp://" + b.Username + ":" + b.Password + "@" + p.Address + "/" + vhost)
	if err != nil {
		t.Fatal(err)
	}
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	p.Cut()
	if err := <-closed; err == nil {
		t.Error("the cut connection was closed in order")
	}
}

func TestHTTPProxyInjectsAndCounts(t *testing.T) {
	Each(t, func(t *testing.T, b *Broker) {
		vhost := b.VirtualHost(t)
		p := HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/broken"):
				return 500, `{"error":"internal"}`, true
			case strings.HasSuffix(r.URL.Path, "/cut"):
				return CutConnection, "", true
			}
			return 0, "", false
		})
		durable := map[string]bool{"durable": true}
		p.Put(t, Path("queues", vhost, "a/b"), durable)
		if status, body := p.Do(t, "PUT", Path("queues", vhost, "broken"), durable); status != 500 || string(body) != `{"error":"internal"}` {
			t.Errorf("injected: %d %s", status, body)
		}
		if _, _, err := p.request("PUT", Path("queues", vhost, "cut"), durable); err == nil {
			t.Error("the cut request was answered")
		}
		var list []struct{ Name string }
		p.Get(t, Path("queues", vhost)+"?disable_stats=true&x=%2F", &list)
		if len(list) != 1 || list[0].Name != "a/b" {
			t.Errorf("queues: %+v", list)
		}

		path := Path("queues", vhost)
		want := []string{
			"PUT " + path + "/a%2Fb",
			"PUT " + path + "/broken",
			"PUT " + path + "/cut",
			"GET " + path + "?disable_stats=true&x=%2F",
		}
		var got []string
		for _, r := range p.Requests() {
			got = append(got, r.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if writes := p.Writes(); len(writes) != 3 || writes[0].Body != `{"durable":true}` {
			t.Errorf("writes: %v", writes)
		}
		p.Forget()
		if len(p.Requests()) != 0 {
			t.Error("not forgotten")
		}
	})
}
