package command_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
)

// liveRecord is the record of a stack as the broker has it; nil: none.
func liveRecord(t *testing.T, b *brokertest.Broker, stack, vhost string) *ownership.Record {
	t.Helper()
	name := ownership.Name(stack, vhost)
	status, data := b.Do(t, "GET", brokertest.Path("global-parameters", name), nil)
	if status == 404 {
		return nil
	}
	var p struct{ Value json.RawMessage }
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	r, err := ownership.Parse(name, p.Value)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return r
}

// recorded lists what a stack has recorded as KIND/NAME, with "?" where pending.
func recorded(t *testing.T, b *brokertest.Broker, stack, vhost string) []string {
	t.Helper()
	all := []string{}
	if r := liveRecord(t, b, stack, vhost); r != nil {
		for k, s := range r.Objects {
			text := k.Address()
			if s == ownership.Pending {
				text += "?"
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

func wantRecorded(t *testing.T, b *brokertest.Broker, stack, vhost string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := recorded(t, b, stack, vhost); !slices.Equal(got, want) {
		t.Errorf("recorded for %s: %q, want %q", stack, got, want)
	}
}

// stackSpec writes a spec of a stack.
func stackSpec(t *testing.T, stack, vhost, text string) string {
	t.Helper()
	return onVHost(t, vhost, fmt.Sprintf("stack: %s\n%s", stack, text))
}

// TestOwnedIsDeleted: a binding and an exchange that were applied and left the spec
// are deleted, what others made is not, and a second run has nothing to do.
func TestOwnedIsDeleted(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "legacy.q", nil)
		first := stackSpec(t, "shop", vhost, `
exchanges: {orders: {type: topic}, old: {type: fanout}}
queues:
  jobs: {type: classic, max_length: 9, bindings: [{exchange: orders, routing_key: a}, {exchange: old}]}`)
		second := stackSpec(t, "shop", vhost, `
exchanges: {orders: {type: topic}}
queues:
  jobs: {type: classic, bindings: [{exchange: orders, routing_key: b}]}`)
		runWith(t, b, "apply", "--yes", first).want(t, 0)
		secondPlanIsEmpty(t, b, first)
		wantRecorded(t, b, "shop", vhost, "exchange/orders", "exchange/old", "queue/jobs", "policy/rabbitctl:jobs",
			"binding/old => queue jobs", "binding/orders => queue jobs [a]")
		wantPlan(t, b, 2, second, []string{
			"create binding/orders => queue jobs [b]", "delete binding/old => queue jobs",
			"delete binding/orders => queue jobs [a]", "delete exchange/old", "delete policy/rabbitctl:jobs",
		}, "1 live object is not in the spec", "max-length 9")
		runWith(t, b, "apply", "--yes", second).want(t, 0)
		wantRecorded(t, b, "shop", vhost, "exchange/orders", "queue/jobs", "binding/orders => queue jobs [b]")
		secondPlanIsEmpty(t, b, second)
		if !b.HasQueue(t, vhost, "legacy.q") {
			t.Error("the queue of others is gone")
		}
	})
}

// TestCase15: a changed binding is added before the old one goes.
func TestCase15(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := `
exchanges: {logs: {type: headers}}
queues:
  errors: {type: classic, bindings: [{exchange: logs, match: all, arguments: {%s}}]}`
		runWith(t, b, "apply", "--yes", stackSpec(t, "logs", vhost, fmt.Sprintf(text, "log_level: error"))).want(t, 0)
		changed := stackSpec(t, "logs", vhost, fmt.Sprintf(text, "loglevel: warn"))
		wantPlan(t, b, 2, changed, []string{
			`create binding/logs => queue errors {"loglevel": "warn", "x-match": "all"}`,
			`delete binding/logs => queue errors {"log_level": "error", "x-match": "all"}`,
		})
		runWith(t, b, "apply", "--yes", changed).want(t, 0)
		secondPlanIsEmpty(t, b, changed)
	})
}

// TestCaseH2: an object of others never stops a plan, and is only told.
func TestCaseH2(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "legacy.q", nil)
		spec := stackSpec(t, "h2", vhost, "queues: {jobs: {type: classic}}")
		wantPlan(t, b, 2, spec, []string{"create queue/jobs"}, "1 live object is not in the spec and stays as it is")
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if !b.HasQueue(t, vhost, "legacy.q") {
			t.Error("legacy.q is gone")
		}
	})
}

