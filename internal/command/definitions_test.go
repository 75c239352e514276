package command_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

var update = flag.Bool("update", false, "write the exports in testdata/definitions anew from the test brokers")

const definitionsFolder = "../../testdata/definitions"

// fixtureVHost is the name that exports are saved under.
const fixtureVHost = "fixture"

// object is one raw request of the fixture's set-up. It uses nothing of
// rabbitctl, so that reading is tested against what a broker made.
type object struct {
	path string // below /api, VHOST stands for the virtual host
	body map[string]any
}

type table = map[string]any

// fixture is a topology with every queue type, every built-in exchange type and
// names that are awkward in a URL.
func fixture() []object {
	var all []object
	queue := func(name string, args table) {
		all = append(all, object{"queues/VHOST/" + url.PathEscape(name), table{"durable": true, "auto_delete": false, "arguments": args}})
	}
	exchange := func(name, kind string, args table) {
		all = append(all, object{"exchanges/VHOST/" + url.PathEscape(name), table{"type": kind, "durable": true, "auto_delete": false, "arguments": args}})
	}
	bind := func(source, kind, destination, key string, args table) {
		path := "bindings/VHOST/e/" + url.PathEscape(source) + "/" + kind + "/" + url.PathEscape(destination)
		all = append(all, object{path, table{"routing_key": key, "arguments": args}})
	}
	policy := func(name string, body table) {
		all = append(all, object{"policies/VHOST/" + url.PathEscape(name), body})
	}

	policy("cap", table{"pattern": "^tmp\\.", "apply-to": "queues", "priority": 3, "definition": table{"max-length": 1000, "overflow": "reject-publish"}})
	policy("ae", table{"pattern": "^topic$", "apply-to": "exchanges", "definition": table{"alternate-exchange": "fan"}})
	for _, x := range []string{"direct", "fanout", "topic", "headers"} {
		exchange(x, x, nil)
	}
	exchange("fan", "fanout", nil)
	exchange("guarded", "direct", table{"alternate-exchange": "fan"})
	all = append(all, object{"exchanges/VHOST/inner", table{"type": "fanout", "durable": true, "auto_delete": false, "internal": true, "arguments": table{}}})
	queue("plain", nil)
	queue("typed", table{"x-queue-type": "classic"})
	queue("classic.all", table{
		"x-queue-type": "classic", "x-message-ttl": 60000, "x-expires": 3600000, "x-max-length": 10, "x-max-length-bytes": 1 << 20,
		"x-overflow": "reject-publish", "x-dead-letter-exchange": "fan", "x-dead-letter-routing-key": "k", "x-max-priority": 5,
		"x-single-active-consumer": true,
	})
	queue("unknown.argument", table{"x-foo": "bar", "x-nested": table{"a": []any{1, "two", true}}})
	for i := range 8 {
		queue(fmt.Sprintf("work.%d", i), table{"x-queue-type": "quorum", "x-delivery-limit": i, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": fmt.Sprintf("work.%d.dead", i)})
		queue(fmt.Sprintf("work.%d.dead", i), table{"x-queue-type": "classic"})
	}
	queue("quorum.safe", table{
		"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		"x-dead-letter-exchange": "direct", "x-max-length": 1000, "x-quorum-initial-group-size": 1,
	})
	queue("stream", table{"x-queue-type": "stream"})
	queue("stream.bounded", table{"x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 1 << 30, "x-stream-max-segment-size-bytes": 1 << 20})
	for _, name := range []string{"a/b", "50%", "what?", "a#b", "a+b", "a b", "~t", `back\slash`, `"quoted"`, "grüße.語", "tmp.1", "signup:person", strings.Repeat("n", 255)} {
		queue(name, nil)
	}
	bind("direct", "q", "plain", "", nil)
	bind("direct", "q", "plain", "k/ey ~1", nil)
	bind("topic", "q", "work.0", "orders.#", nil)
	bind("topic", "q", "work.0", "*.paid", nil)
	bind("topic", "e", "fan", "#", nil)
	bind("fan", "q", "a/b", "", nil)
	bind("fan", "e", "inner", "", nil)
	bind("inner", "q", "grüße.語", "", nil)
	bind("headers", "q", "plain", "", table{"x-match": "all", "type": "D", "n": 1})
	bind("headers", "q", "plain", "", table{"x-match": "any", "type": "D"})
	bind("headers", "q", "typed", "", table{"x-match": "all-with-x", "x-opt": "a"})
	bind("amq.topic", "q", "plain", "audit.#", nil)
	return all
}

// makeFixture builds the fixture on a broker and returns its virtual host.
func makeFixture(t *testing.T, b *brokertest.Broker) string {
	t.Helper()
	vhost := b.VirtualHost(t)
	for _, o := range fixture() {
		method := http.MethodPut
		if strings.HasPrefix(o.path, "bindings/") {
			method = http.MethodPost
		}
		if args, ok := o.body["arguments"].(table); ok && args == nil {
			o.body["arguments"] = table{} // null is a 500
		}
		path := "/api/" + strings.Replace(o.path, "VHOST", url.PathEscape(vhost), 1)
		if status, body := b.Do(t, method, path, o.body); status != 201 && status != 204 {
			t.Fatalf("%s %s: %d %s", method, path, status, body)
		}
	}
	return vhost
}

// exports are the two forms of a definitions export of one virtual host: the
// broker's own for that host, and the part of the whole export that concerns it.
func exports(t *testing.T, b *brokertest.Broker, vhost string) map[string][]byte {
	t.Helper()
	_, part := b.Do(t, http.MethodGet, "/api/definitions/"+url.PathEscape(vhost), nil)
	_, whole := b.Do(t, http.MethodGet, "/api/definitions", nil)
	return map[string][]byte{"vhost": tidy(t, part, vhost, b.Version), "whole": tidy(t, whole, vhost, b.Version)}
}

// tidy drops what belongs to other virtual hosts, users and the cluster, renames
// the virtual host and indents.
func tidy(t *testing.T, data []byte, vhost, version string) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var export map[string]any
	if err := d.Decode(&export); err != nil {
		t.Fatalf("export of %s: %v", vhost, err)
	}
	for _, key := range []string{"users", "permissions", "topic_permissions", "global_parameters"} {
		delete(export, key)
	}
	for key, value := range export {
		list, ok := value.([]any)
		if !ok {
			continue
		}
		kept := []any{}
		for _, e := range list {
			entry := e.(map[string]any)
			name, hasVHost := entry["vhost"]
			if key == "vhosts" {
				name, hasVHost = entry["name"], true
			}
			if hasVHost && name != vhost {
				continue
			}
			if key == "vhosts" {
				entry["name"] = fixtureVHost
			} else if hasVHost {
				entry["vhost"] = fixtureVHost
			}
			kept = append(kept, entry)
		}
		export[key] = kept
	}
	export["rabbitmq_version"] = version
	out, err := json.MarshalIndent(export, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// TestDefinitionsOfRealBrokers compares the fixture's spec with exports of real
// brokers: those kept in testdata, and fresh ones.
func TestDefinitionsOfRealBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := makeFixture(t, b)
		series := b.Version[:strings.LastIndex(b.Version, ".")]
		for form, data := range exports(t, b, vhost) {
			name := filepath.Join(definitionsFolder, series+"-"+form+".json")
			if *update {
				if err := os.WriteFile(name, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			fresh := filepath.Join(t.TempDir(), "fresh.json")
			if err := os.WriteFile(fresh, data, 0o600); err != nil {
				t.Fatal(err)
			}
			planIsEmpty(t, fresh, b.Version)
		}
		// The live virtual host says the same as its export.
		r := runWith(t, b, "plan", "--detailed-exitcode", fixtureSpec(t, vhost))
		r.want(t, 0)
		if !strings.HasPrefix(r.out, "Nothing to do") {
			t.Errorf("plan against the live broker:\n%s", r.out)
		}
	})
}

// TestKeptDefinitions needs no broker: every kept export is read without loss.
func TestKeptDefinitions(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(definitionsFolder, "*.json"))
	if err != nil || len(names) < 6 {
		t.Fatalf("want exports of three versions in two forms, have %v (%v)", names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			series, _, _ := strings.Cut(filepath.Base(name), "-")
			planIsEmpty(t, name, series)
		})
	}
}

func planIsEmpty(t *testing.T, export, version string) {
	t.Helper()
	r := runCommand(t, nil, "plan", "--detailed-exitcode", "--against", export, fixtureSpec(t, fixtureVHost))
	r.want(t, 0)
	if !strings.HasPrefix(r.out, "Nothing to do") || !strings.Contains(r.out, "RabbitMQ "+version) {
		t.Errorf("plan against %s:\n%s%s", export, r.out, r.err)
	}
	if strings.Contains(r.out, "not in the spec") {
		t.Errorf("the spec does not cover everything in %s:\n%s", export, r.out)
	}
}

// fixtureSpec writes the fixture's spec for a virtual host.
func fixtureSpec(t *testing.T, vhost string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(definitionsFolder, "fixture.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "fixture.yaml")
	text := strings.Replace(string(data), "vhost: "+fixtureVHost, fmt.Sprintf("vhost: %q", vhost), 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
