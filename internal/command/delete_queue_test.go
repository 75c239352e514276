package command_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// TestRowC10 holds rows C10 and A40: a queue that left the spec with messages stays,
// the plan says how many are at risk and signals it; with consumers too; emptied and
// unused it goes.
func TestRowC10(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, kind := range []string{"classic", "quorum"} {
			t.Run(kind, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				with := stackSpec(t, "c10", vhost, "queues: {keep: {type: classic}, jobs: {type: "+kind+", contract: none, reason: test}}")
				without := stackSpec(t, "c10", vhost, "queues: {keep: {type: classic}, more: {type: classic}}")
				runWith(t, b, "apply", "--yes", with).want(t, 0)
				b.Publish(t, vhost, "", "jobs", 3)
				b.AwaitDepth(t, vhost, "jobs", 3, 10*time.Second)
				wantPlan(t, b, 4, without, []string{"create queue/more", "delete queue/jobs blocked"},
					"cost: 3 messages", "holds 3 messages, which would be lost", "--allow delete=queue/jobs")
				runWith(t, b, "apply", "--yes", without).want(t, 4)
				if b.HasQueue(t, vhost, "more") {
					t.Error("something was done beside what is blocked")
				}
				runWith(t, b, "apply", "--yes", "--skip-blocked", without).want(t, 4)
				b.AwaitDepth(t, vhost, "jobs", 3, 10*time.Second)

				ch := b.Channel(t, vhost)
				deliveries, err := ch.Consume("jobs", "", true, false, false, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					<-deliveries
				}
				wantPlan(t, b, 4, without, []string{"delete queue/jobs blocked"}, "has 1 consumer")
				ch.Close()
				b.AwaitDepth(t, vhost, "jobs", 0, 10*time.Second)
				wantPlan(t, b, 2, without, []string{"delete queue/jobs"})
				runWith(t, b, "apply", "--yes", without).want(t, 0)
				if b.HasQueue(t, vhost, "jobs") {
					t.Error("the empty queue is there")
				}
				wantRecorded(t, b, "c10", vhost, "queue/keep", "queue/more")
				secondPlanIsEmpty(t, b, without)
			})
		}
	})
}

// TestDeleteUnacknowledged: what is with a client is in no passive declaration; the
// proof finds it and the queue stays.
func TestDeleteUnacknowledged(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		runWith(t, b, "apply", "--yes", stackSpec(t, "unacked", vhost, "queues: {jobs: {type: classic}, keep: {type: classic}}")).want(t, 0)
		b.Publish(t, vhost, "", "jobs", 1)
		b.AwaitDepth(t, vhost, "jobs", 1, 10*time.Second)
		ch := b.Channel(t, vhost)
		if _, ok, err := ch.Get("jobs", false); err != nil || !ok {
			t.Fatal(err, ok)
		}
		less := stackSpec(t, "unacked", vhost, "queues: {keep: {type: classic}}")
		wantPlan(t, b, 2, less, []string{"delete queue/jobs"})
		r := runWith(t, b, "apply", "--yes", less)
		if r.exit != 6 && r.exit != 5 || !strings.Contains(r.out, "not proved empty") {
			t.Errorf("apply: %d %s%s", r.exit, r.out, r.err)
		}
		ch.Close() // back it goes
		b.AwaitDepth(t, vhost, "jobs", 1, 10*time.Second)
		wantRecorded(t, b, "unacked", vhost, "queue/jobs", "queue/keep")
	})
}

// TestDeleteStream: a stream is never taken for empty, and goes when that is said.
func TestDeleteStream(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		runWith(t, b, "apply", "--yes", stackSpec(t, "streams", vhost, "queues: {log: {type: stream}, keep: {type: classic}}")).want(t, 0)
		less := stackSpec(t, "streams", vhost, "queues: {keep: {type: classic}}")
		wantPlan(t, b, 4, less, []string{"delete queue/log blocked"}, "is a stream, which is never taken for empty")
		runWith(t, b, "apply", "--yes", "--allow", "delete=queue/log", less).want(t, 0)
		secondPlanIsEmpty(t, b, less)
	})
}

