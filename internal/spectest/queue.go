package spectest

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var delays = []any{"30s", "1m", "90s", "5m", "1h30m", "250ms", "1d"}

func (d *drawer) queue(name string) object {
	o := object{}
	t := d.text("queue type", "quorum", "quorum", "classic", "classic", "stream", "")
	if t != "" {
		o["type"] = t
	}
	d.settings(o, topology.QueueType(t))
	switch d.number("way", 0, 5) {
	case 0, 1:
		o["settings_by"] = "arguments"
	case 2:
		o["settings_by"] = object{"default": "policy", "message_ttl": "arguments", "max_length": d.text("way of max_length", "policy", "arguments")}
	}
	if d.chance(60, "bound") {
		o["bindings"] = d.bindings(2)
	}
	if t != "quorum" && t != "stream" {
		if d.chance(6, "transient queue") {
			o["durable"] = false
		}
		if d.chance(6, "auto_delete queue") {
			o["auto_delete"] = true
		}
	}
	if d.chance(12, "arguments") {
		o["arguments"] = object{"x-own": d.value("own argument", values...), "x-max-length-bytes": 5000}
		o["allow_unknown_arguments"] = []any{"x-own"}
		delete(o, "max_length_bytes")
	}
	if d.chance(6, "inherit_policy") {
		o["inherit_policy"] = true
	}
	if d.chance(6, "declared_by") {
		o["declared_by"] = "clients"
	}
	if t == "stream" {
		return o
	}
	switch d.number("role", 0, 9) {
	case 0:
		o["role"], o["owner"] = "dead-letter", d.text("owner", "team", "a b", "yes", "$${t}")
		return o
	case 1:
		d.waiting(o, name)
		return o
	}
	if d.chance(55, "dead_letter") {
		d.deadLetter(o, name, t)
	}
	if d.chance(50, "retry") {
		d.retry(o, t)
	}
	if d.chance(10, "contract") {
		o["contract"], o["reason"] = "none", "a random queue"
	}
	if d.chance(20, "loses") {
		o["loses"] = object{"expired": "old", "overflow": "newest wins", "rejected": "never"}
	}
	return o
}

// settings draws some of the settings that queues of the type know.
func (d *drawer) settings(o object, t topology.QueueType) {
	if t == "" {
		t = topology.Classic
	}
	var rows []*catalog.Setting
	for i := range catalog.Settings {
		s := &catalog.Settings[i]
		known := s.Argument != "" && s.TakesArgument(t, d.version) || s.PolicyKey != "" && s.TakesPolicy(d.version) && s.PolicyActsOn(t, d.version)
		if known && !s.Exchange && s.Plugin == "" && s.Value != catalog.Any && (s.Value != catalog.Text || len(s.Enum) > 0) {
			rows = append(rows, s)
		}
	}
	for range d.number("settings", 0, 3) {
		if len(rows) == 0 {
			return
		}
		row := rows[d.number("row", 0, len(rows)-1)]
		o[row.SpecKey()] = d.setting(row)
	}
}

func (d *drawer) setting(row *catalog.Setting) any {
	if len(row.Enum) > 0 {
		return d.text(row.Name, row.Enum...)
	}
	switch row.Value {
	case catalog.Milliseconds, catalog.Seconds:
		return d.value(row.Name, "1h", "7d", "90m", "1d12h") // long enough for queues to outlive the test
	case catalog.Bytes:
		return d.value(row.Name, "512KiB", "10MB", 1000, "1GiB")
	case catalog.Boolean:
		return d.value(row.Name, true, false)
	case catalog.Age:
		return d.value(row.Name, "7D", "1M", "36h", "1Y", "1h30m")
	}
	if row.Name == "delivery-limit" {
		return d.value(row.Name, 0, 3, 20, "unlimited")
	}
	most := 100
	if row.Max > 0 {
		most = int(min(row.Max, 100))
	}
	return d.number(row.Name, int(max(row.Min, 0)), most)
}

// waiting makes a wait queue by hand.
func (d *drawer) waiting(o object, name string) {
	back, ok := d.other(name)
	if !ok {
		return
	}
	o["role"], o["message_ttl"] = "wait", d.value("wait", delays...)
	o["dead_letter"] = escape(back)
	for _, key := range []string{"max_length", "overflow", "expires", "dead_letter_exchange", "dead_letter_routing_key", "dead_letter_strategy"} {
		delete(o, key)
	}
}

