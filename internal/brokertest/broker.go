package brokertest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Broker is a running RabbitMQ node.
type Broker struct {
	Version  string // as the broker has it: "4.3.6"
	URL      string // of the management API, without user information
	Username string
	Password string

	amqpAddress string // host:port
	throwaway   bool   // a node of this test alone, which may be down when the test cleans up
}

// AtLeast tells whether the broker is of this release or a later one: AtLeast("4.0").
func (b *Broker) AtLeast(release string) bool {
	return compareVersions(b.Version, release) >= 0
}

// AMQPAddress returns host:port of the broker's AMQP listener.
func (b *Broker) AMQPAddress() string { return b.amqpAddress }

// AMQPURL returns the URL of a virtual host.
func (b *Broker) AMQPURL(vhost string) string {
	return b.AMQPURLFor(vhost, b.Username, b.Password)
}

// AMQPURLFor is [Broker.AMQPURL] with the name and password of another user.
func (b *Broker) AMQPURLFor(vhost, user, password string) string {
	return "amqp://" + url.UserPassword(user, password).String() + "@" + b.amqpAddress + "/" + url.PathEscape(vhost)
}

var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 5 * time.Second},
}

// open asks the broker at a management URL for its version and its AMQP port, until it answers or time is up.
func open(managementURL string, timeout time.Duration) (*Broker, error) {
	u, err := url.Parse(managementURL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("not a URL: %q", managementURL)
	}
	b := &Broker{Username: "guest", Password: "guest"}
	if u.User != nil {
		b.Username = u.User.Username()
		b.Password, _ = u.User.Password()
	}
	u.User = nil
	b.URL = strings.TrimSuffix(u.String(), "/")

	for deadline := time.Now().Add(timeout); ; time.Sleep(200 * time.Millisecond) {
		err := b.discover(u.Hostname())
		if err == nil {
			return b, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s: %w", b.URL, err)
		}
	}
}

func (b *Broker) discover(host string) error {
	var overview struct {
		Version   string `json:"rabbitmq_version"`
		Node      string
		Listeners []struct {
			Node, Protocol string
			Port           int
		}
	}
	status, body, err := b.request("GET", "/api/overview", nil)
	if err != nil {
		return err
	}
	if status != 200 {
		return fmt.Errorf("GET /api/overview: %d %s", status, body)
	}
	if err := json.Unmarshal(body, &overview); err != nil {
		return err
	}
	b.Version = overview.Version
	for _, l := range overview.Listeners {
		if l.Node == overview.Node && l.Protocol == "amqp" {
			b.amqpAddress = net.JoinHostPort(host, strconv.Itoa(l.Port))
			return nil
		}
	}
	return errors.New("no AMQP listener, or the user is no administrator")
}

// Path returns the path of a management API resource: Path("queues", vhost, name) with every part percent-encoded.
func Path(parts ...string) string {
	var path strings.Builder
	path.WriteString("/api")
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(part))
	}
	return path.String()
}

// Do sends a request to the management API. The path stands as it is to be sent, percent-encoded, with its query. A body that
// is a []byte or a string is sent unchanged, nil sends none, anything else is sent as JSON.
func (b *Broker) Do(t testing.TB, method, path string, body any) (status int, response []byte) {
	t.Helper()
	status, response, err := b.request(method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, response
}

// Get reads a resource into v and fails the test on any status but 200.
func (b *Broker) Get(t testing.TB, path string, v any) {
	t.Helper()
	status, body := b.Do(t, "GET", path, nil)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
}

// Put writes a resource and fails the test unless the broker accepts it.
func (b *Broker) Put(t testing.TB, path string, body any) {
	t.Helper()
	if status, response := b.Do(t, "PUT", path, body); status/100 != 2 {
		t.Fatalf("PUT %s: %d %s", path, status, response)
	}
}

func (b *Broker) request(method, path string, body any) (int, []byte, error) {
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(body)
	case string:
		reader = strings.NewReader(body)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		reader = bytes.NewReader(encoded)
	}
	// Parsing keeps the encoding of the path as it is given.
	request, err := http.NewRequest(method, b.URL+path, reader)
	if err != nil {
		return 0, nil, err
	}
	request.SetBasicAuth(b.Username, b.Password)
	if reader != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, content, err
}

// VirtualHost creates a virtual host with full permissions for the broker's user, and deletes it when the test ends.
func (b *Broker) VirtualHost(t testing.TB) string {
	t.Helper()
	return b.VirtualHostNamed(t, "test")
}

// VirtualHostNamed is [Broker.VirtualHost] with a name that begins with the prefix.
func (b *Broker) VirtualHostNamed(t testing.TB, prefix string) string {
	t.Helper()
	vhost := unique(t, prefix)
	b.Put(t, Path("vhosts", vhost), map[string]string{"description": t.Name()})
	t.Cleanup(func() {
		if b.throwaway {
			b.request("DELETE", Path("vhosts", vhost), nil)
			return
		}
		b.forget(t, vhost)
		status, body := b.Do(t, "DELETE", Path("vhosts", vhost), nil)
		if status == http.StatusPreconditionFailed { // protected from deletion by the test
			b.Do(t, "DELETE", Path("vhosts", vhost, "deletion", "protection"), nil)
			status, body = b.Do(t, "DELETE", Path("vhosts", vhost), nil)
		}
		if status/100 != 2 && status != http.StatusNotFound {
			t.Errorf("delete virtual host %s: %d %s", vhost, status, body)
		}
	})
	b.Grant(t, vhost, b.Username, ".*", ".*", ".*")
	return vhost
}

// forget deletes the global parameters in which stacks recorded what they own in a
// virtual host: they outlive it.
func (b *Broker) forget(t testing.TB, vhost string) {
	t.Helper()
	var list []struct {
		Name  string
		Value any
	}
	b.Get(t, "/api/global-parameters", &list)
	for _, p := range list {
		if table, ok := p.Value.(map[string]any); ok && table["vhost"] == vhost {
			b.Do(t, "DELETE", Path("global-parameters", p.Name), nil)
		}
	}
}

// Grant gives a user permissions in a virtual host.
func (b *Broker) Grant(t testing.TB, vhost, user, configure, write, read string) {
	t.Helper()
	b.Put(t, Path("permissions", vhost, user), map[string]string{"configure": configure, "write": write, "read": read})
}

// User creates a user with these tags ("management", "administrator", "") and permissions, and deletes it when the test ends.
// With an empty vhost it gets no permissions.
func (b *Broker) User(t testing.TB, vhost, tags, configure, write, read string) (name, password string) {
	t.Helper()
	name, password = unique(t, "user"), rand.Text()
	b.Put(t, Path("users", name), map[string]string{"password": password, "tags": tags})
	t.Cleanup(func() {
		status, body, err := b.request("DELETE", Path("users", name), nil)
		if !b.throwaway && (err != nil || status/100 != 2 && status != http.StatusNotFound) {
			t.Errorf("delete user %s: %d %s %v", name, status, body, err)
		}
	})
	if vhost != "" {
		b.Grant(t, vhost, name, configure, write, read)
	}
	return name, password
}

// As returns the same broker seen by another user.
func (b *Broker) As(name, password string) *Broker {
	other := *b
	other.Username, other.Password = name, password
	return &other
}

// unique returns a name that tells which test left it behind, should one be killed.
func unique(t testing.TB, prefix string) string {
	random := make([]byte, 5)
	rand.Read(random)
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, t.Name())
	return cmp.Or(prefix, "test") + "-" + name[:min(len(name), 60)] + "-" + hex.EncodeToString(random)
}
