package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Arguments that RabbitMQ does not begin with "x-".
var plainArguments = []string{"alternate-exchange"}

func TestSettingsAreSortedAndUnique(t *testing.T) {
	names, arguments, keys, specs := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]string{}
	for i := range Settings {
		s := &Settings[i]
		if i > 0 && Settings[i-1].Name >= s.Name {
			t.Errorf("%s stands behind %s", s.Name, Settings[i-1].Name)
		}
		for seen, name := range map[*map[string]bool]string{&names: s.Name, &arguments: s.Argument, &keys: s.PolicyKey} {
			if name == "" {
				continue
			}
			if (*seen)[name] {
				t.Errorf("%s: %s is there twice", s.Name, name)
			}
			(*seen)[name] = true
		}
		// The name in snake case is read too where the spec key differs.
		for _, key := range slices.Compact([]string{s.SpecKey(), strings.ReplaceAll(s.Name, "-", "_")}) {
			if other, ok := specs[key]; ok {
				t.Errorf("spec key %s is that of %s and of %s", key, other, s.Name)
			}
			specs[key] = s.Name
			if got := LookupSpecKey(key); got != s {
				t.Errorf("LookupSpecKey(%q) does not find %s", key, s.Name)
			}
		}
		if Lookup(s.Name) != s {
			t.Errorf("Lookup does not find %s", s.Name)
		}
		if s.Argument != "" && LookupArgument(s.Argument) != s {
			t.Errorf("LookupArgument does not find %s", s.Argument)
		}
		if s.PolicyKey != "" && LookupPolicyKey(s.PolicyKey) != s {
			t.Errorf("LookupPolicyKey does not find %s", s.PolicyKey)
		}
	}
	for _, unknown := range []string{"", "message-ttl-", "x-message-ttl"} {
		if LookupSpecKey(unknown) != nil || Lookup(unknown) != nil || LookupPolicyKey(unknown) != nil {
			t.Errorf("something is found for %q", unknown)
		}
	}
}

func TestSettingsAreNamedAsRabbitMQDoes(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		if s.Argument == "" && s.PolicyKey == "" {
			t.Errorf("%s has neither argument nor policy key", s.Name)
		}
		if s.Argument != "" && !strings.HasPrefix(s.Argument, "x-") && !slices.Contains(plainArguments, s.Argument) {
			t.Errorf("%s: argument %s does not begin with x-", s.Name, s.Argument)
		}
		if strings.HasPrefix(s.PolicyKey, "x-") {
			t.Errorf("%s: policy key %s begins with x-", s.Name, s.PolicyKey)
		}
		if strings.ContainsAny(s.SpecKey(), "-.") || s.SpecKey() != strings.ToLower(s.SpecKey()) {
			t.Errorf("%s: spec key %s", s.Name, s.SpecKey())
		}
	}
}

func TestSettingsAreDocumented(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		if len(s.Doc) < 20 || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: Doc %q is no sentence", s.Name, s.Doc)
		}
		if !strings.HasPrefix(s.URL, "https://www.rabbitmq.com/docs/") {
			t.Errorf("%s: URL %q", s.Name, s.URL)
		}
		if s.Deprecated.IsZero() != (s.Instead == "") || s.Instead == "nothing" {
			t.Errorf("%s: Deprecated and Instead belong together", s.Name)
		}
		if !slices.Contains([]Effect{Immediately, NewMessages, AtDeclaration}, s.Effect) {
			t.Errorf("%s: Effect %q", s.Name, s.Effect)
		}
	}
}

func TestSettingsHaveSaneValues(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		number := slices.Contains([]ValueType{Integer, Milliseconds, Seconds, Bytes}, s.Value)
		if !number && !slices.Contains([]ValueType{Boolean, Text, Age, Any}, s.Value) {
			t.Errorf("%s: value type %q", s.Name, s.Value)
		}
		if !number && (s.Min != 0 || s.Max != 0) {
			t.Errorf("%s: bounds on a %s", s.Name, s.Value)
		}
		if s.Max != 0 && s.Max < s.Min {
			t.Errorf("%s: Max %d below Min %d", s.Name, s.Max, s.Min)
		}
		if s.Enum != nil && (s.Value != Text || len(s.Enum) < 2 || hasDuplicates(s.Enum)) {
			t.Errorf("%s: Enum %v", s.Name, s.Enum)
		}
		for _, n := range s.Narrow {
			if !n.ByArgument && !n.ByPolicy || n.Refused == (n.Why != "") {
				t.Errorf("%s: Narrow %+v says too little or too much", s.Name, n)
			}
			if number && n.Min < s.Min || n.Max != 0 && s.Max != 0 && n.Max > s.Max || n.Enum != nil && s.Enum == nil {
				t.Errorf("%s: Narrow %+v is wider than the row", s.Name, n)
			}
			for _, word := range n.Enum {
				if !slices.Contains(s.Enum, word) {
					t.Errorf("%s: Narrow allows %s, the row does not", s.Name, word)
				}
			}
		}
		for _, d := range s.Defaults {
			if wrong := s.CheckValue(d.Value); wrong != "" {
				t.Errorf("%s: default %v %s", s.Name, d.Value, wrong)
			}
		}
	}
}

