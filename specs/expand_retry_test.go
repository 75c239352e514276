package specs

import (
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func TestExpandRetry(t *testing.T) {
	const s, m = time.Second, time.Minute
	for name, c := range map[string]struct {
		kind     topology.QueueType
		requires string
		retry    Retry
		edit     func(q *Queue)
		version  catalog.Version
		want     string
	}{
		"classic, one delay": {
			topology.Classic, "", Retry{MaxAttempts: 5, Delays: []time.Duration{30 * s}}, nil, v310, `
queue q classic
  retry 5 [30s] wait-queue [q.retry] 
queue q.retry classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 30000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 30000 by arguments
`,
		},
		"quorum, a ladder that repeats a delay": {
			topology.Quorum, "", Retry{MaxAttempts: 3, Delays: []time.Duration{60 * s, 60 * s, 90 * m}}, nil, v40, `
queue q quorum
  retry 3 [1m0s 1m0s 1h30m0s] wait-queue [q.retry.1m q.retry.1m q.retry.90m] 
  delivery-limit = 2 by policy
queue q.retry.1m quorum role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-dead-letter-strategy": "at-least-once", "x-message-ttl": 60000, "x-overflow": "reject-publish"} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  dead-letter-strategy = "at-least-once" by arguments
  message-ttl = 60000 by arguments
  overflow = "reject-publish" by arguments
queue q.retry.90m quorum role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-dead-letter-strategy": "at-least-once", "x-message-ttl": 5400000, "x-overflow": "reject-publish"} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  dead-letter-strategy = "at-least-once" by arguments
  message-ttl = 5400000 by arguments
  overflow = "reject-publish" by arguments
policy rabbitctl:q ^q$ quorum_queues 1000 {"delivery-limit": 2}
`,
		},
		"names and type of wait queues": {
			topology.Quorum, "", Retry{
				Delays:    []time.Duration{s, 2 * s},
				WaitQueue: WaitQueue{Names: "{queue}.again.{n}", Type: topology.Classic},
			}, nil, v40, `
queue q quorum
  retry 0 [1s 2s] wait-queue [q.again.1 q.again.2] 
queue q.again.1 classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 1000 by arguments
queue q.again.2 classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 2000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 2000 by arguments
`,
		},
		"a hand-made wait queue for one delay": {
			topology.Classic, "", Retry{Delays: []time.Duration{s, m}}, func(q *Queue) {
				q.Delays = []topology.Delay{{Delay: s, Queue: "delay.1s"}}
			}, v40, `
queue q classic
  retry 0 [1s 1m0s] wait-queue [delay.1s q.retry.1m] 
queue q.retry.1m classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 60000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 60000 by arguments
`,
		},
		"auto is the broker's own only where 4.3 is required": {
			topology.Quorum, ">=4.3", Retry{MaxAttempts: 5, Delays: []time.Duration{s, 2 * s, 3 * s}}, nil, v43, `
queue q quorum
  retry 5 [1s 2s 3s] delayed-retry [] 
  delayed-retry-max = 3000 by policy
  delayed-retry-min = 1000 by policy
  delayed-retry-type = "failed" by policy
  delivery-limit = 4 by policy
policy rabbitctl:q ^q$ quorum_queues 1000 {"delayed-retry-max": 3000, "delayed-retry-min": 1000, "delayed-retry-type": "failed", "delivery-limit": 4}
`,
		},
		"auto with delays that 4.3 cannot do": {
			topology.Quorum, ">=4.3", Retry{Delays: []time.Duration{s, 5 * s}, WaitQueue: WaitQueue{Type: topology.Classic}}, nil, v43, `
queue q quorum
  retry 0 [1s 5s] wait-queue [q.retry.1s q.retry.5s] 
queue q.retry.1s classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 1000 by arguments
queue q.retry.5s classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 5000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 5000 by arguments
`,
		},
		"auto does not look at the broker": {
			topology.Quorum, ">=4.0", Retry{Delays: []time.Duration{s}, WaitQueue: WaitQueue{Type: topology.Classic, Name: "later"}}, nil, v43, `
queue q quorum
  retry 0 [1s] wait-queue [later] 
queue later classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 1000 by arguments
`,
		},
		"reject-cycle on 3.10": {
			topology.Quorum, "", Retry{
				MaxAttempts: 3, Delays: []time.Duration{s}, Mechanism: topology.MechanismRejectCycle,
				WaitQueue: WaitQueue{Type: topology.Classic},
			}, func(q *Queue) { q.DeadLetter = &DeadLetter{Queue: ptr("dead")} }, v310, `
queue q quorum
  retry 3 [1s] reject-cycle [q.retry] 
  dead-letter queue="dead" exchange="" key "dead" via="" strategy=""
  dead-letter-exchange = "" by policy
  dead-letter-routing-key = "q.retry" by policy
queue q.retry classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 1000 by arguments
policy rabbitctl:q ^q$ queues 1000 {"dead-letter-exchange": "", "dead-letter-routing-key": "q.retry"}
`,
		},
		"reject-cycle on 4.0, settings by arguments": {
			topology.Quorum, "", Retry{
				MaxAttempts: 3, Delays: []time.Duration{s}, Mechanism: topology.MechanismRejectCycle,
				WaitQueue: WaitQueue{Type: topology.Classic},
			}, func(q *Queue) { q.SettingsBy.Default = topology.ByArgument }, v40, `
queue q quorum {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q.retry"}
  retry 3 [1s] reject-cycle [q.retry] 
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q.retry" by arguments
  delivery-limit = -1 by policy
queue q.retry classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 1000} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
  message-ttl = 1000 by arguments
policy rabbitctl:q ^q$ quorum_queues 1000 {"delivery-limit": -1}
`,
		},
		"delayed-exchange": {
			topology.Classic, "", Retry{Delays: []time.Duration{s}, Mechanism: topology.MechanismDelayedExchange}, nil, v40, `
exchange q.delay x-delayed-message {"x-delayed-type": "direct"} (retry of queue "q", a.yaml:1:1)
queue q classic
  retry 0 [1s] delayed-exchange [] q.delay
binding q.delay => queue q [q] (retry of queue "q", a.yaml:1:1)
`,
		},
		"per-message": {
			topology.Classic, "", Retry{Delays: []time.Duration{s}, Mechanism: topology.MechanismPerMessage}, nil, v40, `
queue q classic
  retry 0 [1s] per-message [q.retry] 
queue q.retry classic role=wait {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"} (retry of queue "q", a.yaml:1:1)
  dead-letter-exchange = "" by arguments
  dead-letter-routing-key = "q" by arguments
`,
		},
		"no delays": {
			topology.Quorum, "", Retry{MaxAttempts: 1}, nil, v40, `
queue q quorum
  retry 1 []  [] 
  delivery-limit = 0 by policy
policy rabbitctl:q ^q$ quorum_queues 1000 {"delivery-limit": 0}
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue("q", c.kind)
			q.Retry = &c.retry
			if c.edit != nil {
				c.edit(q)
			}
			host := &VirtualHost{Name: "t", Queues: []*Queue{q}}
			if c.requires != "" {
				required, err := ParseConstraint(c.requires)
				if err != nil {
					t.Fatal(err)
				}
				host.Requires.RabbitMQ = required
			}
			top, found := (&Spec{VirtualHosts: []*VirtualHost{host}}).Expand(Target{Version: c.version})
			if len(found) > 0 {
				t.Errorf("findings: %v", found)
			}
			if got := "\n" + dump(top.VirtualHosts[0]); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
