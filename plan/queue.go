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

// since43 is the series that compares x-max-age by length (older ones compare the
// text).
var since43 = catalog.V(4, 3)

func (c *computation) compareQueue(h *host, want *topology.Queue) {
	have := h.have.Queues[want.Name]
	intent := want.Intent
	if intent == nil {
		intent = &topology.QueueIntent{}
	}
	hold := h.have.Queues[topology.HoldPrefix+want.Name]
	switch {
	case have == nil && intent.External:
		c.externalMissing(want)
		return
	case have == nil && hold != nil:
		c.replaceQueue(h, want, hold, nil, "")
		return
	case have == nil:
		c.create(want)
		return
	}
	fields := slices.DeleteFunc(differences(want, have), func(f Field) bool { return c.sameAge(f) })
	if have.Exclusive {
		fields = append(fields, Field{Name: "exclusive", Old: true, New: false})
	}
	if intent.External {
		c.externalDiffers(want, intent.Stated, fields)
		return
	}
	judge := argumentJudge{c: c, h: h, want: want, have: have, intent: intent}
	var notes []string
	differing := false
	for i := range fields {
		fields[i].Fixed = true
		if why := judge.harmless(fields[i]); why != "" {
			notes = append(notes, why)
		} else {
			differing = true
		}
	}
	if intent.DeclaredByClients && len(fields) > 0 {
		differing = true // equal in effect is not enough: they declare what is written
	}
	if !differing && hold == nil {
		for _, n := range notes {
			c.note(want.Key(), "argument-differs", "%s", n)
		}
		return
	}
	wayOut := ""
	if differing {
		wayOut = judge.wayOut(fields)
	}
	c.replaceQueue(h, want, have, fields, wayOut)
}

// sameAge reports whether a differing x-max-age is none on this version.
func (c *computation) sameAge(f Field) bool {
	old, okOld := f.Old.(string)
	wanted, okNew := f.New.(string)
	if f.Name != "x-max-age" || !okOld || !okNew || c.version.Below(since43) {
		return false
	}
	a, errA := catalog.ParseAge(old)
	b, errB := catalog.ParseAge(wanted)
	return errA == nil && errB == nil && a == b
}

// externalMissing is an object that the spec expects of others.
func (c *computation) externalMissing(want topology.Object) {
	change := c.create(want)
	change.Reasons = []Reason{{"external-missing", "the spec says that others make it, and it does not exist"}}
	change.block("external-missing", "create it where it belongs, or take external: true away so that it is created here",
		"%s is external and does not exist", want.Key())
}

// externalDiffers reports stated fields of an external object that differ; they
// are never changed.
func (c *computation) externalDiffers(want topology.Object, stated map[string]bool, fields []Field) {
	var texts []string
	for _, f := range fields {
		if stated[f.Name] {
			texts = append(texts, describe(f))
		}
	}
	if len(texts) == 0 {
		return
	}
	c.warn(want, "external-differs", fmt.Sprintf("%s is external and differs from the spec: %s", want.Key(), strings.Join(texts, "; ")),
		"it is never changed here; change it where it belongs, or the spec")
}

// describe writes one differing field: x-message-ttl 30000 -> 60000.
func describe(f Field) string {
	write := func(v any) string {
		if v == nil {
			return "absent"
		}
		return text.Line(topology.Text(v))
	}
	return fmt.Sprintf("%s %s -> %s", text.Line(f.Name), write(f.Old), write(f.New))
}

func (c *computation) replace(want, have topology.Object, fields []Field) *Change {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = describe(f)
	}
	change := c.add(&Change{Key: want.Key(), Action: Replace, Before: have, After: want, Fields: fields})
	if len(fields) > 0 {
		change.Reasons = []Reason{{"fixed-at-declaration", "RabbitMQ fixes at declaration what differs: " + strings.Join(texts, "; ")}}
	}
	if counts, ok := c.in.Counts[change.Key]; ok {
		change.Cost.Counts = counts
	} else if change.Key.Kind == topology.KindQueue && !c.in.Offline {
		c.wants[change.Key] = true
	}
	return change
}

// argumentJudge decides which differing arguments matter.
type argumentJudge struct {
	c      *computation
	h      *host
	want   *topology.Queue
	have   *topology.Queue
	intent *topology.QueueIntent

	ready    bool
	inEffect map[string]policy.Value // on the live queue, with the policies to come
	declared map[string]policy.Value // on a queue declared as wanted
}

