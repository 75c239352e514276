package specs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// queueSetting finds the setting that a key of a queue names; nil: none.
func queueSetting(key string) *catalog.Setting {
	if s := catalog.LookupSpecKey(key); s != nil && !s.Exchange {
		return s
	}
	return nil
}

// settingKeys are the keys of all queue settings.
var settingKeys = func() []string {
	var keys []string
	for i := range catalog.Settings {
		if s := &catalog.Settings[i]; !s.Exchange {
			keys = append(keys, s.SpecKey())
		}
	}
	return keys
}()

// readSetting reads the value of a setting into the queue.
func (d *decoder) readSetting(q *Queue, s *catalog.Setting, n *node) {
	v, ok := d.settingValue(s, n)
	if !ok {
		return
	}
	if wrong := s.CheckValue(v); wrong != "" {
		d.wrongValue(n, wrong)
		return
	}
	if _, twice := q.Settings[s.Name]; twice {
		d.settingTwice(n, s.SpecKey())
		return
	}
	if q.Settings == nil {
		q.Settings = make(map[string]any, 4)
	}
	q.Settings[s.Name] = v
}

func (d *decoder) settingTwice(n *node, key string) {
	d.finding(n.pos(), "setting-twice", fmt.Sprintf("%s is a second value of %s", d.subject(), key), "Keep one of the two.")
}

// settingValue is the value in RabbitMQ's unit.
func (d *decoder) settingValue(s *catalog.Setting, n *node) (any, bool) {
	switch s.Value {
	case catalog.Any:
		return d.readRaw(n), n.kind != nullNode && n.kind != invalidNode
	case catalog.Boolean:
		return d.readBool(n)
	case catalog.Text:
		return d.readText(n)
	case catalog.Age:
		return d.readAge(n)
	case catalog.Bytes:
		return d.readSize(n)
	case catalog.Milliseconds:
		t, ok := d.readDuration(n)
		return t.Milliseconds(), ok
	case catalog.Seconds:
		t, ok := d.readDuration(n)
		if ok && t.Milliseconds()%1000 != 0 {
			d.wrongValue(n, "is counted in whole seconds")
			return nil, false
		}
		return t.Milliseconds() / 1000, ok
	}
	if s.Name == "delivery-limit" && n.kind == textNode && n.text == "unlimited" {
		return int64(-1), true
	}
	i, ok := integer(n)
	if !ok {
		d.wrongType(n, "an integer")
	}
	return i, ok
}

// readAge reads RabbitMQ's own text (7D, 1M is a month) or a duration.
func (d *decoder) readAge(n *node) (any, bool) {
	if n.kind == intNode || n.kind == floatNode {
		d.missingUnit(n)
		return nil, false
	}
	s, ok := d.readText(n)
	if !ok {
		return nil, false
	}
	if _, err := catalog.ParseAge(s); err == nil {
		return s, true
	}
	t, err := ParseDuration(s)
	if _, bare := err.(noUnit); bare {
		d.missingUnit(n)
		return nil, false
	}
	if err == nil {
		s, err = catalog.FormatAge(t)
	} else {
		err = fmt.Errorf("must be an age such as 7D, 12h or 1M (a month), not %q", shorten(s))
	}
	if err != nil {
		d.wrongValue(n, err.Error())
		return nil, false
	}
	return s, true
}

func (d *decoder) readSize(n *node) (any, bool) {
	if i, ok := integer(n); ok {
		return i, true
	}
	if n.kind != textNode {
		d.wrongType(n, "a size")
		return nil, false
	}
	size, err := ParseSize(n.text)
	if err != nil {
		d.wrongValue(n, err.Error())
		return nil, false
	}
	return size, true
}

// delayedRetryKeys are the settings that delayed_retry groups.
var delayedRetryKeys = map[string]string{"type": "delayed-retry-type", "min": "delayed-retry-min", "max": "delayed-retry-max"}

func (d *decoder) readDelayedRetry(q *Queue, n *node) {
	readTable(d, n, q, fields[Queue]{}, func(e *entry) bool {
		s := catalog.Lookup(delayedRetryKeys[e.key])
		if s == nil {
			d.unknownKey(e, slices.Collect(maps.Keys(delayedRetryKeys)))
			return true
		}
		d.push(e.key)
		if e.value.kind == nullNode {
			d.noValue(e.value)
		} else {
			d.readSetting(q, s, e.value)
		}
		d.pop()
		return true
	})
}

// readSettingsBy adds what n says to by: a word for all settings, or a map of
// settings to words.
func (d *decoder) readSettingsBy(n *node, by *SettingsBy) {
	words := []string{string(topology.ByPolicy), string(topology.ByArgument)}
	if n.kind != tableNode {
		if n.kind != textNode {
			d.wrongType(n, "policy, arguments or a map of settings to these")
		} else if w, ok := d.readWord(n, words...); ok {
			*by = SettingsBy{Default: topology.By(w)}
		}
		return
	}
	each := maps.Clone(by.Each)
	if each == nil {
		each = map[string]topology.By{}
	}
	readTable(d, n, by, fields[SettingsBy]{
		"default": func(d *decoder, by *SettingsBy, n *node) {
			if w, ok := d.readWord(n, words...); ok {
				by.Default = topology.By(w)
			}
		},
	}, func(e *entry) bool {
		s := queueSetting(e.key)
		if s == nil {
			d.unknownKey(e, append([]string{"default"}, settingKeys...))
			return true
		}
		d.push(e.key)
		if w, ok := d.readWord(e.value, words...); ok {
			each[s.Name] = topology.By(w)
		}
		d.pop()
		return true
	})
	if len(each) > 0 {
		by.Each = each
	}
}

// canonicalQueueKeys writes the other names of keys as the one that the rest of
// the program uses: kind is type, queue_leader_locator is leader_locator.
func (d *decoder) canonicalQueueKeys(n *node) *node {
	if n.kind != tableNode {
		return n
	}
	changed := false
	table := make([]entry, 0, len(n.table))
	for _, e := range n.table {
		key := e.key
		if key == "kind" {
			key = "type"
		} else if s := catalog.LookupSpecKey(key); s != nil {
			key = s.SpecKey()
		}
		if key != e.key {
			changed = true
			if n.entry(key) != nil {
				d.finding(e.pos(), "setting-twice", fmt.Sprintf("%q is another name of %q, which is there too", e.key, key), "Keep one of the two.")
				continue
			}
			e.key = key
		}
		table = append(table, e)
	}
	if !changed {
		return n
	}
	return n.withTable(table)
}

// addPlaces enters the place of everything below n.
func addPlaces(at Places, prefix string, n *node) {
	for i := range n.table {
		e := &n.table[i]
		path := e.key
		if prefix != "" {
			path = prefix + "." + e.key
		}
		if e.value.kind == tableNode || e.value.kind == listNode {
			at[path] = e.pos()
			addPlaces(at, path, e.value)
		} else {
			at[path] = e.value.pos()
		}
	}
	for i, item := range n.list {
		path := prefix + "[" + strconv.Itoa(i) + "]"
		at[path] = item.pos()
		addPlaces(at, path, item)
	}
}
