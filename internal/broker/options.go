package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// DefaultTimeout bounds each request and each step of a connection when Options
// do not say otherwise.
const DefaultTimeout = 30 * time.Second

// Options say how to reach a broker. URL or AMQPURL must be given.
type Options struct {
	// URL is the root of the management API, without /api; a path prefix is
	// allowed (https://host/rabbit/). User and password in it are used unless
	// Username is set.
	URL string
	// AMQPURL is amqp://host:port or amqps://host:port. A path (virtual host) in
	// it is not used, the query parameters auth_mechanism and heartbeat are. When
	// empty it is derived from URL, see Client.AMQPAddress.
	AMQPURL string
	// Username and Password default to those of the URLs, then to guest.
	Username, Password string
	// Token is an OAuth 2 bearer token; it is the password over AMQP.
	Token string
	// CAFile holds the only certificate authorities to trust, in PEM; empty:
	// those of the system.
	CAFile string
	// CertFile and KeyFile are a client certificate in PEM.
	CertFile, KeyFile string
	// ServerName is the name in the broker's certificate, if it is not the host.
	ServerName string
	// Timeout bounds each request and each step of a connection; 0 means
	// DefaultTimeout. Puts and deletes of policies may take ten times as long,
	// since the broker matches every queue before it answers.
	Timeout time.Duration
	// StatisticsLag is how late the statistics of the management API may be; 0: 10 s,
	// enough for twice the default of collect_statistics_interval. It must be at least
	// twice the broker's own.
	StatisticsLag time.Duration
	// UserAgent names the program to the broker; empty: rabbitctl.
	UserAgent string
}

// Client talks to one broker. It is safe for concurrent use.
type Client struct {
	base      string // management URL without userinfo and final slash; "" without one
	host      string // host of base, without port
	https     bool
	transport *transport
	http      login
	amqp      amqpTarget
	tls       *tls.Config
	timeout   time.Duration
	agent     string
	// statisticsLag is Options.StatisticsLag.
	statisticsLag time.Duration
	// policies serialises writes of policies: each makes the broker match every
	// queue, in parallel they only get in each other's way.
	policies mutex
	// loggedIn is closed after a first login that worked.
	loggedIn *once
	// limited: the user has been found to be no administrator.
	limited atomic.Bool
}

// login is one set of credentials.
type login struct{ username, password, token string }

// New checks the options and makes a client; it connects to nothing yet.
func New(o Options) (*Client, error) {
	if o.URL == "" && o.AMQPURL == "" {
		return nil, errors.New("neither a management URL nor an AMQP URL is given")
	}
	c := &Client{timeout: o.Timeout, agent: o.UserAgent, policies: newMutex(), loggedIn: new(once)}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.statisticsLag = o.StatisticsLag; c.statisticsLag <= 0 {
		c.statisticsLag = statisticsLag
	}
	if c.agent == "" {
		c.agent = "rabbitctl"
	}
	var err error
	if c.tls, err = o.tlsConfig(); err != nil {
		return nil, err
	}
	given := login{o.Username, o.Password, o.Token}
	fromURL := login{}
	if o.URL != "" {
		u, err := parseURL(o.URL, "management URL", "http", "https")
		if err != nil {
			return nil, err
		}
		fromURL = userinfo(u)
		u.User = nil
		c.host, c.https = u.Hostname(), u.Scheme == "https"
		c.base = strings.TrimRight(u.String(), "/")
		c.http = given.orElse(fromURL).orElse(guest)
		c.transport = newTransport(c)
	}
	if c.amqp, err = newAMQPTarget(o.AMQPURL, given, fromURL); err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends idle connections. Writers are closed on their own.
func (c *Client) Close() {
	if c.transport != nil {
		c.transport.next.CloseIdleConnections()
	}
}

// guest is RabbitMQ's default user, which may log in from the same host only.
var guest = login{username: "guest", password: "guest"}

// orElse is l, or other when l names nobody.
func (l login) orElse(other login) login {
	if l.username == "" && l.token == "" {
		return other
	}
	return l
}

func (l login) set(r *http.Request) {
	if l.token != "" {
		r.Header.Set("Authorization", "Bearer "+l.token)
		return
	}
	r.SetBasicAuth(l.username, l.password)
}

func userinfo(u *url.URL) login {
	if u.User == nil {
		return login{}
	}
	password, _ := u.User.Password()
	return login{username: u.User.Username(), password: password}
}

// parseURL reads a URL of one of the schemes. Its errors never repeat the text,
// since it may hold a password.
func parseURL(text, what string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the %s cannot be read: reserved characters in user or password, such as / # ? @, must be percent-encoded", what)
	}
	ok := false
	for _, s := range schemes {
		ok = ok || u.Scheme == s
	}
	if !ok {
		return nil, fmt.Errorf("the %s must begin with %s://", what, strings.Join(schemes, ":// or "))
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("the %s names no host", what)
	}
	if schemes[0] == "http" && u.RawQuery != "" {
		return nil, fmt.Errorf("the %s must not have a query (?...); reserved characters in user or password must be percent-encoded", what)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func (o Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA file %q holds no certificate in PEM form", o.CAFile)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("a client certificate needs both the certificate file and the key file")
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate %q with key %q: %w", o.CertFile, o.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// api is a rabbit-hole client for one call: rabbit-hole takes no context, so the
// transport carries it. The credentials are set by the transport.
func (c *Client) api(r request) (*rabbithole.Client, error) {
	if c.base == "" {
		return nil, local("needs the management URL; only the AMQP URL is given")
	}
	return rabbithole.NewTLSClient(c.base, "", "", bound{c.transport, r})
}
