package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// exportIsExact exports a definitions file and holds the plan of the spec against
// it to be empty. It returns the spec.
func exportIsExact(t *testing.T, file string, complete bool, flags ...string) string {
	t.Helper()
	r := runCommand(t, nil, append([]string{"export", "--from", file}, flags...)...)
	r.want(t, 0)
	p := runCommand(t, nil, append([]string{"plan", "--detailed-exitcode", "--against", file, writeSpec(t, r.out)}, flags...)...)
	p.want(t, 0)
	if !strings.HasPrefix(p.out, "Nothing to do") {
		t.Errorf("plan of the export of %s:\n%s%s", file, p.out, r.out)
	}
	if complete && strings.Contains(p.out, "not in the spec") {
		t.Errorf("the export of %s leaves out:\n%s", file, p.out)
	}
	if again := runCommand(t, nil, append([]string{"export", "--from", file}, flags...)...); again.out != r.out {
		t.Errorf("two exports of %s differ", file)
	}
	return r.out
}

// TestExportOfRealTopologies keeps what is exported from topologies that were
// found in the open.
func TestExportOfRealTopologies(t *testing.T) {
	files, err := filepath.Glob("../../testdata/real/*.json")
	if err != nil || len(files) != 8 {
		t.Fatalf("want eight files, have %v (%v)", files, err)
	}
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(base, func(t *testing.T) {
			// 13 has bindings whose ends are missing; they are reported.
			text := exportIsExact(t, file, !strings.HasPrefix(base, "13-"))
			golden := filepath.Join("../../testdata/export", base+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("export of %s is not what %s has:\n%s", file, golden, text)
			}
		})
	}
}

func TestExportOfKeptDefinitions(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(definitionsFolder, "*.json"))
	if len(files) < 6 {
		t.Fatalf("want six files, have %v", files)
	}
	for _, file := range files {
		// 4.3 leaves internal exchanges out of exports.
		exportIsExact(t, file, !strings.HasPrefix(filepath.Base(file), "4.3"))
	}
}

// hostile has names and values that YAML or the spec language would misread.
const hostile = `{"rabbitmq_version": "4.3.6", "vhosts": [{"name": "a ${x} b"}], "queues": [
 {"name": "${env:HOME}", "vhost": "a ${x} b", "arguments": {"x-a": "$${", "x-b": ["1", 1, true, "true", null, 1.5], "x-c": {"<<": "~", "null": 1}}},
 {"name": "<<", "vhost": "a ${x} b", "arguments": {"x-max-length": -5}},
 {"name": "1", "vhost": "a ${x} b"}, {"name": "{n}", "vhost": "a ${x} b"}, {"name": "- a: b #c", "vhost": "a ${x} b"},
 {"name": "\u001b[31m\u2028\u202e\ufeff\u0000", "vhost": "a ${x} b", "durable": false}, {"name": "yes", "vhost": "a ${x} b", "auto_delete": true},
 {"name": "q.retry", "vhost": "a ${x} b", "arguments": {"x-message-ttl": 1500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}},
 {"name": "q", "vhost": "a ${x} b", "arguments": {"x-queue-type": "classic"}},
 {"name": "line\nbreak", "vhost": "a ${x} b"}],
 "exchanges": [{"name": "0x1F", "type": "x-custom", "vhost": "a ${x} b", "durable": true, "auto_delete": false, "internal": true, "arguments": {"alternate-exchange": 5}}],
 "bindings": [{"source": "0x1F", "destination": "q", "destination_type": "queue", "vhost": "a ${x} b", "routing_key": "${k} #", "arguments": {"x-match": "odd", "n": "1"}},
  {"source": "0x1F", "destination": "gone", "destination_type": "queue", "vhost": "a ${x} b", "routing_key": "", "arguments": {}}],
 "parameters": [{"component": "shovel", "name": "s${", "vhost": "a ${x} b", "value": {"src-uri": ["amqp://u:topsecret@h", "amqp://h?password=topsecret"], "token": "topsecret", "n": 5}}],
 "policies": []}`

func TestExportOfHostileNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostile.json")
	if err := os.WriteFile(file, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	text := exportIsExact(t, file, false)
	if strings.Contains(text, "topsecret") {
		t.Errorf("a secret is in the spec:\n%s", text)
	}
	for _, want := range []string{"${env:SHOVEL_S_SRC_URI_PASSWORD}", "delays: [1500ms]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the spec lacks %q:\n%s", want, text)
		}
	}
	r := runCommand(t, nil, "export", "--from", file)
	for _, want := range []string{"binding-end-missing", "not-expressible"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the findings lack %q:\n%s", want, r.err)
		}
	}
	if p := runCommand(t, nil, "plan", "--against", file, "--show-unmanaged", writeSpec(t, text)); strings.Count(p.out, "gone") != 1 || !strings.Contains(p.out, "2 live objects") {
		t.Errorf("only the queue with a line break and the binding without end are left out:\n%s", p.out)
	}
}

