package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// amqpTarget is where AMQP is spoken, as far as it is known without asking.
type amqpTarget struct {
	given     bool // host and port come from Options.AMQPURL
	tls       bool
	host      string
	port      int // 0: not known yet
	login     login
	external  bool // the client certificate is the login
	heartbeat time.Duration
}

const heartbeat = 10 * time.Second

func newAMQPTarget(text string, given, management login) (amqpTarget, error) {
	t := amqpTarget{login: given.orElse(management).orElse(guest), heartbeat: heartbeat}
	if text == "" {
		return t, nil
	}
	u, err := parseURL(text, "AMQP URL", "amqp", "amqps")
	if err != nil {
		return t, err
	}
	own := userinfo(u)
	u.User = nil
	uri, err := amqp.ParseURI(u.String())
	if err != nil {
		return t, fmt.Errorf("the AMQP URL cannot be read: %w", err)
	}
	t.given, t.tls, t.host, t.port = true, uri.Scheme == "amqps", uri.Host, uri.Port
	t.login = given.orElse(own).orElse(management).orElse(guest)
	for _, m := range uri.AuthMechanism {
		switch strings.ToLower(m) {
		case "external":
			t.external = true
		case "plain":
		default:
			return t, fmt.Errorf("the AMQP URL asks for the auth_mechanism %q; plain and external are known", m)
		}
	}
	if s := u.Query().Get("heartbeat"); s != "" {
		n, _ := strconv.Atoi(s) // ParseURI has checked it
		t.heartbeat = time.Duration(n) * time.Second
	}
	return t, nil
}

// AMQPAddress is the address that AMQP is spoken to. Without an AMQP URL it is
// the host of the management URL and the port of the answering node's listener
// when the user may see it, else 5672, or 5671 for https: a password that came
// by TLS is never sent in the clear.
func (c *Client) AMQPAddress(o *Overview) (address string, encrypted bool) {
	if c.amqp.given {
		return net.JoinHostPort(c.amqp.host, strconv.Itoa(c.amqp.port)), c.amqp.tls
	}
	port, encrypted := 5672, c.https
	if c.https {
		port = 5671
	}
	if o != nil {
		plain, secure := listenerPort(o, "amqp"), listenerPort(o, "amqp/ssl")
		switch {
		case c.https && secure != 0:
			port = secure
		case !c.https && plain != 0:
			port = plain
		case !c.https && secure != 0:
			port, encrypted = secure, true
		}
	}
	return net.JoinHostPort(c.host, strconv.Itoa(port)), encrypted
}

// listenerPort finds the port of the node that answered, or of any node.
func listenerPort(o *Overview, protocol string) int {
	port := 0
	for _, l := range o.Listeners {
		if l.Protocol == protocol && (port == 0 || l.Node == o.Node) {
			port = l.Port
		}
	}
	return port
}

// connection is one AMQP connection to one virtual host.
type connection struct {
	*amqp.Connection
	wire  *wire
	limit time.Duration
}

// wire is the network connection; it remembers how reading ended, which
// amqp091-go replaces by a guess.
type wire struct {
	net.Conn
	end atomic.Value // error of the first read that failed
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.end.CompareAndSwap(nil, readEnd{err})
	}
	return n, err
}

type readEnd struct{ error }

