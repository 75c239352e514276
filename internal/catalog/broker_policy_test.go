package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// policyKind is a policy or an operator policy, as the tests below write it.
type policyKind struct {
	path     string // in the API
	listed   string // the queue's field that names the policy in force
	accepted func(s *Setting, v Version) bool
}

var policyKinds = []policyKind{
	{"policies", "policy", (*Setting).TakesPolicy},
	{"operator-policies", "operator_policy", (*Setting).TakesOperatorPolicy},
}

// needed are the keys that a key cannot stand without in a policy.
var needed = map[string]map[string]any{
	"delayed-retry-type":     {"delayed-retry-min": 1000},
	"ha-params":              {"ha-mode": "exactly"},
	"ha-promote-on-failure":  {"ha-mode": "all"},
	"ha-promote-on-shutdown": {"ha-mode": "all"},
	"ha-sync-batch-size":     {"ha-mode": "all"},
	"ha-sync-mode":           {"ha-mode": "all"},
}

// Values that a policy may have though an argument may not.
var policyTakes = map[string][]any{
	"expires":              {int64(tenYears + 1)},
	"initial-cluster-size": {int64(0)},
	"message-ttl":          {int64(tenYears + 1)},
}

// Words that need another ha-params than the rest.
var needsParams = map[any]any{"exactly": 2, "nodes": []string{"rabbit@localhost"}}

func definition(s *Setting, value any) map[string]any {
	d := map[string]any{s.PolicyKey: value}
	maps.Copy(d, needed[s.Name])
	if params, ok := needsParams[value]; ok && s.Name == "ha-mode" {
		d["ha-params"] = params
	}
	return d
}

func TestPolicyValuesOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, vhost := versionOf(t, b), b.VirtualHost(t)
		for _, kind := range policyKinds {
			for _, s := range policySettings() {
				for _, value := range slices.Concat(rightValues(s), wrongValues(s)) {
					want := kind.accepted(s, v) && policyAllows(s, value, v)
					body := map[string]any{"pattern": "^no queue$", "definition": definition(s, value)}
					status, answer := b.Do(t, "PUT", brokertest.Path(kind.path, vhost, s.Name), body)
					// A max-age that is none is answered with 500 below 4.3.
					if status/100 != 2 && status != 400 && status != 500 {
						t.Fatalf("PUT %s of %s: %d %s", kind.path, s.Name, status, answer)
					}
					if got := status/100 == 2; got != want {
						t.Errorf("%s %s with %s = %s: accepted %v, the table says %v: %s",
							v, kind.path, s.PolicyKey, topology.Text(value), got, want, answer)
					}
				}
			}
		}
	})
}

func policyAllows(s *Setting, value any, v Version) bool {
	// Below zero every number is no limit, not -1 alone.
	if slices.Contains(policyTakes[s.Name], value) || s.IsUnlimited(value, v) {
		return true
	}
	for _, typ := range topology.QueueTypes {
		if refuses(s, value, typ, v, topology.ByPolicy) {
			return false
		}
	}
	return true
}

// policySettings are those with a policy key that needs no plugin.
func policySettings() []*Setting {
	var all []*Setting
	for i := range Settings {
		if s := &Settings[i]; s.PolicyKey != "" && s.Plugin == "" {
			all = append(all, s)
		}
	}
	return all
}

// Which queue types a policy with each key is in force for: one policy and three
// queues per key, then one look at all queues.
func TestPolicyMatchesOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v := versionOf(t, b)
		for _, kind := range policyKinds {
			d := &declarer{t: t, b: b, vhost: b.VirtualHost(t)}
			want := map[string]string{}
			for _, s := range policySettings() {
				if !kind.accepted(s, v) {
					continue
				}
				b.Put(t, brokertest.Path(kind.path, d.vhost, s.Name), map[string]any{
					"pattern": "^" + s.Name + "\\.", "apply-to": "queues", "definition": definition(s, lastingValues(s)[1]),
				})
				for _, typ := range topology.QueueTypes {
					name := s.Name + "." + string(typ)
					d.declare(name, typ, without(s, typ))
					want[name] = ""
					if s.PolicyMatchesType(typ, v) {
						want[name] = s.Name
					}
				}
			}
			compareMatches(t, b, kind, d.vhost, want)
		}
	})
}

