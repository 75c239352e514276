package command_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

const smallSpec = "version: 1\nvhost: %q\nqueues:\n  jobs: {type: classic, settings_by: arguments, dead_letter: jobs.dead}\n  jobs.dead: {type: classic, role: dead-letter, owner: team}\n"

// TestWrongPassword: status 5, and the broker's words.
func TestWrongPassword(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(smallSpec, vhost))
		for _, command := range [][]string{{"plan"}, {"apply", "--yes"}, {"check"}} {
			r := runCommand(t, environment(b, b.Username, "wrong-and-secret"), append(command, spec)...)
			r.want(t, 5)
			if !strings.Contains(r.err, "401") && !strings.Contains(strings.ToLower(r.err), "login") {
				t.Errorf("%v: %s", command, r.err)
			}
			if strings.Contains(r.err+r.out, "wrong-and-secret") {
				t.Errorf("%v printed the password", command)
			}
		}
		if b.HasQueue(t, vhost, "jobs") {
			t.Error("a queue was made without a login")
		}
	})
}

// TestMissingRights: a user that must not configure is told which object and
// which right, siblings are done, nothing else is changed.
func TestMissingRights(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, via := range []string{"amqp", "http"} {
			t.Run(via, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				spec := writeSpec(t, fmt.Sprintf(smallSpec, vhost))
				user, password := b.User(t, vhost, "management", `^(jobs\.dead|rabbitctl\.lock:.*)$`, ".*", ".*")
				r := runCommand(t, restricted(b, user, password), "apply", "--yes", "--via", via, spec)
				r.want(t, 6)
				if !strings.Contains(r.out, `failed: create queue "jobs"`) {
					t.Errorf("apply:\n%s%s", r.out, r.err)
				}
				if !b.HasQueue(t, vhost, "jobs.dead") || b.HasQueue(t, vhost, "jobs") {
					t.Error("jobs.dead must be there, jobs must not")
				}
				// Nothing allowed at all: nothing changed, status 5.
				user, password = b.User(t, vhost, "management", "^$", "^$", "^$")
				r = runCommand(t, restricted(b, user, password), "apply", "--yes", "--via", via, spec)
				r.want(t, 5)
				// Looking needs no more than the tag management.
				runCommand(t, environment(b, user, password), "plan", "--detailed-exitcode", spec).want(t, 2)
				// No tag at all.
				user, password = b.User(t, vhost, "", ".*", ".*", ".*")
				runCommand(t, environment(b, user, password), "plan", spec).want(t, 5)
			})
		}
	})
}

// TestMissingVirtualHost holds case 23: what is in an absent virtual host is
// absent, and an administrator's apply creates it.
func TestMissingVirtualHost(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		other := b.VirtualHost(t)
		user, password := b.User(t, other, "management", ".*", ".*", ".*")
		spec := writeSpec(t, fmt.Sprintf(smallSpec, other+"-gone"))
		r := runCommand(t, environment(b, user, password), "plan", "--detailed-exitcode", spec)
		r.want(t, 2)
		if !strings.Contains(r.err, "vhost-not-visible") {
			t.Errorf("plan:\n%s", r.err)
		}
		r = runCommand(t, environment(b, user, password), "apply", "--yes", spec)
		r.want(t, 5)

		name := b.VirtualHostNamed(t, "made") // deleted at the end, made anew by apply
		if status, _ := b.Do(t, "DELETE", "/api/vhosts/"+name, nil); status != 204 {
			t.Fatal(status)
		}
		spec = writeSpec(t, fmt.Sprintf(smallSpec, name))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
	})
}

