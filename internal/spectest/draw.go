package spectest

import (
	"regexp"
	"slices"

	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// drawer draws the documents of one virtual host.
type drawer struct {
	t       *rapid.T
	version catalog.Version
	label   string

	queues, exchanges []string
}

// values are those of arguments, headers and parameters: every YAML type.
var values = []any{"1", 1, true, "true", -5, int64(1) << 40, 1.5, "", "ü $${", []any{"a", 1, false}, object{"k": "v", "1": 1}}

func (d *drawer) host(vhost string) []object {
	doc := object{"version": 1, "vhost": escape(vhost)}
	d.queues, d.exchanges = d.names("queue", 0, 5), d.names("exchange", 0, 3)
	if defaults := d.defaults(); len(defaults) > 0 {
		doc["defaults"] = defaults
	}
	if d.chance(25, "settings") {
		doc["vhost_settings"] = d.hostSettings()
	}
	exchanges, queues := object{}, object{}
	for _, n := range d.exchanges {
		exchanges[escape(n)] = d.exchange(n)
	}
	for _, n := range []string{"amq.topic", "amq.headers", "amq.fanout"} {
		if d.chance(10, n) {
			exchanges[n] = object{"external": true, "bindings": d.bindings(1)}
		}
	}
	for _, n := range d.queues {
		queues[escape(n)] = d.queue(n)
	}
	if d.chance(10, "family") {
		queues["fam.{n}"] = object{
			"for_each": object{"n": []any{"a", "b", "c"}}, "type": d.text("family type", "classic", "quorum"),
			"bindings": []any{object{"exchange": "amq.topic", "routing_key": "{n}.#"}},
		}
	}
	doc["exchanges"], doc["queues"] = exchanges, queues
	if len(d.queues) > 0 && d.chance(20, "variables") {
		doc["variables"] = object{"env": object{"default": d.value("env", "dev", "1", true, "a b")}}
		queues["v-${env}"] = object{"type": "classic", "arguments": object{"x-max-length": 7}}
	}
	if all := d.policies(false); len(all) > 0 {
		doc["policies"] = all
	}
	if all := d.policies(true); len(all) > 0 {
		doc["operator_policies"] = all
	}
	if d.chance(15, "permissions") {
		doc["permissions"] = object{"guest": object{"configure": ".*", "write": ".*", "read": d.text("read", ".*", "^.*$", "(.*|\"$${x\")")}}
	}
	if d.chance(10, "topic permissions") {
		doc["topic_permissions"] = object{"guest": object{"amq.topic": object{"write": d.text("write", "", "^a\\."), "read": ".*"}}}
	}
	if len(d.queues) > 0 && d.chance(15, "clients") {
		doc["consumers"] = object{"worker": object{"queue": escape(d.text("consumed", d.queues...)), "prefetch": 20}}
		doc["publishers"] = object{"web": object{"exchange": "", "routing_key": escape(d.text("published", d.queues...))}}
	}
	return d.split(doc)
}

// split moves some queues into another document, or changes them by an overlay.
func (d *drawer) split(doc object) []object {
	queues := doc["queues"].(object)
	switch {
	case len(d.queues) < 2:
	case d.chance(15, "overlay"):
		return []object{doc, {"version": 1, "vhost": doc["vhost"], "overlay": true, "queues": object{
			escape(d.queues[0]): object{"max_length": 11},
		}}}
	case d.chance(15, "split"):
		n := escape(d.queues[0])
		other := object{"version": 1, "vhost": doc["vhost"], "queues": object{n: queues[n]}}
		delete(queues, n)
		return []object{doc, other}
	}
	return []object{doc}
}

func (d *drawer) defaults() object {
	all, queue := object{}, object{}
	if d.chance(60, "default type") {
		queue["type"] = d.text("type of defaults", "quorum", "classic")
	}
	if d.chance(40, "default way") {
		queue["settings_by"] = "arguments"
	}
	if d.chance(10, "default exchanges") {
		all["exchange"] = object{"type": "topic"}
	}
	if d.chance(15, "inherit") {
		all["inherit_policy"] = true
	}
	if d.chance(10, "priority") {
		all["policy_priority"] = d.value("policy_priority", 5, 900, 2000)
	}
	if len(queue) > 0 {
		all["queue"] = queue
	}
	return all
}

func (d *drawer) hostSettings() object {
	o := object{}
	if d.chance(50, "description") {
		o["description"] = d.text("description text", "a shop", "", "${", "# no comment", "yes")
		o["description"] = escape(o["description"].(string))
	}
	if d.chance(40, "tags") {
		o["tags"] = []any{"production", d.text("tag", "a", "1", "b c")}
	}
	if d.version.AtLeast(catalog.V(3, 11)) && d.chance(40, "default queue type") {
		o["default_queue_type"] = d.text("default_queue_type", "classic", "quorum", "stream")
	}
	if d.chance(40, "limits") {
		o["limits"] = object{"max_queues": d.value("max_queues", 100, -1), "max_connections": 1000}
	}
	return o
}

func (d *drawer) exchange(name string) object {
	o := object{}
	if d.chance(85, "exchange type") {
		o["type"] = d.text("type of exchange", catalog.ExchangeTypes(d.version)...)
	}
	for _, key := range []string{"auto_delete", "internal"} {
		if d.chance(10, key) {
			o[key] = true
		}
	}
	if d.chance(8, "transient exchange") {
		o["durable"] = false
	}
	if d.chance(25, "alternate") {
		o["alternate_exchange"] = escape(d.text("alternate exchange", append([]string{"amq.fanout"}, d.exchanges...)...))
	}
	if d.chance(10, "exchange arguments") {
		o["arguments"] = object{"x-own": d.value("own", values...)}
		o["allow_unknown_arguments"] = []any{"x-own"}
	}
	if d.chance(20, "loses") {
		o["loses"] = object{"unrouted": "nobody listens"}
	}
	if d.chance(25, "e2e") {
		o["bindings"] = d.bindings(1)
	}
	if d.chance(5, "declared_by") {
		o["declared_by"] = "clients"
	}
	return o
}

func (d *drawer) bindings(most int) []any {
	var all []any
	for range d.number("bindings", 0, most) {
		b := object{"exchange": escape(d.text("source", append([]string{"amq.topic", "amq.headers", "amq.direct"}, d.exchanges...)...))}
		switch d.number("keys", 0, 3) {
		case 1:
			b["routing_key"] = d.text("key", "a.b", "#", "*.x", "yes", "1e3", "$${k}", "a b/ü", "~", "")
		case 2:
			b["routing_keys"] = []any{"a.*", d.text("other key", "", "b.#", "null", "c")}
		}
		if d.chance(30, "match") {
			b["match"] = d.text("x-match", "all", "any", "all-with-x", "any-with-x")
			args := object{}
			for _, k := range []string{"n", "x-n", "$${k} ü"} {
				if d.chance(50, "header "+k) {
					args[k] = d.value("header", values[:9]...)
				}
			}
			if len(args) > 0 {
				b["arguments"] = args
			}
		}
		all = append(all, b)
	}
	return all
}

func (d *drawer) policies(operator bool) object {
	all, kind := object{}, "policy"
	if operator {
		kind = "operator policy"
	}
	for _, n := range d.names(kind, 0, 1) {
		if n == "." || n == ".." {
			continue // no URL can hold them
		}
		pattern := "^nothing$"
		if len(d.queues) > 0 && d.chance(70, "matches") {
			pattern = "^" + regexp.QuoteMeta(d.text("matched", d.queues...)) + d.text("end", "$", "")
		}
		p := object{"pattern": escape(pattern), "definition": object{"max-length": d.value("length", 1000, 20000)}}
		if !operator && d.chance(40, "more keys") {
			p["definition"] = object{"message-ttl": 60000, "max-length-bytes": 1 << 20}
		}
		apply := []string{"queues"}
		if !operator {
			apply = append(apply, "all")
		}
		if d.version.AtLeast(catalog.V(3, 12)) {
			apply = append(apply, "classic_queues", "quorum_queues")
		}
		p["apply_to"] = d.text("apply_to", apply...)
		if d.chance(60, "policy priority") {
			p["priority"] = d.value("priority of policy", 1, -3, 1000, 5000)
		}
		all[escape(n)] = p
	}
	return all
}

// other draws one of the queues, mostly another than the named one.
func (d *drawer) other(name string) (string, bool) {
	rest := slices.DeleteFunc(slices.Clone(d.queues), func(n string) bool { return n == name })
	if len(rest) == 0 {
		return "", false
	}
	return d.text("other queue", rest...), true
}
