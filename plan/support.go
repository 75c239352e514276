package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// checkSupport blocks what the broker's version refuses, or takes without doing
// what is written.
func (c *computation) checkSupport(h *host, change *Change) {
	switch o := change.After.(type) {
	case *topology.VirtualHostSettings:
		if o.DefaultQueueType != "" && c.version.Below(since311) {
			change.block("not-supported", "leave default_queue_type out, or use a newer broker: write the type at each queue",
				"RabbitMQ %s takes a default queue type of %s and ignores it", c.version, change.Key)
		}
	case *topology.Exchange:
		c.checkExchangeType(change, o)
	case *topology.Queue:
		if change.Action == Create && (o.Intent == nil || !o.Intent.External) {
			c.checkArguments(change, o)
		}
	case *topology.Policy:
		c.checkPolicy(h, change, o)
	}
}

// checkExchangeType goes by the list that the broker reports. Trying would cost
// the connection on 3.10 (503 COMMAND_INVALID).
func (c *computation) checkExchangeType(change *Change, e *topology.Exchange) {
	known := c.in.Server.ExchangeTypes
	if change.Action != Create || known == nil || slices.Contains(known, e.Type) || e.Intent != nil && e.Intent.External {
		return
	}
	unlock := "use an exchange type that the broker has: " + text.Line(strings.Join(slices.Sorted(slices.Values(known)), ", "))
	if t := catalog.LookupExchangeType(e.Type); t != nil && t.Plugin != "" {
		unlock = fmt.Sprintf("enable the plugin %s on the broker, or use another type", t.Plugin)
		if e.Type == "x-delayed-message" {
			unlock += "; wait queues delay without a plugin"
		}
	}
	change.block("exchange-type-missing", unlock, "the broker has no exchange type %q", e.Type)
}

func (c *computation) checkArguments(change *Change, q *topology.Queue) {
	v := c.version
	for _, name := range q.Arguments.Keys() {
		row := catalog.LookupArgument(name)
		if row == nil || row.Exchange {
			continue
		}
		value := q.Arguments[name]
		if !row.TakesArgument(q.Type, v) {
			switch {
			case row.IgnoresArgument(q.Type, v) && row.IsDeprecated(v):
				c.note(change.Key, "no-effect", "%s does nothing on a %s queue of RabbitMQ %s", name, q.Type, v)
			case row.IgnoresArgument(q.Type, v):
				change.block("not-supported", supportedSince(row, q.Type, name),
					"RabbitMQ %s takes the argument %s on a %s queue and ignores it", v, name, q.Type)
			default:
				change.block("not-supported", supportedSince(row, q.Type, name),
					"RabbitMQ %s does not know the argument %s on a %s queue", v, name, q.Type)
			}
			continue
		}
		if wrong := row.CheckValueFor(value, q.Type, v, topology.ByArgument); wrong != "" {
			change.block("not-supported", "leave "+name+" out, or write another value", "the argument %s %s", name, text.Line(wrong))
		}
	}
}

func supportedSince(row *catalog.Setting, t topology.QueueType, name string) string {
	for _, s := range row.Arguments {
		if s.QueueType == t && !s.Since.IsZero() {
			return fmt.Sprintf("leave %s out, or use RabbitMQ %s or later", name, s.Since)
		}
	}
	return "leave " + name + " out"
}

// maxPatternBytes is the longest pattern that 4.3 takes (measured on 4.3.6).
const maxPatternBytes = 1024

func (c *computation) checkPolicy(h *host, change *Change, p *topology.Policy) {
	v := c.version
	if applyTo := catalog.ApplyTo(v); !slices.Contains(applyTo, p.ApplyTo) {
		change.block("not-supported", "use one of "+strings.Join(applyTo, ", "), "RabbitMQ %s does not know apply-to %q", v, p.ApplyTo)
	}
	if v.AtLeast(since43) && len(p.Pattern) > maxPatternBytes {
		change.block("not-supported", "write a shorter pattern", "RabbitMQ %s refuses patterns of more than %d bytes, this one has %d", v, maxPatternBytes, len(p.Pattern))
	}
	for _, key := range p.Definition.Keys() {
		row := catalog.LookupPolicyKey(key)
		if row == nil || row.Plugin != "" {
			continue
		}
		if p.Operator && !row.TakesOperatorPolicy(v) || !p.Operator && !row.TakesPolicy(v) {
			change.block("not-supported", "leave "+key+" out", "RabbitMQ %s refuses the key %s in %s %q", v, key, change.Key.Kind.Title(), p.Name)
			continue
		}
		if wrong := c.policyValue(h, p, row, p.Definition[key]); wrong != "" {
			change.block("not-supported", "leave "+key+" out, or write another value", "the key %s %s", key, text.Line(wrong))
		}
	}
}

// policyValue says what is wrong with a value on every queue type that the policy
// is for; on some it may be right.
func (c *computation) policyValue(h *host, p *topology.Policy, row *catalog.Setting, value any) string {
	wrong := ""
	for _, t := range topology.QueueTypes {
		if q := h.want.Queues[p.Queue]; p.Queue != "" && q != nil && q.Type != t {
			continue
		}
		if !policy.AppliesTo(p.ApplyTo, t) || !row.PolicyMatchesType(t, c.version) {
			continue
		}
		if wrong = row.CheckValueFor(value, t, c.version, topology.ByPolicy); wrong == "" {
			return ""
		}
	}
	return wrong
}
