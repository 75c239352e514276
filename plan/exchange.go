package plan

import (
	"fmt"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func (c *computation) compareExchange(h *host, want *topology.Exchange) {
	have := h.have.Exchanges[want.Name]
	intent := want.Intent
	if intent == nil {
		intent = &topology.ExchangeIntent{}
	}
	if have == nil {
		switch {
		case predeclared(want.Name): // definitions do not list it
		case intent.External:
			c.externalMissing(want)
		default:
			c.create(want)
		}
		return
	}
	fields := differences(want, have)
	if want.InternalUnknown || have.InternalUnknown {
		fields = slices.DeleteFunc(fields, func(f Field) bool { return f.Name == "internal" })
	}
	if intent.External {
		c.externalDiffers(want, intent.Stated, fields)
		return
	}
	differing := false
	var notes []string
	for i, f := range fields {
		fields[i].Fixed = true
		if why := c.harmlessOnExchange(h, want, have, f); why != "" {
			notes = append(notes, why)
		} else {
			differing = true
		}
	}
	if intent.DeclaredByClients && len(fields) > 0 {
		differing = true
	}
	if !differing {
		for _, n := range notes {
			c.note(want.Key(), "argument-differs", "%s", n)
		}
		return
	}
	change := c.replace(want, have, fields)
	change.Cost.Bindings = len(h.have.From[want.Name]) + len(h.have.To[topology.End{Type: topology.ToExchange, Name: want.Name}])
	change.Reasons = append(change.Reasons, Reason{"publishers-refused", "while it is gone, publishing to it closes the channel with 404 (NOT_FOUND)"})
	c.describeReplacement(change, intent.DeclaredByClients)
	if len(change.Blocked) == 0 {
		change.block("replace", "keep the live values in the spec, or give the exchange a new name and move its publishers and bindings; docs/replace.md has the procedure",
			"%s can only be changed by deleting it and creating it again: %s", change.Key, fieldNames(fields))
	}
}

// harmlessOnExchange says why a differing attribute needs no replacement; "" when
// it does.
func (c *computation) harmlessOnExchange(h *host, want, have *topology.Exchange, f Field) string {
	if f.Old == nil {
		return ""
	}
	switch f.Name {
	case "type", "durable", "auto_delete", "internal":
		return ""
	case "alternate-exchange":
		m := h.after.Exchange(have.Name)
		declared := h.after.EffectiveExchange(want, m)["alternate-exchange"].Value
		if topology.Equal(declared, h.after.EffectiveExchange(have, m)["alternate-exchange"].Value) {
			return fmt.Sprintf("the argument differs, the value in effect is as declared: %s", describe(f))
		}
		return ""
	}
	if f.New == nil && catalog.LookupExchangeArgument(f.Name) == nil {
		return fmt.Sprintf("the argument %s is on the exchange and not in the spec; RabbitMQ does not know it", text.Line(f.Name))
	}
	return ""
}