func hasDuplicates(words []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(words)))) != len(words)
}

func TestSettingsHaveSaneRanges(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		for name, list := range map[string][]Support{
			"Arguments": s.Arguments, "Idle": s.Idle, "Unchecked": s.Unchecked, "Compared": s.Compared,
			"PolicyMatches": s.PolicyMatches, "PolicyActs": s.PolicyActs,
		} {
			for j, a := range list {
				if !slices.Contains(topology.QueueTypes, a.QueueType) {
					t.Errorf("%s: %s has queue type %q", s.Name, name, a.QueueType)
				}
				checkRange(t, s.Name+" "+name, a.Range)
				for _, b := range list[:j] {
					if a.QueueType == b.QueueType && (b.Until.IsZero() || a.Since.Below(b.Until)) {
						t.Errorf("%s: %s lists %s twice for one version", s.Name, name, a.QueueType)
					}
				}
			}
		}
		for _, r := range slices.Concat(s.Policy, s.OperatorPolicy, s.Unlimited) {
			checkRange(t, s.Name, r)
		}
		for _, c := range s.Conflict {
			checkRange(t, s.Name+" Conflict", c.Range)
			if c.ArgumentPolicy == "" || c.ArgumentOperator == "" {
				t.Errorf("%s: a conflict without a winner", s.Name)
			}
		}
	}
}

func checkRange(t *testing.T, name string, r Range) {
	t.Helper()
	if !r.Since.IsZero() && !r.Until.IsZero() && !r.Since.Below(r.Until) {
		t.Errorf("%s: since %s until %s", name, r.Since, r.Until)
	}
	if !r.Until.IsZero() && r.Until.Compare(Oldest) <= 0 || r.Since.Compare(Newest.nextMinor()) >= 0 {
		t.Errorf("%s: %s holds for no known version", name, r)
	}
}

func (v Version) nextMinor() Version { return V(v.Major, v.Minor+1) }

// No winner says what these do: a mode is merged with its parameters, and in 4.0 a
// policy and an operator policy with queue-master-locator cannot stand together.
var mergedOtherwise = []string{"ha-mode", "ha-params", "ha-sync-mode", "queue-master-locator"}

// The columns of a row must not contradict each other in any version.
func TestColumnsAgree(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		if s.Argument == "" && len(s.Arguments)+len(s.Idle)+len(s.Unchecked)+len(s.Compared) > 0 {
			t.Errorf("%s has argument columns and no argument", s.Name)
		}
		if s.PolicyKey == "" && len(s.Policy)+len(s.OperatorPolicy)+len(s.PolicyMatches)+len(s.PolicyActs) > 0 {
			t.Errorf("%s has policy columns and no policy key", s.Name)
		}
		if (len(s.OperatorPolicy) > 0) != (s.Merge != "") && !slices.Contains(mergedOtherwise, s.Name) {
			t.Errorf("%s: OperatorPolicy and Merge belong together", s.Name)
		}
		for _, v := range measuredAndReleases() {
			if s.TakesOperatorPolicy(v) && !s.TakesPolicy(v) {
				t.Errorf("%s %s: an operator policy takes it and a policy does not", v, s.Name)
			}
			for _, typ := range topology.QueueTypes {
				columnsAgree(t, s, typ, v)
			}
		}
	}
}

func columnsAgree(t *testing.T, s *Setting, typ topology.QueueType, v Version) {
	t.Helper()
	if s.IsCompared(typ, v) && !s.TakesArgument(typ, v) && !s.IgnoresArgument(typ, v) {
		t.Errorf("%s %s %s: compared and not taken", v, typ, s.Name)
	}
	if has(s.Idle, typ, v) && (s.TakesArgument(typ, v) || s.TakesAnyValue(typ, v)) {
		t.Errorf("%s %s %s: idle, and also taken or unchecked", v, typ, s.Name)
	}
	if s.PolicyActsOn(typ, v) && !s.PolicyMatchesType(typ, v) {
		t.Errorf("%s %s %s: a policy acts and does not match", v, typ, s.Name)
	}
	if s.PolicyMatchesType(typ, v) && !s.TakesPolicy(v) {
		t.Errorf("%s %s %s: a policy matches and is refused", v, typ, s.Name)
	}
}

func measuredAndReleases() []Version {
	return append([]Version{{3, 10, 8}, {4, 0, 5}, {4, 3, 6}}, Releases...)
}

