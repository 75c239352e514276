package catalog

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// fact is what a real broker was seen to do with one key and some values.
type fact struct {
	Version string
	// Object is classic, quorum, stream or exchange; "any" for a policy that was
	// refused before an object mattered, "policy" for apply-to.
	Object     string
	Key        string
	Via        string // argument, policy, operator-policy, or type for an exchange type
	Values     []string
	Result     string // accepted, ignored (taken without effect) or rejected
	Redeclared string // with another value: refused, kept or not tried
	Matched    bool   // a policy with the key was in force for the object
	Unseen     bool   // accepted, but nobody looked for an effect
}

func (f fact) String() string { return f.Version + " " + f.Object + " " + f.Via + " " + f.Key }

// difference is one thing that the table says otherwise than the facts.
type difference struct {
	fact   fact
	aspect string // value, effect, redeclared, matched
	text   string
}

// exception allows a difference. Empty fields hold for all.
type exception struct {
	key, via, version, object, aspect string
	reason                            string
}

var exceptions = []exception{
	{
		key:    "x-queue-type",
		reason: "it is topology.Queue.Type and no setting",
	},
	{
		key: "x-dead-letter-routing-key", aspect: "value",
		reason: "it was sent without x-dead-letter-exchange, which it needs",
	},
	{
		key: "delayed-retry-type", version: "4.3.6", object: "any", aspect: "value",
		reason: "it was sent without delayed-retry-min, which it needs",
	},
	{
		key: "ha-sync-mode", version: "3.10.8", via: "policy",
		reason: "it was sent without ha-mode and is refused then; with it only classic queues match",
	},
	{
		key: "x-max-in-memory-length", aspect: "effect",
		reason: "3.10 and later keep no message bodies of quorum queues in memory",
	},
	{
		key: "x-max-in-memory-bytes", aspect: "effect",
		reason: "3.10 and later keep no message bodies of quorum queues in memory",
	},
	{
		key: "max-in-memory-length", version: "3.10.8", aspect: "effect",
		reason: "3.10 and later keep no message bodies of quorum queues in memory",
	},
	{
		key: "max-in-memory-bytes", version: "3.10.8", aspect: "effect",
		reason: "3.10 and later keep no message bodies of quorum queues in memory",
	},
	{
		key: "x-consumer-timeout", version: "4.0.5", object: "stream", aspect: "effect",
		reason: "it closed the channel of a stream's consumer after a minute when it was tried again",
	},
	{
		key: "x-queue-mode", aspect: "effect",
		reason: "classic queues have no modes from 3.12 on; the argument is kept and compared",
	},
	{
		key: "x-queue-version", aspect: "effect",
		reason: "4.0 and later store every classic queue in format 2: storage_version says so",
	},
	{
		key: "queue-version", object: "classic", aspect: "effect",
		reason: "4.0 and later store every classic queue in format 2: storage_version says so",
	},
}

func TestTableAgreesWithFacts(t *testing.T) {
	var all []difference
	for _, f := range readFacts(t) {
		all = append(all, compare(t, f)...)
	}
	used := make([]bool, len(exceptions))
	for _, d := range all {
		i := slices.IndexFunc(exceptions, func(e exception) bool { return e.covers(d) })
		if i < 0 {
			t.Errorf("%s: %s: %s", d.fact, d.aspect, d.text)
			continue
		}
		used[i] = true
	}
	for i, e := range exceptions {
		if e.reason == "" {
			t.Errorf("exception %d (%s) has no reason", i, e.key)
		}
		if !used[i] {
			t.Errorf("exception %d (%s, %s) no longer differs", i, e.key, e.reason)
		}
	}
}

func (e exception) covers(d difference) bool {
	either := func(want, have string) bool { return want == "" || want == have }
	return e.key == d.fact.Key && either(e.via, d.fact.Via) && either(e.version, d.fact.Version) &&
		either(e.object, d.fact.Object) && either(e.aspect, d.aspect)
}

func readFacts(t *testing.T) []fact {
	t.Helper()
	data, err := os.ReadFile("../../testdata/catalog/facts.json")
	if err != nil {
		t.Fatal(err)
	}
	var facts []fact
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	if len(facts) < 1500 {
		t.Fatalf("only %d facts", len(facts))
	}
	return facts
}

