package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// maxDefinitions bounds a definitions file: 100 times what 5,000 queues need.
const maxDefinitions = 512 << 20

// ReadDefinitions reads an exported definitions file, of a whole broker or of one
// virtual host, of RabbitMQ 3.7 to 4.3. Objects of an export of one virtual host
// carry none: they belong to vhost, or when that is empty to the one that the
// export names, else to "/". file is the name for positions.
//
// What is wrong with the file are findings with a place; objects with findings at
// error level are left out. The error is one of reading only.
func ReadDefinitions(r io.Reader, file, vhost string) (*State, diag.List, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxDefinitions+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read definitions: %w", err)
	}
	d := &definitions{scan: scanner{file: file, data: data, line: 1, column: 1}}
	if len(data) > maxDefinitions {
		d.problem("definitions-too-large", topology.Position{File: file}, fmt.Sprintf("the file has more than %d MiB", maxDefinitions>>20),
			"Export one virtual host instead of the whole broker.")
		return &State{Topology: &topology.Topology{}}, d.found, nil
	}
	d.scan.data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some editors begin a file so
	if !d.parse() {
		d.found.Sort()
		return &State{Topology: &topology.Topology{}}, d.found, nil
	}
	s := d.state(vhost)
	d.found.Sort()
	return s, d.found, nil
}

// entry is one item of a list with its place.
type entry[T any] struct {
	value T
	at    topology.Position
}

// definitions is a file on its way to a State.
type definitions struct {
	scan  scanner
	found diag.List

	version     string
	originVHost string
	top         vhostEntry // of an export of one virtual host

	vhosts      []entry[vhostEntry]
	queues      []entry[queueEntry]
	exchanges   []entry[exchangeEntry]
	bindings    []entry[bindingEntry]
	policies    []entry[policyEntry]
	parameters  []entry[parameterEntry]
	permissions []entry[permissionEntry]
	topic       []entry[permissionEntry]
	global      []entry[parameterEntry]
	others      map[string]int
}

func (d *definitions) problem(code string, at topology.Position, summary, detail string) {
	d.found.Add(diag.Diagnostic{Severity: diag.Error, Code: code, Summary: summary, Detail: detail, Position: at, Structural: true})
}

func (d *definitions) warn(code string, at topology.Position, key topology.Key, summary, detail string) {
	d.found.Add(diag.Diagnostic{Severity: diag.Warning, Code: code, Summary: summary, Detail: detail, Position: at, Object: key})
}

const exportHint = "Definitions are exported with `rabbitmqctl export_definitions FILE` or from GET /api/definitions."

// parse reads the whole file; false: it is no definitions file.
func (d *definitions) parse() bool {
	known := 0
	ok := d.scan.object(func(key string, value json.RawMessage, at topology.Position) {
		if d.section(key, value, at) {
			known++
		}
	})
	if !ok {
		d.problem("definitions-syntax", d.scan.errorAt(), "this is not JSON: "+d.scan.problem(), exportHint)
		return false
	}
	if known == 0 {
		d.problem("definitions-unknown", topology.Position{File: d.scan.file, Line: 1, Column: 1},
			"this is JSON, but no RabbitMQ definitions: it has none of queues, exchanges, bindings, policies, vhosts", exportHint)
		return false
	}
	return true
}

// section reads one member of the file; it reports whether it is one that only
// definitions have.
func (d *definitions) section(key string, value json.RawMessage, at topology.Position) bool {
	switch key {
	case "queues":
		d.queues = append(d.queues, entries[queueEntry](d, key, value, at)...)
	case "exchanges":
		d.exchanges = append(d.exchanges, entries[exchangeEntry](d, key, value, at)...)
	case "bindings":
		d.bindings = append(d.bindings, entries[bindingEntry](d, key, value, at)...)
	case "policies":
		d.policies = append(d.policies, entries[policyEntry](d, key, value, at)...)
	case "vhosts":
		d.vhosts = append(d.vhosts, entries[vhostEntry](d, key, value, at)...)
	case "parameters":
		d.parameters = append(d.parameters, entries[parameterEntry](d, key, value, at)...)
	case "permissions":
		d.permissions = append(d.permissions, entries[permissionEntry](d, key, value, at)...)
	case "topic_permissions":
		d.topic = append(d.topic, entries[permissionEntry](d, key, value, at)...)
	case "global_parameters":
		d.global = append(d.global, entries[parameterEntry](d, key, value, at)...)
	case "rabbitmq_version", "rabbit_version":
		d.version = cmp.Or(d.version, d.text(key, value, at))
		return false
	case "original_vhost_name":
		d.originVHost = d.text(key, value, at)
		return false
	case "metadata":
		d.into(&d.top.Metadata, key, value, at)
		return false
	case "description":
		d.into(&d.top.Description, key, value, at)
		return false
	case "default_queue_type":
		d.into(&d.top.DefaultQueueType, key, value, at)
		return false
	case "limits":
		d.into(&d.top.Limits, key, value, at)
		return false
	default:
		// Users, product names and what later versions add.
		var list []json.RawMessage
		if json.Unmarshal(value, &list) == nil && len(list) > 0 {
			if d.others == nil {
				d.others = map[string]int{}
			}
			d.others[key] += len(list)
		}
		return false
	}
	return true
}

