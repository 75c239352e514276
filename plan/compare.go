package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// compare finds the changes of one virtual host.
func (c *computation) compare(h *host) {
	c.compareSettings(h)
	objects := h.live.Objects()
	h.objects = make(map[topology.Key]topology.Object, len(objects))
	for _, o := range objects {
		h.objects[o.Key()] = o
	}
	live := h.objects
	for _, o := range h.desired.Objects() {
		h.managed[o.Key()] = true
	}
	c.findDeletes(h)
	left := h.bindingsLeft()
	var later []topology.Object
	seen := make(map[topology.Key]bool, len(h.managed))
	for _, o := range h.desired.Objects() {
		k := o.Key()
		if k.Kind == topology.KindVirtualHost || seen[k] {
			continue
		}
		seen[k] = true
		switch k.Kind {
		case topology.KindExchange, topology.KindQueue:
			later = append(later, o) // they are judged by the policies to come
		default:
			c.compareObject(o, live[k])
			if b, ok := o.(*topology.Binding); ok && c.changes[k] != nil {
				c.noteLeft(c.changes[k], left[endsOf(b)])
			}
		}
	}
	c.setAfter(h, func(*Change) bool { return true })
	for _, o := range later {
		switch o := o.(type) {
		case *topology.Exchange:
			c.compareExchange(h, o)
		case *topology.Queue:
			c.compareQueue(h, o)
		}
	}
	c.unmanaged(h)
}

