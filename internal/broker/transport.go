package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// transport is the http.RoundTripper behind rabbit-hole and our own reads. It
// keeps connections open although rabbit-hole asks to close them, lets net/http
// handle gzip, carries the caller's context, sets credentials, repeats calls that
// may be repeated, reads and closes every body, and turns every answer but a
// success into an *Error with the broker's own words (rabbit-hole drops those of
// a 401 and takes a 404 of a DELETE for success).
type transport struct {
	next    *http.Transport
	login   login
	agent   string
	timeout time.Duration
	seen    *once
	// backoff is the first pause between attempts.
	backoff time.Duration
	largest int64 // answer in bytes
}

const attempts = 4

func newTransport(c *Client) *transport {
	return &transport{
		next: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: c.timeout, KeepAlive: 30 * time.Second}).DialContext,
			TLSClientConfig:     c.tls.Clone(),
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     90 * time.Second,
		},
		login: c.http, agent: c.agent, timeout: c.timeout, seen: c.loggedIn, backoff: 100 * time.Millisecond, largest: maxDefinitions,
	}
}

// request is what belongs to one call besides the HTTP request.
type request struct {
	ctx context.Context
	// slow calls may take ten times the timeout.
	slow bool
}

// bound is the transport with the context of one call.
type bound struct {
	*transport
	request
}

// RoundTrip implements http.RoundTripper. Unlike others it returns an error for
// every status but 2xx, so that no redirect is followed and no password goes to
// another host.
func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	res, answer, err := b.do(req)
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(answer))
	return res, nil
}

// do is RoundTrip for whoever wants the whole body.
func (b bound) do(req *http.Request) (*http.Response, []byte, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	for n := 0; ; n++ {
		res, answer, err := b.attempt(req, body)
		if err == nil {
			return res, answer, nil
		}
		if n+1 == attempts || !repeatable(req) || !worthRepeating(err) {
			if e, ok := as(err); ok {
				e.settling = n > 0 && (req.Method == http.MethodPut || req.Method == http.MethodPost)
			}
			return nil, nil, err
		}
		pause := b.backoff << n
		pause += time.Duration(rand.Int64N(int64(pause)/2 + 1)) // jitter: not all at once
		select {
		case <-time.After(pause):
		case <-b.ctx.Done():
			return nil, nil, err
		}
	}
}

// repeatable: all but POST are idempotent, and POST of a binding is so in
// RabbitMQ (201 for one that exists).
func repeatable(req *http.Request) bool {
	return req.Method != http.MethodPost || strings.Contains(req.URL.EscapedPath(), "/api/bindings/")
}

// worthRepeating: lost and refused connections and 5xx, but not timeouts, which
// have waited long enough, nor certificates and unknown hosts.
func worthRepeating(err error) bool {
	e, ok := as(err)
	if !ok || e.class != refused && e.class != unreachable {
		return false
	}
	if e.class == refused {
		return e.Status >= 500
	}
	var dns *net.DNSError
	return !isTLS(err) && !errors.As(err, &dns)
}

