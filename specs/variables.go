package specs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// scope holds the variables of one document.
type scope struct {
	*loader
	defaults map[string]*node // nil value: declared without a default
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
	secretName   = regexp.MustCompile(`^env:[A-Za-z_][A-Za-z0-9_]*$`)
)

// readVariables reads a document's variables section.
func (l *loader) readVariables(section *node) *scope {
	s := &scope{loader: l, defaults: map[string]*node{}}
	if section == nil || section.kind == nullNode || section.kind == invalidNode {
		return s
	}
	d := decoder{loader: l, title: "the document"}
	d.push("variables")
	if section.kind != tableNode {
		d.wrongType(section, "a map of names")
		return s
	}
	for i := range section.table {
		e := &section.table[i]
		if !variableName.MatchString(e.key) {
			l.report(e.pos(), "variable-syntax", fmt.Sprintf("%q is no name of a variable", shorten(e.key)),
				"A name has letters, digits, _ . and -, and begins with a letter or _.")
			continue
		}
		l.known[e.key] = true
		s.defaults[e.key] = nil
		d.push(e.key)
		switch e.value.kind {
		case nullNode, invalidNode:
		case tableNode:
			type variable struct{ value *node }
			var v variable
			readTable(&d, e.value, &v, fields[variable]{
				"default": func(_ *decoder, v *variable, n *node) { v.value = n },
			})
			s.defaults[e.key] = v.value
		default:
			d.finding(e.value.pos(), "wrong-type", d.subject()+" must be a map with the key default, not "+e.value.kind.title(),
				fmt.Sprintf("Write %s: {default: VALUE}.", shorten(e.key)))
			s.defaults[e.key] = &node{kind: invalidNode, size: 1, height: 1} // no finding more where it is used
		}
		d.pop()
	}
	return s
}

// lookup finds a variable's value: what was set, then files of values, then the
// environment, then the default. Nil: there is none.
func (s *scope) lookup(name string) *node {
	s.known[name] = true
	if v, ok := s.given[name]; ok {
		return v
	}
	return s.defaults[name]
}

// givenVariables collects the values from outside of the documents.
func (l *loader) givenVariables(in Input) {
	for name, text := range in.Environment {
		l.given[name] = scalarOf(text)
	}
	for i := len(in.Values) - 1; i >= 0; i-- { // the first file wins
		for _, e := range l.valuesFile(in.Values[i]) {
			l.given[e.key] = e.value
		}
	}
	for name, text := range in.Set {
		l.given[name] = scalarOf(text)
	}
}

// valuesFile reads a file that maps names of variables to values.
func (l *loader) valuesFile(f File) []entry {
	src, documents := l.parse(f)
	if len(documents) == 0 {
		return nil
	}
	if len(documents) > 1 {
		l.report(src.position(int32(documents[1].Line), int32(documents[1].Column)), "values-file",
			"a file of values has one document", "Split the file.")
	}
	n := l.converter(src, nil).convert(documents[0], 1)
	if n.kind == invalidNode || n.kind == nullNode {
		return nil
	}
	if n.kind != tableNode {
		l.report(n.pos(), "wrong-type", "a file of values must be a map of names to values, not "+n.kind.title(), "Write lines such as: env: prod")
		return nil
	}
	return n.table
}

// scalarOf reads a text from the command line or the environment as a YAML
// scalar; what is no scalar is a text.
func scalarOf(text string) *node {
	c := converter{loader: newLoader(), src: newSource("", "")}
	y := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'") {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err == nil && len(doc.Content) == 1 && doc.Content[0].Kind == yaml.ScalarNode {
			return c.scalar(doc.Content[0])
		}
	}
	y.Tag = y.ShortTag()
	if n := c.scalar(y); n.kind != invalidNode && n.kind != nullNode {
		return n
	}
	return &node{kind: textNode, text: text, size: 1, height: 1}
}

// value replaces the variables in a text. A text that is one variable becomes
// the variable's value with its type.
func (s *scope) value(n *node) *node {
	if name, ok := onlyVariable(n.text); ok {
		v := s.lookup(name)
		if v == nil {
			return s.undefined(n, name)
		}
		if v.kind == invalidNode {
			return &node{kind: invalidNode, src: n.src, line: n.line, col: n.col, size: 1, height: 1}
		}
		c := v.at(n)
		c.soft = v.kind != nullNode
		return c
	}
	text, bad := s.replace(n)
	if bad != nil {
		return bad
	}
	c := *n
	c.text = text
	return &c
}

// onlyVariable returns the name when the text is "${name}" and nothing else.
func onlyVariable(text string) (string, bool) {
	name, ok := strings.CutPrefix(text, "${")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "}")
	return name, ok && variableName.MatchString(name)
}

// replace works variables into a text. "$${" is the text "${", and references
// to secrets stay as they are.
func (s *scope) replace(n *node) (string, *node) {
	var b strings.Builder
	for rest := n.text; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		b.WriteString(rest[:i])
		if strings.HasSuffix(rest[:i], "$") {
			b.WriteString("{") // the dollar before is written already
			rest = rest[i+2:]
			continue
		}
		name, after, ok := strings.Cut(rest[i+2:], "}")
		switch {
		case ok && secretName.MatchString(name):
			b.WriteString("${" + name + "}")
		case !ok || !variableName.MatchString(name):
			bad := *n
			bad.kind = invalidNode
			s.report(n.pos(), "variable-syntax", "a text holds a ${ that names no variable", // the text may hold a password
				"Write ${name} for a variable, ${env:NAME} for a secret, and $${ for the two characters themselves.")
			return "", &bad
		default:
			v := s.lookup(name)
			if v == nil {
				return "", s.undefined(n, name)
			}
			switch v.kind {
			case nullNode, invalidNode, listNode, tableNode:
				bad := *n
				bad.kind = invalidNode
				if v.kind == invalidNode {
					return "", &bad // reported where the value stands
				}
				s.report(n.pos(), "wrong-type", fmt.Sprintf("the variable %q is %s and stands inside a text", name, v.kind.title()),
					"Only texts, numbers and booleans can be a part of a text.")
				return "", &bad
			}
			b.WriteString(v.text)
			if s.replaced += len(v.text); s.replaced > maxReplaced {
				s.tooLarge(n.pos())
				bad := *n
				bad.kind = invalidNode
				return "", &bad
			}
		}
		rest = after
	}
}

func (s *scope) undefined(n *node, name string) *node {
	detail := "Declare it under variables: with a default, or give it with --set " + name + "=VALUE."
	if hint := suggest(name, slices.Concat(slices.Collect(maps.Keys(s.defaults)), slices.Collect(maps.Keys(s.given)))); hint != "" && hint != name {
		detail = fmt.Sprintf("Did you mean %q? ", hint) + detail
	}
	s.report(n.pos(), "undefined-variable", fmt.Sprintf("the variable %q has no value", name), detail)
	bad := *n
	bad.kind = invalidNode
	return &bad
}

// unknownSet reports values given by --set that no document declares or uses: a
// misspelt name would otherwise leave a default in force.
func (l *loader) unknownSet(in Input) {
	for _, name := range slices.Sorted(maps.Keys(in.Set)) {
		if l.known[name] {
			continue
		}
		detail := "Correct the name, or declare it under variables:."
		if hint := suggest(name, slices.Collect(maps.Keys(l.known))); hint != "" {
			detail = fmt.Sprintf("Did you mean %q?", hint)
		}
		l.report(noPosition, "unknown-variable", fmt.Sprintf("no document declares or uses the variable %q that was set", shorten(name)), detail)
	}
}
