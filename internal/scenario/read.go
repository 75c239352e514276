package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
)

// Read reads a script. Everything that is wrong with it is a finding with its place.
func Read(file string, data []byte) (*Scenario, diag.List) {
	r := &reader{file: file}
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			r.wrong(nil, "there is no scenario: nothing but blanks and comments", "A scenario begins with: scenario: 1")
		} else {
			r.wrong(nil, strings.TrimPrefix(err.Error(), "yaml: "), "Correct the YAML.")
		}
		return nil, r.list
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		r.wrong(nil, "there is more than one document", "Write one scenario to a file.")
	}
	s := &Scenario{}
	version := int64(0)
	r.fields(doc.Content[0], "a scenario", map[string]func(*yaml.Node){
		"scenario": func(n *yaml.Node) { version = r.number(n, 1) },
		"rabbitmq": func(n *yaml.Node) { s.RabbitMQ = r.text(n) },
		"vhost":    func(n *yaml.Node) { s.VirtualHost = r.text(n) },
		"steps": func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				r.wrong(n, "steps is no list", "Write each step as - publish: {...} and so on.")
				return
			}
			for _, item := range n.Content {
				s.Steps = append(s.Steps, r.step(item))
			}
		},
	})
	if version != 1 && len(r.list) == 0 {
		r.wrong(doc.Content[0], "it does not say which version of the language it is", "Begin with: scenario: 1")
	}
	if len(r.list) > 0 {
		return nil, r.list
	}
	return s, nil
}

// IsScenario reports whether a file is a script, not a spec: by its first key.
func IsScenario(data []byte) bool {
	var doc yaml.Node
	if yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc) != nil || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(doc.Content[0].Content); i += 2 {
		if doc.Content[0].Content[i].Value == "scenario" {
			return true
		}
	}
	return false
}

type reader struct {
	file string
	list diag.List
}

func (r *reader) at(n *yaml.Node) topology.Position {
	if n == nil {
		return topology.Position{File: r.file, Line: 1, Column: 1}
	}
	return topology.Position{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *reader) wrong(n *yaml.Node, summary, detail string) {
	r.list.Add(diag.Diagnostic{
		Severity: diag.Error, Code: "scenario-invalid", Structural: true, Summary: summary, Detail: detail, Position: r.at(n),
	})
}

// fields reads a mapping whose keys are known.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, what+" is no mapping", "Write it as {key: value}.")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		read := known[key.Value]
		switch {
		case read == nil:
			detail := "Take it away."
			if near := text.Nearest(key.Value, names); near != "" {
				detail = fmt.Sprintf("Did you mean %q?", near)
			}
			r.wrong(key, fmt.Sprintf("%s has no key %q", what, text.Line(key.Value)), detail)
		case seen[key.Value]:
			r.wrong(key, fmt.Sprintf("%q stands twice", key.Value), "Keep one.")
		default:
			seen[key.Value] = true
			read(value)
		}
	}
}

func (r *reader) text(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.wrong(n, "it is no text", "Write a text.")
		return ""
	}
	return n.Value
}

func (r *reader) flag(n *yaml.Node) bool {
	var b bool
	if n.Kind != yaml.ScalarNode || n.Decode(&b) != nil {
		r.wrong(n, "it is neither true nor false", "Write true or false.")
	}
	return b
}

func (r *reader) number(n *yaml.Node, least int64) int64 {
	var v int64
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < least {
		r.wrong(n, fmt.Sprintf("it is no whole number from %d on", least), "Write a number.")
	}
	return v
}

func (r *reader) duration(n *yaml.Node) time.Duration {
	s := r.text(n)
	d, err := specs.ParseDuration(s)
	if err != nil || d <= 0 {
		r.wrong(n, fmt.Sprintf("%q is no duration", text.Line(s)), "Write it as 500ms, 30s, 5m or 2h.")
	}
	return d
}

func (r *reader) step(n *yaml.Node) Step {
	s := Step{Position: r.at(n)}
	r.fields(n, "a step", map[string]func(*yaml.Node){
		"publish": func(n *yaml.Node) { s.Publish = r.publish(n) },
		"consume": func(n *yaml.Node) { s.Consume = r.consume(n) },
		"advance": func(n *yaml.Node) { s.Advance = r.duration(n) },
		"restart": func(n *yaml.Node) { s.Restart = r.only(n, "broker") },
		"cut":     func(n *yaml.Node) { s.Cut = r.only(n, "connections") },
		"expect":  func(n *yaml.Node) { s.Expect = r.expect(n) },
	})
	if n.Kind == yaml.MappingNode && len(n.Content) != 2 {
		r.wrong(n, "a step is one thing", "Write each as an entry of its own, in their order.")
	}
	return s
}