// dial opens a connection to a virtual host. Every step is bounded by the
// timeout and by ctx. change, when given, changes the settings of the connection.
func (c *Client) dial(ctx context.Context, vhost string, o *Overview, change func(*amqp.Config)) (*connection, error) {
	address, encrypted := c.AMQPAddress(o)
	fail := func(e *Error) (*connection, error) {
		e.Via = ViaAMQP
		if ctx.Err() != nil {
			e.class, e.Err, e.Status = cancelled, context.Cause(ctx), 0
		}
		return nil, e
	}
	if len(vhost) > 255 {
		return fail(local("the name of the virtual host is %d bytes long; RabbitMQ's limit is 255", len(vhost)))
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(bounded, "tcp", address)
	if err != nil {
		return fail(lost(err, "connect to "+address, c.timeout))
	}
	w := &wire{Conn: raw}
	if encrypted {
		config := c.tls.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(bounded); err != nil {
			raw.Close()
			return fail(lost(err, "TLS handshake with "+address, c.timeout))
		}
		w.Conn = secure
	}
	// amqp091-go takes no context: closing the socket ends its handshake.
	stop := context.AfterFunc(bounded, func() { w.Close() })
	config := c.amqpConfig(vhost)
	if change != nil {
		change(&config)
	}
	conn, err := amqp.Open(w, config)
	alive := stop()
	if err == nil && !alive {
		err = bounded.Err()
	}
	if err != nil {
		timedOut := bounded.Err() != nil
		w.Close()
		return fail(c.loginError(err, w, "AMQP login to "+address, timedOut))
	}
	c.loggedIn.set()
	return &connection{Connection: conn, wire: w, limit: c.timeout}, nil
}

func (c *Client) amqpConfig(vhost string) amqp.Config {
	auth := amqp.Authentication(&amqp.PlainAuth{Username: c.amqp.login.username, Password: c.amqp.login.password})
	switch {
	case c.amqp.login.token != "":
		auth = &amqp.PlainAuth{Username: c.amqp.login.username, Password: c.amqp.login.token}
	case c.amqp.external:
		auth = &amqp.ExternalAuth{}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	pid := os.Getpid()
	return amqp.Config{
		SASL: []amqp.Authentication{auth}, Vhost: vhost, Heartbeat: c.amqp.heartbeat, Locale: "en_US", FrameSize: 131072,
		Properties: amqp.Table{
			"product": "rabbitctl", "version": c.agent, "platform": "Go", "pid": int64(pid), "host": host,
			"connection_name": fmt.Sprintf("rabbitctl %s %d", host, pid),
		},
	}
}

// lost is an error of the network.
func lost(err error, step string, limit time.Duration) *Error {
	e := &Error{Via: ViaAMQP, Step: step, class: unreachable, Err: fmt.Errorf("the broker cannot be reached over AMQP: %w", err)}
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		e.class, e.Err = timeout, fmt.Errorf("no answer within %s", limit)
	}
	if isTLS(err) {
		e.Hint = "is the CA file right, and the name in the certificate?"
	}
	return e
}

// loginError sorts out what ended the handshake. RabbitMQ answers a wrong
// password to amqp091-go by closing the socket without a word, which the library
// reports as "username or password not allowed"; so does a cut connection.
func (c *Client) loginError(err error, w *wire, step string, timedOut bool) *Error {
	if timedOut {
		return lost(context.DeadlineExceeded, step, c.timeout)
	}
	var answer *amqp.Error
	if errors.As(err, &answer) && answer.Server {
		e := &Error{Via: ViaAMQP, Step: step, Status: answer.Code, Reason: redact(answer.Reason), ConnectionClosed: true}
		if answer.Code == 403 && strings.Contains(answer.Reason, "Login was refused") {
			e.Hint = hintLogin
		}
		return e
	}
	if errors.Is(err, amqp.ErrSASL) {
		return &Error{Via: ViaAMQP, Step: step, Status: 403, Reason: "no common login mechanism", Hint: hintLogin}
	}
	cause := err
	if end, ok := w.end.Load().(readEnd); ok {
		cause = end.error
	}
	if errors.Is(err, amqp.ErrCredentials) && !c.loggedIn.was() {
		return &Error{
			Via: ViaAMQP, Step: step, Status: 403, ConnectionClosed: true, Hint: hintLogin,
			Reason: "the connection was closed during the login, as RabbitMQ does for a wrong user name or password",
		}
	}
	e := lost(cause, step, c.timeout)
	if e.class == unreachable {
		e.Err = fmt.Errorf("the connection was closed during the login: %w", cause)
	}
	return e
}

// within runs one synchronous method on the connection. amqp091-go takes no
// context and would wait for ever: when the time is up or ctx ends, the socket is
// closed, which ends the call and everything else on this connection.
func (k *connection) within(ctx context.Context, step string, call func() error) error {
	if err := ctx.Err(); err != nil {
		return &Error{Via: ViaAMQP, Step: step, class: cancelled, Err: context.Cause(ctx)}
	}
	if k.IsClosed() {
		return &Error{Via: ViaAMQP, Step: step, class: unreachable, ConnectionClosed: true, Err: errors.New("the connection is closed")}
	}
	bounded, cancel := context.WithTimeout(ctx, k.limit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return methodError(err, step)
	case <-bounded.Done():
	}
	k.wire.Close()
	if err := <-done; err == nil {
		return nil // it was done after all
	}
	e := &Error{Via: ViaAMQP, Step: step, Unknown: true, ConnectionClosed: true}
	if ctx.Err() != nil {
		e.class, e.Err = cancelled, context.Cause(ctx)
	} else {
		e.class, e.Err = timeout, fmt.Errorf("no answer within %s", k.limit)
	}
	return e
}

// methodError turns the end of a call into an *Error. A soft error of the broker
// closes the channel and is about this call. Everything else takes the
// connection with it: then each call under way on it may have been done or not,
// and may have been the one at fault.
func methodError(err error, step string) error {
	if err == nil {
		return nil
	}
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return &Error{Via: ViaAMQP, Step: step, class: unreachable, Unknown: true, ConnectionClosed: true, Err: err}
	}
	e := &Error{Via: ViaAMQP, Step: step, Err: answer}
	switch {
	case answer.Server && answer.Recover:
		e.Status, e.Reason = answer.Code, withoutCode(redact(answer.Reason))
	case answer.Server:
		e.Status, e.Reason, e.Unknown, e.ConnectionClosed = answer.Code, withoutCode(redact(answer.Reason)), true, true
	default:
		e.class, e.Unknown, e.ConnectionClosed = unreachable, true, true
		e.Err = fmt.Errorf("the AMQP connection was lost: %s", answer.Reason)
	}
	return e
}

// withoutCode drops the name of the code: "NOT_FOUND - no queue ..." so that both
// protocols give the same text.
func withoutCode(reason string) string {
	name, rest, ok := strings.Cut(reason, " - ")
	if ok && name != "" && strings.ToUpper(name) == name && !strings.ContainsAny(name, " '") {
		return rest
	}
	return reason
}

// end closes the connection in order, but does not wait long for it. How it ends
// no longer matters: every call has had its answer.
func (k *connection) end() {
	_ = k.CloseDeadline(time.Now().Add(min(k.limit, 5*time.Second)))
	k.wire.Close()
}