// attempt does the request once and reads the whole answer.
func (b bound) attempt(req *http.Request, body []byte) (*http.Response, []byte, error) {
	step := req.Method + " " + req.URL.EscapedPath()
	limit := b.timeout
	if b.slow {
		limit *= 10
	}
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	var at progress
	out := req.Clone(httptrace.WithClientTrace(ctx, at.trace()))
	out.Close = false
	out.Header.Set("User-Agent", b.agent)
	b.login.set(out)
	out.Body, out.ContentLength = nil, 0
	if body != nil {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	res, err := b.next.RoundTrip(out)
	var answer []byte
	if err == nil {
		answer, err = readBody(res, b.largest+1)
		res.Body.Close()
	}
	if err != nil {
		return nil, nil, b.noAnswer(ctx, err, step, limit, req, &at)
	}
	if int64(len(answer)) > b.largest {
		return nil, nil, notManagement(&Error{Via: ViaHTTP, Step: step, Status: res.StatusCode}, fmt.Sprintf("an answer of more than %d MiB", b.largest>>20))
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, nil, badAnswer(req, res, answer, step)
	}
	// The broker answers writes without a body; a page is a proxy's.
	if req.Method != http.MethodGet && isHTML(res, answer) {
		return nil, nil, notManagement(&Error{Via: ViaHTTP, Step: step, Status: res.StatusCode}, describe(res, answer))
	}
	b.seen.set()
	return res, answer, nil
}

// readBody reads a body of at most limit bytes, at once into enough room where its
// length is known.
func readBody(res *http.Response, limit int64) ([]byte, error) {
	var b bytes.Buffer
	if n := res.ContentLength; n > 0 && n < limit {
		b.Grow(int(n) + bytes.MinRead)
	}
	_, err := b.ReadFrom(io.LimitReader(res.Body, limit))
	return b.Bytes(), err
}

// progress is how far a request came, for the error of one that hangs.
type progress struct {
	phase atomic.Value // string
	sent  atomic.Bool
}

func (p *progress) trace() *httptrace.ClientTrace {
	p.phase.Store("connecting")
	return &httptrace.ClientTrace{
		TLSHandshakeStart:    func() { p.phase.Store("the TLS handshake") },
		GotConn:              func(httptrace.GotConnInfo) { p.phase.Store("sending the request"); p.sent.Store(true) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { p.phase.Store("waiting for the answer") },
		GotFirstResponseByte: func() { p.phase.Store("reading the answer") },
	}
}

func (b bound) noAnswer(ctx context.Context, err error, step string, limit time.Duration, req *http.Request, at *progress) error {
	e := &Error{Via: ViaHTTP, Step: step, class: unreachable}
	e.Unknown = at.sent.Load() && req.Method != http.MethodGet
	phase := at.phase.Load().(string)
	switch {
	case b.ctx.Err() != nil:
		e.class, e.Err = cancelled, fmt.Errorf("stopped while %s: %w", phase, context.Cause(b.ctx))
	case ctx.Err() != nil || isTimeout(err):
		e.class, e.Err = timeout, fmt.Errorf("no answer from %s within %s, while %s", req.URL.Host, limit, phase)
	default:
		e.Err = fmt.Errorf("%s cannot be reached, while %s: %w", req.URL.Host, phase, err)
		if strings.Contains(err.Error(), `malformed HTTP response "AMQP`) {
			e.Hint = "this port speaks AMQP; the management API has another, 15672 unless it was configured"
		}
		if isTLS(err) {
			e.Hint = "is the CA file right, and the name in the certificate?"
		}
	}
	return e
}

func badAnswer(req *http.Request, res *http.Response, body []byte, step string) error {
	e := &Error{Via: ViaHTTP, Step: step, Status: res.StatusCode}
	code, reason, ok := refusal(body)
	switch {
	case res.StatusCode < 400:
		return notManagement(e, describe(res, body))
	case ok:
		e.Reason = redact(unescape(req.URL.EscapedPath(), reason))
		if code == "not_authorized" { // wrong password; a missing right is "not_authorised"
			e.Hint = hintLogin
		}
	case res.StatusCode == 401 || res.StatusCode == 403:
		e.Reason = describe(res, body)
		e.Hint = "this answer is not RabbitMQ's: is there a proxy that wants a login?"
	case res.StatusCode >= 500 || req.Method != http.MethodGet && !isHTML(res, body):
		e.Reason = describe(res, body)
	default:
		return notManagement(e, describe(res, body))
	}
	return e
}

func notManagement(e *Error, found string) *Error {
	e.class, e.Err, e.Reason = wrongServer, ErrNotManagementAPI, found
	e.Hint = "the URL must be the root of the management API, as in http://localhost:15672, with its path prefix if it has one"
	return e
}

// describe says what was found instead of an answer of the API.
func describe(res *http.Response, body []byte) string {
	if to := res.Header.Get("Location"); to != "" && res.StatusCode >= 300 && res.StatusCode < 400 {
		if u, err := url.Parse(to); err == nil {
			u.User, u.RawQuery = nil, ""
			to = u.String()
		}
		return "a redirect to " + text.Line(text.Truncate(redact(to), 200))
	}
	if isHTML(res, body) {
		return "a web page" + title(body)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return "an empty answer"
	}
	return fmt.Sprintf("%q", text.Truncate(redact(string(body)), 80))
}

func isHTML(res *http.Response, body []byte) bool {
	return strings.Contains(res.Header.Get("Content-Type"), "html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// title is the page's title, since it often tells what the page is.
func title(page []byte) string {
	page = page[:min(len(page), 4096)]
	_, rest, ok := bytes.Cut(page, []byte("<title>"))
	name, _, end := bytes.Cut(rest, []byte("</title>"))
	if !ok || !end {
		return ""
	}
	return fmt.Sprintf(" with the title %q", text.Truncate(strings.TrimSpace(string(name)), 80))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
