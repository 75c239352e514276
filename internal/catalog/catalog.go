// Package catalog is the one table of RabbitMQ's settings: their names as
// argument and as policy key, which queue types and versions know them, which
// values they take, when a change takes effect and who wins when argument and
// policy disagree. Decoding, validation, planning, schema and documentation all
// read this table. It is filled from what brokers 3.10.8, 4.0.5 and 4.3.6 were
// seen to do; series in between follow RabbitMQ's release notes.
package catalog

import (
	"fmt"
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
	ArgumentWins Winner = "argument"
	PolicyWins   Winner = "policy"
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
	// between argument and operator policy; between policy and operator policy
	// the smaller number wins and, for texts, the operator policy.
	ArgumentPolicy   Winner
	ArgumentOperator Winner
}

// Setting is one row of the table. A row is plain data.
type Setting struct {
	// Name is RabbitMQ's name without "x-": "message-ttl". A spec writes it in
	// snake case.
	Name string
	// Argument is the argument's name ("x-message-ttl"); empty: none.
	Argument string
	// PolicyKey is the key in a policy's definition; empty: none.
	PolicyKey string

	Value ValueType
	// Min and Max bound numbers; Max 0 means no bound.
	Min, Max int64
	// Enum lists the allowed texts, in RabbitMQ's spelling; nil: any.
	Enum []string

	// Arguments lists the queue types that accept the argument and act on it.
	Arguments []Support
	// Unchecked lists where the broker takes the argument with any value, or
	// without acting on it, and says nothing.
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

	Effect   Effect
	Conflict []Conflict

	Doc string // one or two sentences
	URL string // RabbitMQ's page
}

// SpecKey is the setting's name in a spec: message_ttl.
func (s *Setting) SpecKey() string { return strings.ReplaceAll(s.Name, "-", "_") }

// TakesArgument reports whether queues of type t accept and act on the argument
// in version v.
func (s *Setting) TakesArgument(t topology.QueueType, v Version) bool {
	return has(s.Arguments, t, v)
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

var byName, byArgument, byPolicyKey = index()

func index() (name, argument, policy map[string]*Setting) {
	name, argument, policy = map[string]*Setting{}, map[string]*Setting{}, map[string]*Setting{}
	for i := range Settings {
		s := &Settings[i]
		name[s.Name] = s
		if s.Argument != "" {
			argument[s.Argument] = s
		}
		if s.PolicyKey != "" {
			policy[s.PolicyKey] = s
		}
	}
	return name, argument, policy
}

// Lookup finds a setting by its canonical name ("message-ttl"); nil: unknown.
func Lookup(name string) *Setting { return byName[name] }

// LookupSpecKey finds a setting by its spec key ("message_ttl"); nil: unknown.
func LookupSpecKey(key string) *Setting {
	if strings.Contains(key, "-") {
		return nil
	}
	return byName[strings.ReplaceAll(key, "_", "-")]
}

// LookupArgument finds a setting by its argument ("x-message-ttl"); nil: unknown.
func LookupArgument(name string) *Setting { return byArgument[name] }

// LookupPolicyKey finds a setting by its policy key; nil: unknown.
func LookupPolicyKey(key string) *Setting { return byPolicyKey[key] }

// CheckValue says what is wrong with a canonical value for the setting, "" when
// nothing is. It knows type, range and allowed words, as the strictest version
// wants them.
func (s *Setting) CheckValue(v any) string {
	switch s.Value {
	case Boolean:
		if _, ok := v.(bool); !ok {
			return fmt.Sprintf("must be true or false, not %s", topology.Text(v))
		}
	case Text, Age:
		text, ok := v.(string)
		if !ok {
			return fmt.Sprintf("must be a text, not %s", topology.Text(v))
		}
		return s.checkText(text)
	default:
		n, ok := v.(int64)
		if !ok {
			return fmt.Sprintf("must be an integer (%s), not %s", s.Value, topology.Text(v))
		}
		if n < s.Min {
			return fmt.Sprintf("must be at least %d, not %d", s.Min, n)
		}
		if s.Max != 0 && n > s.Max {
			return fmt.Sprintf("must be at most %d, not %d", s.Max, n)
		}
	}
	return ""
}

func (s *Setting) checkText(text string) string {
	if s.Value == Age {
		if _, err := ParseAge(text); err != nil {
			return err.Error()
		}
		return ""
	}
	if s.Enum == nil {
		return ""
	}
	for _, e := range s.Enum {
		if e == text {
			return ""
		}
	}
	return fmt.Sprintf("must be one of %s, not %q", strings.Join(s.Enum, ", "), text)
}
