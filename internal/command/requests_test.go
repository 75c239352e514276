package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestCase54: what others have in a virtual host does not make a plan ask more: 2,000
// bindings of one exchange, three of them wanted. An administrator's plan asks at most
// five times on 4.3, and anybody's at most six times and once for each exchange; apply
// with nothing to do writes nothing.
func TestCase54(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		var body strings.Builder
		fmt.Fprint(&body, `{"exchanges":[{"name":"busy","type":"direct","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],"queues":[`)
		for i := range 400 {
			fmt.Fprintf(&body, `{"name":"theirs.%d","durable":true,"auto_delete":false,"arguments":{}},`, i)
		}
		fmt.Fprint(&body, `{"name":"ours","durable":true,"auto_delete":false,"arguments":{"x-queue-type":"classic"}}],"bindings":[`)
		for i := range 2_000 {
			fmt.Fprintf(&body, `{"source":"busy","destination":"theirs.%d","destination_type":"queue","routing_key":"k%d","arguments":{}},`, i%400, i)
		}
		for i := range 3 {
			fmt.Fprintf(&body, `{"source":"busy","destination":"ours","destination_type":"queue","routing_key":"ours%d","arguments":{}}%s`, i, []string{",", ",", "]}"}[i])
		}
		if status, answer := b.Do(t, "POST", brokertest.Path("definitions", vhost), json.RawMessage(body.String())); status/100 != 2 {
			t.Fatalf("import: %d %s", status, answer)
		}
		spec := onVHost(t, vhost, "exchanges: {busy: {type: direct, loses: {unrouted: test}}}\n"+
			"queues: {ours: {type: classic, bindings: [{exchange: busy, routing_keys: [ours0, ours1, ours2]}]}}")
		api := brokertest.HTTPProxy(t, b, nil)
		user, password := b.User(t, vhost, "management", "", "", "")
		for _, who := range []struct {
			name, password string
			most           int
		}{
			{b.Username, b.Password, map[bool]int{true: 5, false: 6 + 8}[b.AtLeast("4.3")]},
			{user, password, 6 + 8}, // the default exchange, six of amq.* and busy
		} {
			environ := append(environment(b, who.name, who.password), "RABBITCTL_URL="+api.URL)
			api.Forget()
			r := runCommand(t, environ, "plan", "--detailed-exitcode", spec)
			r.want(t, 0)
			if n := len(api.Requests()); n > who.most {
				t.Errorf("%d requests, want at most %d: %v", n, who.most, api.Requests())
			}
		}
		api.Forget()
		runCommand(t, append(environmentAt(api.URL, b), "RABBITCTL_AMQP_URL=amqp://"+b.AMQPAddress()), "apply", "--yes", spec).want(t, 0)
		for _, r := range api.Requests() {
			if r.Method != http.MethodGet {
				t.Errorf("with nothing to do: %s", r)
			}
		}
	})
}
