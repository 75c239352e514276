package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// gone makes a virtual host whose name is free and that is forgotten after the test.
func gone(t *testing.T, b *brokertest.Broker) string {
	t.Helper()
	vhost := b.VirtualHostNamed(t, "gone")
	if status, _ := b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil); status != 204 {
		t.Fatal(status)
	}
	return vhost
}

// TestNewVirtualHostIsComplete (case 56): an administrator without any permission gets
// the virtual host with all that is in it in one run, also where the spec states its
// permissions.
func TestNewVirtualHostIsComplete(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, stated := range []bool{false, true} {
			vhost := gone(t, b)
			user, password := b.User(t, "", "administrator", "", "", "")
			text := "exchanges: {orders: {type: topic}}\nqueues: {jobs: {type: quorum, max_length: 5, bindings: [{exchange: orders}]}}"
			if stated {
				text += fmt.Sprintf("\npermissions: {%q: {configure: '.*', write: '.*', read: '.*'}}", user)
			}
			spec := onVHost(t, vhost, text)
			runCommand(t, restricted(b, user, password), "apply", "--yes", spec).want(t, 0)
			runCommand(t, restricted(b, user, password), "plan", "--detailed-exitcode", spec).want(t, 0)
		}
	})
}

// TestMissingRightsBeforeTheFirstWrite (case 56): who lacks a tag learns which, with
// status 5, and nothing is written.
func TestMissingRightsBeforeTheFirstWrite(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		there := b.VirtualHost(t)
		user, password := b.User(t, there, "management", ".*", ".*", ".*")
		maker, makerPassword := b.User(t, there, "policymaker", ".*", ".*", ".*")
		for _, c := range []struct {
			name, user, password, vhost, text, want string
		}{
			{"virtual host", user, password, gone(t, b), "queues: {jobs: {type: classic}}", "the tag administrator, for virtual host"},
			{"policy", user, password, there, "queues: {jobs: {type: classic, max_length: 5}}", "the tag policymaker, for policy"},
			{
				"operator policy", maker, makerPassword, there,
				"queues: {jobs: {type: classic, max_length: 5}}\noperator_policies: {cap: {pattern: '^x$', definition: {max-length: 9}}}", "the tag administrator, for operator policy",
			},
		} {
			api := brokertest.HTTPProxy(t, b, nil)
			environ := append(environmentAt(api.URL, b.As(c.user, c.password)), "RABBITCTL_AMQP_URL=amqp://"+b.AMQPAddress())
			r := runCommand(t, environ, "apply", "--yes", onVHost(t, c.vhost, c.text))
			r.want(t, 5)
			if !strings.Contains(r.err, c.want) || !strings.Contains(r.err, "nothing was changed") || strings.Contains(r.err, c.password) {
				t.Errorf("%s: %s", c.name, r.err)
			}
			if writes := api.Writes(); len(writes) > 0 || b.HasQueue(t, there, "jobs") {
				t.Errorf("%s: written: %v", c.name, writes)
			}
		}
		// A policymaker is enough for policies.
		spec := onVHost(t, there, "queues: {jobs: {type: classic, max_length: 5}}")
		runCommand(t, restricted(b, maker, makerPassword), "apply", "--yes", spec).want(t, 0)
	})
}

// TestVirtualHostSettingsChange (case 65): settings of a virtual host are made, changed
// and limits taken away, and each time the second plan is empty. What is not stated
// stays.
func TestVirtualHostSettingsChange(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := gone(t, b)
		limits := func() map[string]int64 {
			var list []struct{ Value map[string]int64 }
			b.Get(t, brokertest.Path("vhost-limits", vhost), &list)
			if len(list) == 0 {
				return nil
			}
			return list[0].Value
		}
		for _, c := range []struct {
			settings string
			want     map[string]int64
		}{
			{"{description: one, tags: [a], default_queue_type: classic, limits: {max_queues: 50, max_connections: 9}}", map[string]int64{"max-queues": 50, "max-connections": 9}},
			{"{description: two, tags: [a, b], limits: {max_queues: 60, max_connections: 9}}", map[string]int64{"max-queues": 60, "max-connections": 9}},
			{"{description: two}", map[string]int64{"max-queues": 60, "max-connections": 9}},
			{"{limits: {max_queues: 60}}", map[string]int64{"max-queues": 60}},
			{"{limits: {}}", nil},
			{"{limits: {max_connections: 3}, default_queue_type: quorum}", map[string]int64{"max-connections": 3}},
		} {
			if !b.AtLeast("3.11") { // it has no default queue type
				c.settings = strings.NewReplacer(", default_queue_type: quorum", "", ", default_queue_type: classic", "").Replace(c.settings)
			}
			spec := onVHost(t, vhost, "vhost_settings: "+c.settings)
			runWith(t, b, "apply", "--yes", spec).want(t, 0)
			runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
			if got := limits(); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s: limits %v", c.settings, got)
			}
		}
		var live struct{ Description string }
		b.Get(t, brokertest.Path("vhosts", vhost), &live)
		if live.Description != "two" {
			t.Errorf("the description that was no longer stated became %q", live.Description)
		}
	})
}