// TestAdopt: what is there is changed, and recorded, only when it is adopted.
func TestAdopt(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.Put(t, brokertest.Path("policies", vhost, "cap"), map[string]any{
			"pattern": "^tmp", "apply-to": "queues", "definition": map[string]any{"max-length": 5},
		})
		b.DeclareQueue(t, vhost, "jobs", nil)
		b.DeclareExchange(t, vhost, "orders", "topic", nil)
		b.Bind(t, vhost, "orders", "jobs", "a", nil)
		spec := stackSpec(t, "shop", vhost, `
exchanges: {orders: {type: topic}}
queues: {jobs: {type: classic, bindings: [{exchange: orders, routing_key: a}]}}
policies: {cap: {pattern: "^tmp", apply_to: queues, definition: {max-length: 9}}}`)
		wantPlan(t, b, 4, spec, []string{"update policy/cap blocked"}, "--adopt policy/cap", "[not-owned]", "3 objects are as the spec says and not recorded")
		runWith(t, b, "apply", "--yes", spec).want(t, 4)
		runWith(t, b, "apply", "--yes", "--adopt", "policy/cap", spec).want(t, 0)
		wantRecorded(t, b, "shop", vhost, "policy/cap")
		// With a queue come its bindings; a pattern needs --yes.
		if r := runWith(t, b, "plan", "--adopt", "queue/*", spec); r.exit != 64 || !strings.Contains(r.err, "needs --yes") {
			t.Errorf("%d %s", r.exit, r.err)
		}
		r := runWith(t, b, "plan", "--adopt", "queue/jobs", spec)
		if !strings.Contains(r.out, `adopt: queue "jobs"`) || !strings.Contains(r.out, "2 to adopt") {
			t.Errorf("plan: %s", r.out)
		}
		r = runWith(t, b, "apply", "--yes", "--adopt", "queue/*", spec)
		r.want(t, 0)
		if !strings.Contains(r.err, "recorded 2 objects that were there already") {
			t.Errorf("apply: %s%s", r.out, r.err)
		}
		wantRecorded(t, b, "shop", vhost, "policy/cap", "queue/jobs", "binding/orders => queue jobs [a]")
		secondPlanIsEmpty(t, b, spec)
		// What is not adopted stays when it leaves the spec.
		less := stackSpec(t, "shop", vhost, "queues: {jobs: {type: classic}}")
		wantPlan(t, b, 2, less, []string{"delete binding/orders => queue jobs [a]", "delete policy/cap"})
	})
}

// TestTwoStacks: one virtual host, two owners; neither deletes or changes what the
// other has, until it takes it over, and then the other has lost it.
func TestTwoStacks(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		policy := "policies: {cap: {pattern: ^tmp, apply_to: queues, definition: {max-length: %d}}}"
		one := stackSpec(t, "one", vhost, "exchanges: {x: {type: fanout}}\n"+fmt.Sprintf(policy, 5))
		two := stackSpec(t, "two", vhost, "exchanges: {y: {type: fanout}}\n"+fmt.Sprintf(policy, 9))
		runWith(t, b, "apply", "--yes", one).want(t, 0)
		wantPlan(t, b, 4, two, []string{"update policy/cap blocked", "create exchange/y"}, `recorded as stack "one"'s`, "--adopt policy/cap")
		runWith(t, b, "apply", "--yes", two, "--skip-blocked").want(t, 4)
		wantRecorded(t, b, "two", vhost, "exchange/y")
		runWith(t, b, "apply", "--yes", two, "--adopt", "policy/cap").want(t, 0)
		wantRecorded(t, b, "one", vhost, "exchange/x")
		wantRecorded(t, b, "two", vhost, "exchange/y", "policy/cap")
		secondPlanIsEmpty(t, b, two)
		// Without a stack the other's is not changed either.
		wantPlan(t, b, 4, onVHost(t, vhost, fmt.Sprintf(policy, 7)), []string{"update policy/cap blocked"}, `recorded as stack "two"'s`)
		// A stack with another name takes all of the old one's.
		renamed := stackSpec(t, "uno", vhost, "exchanges: {z: {type: fanout}}")
		runWith(t, b, "apply", "--yes", renamed, "--adopt", "stack/one").want(t, 0)
		wantRecorded(t, b, "one", vhost)
		wantRecorded(t, b, "uno", vhost, "exchange/z")
		secondPlanIsEmpty(t, b, renamed)
	})
}

// TestEditedRecord: a record that somebody broke is told and left as it is; all but
// deletion works.
func TestEditedRecord(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		name := ownership.Name("shop", vhost)
		runWith(t, b, "apply", "--yes", stackSpec(t, "shop", vhost, "exchanges: {x: {type: fanout}}")).want(t, 0)
		edited := map[string]any{"format": 1, "stack": "shop", "vhost": vhost, "owned": map[string]any{"exchange": "x"}}
		b.Put(t, brokertest.Path("global-parameters", name), map[string]any{"name": name, "value": edited})
		spec := stackSpec(t, "shop", vhost, "exchanges: {y: {type: fanout}}")
		wantPlan(t, b, 2, spec, []string{"create exchange/y"}, "ownership-record-unreadable", "nothing is deleted or recorded", name)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		secondPlanIsEmpty(t, b, spec)
		var p struct{ Value map[string]any }
		b.Get(t, brokertest.Path("global-parameters", name), &p)
		if owned, _ := p.Value["owned"].(map[string]any); owned["exchange"] != "x" {
			t.Errorf("the record was changed: %v", p.Value)
		}
	})
}

