package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// jsonObject is any object; each kind uses some of the fields.
type jsonObject struct {
	Kind        topology.Kind `json:"kind"`
	VirtualHost string        `json:"vhost"`
	Name        string        `json:"name,omitempty"` // of exchanges, queues, policies, parameters

	// exchanges and queues
	Type            string         `json:"type,omitempty"`
	Durable         *bool          `json:"durable,omitempty"`
	AutoDelete      *bool          `json:"auto_delete,omitempty"`
	Internal        *bool          `json:"internal,omitempty"` // absent: unknown
	Exclusive       bool           `json:"exclusive,omitempty"`
	Arguments       map[string]any `json:"arguments,omitempty"` // of bindings too
	Source          string         `json:"source,omitempty"`
	Destination     string         `json:"destination,omitempty"`
	DestinationType string         `json:"destination_type,omitempty"`
	RoutingKey      string         `json:"routing_key,omitempty"`
	PropertiesKey   string         `json:"properties_key,omitempty"`

	// policies and operator policies
	Pattern    *string        `json:"pattern,omitempty"`
	ApplyTo    string         `json:"apply_to,omitempty"`
	Priority   *int64         `json:"priority,omitempty"`
	Definition map[string]any `json:"definition,omitempty"`
	Queue      string         `json:"queue,omitempty"` // that a generated policy belongs to

	// parameters, permissions and topic permissions
	Component string  `json:"component,omitempty"`
	Value     any     `json:"value,omitempty"`
	User      *string `json:"user,omitempty"`
	Exchange  *string `json:"exchange,omitempty"`
	Configure *string `json:"configure,omitempty"`
	Write     *string `json:"write,omitempty"`
	Read      *string `json:"read,omitempty"`

	// virtual hosts
	Description         *string          `json:"description,omitempty"`
	Tags                []string         `json:"tags,omitempty"`
	DefaultQueueType    string           `json:"default_queue_type,omitempty"`
	Limits              map[string]int64 `json:"limits,omitzero"` // {} removes them
	ProtectedFromDelete *bool            `json:"protected_from_deletion,omitempty"`
}

// encodeObject turns an object into its JSON form, secrets masked.
func encodeObject(o topology.Object) *jsonObject {
	if o == nil {
		return nil
	}
	j := &jsonObject{Kind: o.Key().Kind, VirtualHost: o.Key().VirtualHost}
	switch o := o.(type) {
	case *topology.VirtualHostSettings:
		j.Description, j.Tags, j.DefaultQueueType = o.Description, o.Tags, string(o.DefaultQueueType)
		j.Limits, j.ProtectedFromDelete = o.Limits, o.ProtectFromDeletion
	case *topology.Exchange:
		j.Name, j.Type, j.Durable, j.AutoDelete, j.Arguments = o.Name, o.Type, &o.Durable, &o.AutoDelete, encodeTable(o.Arguments)
		if !o.InternalUnknown {
			j.Internal = &o.Internal
		}
	case *topology.Queue:
		j.Name, j.Type, j.Durable, j.AutoDelete, j.Arguments = o.Name, string(o.Type), &o.Durable, &o.AutoDelete, encodeTable(o.Arguments)
		j.Exclusive = o.Exclusive
	case *topology.Binding:
		j.Source, j.Destination, j.DestinationType = o.Source, o.Destination, string(o.DestinationType)
		j.RoutingKey, j.PropertiesKey, j.Arguments = o.RoutingKey, o.PropertiesKey, encodeTable(o.Arguments)
	case *topology.Policy:
		j.Name, j.Pattern, j.ApplyTo, j.Priority = o.Name, &o.Pattern, o.ApplyTo, &o.Priority
		j.Definition, j.Queue = encodeTable(o.Definition), o.Queue
	case *topology.Parameter:
		safe, _ := mask(o.Value)
		j.Component, j.Name, j.Value = o.Component, o.Name, encodeValue(safe)
	case *topology.Permission:
		j.User, j.Configure, j.Write, j.Read = &o.User, &o.Configure, &o.Write, &o.Read
	case *topology.TopicPermission:
		j.User, j.Exchange, j.Write, j.Read = &o.User, &o.Exchange, &o.Write, &o.Read
	}
	return j
}

func encodeTable(a topology.Arguments) map[string]any {
	if len(a) == 0 {
		return nil
	}
	return encodeValue(map[string]any(a)).(map[string]any)
}

// encodeValue keeps floats apart from integers: 5.0 is written as such, since a
// binding's argument 5.0 is another one than 5.
func encodeValue(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return json.Number(strconv.FormatFloat(v, 'f', 1, 64))
		}
	case []any:
		all := make([]any, len(v))
		for i, e := range v {
			all[i] = encodeValue(e)
		}
		return all
	case map[string]any:
		table := make(map[string]any, len(v))
		for k, e := range v {
			table[k] = encodeValue(e)
		}
		return table
	}
	return v
}