func (d *definitions) text(key string, value json.RawMessage, at topology.Position) (s string) {
	d.into(&s, key, value, at)
	return s
}

// into decodes a value; a wrong type is a finding.
func (d *definitions) into(v any, what string, value json.RawMessage, at topology.Position) bool {
	err := json.Unmarshal(value, v)
	if err != nil {
		d.wrongType(what, err, at)
	}
	return err == nil
}

func (d *definitions) wrongType(what string, err error, at topology.Position) {
	d.problem("definitions-type", at, fmt.Sprintf("%s: %s", what, typeProblem(err)), "Export the definitions again, or correct the value.")
}

// entries reads a list of entries one by one, so that one bad entry is one finding.
func entries[T any](d *definitions, key string, value json.RawMessage, at topology.Position) []entry[T] {
	var all []entry[T]
	if string(value) == "null" {
		return nil
	}
	inner := scanner{file: at.File, data: value, line: at.Line, column: at.Column}
	if !inner.list(func(item json.RawMessage, at topology.Position) {
		var v T
		if d.into(&v, "entry of "+strconv.Quote(key), item, at) {
			all = append(all, entry[T]{v, at})
		}
	}) {
		d.problem("definitions-type", at, fmt.Sprintf("%q is not a list", key), "Export the definitions again, or correct the value.")
	}
	return all
}

// state sorts the entries into virtual hosts.
func (d *definitions) state(vhost string) *State {
	s := &State{Topology: &topology.Topology{}, Unknown: map[topology.Kind]string{}}
	if v, err := catalog.ParseVersion(d.version); err == nil {
		s.Version = v
	}
	for _, g := range d.global {
		switch name, _ := g.value.Value.value.(string); {
		case g.value.Name == nil, *g.value.Name == "internal_cluster_id": // which no other cluster may have
		case *g.value.Name == "cluster_name":
			s.ClusterName = name
		default:
			if d.others == nil {
				d.others = map[string]int{}
			}
			d.others["global_parameters"]++
		}
	}
	s.Others = d.others
	b := &builder{definitions: d, state: s, byName: map[string]*gathered{}}
	if single := d.isSingle(); single {
		b.single = cmp.Or(vhost, d.originVHost, d.namedVHost(), "/")
		b.gathered(b.single).settings(d.top, topology.Position{File: d.scan.file})
	} else {
		b.fallback = cmp.Or(vhost, "/")
	}
	b.build()
	names := make([]string, 0, len(b.byName))
	for name := range b.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		g := b.byName[name]
		g.vhost.DefaultQueueType = cmp.Or(g.vhost.DefaultQueueType, topology.Classic)
		s.Topology.VirtualHosts = append(s.Topology.VirtualHosts, g.done())
		s.LeftOut = append(s.LeftOut, g.leftOut...)
	}
	if len(d.permissions) == 0 && b.single != "" {
		s.Unknown[topology.KindPermission] = "an export of one virtual host has no permissions"
		s.Unknown[topology.KindTopicPermission] = s.Unknown[topology.KindPermission]
	}
	if vhost != "" && s.Topology.VirtualHost(vhost) == nil {
		s.Missing = []string{vhost}
	}
	return s
}

// isSingle: the export of one virtual host lists none, and its queues, exchanges
// and bindings do not name it (3.10 names it in policies and parameters).
func (d *definitions) isSingle() bool {
	if len(d.vhosts) > 0 || len(d.permissions) > 0 {
		return false
	}
	return !slices.ContainsFunc(d.queues, func(e entry[queueEntry]) bool { return e.value.VHost != nil }) &&
		!slices.ContainsFunc(d.exchanges, func(e entry[exchangeEntry]) bool { return e.value.VHost != nil }) &&
		!slices.ContainsFunc(d.bindings, func(e entry[bindingEntry]) bool { return e.value.VHost != nil })
}

func (d *definitions) namedVHost() string {
	for _, p := range d.policies {
		if p.value.VHost != nil {
			return *p.value.VHost
		}
	}
	for _, p := range d.parameters {
		if p.value.VHost != nil {
			return *p.value.VHost
		}
	}
	return ""
}
