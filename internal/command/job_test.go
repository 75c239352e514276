package command_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// exampleSpec writes an example for a virtual host of the test's own.
func exampleSpec(t *testing.T, name, vhost string) string {
	t.Helper()
	for _, e := range examples.List {
		if e.Name == name {
			data, err := examples.FS.ReadFile(e.File)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(data), "\nvhost: /\n", fmt.Sprintf("\nvhost: %q\n", vhost), 1)
			if text == string(data) {
				t.Fatalf("the example %s names no virtual host that could be replaced", name)
			}
			return writeSpec(t, text)
		}
	}
	t.Fatalf("there is no example %s", name)
	return ""
}

// liveQueue is a queue as the broker's raw list shows it.
type liveQueue struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
	Policy    string         `json:"policy"`
}

func liveQueues(t *testing.T, b *brokertest.Broker, vhost string) map[string]liveQueue {
	t.Helper()
	var list []liveQueue
	b.Get(t, "/api/queues/"+url.PathEscape(vhost)+"?disable_stats=true", &list)
	all := map[string]liveQueue{}
	for _, q := range list {
		all[q.Name] = q
	}
	return all
}

func livePolicies(t *testing.T, b *brokertest.Broker, vhost string) map[string]map[string]any {
	t.Helper()
	var list []struct {
		Name       string         `json:"name"`
		Definition map[string]any `json:"definition"`
	}
	b.Get(t, "/api/policies/"+url.PathEscape(vhost), &list)
	all := map[string]map[string]any{}
	for _, p := range list {
		all[p.Name] = p.Definition
	}
	return all
}

func definitions(t *testing.T, b *brokertest.Broker, vhost string) string {
	t.Helper()
	_, data := b.Do(t, "GET", "/api/definitions/"+url.PathEscape(vhost), nil)
	return string(tidy(t, data, vhost, b.Version))
}

// TestRefundsAndPayouts is the product in one test: from YAML to a broker, and a
// second run that changes nothing.
func TestRefundsAndPayouts(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, via := range []string{"amqp", "http"} {
			t.Run(via, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				spec := exampleSpec(t, "refunds", vhost)
				r := runWith(t, b, "apply", "--yes", "--via", via, spec)
				r.want(t, 0)

				queues, policies := liveQueues(t, b, vhost), livePolicies(t, b, vhost)
				wait := queues["refunds.retry"]
				for key, want := range map[string]any{"x-message-ttl": 30000.0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "refunds"} {
					if wait.Arguments[key] != want {
						t.Errorf("refunds.retry %s = %v, want %v", key, wait.Arguments[key], want)
					}
				}
				effective := func(queue, key string) any {
					if v, ok := queues[queue].Arguments["x-"+key]; ok {
						return v
					}
					return policies[queues[queue].Policy][key]
				}
				for _, want := range []struct {
					queue, key string
					value      any
				}{
					{"payouts", "delivery-limit", 4.0},
					{"payouts", "dead-letter-exchange", ""},
					{"payouts", "dead-letter-routing-key", "payouts.dead"},
					{"payouts", "dead-letter-strategy", "at-least-once"},
					{"payouts", "overflow", "reject-publish"},
					{"refunds", "dead-letter-exchange", ""},
					{"refunds", "dead-letter-routing-key", "refunds.dead"},
				} {
					if got := effective(want.queue, want.key); got != want.value {
						t.Errorf("%s: effective %s = %v, want %v", want.queue, want.key, got, want.value)
					}
				}
				before := definitions(t, b, vhost)
				r = runWith(t, b, "plan", "--detailed-exitcode", spec)
				r.want(t, 0)
				r = runWith(t, b, "apply", "--yes", "--via", via, spec)
				r.want(t, 0)
				if !strings.Contains(r.out, "nothing to do") {
					t.Errorf("second apply:\n%s", r.out)
				}
				if after := definitions(t, b, vhost); after != before {
					t.Errorf("the second apply changed the broker:\n%s\n---\n%s", before, after)
				}
				runWith(t, b, "check", spec).want(t, 0)
			})
		}
	})
}

