package validate

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proofs say for each rule that no table of TestRulesAreTried and
// TestFlowRulesAreTried holds to a broker which test does, or why none can.
var proofs = map[string]string{
	"at-least-once-unbounded":            "TestUnboundedAtLeastOnce",
	"baseline-entry-unused":              "the spec alone",
	"category-header-prefix":             "TestCategoryHeaderPrefixOnBrokers",
	"category-routing-needs-quorum":      "TestClassicDropsCategories",
	"classic-cap-does-not-count-crashes": "TestClassicDoesNotCountCrashes",
	"contract-incomplete":                "the spec alone",
	"dead-letter-queue-without-owner":    "the spec alone",
	"dead-letter-target-without-role":    "TestLookingDeletes",
	"dead-letter-without-cap":            "TestNoLimitNeverGivesUp",
	"drop-is-loss":                       "TestRejectedIsDeleted",
	"federation-upstream-missing":        "the spec alone: a set names an upstream that no parameter has",
	"ignore-without-reason":              "the spec alone",
	"message-ttl-over-a-year":            "the spec alone: that it is meant is asked; what is too long is argument-value's",
	"mixed-delays":                       "TestHeadHoldsBack",
	"not-node-loss-safe":                 "TestNodeLossTakesClassicQueues",
	"not-restart-safe":                   "TestRestartTakesTransientThings",
	"policies-slow":                      "a matter of time: measured, and no test",
	"policy-hidden":                      "TestRandomPoliciesOnBrokers",
	"policy-ignored-for-type":            "TestRandomPoliciesOnBrokers",
	"policy-over-generated":              "TestRandomPoliciesOnBrokers",
	"policy-priority-tie":                "TestRandomPoliciesOnBrokers",
	"policy-repeats-arguments":           "TestConflictsOnBrokers",
	"routes-not-exact":                   "the spec alone: it says what rabbitctl did not work out",
	"setting-overruled":                  "TestConflictsOnBrokers",
	"shared-dead-letter-queue":           "the spec alone",
	"shovel-end-missing":                 "TestShovelMakesItsQueue",
	"unused-ignore":                      "the spec alone",
	"upgrade-default-queue-type":         "TestDefaultTypeOnBrokers",
	"upgrade-delayed-message-plugin":     "documented: the plugin is in no package that the tests can install",
	"wait-queue-bounded":                 "TestWaitQueuesOnBrokers",
	"wait-queue-expires":                 "TestWaitQueuesOnBrokers",
	"wait-queue-ttl-shorter":             "TestShortestTTLWins",
	"wait-queue-without-return":          "TestWaitQueuesOnBrokers",
	"wait-queue-without-ttl":             "TestWaitQueuesOnBrokers",
}

// TestEveryRuleIsProved: each rule is held to real brokers by a test that names it,
// or stands among the proofs with a test that there is.
func TestEveryRuleIsProved(t *testing.T) {
	var tests strings.Builder
	named := ""
	for _, folder := range []string{".", "../internal/policy", "../internal/catalog", "../internal/flow"} {
		files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(data)
			if folder == "." && (strings.Contains(file, "broker") || strings.HasPrefix(file, "loss_")) {
				named += string(data)
			}
		}
	}
	for _, code := range Codes() {
		proof, listed := proofs[code]
		mentioned := regexp.MustCompile(`\b` + regexp.QuoteMeta(code) + `\b`).MatchString(named)
		switch {
		case !listed && !mentioned:
			t.Errorf("nothing holds rule %s to a broker, and no entry in proofs says why", code)
		case strings.HasPrefix(proof, "Test") && !strings.Contains(tests.String(), "func "+proof+"(t *testing.T)"):
			t.Errorf("the proof of %s is %s, which there is not", code, proof)
		}
	}
	for code := range proofs {
		if !slices.Contains(Codes(), code) {
			t.Errorf("there is no rule %q", code)
		}
	}
}
