package validate

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
)

// TestRealTopologies holds the rules to what people really run: what must be
// found, and that there are no false alarms. Each entry is "severity code count";
// "json" is the definitions file judged as it is, "spec" the same as a spec, "upgrade"
// the file on its way from 3.10 to 4.3.
func TestRealTopologies(t *testing.T) {
	want := map[string]map[string][]string{
		"01-intake-streams-shovels": {
			"json":    {"error shovel-end-missing 1", "error shovel-stream-without-offset 2", "info max-age-in-months 1", "info parameter-needs-plugin 1", "warning drop-is-loss 1"},
			"spec":    {"error shovel-end-missing 1", "error shovel-stream-without-offset 2", "info max-age-in-months 1", "info parameter-needs-plugin 1", "warning drop-is-loss 1"},
			"upgrade": {"error shovel-end-missing 1", "error shovel-stream-without-offset 2", "info max-age-in-months 1", "info parameter-needs-plugin 1", "info upgrade-max-age-compared 3", "warning drop-is-loss 1"},
		},
		// Neither a cycle nor any of 2^28 paths.
		"04-binary-delay-28-broken": {
			"json":    {"error dead-letter-unroutable 27", "info message-ttl-over-a-year 1", "warning dead-letter-at-most-once 1", "warning deprecated-setting 1", "warning dlx-without-else 1", "warning drop-is-loss 2", "warning unroutable-unguarded 1"},
			"spec":    {"error dead-letter-unroutable 27", "info dead-letter-at-most-once 1", "info message-ttl-over-a-year 1", "warning dlx-without-else 1", "warning drop-is-loss 2", "warning unroutable-unguarded 1"},
			"upgrade": {"error dead-letter-unroutable 27", "info message-ttl-over-a-year 1", "warning dead-letter-at-most-once 1", "warning deprecated-setting 1", "warning dlx-without-else 1", "warning drop-is-loss 2", "warning unroutable-unguarded 1"},
		},
		"08-dlx-to-unbound-key-and-hidden-policy": {
			"json":    {"error dead-letter-unroutable 2", "warning deprecated-setting 1", "warning drop-is-loss 1", "warning drops-silently 1", "warning exchange-without-binding 1", "warning policy-hidden 1", "warning policy-key-unknown 1", "warning unroutable-unguarded 2"},
			"spec":    {"error dead-letter-unroutable 2", "warning deprecated-setting 1", "warning drop-is-loss 1", "warning drops-silently 1", "warning exchange-without-binding 1", "warning policy-hidden 1", "warning policy-key-unknown 1", "warning setting-overruled 1", "warning unroutable-unguarded 2"},
			"upgrade": {"error dead-letter-unroutable 2", "error policy-key-unknown 1", "info policy-repeats-arguments 1", "warning drop-is-loss 1", "warning drops-silently 1", "warning exchange-without-binding 1", "warning unroutable-unguarded 2", "warning upgrade-mirrored-queue 1", "warning upgrade-policy-acts 1"},
		},
		"12-fanout-to-topics-one-dlq-that-feeds-itself": {
			"json":    {"error dead-letters-to-itself 1", "warning dead-letter-at-most-once 1", "warning shared-dead-letter-queue 1", "warning unroutable-unguarded 3"},
			"spec":    {"error dead-letters-to-itself 1", "info dead-letter-at-most-once 1", "warning unroutable-unguarded 3"},
			"upgrade": {"error dead-letters-to-itself 1", "warning dead-letter-at-most-once 1", "warning shared-dead-letter-queue 1", "warning unroutable-unguarded 3"},
		},
		// The spec leaves out what nothing is declared for at all.
		"13-operator-quorum-pairs-missing-members": {
			"json":    {"error dangling-binding 6", "info limit-counts-returns 1", "info nack-not-counted 1", "warning dead-letter-at-most-once 1", "warning dead-letter-target-without-role 1", "warning drops-silently 1", "warning exchange-without-binding 2", "warning unroutable-unguarded 3"},
			"spec":    {"error dangling-binding 3", "info limit-counts-returns 1", "info nack-not-counted 1", "warning dead-letter-at-most-once 1", "warning dead-letter-target-without-role 1", "warning drops-silently 1", "warning exchange-without-binding 2", "warning unroutable-unguarded 3"},
			"upgrade": {"error dangling-binding 6", "info limit-counts-returns 1", "warning dead-letter-at-most-once 1", "warning dead-letter-target-without-role 1", "warning drops-silently 1", "warning exchange-without-binding 2", "warning unroutable-unguarded 3", "warning upgrade-nack-not-counted 1"},
		},
		// Streams need no dead-letter route; of queue_mode the expansion tells.
		"14-streams-and-capped-work-queues": {
			"spec":    {"info dead-letter-at-most-once 1", "info policy-repeats-arguments 1", "warning default-exchange-not-writable 1", "warning drops-silently 1", "warning overflow-not-dead-lettered 1", "warning unroutable-unguarded 2"},
			"json":    {"info policy-repeats-arguments 1", "warning dead-letter-at-most-once 1", "warning default-exchange-not-writable 1", "warning deprecated-setting 1", "warning drops-silently 1", "warning overflow-not-dead-lettered 1", "warning unroutable-unguarded 2"},
			"upgrade": {"info policy-repeats-arguments 1", "info upgrade-max-age-compared 3", "warning dead-letter-at-most-once 1", "warning default-exchange-not-writable 1", "warning deprecated-setting 1", "warning drops-silently 1", "warning overflow-not-dead-lettered 1", "warning unroutable-unguarded 2"},
		},
		// A warning: publishers that add a key with CC are right. The spec names them.
		"16-colon-names-cc-retry": {
			"spec":    {"info dead-letter-at-most-once 1", "warning unroutable-unguarded 1"},
			"json":    {"warning dead-letter-at-most-once 1", "warning dead-letter-unroutable 1", "warning unroutable-unguarded 1"},
			"upgrade": {"warning dead-letter-at-most-once 1", "warning dead-letter-unroutable 1", "warning unroutable-unguarded 1"},
		},
		"22-export-of-4.3-with-log-exchange": {
			"json":    {"warning dead-letter-at-most-once 1", "warning unroutable-unguarded 2"},
			"spec":    {"info dead-letter-at-most-once 1", "warning unroutable-unguarded 2"},
			"upgrade": {"warning dead-letter-at-most-once 1", "warning unroutable-unguarded 2"},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("../testdata/real", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			state, found, err := broker.ReadDefinitions(bytes.NewReader(data), name, "")
			if err != nil || found.HasErrors() {
				t.Fatal(found, err)
			}
			compare(t, "json", want[name]["json"], Check(Input{Topology: state.Topology}))
			compare(t, "upgrade", want[name]["upgrade"], Check(Input{
				Topology: state.Topology, Versions: []catalog.Version{catalog.V(4, 3)}, From: []catalog.Version{catalog.V(3, 10)},
			}))

			text, err := os.ReadFile(filepath.Join("../testdata/real", name+".spec.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			list, _ := checkSpec(t, name, string(text))
			compare(t, "spec", want[name]["spec"], list)
		})
	}
}

// TestExports: an export of 4.3 leaves out internal exchanges, whose bindings are
// no mistake.
func TestExports(t *testing.T) {
	files, _ := filepath.Glob("../testdata/definitions/*.json")
	if len(files) == 0 {
		t.Fatal("no exports")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		state, _, err := broker.ReadDefinitions(bytes.NewReader(data), filepath.Base(file), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := of(Check(Input{Topology: state.Topology}), "dangling-binding"); len(got) > 0 {
			t.Errorf("%s: %q", filepath.Base(file), got)
		}
	}
}

func compare(t *testing.T, what string, want []string, list diag.List) {
	t.Helper()
	counts := map[string]int{}
	for _, d := range list {
		counts[fmt.Sprintf("%s %s", d.Severity, d.Code)]++
	}
	var got []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		got = append(got, fmt.Sprintf("%s %d", k, counts[k]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n\t\t%q\nwant\n\t\t%q\n%s", what, got, want, strings.TrimSpace(describe(list)))
	}
}
