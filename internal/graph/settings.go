package graph

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// book holds findings by what they are about until they are drawn.
type book struct {
	all     diag.List
	of      map[topology.Key][]int
	printed []bool
}

func newBook(list diag.List) *book {
	b := &book{all: list, of: map[topology.Key][]int{}, printed: make([]bool, len(list))}
	for i, d := range list {
		if len(d.Objects) == 0 {
			b.of[d.Object] = append(b.of[d.Object], i)
		}
		for _, k := range d.Objects {
			b.of[k] = append(b.of[k], i)
		}
	}
	return b
}

// look returns the findings on an object.
func (b *book) look(k topology.Key) diag.List {
	var list diag.List
	for _, i := range b.of[k] {
		list = append(list, b.all[i])
	}
	return list
}

// take returns the findings on an object, which have then their place.
func (b *book) take(k topology.Key) diag.List {
	for _, i := range b.of[k] {
		b.printed[i] = true
	}
	return b.look(k)
}

// rest returns what nobody took.
func (b *book) rest() diag.List {
	var list diag.List
	for i, d := range b.all {
		if !b.printed[i] {
			list = append(list, d)
		}
	}
	return list
}

func exchangeSettings(e *topology.Exchange, m policy.Match, effective map[string]policy.Value) []Setting {
	all := properties(e.Durable, e.AutoDelete)
	if e.Internal {
		all = append(all, Setting{Name: "internal", Value: "true"})
	}
	all = append(all, values(effective)...)
	all = append(all, leftOver(e.Arguments, effective)...)
	all = append(all, acting(m)...)
	if e.Intent != nil {
		all = append(all, words("made by", e.Intent.Generated)...)
		all = append(all, losses(e.Intent.Loses)...)
	}
	return all
}

func queueSettings(q *queue) []Setting {
	all := []Setting{{Name: "type", Value: string(q.Type)}}
	all = append(all, properties(q.Durable, q.AutoDelete)...)
	if q.Exclusive {
		all = append(all, Setting{Name: "exclusive", Value: "true"})
	}
	all = append(all, values(q.effective)...)
	all = append(all, leftOver(q.Arguments, q.effective)...)
	all = append(all, acting(q.match)...)
	if q.Intent != nil {
		all = append(all, intent(q.Intent)...)
	}
	return all
}

func properties(durable, autoDelete bool) []Setting {
	all := []Setting{{Name: "durable", Value: strconv.FormatBool(durable)}}
	if autoDelete {
		all = append(all, Setting{Name: "auto_delete", Value: "true"})
	}
	return all
}

// values lists the settings in effect by name.
func values(effective map[string]policy.Value) []Setting {
	var all []Setting
	for _, name := range slices.Sorted(maps.Keys(effective)) {
		v := effective[name]
		s := Setting{Name: name, Value: settingText(name, v.Value), Origin: string(v.Origin)}
		if v.Policy != nil {
			s.Origin += fmt.Sprintf(" %q", v.Policy.Name)
		}
		all = append(all, s)
	}
	return all
}

// leftOver lists the arguments that are not in effect, or are none of RabbitMQ's.
func leftOver(args topology.Arguments, effective map[string]policy.Value) []Setting {
	var all []Setting
	for _, name := range args.Keys() {
		setting := name
		if row := catalog.LookupArgument(name); row != nil {
			setting = row.Name
		}
		v, ok := effective[setting]
		switch {
		case !ok:
			all = append(all, Setting{Name: name, Value: topology.Text(args[name]), Origin: "argument, not one that RabbitMQ acts on here"})
		case v.Origin != policy.FromArgument:
			all = append(all, Setting{Name: name, Value: topology.Text(args[name]), Origin: "argument, overruled by the " + string(v.Origin)})
		}
	}
	return all
}

// acting names the policies that act, and those that match and do not.
func acting(m policy.Match) []Setting {
	var all []Setting
	if m.Policy != nil {
		all = append(all, Setting{Name: "policy", Value: m.Policy.Name})
	}
	if m.Operator != nil {
		all = append(all, Setting{Name: "operator policy", Value: m.Operator.Name})
	}
	for _, p := range m.Hidden {
		all = append(all, Setting{Name: "policy, hidden", Value: p.Name})
	}
	for _, p := range m.Ignored {
		all = append(all, Setting{Name: "policy, ignored for this type", Value: p.Name})
	}
	return all
}

func intent(q *topology.QueueIntent) []Setting {
	all := words("owner", q.Owner)
	all = append(all, words("made by", q.Generated)...)
	if q.Retry != nil {
		if q.Retry.MaxAttempts > 0 {
			all = append(all, Setting{Name: "max_attempts", Value: strconv.FormatInt(q.Retry.MaxAttempts, 10)})
		}
		all = append(all, words("retry mechanism", string(q.Retry.Mechanism))...)
	}
	if c := q.Contract; c != nil {
		all = append(all, words("contract", map[bool]string{true: "none: " + c.Reason}[c.None])...)
		all = append(all, words("survives", c.Survives)...)
		all = append(all, words("after failure, owner", c.AfterFailureOwner)...)
	}
	return append(all, losses(q.Loses)...)
}

func words(name, value string) []Setting {
	if value == "" {
		return nil
	}
	return []Setting{{Name: name, Value: value}}
}

func losses(loses map[string]string) []Setting {
	var all []Setting
	for _, k := range slices.Sorted(maps.Keys(loses)) {
		all = append(all, Setting{Name: "loses " + k, Value: loses[k]})
	}
	return all
}

// settingText writes a value; times, which are in milliseconds, with their unit.
func settingText(name string, v any) string {
	switch name {
	case "message-ttl", "expires", "delayed-retry-min", "delayed-retry-max", "consumer-timeout":
		return duration(v)
	}
	return topology.Text(v)
}

func duration(v any) string {
	if ms, ok := v.(int64); ok && ms >= 0 {
		return formatDuration(ms)
	}
	return topology.Text(v)
}

// formatDuration writes milliseconds as specs do: 90s is 1m30s.
func formatDuration(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	out := ""
	for _, u := range []struct {
		ms   int64
		name string
	}{{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}} {
		if n := ms / u.ms; n > 0 {
			out += strconv.FormatInt(n, 10) + u.name
			ms %= u.ms
		}
	}
	return out
}

func joinWords(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}