// TestNotAManagementAPI: whatever else answers is named as such and never read as
// "everything is gone". No broker is needed.
func TestNotAManagementAPI(t *testing.T) {
	spec := writeSpec(t, fmt.Sprintf(smallSpec, "/"))
	for name, answer := range map[string]http.HandlerFunc{
		"html 404": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>not here</html>", 404) },
		"html 200": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html><body>login \x1b[31m</body></html>")
		},
		"empty list":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") },
		"other json":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"status":"ok"}`) },
		"nothing":       func(http.ResponseWriter, *http.Request) {},
		"redirect":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"server errors": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			for _, command := range [][]string{{"plan", "--detailed-exitcode"}, {"apply", "--yes"}, {"check"}} {
				r := runCommand(t, nil, append(command, "--url", server.URL, "--timeout", "2s", spec)...)
				r.want(t, 5)
				if strings.Contains(r.out, "create") || strings.Contains(r.out, "missing") {
					t.Errorf("%v took it for an empty broker:\n%s", command, r.out)
				}
			}
		})
	}
}

// TestHangingConnection: a connection that never answers ends with a time-out
// that names the step.
func TestHangingConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	start := time.Now()
	r := runCommand(t, nil, "plan", "--url", "http://"+listener.Addr().String(), "--timeout", "1s", writeSpec(t, fmt.Sprintf(smallSpec, "/")))
	r.want(t, 5)
	if !strings.Contains(r.err, "no answer") || !strings.Contains(r.err, "within 1s") {
		t.Errorf("the message names no time-out: %s", r.err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("gave up after %s", d)
	}
}

// TestServerErrorsDuringApply: 500s on one object's declaration fail that object
// with its name; its siblings are done and a second run finishes.
func TestServerErrorsDuringApply(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\ndefaults: {queue: {type: classic, settings_by: arguments}}\nqueues: {one: {}, two: {}, three: {}}\n", vhost))
		proxy := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/two") {
				return 500, `{"error":"internal","reason":"injected"}`, true
			}
			return 0, "", false
		})
		r := runCommand(t, environmentAt(proxy.URL, b), "apply", "--yes", "--via", "http", "--timeout", "5s", spec)
		r.want(t, 6)
		if !strings.Contains(r.out, `failed: create queue "two"`) || !strings.Contains(r.out, "injected") {
			t.Errorf("apply:\n%s", r.out)
		}
		if !b.HasQueue(t, vhost, "one") || !b.HasQueue(t, vhost, "three") {
			t.Error("the siblings were not made")
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "check", spec).want(t, 0)
	})
}

// TestCheckWaits: check --wait sees what appears while it waits.
func TestCheckWaits(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(smallSpec, vhost))
		runWith(t, b, "check", spec).want(t, 2)
		// urfave/cli keeps its help flag in a variable of the package, so that two
		// command lines cannot run in one process.
		waiting := exec.CommandContext(t.Context(), "rabbitctl", "check", "--wait", "60s", spec)
		waiting.Env = append(os.Environ(), environment(b, b.Username, b.Password)...)
		if err := waiting.Start(); err != nil {
			t.Fatal(err)
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if err := waiting.Wait(); err != nil {
			t.Errorf("check --wait: %v", err)
		}
		runWith(t, b, "check", "--queue", "jobs", spec).want(t, 0)

		// Over AMQP alone existence is what can be seen, with any user's rights.
		user, password := b.User(t, vhost, "", "^$", ".*", ".*")
		amqpOnly := []string{"RABBITCTL_AMQP_URL=amqp://" + b.AMQPAddress(), "RABBITCTL_USERNAME=" + user, "RABBITCTL_PASSWORD=" + password}
		runCommand(t, amqpOnly, "check", spec).want(t, 0)
		if status, _ := b.Do(t, "DELETE", "/api/queues/"+vhost+"/jobs.dead", nil); status != 204 {
			t.Fatal(status)
		}
		r := runCommand(t, amqpOnly, "check", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, "jobs.dead") {
			t.Errorf("check:\n%s", r.out)
		}
	})
}

// TestTwoBrokers: a management URL and an AMQP URL of different brokers are
// refused before anything is written.
func TestTwoBrokers(t *testing.T) {
	var brokers []*brokertest.Broker
	brokertest.Each(t, func(_ *testing.T, b *brokertest.Broker) { brokers = append(brokers, b) })
	if len(brokers) < 2 {
		t.Skip("needs two brokers")
	}
	one, two := brokers[0], brokers[1]
	vhost := one.VirtualHost(t)
	spec := writeSpec(t, fmt.Sprintf(smallSpec, vhost))
	status, body := two.Do(t, "PUT", "/api/vhosts/"+vhost, nil)
	if status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	t.Cleanup(func() { two.Do(t, "DELETE", "/api/vhosts/"+vhost, nil) })
	env := append(environment(one, one.Username, one.Password), "RABBITCTL_AMQP_URL=amqp://"+two.AMQPAddress())
	r := runCommand(t, env, "apply", "--yes", spec)
	r.want(t, 5)
	if !strings.Contains(r.err, "different brokers") {
		t.Errorf("apply: %s", r.err)
	}
	if one.HasQueue(t, vhost, "jobs") || two.HasQueue(t, vhost, "jobs") {
		t.Error("something was written")
	}
}

// restricted is the environment of a user who does not see the listeners, so
// that the AMQP port has to be named.
func restricted(b *brokertest.Broker, user, password string) []string {
	return append(environment(b, user, password), "RABBITCTL_AMQP_URL=amqp://"+b.AMQPAddress())
}
