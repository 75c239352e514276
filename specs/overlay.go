package specs

import (
	"fmt"
	"slices"
	"strings"
)

// objectSections are the sections whose entries an overlay merges by name.
var objectSections = []string{
	"exchanges", "queues", "policies", "operator_policies", "parameters",
	"permissions", "topic_permissions", "publishers", "consumers",
}

// overlay works the overlay documents of one virtual host into those before
// them, in order. What only an overlay has stays in it, as its own object.
func (l *loader) overlay(documents []*document) []*document {
	isOverlay := func(d *document) bool { return d.overlay }
	if !slices.ContainsFunc(documents, isOverlay) {
		return documents
	}
	var below []*document
	for _, d := range documents {
		if !d.overlay {
			below = append(below, d)
		}
	}
	for _, d := range documents {
		if !d.overlay {
			continue
		}
		if len(below) == 0 {
			l.report(d.root.pos(), "overlay-without-base", fmt.Sprintf("the overlay for virtual host %q has no document below it", shorten(d.virtualHost)),
				"Name the files that it changes too, or remove overlay: true.")
			return documents
		}
		for _, section := range objectSections {
			l.overlaySection(below, d, section)
		}
		for _, key := range []string{"stack", "requires", "vhost_settings"} {
			l.overlayKey(below, d, key)
		}
		below = append(below, d)
	}
	return below
}

// overlayKey merges what an overlay says of the virtual host as a whole.
func (l *loader) overlayKey(below []*document, d *document, key string) {
	over := d.sections[key]
	if over == nil {
		return
	}
	found := false
	for _, b := range below {
		if base := b.sections[key]; base != nil {
			found = true
			if over.kind == nullNode {
				delete(b.sections, key)
			} else {
				b.sections[key] = l.mergeNodes(base, over, key)
			}
		}
	}
	switch {
	case found:
		delete(d.sections, key)
	case over.kind == nullNode:
		l.removesNothing(d.root.entry(key), key)
		delete(d.sections, key)
	}
}

// overlaySection merges one section of an overlay into the documents below.
func (l *loader) overlaySection(below []*document, d *document, section string) {
	over := d.sections[section]
	if over == nil || over.kind != tableNode {
		return // null says nothing of a section; other kinds are reported later
	}
	var own []entry
	for i := range over.table {
		e := &over.table[i]
		if !l.overlayObject(below, section, e) {
			if e.value.kind == nullNode {
				l.removesNothing(e, section)
				continue
			}
			own = append(own, *e)
		}
	}
	d.sections[section] = over.withTable(own)
}

// overlayObject merges one object into the document that has it.
func (l *loader) overlayObject(below []*document, section string, over *entry) bool {
	for _, b := range below {
		base := b.sections[section].entry(over.key)
		if base == nil {
			continue
		}
		table := b.sections[section]
		if over.value.kind == nullNode {
			b.sections[section] = table.without(over.key)
			return true
		}
		from, with := base.value, over.value
		if section == "queues" {
			quiet := &decoder{loader: newLoader()} // said when the object is read
			from, with = quiet.canonicalQueueKeys(from), quiet.canonicalQueueKeys(with)
		}
		merged := slices.Clone(table.table)
		for i := range merged {
			if merged[i].key == over.key {
				merged[i].value = l.mergeObject(from, with, section+"."+over.key)
			}
		}
		b.sections[section] = table.withTable(merged)
		return true
	}
	return false
}

// mergeObject is mergeNodes for an object, whose keys may also come from
// defaults: a null removes those as well, so it stays until they are known.
func (l *loader) mergeObject(base, over *node, path string) *node {
	if base.kind == nullNode {
		return over
	}
	if base.kind != tableNode || over.kind != tableNode {
		return over
	}
	merged := slices.Clone(base.table)
	for _, e := range over.table {
		i := slices.IndexFunc(merged, func(b entry) bool { return b.key == e.key })
		switch {
		case i < 0:
			merged = append(merged, e)
		case e.value.kind == nullNode:
			removed := *e.value
			removed.soft = true
			merged[i].value = &removed
		default:
			merged[i] = entry{e.key, e.line, e.col, e.src, l.mergeNodes(merged[i].value, e.value, path+"."+e.key)}
		}
	}
	return base.withTable(merged)
}

// mergeNodes is base with over worked in: maps by key, null removing, everything
// else replaced.
func (l *loader) mergeNodes(base, over *node, path string) *node {
	if base.kind != tableNode || over.kind != tableNode {
		return over
	}
	merged := slices.Clone(base.table)
	for j := range over.table {
		e := &over.table[j]
		i := slices.IndexFunc(merged, func(b entry) bool { return b.key == e.key })
		switch {
		case i < 0 && e.value.kind == nullNode:
			l.removesNothing(e, path)
		case i < 0:
			merged = append(merged, *e)
		case e.value.kind == nullNode:
			merged = slices.Delete(merged, i, i+1)
		default:
			merged[i] = entry{e.key, e.line, e.col, e.src, l.mergeNodes(merged[i].value, e.value, path+"."+e.key)}
		}
	}
	return base.withTable(merged)
}

func (l *loader) removesNothing(e *entry, path string) {
	where := "in the documents below"
	if !strings.HasSuffix(path, e.key) {
		where = fmt.Sprintf("under %q %s", shorten(path), where)
	}
	l.report(e.pos(), "overlay-removes-nothing", fmt.Sprintf("there is no %q %s to remove", shorten(e.key), where), "Correct the name, or leave it out.")
}

// withDefaults is an object with the defaults it does not state. A key of the
// object replaces the default's as a whole, null takes none.
func (doc *document) withDefaults(n, defaults *node, name string) *node {
	if defaults == nil || defaults.kind != tableNode {
		defaults = &node{}
	}
	vars := map[string]*node{"name": {kind: textNode, text: name, size: 1, height: 1}}
	changed := false
	own := make([]entry, 0, len(n.table)+len(defaults.table))
	for _, e := range n.table {
		if e.value.kind == nullNode && (e.value.soft || e.key != "settings_by" && defaults.get(e.key) != nil) {
			changed = true
			continue
		}
		own = append(own, e)
	}
	for _, e := range defaults.table {
		if e.key == "settings_by" || n.entry(e.key) != nil {
			continue // settings_by adds up, see document.settingsBy
		}
		e.value = e.value.substitute(vars)
		own = append(own, e)
		changed = true
	}
	if !changed {
		return n
	}
	return n.withTable(own)
}
