// Package spectest draws random specs that are valid for a version of RabbitMQ:
// every feature of the language, with names and values that are easily misread.
// It is for property tests of other packages.
package spectest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

// MaxObjects is the most that one virtual host of a drawn spec has, what is
// generated included: brokers slow down with their number.
const MaxObjects = 15

// Draw draws a spec with these virtual hosts, one document or more for each. It
// has no finding at error level for the version. Needed on the broker are the
// user guest and no plugin.
func Draw(t *rapid.T, v catalog.Version, vhosts ...string) string {
	var documents []object
	for i, name := range vhosts {
		d := &drawer{t: t, version: v, label: fmt.Sprintf("%d: ", i)}
		documents = append(documents, d.host(name)...)
	}
	for {
		text := write(documents)
		bad := wrong(text, v)
		if len(bad) == 0 {
			return text
		}
		if !repair(documents, bad) {
			t.Fatalf("the drawn spec is wrong and no object is left to take out of it: %v\n%s", bad, text)
		}
	}
}

type object = map[string]any

func write(documents []object) string {
	var b strings.Builder
	b.WriteString("# random spec\n")
	for _, d := range documents {
		data, err := yaml.Marshal(d)
		if err != nil {
			panic(err) // maps of scalars can be written
		}
		b.WriteString("---\n" + string(data))
	}
	return b.String()
}

// wrong lists the objects of a spec that have errors, or are too many. For a
// binding it is the object to which it leads.
func wrong(text string, v catalog.Version) []target {
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "random.yaml", Data: []byte(text)}}})
	top, more := spec.Expand(specs.Target{Version: v})
	found = append(found, more...)
	all := validate.Check(validate.Input{
		Topology: top, Versions: []catalog.Version{v}, ExchangeTypes: catalog.ExchangeTypes(v), Sources: spec.Files, Found: found,
	})
	bindings := map[topology.Key]*topology.Binding{}
	for _, h := range top.VirtualHosts {
		for _, b := range h.Bindings {
			bindings[b.Key()] = b
		}
	}
	var targets []target
	for _, d := range all {
		switch b := bindings[d.Object]; {
		case d.Severity != diag.Error:
		case b != nil:
			targets = append(targets, target{b.VirtualHost, topology.Kind(b.DestinationType), b.Destination, true})
		case strings.HasPrefix(d.Object.Name, "rabbitctl:") && d.Object.Kind == topology.KindPolicy:
			targets = append(targets, target{d.Object.VirtualHost, topology.KindQueue, strings.TrimPrefix(d.Object.Name, "rabbitctl:"), false})
		default:
			targets = append(targets, target{d.Object.VirtualHost, d.Object.Kind, d.Object.Name, false})
		}
	}
	if len(targets) > 0 {
		return targets
	}
	for _, h := range top.VirtualHosts {
		if len(h.Objects()) > MaxObjects {
			return []target{{vhost: h.Name}}
		}
	}
	return nil
}

// target is an object to be taken out, or its bindings; without a name any.
type target struct {
	vhost    string
	kind     topology.Kind
	name     string
	bindings bool
}

// sections are the keys of documents under which objects stand.
var sections = map[topology.Kind]string{
	topology.KindQueue: "queues", topology.KindExchange: "exchanges", topology.KindPolicy: "policies",
	topology.KindOperatorPolicy: "operator_policies",
}

// repair takes an object with an error out of the documents, or its bindings, or
// else another: each step leaves less. It reports whether it found something.
func repair(documents []object, bad []target) bool {
	of := func(k target) []object {
		return slices.DeleteFunc(slices.Clone(documents), func(d object) bool { return k.vhost != "" && k.vhost != unescape(d["vhost"].(string)) })
	}
	for _, k := range bad {
		for _, d := range of(k) {
			o, ok := find(d, sections[k.kind], k.name)
			switch {
			case !ok:
				continue
			case k.bindings && o["bindings"] != nil:
				delete(o, "bindings")
			default:
				delete(d[sections[k.kind]].(object), escape(k.name))
			}
			return true
		}
	}
	// Something without a name, something generated, or too much.
	if slices.ContainsFunc(bad, func(k target) bool { return k.kind == topology.KindExchange && k.name == "" }) {
		for _, d := range documents {
			if d["publishers"] != nil {
				delete(d, "publishers")
				return true
			}
		}
	}
	for _, d := range of(bad[0]) {
		for _, section := range []string{"queues", "exchanges", "policies", "operator_policies"} {
			all, _ := d[section].(object)
			if names := slices.Sorted(maps.Keys(all)); len(names) > 0 {
				delete(all, names[len(names)-1])
				return true
			}
		}
	}
	return false
}

func find(d object, section, name string) (object, bool) {
	all, _ := d[section].(object)
	o, ok := all[escape(name)].(object)
	return o, ok
}

// escape protects a text from being read as a variable.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

func unescape(s string) string { return strings.ReplaceAll(s, "$${", "${") }
