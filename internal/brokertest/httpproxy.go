package brokertest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// APIProxy stands between a client and a broker's management API, remembers what was asked and answers in its place.
type APIProxy struct {
	*Broker // the same broker with the proxy's URL

	mutex    sync.Mutex
	requests []Request
}

// Request is what a client asked of the management API.
type Request struct {
	Method string
	Path   string // percent-encoded, as it came
	Query  string
	Body   string
}

func (r Request) String() string {
	if r.Query == "" {
		return r.Method + " " + r.Path
	}
	return r.Method + " " + r.Path + "?" + r.Query
}

// CutConnection as the status of an intercepted request closes the connection without an answer.
const CutConnection = -1

// HTTPProxy starts a proxy to the broker's management API, which ends with the test. Each request is shown to intercept, if
// there is one; where that returns handled, its status and body are the answer and the broker never sees the request, else it
// goes to the broker as it is. intercept is called from several goroutines.
func HTTPProxy(t testing.TB, b *Broker, intercept func(r *http.Request) (status int, body string, handled bool)) *APIProxy {
	t.Helper()
	upstream := *b
	p := &APIProxy{}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.mutex.Lock()
		p.requests = append(p.requests, Request{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)})
		p.mutex.Unlock()

		if intercept != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
			if status, answer, handled := intercept(r); handled {
				reply(w, status, answer)
				return
			}
		}
		forward(w, r, transport, upstream.URL, body)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	proxied := *b
	proxied.URL = server.URL
	p.Broker = &proxied
	return p
}

func reply(w http.ResponseWriter, status int, body string) {
	if status == CutConnection {
		panic(http.ErrAbortHandler)
	}
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
}

func forward(w http.ResponseWriter, r *http.Request, transport *http.Transport, upstream string, body []byte) {
	target := upstream + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, target, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	request.Header = r.Header.Clone()
	request.Header.Del("Connection")
	if len(body) == 0 {
		request.Body = nil
	}
	response, err := transport.RoundTrip(request)
	if err != nil { // a broker that is down looks the same through the proxy
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	if _, err := io.Copy(w, response.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// Requests returns what came through so far, in order.
func (p *APIProxy) Requests() []Request {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.Clone(p.requests)
}

// Writes returns the requests that could change something.
func (p *APIProxy) Writes() []Request {
	return slices.DeleteFunc(p.Requests(), func(r Request) bool {
		return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	})
}

// Forget empties the list of requests.
func (p *APIProxy) Forget() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.requests = nil
}
