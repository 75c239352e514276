// Package catalog is the one table of RabbitMQ's settings: their names as
// argument and as policy key, which queue types and versions know them, which
// values they take, when a change takes effect and who wins when argument and
// policy disagree. Decoding, validation, planning, schema and documentation all
// read this table. It is filled from what brokers 3.10.8, 4.0.5 and 4.3.6 were
// seen to do; series in between follow RabbitMQ's release notes.
package catalog

//go:generate go run ../docgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// ValueType is the type of a setting's value as the broker wants it.
type ValueType string

// Value types. Milliseconds and Bytes are integers on the wire; specs write them
// as durations and sizes. Age is RabbitMQ's own text such as "7D".
const (
	Integer      ValueType = "integer"
	Milliseconds ValueType = "milliseconds"
	Seconds      ValueType = "seconds"
	Bytes        ValueType = "bytes"
	Boolean      ValueType = "boolean"
	Text         ValueType = "text"
	Age          ValueType = "age"
	// Any is a value whose kind another setting decides (ha-params), it is not
	// checked.
	Any ValueType = "any"
)

// Effect says when a changed policy key acts on a live queue.
type Effect string

// Effects.
const (
	Immediately   Effect = "immediately"
	NewMessages   Effect = "new-messages" // messages already there keep the old value
	AtDeclaration Effect = "at-declaration"
)

// Winner says which value is in effect when two sources give one.
type Winner string

// Winners.
const (
	SmallerWins  Winner = "smaller"
	LargerWins   Winner = "larger"
	ArgumentWins Winner = "argument"
	PolicyWins   Winner = "policy"
	OperatorWins Winner = "operator"
)

// Support says that a queue type knows a setting in a range of versions.
type Support struct {
	QueueType topology.QueueType
	Range
}

// Conflict says who wins for a queue type in a range of versions. An empty
// QueueType means every type.
type Conflict struct {
	QueueType topology.QueueType
	Range
	// ArgumentPolicy decides between argument and policy, ArgumentOperator
	// between argument and operator policy. PolicyWins there means the operator
	// policy.
	ArgumentPolicy   Winner
	ArgumentOperator Winner
}

// Default is what is in effect where nothing is set.
type Default struct {
	QueueType topology.QueueType
	Range
	Value any // int64 or string
}

// Narrow holds tighter limits on the value for a queue type in a range of
// versions: what the broker refuses there or what does something else there.
type Narrow struct {
	QueueType topology.QueueType
	Range
	// ByArgument and ByPolicy say which way of setting it is meant.
	ByArgument, ByPolicy bool
	// Min and Max replace those of the row; Enum does when it is not nil.
	Min, Max int64
	Enum     []string
	// Refused: the broker refuses other values. Elsewhere it takes them and does
	// what Why says.
	Refused bool
	Why     string
}

// Setting is one row of the table. A row is plain data.
type Setting struct {
	// Name is RabbitMQ's name without "x-": "message-ttl". A spec writes it in
	// snake case, or as SpecName says.
	Name string
	// SpecName is the name in a spec where it is not Name in snake case.
	SpecName string
	// Argument is the argument's name ("x-message-ttl"); empty: none.
	Argument string
	// PolicyKey is the key in a policy's definition; empty: none.
	PolicyKey string

	Value ValueType
	// Min and Max bound numbers; Max 0 means no bound.
	Min, Max int64
	// Enum lists the allowed texts, in RabbitMQ's spelling; nil: any.
	Enum []string
	// Narrow lists where fewer values are right.
	Narrow []Narrow

	// Arguments lists the queue types that accept the argument and act on it.
	Arguments []Support
	// Idle lists where the broker accepts the argument, checks its value and does
	// nothing with it.
	Idle []Support
	// Unchecked lists where the broker takes the argument with any value of any
	// kind. Where Arguments does not have the type too, it does nothing with it.
	Unchecked []Support
	// Compared lists where a redeclaration with another value is refused (406);
	// elsewhere it is silently accepted and changes nothing.
	Compared []Support
	// Policy are the versions that accept the policy key, OperatorPolicy those
	// that accept it in an operator policy.
	Policy         []Range
	OperatorPolicy []Range
	// PolicyMatches lists the queue types that a policy with this key is in force
	// for: a policy with one key that a type does not match is ignored for that
	// type as a whole.
	PolicyMatches []Support
	// PolicyActs lists the queue types on which the policy key does something.
	PolicyActs []Support
	// Exchange says that the setting is one of exchanges (alternate-exchange).
	Exchange bool
	// Plugin is the plugin without which the broker does not know the policy key.
	Plugin string

	Effect   Effect
	Conflict []Conflict
	// Merge says who wins between policy and operator policy; empty where no
	// operator policy takes the key, or where the two cannot stand together.
	Merge Winner
	// Unlimited are the versions in which a negative number is no limit and loses
	// against every other.
	Unlimited []Range
	// Defaults are listed where the broker's own choice matters to a topology and
	// no configuration changes it.
	Defaults []Default

	// Deprecated is the version from which the setting should not be used; zero:
	// none. Instead says what to use.
	// When that is nothing, the text is "nothing: " and why.
	Deprecated Version
	Instead    string

	Doc string // one or two sentences
	URL string // RabbitMQ's page
}