func compare(t *testing.T, f fact) []difference {
	t.Helper()
	v, err := ParseVersion(f.Version)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case f.Via == "type":
		if got := slices.Contains(ExchangeTypes(v), f.Key); got != (f.Result == "accepted") {
			return []difference{{f, "value", fmt.Sprintf("built in: %v", got)}}
		}
		return nil
	case f.Key == "apply-to":
		var all []difference
		for _, value := range f.Values {
			if got := slices.Contains(ApplyTo(v), value); got != (f.Result == "accepted") {
				all = append(all, difference{f, "value", fmt.Sprintf("takes %q: %v", value, got)})
			}
		}
		return all
	case f.Via == "argument":
		return compareArgument(t, f, topology.QueueType(f.Object), v)
	case f.Object == "any":
		return comparePolicyValues(t, f, v)
	}
	return append(comparePolicyValues(t, f, v), comparePolicyMatch(f, v)...)
}

func compareArgument(t *testing.T, f fact, typ topology.QueueType, v Version) []difference {
	var all []difference
	differ := func(aspect, format string, args ...any) {
		all = append(all, difference{f, aspect, fmt.Sprintf(format, args...)})
	}
	s := LookupArgument(f.Key)
	if s == nil {
		// The broker takes what no queue type knows, and so does the table.
		s = &Setting{Unchecked: []Support{{typ, always}}}
	}
	takes, ignores := s.TakesArgument(typ, v), s.IgnoresArgument(typ, v)
	for _, text := range f.Values {
		value := factValue(t, text)
		taken := (takes || ignores) && (s.TakesAnyValue(typ, v) || !refuses(s, value, typ, v, topology.ByArgument))
		if taken != (f.Result != "rejected") {
			differ("value", "table takes %s: %v, the broker answers %s", text, taken, f.Result)
		}
	}
	if f.Result != "rejected" && takes != (f.Result == "accepted") {
		differ("effect", "table says it acts: %v, the broker %s it", takes, f.Result)
	}
	if f.Redeclared != "" && s.IsCompared(typ, v) != (f.Redeclared == "refused") {
		differ("redeclared", "table says it is compared: %v, the broker %s", s.IsCompared(typ, v), f.Redeclared)
	}
	return all
}

func comparePolicyValues(t *testing.T, f fact, v Version) []difference {
	var all []difference
	s := LookupPolicyKey(f.Key)
	for _, text := range f.Values {
		var value any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		value, err := topology.Canonical(value)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		// The brokers that were measured had no plugins but the management.
		taken := s != nil && s.Plugin == ""
		if taken && f.Via == "policy" {
			taken = s.TakesPolicy(v)
		} else if taken {
			taken = s.TakesOperatorPolicy(v)
		}
		for _, typ := range topology.QueueTypes {
			taken = taken && !refuses(s, value, typ, v, topology.ByPolicy)
		}
		if taken != (f.Result != "rejected") {
			all = append(all, difference{f, "value", fmt.Sprintf("table takes %s: %v, the broker answers %s", text, taken, f.Result)})
		}
	}
	return all
}

func comparePolicyMatch(f fact, v Version) []difference {
	s := LookupPolicyKey(f.Key)
	if s == nil {
		return nil
	}
	typ := topology.QueueType(f.Object)
	matches, acts := s.PolicyMatchesType(typ, v), s.PolicyActsOn(typ, v)
	if f.Object == "exchange" {
		// Every policy matches exchanges, whatever its keys; an operator policy none.
		matches, acts = f.Via == "policy", s.Exchange
	}
	var all []difference
	if matches != f.Matched {
		all = append(all, difference{f, "matched", fmt.Sprintf("table says %v, the broker %v", matches, f.Matched)})
	}
	if !f.Unseen && acts != (f.Result == "accepted") {
		all = append(all, difference{f, "effect", fmt.Sprintf("table says it acts: %v, the broker %s it", acts, f.Result)})
	}
	return all
}

// refuses says whether the broker refuses the value, where it checks it.
func refuses(s *Setting, value any, typ topology.QueueType, v Version, by topology.By) bool {
	if s.CheckValue(value) != "" {
		return true
	}
	return s.CheckValueFor(value, typ, v, by) != "" && slices.ContainsFunc(s.Narrow, func(n Narrow) bool {
		return n.Refused && n.QueueType == typ && n.Has(v) && n.covers(by)
	})
}

// factValue reads "int64 2^32", "str empty", "bool" and the like.
func factValue(t *testing.T, text string) any {
	t.Helper()
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "bool":
		return rest != "false"
	case "str", "string":
		if rest == "empty" {
			return ""
		}
		return rest
	case "float":
		n, err := strconv.ParseFloat(rest, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if power, ok := strings.CutPrefix(rest, "2^"); ok {
		n, err := strconv.Atoi(power)
		if err != nil || n > 62 {
			t.Fatalf("%q", text)
		}
		return int64(math.Pow(2, float64(n)))
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