// decodeValue makes a decoded value canonical.
func decodeValue(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return strconv.ParseFloat(v.String(), 64)
		}
		return strconv.ParseInt(v.String(), 10, 64)
	case []any:
		for i, e := range v {
			d, err := decodeValue(e)
			if err != nil {
				return nil, err
			}
			v[i] = d
		}
	case map[string]any:
		for k, e := range v {
			d, err := decodeValue(e)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", k, err)
			}
			v[k] = d
		}
	}
	return v, nil
}

func decodeTable(m map[string]any) (topology.Arguments, error) {
	if len(m) == 0 {
		return nil, nil
	}
	_, err := decodeValue(m)
	return m, err
}

// decodeObject is the reverse of encodeObject. What is missing is empty, but what
// an object is never without is demanded.
func decodeObject(j *jsonObject) (topology.Object, error) {
	if j == nil {
		return nil, nil
	}
	arguments, err := decodeTable(j.Arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	missing := func(name string) error { return fmt.Errorf("a %s without %s", j.Kind.Title(), name) }
	switch j.Kind {
	case topology.KindVirtualHost:
		return &topology.VirtualHostSettings{
			VirtualHost: j.VirtualHost, Description: j.Description, Tags: j.Tags,
			DefaultQueueType: topology.QueueType(j.DefaultQueueType), Limits: j.Limits, ProtectFromDeletion: j.ProtectedFromDelete,
		}, nil
	case topology.KindExchange:
		if j.Durable == nil || j.AutoDelete == nil || j.Type == "" {
			return nil, missing("type, durable or auto_delete")
		}
		e := &topology.Exchange{
			VirtualHost: j.VirtualHost, Name: j.Name, Type: j.Type, Durable: *j.Durable, AutoDelete: *j.AutoDelete,
			Arguments: arguments, InternalUnknown: j.Internal == nil,
		}
		e.Internal = j.Internal != nil && *j.Internal
		return e, nil
	case topology.KindQueue:
		if j.Durable == nil || j.AutoDelete == nil || j.Type == "" {
			return nil, missing("type, durable or auto_delete")
		}
		return &topology.Queue{
			VirtualHost: j.VirtualHost, Name: j.Name, Type: topology.QueueType(j.Type), Durable: *j.Durable,
			AutoDelete: *j.AutoDelete, Exclusive: j.Exclusive, Arguments: arguments,
		}, nil
	case topology.KindBinding:
		to := topology.DestinationType(j.DestinationType)
		if to != topology.ToQueue && to != topology.ToExchange {
			return nil, missing("destination_type queue or exchange")
		}
		return &topology.Binding{
			VirtualHost: j.VirtualHost, Source: j.Source, Destination: j.Destination, DestinationType: to,
			RoutingKey: j.RoutingKey, Arguments: arguments, PropertiesKey: j.PropertiesKey,
		}, nil
	case topology.KindPolicy, topology.KindOperatorPolicy:
		definition, err := decodeTable(j.Definition)
		if err != nil {
			return nil, fmt.Errorf("definition: %w", err)
		}
		if j.Pattern == nil || j.Priority == nil {
			return nil, missing("pattern or priority")
		}
		return &topology.Policy{
			VirtualHost: j.VirtualHost, Name: j.Name, Operator: j.Kind == topology.KindOperatorPolicy, Pattern: *j.Pattern,
			ApplyTo: j.ApplyTo, Priority: *j.Priority, Definition: definition, Queue: j.Queue,
		}, nil
	case topology.KindParameter:
		value, err := decodeValue(j.Value)
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		return &topology.Parameter{VirtualHost: j.VirtualHost, Component: j.Component, Name: j.Name, Value: value}, nil
	case topology.KindPermission:
		if j.User == nil || j.Configure == nil || j.Write == nil || j.Read == nil {
			return nil, missing("user, configure, write or read")
		}
		return &topology.Permission{VirtualHost: j.VirtualHost, User: *j.User, Configure: *j.Configure, Write: *j.Write, Read: *j.Read}, nil
	case topology.KindTopicPermission:
		if j.User == nil || j.Exchange == nil || j.Write == nil || j.Read == nil {
			return nil, missing("user, exchange, write or read")
		}
		return &topology.TopicPermission{VirtualHost: j.VirtualHost, User: *j.User, Exchange: *j.Exchange, Write: *j.Write, Read: *j.Read}, nil
	}
	return nil, fmt.Errorf("unknown kind %q", j.Kind)
}