// TestWithoutRights: a user who must not read the record works as without a stack
// and is told.
func TestWithoutRights(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		user, password := b.User(t, vhost, "management", ".*", ".*", ".*")
		spec := stackSpec(t, "shop", vhost, "exchanges: {x: {type: fanout}}")
		r := runCommand(t, restricted(b, user, password), "apply", "--yes", spec)
		r.want(t, 0)
		if !strings.Contains(r.out, "nothing is deleted or recorded") || !strings.Contains(r.out, "policymaker") {
			t.Errorf("apply: %s%s", r.out, r.err)
		}
		wantRecorded(t, b, "shop", vhost)
		policymaker, password := b.User(t, vhost, "policymaker", ".*", ".*", ".*")
		spec = stackSpec(t, "shop", vhost, "exchanges: {x: {type: fanout}, y: {type: fanout}}")
		runCommand(t, restricted(b, policymaker, password), "apply", "--yes", spec).want(t, 0)
		wantRecorded(t, b, "shop", vhost, "exchange/y")
	})
}

// TestDestroy: all that a stack has made goes, its virtual host too when nothing
// else is in it, and the record last.
func TestDestroy(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHostNamed(t, "destroyed")
		if status, _ := b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil); status != 204 {
			t.Fatal(status)
		}
		stack := "destroy-" + strings.ReplaceAll(b.Version, ".", "-")
		spec := stackSpec(t, stack, vhost, `
exchanges: {orders: {type: topic}, spare: {type: fanout}}
policies: {cap: {pattern: "^tmp", apply_to: queues, definition: {max-length: 9}}}`)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		b.DeclareExchange(t, vhost, "foreign", "fanout", nil)
		r := runWith(t, b, "destroy", "--yes", stack)
		r.want(t, 0)
		if !strings.Contains(r.out, "it stays, since 1 object would go with it: exchange/foreign") {
			t.Errorf("destroy: %s%s", r.out, r.err)
		}
		wantRecorded(t, b, stack, vhost, "vhost/"+vhost)
		if status, _ := b.Do(t, "DELETE", brokertest.Path("exchanges", vhost, "foreign"), nil); status != 204 {
			t.Error("the exchange of others is gone")
		}
		if r := runWith(t, b, "destroy", stack); r.exit != 64 {
			t.Errorf("without a terminal: %d", r.exit)
		}
		runWith(t, b, "destroy", "--yes", "--vhost", vhost, stack).want(t, 0)
		if status, _ := b.Do(t, "GET", brokertest.Path("vhosts", vhost), nil); status != 404 {
			t.Errorf("the virtual host is there: %d", status)
		}
		if liveRecord(t, b, stack, vhost) != nil {
			t.Error("the record is there")
		}
		r = runWith(t, b, "destroy", "--yes", stack)
		r.want(t, 0)
		if !strings.Contains(r.out, "nothing to do") {
			t.Errorf("again: %s", r.out)
		}
	})
}

// TestCase63: what is in a virtual host that is gone counts as deleted.
func TestCase63(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		stack := "case63-" + strings.ReplaceAll(b.Version, ".", "-")
		runWith(t, b, "apply", "--yes", stackSpec(t, stack, vhost, "exchanges: {x: {type: fanout}}")).want(t, 0)
		if status, _ := b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil); status != 204 {
			t.Fatal(status)
		}
		runWith(t, b, "destroy", "--yes", stack).want(t, 0)
		if liveRecord(t, b, stack, vhost) != nil {
			t.Error("the record is there")
		}
	})
}

// TestWithoutLock: nothing is recorded or deleted, and what is the stack's is listed.
func TestWithoutLock(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		out := t.TempDir() + "/plan.json"
		runWith(t, b, "apply", "--yes", stackSpec(t, "shop", vhost, "exchanges: {x: {type: fanout}}")).want(t, 0)
		spec := stackSpec(t, "shop", vhost, "exchanges: {y: {type: fanout}}")
		runWith(t, b, "plan", "--out", out, spec).want(t, 0)
		runWith(t, b, "apply", "--yes", "--no-lock", out).want(t, 64)
		r := runWith(t, b, "apply", "--yes", "--no-lock", spec)
		r.want(t, 0)
		if !strings.Contains(r.out, `left behind: exchange "x"`) || !strings.Contains(r.out, "--no-lock does without") {
			t.Errorf("apply: %s%s", r.out, r.err)
		}
		wantRecorded(t, b, "shop", vhost, "exchange/x")
		runWith(t, b, "destroy", "--yes", "--no-lock", "shop").want(t, 64)
	})
}