// compareSettings compares the virtual host itself, as far as the spec says
// anything of it.
func (c *computation) compareSettings(h *host) {
	want := h.desired.Settings
	if h.missing {
		if want == nil {
			want = &topology.VirtualHostSettings{VirtualHost: h.name, Position: h.desired.Position}
		}
		c.create(want)
		return
	}
	if want == nil {
		return
	}
	have := h.live.Settings
	if have == nil {
		have = &topology.VirtualHostSettings{VirtualHost: h.name, DefaultQueueType: h.live.DefaultQueueType}
		for _, a := range want.Attributes() {
			if a.Name != "default_queue_type" {
				c.note(want.Key(), "unknown", "%s could not be read from the broker and is not compared", a.Name)
			}
		}
		want = &topology.VirtualHostSettings{VirtualHost: h.name, DefaultQueueType: want.DefaultQueueType, Position: want.Position}
	}
	if have.DefaultQueueType == "" {
		known := *have
		known.DefaultQueueType = h.live.DefaultQueueType
		have = &known
	}
	// Only what is stated is compared, and nothing equals what is empty. Limits are
	// stated together: one that is left out is none.
	var fields []Field
	for _, f := range differences(want, have) {
		stated := f.New != nil || want.Limits != nil && strings.HasPrefix(f.Name, "limits.")
		if stated && (f.Old != nil || !isEmpty(f.New)) {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return
	}
	change := c.update(want, have, fields)
	if slices.ContainsFunc(fields, func(f Field) bool { return f.Name == "default_queue_type" }) {
		change.Reasons = append(change.Reasons, Reason{"default-queue-type", "queues that exist keep their type"})
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	}
	return false
}

// compareObject compares kinds of which the broker changes everything in place.
func (c *computation) compareObject(want, have topology.Object) {
	if have == nil {
		c.create(want)
		return
	}
	fields := differences(want, have)
	if len(fields) == 0 {
		fields = c.changedSecret(want, have)
	}
	if len(fields) > 0 {
		c.update(want, have, maskFields(fields))
	}
}

// ends are the two ends of a binding.
type ends struct {
	source string
	to     topology.End
}

func endsOf(b *topology.Binding) ends {
	return ends{b.Source, topology.End{Type: b.DestinationType, Name: b.Destination}}
}

// bindingsLeft lists live bindings that the spec does not have, by their ends.
func (h *host) bindingsLeft() map[ends][]string {
	wanted := make(map[string]bool, len(h.desired.Bindings))
	for _, b := range h.desired.Bindings {
		wanted[b.Key().Name] = true
	}
	left := map[ends][]string{}
	for _, b := range h.live.Bindings {
		if name := b.Key().Name; !wanted[name] && h.leaving[b.Key()] == nil {
			left[endsOf(b)] = append(left[endsOf(b)], name)
		}
	}
	for _, names := range left {
		slices.Sort(names)
	}
	return left
}

// noteLeft says of a new binding which others stay: a binding cannot be changed,
// a new one stands beside the old.
func (c *computation) noteLeft(change *Change, left []string) {
	if len(left) == 0 {
		return
	}
	text := fmt.Sprintf("%s between the same ends, not in the spec and left as it was: %s", plural(len(left), "binding"), strings.Join(firstFew(left), ", "))
	change.Reasons = append(change.Reasons, Reason{"binding-left", text})
	c.note(change.Key, "binding-left", "%s", text)
}

func (c *computation) create(want topology.Object) *Change {
	return c.add(&Change{
		Key: want.Key(), Action: Create, After: want,
		Reasons: []Reason{{"missing", "it does not exist on the broker"}},
	})
}

func (c *computation) update(want, have topology.Object, fields []Field) *Change {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return c.add(&Change{
		Key: want.Key(), Action: Update, Before: have, After: want, Fields: fields,
		Reasons: []Reason{{"differs", "differs in " + strings.Join(names, ", ")}},
	})
}

// differences lists the attributes in which two objects differ, in their order:
// properties, then arguments by name.
func differences(want, have topology.Object) []Field {
	old, wanted := have.Attributes(), want.Attributes()
	values := make(map[string]any, len(old))
	for _, a := range old {
		values[a.Name] = a.Value
	}
	var fields []Field
	seen := make(map[string]bool, len(wanted))
	for _, a := range wanted {
		seen[a.Name] = true
		before, ok := values[a.Name]
		if !ok {
			fields = append(fields, Field{Name: a.Name, New: a.Value})
		} else if !equalValue(a.Value, before) {
			fields = append(fields, Field{Name: a.Name, Old: before, New: a.Value})
		}
	}
	for _, a := range old {
		if !seen[a.Name] {
			fields = append(fields, Field{Name: a.Name, Old: a.Value})
		}
	}
	return fields
}

// equalValue compares values; a reference such as ${env:NAME} in a desired text
// stands for anything, since its value is known only when it is applied.
func equalValue(want, have any) bool {
	switch w := want.(type) {
	case string:
		h, ok := have.(string)
		return ok && (w == h || matchesReference(w, h))
	case []any:
		h, ok := have.([]any)
		return ok && slices.EqualFunc(w, h, equalValue)
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok || len(w) != len(h) {
			return false
		}
		for k, v := range w {
			if old, ok := h[k]; !ok || !equalValue(v, old) {
				return false
			}
		}
		return true
	}
	return topology.Equal(want, have)
}

// unmanaged lists what lives on the broker without being in the spec.
func (c *computation) unmanaged(h *host) {
	listed := map[topology.Key]bool{} // of bindings that look alike one is listed
	for _, o := range h.live.Objects() {
		k := o.Key()
		name := ""
		switch o := o.(type) {
		case *topology.VirtualHostSettings:
			continue
		case *topology.Exchange:
			if predeclared(o.Name) {
				continue
			}
			name = o.Name
		case *topology.Queue:
			if o.Exclusive {
				continue
			}
			name = o.Name
		}
		if h.managed[k] || listed[k] || h.leaving[k] != nil || name != "" && h.external(name) {
			continue
		}
		listed[k] = true
		if _, ours := h.recorded(k); ours {
			c.plan.LeftBehind = append(c.plan.LeftBehind, k)
		} else {
			c.plan.Unmanaged = append(c.plan.Unmanaged, k)
		}
	}
}

// external reports whether a pattern of the spec leaves an object to others.
func (h *host) external(name string) bool {
	return slices.ContainsFunc(h.desired.External, func(p topology.ExternalPattern) bool {
		return p.Pattern != nil && p.Pattern.MatchString(name)
	})
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, noun[:len(noun)-1])
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// firstFew shortens a list for a sentence.
func firstFew(list []string) []string {
	const few = 5
	if len(list) <= few {
		return list
	}
	return append(slices.Clone(list[:few]), fmt.Sprintf("and %d more", len(list)-few))
}