// SpecKey is the setting's name in a spec: message_ttl.
func (s *Setting) SpecKey() string {
	if s.SpecName != "" {
		return s.SpecName
	}
	return strings.ReplaceAll(s.Name, "-", "_")
}

// TakesArgument reports whether queues of type t accept and act on the argument
// in version v.
func (s *Setting) TakesArgument(t topology.QueueType, v Version) bool {
	return has(s.Arguments, t, v)
}

// IgnoresArgument reports whether version v accepts the argument on queues of
// type t and does nothing with it.
func (s *Setting) IgnoresArgument(t topology.QueueType, v Version) bool {
	return !s.TakesArgument(t, v) && (has(s.Idle, t, v) || has(s.Unchecked, t, v))
}

// TakesAnyValue reports whether version v takes the argument with any value on
// queues of type t, also a wrong one.
func (s *Setting) TakesAnyValue(t topology.QueueType, v Version) bool {
	return has(s.Unchecked, t, v)
}

// IsUnchecked reports whether version v takes the argument on queues of type t
// without a word, though it does nothing with it or does not look at its value.
func (s *Setting) IsUnchecked(t topology.QueueType, v Version) bool {
	return has(s.Unchecked, t, v) || has(s.Idle, t, v)
}

// TakesPolicy reports whether version v accepts the policy key at all.
func (s *Setting) TakesPolicy(v Version) bool { return inRanges(s.Policy, v) }

// TakesOperatorPolicy reports whether version v accepts the key in an operator
// policy.
func (s *Setting) TakesOperatorPolicy(v Version) bool { return inRanges(s.OperatorPolicy, v) }

// PolicyMatchesType reports whether a policy holding the key can be in force for
// queues of type t in version v.
func (s *Setting) PolicyMatchesType(t topology.QueueType, v Version) bool {
	return has(s.PolicyMatches, t, v)
}

// PolicyActsOn reports whether the policy key does something on queues of type t
// in version v.
func (s *Setting) PolicyActsOn(t topology.QueueType, v Version) bool {
	return has(s.PolicyActs, t, v)
}

// IsCompared reports whether a redeclaration of a queue of type t with another
// value of the argument is refused in version v.
func (s *Setting) IsCompared(t topology.QueueType, v Version) bool {
	return has(s.Compared, t, v)
}

// Wins returns who wins between argument and policy, and between argument and
// operator policy.
func (s *Setting) Wins(t topology.QueueType, v Version) (policy, operator Winner) {
	for _, c := range s.Conflict {
		if (c.QueueType == "" || c.QueueType == t) && c.Has(v) {
			return c.ArgumentPolicy, c.ArgumentOperator
		}
	}
	return ArgumentWins, ArgumentWins
}

// IsUnlimited reports whether the value means no limit in version v.
func (s *Setting) IsUnlimited(value any, v Version) bool {
	n, ok := value.(int64)
	return ok && n < 0 && inRanges(s.Unlimited, v)
}

// DefaultFor is what is in effect on queues of type t in version v where nothing
// is set; nil: the table does not say.
func (s *Setting) DefaultFor(t topology.QueueType, v Version) any {
	for _, d := range s.Defaults {
		if d.QueueType == t && d.Has(v) {
			return d.Value
		}
	}
	return nil
}

// IsDeprecated reports whether version v deprecates the setting.
func (s *Setting) IsDeprecated(v Version) bool {
	return !s.Deprecated.IsZero() && Range{Since: s.Deprecated}.Has(v)
}