// TestChangedDelay: the wait queue of a delay that was changed stays while messages
// wait in it, stops nothing, and goes when they are back.
func TestChangedDelay(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := `
queues:
  jobs: {type: classic, retry: {max_attempts: 3, delays: [DELAYS]}, dead_letter: jobs.dead}
  jobs.dead: {type: classic, role: dead-letter, owner: team}`
		old := stackSpec(t, "delays", vhost, strings.ReplaceAll(text, "DELAYS", "20s, 5m"))
		changed := stackSpec(t, "delays", vhost, strings.ReplaceAll(text, "DELAYS", "1m, 5m"))
		runWith(t, b, "apply", "--yes", old).want(t, 0)
		if !b.HasQueue(t, vhost, "jobs.retry.20s") {
			t.Fatal("no wait queue")
		}
		b.Publish(t, vhost, "", "jobs.retry.20s", 1)
		b.AwaitDepth(t, vhost, "jobs.retry.20s", 1, 10*time.Second)
		wantPlan(t, b, 2, changed, []string{"create queue/jobs.retry.1m"},
			"left behind: queue \"jobs.retry.20s\"", "still holds 1 message, which goes to queue \"jobs\"")
		runWith(t, b, "apply", "--yes", changed).want(t, 0)
		b.AwaitDepth(t, vhost, "jobs", 1, time.Minute)
		wantPlan(t, b, 2, changed, []string{"delete queue/jobs.retry.20s"})
		runWith(t, b, "apply", "--yes", changed).want(t, 0)
		secondPlanIsEmpty(t, b, changed)
		b.AwaitDepth(t, vhost, "jobs", 1, 10*time.Second)
	})
}

// TestLastRoute: what dead letters of something else still take is not deleted, and
// a renamed dead-letter queue goes after its source points at the new one.
func TestLastRoute(t *testing.T) {
	t.Parallel() // it mostly waits
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		first := stackSpec(t, "routes", vhost, `
exchanges: {dlx: {type: fanout}}
queues:
  jobs: {type: quorum, dead_letter: jobs.dead}
  jobs.dead: {type: quorum, role: dead-letter, owner: team}
  all.dead: {type: classic, role: dead-letter, owner: team, bindings: [{exchange: dlx}]}`)
		second := stackSpec(t, "routes", vhost, `
queues:
  jobs: {type: quorum, dead_letter: jobs.failed}
  jobs.failed: {type: quorum, role: dead-letter, owner: team}`)
		runWith(t, b, "apply", "--yes", first).want(t, 0)
		// A queue of others dead-letters to our exchange.
		b.DeclareQueue(t, vhost, "foreign", amqp091.Table{"x-dead-letter-exchange": "dlx"})
		got, r := planned(t, b, 4, second)
		for _, want := range []string{"delete binding/dlx => queue all.dead blocked", "delete exchange/dlx blocked", "delete queue/all.dead blocked", "delete queue/jobs.dead"} {
			if !slices.Contains(got, want) {
				t.Errorf("the plan lacks %q: %q", want, got)
			}
		}
		if !strings.Contains(r.out, `dead messages of queue \"foreign\"`) {
			t.Errorf("plan: %s", r.out)
		}
		if status, _ := b.Do(t, http.MethodDelete, brokertest.Path("queues", vhost, "foreign"), nil); status != 204 {
			t.Fatal(status)
		}
		r = runWith(t, b, "apply", "--yes", second)
		r.want(t, 0)
		for _, gone := range []string{"jobs.dead", "all.dead"} {
			if b.HasQueue(t, vhost, gone) {
				t.Errorf("%s is there", gone)
			}
		}
		secondPlanIsEmpty(t, b, second)
	})
}

// TestRowB13: giving up at-least-once deletes what waits for the confirm of a dead
// letter, which no passive declaration counts; the plan knows of it.
func TestRowB13(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := `queues:
  jobs: {type: quorum, dead_letter: {queue: jobs.dead, strategy: STRATEGY}}
  jobs.dead: {type: quorum, role: dead-letter, owner: team}`
		once := onVHost(t, vhost, strings.ReplaceAll(text, "STRATEGY", "at-most-once"))
		runWith(t, b, "apply", "--yes", onVHost(t, vhost, strings.ReplaceAll(text, "STRATEGY", "at-least-once"))).want(t, 0)
		wantPlan(t, b, 2, once, []string{"update policy/rabbitctl:jobs"})
		deleteQueue(t, b, vhost, "jobs.dead") // now dead letters wait in jobs
		b.Publish(t, vhost, "", "jobs", 1)
		ch := b.Channel(t, vhost)
		brokertest.EventuallyTrue(t, 10*time.Second, "the message", func() bool {
			message, ok, err := ch.Get("jobs", false)
			return err == nil && ok && message.Nack(false, false) == nil
		})
		brokertest.EventuallyTrue(t, 30*time.Second, "a dead letter that waits", func() bool {
			var q struct {
				Waiting int `json:"messages_dlx"`
			}
			b.Get(t, brokertest.Path("queues", vhost, "jobs"), &q)
			return q.Waiting == 1
		})
		if b.Depth(t, vhost, "jobs") != 0 {
			t.Error("a passive declaration counts it")
		}
		wantPlan(t, b, 4, once, []string{"create queue/jobs.dead", "update policy/rabbitctl:jobs blocked"}, "no longer at-least-once", "1 message")
	})
}
