package command_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestExplainLive explains what is on a broker without a spec, and lints it for an
// upgrade.
func TestExplainLive(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		file := writeSpec(t, strings.ReplaceAll(`version: 1
vhost: VHOST
exchanges:
  orders: {type: topic}
queues:
  jobs: {type: quorum, retry: {max_attempts: 5}, dead_letter: jobs.dead, bindings: [{exchange: orders, routing_key: "order.#"}]}
  plain: {type: quorum, dead_letter: jobs.dead, settings_by: arguments}
  jobs.dead: {type: classic, role: dead-letter, owner: team}
`, "VHOST", vhost))
		runWith(t, b, "apply", "--yes", file).want(t, 0)
		// The vendor's policy is nobody's in the spec.
		b.Put(t, brokertest.Path("policies", vhost, "vendor"), map[string]any{
			"pattern": "^plain$", "apply-to": "queues", "priority": 1, "definition": map[string]any{"max-length": 7, "overflow": "reject-publish"},
		})

		r := runWith(t, b, "explain", "--broker", "--vhost", vhost, "--format", "json", "jobs")
		r.want(t, 0)
		var answer struct {
			Version string `json:"format_version"`
			Queue   struct {
				Rabbit     string `json:"rabbitmq"`
				Deliveries struct{ Most int64 }
				Settings   []struct{ Name, From, Policy string }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &answer); err != nil {
			t.Fatal(err)
		}
		if answer.Queue.Rabbit != b.Version || answer.Queue.Deliveries.Most != 5 || len(answer.Queue.Settings) == 0 || answer.Queue.Settings[0].Policy != "rabbitctl:jobs" {
			t.Errorf("%+v", answer)
		}
		if r := runWith(t, b, "explain", "--broker", "--vhost", vhost, "plain"); !strings.Contains(r.out, `7, by policy "vendor"`) {
			t.Errorf("the vendor's policy is not named:\n%s%s", r.out, r.err)
		}
		// As it would be with the spec applied, the vendor's policy included.
		if r := runWith(t, b, "explain", "--broker", "plain", file); !strings.Contains(r.out, `7, by policy "vendor"`) {
			t.Errorf("the vendor's policy is not named beside the spec:\n%s%s", r.out, r.err)
		}
		runWith(t, b, "explain", "--broker", "--vhost", vhost, "--exchange", "orders", "--key", "order.new").want(t, 0)
		runWith(t, b, "explain", "--broker", "--vhost", vhost, "--exchange", "orders", "--key", "refund").want(t, 1)
		runWith(t, b, "explain", "--broker", "--vhost", vhost, "nobody").want(t, 1)
		runWith(t, b, "explain", "--broker", "--vhost", "not there", "jobs").want(t, 1)
	})
}

// TestUpgradeLive lints a live broker without a spec for an upgrade to 4.3.
func TestUpgradeLive(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		arguments := map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
		for name, body := range map[string]map[string]any{
			"dead":  {"durable": true},
			"jobs":  {"durable": true, "arguments": arguments},
			"lazy":  {"durable": true, "arguments": map[string]any{"x-queue-mode": "lazy"}},
			"shaky": {"durable": false},
		} {
			b.Put(t, brokertest.Path("queues", vhost, name), body)
		}
		old := !b.AtLeast("4.0")
		below := map[string]any{"pattern": "^lazy$", "apply-to": "queues", "definition": map[string]any{"message-ttl": 60000}}
		b.Put(t, brokertest.Path("policies", vhost, "below"), below)
		mirrored := map[string]any{"pattern": "^lazy$", "apply-to": "queues", "priority": 1, "definition": map[string]any{"ha-mode": "all"}}
		if status, body := b.Do(t, http.MethodPut, brokertest.Path("policies", vhost, "mirrored"), mirrored); (status/100 == 2) != old {
			t.Fatalf("a policy with ha-mode: %d %s", status, body)
		}
		channel := b.Channel(t, vhost)
		if err := channel.Qos(7, 0, true); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{
			"upgrade-default-delivery-limit": old, "upgrade-mirrored-queue": old, "upgrade-policy-acts": old, "policy-key-unknown": old,
			"upgrade-nack-not-counted": !old && !b.AtLeast("4.3"),
			"deprecated-setting":       true, "transient-queue": true,
			"deprecated-feature-used": !old,
			"upgrade-shared-prefetch": old,
		}
		var found map[string]bool
		lint := func(args ...string) {
			t.Helper()
			r := runWith(t, b, append([]string{"validate", "--broker", "--vhost", vhost, "--format", "json"}, args...)...)
			var list struct {
				Findings []struct {
					Code, Summary, Detail string
					Object                *struct{ Kind string }
				}
			}
			if err := json.Unmarshal([]byte(r.out), &list); err != nil {
				t.Fatalf("%v: %s%s", err, r.out, r.err)
			}
			found = map[string]bool{}
			for _, f := range list.Findings {
				found[f.Code] = true
				if f.Detail == "" || f.Object == nil && f.Code != "deprecated-feature-used" {
					t.Errorf("%s names no object or not what to do: %+v", f.Code, f)
				}
			}
		}
		// Statistics, which alone tell of the prefetch, come late.
		brokertest.EventuallyTrue(t, 20*time.Second, "the shared prefetch is seen", func() bool {
			lint("--rabbitmq", "4.3")
			return found["upgrade-shared-prefetch"] == want["upgrade-shared-prefetch"]
		})
		for code, is := range want {
			if found[code] != is {
				t.Errorf("%s is reported: %v, want %v", code, found[code], is)
			}
		}
		lint()
		for code := range found {
			if strings.HasPrefix(code, "upgrade-") {
				t.Errorf("%s is reported though nothing is upgraded", code)
			}
		}
	})
}
