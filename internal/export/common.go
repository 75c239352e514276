package export

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// alike is how many queues must have something in common for it to be written
// once.
const alike = 3

// hoist moves what nearly all queues say into their defaults. Those that do not
// have it say null.
func hoist(queues []written, usual *table) {
	type choice struct {
		value value
		count int
	}
	choices := map[string]map[string]*choice{}
	for _, q := range queues {
		for _, p := range q.table {
			if !mayHoist(p.key) {
				continue
			}
			v := replaceTexts(p.value, func(s string) string { return q.named(s) })
			if choices[p.key] == nil {
				choices[p.key] = map[string]*choice{}
			}
			c := choices[p.key][v.flow()]
			if c == nil {
				c = &choice{value: v}
				choices[p.key][v.flow()] = c
			}
			c.count++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(choices)) {
		for _, form := range slices.Sorted(maps.Keys(choices[key])) {
			c := choices[key][form]
			lacking := 0
			for _, q := range queues {
				if q.table.get(key) == nil {
					lacking++
				}
			}
			if c.count < alike || c.count*4 < len(queues)*3 || lacking > 1 {
				continue
			}
			*usual = append(*usual, pair{key: key, value: c.value})
			for i := range queues {
				q := &queues[i]
				v := q.table.get(key)
				if v == nil {
					q.table = append(q.table, pair{key: key, value: scalar("null")})
					continue
				}
				v = replaceTexts(v, func(s string) string { return q.named(s) })
				if v.flow() == form {
					q.table = slices.DeleteFunc(slices.Clone(q.table), func(p pair) bool { return p.key == key })
				}
			}
		}
	}
}

// mayHoist reports whether a key of a queue reads well as a default: what makes a
// queue what it is stands at the queue.
func mayHoist(key string) bool {
	return !slices.Contains([]string{
		"type", "role", "durable", "auto_delete", "settings_by", "bindings", "arguments", "allow_unknown_arguments", "hides_policy", "for_each",
	}, key)
}

func (t table) get(key string) value {
	for _, p := range t {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// segment is a part of a name between separators.
var segment = regexp.MustCompile(`[^.\-_:/ ]+`)

// families writes queues whose names and settings differ in one part of the name
// once, with for_each.
func families(queues []written) []written {
	type family struct {
		pattern string
		table   table
		members []int
		values  []string
	}
	groups := map[string]*family{}
	for i, q := range queues {
		if hasTemplate(q.table) || strings.Contains(q.name, "{") {
			continue
		}
		parts := segment.FindAllStringIndex(q.name, -1)
		if len(parts) < 2 {
			continue // names with nothing in common are no family
		}
		for _, at := range parts {
			part := q.name[at[0]:at[1]]
			pattern := q.name[:at[0]] + "{n}" + q.name[at[1]:]
			body, _ := replaceTexts(q.table, func(s string) string { return inSegments(s, part) }).(table)
			id := pattern + "\x00" + body.flow()
			if groups[id] == nil {
				groups[id] = &family{pattern: pattern, table: body}
			}
			groups[id].members = append(groups[id].members, i)
			groups[id].values = append(groups[id].values, part)
		}
	}
	ids := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if d := len(groups[b].members) - len(groups[a].members); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	taken := map[int]*family{}
	for _, id := range ids {
		f := groups[id]
		free := func(i int) bool { return taken[i] == nil }
		if len(f.members) < alike || !allOf(f.members, free) {
			continue
		}
		for _, i := range f.members {
			taken[i] = f
		}
	}
	var all []written
	for i, q := range queues {
		f := taken[i]
		if f == nil {
			all = append(all, q)
			continue
		}
		if f.members[0] == i {
			each := table{{"for_each", table{{"n", texts(f.values), ""}}, ""}}
			all = append(all, written{name: f.pattern, family: true, table: append(each, f.table...)})
		}
	}
	return all
}

func allOf(list []int, is func(int) bool) bool {
	return !slices.ContainsFunc(list, func(i int) bool { return !is(i) })
}

// inSegments replaces a part of names by {n} where it stands between separators.
func inSegments(s, part string) string {
	return segment.ReplaceAllStringFunc(s, func(found string) string {
		if found == part {
			return "{n}"
		}
		return found
	})
}

// named replaces the queue's own name in a text by {name}.
func (q *written) named(s string) string {
	if len(q.name) < 2 || q.family {
		return s
	}
	return strings.ReplaceAll(s, escape(q.name), "{name}")
}

// hasTemplate reports whether a text of the table would be read as a template.
func hasTemplate(v value) bool {
	found := false
	replaceTexts(v, func(s string) string {
		found = found || strings.Contains(s, "{n}") || strings.Contains(s, "{name}")
		return s
	})
	return found
}

// replaceTexts is a copy of a value with its texts replaced, keys excepted.
func replaceTexts(v value, replace func(string) string) value {
	switch v := v.(type) {
	case sequence:
		all := make(sequence, len(v))
		for i, item := range v {
			all[i] = replaceTexts(item, replace)
		}
		return all
	case table:
		all := make(table, len(v))
		for i, p := range v {
			all[i] = pair{p.key, replaceTexts(p.value, replace), p.comment}
		}
		return all
	case scalar:
		s := string(v)
		if strings.HasPrefix(s, `"`) {
			if yaml.Unmarshal([]byte(s), &s) != nil {
				return v
			}
		} else if !isPlain(s) {
			return v
		}
		return scalar(quote(replace(s)))
	}
	return v
}
