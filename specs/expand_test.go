package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

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
				v43: {policy: topology.Arguments{"overflow": "reject-publish-dlx"}}, // rule reject-publish-dlx-on-quorum
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

func TestExpandInheritsPolicy(t *testing.T) {
	definition := topology.Arguments{
		"max-length": int64(9), "expires": int64(5000), "dead-letter-exchange": "other", "dead-letter-routing-key": "k",
	}
	for name, c := range map[string]struct {
		edit func(q *Queue, p *topology.Policy)
		want topology.Arguments
		code []string
	}{
		"keys that the queue does not set": {
			func(q *Queue, _ *topology.Policy) { q.Settings = map[string]any{"expires": int64(1)} },
			topology.Arguments{
				"expires": int64(1), "max-length": int64(9), "dead-letter-exchange": "other", "dead-letter-routing-key": "k",
			},
			nil,
		},
		"no part of another route": {
			func(q *Queue, _ *topology.Policy) { q.DeadLetter = &DeadLetter{Exchange: ptr("own")} },
			topology.Arguments{"dead-letter-exchange": "own", "max-length": int64(9), "expires": int64(5000)},
			nil,
		},
		"not beside arguments": {
			func(q *Queue, _ *topology.Policy) {
				q.Settings = map[string]any{"message-ttl": int64(1)}
				q.Arguments = topology.Arguments{"x-expires": int64(7), "x-dead-letter-exchange": "raw"}
			},
			topology.Arguments{"message-ttl": int64(1), "max-length": int64(9)},
			nil,
		},
		"nothing from a policy that does not match": {
			func(q *Queue, p *topology.Policy) { q.Settings, p.Pattern = map[string]any{"expires": int64(1)}, "^x$" },
			topology.Arguments{"expires": int64(1)},
			nil,
		},
		"no generated policy without settings": {func(*Queue, *topology.Policy) {}, nil, nil},
		"a policy that hides the generated one": {
			func(q *Queue, p *topology.Policy) { q.Settings, p.Priority = map[string]any{"expires": int64(1)}, 1000 },
			topology.Arguments{"expires": int64(1)},
			[]string{"error inherited-policy-priority"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := queue("q", topology.Classic)
			q.InheritPolicy = true
			p := &topology.Policy{VirtualHost: "t", Name: "p", Pattern: "^q", ApplyTo: "all", Definition: definition.Clone()}
			c.edit(q, p)
			host := &VirtualHost{Name: "t", Queues: []*Queue{q}, Policies: []*topology.Policy{p}}
			top, found := (&Spec{VirtualHosts: []*VirtualHost{host}}).Expand(Target{Version: v43})
			var got topology.Arguments
			for _, generated := range top.VirtualHosts[0].Policies {
				if generated.Queue == "q" {
					got = generated.Definition
				}
			}
			if !got.Equal(c.want) || !slices.Equal(codes(found), c.code) || !p.Definition.Equal(definition) {
				t.Errorf("got %v, want %v; findings %v", got, c.want, found)
			}
		})
	}
}

func TestExpandQueueTypes(t *testing.T) {
	untyped := func(name string) *Queue { return queue(name, "") }
	transient := untyped("transient")
	transient.Durable = false
	host := func(declared topology.QueueType) *VirtualHost {
		v := &VirtualHost{Name: "t", Queues: []*Queue{untyped("a"), untyped("b"), transient, queue("c", topology.Classic)}}
		if declared != "" {
			v.Settings = &topology.VirtualHostSettings{VirtualHost: "t", DefaultQueueType: declared, Position: line(2)}
		}
		return v
	}
	for name, c := range map[string]struct {
		declared topology.QueueType
		target   Target
		want     string
		known    topology.QueueType
		code     []string
	}{
		"offline":      {"", Target{}, "classic classic classic classic", "", []string{"info queue-type-defaulted"}},
		"offline 3.10": {"", Target{Version: v310}, "classic classic classic classic", "classic", nil},
		"live quorum": {
			"",
			Target{Version: v40, DefaultQueueTypes: map[string]topology.QueueType{"t": topology.Quorum}},
			"quorum quorum classic classic", "quorum", nil,
		},
		"live quorum on 3.10": {
			"",
			Target{Version: v310, DefaultQueueTypes: map[string]topology.QueueType{"t": topology.Quorum}},
			"classic classic classic classic", "classic", nil,
		},
		"live, not set": {
			"",
			Target{Version: v40, DefaultQueueTypes: map[string]topology.QueueType{"t": ""}},
			"classic classic classic classic", "classic", nil,
		},
		"the spec says it": {
			"quorum",
			Target{Version: v43, DefaultQueueTypes: map[string]topology.QueueType{"t": topology.Classic}},
			"quorum quorum classic classic", "quorum", nil,
		},
		"the spec says it to 3.10": {
			"quorum",
			Target{Version: v310},
			"classic classic classic classic", "classic",
			[]string{"error default-queue-type-unsupported"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			top, found := (&Spec{VirtualHosts: []*VirtualHost{host(c.declared)}}).Expand(c.target)
			v := top.VirtualHosts[0]
			var got []string
			for _, q := range v.Queues {
				got = append(got, string(q.Type))
			}
			if s := strings.Join(got, " "); s != c.want || v.DefaultQueueType != c.known || !slices.Equal(codes(found), c.code) {
				t.Errorf("types %q, default %q, findings %v", s, v.DefaultQueueType, found)
			}
			if v.Queues[0].Intent.Stated["type"] || !v.Queues[3].Intent.Stated["type"] {
				t.Error("stated types are not told from others")
			}
		})
	}
}