func (d *drawer) deadLetter(o object, name, t string) {
	target, ok := d.other(name)
	if !ok {
		return
	}
	for _, key := range []string{"dead_letter_exchange", "dead_letter_routing_key", "dead_letter_strategy"} {
		delete(o, key)
	}
	dl := object{}
	switch kind := d.number("target", 0, 6); {
	case kind < 2:
		o["dead_letter"] = escape(target)
		return
	case kind == 2 && len(d.exchanges) > 0:
		dl["queue"], dl["via"] = escape(target), escape(d.text("via", d.exchanges...))
		if d.chance(30, "key of via") {
			dl["routing_key"] = d.text("dead key", "dead", "yes", "")
		}
	case kind == 3 && len(d.exchanges) > 0:
		dl["exchange"] = escape(d.text("dead-letter exchange", d.exchanges...))
		if d.chance(60, "key of exchange") {
			dl["routing_key"] = d.text("dead key", "dead", "1", "$${")
		}
	case kind >= 5:
		d.categories(dl, name, target, t)
	default:
		dl["queue"] = escape(target)
	}
	if t == "quorum" && d.chance(50, "strategy") {
		dl["strategy"] = d.text("dead-letter strategy", "at-least-once", "at-most-once")
		if dl["strategy"] == "at-least-once" {
			delete(o, "overflow")
			o["max_length"] = 1000
		}
	}
	if d.chance(25, "way of route") {
		dl["settings_by"] = d.text("route by", "policy", "arguments")
	}
	o["dead_letter"] = dl
}

func (d *drawer) categories(dl object, name, target, t string) {
	route := func(queue string) object {
		r := object{"queue": escape(queue)}
		if d.chance(30, "type of category") {
			r["type"] = d.text("category type", "classic", "quorum", "stream")
		}
		if d.chance(60, "owner of category") {
			r["owner"], r["replay"] = "team", "manual"
		}
		return r
	}
	c := object{"routes": object{}, "otherwise": route(name + ".other")}
	if d.chance(40, "header") {
		c["header"] = d.text("category header", "x-opt-category", "kind", "x-opt-$${h}")
	}
	for _, n := range []string{"transient", "1", "yes", "ü $${"} {
		if d.chance(40, "category "+n) {
			queue := target
			if d.chance(70, "own queue") {
				queue = name + "." + n
			}
			c["routes"].(object)[n] = route(unescape(queue))
		}
	}
	dl["categories"] = c
	if t != "quorum" {
		dl["method"] = "republish"
	}
}

func (d *drawer) retry(o object, t string) {
	r := object{}
	if o["dead_letter"] != nil && d.chance(80, "max_attempts") {
		r["max_attempts"] = d.number("attempts", 1, 6)
		delete(o, "delivery_limit")
	}
	all := slices.Clone(delays)
	list := []any{}
	for range d.number("delays", 0, 3) {
		list = append(list, d.value("delay", all...))
	}
	mechanisms := []string{"", "", "auto", "wait-queue", "reject-cycle", "per-message"}
	if d.version.AtLeast(catalog.V(4, 3)) && t == "quorum" {
		mechanisms = append(mechanisms, "delayed-retry")
	}
	m := d.text("mechanism", mechanisms...)
	if len(list) > 0 {
		if m == "reject-cycle" || m == "per-message" || m == "delayed-retry" {
			list = list[:1]
		}
		if m == "reject-cycle" {
			for _, key := range []string{"message_ttl", "max_length", "max_length_bytes", "delivery_limit", "arguments"} {
				delete(o, key)
			}
			if dl, ok := o["dead_letter"].(object); ok {
				delete(dl, "strategy")
			}
		}
		if m != "" {
			r["mechanism"] = m
		}
		r["delays"] = list
		if d.chance(30, "wait_queue") {
			w := object{}
			if len(list) == 1 {
				w["name"] = escape(d.name("wait queue"))
			} else {
				w["names"] = d.text("names", "{queue}.again.{n}", "w/{queue}.{delay}", "$${ {queue} {n}")
			}
			if d.chance(40, "type of wait queue") {
				w["type"] = d.text("wait queue type", "classic", "quorum")
			}
			r["wait_queue"] = w
		}
	}
	if len(r) > 0 {
		o["retry"] = r
	}
}