// TestSavedPlanOfSettingsAndRights: what a saved plan says of a virtual host's limits
// and of permissions is made and changed as reviewed, and is stale when it has moved.
func TestSavedPlanOfSettingsAndRights(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := gone(t, b)
		user, _ := b.User(t, "", "", "", "", "")
		spec := func(limits, write string) string {
			return onVHost(t, vhost, fmt.Sprintf("vhost_settings: {limits: %s}\npermissions: {%q: {configure: '', write: %q, read: ''}}\n"+
				"topic_permissions: {%q: {amq.topic: {write: %q, read: ''}}}", limits, user, write, user, write))
		}
		saved := filepath.Join(t.TempDir(), "plan.json")
		for _, s := range []string{spec("{max_queues: 9}", "^a"), spec("{max_queues: 8, max_connections: 7}", "^b"), spec("{}", "^c")} {
			runWith(t, b, "plan", "--out", saved, s).want(t, 0)
			runWith(t, b, "apply", "--yes", saved).want(t, 0)
			runWith(t, b, "plan", "--detailed-exitcode", s).want(t, 0)
		}
		runWith(t, b, "plan", "--out", saved, spec("{}", "^d")).want(t, 0)
		b.Grant(t, vhost, user, ".*", ".*", ".*")
		r := runWith(t, b, "apply", "--yes", saved)
		r.want(t, 4)
		if !strings.Contains(r.err, "stale") || !strings.Contains(r.err, user) {
			t.Errorf("apply:\n%s", r.err)
		}
	})
}

// TestChangedSecretIsSeen (case 59): a password in a parameter's URI that has another
// value now is a change, and neither value is shown in any format.
func TestChangedSecretIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("starts brokers")
	}
	for _, release := range []string{"3.10", "4.0", "4.3"} {
		t.Run(release, func(t *testing.T) {
			b := &brokertest.StartNode(t, release, "--plugins", "rabbitmq_shovel,rabbitmq_federation").Broker
			vhost := b.VirtualHost(t)
			spec := onVHost(t, vhost, `
parameters:
  federation-upstream:
    far: {uri: ["amqp://app:${env:FARPW}@far", "amqp://app:${env:FARPW}@farther"], expires: 3600000}
  shovel:
    move: {src-uri: "amqp://app:${env:FARPW}@far", src-queue: a, dest-uri: ["amqp://app:${env:FARPW}@near"], dest-queue: b}
`)
			with := func(secret string) []string {
				return append(environment(b, b.Username, b.Password), "FARPW="+secret)
			}
			const first, second = "first-s3cret", "second-s3cret"
			hidden := func(r result) {
				t.Helper()
				if strings.Contains(r.out+r.err, "s3cret") {
					t.Errorf("a secret is shown:\n%s%s", r.out, r.err)
				}
			}
			runCommand(t, with(first), "apply", "--yes", spec).want(t, 0)
			runCommand(t, with(first), "plan", "--detailed-exitcode", spec).want(t, 0)
			runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0) // not known: not compared
			for _, format := range []string{"text", "json", "markdown"} {
				r := runCommand(t, with(second), "plan", "--verbose", "--detailed-exitcode", "--format", format, spec)
				r.want(t, 2)
				hidden(r)
				if !strings.Contains(r.out, "${env:FARPW}") {
					t.Errorf("%s does not show what changes:\n%s", format, r.out)
				}
			}
			saved := filepath.Join(t.TempDir(), "plan.json")
			hidden(runCommand(t, with(second), "plan", "--out", saved, spec))
			if data, err := os.ReadFile(saved); err != nil || strings.Contains(string(data), "s3cret") {
				t.Errorf("the saved plan: %v\n%s", err, data)
			}
			r := runCommand(t, with(second), "apply", "--yes", "--verbose", saved)
			r.want(t, 0)
			hidden(r)
			runCommand(t, with(second), "plan", "--detailed-exitcode", spec).want(t, 0)
			for _, name := range [][]string{{"federation-upstream", vhost, "far"}, {"shovel", vhost, "move"}} {
				_, data := b.Do(t, "GET", brokertest.Path(append([]string{"parameters"}, name...)...), nil)
				if !strings.Contains(string(data), second) {
					t.Errorf("on the broker: %s", data)
				}
			}
			hidden(runCommand(t, with(second), "export", "--vhost", vhost))
		})
	}
}
