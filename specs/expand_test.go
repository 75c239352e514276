package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Releases that every behaviour which depends on the version is tested with.
var (
	v310 = catalog.Version{Major: 3, Minor: 10, Patch: 8}
	v40  = catalog.Version{Major: 4, Minor: 0, Patch: 5}
	v43  = catalog.Version{Major: 4, Minor: 3, Patch: 6}
)

// queue is a queue as decoding makes it of no more than a name and a type.
func queue(name string, t topology.QueueType) *Queue {
	return &Queue{
		Name: name, Type: t, Durable: true, Pos: line(1), At: Places{},
		SettingsBy: SettingsBy{Default: topology.ByPolicy}, PolicyPriority: 1000,
	}
}

func line(n int) topology.Position { return topology.Position{File: "a.yaml", Line: n, Column: 1} }

func ptr[T any](v T) *T { return &v }

// expand expands one virtual host "t" of these queues.
func expand(t *testing.T, v catalog.Version, queues ...*Queue) (*topology.VirtualHost, diag.List) {
	t.Helper()
	top, found := (&Spec{VirtualHosts: []*VirtualHost{{Name: "t", Queues: queues}}}).Expand(Target{Version: v})
	return top.VirtualHosts[0], found
}

// dump writes a virtual host for comparison, one object a line.
func dump(v *topology.VirtualHost) string {
	var b strings.Builder
	for _, e := range v.Exchanges {
		fmt.Fprintf(&b, "exchange %s %s", e.Name, e.Type)
		for _, f := range []struct {
			word string
			is   bool
		}{{"transient", !e.Durable}, {"auto-delete", e.AutoDelete}, {"internal", e.Internal}, {"external", e.Intent.External}} {
			if f.is {
				b.WriteString(" " + f.word)
			}
		}
		writeMap(&b, e.Arguments)
		writeMade(&b, e.Intent.Generated, e.Position)
	}
	for _, q := range v.Queues {
		fmt.Fprintf(&b, "queue %s %s", q.Name, q.Type)
		if !q.Durable {
			b.WriteString(" transient")
		}
		if q.Intent.External {
			b.WriteString(" external")
		}
		if q.Intent.Role != "" {
			fmt.Fprintf(&b, " role=%s", q.Intent.Role)
		}
		if q.Intent.Owner != "" {
			fmt.Fprintf(&b, " owner=%s", q.Intent.Owner)
		}
		writeMap(&b, q.Arguments)
		writeMade(&b, q.Intent.Generated, q.Position)
		if r := q.Intent.Retry; r != nil {
			fmt.Fprintf(&b, "  retry %d %v %s %v %s\n", r.MaxAttempts, r.Delays, r.Mechanism, r.WaitQueues, r.Exchange)
		}
		if d := q.Intent.DeadLetter; d != nil {
			key := "own keys"
			if d.RoutingKey != nil {
				key = fmt.Sprintf("key %q", *d.RoutingKey)
			}
			fmt.Fprintf(&b, "  dead-letter queue=%q exchange=%q %s via=%q strategy=%q\n", d.Queue, d.Exchange, key, d.Via, d.Strategy)
		}
		for _, k := range slices.Sorted(maps.Keys(q.Intent.Settings)) {
			s := q.Intent.Settings[k]
			fmt.Fprintf(&b, "  %s = %s by %s\n", k, topology.Text(s.Value), s.By)
		}
	}
	for _, bind := range v.Bindings {
		fmt.Fprintf(&b, "binding %s", bind.Key().Name)
		writeMade(&b, bind.Generated, bind.Position)
	}
	for _, p := range v.Policies {
		fmt.Fprintf(&b, "policy %s %s %s %d", p.Name, p.Pattern, p.ApplyTo, p.Priority)
		writeMap(&b, p.Definition)
		b.WriteByte('\n')
	}
	return b.String()
}

