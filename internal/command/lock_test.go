package command_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

const lockSpec = "version: 1\nvhost: %q\nstack: shop\nqueues:\n  jobs: {type: classic, settings_by: arguments, dead_letter: jobs.dead}\n  jobs.dead: {type: classic, role: dead-letter, owner: team}\n"

// holdLock takes the lock of stack shop as another run does.
func holdLock(t *testing.T, b *brokertest.Broker, vhost string) *broker.Lock {
	t.Helper()
	c, err := broker.New(broker.Options{URL: b.URL, Username: b.Username, Password: b.Password, UserAgent: "rabbitctl/test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l, err := c.Lock(t.Context(), vhost, "shop", broker.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestCaseH14: of two applies at once one waits, and none fails oddly; the queue by
// which they exclude each other is nobody's.
func TestCaseH14(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		results := make(chan result, 2)
		for range 2 {
			go func() { results <- runWith(t, b, "apply", "--yes", spec) }()
		}
		made := 0
		for range 2 {
			r := <-results
			r.want(t, 0)
			if !strings.Contains(r.out, "nothing to do") {
				made++
			}
		}
		if made != 1 {
			t.Errorf("%d of the two did the work", made)
		}

		held := holdLock(t, b, vhost)
		for _, command := range [][]string{{"plan", "--detailed-exitcode", "--show-unmanaged", spec}, {"check", spec}, {"export", "--vhost", vhost}} {
			r := runWith(t, b, command...)
			r.want(t, 0)
			if strings.Contains(r.out, "rabbitctl.lock") {
				t.Errorf("%v shows the lock:\n%s", command, r.out)
			}
		}
		r := runWith(t, b, "apply", "--yes", "--lock-timeout", "2s", spec)
		r.want(t, 4)
		for _, words := range []string{"waiting for the lock", "rabbitctl.lock:shop", vhost, "--lock-timeout"} {
			if !strings.Contains(r.err, words) {
				t.Errorf("apply does not say %q:\n%s", words, r.err)
			}
		}
		brokertest.EventuallyTrue(t, 30*time.Second, "the holder is named", func() bool {
			r := runWith(t, b, "apply", "--yes", "--lock-timeout", "1s", spec)
			r.want(t, 4)
			return strings.Contains(r.err, fmt.Sprintf("process %d", os.Getpid())) && strings.Contains(r.err, "rabbitctl/test")
		})
		runWith(t, b, "apply", "--yes", "--no-lock", spec).want(t, 0)
		held.Close()
		runWith(t, b, "apply", "--yes", "--lock-timeout", "0s", spec).want(t, 0)
	})
}

// TestLockIsNeeded: without AMQP, or without a right to the lock's name, apply
// changes nothing unless it is told to go without a lock.
func TestLockIsNeeded(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		noAMQP := append(environment(b, b.Username, b.Password), "RABBITCTL_AMQP_URL=amqp://127.0.0.1:1")
		r := runCommand(t, noAMQP, "apply", "--yes", "--timeout", "3s", spec)
		r.want(t, 5)
		if !strings.Contains(r.err, "--no-lock") || b.HasQueue(t, vhost, "jobs") {
			t.Errorf("without AMQP:\n%s", r.err)
		}
		user, password := b.User(t, vhost, "policymaker", "^jobs", ".*", ".*")
		r = runCommand(t, restricted(b, user, password), "apply", "--yes", spec)
		r.want(t, 5)
		if !strings.Contains(r.err, "configure permission") || !strings.Contains(r.err, "rabbitctl.lock:shop") || b.HasQueue(t, vhost, "jobs") {
			t.Errorf("without the right:\n%s", r.err)
		}
		runCommand(t, noAMQP, "apply", "--yes", "--timeout", "3s", "--no-lock", spec).want(t, 0)
		runCommand(t, noAMQP, "plan", "--timeout", "3s", "--detailed-exitcode", spec).want(t, 0)
	})
}

// TestLockLost: a run whose lock goes in the middle finishes what it has begun and
// starts nothing more.
func TestLockLost(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		amqp := brokertest.Proxy(t, b.AMQPAddress()) // carries the lock alone: the rest goes over HTTP
		var cut atomic.Bool
		api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/queues/") && !cut.Swap(true) {
				amqp.Cut()
				time.Sleep(time.Second)
			}
			return 0, "", false
		})
		env := append(environmentAt(api.URL, b), "RABBITCTL_AMQP_URL=amqp://"+amqp.Address)
		r := runCommand(t, env, "apply", "--yes", "--via", "http", "--parallel", "1", spec)
		r.want(t, 6)
		if !strings.Contains(r.err, "lock was lost") || !strings.Contains(r.err, "another run") {
			t.Errorf("apply:\n%s%s", r.out, r.err)
		}
		if !b.HasQueue(t, vhost, "jobs.dead") || b.HasQueue(t, vhost, "jobs") {
			t.Error("what was begun must be there, the rest must not")
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
	})
}

