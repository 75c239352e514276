package command_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/plan"
)

// deleteQueue takes a queue away behind rabbitctl's back.
func deleteQueue(t *testing.T, b *brokertest.Broker, vhost, queue string) {
	t.Helper()
	if status, _ := b.Do(t, "DELETE", "/api/queues/"+vhost+"/"+queue, nil); status != 204 {
		t.Fatalf("delete %s: status %d", queue, status)
	}
}

// TestSavedPlanOverMessages: a limit that was harmless while the queue was empty
// is refused when messages have come in since the plan was saved.
func TestSavedPlanOverMessages(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "jobs", map[string]any{"x-queue-type": "classic"})
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues: {jobs: {type: classic, max_length: 2}}\n", vhost))
		saved := filepath.Join(t.TempDir(), "plan.json")
		runWith(t, b, "plan", "--out", saved, spec).want(t, 0)
		b.Publish(t, vhost, "", "jobs", 5)
		r := runWith(t, b, "apply", "--yes", saved)
		r.want(t, 4)
		if !strings.Contains(r.err, `"jobs"`) || !strings.Contains(r.err, "5 messages") {
			t.Errorf("the refusal names no queue and no number:\n%s", r.err)
		}
		if n := b.Depth(t, vhost, "jobs"); n != 5 {
			t.Errorf("%d of 5 messages are left", n)
		}
		// Agreed to, it is carried out.
		runWith(t, b, "plan", "--allow", "lossy=policy/rabbitctl:jobs", "--out", saved, spec).want(t, 0)
		runWith(t, b, "apply", "--yes", saved).want(t, 0)
	})
}

// TestSavedPlanWithoutItsRoute: a saved plan is stale when where dead messages
// were to go has gone since, as a queue or as the last binding of an exchange.
func TestSavedPlanWithoutItsRoute(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := fmt.Sprintf("version: 1\nvhost: %q\nexchanges: {dlx: {type: direct}}\nqueues:\n"+
			"  dead: {type: classic, role: dead-letter, owner: team, bindings: [{exchange: dlx, routing_key: k}]}\n", vhost)
		full := text + "  jobs: {type: classic, dead_letter: dead}\n" +
			"  mail: {type: classic, settings_by: arguments, dead_letter: {exchange: dlx, routing_key: k}}\n"
		base, spec, saved := writeSpec(t, text), writeSpec(t, full), filepath.Join(t.TempDir(), "plan.json")
		runWith(t, b, "apply", "--yes", base).want(t, 0)
		runWith(t, b, "plan", "--out", saved, spec).want(t, 0)
		b.DeclareQueue(t, vhost, "unrelated", map[string]any{"x-queue-type": "classic"})
		b.Bind(t, vhost, "dlx", "unrelated", "other", nil)
		deleteQueue(t, b, vhost, "dead")
		r := runWith(t, b, "apply", "--yes", saved)
		r.want(t, 4)
		for _, want := range []string{`queue "jobs"`, `queue "mail"`} {
			if !strings.Contains(r.err, want) {
				t.Errorf("not said to be stale: %s\n%s", want, r.err)
			}
		}
		if b.HasQueue(t, vhost, "jobs") || b.HasQueue(t, vhost, "mail") {
			t.Error("a queue was made whose dead-letter route leads nowhere")
		}
		// With the route as it was, what was reviewed is carried out, whatever
		// else has been bound since.
		runWith(t, b, "apply", "--yes", base).want(t, 0)
		runWith(t, b, "apply", "--yes", saved).want(t, 0)
	})
}

// TestCheckQueueWithItsRoute: --queue looks at what the queue needs too, the
// dead-letter queue among it, also when the queue itself is as declared.
func TestCheckQueueWithItsRoute(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nexchanges: {dlx: {type: fanout}}\nqueues:\n"+
			"  jobs: {type: classic, dead_letter: dead}\n  dead: {type: classic, role: dead-letter, owner: team}\n"+
			"  mail: {type: classic, dead_letter: {exchange: dlx}}\n"+
			"  void: {type: classic, role: dead-letter, owner: team, bindings: [{exchange: dlx}]}\n", vhost))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		for _, passive := range []bool{false, true} {
			check := func(queue string) result {
				args := []string{"check", "--queue", queue, spec}
				if passive {
					args = append(args, "--amqp-only", "--amqp-url", b.AMQPURL(""))
				}
				return runWith(t, b, args...)
			}
			check("jobs").want(t, 0)
			check("mail").want(t, 0)
			check("nobody").want(t, 3)
			deleteQueue(t, b, vhost, "dead")
			deleteQueue(t, b, vhost, "void")
			check("jobs").want(t, 2)
			check("mail").want(t, 2)
			runWith(t, b, "apply", "--yes", "--target", "queue/jobs", "--target", "queue/mail", spec).want(t, 0)
			check("jobs").want(t, 0)
			check("mail").want(t, 0)
		}
	})
}

// TestCheckQueueOfSeveralVirtualHosts: --queue and --target name a queue that one
// of the virtual hosts of the specs has.
func TestCheckQueueOfSeveralVirtualHosts(t *testing.T) {
	b := brokertest.One(t)
	one, two := b.VirtualHost(t), b.VirtualHost(t)
	spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues: {a: {type: classic}}\n---\nversion: 1\nvhost: %q\nqueues: {b: {type: classic}}\n", one, two))
	runWith(t, b, "apply", "--yes", "--target", "queue/b", spec).want(t, 0)
	runWith(t, b, "check", "--queue", "b", spec).want(t, 0)
	runWith(t, b, "check", "--queue", "a", spec).want(t, 2)
}