func TestExportUsage(t *testing.T) {
	runCommand(t, nil, "export", "spec.yaml").want(t, 64)
	runCommand(t, nil, "export", "--rabbitmq", "4.0").want(t, 64)
	runCommand(t, nil, "export", "--from", "nowhere.json").want(t, 1)
	file := filepath.Join(definitionsFolder, "4.0-whole.json")
	runCommand(t, nil, "export", "--from", file, "--vhost", "nowhere").want(t, 1)
	out := filepath.Join(t.TempDir(), "out.yaml")
	runCommand(t, nil, "export", "--from", file, "--output", out).want(t, 0)
	runCommand(t, nil, "export", "--from", file, "--output", out).want(t, 1) // never overwritten
}

// TestExportIntoFolder: one file for each virtual host, which together say what the
// whole file says.
func TestExportIntoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "definitions.json")
	definitions := `{"rabbitmq_version": "4.0.5", "users": [{"name": "u", "password_hash": "aGlkZGVu", "tags": []}],
 "global_parameters": [{"name": "internal_cluster_id", "value": "x"}, {"name": "cluster_name", "value": "c"}, {"name": "mine", "value": 1}],
 "vhosts": [{"name": "/"}, {"name": "a/b"}, {"name": "A_B"}, {"name": ".."}, {"name": "default"}],
 "queues": [{"name": "q", "vhost": "a/b", "arguments": {}}, {"name": "q", "vhost": "/", "arguments": {}}, {"name": "amq.gen-x", "vhost": "/", "arguments": {}, "exclusive": true}]}`
	if err := os.WriteFile(file, []byte(definitions), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "specs")
	r := runCommand(t, nil, "export", "--from", file, "--out", folder)
	r.want(t, 0)
	var names []string
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		names = append(names, e.Name())
		if data, _ := os.ReadFile(filepath.Join(folder, e.Name())); strings.Contains(string(data), "aGlkZGVu") {
			t.Errorf("the hash is in %s", e.Name())
		}
	}
	if got := strings.Join(names, " "); got != "A_B.yaml a_b-2.yaml default-2.yaml default.yaml vhost.yaml" {
		t.Errorf("files %s", got)
	}
	for _, want := range []string{`under "users"`, `under "global_parameters"`, "1 entry", "queue-of-connection"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the findings lack %q:\n%s", want, r.err)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(folder, "default.yaml")); !strings.Contains(string(data), "# Left out: 1 queue of connections") {
		t.Errorf("no comment on the queue that is left out:\n%s", data)
	}
	p := runCommand(t, nil, "plan", "--detailed-exitcode", "--against", file, folder)
	if p.want(t, 0); !strings.HasPrefix(p.out, "Nothing to do") || strings.Contains(p.out, "not in the spec") {
		t.Errorf("plan:\n%s", p.out)
	}
	runCommand(t, nil, "export", "--from", file, "--out", folder).want(t, 1) // never overwritten
	runCommand(t, nil, "export", "--from", file, "--out", folder, "--output", "x").want(t, 64)
}

// TestExportOfBrokers exports the fixture and every example from real brokers.
func TestExportOfBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		exact := func(vhost string) {
			t.Helper()
			r := runWith(t, b, "export", "--vhost", vhost)
			r.want(t, 0)
			p := runWith(t, b, "plan", "--detailed-exitcode", writeSpec(t, r.out))
			p.want(t, 0)
			if !strings.HasPrefix(p.out, "Nothing to do") || strings.Contains(p.out, "not in the spec") {
				t.Errorf("plan of the export:\n%s%s", p.out, r.out)
			}
		}
		exact(makeFixture(t, b))
		for _, e := range examples.List {
			data, err := examples.FS.ReadFile(e.File)
			if err != nil {
				t.Fatal(err)
			}
			vhost := b.VirtualHost(t)
			var text strings.Builder
			for line := range strings.Lines(string(data)) {
				if !strings.HasPrefix(line, "vhost:") && !strings.HasPrefix(line, "stack:") {
					text.WriteString(line)
				}
			}
			text.WriteString("\nvhost: " + vhost + "\n")
			runWith(t, b, "apply", "--yes", writeSpec(t, text.String())).want(t, 0)
			exact(vhost)
		}
	})
}
