package policy

import (
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Origin says where a value in effect comes from.
type Origin string

// The origins.
const (
	FromArgument Origin = "argument"
	FromPolicy   Origin = "policy"
	FromOperator Origin = "operator policy"
	FromDefault  Origin = "default" // RabbitMQ's own
)

// Value is a setting's value in effect.
type Value struct {
	Value  any
	Origin Origin
	Policy *topology.Policy // of FromPolicy and FromOperator
}

// Effective works out the settings in effect on a queue by their canonical name.
// Settings that are nowhere set are left out, except the delivery limit of quorum
// queues from 4.0 on; below, an absent one means no limit. A delivery limit
// without bound is -1 from 4.0 on. Arguments and keys that do nothing on the
// queue's type are left out.
func (s *Set) Effective(q *topology.Queue, m Match) map[string]Value {
	t := q.Type
	if t == "" {
		t = topology.Classic
	}
	v := s.version
	all := map[string]Value{}
	for key, value := range s.merge(m) {
		row := catalog.LookupPolicyKey(key)
		if row != nil && !row.Exchange && (row.PolicyActsOn(t, v) || row.Plugin != "") {
			all[row.Name] = value
		}
	}
	for name, value := range q.Arguments {
		row := catalog.LookupArgument(name)
		if row == nil || row.Exchange || !row.TakesArgument(t, v) {
			continue
		}
		argument := Value{Value: value, Origin: FromArgument}
		byPolicy, both := all[row.Name]
		if row.Name == "delivery-limit" {
			argument, valid := deliveryLimitArgument(value, v)
			switch {
			case !valid: // as if it were not there
			case both:
				all[row.Name] = smallerLimit(argument, byPolicy)
			default:
				all[row.Name] = argument
			}
			continue
		}
		if !both {
			all[row.Name] = argument
			continue
		}
		winner, operator := row.Wins(t, v)
		if byPolicy.Origin == FromOperator {
			winner = operator
		}
		all[row.Name] = settle(winner, argument, byPolicy)
	}
	if _, set := all["delivery-limit"]; !set {
		if value := catalog.Lookup("delivery-limit").DefaultFor(t, v); value != nil {
			all["delivery-limit"] = Value{Value: value, Origin: FromDefault}
		}
	}
	return all
}

// EffectiveExchange is Effective for an exchange, which has one setting that a
// policy can give: its alternate exchange. The argument wins.
func (s *Set) EffectiveExchange(e *topology.Exchange, m Match) map[string]Value {
	all := map[string]Value{}
	if m.Policy != nil {
		if value, ok := m.Policy.Definition["alternate-exchange"]; ok {
			all["alternate-exchange"] = Value{value, FromPolicy, m.Policy}
		}
	}
	if value, ok := e.Arguments["alternate-exchange"]; ok {
		all["alternate-exchange"] = Value{value, FromArgument, nil}
	}
	return all
}

// Definition is the policy's definition merged with the operator policy's: what
// RabbitMQ calls the effective policy definition.
func (s *Set) Definition(m Match) topology.Arguments {
	var all topology.Arguments
	for key, value := range s.merge(m) {
		if all == nil {
			all = topology.Arguments{}
		}
		all[key] = value.Value
	}
	return all
}

func (s *Set) merge(m Match) map[string]Value {
	if m.Policy == nil && m.Operator == nil {
		return nil
	}
	all := map[string]Value{}
	if m.Policy != nil {
		for key, value := range m.Policy.Definition {
			all[key] = Value{value, FromPolicy, m.Policy}
		}
	}
	if m.Operator != nil {
		for key, value := range m.Operator.Definition {
			operator := Value{value, FromOperator, m.Operator}
			if policy, both := all[key]; both {
				operator = s.mergeOperator(key, policy, operator)
			}
			all[key] = operator
		}
	}
	return all
}

// mergeOperator settles one key between policy and operator policy, as the catalog
// says. For keys that it does not know the smaller number wins and, for texts, the
// operator policy, as RabbitMQ does by default.
func (s *Set) mergeOperator(key string, policy, operator Value) Value {
	row := catalog.LookupPolicyKey(key)
	if row != nil && (row.IsUnlimited(policy.Value, s.version) || row.IsUnlimited(operator.Value, s.version)) {
		return smallerLimit(policy, operator)
	}
	winner := catalog.SmallerWins
	if _, isNumber := number(operator.Value); !isNumber {
		winner = catalog.OperatorWins
	}
	if row != nil && row.Merge != "" {
		winner = row.Merge
	}
	switch {
	case winner == catalog.OperatorWins, winner == catalog.LargerWins && !less(operator.Value, policy.Value),
		winner == catalog.SmallerWins && less(operator.Value, policy.Value):
		return operator
	}
	return policy
}

func settle(w catalog.Winner, argument, policy Value) Value {
	switch w {
	case catalog.PolicyWins:
		return policy
	case catalog.SmallerWins:
		if less(policy.Value, argument.Value) {
			return policy
		}
	}
	return argument
}

// deliveryLimitArgument reads x-delivery-limit, which RabbitMQ does not check.
// Below 4.0 a negative limit is 0 and a text or boolean is no limit; from 4.0 on
// negative is no limit, and 4.3 ignores what is no integer.
func deliveryLimitArgument(value any, v catalog.Version) (Value, bool) {
	switch n := value.(type) {
	case int64:
		if n < 0 && v.Below(catalog.V(4, 0)) {
			n = 0
		}
		return Value{Value: max(n, -1), Origin: FromArgument}, true
	case float64:
		if v.AtLeast(catalog.V(4, 3)) {
			return Value{}, false
		}
		if n < 0 {
			return deliveryLimitArgument(int64(-1), v)
		}
		return Value{Value: int64(min(n, 1<<62)), Origin: FromArgument}, true
	}
	if v.AtLeast(catalog.V(4, 3)) {
		return Value{}, false
	}
	return Value{Value: int64(-1), Origin: FromArgument}, v.AtLeast(catalog.V(4, 0))
}

// smallerLimit is the smaller of two delivery limits, of which -1 is no limit.
func smallerLimit(a, b Value) Value {
	x, _ := number(a.Value)
	y, _ := number(b.Value)
	if x < 0 || y >= 0 && y < x {
		return b
	}
	return a
}

func less(a, b any) bool {
	x, okX := number(a)
	y, okY := number(b)
	return okX && okY && x < y
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
