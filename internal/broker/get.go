package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// escape is a name as a path segment. A plus stays a plus: RabbitMQ decodes it
// as such in paths.
func escape(name string) string { return url.PathEscape(name) }

// send does one request that rabbit-hole has no call for. body nil: none.
func (c *Client) send(r request, method, path string, body any) ([]byte, error) {
	if c.base == "" {
		return nil, local("needs the management URL; only the AMQP URL is given")
	}
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, c.base+"/api/"+path, payload)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	_, answer, err := bound{c.transport, r}.do(req)
	return answer, err
}

// get reads JSON into v. rabbit-hole decodes numbers as float64, which loses
// digits above 2^53, and knows none of the fields added since 3.x: lists are
// therefore read here, through the same transport. An answer that is no JSON, or
// not of v's form, is ErrNotManagementAPI and never an empty list.
func (c *Client) get(ctx context.Context, path string, v any) error {
	body, err := c.send(request{ctx: ctx}, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := decode(body, v); err != nil {
		e := &Error{Via: ViaHTTP, Step: "GET /api/" + path, Status: 200}
		what := fmt.Sprintf("an answer of another form: %v", err)
		if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			what = "a web page" + title(body)
		}
		return notManagement(e, what)
	}
	return nil
}

var errNull = errors.New("null")

func decode(body []byte, v any) error {
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return errNull
	}
	return json.Unmarshal(body, v)
}

// flag is a boolean as the API writes it: also null, a text, and "undefined" for
// exclusive queues of old versions.
type flag bool

func (f *flag) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "true":
		*f = true
	case "false", "null", "undefined":
		*f = false
	default:
		return fmt.Errorf("%s is not true or false", b)
	}
	return nil
}