// TestCheckOverruledQueue: a queue whose dead-letter route somebody else's policy
// has taken away is not as declared.
func TestCheckOverruledQueue(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues:\n  jobs: {type: classic, dead_letter: dead}\n"+
			"  dead: {type: classic, role: dead-letter, owner: team}\n", vhost))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "check", spec).want(t, 0)
		b.Put(t, "/api/policies/"+vhost+"/theirs", map[string]any{
			"pattern": "^jobs", "apply-to": "queues", "priority": 5000, "definition": map[string]any{"expires": 86400000},
		})
		r := runWith(t, b, "check", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, "theirs") || !strings.Contains(r.out, "dead-letter-exchange") {
			t.Errorf("check:\n%s%s", r.out, r.err)
		}
	})
}

// TestPolicyOfAnEarlierSpec: the policy that was generated for a queue acts on when
// the spec takes its settings away; neither plan nor check may be silent on it, and
// apply deletes it, also without a stack.
func TestPolicyOfAnEarlierSpec(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		old := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues: {jobs: {type: classic, max_length: 10}}\n", vhost))
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues: {jobs: {type: classic}}\n", vhost))
		runWith(t, b, "apply", "--yes", old).want(t, 0)
		r := runWith(t, b, "plan", "--detailed-exitcode", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, `delete policy "rabbitctl:jobs"`) || !strings.Contains(r.out, "max-length 10") {
			t.Errorf("plan:\n%s%s", r.out, r.err)
		}
		r = runWith(t, b, "check", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, `"rabbitctl:jobs"`) {
			t.Errorf("check:\n%s%s", r.out, r.err)
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if left := livePolicies(t, b, vhost); len(left) > 0 {
			t.Errorf("policies left: %v", left)
		}
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
		runWith(t, b, "check", spec).want(t, 0)
	})
}

// TestSavePlanWhereItWasSaid: --out follows a link and writes into what is no
// file; replacing /dev/stdout or /dev/null would harm the machine.
func TestSavePlanWhereItWasSaid(t *testing.T) {
	dir := t.TempDir()
	spec := writeSpec(t, "version: 1\nqueues: {a: {type: classic}}\n")
	live := filepath.Join(dir, "live.json")
	if err := os.WriteFile(live, []byte(`{"rabbitmq_version":"4.3.6","vhosts":[{"name":"/"}],"queues":[],"exchanges":[],"bindings":[],"policies":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	target, link := filepath.Join(dir, "target.json"), filepath.Join(dir, "link.json")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here")
	}
	for range 2 { // where the link leads is not there at first
		runCommand(t, nil, "plan", "--against", live, "--out", link, spec).want(t, 0)
		info, err := os.Lstat(link)
		if err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Fatalf("the link was replaced: %v %v", info, err)
		}
		data, err := os.ReadFile(target)
		if err != nil || !plan.IsPlanFile(data) {
			t.Fatalf("no plan where the link leads: %v", err)
		}
		if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v %v", info, err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pipe := fmt.Sprintf("/dev/fd/%d", w.Fd())
	if _, err := os.Stat(pipe); err != nil {
		t.Skip("no /dev/fd here")
	}
	read := make(chan bool)
	go func() {
		var v map[string]any
		read <- json.NewDecoder(r).Decode(&v) == nil && v["format_version"] != nil
	}()
	runCommand(t, nil, "plan", "--against", live, "--out", pipe, spec).want(t, 0)
	if err := w.Close(); err != nil || !<-read {
		t.Errorf("no plan came through the pipe: %v", err)
	}
}

// TestNoSecretOfWhatCannotBeRead: a URL without its scheme and a profile of a wrong
// form are not repeated.
func TestNoSecretOfWhatCannotBeRead(t *testing.T) {
	spec := writeSpec(t, "version: 1\nqueues: {a: {type: classic}}\n")
	config := filepath.Join(t.TempDir(), "config.yaml")
	for _, profiles := range []string{
		"{}", "profiles: {p: hunter2}", "profiles: hunter2", "hunter2", "profiles: {p: {password: [hunter2]}}", "profiles: {p: \"hunter2`\\nhunter2\"}",
	} {
		if err := os.WriteFile(config, []byte(profiles), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{"app:hunter2@mq.example.org", "amqp:app:hunter2@mq.example.org", "amqp://app:hunter2@mq.example.org:port"} {
			r := runCommand(t, []string{"RABBITCTL_CONFIG=" + config, "RABBITCTL_AMQP_URL=" + url}, "check", "--verbose", spec)
			r.want(t, 64)
			if strings.Contains(r.out+r.err, "hunter2") {
				t.Errorf("%s, %s:\n%s%s", profiles, url, r.out, r.err)
			}
		}
	}
}

// TestLongestNames: a queue's name may be as long as RabbitMQ takes, though its
// policy's name is then longer than that.
func TestLongestNames(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		long := strings.Repeat("x", 250) + "\u00e9.+ "
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\nqueues:\n  %q: {type: classic, dead_letter: dead}\n"+
			"  dead: {type: classic, role: dead-letter, owner: team}\n", vhost, long))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "check", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
	})
}