func compareMatches(t *testing.T, b *brokertest.Broker, kind policyKind, vhost string, want map[string]string) {
	t.Helper()
	matches := func() map[string]string {
		got := map[string]string{}
		for _, q := range listQueues(t, b, vhost, kind.listed == "policy") {
			got[q["name"].(string)], _ = q[kind.listed].(string)
		}
		return got
	}
	differing := func(got map[string]string) []string {
		var lines []string
		for name, policy := range want {
			if got[name] != policy {
				lines = append(lines, fmt.Sprintf("%s has %q, the table says %q", name, got[name], policy))
			}
		}
		slices.Sort(lines)
		return lines
	}
	// Operator policies come with the statistics, which lag; at the end a later
	// look shows that none is still to come.
	deadline := time.Now().Add(20 * time.Second)
	for len(differing(matches())) > 0 && time.Now().Before(deadline) {
		time.Sleep(500 * time.Millisecond)
	}
	time.Sleep(1500 * time.Millisecond)
	for _, line := range differing(matches()) {
		t.Errorf("%s %s: %s", b.Version, kind.path, line)
	}
}

// listQueues reads the queues; below 4.3 operator policies are only in the
// statistics.
func listQueues(t *testing.T, b *brokertest.Broker, vhost string, fresh bool) []map[string]any {
	t.Helper()
	path := brokertest.Path("queues", vhost)
	if fresh || b.AtLeast("4.3") {
		path += "?disable_stats=true"
	}
	var queues []map[string]any
	b.Get(t, path, &queues)
	return queues
}

// Who wins between policy and operator policy: the broker says in
// effective_policy_definition what it made of the two.
func TestMergeOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v := versionOf(t, b)
		d := &declarer{t: t, b: b, vhost: b.VirtualHost(t)}
		want := map[string]any{}
		keys := map[string]string{}
		for _, s := range policySettings() {
			if !s.TakesOperatorPolicy(v) || s.Merge == "" {
				continue
			}
			pairs := [][2]any{}
			values := lastingValues(s)
			pairs = append(pairs, [2]any{values[0], values[1]}, [2]any{values[1], values[0]})
			if s.IsUnlimited(int64(-1), v) {
				pairs = append(pairs, [2]any{int64(-1), values[0]}, [2]any{values[0], int64(-1)})
			}
			for _, typ := range topology.QueueTypes {
				if !s.PolicyMatchesType(typ, v) {
					continue
				}
				for i, pair := range pairs {
					name := fmt.Sprintf("%s.%s.%d", s.Name, typ, i)
					putPair(t, b, d.vhost, s, name, pair)
					d.declare(name, typ, without(s, typ))
					want[name], keys[name] = merged(s, pair[0], pair[1], v), s.PolicyKey
				}
			}
		}
		compareMerged(t, b, d.vhost, want, keys)
	})
}

func putPair(t *testing.T, b *brokertest.Broker, vhost string, s *Setting, name string, pair [2]any) {
	t.Helper()
	pattern := "^" + strings.ReplaceAll(name, ".", "\\.") + "$"
	for i, kind := range policyKinds {
		b.Put(t, brokertest.Path(kind.path, vhost, name), map[string]any{
			"pattern": pattern, "apply-to": "queues", "definition": definition(s, pair[i]),
		})
	}
}

// merged is what the row says of a policy's and an operator policy's value.
func merged(s *Setting, policy, operator any, v Version) any {
	if s.Merge == OperatorWins || s.IsUnlimited(policy, v) {
		return operator
	}
	if s.IsUnlimited(operator, v) {
		return policy
	}
	if s.Merge == LargerWins {
		return max(policy.(int64), operator.(int64))
	}
	return min(policy.(int64), operator.(int64))
}

func compareMerged(t *testing.T, b *brokertest.Broker, vhost string, want map[string]any, keys map[string]string) {
	t.Helper()
	brokertest.Eventually(t, 30*time.Second, func() error {
		for _, q := range listQueues(t, b, vhost, false) {
			name := q["name"].(string)
			effective, _ := q["effective_policy_definition"].(map[string]any)
			got, err := topology.Canonical(effective[keys[name]])
			if err != nil {
				return err
			}
			if !topology.Equal(got, want[name]) {
				return fmt.Errorf("%s: the broker makes %v of it, the table %v", name, got, want[name])
			}
		}
		return nil
	})
}

func TestApplyToOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, vhost := versionOf(t, b), b.VirtualHost(t)
		for _, value := range append(ApplyTo(Newest), "stream_queues", "bogus") {
			body := map[string]any{"pattern": "^x$", "apply-to": value, "definition": map[string]any{"max-length": 5}}
			status, answer := b.Do(t, "PUT", brokertest.Path("policies", vhost, "p"), body)
			if got, want := status/100 == 2, slices.Contains(ApplyTo(v), value); got != want {
				t.Errorf("%s apply-to %s: accepted %v, the table says %v: %s", v, value, got, want, answer)
			}
		}
	})
}