// TestDeliveriesBeforeDeadLetter proves the conversion of max_attempts: five
// deliveries, then the dead-letter queue.
func TestDeliveriesBeforeDeadLetter(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		runWith(t, b, "apply", "--yes", exampleSpec(t, "refunds", vhost)).want(t, 0)
		b.Publish(t, vhost, "orders", "payout.requested", 1)
		ch := b.Channel(t, vhost)
		deliveries := 0
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			m, ok, err := ch.Get("payouts", false)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				deliveries++
				if err := m.Reject(true); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if b.Depth(t, vhost, "payouts.dead") == 1 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if deliveries != 5 {
			t.Errorf("%d deliveries before the dead-letter queue, want 5", deliveries)
		}
		dead := b.AwaitMessage(t, vhost, "payouts.dead", 10*time.Second)
		if reason := dead.Headers["x-first-death-reason"]; reason != "delivery_limit" {
			t.Errorf("reason %v, want delivery_limit", reason)
		}
	})
}

// TestExamplesApply applies each example to each version; the second plan is
// empty and check agrees.
func TestExamplesApply(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, e := range examples.List {
			t.Run(e.Name, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				spec := exampleSpec(t, e.Name, vhost)
				r := runWith(t, b, "apply", "--yes", spec)
				r.want(t, 0)
				if strings.Contains(r.err, "error") || strings.Contains(r.err, "warning") {
					t.Errorf("an example must be free of findings:\n%s", r.err)
				}
				r = runWith(t, b, "plan", "--detailed-exitcode", spec)
				r.want(t, 0)
				if strings.Contains(r.out, "not in the spec") || !strings.HasPrefix(r.out, "Nothing to do") {
					t.Errorf("second plan:\n%s", r.out)
				}
				runWith(t, b, "check", spec).want(t, 0)
			})
		}
	})
}

// TestReplaceIsBlocked holds case 1: a changed argument is refused with both
// values, nothing is sent, and --skip-blocked does the rest.
func TestReplaceIsBlocked(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := "version: 1\nvhost: %q\ndefaults: {queue: {type: quorum, settings_by: arguments}}\nqueues:\n  jobs: {message_ttl: %s, dead_letter: dead}\n  dead: {type: classic, role: dead-letter, owner: team}\n%s"
		runWith(t, b, "apply", "--yes", writeSpec(t, fmt.Sprintf(text, vhost, "30s", ""))).want(t, 0)
		before := definitions(t, b, vhost)

		spec := writeSpec(t, fmt.Sprintf(text, vhost, "60s", "  extra: {type: classic, dead_letter: dead}\n"))
		r := runWith(t, b, "plan", "--detailed-exitcode", spec)
		r.want(t, 4)
		if !strings.Contains(r.out, "x-message-ttl: 30000 -> 60000 (fixed at declaration)") {
			t.Errorf("plan:\n%s", r.out)
		}
		proxy := brokertest.HTTPProxy(t, b, nil)
		r = runCommand(t, environmentAt(proxy.URL, b), "apply", "--yes", spec)
		r.want(t, 4)
		if w := proxy.Writes(); len(w) > 0 {
			t.Errorf("a blocked apply wrote: %v", w)
		}
		if definitions(t, b, vhost) != before {
			t.Error("a blocked apply changed the broker")
		}
		runWith(t, b, "check", spec).want(t, 2)
		runWith(t, b, "apply", "--yes", "--skip-blocked", spec).want(t, 4)
		if !b.HasQueue(t, vhost, "extra") {
			t.Error("--skip-blocked did not do the rest")
		}
	})
}

func environmentAt(managementURL string, b *brokertest.Broker) []string {
	return []string{
		"RABBITCTL_URL=" + managementURL, "RABBITCTL_AMQP_URL=amqp://" + b.AMQPAddress(),
		"RABBITCTL_USERNAME=" + b.Username, "RABBITCTL_PASSWORD=" + b.Password,
	}
}

