package specs

import (
	"fmt"
	"strings"
)

// repeat makes one object per value of for_each from each object of a section
// that has it. {name} stands for the object's own name, as it does in defaults.
func (l *loader) repeat(section *node) *node {
	if section.kind != tableNode {
		return section
	}
	repeats := false
	for i := range section.table {
		repeats = repeats || section.table[i].value.get("for_each") != nil
	}
	if !repeats {
		return section
	}
	var all []entry
	keys := newKeys(len(section.table))
	for i := range section.table {
		for _, e := range l.repeatEntry(&section.table[i]) {
			if first := keys.find(all, e.key); first >= 0 {
				l.duplicate(e.pos(), "duplicate-object", fmt.Sprintf("%q is made twice by for_each or written a second time", shorten(e.key)),
					"Give each object a name of its own.", all[first].pos())
				continue
			}
			keys.add(e.key, len(all))
			all = append(all, e)
		}
		if l.stopped {
			break
		}
	}
	return section.withTable(all)
}

// repeatEntry is the objects that one entry stands for.
func (l *loader) repeatEntry(e *entry) []entry {
	each := e.value.get("for_each")
	if each == nil {
		return []entry{*e}
	}
	d := decoder{loader: l, title: fmt.Sprintf("%q", shorten(e.key))}
	d.push("for_each")
	if each.kind != tableNode {
		d.wrongType(each, "a map of lists")
		return nil
	}
	body := e.value.without("for_each")
	all := []map[string]*node{{}}
	for i := range each.table {
		v := &each.table[i]
		d.push(v.key)
		switch {
		case !strings.Contains(e.key, "{"+v.key+"}"):
			d.finding(v.pos(), "for-each-name", fmt.Sprintf("the name %q does not hold %q: every object would have the same name", shorten(e.key), "{"+shorten(v.key)+"}"),
				"Write it where the value belongs in the name.")
			return nil
		case v.value.kind != listNode || len(v.value.list) == 0:
			d.wrongType(v.value, "a list of values")
			return nil
		}
		if all = l.combine(&d, all, v); all == nil {
			return nil
		}
		d.pop()
	}
	var made []entry
	for _, vars := range all {
		if !l.spend(body) {
			return nil
		}
		c := *e
		c.key = fill(e.key, vars)
		if vars["name"] == nil {
			vars["name"] = &node{kind: textNode, text: c.key, size: 1, height: 1} // as in defaults
		}
		c.value = body.substitute(vars)
		made = append(made, c)
	}
	return made
}

// combine adds every value of one variable to every combination so far.
func (l *loader) combine(d *decoder, all []map[string]*node, v *entry) []map[string]*node {
	if int64(len(all))*int64(len(v.value.list)) > maxRepeated {
		l.tooLarge(v.pos())
		return nil
	}
	var more []map[string]*node
	for _, vars := range all {
		for i, item := range v.value.list {
			if item.kind < boolNode || item.kind > textNode {
				d.at(i, func() { d.wrongType(item, "a text, a number or a boolean") })
				return nil
			}
			with := map[string]*node{v.key: item}
			for k, w := range vars {
				with[k] = w
			}
			more = append(more, with)
		}
	}
	return more
}

// without is a table without a key.
func (n *node) without(key string) *node {
	var rest []entry
	for _, e := range n.table {
		if e.key != key {
			rest = append(rest, e)
		}
	}
	return n.withTable(rest)
}

// substitute replaces {name} in all texts and keys below n. What does not change
// is shared. A text that is only {name} takes the value with its type.
func (n *node) substitute(vars map[string]*node) *node {
	switch n.kind {
	case textNode:
		if !strings.Contains(n.text, "{") {
			return n
		}
		if name, ok := strings.CutPrefix(n.text, "{"); ok && strings.HasSuffix(name, "}") {
			if v, ok := vars[name[:len(name)-1]]; ok {
				c := v.at(n)
				c.soft = true
				return c
			}
		}
		filled := fill(n.text, vars)
		if filled == n.text {
			return n
		}
		c := *n
		c.text = filled
		return &c
	case listNode:
		c := *n
		c.list = make([]*node, len(n.list))
		changed := false
		for i, item := range n.list {
			c.list[i] = item.substitute(vars)
			changed = changed || c.list[i] != item
		}
		if changed {
			return &c
		}
	case tableNode:
		c := *n
		c.table = make([]entry, len(n.table))
		changed := false
		for i, e := range n.table {
			c.table[i] = e
			c.table[i].key = fill(e.key, vars)
			c.table[i].value = e.value.substitute(vars)
			changed = changed || c.table[i].value != e.value || c.table[i].key != e.key
		}
		if changed {
			return &c
		}
	}
	return n
}

// fill replaces {name} in a text.
func fill(text string, vars map[string]*node) string {
	i := strings.IndexByte(text, '{')
	if i < 0 {
		return text
	}
	var b strings.Builder
	for ; i >= 0; i = strings.IndexByte(text, '{') {
		b.WriteString(text[:i])
		text = text[i:]
		name, rest, ok := strings.Cut(text[1:], "}")
		if v := vars[name]; ok && v != nil {
			b.WriteString(v.text)
			text = rest
			continue
		}
		b.WriteByte('{')
		text = text[1:]
	}
	b.WriteString(text)
	return b.String()
}
