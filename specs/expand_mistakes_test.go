package specs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

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
		"queues of two types that share a category queue of no type": {
			topology.Quorum, func(q *Queue) { q.DeadLetter = categoriesTo("shared") },
			second(func(q *Queue) {
				q.DeadLetter = categoriesTo("shared")
				q.DeadLetter.Method = "republish"
			}), "generated-differs a.yaml:9:1, generated-differs a.yaml:9:1",
		},
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

func categoriesTo(queue string) *DeadLetter {
	return &DeadLetter{Categories: &topology.Categories{
		Routes:    []topology.CategoryRoute{{Name: "a", Queue: queue}},
		Otherwise: topology.CategoryRoute{Queue: queue},
	}}
}

func TestExpandSharesWrittenCategoryQueues(t *testing.T) {
	classic, quorum, shared := queue("c", topology.Classic), queue("q", topology.Quorum), queue("shared", topology.Quorum)
	classic.DeadLetter, quorum.DeadLetter = categoriesTo("shared"), categoriesTo("shared")
	v, found := expand(t, v43, classic, quorum, shared)
	if len(found) > 0 || len(v.Queues) != 3 || v.Queue("shared").Intent.Role != topology.RoleDeadLetter {
		t.Errorf("%v\n%s", found, dump(v))
	}
}