// TestSavedPlan: what was reviewed is what is applied, or nothing.
func TestSavedPlan(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := exampleSpec(t, "refunds", vhost)
		file := t.TempDir() + "/plan.json"
		runWith(t, b, "plan", "--out", file, spec).want(t, 0)

		// Something else appears that the plan does not touch: still good.
		b.DeclareQueue(t, vhost, "legacy.q", nil)
		runWith(t, b, "apply", "--yes", file).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)

		// The same plan again: its objects are there now, it is stale.
		r := runWith(t, b, "apply", "--yes", file)
		r.want(t, 4)
		if !strings.Contains(r.err, "stale") {
			t.Errorf("stale plan:\n%s", r.err)
		}
	})
}

// TestDeletedByHand holds case 61: drift is found, with the bindings that went
// along.
func TestDeletedByHand(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := exampleSpec(t, "refunds", vhost)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		status, _ := b.Do(t, "DELETE", "/api/queues/"+url.PathEscape(vhost)+"/refunds", nil)
		if status != 204 {
			t.Fatal(status)
		}
		r := runWith(t, b, "plan", "--detailed-exitcode", "--format", "json", spec)
		r.want(t, 2)
		var p struct {
			Changes []struct {
				Object struct{ Kind, Name string }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &p); err != nil {
			t.Fatalf("%v\n%s", err, r.out)
		}
		found := map[string]bool{}
		for _, c := range p.Changes {
			found[c.Object.Kind] = true
		}
		if !found["queue"] || !found["binding"] {
			t.Errorf("the queue and its binding are missing, the plan has:\n%s", r.out)
		}
		r = runWith(t, b, "check", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, `missing: queue "refunds"`) {
			t.Errorf("check:\n%s", r.out)
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "check", spec).want(t, 0)
	})
}

// TestUnmanagedStays holds case H2: foreign objects are no reason to stop.
func TestUnmanagedStays(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "legacy.q", nil)
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues:\n  fresh: {type: classic, settings_by: arguments}\n", vhost))
		r := runWith(t, b, "apply", "--yes", "--show-unmanaged", spec)
		r.want(t, 0)
		if !strings.Contains(r.out, `not in the spec: queue "legacy.q"`) {
			t.Errorf("apply:\n%s", r.out)
		}
		if !b.HasQueue(t, vhost, "legacy.q") || !b.HasQueue(t, vhost, "fresh") {
			t.Error("legacy.q and fresh must both be there")
		}
	})
}

// TestHostileNames: any name that a broker takes goes from YAML to the broker and
// back.
func TestHostileNames(t *testing.T) {
	names := []string{"a/b", "50%", "what?", "a#b", "a+b", "a b", "~t", `back\slash`, `"quoted"`, "'single'", "grüße.語", "x[1]", "a.b$", "{n}", "a=b", "-dash", "tab\there", "\u202eright", strings.Repeat("n", 244)}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, via := range []string{"amqp", "http"} {
			t.Run(via, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				type q = map[string]any
				queues := q{}
				exchanges := q{}
				for _, n := range names {
					exchanges[n] = q{"type": "topic"}
					queues[n] = q{
						"type": "classic", "message_ttl": "60s", "dead_letter": q{"queue": n + ".dead"},
						"bindings": []q{{"exchange": n, "routing_key": n}},
					}
					queues[n+".dead"] = q{"type": "classic", "role": "dead-letter", "owner": "team"}
				}
				data, err := json.Marshal(q{"version": 1, "vhost": vhost, "exchanges": exchanges, "queues": queues}) // JSON is YAML
				if err != nil {
					t.Fatal(err)
				}
				spec := writeSpec(t, string(data))
				runWith(t, b, "apply", "--yes", "--via", via, spec).want(t, 0)
				r := runWith(t, b, "plan", "--detailed-exitcode", spec)
				r.want(t, 0)
				for _, n := range names {
					if !b.HasQueue(t, vhost, n) {
						t.Errorf("queue %q is not there", n)
					}
				}
			})
		}
	})
}