func writeMap(b *strings.Builder, m topology.Arguments) {
	if len(m) > 0 {
		b.WriteString(" " + topology.Text(m))
	}
}

func writeMade(b *strings.Builder, generated string, pos topology.Position) {
	if generated != "" {
		fmt.Fprintf(b, " (%s, %s)", generated, pos)
	}
	b.WriteByte('\n')
}

// codes lists findings as "severity code".
func codes(list diag.List) []string {
	var s []string
	for _, d := range list {
		s = append(s, string(d.Severity)+" "+d.Code)
	}
	return s
}

func TestExpandSettings(t *testing.T) {
	type want struct {
		arguments, policy topology.Arguments
		found             []string
	}
	for name, c := range map[string]struct {
		queue *Queue
		edit  func(q *Queue)
		want  map[catalog.Version]want
	}{
		"what can change goes into a policy": {
			edit: func(q *Queue) { q.Settings = map[string]any{"message-ttl": int64(1000), "max-priority": int64(5)} },
			want: map[catalog.Version]want{
				v310: {topology.Arguments{"x-max-priority": int64(5)}, topology.Arguments{"message-ttl": int64(1000)}, nil},
				v43:  {topology.Arguments{"x-max-priority": int64(5)}, topology.Arguments{"message-ttl": int64(1000)}, nil},
			},
		},
		"settings_by arguments": {
			edit: func(q *Queue) {
				q.SettingsBy.Default = topology.ByArgument
				q.Settings = map[string]any{"message-ttl": int64(1000)}
			},
			want: map[catalog.Version]want{v40: {arguments: topology.Arguments{"x-message-ttl": int64(1000)}}},
		},
		"settings_by of one setting": {
			edit: func(q *Queue) {
				q.SettingsBy.Each = map[string]topology.By{"expires": topology.ByArgument}
				q.Settings = map[string]any{"message-ttl": int64(1000), "expires": int64(2000)}
			},
			want: map[catalog.Version]want{
				v40: {topology.Arguments{"x-expires": int64(2000)}, topology.Arguments{"message-ttl": int64(1000)}, nil},
			},
		},
		"declared_by clients makes arguments": {
			edit: func(q *Queue) {
				q.DeclaredByClients = true
				q.Settings = map[string]any{"message-ttl": int64(1000)}
			},
			want: map[catalog.Version]want{v40: {arguments: topology.Arguments{"x-message-ttl": int64(1000)}}},
		},
		"not for the type": {
			edit: func(q *Queue) { q.Settings = map[string]any{"delivery-limit": int64(4)} },
			want: map[catalog.Version]want{v43: {found: []string{"error setting-not-for-type"}}},
		},
		"not for the version": {
			queue: queue("q", topology.Quorum),
			edit:  func(q *Queue) { q.Settings = map[string]any{"delayed-retry-min": int64(4)} },
			want: map[catalog.Version]want{
				v40: {found: []string{"error setting-not-for-version"}},
				v43: {policy: topology.Arguments{"delayed-retry-min": int64(4)}},
				{}:  {policy: topology.Arguments{"delayed-retry-min": int64(4)}, found: []string{"warning setting-not-for-version"}},
			},
		},
		"leader locator of a classic queue": {
			edit: func(q *Queue) { q.Settings = map[string]any{"queue-leader-locator": "balanced"} },
			want: map[catalog.Version]want{
				v310: {found: []string{"error setting-not-for-version"}},
				v40:  {arguments: topology.Arguments{"x-queue-leader-locator": "balanced"}},
			},
		},
		"unlimited": {
			queue: queue("q", topology.Quorum),
			edit:  func(q *Queue) { q.Settings = map[string]any{"delivery-limit": int64(-1)} },
			want: map[catalog.Version]want{
				v310: {},
				v40:  {policy: topology.Arguments{"delivery-limit": int64(-1)}},
				{}:   {policy: topology.Arguments{"delivery-limit": int64(-1)}},
			},
		},
		"an old setting without effect": {
			edit: func(q *Queue) { q.Settings = map[string]any{"queue-mode": "lazy"} },
			want: map[catalog.Version]want{
				v310: {policy: topology.Arguments{"queue-mode": "lazy"}},
				v43:  {policy: topology.Arguments{"queue-mode": "lazy"}, found: []string{"warning setting-without-effect"}},
			},
		},
		"a value that the type takes for another": {
			queue: queue("q", topology.Quorum),
			edit:  func(q *Queue) { q.Settings = map[string]any{"overflow": "reject-publish-dlx"} },
			want: map[catalog.Version]want{
				v43: {policy: topology.Arguments{"overflow": "reject-publish-dlx"}, found: []string{"error setting-value"}},
			},
		},
		"by setting and by argument": {
			edit: func(q *Queue) {
				q.Settings = map[string]any{"expires": int64(1000)}
				q.Arguments = topology.Arguments{"x-expires": int64(1000)}
			},
			want: map[catalog.Version]want{
				v43: {arguments: topology.Arguments{"x-expires": int64(1000)}, found: []string{"error argument-twice"}},
			},
		},
		"raw arguments go out as they are": {
			edit: func(q *Queue) { q.Arguments = topology.Arguments{"x-foo": "1", "x-delivery-limit": int64(-1)} },
			want: map[catalog.Version]want{v310: {arguments: topology.Arguments{"x-foo": "1", "x-delivery-limit": int64(-1)}}},
		},
		"external queues get nothing": {
			edit: func(q *Queue) {
				q.External = true
				q.Settings = map[string]any{"expires": int64(1000)}
				q.Arguments = topology.Arguments{"x-max-priority": int64(3)}
			},
			want: map[catalog.Version]want{v43: {arguments: topology.Arguments{"x-max-priority": int64(3)}}},
		},
		"a dead-letter queue is not limited": {
			queue: queue("q", topology.Quorum),
			edit: func(q *Queue) {
				q.Role, q.SettingsBy.Default = topology.RoleDeadLetter, topology.ByArgument
				q.Settings = map[string]any{"max-length": int64(9)}
			},
			want: map[catalog.Version]want{
				v310: {arguments: topology.Arguments{"x-max-length": int64(9)}},
				v40:  {topology.Arguments{"x-max-length": int64(9)}, topology.Arguments{"delivery-limit": int64(-1)}, nil},
			},
		},
		"a dead-letter queue with a limit of its own": {
			queue: queue("q", topology.Quorum),
			edit: func(q *Queue) {
				q.Role, q.Settings = topology.RoleDeadLetter, map[string]any{"delivery-limit": int64(99)}
			},
			want: map[catalog.Version]want{v43: {policy: topology.Arguments{"delivery-limit": int64(99)}}},
		},
		"dead_letter on a stream": {
			queue: queue("q", topology.Stream),
			edit:  func(q *Queue) { q.DeadLetter = &DeadLetter{Queue: ptr("d")} },
			want:  map[catalog.Version]want{v43: {found: []string{"error setting-not-for-type"}}},
		},
		"retry on a stream": {
			queue: queue("q", topology.Stream),
			edit:  func(q *Queue) { q.Retry = &Retry{MaxAttempts: 3} },
			want:  map[catalog.Version]want{v43: {found: []string{"error setting-not-for-type"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for v, w := range c.want {
				q := c.queue
				if q == nil {
					q = queue("q", topology.Classic)
				}
				copied := *q
				c.edit(&copied)
				got, found := expand(t, v, &copied)
				if !got.Queues[0].Arguments.Equal(w.arguments) {
					t.Errorf("%s: arguments %v, want %v", v, got.Queues[0].Arguments, w.arguments)
				}
				var policy topology.Arguments
				if len(got.Policies) > 0 {
					policy = got.Policies[0].Definition
				}
				if !policy.Equal(w.policy) {
					t.Errorf("%s: policy %v, want %v", v, policy, w.policy)
				}
				if !slices.Equal(codes(found), w.found) {
					t.Errorf("%s: findings %v, want %v: %v", v, codes(found), w.found, found)
				}
			}
		})
	}
}

func TestExpandPolicyForm(t *testing.T) {
	for _, c := range []struct {
		t    topology.QueueType
		v    catalog.Version
		want string
	}{
		{topology.Classic, v310, "queues"},
		{topology.Quorum, v310, "queues"},
		{topology.Classic, v40, "classic_queues"},
		{topology.Quorum, v43, "quorum_queues"},
	} {
		q := queue("a.b", c.t)
		q.Settings, q.PolicyPriority = map[string]any{"expires": int64(1)}, 7
		v, _ := expand(t, c.v, q)
		p := v.Policies[0]
		if p.Name != "rabbitctl:a.b" || p.Queue != "a.b" || p.Pattern != `^a\.b$` || p.ApplyTo != c.want || p.Priority != 7 {
			t.Errorf("%s %s: %+v", c.t, c.v, p)
		}
	}
	long := queue(strings.Repeat(".", 255), topology.Classic)
	long.Settings = map[string]any{"expires": int64(1)}
	if v, found := expand(t, v43, long); len(found) != 0 || len(v.Policies[0].Pattern) != 512 {
		t.Errorf("255 dots: %v", found)
	}
	over := queue(strings.Repeat(".", 500), topology.Classic)
	over.Settings = map[string]any{"expires": int64(1)}
	if v, found := expand(t, v43, over); !slices.Equal(codes(found), []string{"error policy-pattern-too-long"}) || len(v.Policies) != 0 {
		t.Errorf("a long pattern: %v", found)
	}
}

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

func TestExpandMistakes(t *testing.T) {
	second := func(edit func(q *Queue)) *Queue {
		q := queue("second", topology.Classic)
		q.Pos = line(9)
		edit(q)
		return q
	}
	for name, c := range map[string]struct {
		kind topology.QueueType
		edit func(q *Queue)
		more *Queue
		want string
	}{
		"max_attempts 0": {topology.Quorum, func(q *Queue) {
			q.Retry, q.At["retry.max_attempts"] = &Retry{}, line(3)
		}, nil, "max-attempts a.yaml:3:1"},
		"max_attempts negative": {topology.Classic, func(q *Queue) { q.Retry = &Retry{MaxAttempts: -1} }, nil, "max-attempts a.yaml:1:1"},
		"a limit beside max_attempts": {topology.Quorum, func(q *Queue) {
			q.Retry, q.Settings = &Retry{MaxAttempts: 5}, map[string]any{"delivery-limit": int64(5)}
			q.At["delivery_limit"] = line(4)
		}, nil, "setting-contradiction a.yaml:4:1"},
		"the same limit beside max_attempts": {topology.Quorum, func(q *Queue) {
			q.Retry, q.Settings = &Retry{MaxAttempts: 5}, map[string]any{"delivery-limit": int64(4)}
		}, nil, ""},
		"a raw limit beside max_attempts": {topology.Quorum, func(q *Queue) {
			q.Retry, q.Arguments = &Retry{MaxAttempts: 5}, topology.Arguments{"x-delivery-limit": int64(5)}
		}, nil, "setting-contradiction a.yaml:1:1"},
		"at-least-once beside drop-head": {topology.Quorum, func(q *Queue) {
			q.DeadLetter, q.Settings = &DeadLetter{Queue: ptr("d"), Strategy: "at-least-once"}, map[string]any{"overflow": "drop-head"}
		}, nil, "setting-contradiction a.yaml:1:1"},
		"at-least-once beside a raw overflow": {topology.Quorum, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Queue: ptr("d"), Strategy: "at-least-once"}
			q.Arguments = topology.Arguments{"x-overflow": "drop-head"}
		}, nil, "setting-contradiction a.yaml:1:1"},
		"at-least-once on classic": {topology.Classic, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Queue: ptr("d"), Strategy: "at-least-once"}
		}, nil, "setting-not-for-type a.yaml:1:1"},
		"at-most-once on classic": {topology.Classic, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Queue: ptr("d"), Strategy: "at-most-once"}
		}, nil, ""},
		"no target": {topology.Classic, func(q *Queue) { q.DeadLetter = &DeadLetter{} }, nil, "dead-letter-target a.yaml:1:1"},
		"two targets": {topology.Classic, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Queue: ptr("d"), Exchange: ptr("x")}
		}, nil, "dead-letter-target a.yaml:1:1"},
		"via without a queue": {topology.Classic, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Via: "x", Exchange: ptr("x")}
		}, nil, "dead-letter-target a.yaml:1:1"},
		"dead_letter and its setting": {topology.Classic, func(q *Queue) {
			q.DeadLetter, q.Settings = &DeadLetter{Queue: ptr("d")}, map[string]any{"dead-letter-exchange": "x"}
		}, nil, "setting-contradiction a.yaml:1:1"},
		"the wait queue as the end": {topology.Quorum, func(q *Queue) {
			q.Retry, q.DeadLetter = &Retry{Delays: []time.Duration{time.Second}}, &DeadLetter{Queue: ptr("q.retry")}
		}, nil, "dead-letter-into-wait-queue a.yaml:1:1"},
		"reject-cycle with what enters without a reject": {topology.Quorum, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second}, Mechanism: topology.MechanismRejectCycle}
			q.Settings = map[string]any{"message-ttl": int64(1), "max-length": int64(1)}
			q.Arguments = topology.Arguments{"x-max-length-bytes": int64(1)}
			q.DeadLetter = &DeadLetter{Queue: ptr("d"), Strategy: "at-least-once"}
		}, nil, strings.Join(slices.Repeat([]string{"reject-cycle-conflict a.yaml:1:1"}, 4), ", ")},
		"reject-cycle with a limit": {topology.Quorum, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second}, Mechanism: topology.MechanismRejectCycle}
			q.Settings = map[string]any{"delivery-limit": int64(4)}
		}, nil, "setting-contradiction a.yaml:1:1"},
		"reject-cycle with two delays": {topology.Quorum, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second, time.Minute}, Mechanism: topology.MechanismRejectCycle}
		}, nil, "retry-delays a.yaml:1:1"},
		"per-message with two delays": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second, time.Minute}, Mechanism: topology.MechanismPerMessage}
		}, nil, "retry-delays a.yaml:1:1"},
		"a mechanism without delays": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Mechanism: topology.MechanismWaitQueue}
		}, nil, "retry-delays-missing a.yaml:1:1"},
		"delayed-retry on classic": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second}, Mechanism: topology.MechanismDelayedRetry}
		}, nil, strings.Join(slices.Repeat([]string{"setting-not-for-type a.yaml:1:1"}, 3), ", ")},
		"delayed-retry with other delays": {topology.Quorum, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second, 5 * time.Second}, Mechanism: topology.MechanismDelayedRetry}
		}, nil, "retry-delays a.yaml:1:1"},
		"delays that cannot be": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{-time.Second, time.Microsecond, 20 * 365 * 24 * time.Hour}}
		}, nil, strings.Join(slices.Repeat([]string{"retry-delay a.yaml:1:1"}, 3), ", ")},
		"one name for two delays": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second, time.Minute}, WaitQueue: WaitQueue{Name: "w"}}
		}, nil, "wait-queue-name a.yaml:1:1"},
		"names without the delay": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second, time.Minute}, WaitQueue: WaitQueue{Names: "{queue}.w"}}
		}, nil, "wait-queue-name a.yaml:1:1"},
		"a stream as wait queue": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second}, WaitQueue: WaitQueue{Type: topology.Stream}}
		}, nil, "wait-queue-type a.yaml:1:1"},
		"its own wait queue": {topology.Classic, func(q *Queue) {
			q.Retry = &Retry{Delays: []time.Duration{time.Second}, WaitQueue: WaitQueue{Name: "q"}}
		}, nil, "generated-differs a.yaml:1:1"},
		"one wait queue for two queues": {
			topology.Classic, func(q *Queue) {
				q.Retry = &Retry{Delays: []time.Duration{time.Second}, WaitQueue: WaitQueue{Name: "w"}}
			},
			second(func(q *Queue) {
				q.Retry = &Retry{Delays: []time.Duration{time.Second}, WaitQueue: WaitQueue{Name: "w"}}
			}), "generated-differs a.yaml:9:1",
		},
		"a name that is too long": {topology.Classic, func(q *Queue) {
			q.Name, q.Retry = strings.Repeat("x", 250), &Retry{Delays: []time.Duration{time.Second}}
		}, nil, "name-too-long a.yaml:1:1"},
		"categories without otherwise": {topology.Quorum, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Categories: &topology.Categories{Routes: []topology.CategoryRoute{{Name: "a", Queue: "d"}}}}
		}, nil, "categories-otherwise a.yaml:1:1"},
		"two owners of one category queue": {topology.Quorum, func(q *Queue) {
			q.DeadLetter = &DeadLetter{Categories: &topology.Categories{
				Routes:    []topology.CategoryRoute{{Name: "a", Queue: "d", Owner: "me"}},
				Otherwise: topology.CategoryRoute{Queue: "d", Owner: "you"},
			}}
		}, nil, "generated-differs a.yaml:1:1"},
		"the same binding twice": {topology.Classic, func(q *Queue) {
			q.Bindings = []*Binding{{Pos: line(2), Exchange: "x", RoutingKeys: []string{"a", "a"}, KeyPos: []topology.Position{line(3), line(4)}}}
		}, nil, "duplicate-binding a.yaml:4:1"},
		"match twice": {topology.Classic, func(q *Queue) {
			q.Bindings = []*Binding{{Pos: line(2), Exchange: "x", Match: "any", Arguments: topology.Arguments{"x-match": "all"}}}
		}, nil, "setting-contradiction a.yaml:2:1"},
		"a written wait queue with another time": {
			topology.Classic, func(q *Queue) { q.Retry = &Retry{Delays: []time.Duration{time.Second}} },
			second(func(q *Queue) { q.Name, q.Settings = "q.retry", map[string]any{"message-ttl": int64(5000)} }),
			"setting-contradiction a.yaml:9:1",
		},
		"a written wait queue with the same time": {
			topology.Classic, func(q *Queue) { q.Retry = &Retry{Delays: []time.Duration{time.Second}} },
			second(func(q *Queue) { q.Name, q.Settings = "q.retry", map[string]any{"message-ttl": int64(1000)} }), "",
		},
		"a written wait queue of another type than asked for": {
			topology.Classic, func(q *Queue) {
				q.Retry = &Retry{Delays: []time.Duration{time.Second}, WaitQueue: WaitQueue{Type: topology.Quorum}}
			},
			second(func(q *Queue) { q.Name = "q.retry" }), "generated-differs a.yaml:1:1",
		},
		"a written wait queue with another role": {
			topology.Classic, func(q *Queue) { q.Retry = &Retry{Delays: []time.Duration{time.Second}} },
			second(func(q *Queue) { q.Name, q.Role = "q.retry", topology.RoleDeadLetter }), "generated-differs a.yaml:1:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue("q", c.kind)
			c.edit(q)
			queues := []*Queue{q}
			if c.more != nil {
				queues = append(queues, c.more)
			}
			_, found := expand(t, v43, queues...)
			var got []string
			for _, d := range found {
				got = append(got, d.Code+" "+d.Position.String())
				if d.Severity != diag.Error || d.Detail == "" || d.Object.Name == "" {
					t.Errorf("finding %+v", d)
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q: %v", s, c.want, found)
			}
		})
	}
}