func (r *reader) only(n *yaml.Node, word string) bool {
	if r.text(n) != word {
		r.wrong(n, fmt.Sprintf("it is not %q", word), "Write "+word+".")
		return false
	}
	return true
}

func (r *reader) publish(n *yaml.Node) *Publish {
	p := &Publish{}
	r.fields(n, "publish", map[string]func(*yaml.Node){
		"exchange":    func(n *yaml.Node) { p.Exchange = r.text(n) },
		"routing_key": func(n *yaml.Node) { p.RoutingKey = r.text(n) },
		"id":          func(n *yaml.Node) { p.ID = r.text(n) },
		"body":        func(n *yaml.Node) { p.Body = r.text(n) },
		"expiration":  func(n *yaml.Node) { p.Expiration = r.duration(n) },
		"priority":    func(n *yaml.Node) { p.Priority = r.number(n, 0) },
		"transient":   func(n *yaml.Node) { p.Transient = r.flag(n) },
		"count":       func(n *yaml.Node) { p.Count = r.number(n, 1) },
		"headers": func(n *yaml.Node) {
			if n.Kind != yaml.MappingNode || n.Decode(&p.Headers) != nil {
				r.wrong(n, "headers are no mapping", "Write them as {name: value}.")
			}
		},
	})
	if p.Priority > 255 {
		r.wrong(n, "a priority is at most 255", "Write a smaller one.")
	}
	if p.Count > 100_000 {
		r.wrong(n, "count is at most 100000", "Write a smaller one.")
	}
	return p
}

func (r *reader) consume(n *yaml.Node) *Consume {
	c := &Consume{}
	r.fields(n, "consume", map[string]func(*yaml.Node){
		"queue":    func(n *yaml.Node) { c.Queue = r.text(n) },
		"delay":    func(n *yaml.Node) { c.Delay = r.duration(n) },
		"category": func(n *yaml.Node) { c.Category = r.text(n) },
		"count":    func(n *yaml.Node) { c.Count = r.number(n, 1) },
		"outcome": func(n *yaml.Node) {
			c.Outcome = r.text(n)
			for _, o := range Outcomes {
				if o == c.Outcome {
					return
				}
			}
			detail := "It is one of " + strings.Join(Outcomes, ", ") + "."
			if near := text.Nearest(c.Outcome, Outcomes); near != "" {
				detail = fmt.Sprintf("Did you mean %q?", near)
			}
			r.wrong(n, fmt.Sprintf("there is no outcome %q", text.Line(c.Outcome)), detail)
		},
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case c.Queue == "" || c.Outcome == "":
		r.wrong(n, "consume needs a queue and an outcome", "Write {queue: NAME, outcome: ack}.")
	case (c.Delay > 0) != (c.Outcome == "retry-after"):
		r.wrong(n, "delay and the outcome retry-after belong together", "Write {outcome: retry-after, delay: 30s}.")
	}
	return c
}

func (r *reader) expect(n *yaml.Node) *Expect {
	e := &Expect{}
	count := func(to **int64) func(*yaml.Node) {
		return func(n *yaml.Node) {
			v := r.number(n, 0)
			*to = &v
		}
	}
	r.fields(n, "expect", map[string]func(*yaml.Node){
		"queue":        func(n *yaml.Node) { e.Queue = r.text(n) },
		"messages":     count(&e.Messages),
		"message":      func(n *yaml.Node) { e.Message = r.text(n) },
		"in":           func(n *yaml.Node) { e.In = r.text(n) },
		"acknowledged": func(n *yaml.Node) { e.Acknowledged = r.flag(n) },
		"deliveries":   count(&e.Deliveries),
		"lost": func(n *yaml.Node) {
			if n.Tag == "!!bool" {
				e.Lost = r.flag(n)
				return
			}
			count(&e.LostTotal)(n)
		},
	})
	if n.Kind != yaml.MappingNode {
		return e
	}
	of := e.In != "" || e.Acknowledged || e.Lost || e.Deliveries != nil
	switch {
	case (e.Queue == "") != (e.Messages == nil):
		r.wrong(n, "queue and messages belong together", "Write {queue: NAME, messages: 3}.")
	case of != (e.Message != ""):
		r.wrong(n, "message needs one of in, acknowledged, lost and deliveries, and they a message", "Write {message: ID, in: QUEUE}.")
	case e.Queue == "" && e.Message == "" && e.LostTotal == nil:
		r.wrong(n, "it expects nothing", "Write {queue: NAME, messages: 3}, {message: ID, in: QUEUE} or {lost: 0}.")
	}
	return e
}
