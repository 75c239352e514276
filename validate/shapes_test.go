package validate

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
)

// TestShapes holds the rules to the topologies that well-known clients and frameworks
// make by themselves. Each finding was judged as an operator would: what is listed is
// worth knowing, and whatever else appears is a false alarm.
func TestShapes(t *testing.T) {
	want := map[string][]string{
		"celery-delayed":         {"info at-least-once-unbounded 1", "warning dlx-without-else 1", "warning quorum-default-limit-without-dlx 1", "warning unroutable-unguarded 1"},
		"celery":                 {"warning drop-is-loss 2", "warning transient-exchange 2", "warning transient-queue 3", "warning unroutable-unguarded 3"},
		"federation":             {"info parameter-needs-plugin 1", "warning drop-is-loss 1"},
		"laravel":                {"warning dead-letter-at-most-once 1", "warning drop-is-loss 1", "warning exchange-without-binding 1"},
		"limit-into-delay":       {"error limit-into-wait-queue 1", "info limit-counts-returns 1", "info nack-not-counted 1", "warning dead-letter-at-most-once 1", "warning unroutable-unguarded 1"},
		"masstransit":            {"info exchange-type-needs-plugin 1", "info exchange-without-binding 1", "warning quorum-default-limit-without-dlx 3", "warning transient-queue 1"},
		"mirrored-and-lazy":      {"warning dead-letter-at-most-once 1", "warning deprecated-setting 3", "warning drop-is-loss 1", "warning policy-hidden 1", "warning policy-key-unknown 1", "warning unroutable-unguarded 1"},
		"nservicebus":            {"info at-least-once-unbounded 1", "info exchange-without-binding 1", "info limit-counts-returns 1", "warning cap-without-dead-letter 1", "warning dlx-without-else 1", "warning quorum-default-limit-without-dlx 2", "warning unlimited-limit-before-4 1", "warning unroutable-unguarded 1"},
		"oslo-messaging":         {"error policy-priority-tie 1", "warning deprecated-setting 1", "warning drop-is-loss 3", "warning drops-silently 1", "warning policy-key-unknown 1", "warning transient-exchange 3", "warning transient-queue 1", "warning unroutable-unguarded 3"},
		"policy-that-routes-all": {"error dead-letters-to-itself 1", "warning dead-letter-at-most-once 1", "warning dead-letter-unroutable 1", "warning unroutable-unguarded 2"},
		"sharding":               {"info exchange-type-needs-plugin 1", "info policy-needs-plugin 1", "warning drop-is-loss 2"},
		"sneakers-maxretry":      {"warning dead-letter-at-most-once 1", "warning drop-is-loss 1", "warning reject-cycle-without-cap 1", "warning unroutable-unguarded 1"},
		"spring-retry":           {"warning dead-letter-at-most-once 1", "warning drop-is-loss 1", "warning reject-cycle-without-cap 1", "warning unroutable-unguarded 1"},
		"symfony-messenger":      {"warning dead-letter-at-most-once 1", "warning drop-is-loss 1", "warning unroutable-unguarded 1"},
		"wait-that-expires":      {"warning dead-letter-at-most-once 1", "warning wait-queue-expires 1"},
	}
	files, _ := filepath.Glob("../testdata/shapes/*.json")
	if len(files) != len(want) {
		t.Errorf("testdata/shapes has %d files, the table %d", len(files), len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Run(name, func(t *testing.T) { compare(t, name, want[name], checkFile(t, "../testdata/shapes/"+name+".json")) })
	}
}

// checkFile judges an export as it is.
func checkFile(t *testing.T, name string) diag.List {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	state, found, err := broker.ReadDefinitions(bytes.NewReader(data), name, "")
	if err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	return Check(Input{Topology: state.Topology})
}
