package spectest_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/spectest"
	"github.com/rabbitctl/rabbitctl/specs"
)

var versions = []catalog.Version{{Major: 3, Minor: 10, Patch: 8}, {Major: 4, Minor: 0, Patch: 5}, {Major: 4, Minor: 3, Patch: 6}}

// TestDrawnSpecs holds what is drawn to be small, right, and to have every
// feature of the language in it.
func TestDrawnSpecs(t *testing.T) {
	missing := map[string]bool{}
	for _, word := range []string{
		"type: quorum", "type: classic", "type: stream", "default_queue_type", "settings_by: arguments", "settings_by:\n", "arguments:", "allow_unknown_arguments",
		"match: all-with-x", "routing_keys", "alternate_exchange", "inherit_policy", "declared_by", "external: true", "policies:", "operator_policies:",
		"max_attempts", "mechanism: wait-queue", "mechanism: reject-cycle", "mechanism: per-message", "mechanism: delayed-retry", "wait_queue", "names:",
		"via:", "categories:", "otherwise:", "role: dead-letter", "role: wait", "for_each", "variables:", "overlay: true", "defaults:", "limits:",
		"permissions:", "topic_permissions:", "internal: true", "durable: false", "auto_delete: true", "$${", "policy_priority", "at-least-once", "{queue}", "loses:",
	} {
		missing[word] = true
	}
	for _, v := range versions {
		draw := rapid.Custom(func(t *rapid.T) string { return spectest.Draw(t, v, "one ${x}", "two") })
		for seed := range 150 {
			text := draw.Example(seed)
			for word := range missing {
				if strings.Contains(text, word) {
					delete(missing, word)
				}
			}
			spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "random.yaml", Data: []byte(text)}}})
			top, more := spec.Expand(specs.Target{Version: v})
			if found.HasErrors() || more.HasErrors() {
				t.Fatalf("seed %d for %s: %v %v\n%s", seed, v, found, more, text)
			}
			for _, h := range top.VirtualHosts {
				if n := len(h.Objects()); n > spectest.MaxObjects {
					t.Fatalf("seed %d for %s: %d objects\n%s", seed, v, n, text)
				}
			}
			if again := draw.Example(seed); again != text {
				t.Fatalf("seed %d for %s draws two specs", seed, v)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("never drawn: %v", missing)
	}
}
