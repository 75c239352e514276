// Package compile writes a desired topology as a definitions file that RabbitMQ
// imports when it boots or by POST /api/definitions. It is pure.
package compile

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

type object = map[string]any

// Definitions writes the file for a version. Every object names its virtual host
// and every field that RabbitMQ would else guess is there: a missing routing key
// becomes "undefined" on import, and a node that imports at boot makes neither guest
// nor "/" by itself (measured on 3.10.8, 4.0.5 and 4.3.6). External
// objects and amq.* exchanges are left out, as are bindings whose ends are then
// missing; the findings name these. Equal input gives equal text.
func Definitions(t *topology.Topology, v catalog.Version) ([]byte, diag.List, error) {
	c := &compiler{}
	for _, vhost := range t.VirtualHosts {
		c.add(vhost, v)
	}
	c.found.Add(diag.Diagnostic{
		Severity: diag.Info, Code: "no-users-in-file", Summary: "the file makes no users",
		Detail: "A new node that imports it when it boots makes no guest either, and nobody can log in: add users to the file, or import it with POST /api/definitions.",
	})
	c.found.Sort()
	data, err := json.MarshalIndent(object{
		"rabbit_version": v.String(), "rabbitmq_version": v.String(),
		"vhosts": list(c.vhosts), "permissions": list(c.permissions), "topic_permissions": list(c.topic),
		"parameters": list(c.parameters), "policies": list(c.policies), "exchanges": list(c.exchanges),
		"queues": list(c.queues), "bindings": list(c.bindings),
	}, "", "  ")
	if err != nil {
		return nil, c.found, fmt.Errorf("write definitions: %w", err)
	}
	return append(data, '\n'), c.found, nil
}

type compiler struct {
	vhosts, permissions, topic, parameters, policies, exchanges, queues, bindings []object
	found                                                                         diag.List
}

func list(all []object) []object {
	if all == nil {
		return []object{} // null is refused
	}
	return all
}

// table is an argument table; null is refused.
func table(a topology.Arguments) topology.Arguments {
	if a == nil {
		return topology.Arguments{}
	}
	return a
}

func (c *compiler) add(v *topology.VirtualHost, version catalog.Version) {
	c.addSettings(v, version)
	there := map[topology.End]bool{}
	for _, x := range v.Exchanges {
		if x.Name == "" || strings.HasPrefix(x.Name, "amq.") || x.Intent != nil && x.Intent.External {
			continue
		}
		there[topology.End{Type: topology.ToExchange, Name: x.Name}] = true
		c.exchanges = append(c.exchanges, object{
			"vhost": v.Name, "name": x.Name, "type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete,
			"internal": x.Internal, "arguments": table(x.Arguments),
		})
	}
	for _, q := range v.Queues {
		if q.Intent != nil && q.Intent.External {
			continue
		}
		there[topology.End{Type: topology.ToQueue, Name: q.Name}] = true
		// Without a type the default of the virtual host would decide.
		args := topology.Arguments{"x-queue-type": string(q.Type)}
		for k, value := range q.Arguments {
			args[k] = value
		}
		c.queues = append(c.queues, object{
			"vhost": v.Name, "name": q.Name, "durable": q.Durable, "auto_delete": q.AutoDelete, "arguments": args,
		})
	}
	for _, b := range v.Bindings {
		ok := func(e topology.End) bool {
			return there[e] || e.Type == topology.ToExchange && strings.HasPrefix(e.Name, "amq.")
		}
		to := topology.End{Type: b.DestinationType, Name: b.Destination}
		if from := (topology.End{Type: topology.ToExchange, Name: b.Source}); !ok(from) || !ok(to) {
			missing := from
			if ok(from) {
				missing = to
			}
			c.warn("binding-end-missing", b, fmt.Sprintf("the %s is left out: the %s %q is not in the file", b.Key(), missing.Type, missing.Name),
				"RabbitMQ 3.10 skips such a binding on import without a word, 4.x refuses the file. Make it with rabbitctl apply.")
			continue
		}
		c.bindings = append(c.bindings, object{
			"vhost": v.Name, "source": b.Source, "destination": b.Destination, "destination_type": string(b.DestinationType),
			"routing_key": b.RoutingKey, "arguments": table(b.Arguments),
		})
	}
	for _, p := range v.Policies {
		c.policies = append(c.policies, object{
			"vhost": v.Name, "name": p.Name, "pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": table(p.Definition),
		})
	}
	for _, p := range v.OperatorPolicies {
		c.parameter(v, "operator_policy", p.Name, object{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": table(p.Definition),
		})
	}
	for _, p := range v.Parameters {
		c.parameter(v, p.Component, p.Name, p.Value)
	}
	c.addPermissions(v)
}

func (c *compiler) addSettings(v *topology.VirtualHost, version catalog.Version) {
	entry, metadata := object{"name": v.Name}, object{}
	if s := v.Settings; s != nil {
		if s.Description != nil {
			entry["description"], metadata["description"] = *s.Description, *s.Description
		}
		if s.Tags != nil {
			entry["tags"], metadata["tags"] = s.Tags, s.Tags
		}
		if s.DefaultQueueType != "" && version.AtLeast(catalog.V(3, 11)) {
			entry["default_queue_type"], metadata["default_queue_type"] = s.DefaultQueueType, s.DefaultQueueType
		}
		if s.ProtectFromDeletion != nil {
			entry["protected_from_deletion"], metadata["protected_from_deletion"] = *s.ProtectFromDeletion, *s.ProtectFromDeletion
		}
		if len(s.Limits) > 0 {
			c.parameter(v, "vhost-limits", "limits", s.Limits)
		}
	}
	if len(metadata) > 0 {
		entry["metadata"] = metadata
	}
	c.vhosts = append(c.vhosts, entry)
}

func (c *compiler) parameter(v *topology.VirtualHost, component, name string, value any) {
	c.parameters = append(c.parameters, object{"vhost": v.Name, "component": component, "name": name, "value": value})
}

func (c *compiler) addPermissions(v *topology.VirtualHost) {
	for _, p := range v.Permissions {
		c.user(p, p.User)
		c.permissions = append(c.permissions, object{"vhost": v.Name, "user": p.User, "configure": p.Configure, "write": p.Write, "read": p.Read})
	}
	for _, p := range v.TopicPermissions {
		c.user(p, p.User)
		c.topic = append(c.topic, object{"vhost": v.Name, "user": p.User, "exchange": p.Exchange, "write": p.Write, "read": p.Read})
	}
}

func (c *compiler) user(o topology.Object, user string) {
	c.warn("user-not-in-file", o, fmt.Sprintf("the file grants a %s to user %q, whom it does not make", o.Key().Kind.Title(), user),
		"RabbitMQ refuses it where the user does not exist: make the user before the import, or add it to the file.")
}

func (c *compiler) warn(code string, o topology.Object, summary, detail string) {
	c.found.Add(diag.Diagnostic{Severity: diag.Warning, Code: code, Summary: summary, Detail: detail, Object: o.Key(), Position: o.Place()})
}
