package plan

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// recorded is how the stack has recorded an object.
func (h *host) recorded(k topology.Key) (ownership.State, bool) {
	if h.owner == nil {
		return "", false
	}
	s, ok := h.owner.Ours[k]
	return s, ok
}

// owned reports whether another stack has recorded an object.
func (h *host) owned(k topology.Key) bool { return h.owner != nil && h.owner.Others[k] != "" }

// records reports whether there is a record to go by.
func (h *host) records() bool { return h.owner != nil && h.owner.Why == "" }

// judgeOwners blocks changes of objects that others made, and lists what is
// adopted as it is.
func (c *computation) judgeOwners(h *host) {
	if h.records() {
		c.plan.Stacks[h.name] = h.owner.Stack
	}
	if h.owner == nil {
		return
	}
	unrecorded := 0
	for _, o := range h.desired.Objects() {
		k := o.Key()
		if h.objects[k] == nil || isExternal(o) || !c.isWanted(k) {
			continue
		}
		if h.owner.Owns(k) {
			continue
		}
		change, adopted := c.changes[k], h.records() && c.adopts(o)
		switch {
		case change != nil && !adopted:
			c.blockForeign(h, change)
		case change == nil && adopted && k.Kind != topology.KindVirtualHost && !isPredeclared(o):
			c.plan.Adopt = append(c.plan.Adopt, k)
		case change == nil && h.owned(k):
			c.note(k, "owned-by-other-stack", "it is recorded as stack %q's, and this spec has it too", h.owner.Others[k])
		case change == nil && h.records() && k.Kind != topology.KindVirtualHost && !isPredeclared(o):
			unrecorded++
		}
	}
	here := topology.Key{Kind: topology.KindVirtualHost, VirtualHost: h.name}
	if unrecorded > 0 {
		c.note(here, "not-recorded", "%s as the spec says and not recorded as stack %q's, so that nothing of it is deleted when it leaves the spec; --adopt KIND/NAME records it",
			isOrAre(unrecorded, "object"), h.owner.Stack)
	}
	if h.owner.Stack != "" && h.owner.Why != "" {
		c.note(here, "no-record", "nothing is deleted or recorded: %s", h.owner.Why)
	}
}

func isOrAre(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

// isWanted reports whether a plan with targets is about the object.
func (c *computation) isWanted(k topology.Key) bool {
	return c.wanted == nil || c.wanted[k] || c.changes[k] != nil
}

// adopts reports whether an object of the spec is to be recorded as the stack's. A
// queue or an exchange stands for the bindings that the spec writes at it, and a
// queue for its generated policy.
func (c *computation) adopts(o topology.Object) bool {
	keys := []topology.Key{o.Key()}
	switch o := o.(type) {
	case *topology.Binding:
		kind := topology.KindQueue
		if o.DestinationType == topology.ToExchange {
			kind = topology.KindExchange
		}
		keys = append(keys, topology.Key{Kind: kind, VirtualHost: o.VirtualHost, Name: o.Destination})
	case *topology.Policy:
		if o.Queue != "" {
			keys = append(keys, topology.Key{Kind: topology.KindQueue, VirtualHost: o.VirtualHost, Name: o.Queue})
		}
	}
	return c.allows("adopt", keys...)
}

// blockForeign blocks the change of an object that is there and that the stack has
// not recorded as its own.
func (c *computation) blockForeign(h *host, change *Change) {
	if change.Before == nil {
		return
	}
	k := change.Key
	if other := h.owner.Others[k]; other != "" {
		unlock := "change it where stack " + fmt.Sprintf("%q", other) + " is written"
		if h.records() {
			unlock += ", or take it over: " + flagFor("--adopt", "", k)
		}
		change.block("owned-by-other-stack", unlock, "%s is recorded as stack %q's", k, other)
		return
	}
	if p, ok := change.After.(*topology.Policy); ok && p.Queue != "" {
		return // a generated policy belongs to whoever declares the queue
	}
	if h.records() {
		change.block("not-owned", "make it the stack's: "+flagFor("--adopt", "", k),
			"%s exists, differs and is not recorded as stack %q's: others may rely on it as it is", k, h.owner.Stack)
	}
}

// isExternal reports whether the spec says that others make the object.
func isExternal(o topology.Object) bool {
	switch o := o.(type) {
	case *topology.Queue:
		return o.Intent != nil && o.Intent.External
	case *topology.Exchange:
		return o.Intent != nil && o.Intent.External
	}
	return false
}

func isPredeclared(o topology.Object) bool {
	e, ok := o.(*topology.Exchange)
	return ok && predeclared(e.Name)
}

// flagFor is the flag that consents to something, as it is typed in a shell.
func flagFor(flag, action string, k topology.Key) string {
	value := k.Address()
	if action != "" {
		value = action + "=" + value
	}
	return flag + " " + inShell(value)
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:=@%+,"