func TestWins(t *testing.T) {
	tests := []struct {
		name             string
		typ              topology.QueueType
		version          Version
		policy, operator Winner
	}{
		{"max-length", classic, V(3, 10), SmallerWins, SmallerWins},
		{"max-length-bytes", quorum, V(4, 3), SmallerWins, SmallerWins},
		{"max-length-bytes", stream, V(4, 3), PolicyWins, PolicyWins},
		{"expires", quorum, Version{3, 13, 7}, PolicyWins, PolicyWins},
		{"expires", quorum, V(4, 0), SmallerWins, SmallerWins},
		{"expires", classic, V(3, 10), SmallerWins, SmallerWins},
		{"overflow", classic, V(4, 0), ArgumentWins, ArgumentWins},
		{"overflow", quorum, V(4, 0), PolicyWins, PolicyWins},
		{"dead-letter-exchange", quorum, V(4, 3), ArgumentWins, ArgumentWins},
		{"delayed-retry-type", quorum, V(4, 3), PolicyWins, PolicyWins},
		{"target-group-size", quorum, V(4, 3), LargerWins, LargerWins},
	}
	for _, tt := range tests {
		policy, operator := Lookup(tt.name).Wins(tt.typ, tt.version)
		if policy != tt.policy || operator != tt.operator {
			t.Errorf("%s on %s in %s: %s, %s", tt.name, tt.typ, tt.version, policy, operator)
		}
	}
}

func TestCheckValueFor(t *testing.T) {
	tests := []struct {
		name  string
		value any
		typ   topology.QueueType
		v     Version
		by    topology.By
		want  string
	}{
		{"message-ttl", int64(-1), classic, V(4, 3), topology.ByPolicy, "must be at least 0, not -1"},
		{"message-ttl", "5s", classic, V(4, 3), topology.ByPolicy, `must be an integer (milliseconds), not "5s"`},
		{"max-length", "100", classic, V(4, 3), topology.ByPolicy, `must be an integer, not "100"`},
		{"message-ttl", 5.5, classic, V(4, 3), topology.ByPolicy, `must be an integer (milliseconds), not 5.5`},
		{"max-priority", int64(256), classic, V(4, 3), topology.ByArgument, "must be at most 255, not 256"},
		{"single-active-consumer", "true", quorum, V(4, 3), topology.ByArgument, `must be true or false, not "true"`},
		{"dead-letter-exchange", true, quorum, V(4, 3), topology.ByPolicy, "must be a text, not true"},
		{"ha-params", int64(2), classic, V(3, 10), topology.ByPolicy, ""},
		{"max-age", "7D", stream, V(4, 3), topology.ByPolicy, ""},
		{"delivery-limit", int64(-1), quorum, V(4, 0), topology.ByPolicy, ""},
		{"delivery-limit", int64(-1), quorum, Version{3, 10, 8}, topology.ByPolicy, "must be at least 0, not -1 on a quorum queue of RabbitMQ 3.10.8 (the broker refuses it)"},
		{"delivery-limit", int64(-1), quorum, V(3, 13), topology.ByArgument, "must be at least 0, not -1 on a quorum queue of RabbitMQ 3.13 (-1 is taken as 0: the first return is the last)"},
		{"overflow", "reject-publish-dlx", classic, V(4, 3), topology.ByPolicy, ""},
		{"overflow", "reject-publish-dlx", quorum, V(4, 3), topology.ByPolicy, `must be one of drop-head, reject-publish, not "reject-publish-dlx" on a quorum queue of RabbitMQ 4.3 (reject-publish-dlx is taken as drop-head: the oldest message goes)`},
		{"queue-version", int64(1), classic, V(4, 3), topology.ByPolicy, ""},
		{"queue-version", int64(1), classic, V(4, 3), topology.ByArgument, "must be at least 2, not 1 on a classic queue of RabbitMQ 4.3 (the broker refuses it)"},
	}
	for _, tt := range tests {
		if got := Lookup(tt.name).CheckValueFor(tt.value, tt.typ, tt.v, tt.by); got != tt.want {
			t.Errorf("%s %v: %q, want %q", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestNoLimitAndDefaults(t *testing.T) {
	s := Lookup("delivery-limit")
	if s.IsUnlimited(int64(-1), V(3, 13)) || !s.IsUnlimited(int64(-1), V(4, 0)) || s.IsUnlimited(int64(0), V(4, 0)) {
		t.Error("IsUnlimited of delivery-limit")
	}
	if s.DefaultFor(quorum, V(3, 13)) != nil || s.DefaultFor(quorum, V(4, 0)) != int64(20) || s.DefaultFor(classic, V(4, 0)) != nil {
		t.Error("DefaultFor of delivery-limit")
	}
	if m := Lookup("queue-mode"); m.IsDeprecated(V(3, 11)) || !m.IsDeprecated(V(3, 12)) || s.IsDeprecated(Newest) {
		t.Error("IsDeprecated")
	}
}

func TestSpecKeys(t *testing.T) {
	for key, name := range map[string]string{
		"message_ttl": "message-ttl", "leader_locator": "queue-leader-locator", "queue_leader_locator": "queue-leader-locator",
		"initial_group_size": "quorum-initial-group-size", "target_group_size": "target-group-size",
		"delayed_retry_type": "delayed-retry-type",
	} {
		if s := LookupSpecKey(key); s == nil || s.Name != name {
			t.Errorf("%s does not lead to %s", key, name)
		}
	}
	if s := Lookup("queue-leader-locator"); s.SpecKey() != "leader_locator" {
		t.Errorf("queue-leader-locator is written %s", s.SpecKey())
	}
}
