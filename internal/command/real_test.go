package command_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// realTopologies are definitions of the shape that people run, each with a spec
// that says the same. imports lists the releases whose import takes them whole.
var realTopologies = []struct {
	name    string
	imports string
	// ends are bindings of the file whose ends do not exist, so that no spec can
	// have them.
	ends int
}{
	{"01-intake-streams-shovels", "", 0}, // needs the shovel plugin
	{"04-binary-delay-28-broken", "3.10 4.0 4.3", 0},
	{"08-dlx-to-unbound-key-and-hidden-policy", "3.10", 0}, // ha-mode
	{"12-fanout-to-topics-one-dlq-that-feeds-itself", "3.10 4.0 4.3", 0},
	{"13-operator-quorum-pairs-missing-members", "", 2}, // dangling bindings
	{"14-streams-and-capped-work-queues", "3.10 4.0 4.3", 0},
	{"16-colon-names-cc-retry", "3.10 4.0 4.3", 0},
	{"22-export-of-4.3-with-log-exchange", "3.10 4.0 4.3", 0},
}

// TestRealTopologiesOffline: each file is read without loss, and its spec says
// all of it.
func TestRealTopologiesOffline(t *testing.T) {
	files, err := filepath.Glob("../../testdata/real/*.json")
	if err != nil || len(files) != len(realTopologies) {
		t.Fatalf("testdata/real has %d files, the table %d (%v)", len(files), len(realTopologies), err)
	}
	for _, r := range realTopologies {
		for _, version := range []string{"3.10", "4.0", "4.3"} {
			t.Run(r.name+"/"+version, func(t *testing.T) {
				file := "../../testdata/real/" + r.name
				got := runCommand(t, nil, "plan", "--show-unmanaged", "--rabbitmq", version, "--against", file+".json", file+".spec.yaml")
				if !strings.Contains(got.out, "Nothing to do") {
					t.Errorf("the plan is not empty:\n%s%s", got.out, got.err)
				}
				left := 0
				for _, line := range strings.Split(got.out, "\n") {
					if strings.HasPrefix(line, "not in the spec:") && !strings.Contains(line, `permission "guest"`) {
						left++
						if !strings.Contains(line, "avatar.grant_default") {
							t.Errorf("the spec does not say: %s", line)
						}
					}
				}
				if left != r.ends {
					t.Errorf("%d objects are not in the spec, want %d", left, r.ends)
				}
			})
		}
	}
}

// TestRealTopologiesImported imports each file where the broker takes it, and
// plans its spec against the live result.
func TestRealTopologiesImported(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		series := b.Version[:strings.LastIndex(b.Version, ".")]
		for _, r := range realTopologies {
			if !strings.Contains(r.imports, series) {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				name := "real-" + r.name[:2]
				data, err := os.ReadFile("../../testdata/real/" + r.name + ".json")
				if err != nil {
					t.Fatal(err)
				}
				var export map[string]any
				renamed := strings.ReplaceAll(string(data), fmt.Sprintf("%q", name), fmt.Sprintf("%q", vhost))
				if err := json.Unmarshal([]byte(renamed), &export); err != nil {
					t.Fatal(err)
				}
				delete(export, "global_parameters")
				if status, body := b.Do(t, "POST", "/api/definitions", export); status != 204 {
					t.Fatalf("import: %d %s", status, body)
				}
				spec, err := os.ReadFile("../../testdata/real/" + r.name + ".spec.yaml")
				if err != nil {
					t.Fatal(err)
				}
				file := writeSpec(t, strings.Replace(string(spec), "vhost: "+name, fmt.Sprintf("vhost: %q", vhost), 1))
				got := runWith(t, b, "plan", "--detailed-exitcode", file)
				if !strings.Contains(got.out, "Nothing to do") {
					t.Errorf("the plan is not empty:\n%s%s", got.out, got.err)
				}
			})
		}
	})
}
