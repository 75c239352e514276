package specs

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// TestNamesAndUnitsOnBrokers declares what a spec with awkward names and with
// units says, and reads it back: names unchanged, numbers in RabbitMQ's units.
func TestNamesAndUnitsOnBrokers(t *testing.T) {
	const spec = `version: 1
defaults: {queue: {type: classic, settings_by: arguments}}
exchanges: {"x / % # ? + ~ é \" '": {}}
queues:
  "a/b %2F # ? + ~": {message_ttl: 1h30m, bindings: [{exchange: "x / % # ? + ~ é \" '", routing_key: "k / é"}]}
  "ünï \"quoted\" 'x' \\ \x01 \u202e": {expires: 3650d}
  "yes": {max_length_bytes: 512KiB, max_length: 1_000}
  5: {type: stream, max_age: 1d, max_length_bytes: 2GB}
`
	want := map[string]topology.Arguments{
		"a/b %2F # ? + ~":                   {"x-message-ttl": int64(5_400_000)},
		"ünï \"quoted\" 'x' \\ \x01 \u202e": {"x-expires": int64(315_360_000_000)},
		"yes":                               {"x-max-length-bytes": int64(524_288), "x-max-length": int64(1000)},
		"5":                                 {"x-max-age": "1D", "x-max-length-bytes": int64(2_000_000_000)},
	}
	want[strings.Repeat("é", 127)+"x"] = topology.Arguments{}
	text := spec + "  " + strings.Repeat("é", 127) + "x: {}\n"
	loaded, list := load(text)
	if len(list) > 0 {
		t.Fatal(texts(list))
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		made, list := loaded.Expand(Target{Version: v})
		if list.HasErrors() {
			t.Fatal(texts(list))
		}
		vhost := b.VirtualHost(t)
		declare(t, b, vhost, made.VirtualHosts[0])
		status, body := b.Do(t, http.MethodGet, brokertest.Path("queues", vhost)+"?disable_stats=true", nil)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		var queues []struct {
			Name      string
			Arguments map[string]any
		}
		decoder := json.NewDecoder(strings.NewReader(string(body)))
		decoder.UseNumber()
		if err := decoder.Decode(&queues); err != nil {
			t.Fatal(err)
		}
		if len(queues) != len(want) {
			t.Errorf("%d queues, want %d: %s", len(queues), len(want), body)
		}
		for _, q := range queues {
			args, err := topology.CanonicalArguments(q.Arguments)
			if err != nil {
				t.Fatal(err)
			}
			delete(args, "x-queue-type")
			if w, ok := want[q.Name]; !ok || !args.Equal(w) {
				t.Errorf("queue %q has %s, want %s", q.Name, topology.Text(args), topology.Text(w))
			}
		}
	})
}

// TestRefusedNamesOnBrokers: what the findings about names say is what a broker
// does.
func TestRefusedNamesOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		body := map[string]any{"durable": true}
		if status, answer := b.Do(t, http.MethodPut, brokertest.Path("queues", vhost, strings.Repeat("x", 256)), body); status != http.StatusBadRequest {
			t.Errorf("a name of 256 bytes: %d %s", status, answer)
		}
		if _, list := load("version: 1\nqueues: {" + strings.Repeat("x", 256) + ": {}}\n"); len(list) != 1 {
			t.Errorf("a name of 256 bytes: %s", texts(list))
		}
		ch := b.Channel(t, vhost)
		if _, err := ch.QueueDeclare("a\r\nb", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if status, answer := b.Do(t, http.MethodGet, brokertest.Path("queues", vhost, "ab"), nil); status != http.StatusOK {
			t.Errorf("a line break in a name is not removed: %d %s", status, answer)
		}
		if _, list := load("version: 1\nqueues: {\"a\\r\\nb\": {}}\n"); len(list) != 1 {
			t.Errorf("a line break in a name: %s", texts(list))
		}
	})
}
