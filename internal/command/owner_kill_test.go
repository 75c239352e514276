package command_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// killedAt runs apply through a proxy and kills it with SIGKILL at the nth request
// for which at is true; that request is not answered.
func killedAt(t *testing.T, b *brokertest.Broker, nth int, at func(*http.Request) bool, args ...string) {
	t.Helper()
	var process atomic.Pointer[os.Process]
	var seen atomic.Int64
	started := make(chan struct{})
	proxy := brokertest.HTTPProxy(t, b, func(r *http.Request) (int, string, bool) {
		if !at(r) || seen.Add(1) < int64(nth) {
			return 0, "", false
		}
		<-started
		process.Load().Kill() //nolint:errcheck // it may be dead already
		return brokertest.CutConnection, "", true
	})
	cmd := exec.CommandContext(t.Context(), "rabbitctl", append([]string{"apply", "--yes"}, args...)...)
	cmd.Env = append(os.Environ(), environment(proxy.Broker, b.Username, b.Password)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process.Store(cmd.Process)
	close(started)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("it was not killed: %v", err)
	}
}

func isRecord(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/api/global-parameters/")
}

// TestKilledBetweenPendingAndOwned: what a killed run has made is known to be the
// stack's, what it has not made is not, and both are finished by the next run.
func TestKilledBetweenPendingAndOwned(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		both := "exchanges: {x: {type: fanout}, y: {type: fanout}}"
		t.Run("all made", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			spec := stackSpec(t, "killed", vhost, both)
			killedAt(t, b, 2, isRecord, spec)
			wantRecorded(t, b, "killed", vhost, "exchange/x?", "exchange/y?")
			secondPlanIsEmpty(t, b, spec)
			runWith(t, b, "apply", "--yes", spec).want(t, 0)
			wantRecorded(t, b, "killed", vhost, "exchange/x", "exchange/y")
		})
		t.Run("all made and one not wanted any more", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			killedAt(t, b, 2, isRecord, stackSpec(t, "killed", vhost, both))
			less := stackSpec(t, "killed", vhost, "exchanges: {x: {type: fanout}}")
			wantPlan(t, b, 2, less, []string{"delete exchange/y"})
			runWith(t, b, "apply", "--yes", less).want(t, 0)
			wantRecorded(t, b, "killed", vhost, "exchange/x")
		})
		t.Run("nothing made", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			first := func(r *http.Request) bool {
				return r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/api/exchanges/")
			}
			killedAt(t, b, 1, first, "--via", "http", "--parallel", "1", stackSpec(t, "killed", vhost, both))
			wantRecorded(t, b, "killed", vhost, "exchange/x?", "exchange/y?")
			// What another makes under a name that is no longer in the spec stays out of it
			// once a run has seen that it was not there.
			less := stackSpec(t, "killed", vhost, "exchanges: {x: {type: fanout}}")
			runWith(t, b, "apply", "--yes", less).want(t, 0)
			wantRecorded(t, b, "killed", vhost, "exchange/x")
			b.DeclareExchange(t, vhost, "y", "fanout", nil)
			secondPlanIsEmpty(t, b, less)
		})
		t.Run("before the first record", func(t *testing.T) {
			vhost := b.VirtualHost(t)
			spec := stackSpec(t, "killed", vhost, both)
			killedAt(t, b, 1, isRecord, spec)
			wantRecorded(t, b, "killed", vhost)
			wantPlan(t, b, 2, spec, []string{"create exchange/x", "create exchange/y"})
		})
	})
}

// TestSavedPlanOfAStack: a saved plan carries its deletes and the stack, and is
// stale when the record of what it touches has changed, but not of something else.
func TestSavedPlanOfAStack(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		out := t.TempDir() + "/plan.json"
		first := stackSpec(t, "saved", vhost, "exchanges: {x: {type: fanout}, y: {type: fanout}}")
		second := stackSpec(t, "saved", vhost, "exchanges: {x: {type: fanout}, z: {type: fanout}}")
		runWith(t, b, "apply", "--yes", first).want(t, 0)
		runWith(t, b, "plan", "--out", out, second).want(t, 0)
		runWith(t, b, "apply", "--yes", stackSpec(t, "other", vhost, "exchanges: {o: {type: fanout}}")).want(t, 0)
		runWith(t, b, "apply", "--yes", out).want(t, 0)
		wantRecorded(t, b, "saved", vhost, "exchange/x", "exchange/z")
		secondPlanIsEmpty(t, b, second)

		runWith(t, b, "plan", "--out", out, first).want(t, 0) // deletes z
		runWith(t, b, "apply", "--yes", "--adopt", "exchange/z", stackSpec(t, "other", vhost, "exchanges: {o: {type: fanout}, z: {type: fanout}}")).want(t, 0)
		r := runWith(t, b, "apply", "--yes", out)
		r.want(t, 4)
		if !strings.Contains(r.err, `exchange "z"`) {
			t.Errorf("apply: %s", r.err)
		}
	})
}

// TestCase58: what is gone when it is to be deleted counts as deleted.
func TestCase58(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		runWith(t, b, "apply", "--yes", stackSpec(t, "case58", vhost, "exchanges: {x: {type: fanout}, y: {type: fanout}}")).want(t, 0)
		less := stackSpec(t, "case58", vhost, "exchanges: {y: {type: fanout}}")
		gone := func(r *http.Request) (int, string, bool) {
			if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/exchanges/") {
				b.Do(t, "DELETE", brokertest.Path("exchanges", vhost, "x"), nil)
			}
			return 0, "", false
		}
		proxy := brokertest.HTTPProxy(t, b, gone)
		runCommand(t, environment(proxy.Broker, b.Username, b.Password), "apply", "--yes", "--via", "http", less).want(t, 0)
		wantRecorded(t, b, "case58", vhost, "exchange/y")
	})
}

// TestSavedPlanOfSeveralHosts: what is recorded in a virtual host in which a saved
// plan changes nothing stays so, and a plan that only adopts does that.
func TestSavedPlanOfSeveralHosts(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		changed, quiet := b.VirtualHost(t), b.VirtualHost(t)
		out := t.TempDir() + "/plan.json"
		text := "exchanges: {x: {type: fanout}%s}"
		first := []string{stackSpec(t, "several", changed, "exchanges: {x: {type: fanout}}"), stackSpec(t, "several", quiet, "exchanges: {x: {type: fanout}}")}
		runWith(t, b, "apply", "--yes", first[0], first[1]).want(t, 0)
		more := stackSpec(t, "several", changed, strings.ReplaceAll(text, "%s", ", y: {type: fanout}"))
		runWith(t, b, "plan", "--out", out, more, first[1]).want(t, 0)
		runWith(t, b, "apply", "--yes", out).want(t, 0)
		wantRecorded(t, b, "several", changed, "exchange/x", "exchange/y")
		wantRecorded(t, b, "several", quiet, "exchange/x")

		b.DeclareExchange(t, quiet, "there", "fanout", nil)
		adopting := stackSpec(t, "several", quiet, strings.ReplaceAll(text, "%s", ", there: {type: fanout}"))
		runWith(t, b, "plan", "--adopt", "exchange/there", "--out", out, more, adopting).want(t, 0)
		runWith(t, b, "apply", "--yes", out).want(t, 0)
		wantRecorded(t, b, "several", changed, "exchange/x", "exchange/y")
		wantRecorded(t, b, "several", quiet, "exchange/x", "exchange/there")
	})
}
