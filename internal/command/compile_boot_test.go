package command_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestCompileForBoot: a node that has nothing imports the file when it boots, and
// has then what the spec says.
func TestCompileForBoot(t *testing.T) {
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			spec := writeSpec(t, `
version: 1
vhost: "a b/ü $${"
vhost_settings: {description: a shop, limits: {max_queues: 50}}
exchanges:
  orders: {type: topic, alternate_exchange: unrouted}
  unrouted: {type: fanout}
queues:
  "null": {type: classic, bindings: [{exchange: unrouted}]}
  jobs:
    type: quorum
    bindings: [{exchange: orders, routing_keys: ["", "order.#"]}]
    retry: {max_attempts: 5, delays: [30s, 1m]}
    dead_letter: {queue: jobs.dead, strategy: at-least-once}
    max_length: 100
  jobs.dead: {type: quorum, role: dead-letter, owner: test}
  audit: {type: stream, bindings: [{exchange: amq.headers, match: all, arguments: {n: 1, s: "1"}}], max_age: 7D}
policies: {short: {pattern: "^tmp", definition: {max-length: 5}}}
operator_policies: {cap: {pattern: "^jobs$", apply_to: queues, definition: {max-length: 100000}}}
permissions: {guest: {configure: ".*", write: ".*", read: ".*"}}
`)
			r := runCommand(t, nil, "compile", "--rabbitmq", release, spec)
			r.want(t, 0)
			var file map[string]any
			if err := json.Unmarshal([]byte(r.out), &file); err != nil {
				t.Fatal(err)
			}
			for section, list := range file {
				entries, _ := list.([]any)
				for _, e := range entries {
					if o, _ := e.(map[string]any); section != "vhosts" && o["vhost"] == nil {
						t.Errorf("an entry of %s names no virtual host: %v", section, o)
					}
				}
			}
			// A node that imports at boot makes neither guest nor / by itself.
			file["users"] = []any{map[string]any{
				"name": "guest", "password_hash": passwordHash("guest"), "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": "administrator",
			}}
			file["vhosts"] = append(file["vhosts"].([]any), map[string]any{"name": "/"})
			file["permissions"] = append(file["permissions"].([]any), map[string]any{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"})
			data, err := json.Marshal(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(t.TempDir(), "definitions.json")
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
			node := brokertest.StartNode(t, release, "--definitions", name)
			p := runWith(t, &node.Broker, "plan", "--detailed-exitcode", spec)
			if p.want(t, 0); !strings.HasPrefix(p.out, "Nothing to do") || strings.Contains(p.out, "not in the spec") {
				t.Errorf("plan:\n%s%s", p.out, r.out)
			}
		})
	}
}

// passwordHash is a hash as RabbitMQ keeps it: a salt and SHA-256 of salt and
// password.
func passwordHash(password string) string {
	salt := []byte("salt")
	sum := sha256.Sum256(append(salt, password...))
	return base64.StdEncoding.EncodeToString(append(salt, sum[:]...))
}
