package broker

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Names that a path cannot carry are refused before anything is sent: with them a
// request would reach another object, or all of a kind.
func TestNamesThatCannotBeAddressed(t *testing.T) {
	calls := 0
	c := serve(t, func(http.ResponseWriter, *http.Request) { calls++ })
	w := &writer{client: c, via: ViaHTTP}
	long := strings.Repeat("x", 256)
	for _, bad := range []string{"", ".", "..", long, "a\nb", "a\rb"} {
		shorter := bad // a policy's or parameter's name may be longer
		if bad == long {
			shorter = ".."
		}
		for _, o := range []topology.Object{
			&topology.Queue{VirtualHost: "/", Name: bad}, &topology.Exchange{VirtualHost: "/", Name: bad, Type: "topic"},
			&topology.Policy{VirtualHost: "/", Name: shorter}, &topology.Policy{VirtualHost: "/", Name: shorter, Operator: true}, &topology.Policy{VirtualHost: bad, Name: "p"},
			&topology.Parameter{VirtualHost: "/", Component: shorter, Name: "n"}, &topology.Parameter{VirtualHost: "/", Component: "c", Name: shorter},
			&topology.Permission{VirtualHost: "/", User: bad}, &topology.TopicPermission{VirtualHost: "/", User: "u", Exchange: bad},
			&topology.TopicPermission{VirtualHost: "/", User: bad, Exchange: "x"}, &topology.VirtualHostSettings{VirtualHost: bad},
			&topology.Binding{VirtualHost: "/", Source: bad, Destination: "q", DestinationType: topology.ToQueue},
			&topology.Binding{VirtualHost: "/", Source: "x", Destination: bad, DestinationType: topology.ToExchange},
		} {
			for what, err := range map[string]error{"create": w.Create(t.Context(), o), "delete": w.Delete(t.Context(), o)} {
				if err == nil || IsTransient(err) || IsUnknown(err) || IsNotFound(err) {
					t.Errorf("%s %T %q: %v", what, o, bad, err)
				}
			}
		}
	}
	for _, o := range []topology.Object{
		&topology.Binding{VirtualHost: "/", Source: "x", Destination: "q", DestinationType: "topic"},
		&topology.Binding{VirtualHost: "/", Source: "x", Destination: "q", DestinationType: topology.ToQueue, RoutingKey: long},
		&topology.Queue{VirtualHost: "/", Name: "q", Exclusive: true},
	} {
		if err := w.Create(t.Context(), o); err == nil {
			t.Errorf("%s was sent", o.Key())
		}
	}
	if err := w.Create(t.Context(), nil); err == nil {
		t.Error("no object was sent")
	}
	if calls != 0 {
		t.Errorf("%d requests", calls)
	}
}

func TestInequivalentTexts(t *testing.T) {
	for _, c := range []struct {
		reason string
		want   Inequivalent
		ok     bool
	}{
		{"inequivalent arg 'x-message-ttl' for queue 'Q' in vhost 'V': received '2000' but current is '1000'", Inequivalent{"x-message-ttl", "2000", "1000"}, true},
		{"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'Q' in vhost 'V': received none but current is the value '1000' of type 'signedint'", Inequivalent{"x-message-ttl", "absent", "1000"}, true},
		{"inequivalent arg 'x-max-length' for queue 'a' in vhost 'b': received the value '3' of type 'long' but current is none", Inequivalent{"x-max-length", "3", "absent"}, true},
		{"inequivalent arg 'type' for exchange 'it's': received 'x' but current is 'y'' in vhost 'V': received 'topic' but current is 'direct'", Inequivalent{"type", "topic", "direct"}, true},
		{"inequivalent arg 'x-dead-letter-exchange' for queue 'q\nr' in vhost 'V': received 'it's' but current is ''", Inequivalent{"x-dead-letter-exchange", "it's", ""}, true},
		{"inequivalent arg 'durable' for queue '" + strings.Repeat("x", 200) + "...", Inequivalent{}, false},
		{"no queue 'q' in vhost 'V'", Inequivalent{}, false},
	} {
		e := &Error{Reason: c.reason}
		got, ok := e.Inequivalent()
		if ok != c.ok || got != c.want {
			t.Errorf("%q: %+v %v, want %+v", c.reason, got, ok, c.want)
		}
	}
}

// What a broker or a proxy says is safe to show, and holds no password.
func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{400, `{"error":"bad_request","reason":"Validation failed\n\nuri amqp://u:s3cret@h\u001b[31m bad"}`, `uri amqp://***@h\x1b[31m bad`},
		{400, `{"error":"bad_request","reason":"&lt;&lt;\"x\"&gt;&gt; is not valid"}`, `<<"x">> is not valid`},
		{401, `{"error":"not_authorised","reason":"User not authorised to access object"}`, `needs the tag "policymaker"`},
		{401, `{"error":"not_authorized","reason":"Login failed"}`, hintLogin},
		{418, `{"error":{"a":1},"reason":null}`, "418"},
		{400, "", "an empty answer"},
	} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		err := (&writer{client: client, via: ViaHTTP}).Create(t.Context(), &topology.Policy{VirtualHost: "shop", Name: "cap"})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%v, want %q", err, c.want)
			continue
		}
		if !strings.Contains(err.Error(), `put policy "cap" in virtual host "shop"`) {
			t.Errorf("%v names no object", err)
		}
	}
}
