package command_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// TestCompileIntoBrokers imports the compiled fixture and examples into fresh
// virtual hosts; then there is nothing to plan.
func TestCompileIntoBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		imports := func(vhost, spec string) {
			t.Helper()
			r := runCommand(t, nil, "compile", "--rabbitmq", b.Version, spec)
			r.want(t, 0)
			var body any
			if err := json.Unmarshal([]byte(r.out), &body); err != nil {
				t.Fatal(err)
			}
			if status, answer := b.Do(t, http.MethodPost, "/api/definitions", body); status/100 != 2 {
				t.Fatalf("import: %d %s\n%s", status, answer, r.out)
			}
			p := runWith(t, b, "plan", "--detailed-exitcode", spec)
			p.want(t, 0)
			if !strings.Contains(p.out, "Nothing to do") || strings.Contains(p.out, "not in the spec") {
				t.Errorf("plan after import of %s:\n%s%s", vhost, p.out, r.out)
			}
		}
		vhost := b.VirtualHost(t)
		imports(vhost, fixtureSpec(t, vhost))
		vhost = b.VirtualHost(t)
		imports(vhost, writeSpec(t, `
version: 1
vhost: `+vhost+`
vhost_settings: {description: a shop, tags: [x, y], limits: {max_queues: 50}}
queues: {jobs: {type: quorum, max_length: 10}}
operator_policies: {cap: {pattern: "^jobs$", apply_to: queues, definition: {max-length: 100}}}
permissions: {guest: {configure: ".*", write: "^jobs$", read: ".*"}}
topic_permissions: {guest: {amq.topic: {write: "^a", read: ".*"}}}
`))
		for _, e := range examples.List {
			data, err := examples.FS.ReadFile(e.File)
			if err != nil {
				t.Fatal(err)
			}
			vhost := b.VirtualHost(t)
			var text strings.Builder
			for line := range strings.Lines(string(data)) {
				if !strings.HasPrefix(line, "vhost:") {
					text.WriteString(line)
				}
			}
			imports(vhost, writeSpec(t, text.String()+"\nvhost: "+vhost+"\n"))
		}
	})
}

func TestCompileSecrets(t *testing.T) {
	spec := writeSpec(t, `
version: 1
queues: {q: {type: classic, contract: none, reason: test}}
parameters: {shovel: {s: {src-uri: "amqp://u:${env:PW}@h", dest-uri: "amqp://"}}}
`)
	out := filepath.Join(t.TempDir(), "definitions.json")
	runCommand(t, []string{"PW=hidden"}, "compile", spec).want(t, 64) // no version
	runCommand(t, []string{"PW=hidden"}, "compile", "--rabbitmq", "4.0", "--output", out, spec).want(t, 64)
	runCommand(t, []string{"PW=hidden"}, "compile", "--rabbitmq", "4.0", "--with-secrets", spec).want(t, 64)
	runCommand(t, nil, "compile", "--rabbitmq", "4.0", "--with-secrets", "--output", out, spec).want(t, 64)
	if _, err := os.Stat(out); err == nil {
		t.Fatal("a refused run wrote the file")
	}
	runCommand(t, []string{"PW=hidden"}, "compile", "--rabbitmq", "4.0", "--with-secrets", "--output", out, spec).want(t, 0)
	data, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(data), "amqp://u:hidden@h") {
		t.Errorf("the secret is not in the file: %v\n%s", err, data)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of a file with secrets: %v %v", info.Mode(), err)
	}
	runCommand(t, nil, "plan", "--against", out, "--detailed-exitcode", spec).want(t, 0)
}

func TestCompileLeavesOut(t *testing.T) {
	r := runCommand(t, nil, "compile", "--rabbitmq", "4.3", writeSpec(t, `
version: 1
exchanges: {events: {external: true}}
queues: {q: {type: classic, contract: none, reason: test, bindings: [{exchange: events}, {exchange: amq.fanout}]}}
`))
	r.want(t, 0)
	if !strings.Contains(r.err, "binding-end-missing") || strings.Contains(r.out, `"events"`) || !strings.Contains(r.out, `"routing_key": ""`) {
		t.Errorf("%s%s", r.out, r.err)
	}
}