func (j *argumentJudge) prepare() {
	if j.ready {
		return
	}
	j.ready = true
	m := j.h.after.Queue(j.have.Name, j.have.Type)
	j.inEffect = j.h.after.Effective(j.have, m)
	j.declared = j.h.after.Effective(j.want, m)
}

// harmless says why a differing argument needs no replacement; "" when it does.
// A live argument that is extra or different is harmless while what is in effect
// is what the spec declares; one that does nothing on this version always is.
func (j *argumentJudge) harmless(f Field) string {
	switch f.Name {
	case "type", "durable", "auto_delete", "exclusive":
		return ""
	}
	if j.want.Type != j.have.Type {
		return ""
	}
	row := catalog.LookupArgument(f.Name)
	if row == nil {
		if f.New == nil {
			return fmt.Sprintf("the argument %s is on the queue and not in the spec; RabbitMQ does not know it", text.Line(f.Name))
		}
		return ""
	}
	v := j.c.version
	if !row.TakesArgument(j.have.Type, v) {
		return fmt.Sprintf("the argument differs and does nothing on a %s queue of RabbitMQ %s: %s", j.have.Type, v, describe(f))
	}
	if f.Old == nil {
		return "" // what the spec wants as an argument must be one
	}
	j.prepare()
	have, want := j.inEffect[row.Name].Value, j.declared[row.Name].Value
	if s, stated := j.intent.Settings[row.Name]; stated {
		want = s.Value
	}
	if !j.c.sameSetting(row, j.have.Type, want, have) {
		return ""
	}
	return fmt.Sprintf("the argument differs, the value in effect is as declared: %s", describe(f))
}

const keepLive = "keep the live values in the spec"

// wayOut says what can be done instead of a replacement.
func (j *argumentJudge) wayOut(fields []Field) string {
	if j.intent.Role == topology.RoleWait && j.intent.Generated != "" {
		return "keep the live values in the spec, or write another name under retry.wait_queue of the work queue: a new wait queue is made, " +
			"what waits in this one still comes back, and then it can be deleted"
	}
	var movable, held []string
	for _, f := range fields {
		row := catalog.LookupArgument(f.Name)
		v, t := j.c.version, j.have.Type
		if row == nil || f.New == nil || j.want.Type != j.have.Type || row.Effect == catalog.AtDeclaration ||
			!row.TakesPolicy(v) || !row.PolicyActsOn(t, v) {
			return keepLive
		}
		q := *j.have
		p := &topology.Policy{Definition: topology.Arguments{row.PolicyKey: f.New}}
		got := j.h.after.Effective(&q, policy.Match{Policy: p})[row.Name].Value
		if j.c.sameSetting(row, t, f.New, got) {
			movable = append(movable, row.SpecKey())
		} else {
			held = append(held, row.SpecKey())
		}
	}
	switch {
	case len(held) > 0:
		return fmt.Sprintf("a policy can carry %s (settings_by: policy), but the argument that the queue has would still win over this value; %s",
			strings.Join(held, ", "), keepLive)
	case len(movable) > 0:
		return fmt.Sprintf("a policy can carry %s without replacing the queue (settings_by: policy); or %s", strings.Join(movable, ", "), keepLive)
	}
	return keepLive
}

// sameSetting compares a wanted value with one in effect, each nil when absent.
// Absent equals what RabbitMQ then does.
func (c *computation) sameSetting(row *catalog.Setting, t topology.QueueType, want, have any) bool {
	return topology.Equal(c.spelled(row, t, want), c.spelled(row, t, have))
}

// spelled gives values that mean the same one form.
func (c *computation) spelled(row *catalog.Setting, t topology.QueueType, v any) any {
	if v == nil {
		v = row.DefaultFor(t, c.version)
	}
	switch row.Name {
	case "delivery-limit":
		if n, ok := v.(int64); ok && n < 0 || v == nil {
			return int64(-1) // no limit
		}
	case "delayed-retry-type":
		if v == nil {
			return "disabled"
		}
	case "queue-mode":
		if v == nil {
			return "default"
		}
	case "single-active-consumer":
		if v == nil {
			return false
		}
	case "max-age":
		if s, ok := v.(string); ok && c.version.AtLeast(since43) {
			if d, err := catalog.ParseAge(s); err == nil {
				return d.String()
			}
		}
	}
	return v
}
