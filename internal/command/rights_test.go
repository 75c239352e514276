package command_test

import (
	"fmt"
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

// TestChangedSecretIsSeen (case 59): a password in a parameter's URI that has another
// value now is a change, and neither value is shown in any format.
func TestChangedSecretIsSeen(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, `
parameters:
  federation-upstream:
    far: {uri: ["amqp://app:${env:FAR_PW}@far", "amqp://app:${env:FAR_PW}@farther"], expires: 3600000}
`)
		if status, _ := b.Do(t, "PUT", brokertest.Path("parameters", "federation-upstream", vhost, "probe"), map[string]any{"value": map[string]any{"uri": "amqp://x"}}); status/100 != 2 {
			t.Skip("the plugin rabbitmq_federation is off")
		}
		with := func(secret string) []string { return append(environment(b, b.Username, b.Password), "FAR_PW="+secret) }
		const first, second = "first-s3cret", "second-s3cret"
		runCommand(t, with(first), "apply", "--yes", spec).want(t, 0)
		runCommand(t, with(first), "plan", "--detailed-exitcode", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0) // not known: not compared
		for _, format := range []string{"text", "json", "markdown"} {
			r := runCommand(t, with(second), "plan", "--verbose", "--detailed-exitcode", "--format", format, spec)
			r.want(t, 2)
			if all := r.out + r.err; strings.Contains(all, "s3cret") || !strings.Contains(all, "${env:FAR_PW}") {
				t.Errorf("%s:\n%s", format, all)
			}
		}
		r := runCommand(t, with(second), "apply", "--yes", "--verbose", spec)
		r.want(t, 0)
		if strings.Contains(r.out+r.err, "s3cret") {
			t.Errorf("apply:\n%s%s", r.out, r.err)
		}
		runCommand(t, with(second), "plan", "--detailed-exitcode", spec).want(t, 0)
		if _, data := b.Do(t, "GET", brokertest.Path("parameters", "federation-upstream", vhost, "far"), nil); !strings.Contains(string(data), second) {
			t.Errorf("on the broker: %s", data)
		}
	})
}