func has(list []Support, t topology.QueueType, v Version) bool {
	for _, s := range list {
		if s.QueueType == t && s.Has(v) {
			return true
		}
	}
	return false
}

func inRanges(list []Range, v Version) bool {
	for _, r := range list {
		if r.Has(v) {
			return true
		}
	}
	return false
}

var byName, bySpecKey, byArgument, byPolicyKey = index()

func index() (name, spec, argument, policy map[string]*Setting) {
	name, spec = map[string]*Setting{}, map[string]*Setting{}
	argument, policy = map[string]*Setting{}, map[string]*Setting{}
	for i := range Settings {
		s := &Settings[i]
		name[s.Name] = s
		// The name in snake case is understood too where SpecName differs.
		spec[strings.ReplaceAll(s.Name, "-", "_")] = s
		spec[s.SpecKey()] = s
		if s.Argument != "" {
			argument[s.Argument] = s
		}
		if s.PolicyKey != "" {
			policy[s.PolicyKey] = s
		}
	}
	return name, spec, argument, policy
}

// Lookup finds a setting by its canonical name ("message-ttl"); nil: unknown.
func Lookup(name string) *Setting { return byName[name] }

// LookupSpecKey finds a setting by its spec key ("message_ttl"); nil: unknown.
func LookupSpecKey(key string) *Setting { return bySpecKey[key] }

// LookupArgument finds a setting by its argument ("x-message-ttl"); nil: unknown.
func LookupArgument(name string) *Setting { return byArgument[name] }

// LookupPolicyKey finds a setting by its policy key; nil: unknown.
func LookupPolicyKey(key string) *Setting { return byPolicyKey[key] }

// CheckValue says what is wrong with a canonical value for the setting, "" when
// nothing is. It knows type, range and allowed words as the whole row gives them;
// CheckValueFor also knows what is narrower for a type and a version.
func (s *Setting) CheckValue(v any) string { return s.check(v, s.Min, s.Max, s.Enum) }

// CheckValueFor is CheckValue for queues of type t in version v, set by argument
// or by policy. When the value is right elsewhere, the answer says what happens to
// it here.
func (s *Setting) CheckValueFor(value any, t topology.QueueType, v Version, by topology.By) string {
	if wrong := s.CheckValue(value); wrong != "" {
		return wrong
	}
	for _, n := range s.Narrow {
		if n.QueueType != t || !n.Has(v) || !n.covers(by) {
			continue
		}
		lo, hi, enum := n.Min, n.Max, s.Enum
		if n.Enum != nil {
			enum = n.Enum
		}
		if wrong := s.check(value, lo, hi, enum); wrong != "" {
			return fmt.Sprintf("%s on a %s queue of RabbitMQ %s (%s)", wrong, t, v, n.consequence())
		}
	}
	return ""
}

func (n *Narrow) consequence() string {
	if n.Refused {
		return "the broker refuses it"
	}
	return n.Why
}

func (n *Narrow) covers(by topology.By) bool {
	return by == topology.ByArgument && n.ByArgument || by == topology.ByPolicy && n.ByPolicy
}

func (s *Setting) check(v any, lo, hi int64, enum []string) string {
	switch s.Value {
	case Any:
		return ""
	case Boolean:
		if _, ok := v.(bool); !ok {
			return fmt.Sprintf("must be true or false, not %s", topology.Text(v))
		}
		return ""
	case Text, Age:
		text, ok := v.(string)
		if !ok {
			return fmt.Sprintf("must be a text, not %s", topology.Text(v))
		}
		if s.Value == Age {
			if _, err := ParseAge(text); err != nil {
				return err.Error()
			}
			return ""
		}
		if enum != nil && !slices.Contains(enum, text) {
			return fmt.Sprintf("must be one of %s, not %q", strings.Join(enum, ", "), text)
		}
		return ""
	}
	n, ok := v.(int64)
	switch {
	case !ok && s.Value == Integer:
		return fmt.Sprintf("must be an integer, not %s", topology.Text(v))
	case !ok:
		return fmt.Sprintf("must be an integer (%s), not %s", s.Value, topology.Text(v))
	case n < lo:
		return fmt.Sprintf("must be at least %d, not %d", lo, n)
	case hi != 0 && n > hi:
		return fmt.Sprintf("must be at most %d, not %d", hi, n)
	}
	return ""
}
