package export

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// value is a piece of YAML: a scalar as it is written, a list or a table.
type value interface{ flow() string }

// scalar is written as it is.
type scalar string

// sequence is a list.
type sequence []value

// table is a map in the order in which it is written.
type table []pair

// pair is one key with its value.
type pair struct {
	key     string // written
	value   value
	comment string // stands over it; it has one line
}

// add appends a key.
func (t *table) add(key string, v value) { *t = append(*t, pair{key: quote(key), value: v}) }

func (s scalar) flow() string { return string(s) }

func (s sequence) flow() string {
	parts := make([]string, len(s))
	for i, v := range s {
		parts[i] = v.flow()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (t table) flow() string {
	parts := make([]string, len(t))
	for i, p := range t {
		if len(p.key) > maxImplicitKey {
			parts[i] = "? " + p.key + " : " + p.value.flow()
			continue
		}
		parts[i] = p.key + ": " + p.value.flow()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

const (
	// width is how long a line may become before a table is written over several.
	width = 100
	// maxImplicitKey bounds a key before a colon: YAML allows 1024 characters.
	maxImplicitKey = 1000
)

// block writes a table over several lines. Tables at the levels above open are
// never written in one line.
func (t table) block(b *strings.Builder, indent, open int) {
	pad := strings.Repeat("  ", indent)
	for _, p := range t {
		if p.comment != "" {
			b.WriteString(pad + "# " + p.comment + "\n")
		}
		if len(p.key) > maxImplicitKey {
			b.WriteString(pad + "? " + p.key + "\n" + pad + ":")
		} else {
			b.WriteString(pad + p.key + ":")
		}
		p.value.(writer).after(b, indent, open-1, len(pad)+len(p.key)+1)
	}
}

// writer writes a value behind "key:", which ends at a column.
type writer interface {
	after(b *strings.Builder, indent, open, column int)
}

func (s scalar) after(b *strings.Builder, _, _, _ int) { b.WriteString(" " + string(s) + "\n") }

func (s sequence) after(b *strings.Builder, indent, _, column int) {
	if one := s.flow(); len(s) < 2 && !isLong(s) || column+1+len(one) <= width || !isLong(s) {
		b.WriteString(" " + one + "\n")
		return
	}
	b.WriteByte('\n')
	for _, v := range s {
		b.WriteString(strings.Repeat("  ", indent+1) + "- " + v.flow() + "\n")
	}
}

// isLong reports whether a list should have one item a line: a list of tables,
// or one that does not fit.
func isLong(s sequence) bool { return len(s.flow()) > width-20 }

func (t table) after(b *strings.Builder, indent, open, column int) {
	if len(t) == 0 || open <= 0 && column+1+len(t.flow()) <= width && !t.commented() {
		b.WriteString(" " + t.flow() + "\n")
		return
	}
	b.WriteByte('\n')
	t.block(b, indent+1, open)
}

func (t table) commented() bool {
	for _, p := range t {
		if p.comment != "" {
			return true
		}
		if inner, ok := p.value.(table); ok && inner.commented() {
			return true
		}
	}
	return false
}

// text writes a text that is to be read as it is: "${" would begin a variable.
func text(s string) scalar { return scalar(quote(escape(s))) }

// escape protects a text from being read as a variable.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// name is the key of an object: texts among the keys are escaped like others.
func name(s string) string { return escape(s) }

func texts(list []string) sequence {
	all := make(sequence, len(list))
	for i, s := range list {
		all[i] = text(s)
	}
	return all
}

func integer(n int64) scalar { return scalar(strconv.FormatInt(n, 10)) }

func boolean(b bool) scalar { return scalar(strconv.FormatBool(b)) }

// raw writes a canonical value so that it keeps its type.
func raw(v any) value { return rawWith(v, text) }

// rawWith is raw with texts written by write.
func rawWith(v any, write func(string) scalar) value {
	switch v := v.(type) {
	case nil:
		return scalar("null")
	case bool:
		return boolean(v)
	case int64:
		return integer(v)
	case float64:
		return float(v)
	case []any:
		list := make(sequence, len(v))
		for i, e := range v {
			list[i] = rawWith(e, write)
		}
		return list
	case map[string]any:
		var t table
		for _, k := range topology.Arguments(v).Keys() {
			t.add(name(k), rawWith(v[k], write))
		}
		return t
	case string:
		return write(v)
	}
	return text(topology.Text(v)) // no canonical value is of another type
}

func float(f float64) scalar {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return scalar(map[bool]string{true: ".nan", false: ".inf"}[math.IsNaN(f)])
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".") { // 1e+300 is an integer to some readers
		if m, e, ok := strings.Cut(s, "e"); ok {
			return scalar(m + ".0e" + e)
		}
		s += ".0"
	}
	return scalar(s)
}

// words that older YAML reads as booleans.
var words = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true}

// quote writes a text as YAML: plain where every reader takes it for the same
// text, else in double quotes with everything unusual escaped.
func quote(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == utf8.RuneError || r > 0x7e && !unicode.IsGraphic(r):
			escapeRune(&b, r)
		case r > 0x7e && unicode.IsSpace(r):
			escapeRune(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func escapeRune(b *strings.Builder, r rune) {
	const digits = "0123456789abcdef"
	mark, n := byte('u'), 4
	if r > 0xffff {
		mark, n = 'U', 8
	}
	b.WriteByte('\\')
	b.WriteByte(mark)
	for i := n - 1; i >= 0; i-- {
		b.WriteByte(digits[r>>(4*i)&0xf])
	}
}

func isPlain(s string) bool {
	if s == "" || words[strings.ToLower(s)] {
		return false
	}
	runes := []rune(s)
	for i, r := range runes {
		last := i == len(runes)-1
		switch {
		case r == '_' || r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') || r >= 0x80 && unicode.IsLetter(r):
		case i == 0 && r == '/':
		case r >= '0' && r <= '9':
		case i > 0 && strings.ContainsRune(".-/#*+$", r):
		case i > 0 && !last && r == ':' && runes[i+1] != ':' && runes[i+1] != '/':
		default:
			return false
		}
	}
	// Digits in front are numbers, dates or times to some readers.
	if first := runes[0]; first >= '0' && first <= '9' {
		if strings.Trim(s, "0123456789") == "" || !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) && !strings.ContainsRune("eExXoObB_", r) }) || strings.Contains(s, ":") {
			return false
		}
	}
	n := yaml.Node{Kind: yaml.ScalarNode, Value: s}
	return n.ShortTag() == "!!str"
}