// TestNewVirtualHostIsLocked: a virtual host that apply makes is locked before
// anything is made in it, and what somebody else makes in it meanwhile is seen.
func TestNewVirtualHostIsLocked(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHostNamed(t, "made")
		if status, _ := b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil); status != 204 {
			t.Fatal(status)
		}
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		var locked, done atomic.Bool
		api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			switch {
			case r.Method == http.MethodPut && r.URL.Path == "/api/vhosts/"+vhost && !done.Swap(true):
				b.Put(t, brokertest.Path("vhosts", vhost), map[string]any{})
				b.Grant(t, vhost, b.Username, ".*", ".*", ".*")
				makeRaw(t, b, vhost, [2]string{"queues/jobs.dead", `{"durable":true}`})
			case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/queues/"):
				var q struct{ Exclusive bool }
				b.Get(t, brokertest.Path("queues", vhost, topology.LockPrefix+"shop"), &q)
				locked.Store(q.Exclusive)
			}
			return 0, "", false
		})
		r := runCommand(t, environmentAt(api.URL, b), "apply", "--yes", "--via", "http", spec)
		r.want(t, 4)
		if !strings.Contains(r.err, "stale") || !strings.Contains(r.err, "jobs.dead") || b.HasQueue(t, vhost, "jobs") {
			t.Errorf("apply:\n%s%s", r.out, r.err)
		}
		if status, _ := b.Do(t, "DELETE", brokertest.Path("vhosts", vhost), nil); status != 204 {
			t.Fatal(status)
		}
		runCommand(t, environmentAt(api.URL, b), "apply", "--yes", "--via", "http", spec).want(t, 0)
		if !locked.Load() {
			t.Error("the new virtual host was not locked")
		}
	})
}

// TestKilledHolder: kill -9 of a run frees its lock.
func TestKilledHolder(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "rabbitctl")
	if out, err := exec.Command("go", "build", "-o", binary, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		reached, release := make(chan bool, 1), make(chan bool)
		defer close(release)
		api := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/queues/") {
				select {
				case reached <- true:
				default:
				}
				<-release
			}
			return 0, "", false
		})
		run := exec.Command(binary, "apply", "--yes", "--via", "http", spec)
		run.Env = append(os.Environ(), environmentAt(api.URL, b)...)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		<-reached
		runWith(t, b, "apply", "--yes", "--lock-timeout", "0s", spec).want(t, 4)
		if err := run.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = run.Wait()
		runWith(t, b, "apply", "--yes", "--lock-timeout", "30s", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
	})
}

// TestLocksOfSeveralVirtualHosts: all are locked before anything is done in one, and
// those that were had are given back when another is not.
func TestLocksOfSeveralVirtualHosts(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		first, second := b.VirtualHostNamed(t, "a"), b.VirtualHostNamed(t, "b")
		spec := writeSpec(t, fmt.Sprintf(lockSpec, second)+"---\n"+fmt.Sprintf(lockSpec, first))
		held := holdLock(t, b, second)
		r := runWith(t, b, "apply", "--yes", "--lock-timeout", "1s", spec)
		r.want(t, 4)
		if b.HasQueue(t, first, "jobs") || !strings.Contains(r.err, second) {
			t.Errorf("apply:\n%s%s", r.out, r.err)
		}
		holdLock(t, b, first).Close() // it is free
		held.Close()
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		runWith(t, b, "plan", "--detailed-exitcode", spec).want(t, 0)
	})
}

// TestHolderSeenByOthers: a user with no more than the tag management learns that
// the lock is held, and not by whom when that is another user's connection.
func TestHolderSeenByOthers(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := writeSpec(t, fmt.Sprintf(lockSpec, vhost))
		holdLock(t, b, vhost)
		user, password := b.User(t, vhost, "management", ".*", ".*", ".*")
		r := runCommand(t, restricted(b, user, password), "apply", "--yes", "--lock-timeout", "7s", spec)
		r.want(t, 4)
		if !strings.Contains(r.err, "held by another") || strings.Contains(r.err, "process") {
			t.Errorf("apply:\n%s", r.err)
		}
	})
}
