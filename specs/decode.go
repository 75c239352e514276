package specs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// maxFindings bounds how many findings one load makes.
const maxFindings = 1000

var noPosition topology.Position

// loader holds what all documents share.
type loader struct {
	list  findings
	seen  map[findingKey]bool
	given map[string]*node // variables from outside
	known map[string]bool  // variables that a document declares or uses
	// budget is how many nodes may still be visited.
	budget   int64
	replaced int // bytes of text that variables made
	stopped  bool
}

// findingKey is what makes two findings one: a value that several objects share,
// through defaults or an alias, is reported once.
type findingKey struct {
	code     string
	position topology.Position
	path     string
}

func newLoader() *loader {
	return &loader{
		seen: map[findingKey]bool{}, given: map[string]*node{}, known: map[string]bool{}, budget: maxExtra,
	}
}

// report adds an error about the structure of a spec.
func (l *loader) report(at topology.Position, code, summary, detail string) {
	l.add("", diag.Diagnostic{Severity: diag.Error, Code: code, Summary: summary, Detail: detail, Position: at, Structural: true})
}

func (l *loader) add(path string, d diag.Diagnostic) {
	key := findingKey{d.Code, d.Position, path}
	if len(l.list) > maxFindings || l.seen[key] {
		return
	}
	l.seen[key] = true
	if len(l.list) == maxFindings {
		d = diag.Diagnostic{
			Severity: diag.Error, Code: "too-many-findings", Position: d.Position, Structural: true,
			Summary: fmt.Sprintf("more than %d findings, the rest is left out", maxFindings),
			Detail:  "Correct those above first.",
		}
	}
	l.list.Add(d)
}

// duplicate reports something written twice.
func (l *loader) duplicate(at topology.Position, code, summary, detail string, first topology.Position) {
	l.add("", diag.Diagnostic{
		Severity: diag.Error, Code: code, Summary: summary, Detail: detail, Position: at, Structural: true,
		Related: []diag.Related{{Position: first, Text: "first written here"}},
	})
}

func (l *loader) tooLarge(at topology.Position) {
	if !l.stopped {
		l.report(at, "yaml-too-large", "aliases, merge keys, variables, defaults or repetition make this spec too large to read",
			"Check for anchors that refer to each other, and for for_each with many values.")
	}
	l.stopped = true
}

// spend counts n visited nodes; false: there were too many, reading stops.
func (l *loader) spend(n *node) bool {
	if l.budget -= int64(n.size); l.budget < 0 {
		l.tooLarge(n.pos())
	}
	return !l.stopped
}

// decoder reads the nodes of one object.
type decoder struct {
	*loader
	object topology.Key
	title  string // `queue "orders"`, for sentences
	path   []string
}

func (d *decoder) push(key string) { d.path = append(d.path, key) }
func (d *decoder) pop()            { d.path = d.path[:len(d.path)-1] }

// at runs f with the item i of a list as the current place.
func (d *decoder) at(i int, f func()) {
	d.push("[" + strconv.Itoa(i) + "]")
	f()
	d.pop()
}

// pathText is the current place below the object: "retry.delays[0]".
func (d *decoder) pathText() string {
	return strings.ReplaceAll(strings.Join(d.path, "."), ".[", "[")
}

// subject names the current place for a sentence.
func (d *decoder) subject() string {
	if len(d.path) == 0 {
		return d.title
	}
	return fmt.Sprintf("%q of %s", d.pathText(), d.title)
}

func (d *decoder) finding(at topology.Position, code, summary, detail string) {
	path := d.pathText()
	for _, defaults := range []string{"defaults.queue.", "defaults.exchange."} {
		path = strings.TrimPrefix(path, defaults) // reported once, not for each object
	}
	d.add(path, diag.Diagnostic{
		Severity: diag.Error, Code: code, Summary: summary, Detail: detail, Object: d.object, Position: at, Structural: true,
	})
}

// wrongType reports a value of the wrong kind; want is "an integer".
func (d *decoder) wrongType(n *node, want string) {
	detail := ""
	switch {
	case n.kind == invalidNode:
		return
	case n.kind == nullNode:
		d.noValue(n)
		return
	case want == "a text" && n.kind < textNode:
		detail = "Put it in quotes."
	case want == "a list" && n.kind != tableNode:
		detail = "Put it in brackets: [" + shorten(n.text) + "]."
	case want == "a list":
		detail = "A list begins with [ or has a dash before each item."
	case want == "true or false" && n.kind == textNode:
		detail = "Write true or false: yes, no, on and off are texts in YAML 1.2."
	case n.kind == textNode && (want == "an integer"):
		if _, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			detail = "Write it without quotes."
		}
	}
	d.finding(n.pos(), "wrong-type", d.subject()+" must be "+want+", not "+n.kind.title(), detail)
}

func (d *decoder) noValue(n *node) {
	d.finding(n.pos(), "no-value", d.subject()+" has no value", "Give it one, or leave the key out.")
}

// wrongValue reports a value that cannot be: why is "must be ...".
func (d *decoder) wrongValue(n *node, why string) {
	if n.kind != invalidNode {
		d.finding(n.pos(), "wrong-value", d.subject()+" "+why, "")
	}
}

// missing reports a key that must be there.
func (d *decoder) missing(at topology.Position, key, why string) {
	d.push(key)
	defer d.pop()
	d.finding(at, "missing-key", fmt.Sprintf("%s is missing", d.subject()), why)
}

// unknownKey reports a key that does not exist, with the most similar one.
func (d *decoder) unknownKey(e *entry, names []string) {
	where := d.title
	if len(d.path) > 0 {
		where = d.subject()
	}
	detail := "Known keys: " + strings.Join(slices.Sorted(slices.Values(names)), ", ") + "."
	if len(names) > 30 {
		detail = "No key has a similar name. What only RabbitMQ knows belongs under arguments."
	}
	hint := suggest(e.key, names)
	if other := otherNames[e.key]; slices.Contains(names, other) {
		hint = other
	}
	if hint != "" {
		detail = fmt.Sprintf("Did you mean %q?", hint)
	}
	d.finding(e.pos(), "unknown-key", fmt.Sprintf("unknown key %q in %s", shorten(e.key), where), detail)
}

// fields reads the keys of one kind of map into a T.
type fields[T any] map[string]func(d *decoder, t *T, n *node)

func (f fields[T]) names() []string { return slices.Collect(maps.Keys(f)) }

// readTable reads a map by its fields; others, when given, takes the keys that
// are none of them and says whether it knows the key. It reports false when n is
// no map.
func readTable[T any](d *decoder, n *node, t *T, known fields[T], others ...func(e *entry) bool) bool {
	if n.kind != tableNode {
		d.wrongType(n, "a map")
		return false
	}
	for i := range n.table {
		e := &n.table[i]
		read, ok := known[e.key]
		switch {
		case !ok && len(others) > 0 && others[0](e):
		case !ok:
			d.unknownKey(e, known.names())
		case e.value.kind == invalidNode:
		default:
			d.push(e.key)
			if e.value.kind == nullNode {
				d.noValue(e.value)
			} else {
				read(d, t, e.value)
			}
			d.pop()
		}
	}
	return true
}

// readText reads a text; ok is false when there is none.
func (d *decoder) readText(n *node) (s string, ok bool) {
	if n.kind == textNode || n.soft && (n.kind == boolNode || n.kind == intNode || n.kind == floatNode) {
		return n.text, true
	}
	d.wrongType(n, "a text")
	return "", false
}

func (d *decoder) readBool(n *node) (value, ok bool) {
	if n.kind == boolNode {
		return n.value.(bool), true
	}
	d.wrongType(n, "true or false")
	return false, false
}

// readInteger reads a whole number of at least lo; 1e3 is one.
func (d *decoder) readInteger(n *node, lo int64) (int64, bool) {
	i, ok := integer(n)
	if !ok {
		d.wrongType(n, "an integer")
		return 0, false
	}
	if i < lo {
		d.wrongValue(n, fmt.Sprintf("must be at least %d, not %d", lo, i))
		return 0, false
	}
	return i, true
}

func integer(n *node) (int64, bool) {
	switch v := n.value.(type) {
	case int64:
		return v, n.kind == intNode
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	}
	return 0, false
}

// readWord reads one of a few words.
func (d *decoder) readWord(n *node, words ...string) (string, bool) {
	s, ok := d.readText(n)
	if !ok {
		return "", false
	}
	if slices.Contains(words, s) {
		return s, true
	}
	hint := ""
	if w := suggest(s, words); w != "" {
		hint = fmt.Sprintf("Did you mean %q?", w)
	}
	d.finding(n.pos(), "wrong-value", fmt.Sprintf("%s must be %s, not %q", d.subject(), orList(words), shorten(s)), hint)
	return "", false
}

func orList(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// readDuration reads a duration of at least a millisecond.
func (d *decoder) readDuration(n *node) (time.Duration, bool) {
	if n.kind == intNode || n.kind == floatNode {
		d.missingUnit(n)
		return 0, false
	}
	s, ok := d.readText(n)
	if !ok {
		return 0, false
	}
	t, err := ParseDuration(s)
	switch err.(type) {
	case nil:
		return t, true
	case noUnit:
		d.missingUnit(n)
	default:
		d.wrongValue(n, err.Error())
	}
	return 0, false
}

func (d *decoder) missingUnit(n *node) {
	d.finding(n.pos(), "missing-unit", fmt.Sprintf("%s is the duration %q without a unit", d.subject(), shorten(n.text)),
		"Write the unit: ms, s, m, h or d, such as 30s.")
}

// readTexts reads a list of texts and the place of each.
func (d *decoder) readTexts(n *node) (texts []string, at []topology.Position) {
	if n.kind != listNode {
		d.wrongType(n, "a list of texts")
		return nil, nil
	}
	for i, item := range n.list {
		d.at(i, func() {
			if s, ok := d.readText(item); ok {
				texts, at = append(texts, s), append(at, item.pos())
			}
		})
	}
	return texts, at
}

// readList runs f for each item of a list.
func (d *decoder) readList(n *node, f func(item *node)) {
	if n.kind != listNode {
		d.wrongType(n, "a list")
		return
	}
	for i, item := range n.list {
		d.at(i, func() { f(item) })
	}
}

// readRaw is the canonical value of a node as it is written.
func (d *decoder) readRaw(n *node) any {
	switch n.kind {
	case boolNode, intNode, floatNode:
		return n.value
	case textNode:
		return n.text
	case listNode:
		list := make([]any, len(n.list))
		for i, item := range n.list {
			list[i] = d.readRaw(item)
		}
		return list
	case tableNode:
		table := make(map[string]any, len(n.table))
		for i := range n.table {
			table[n.table[i].key] = d.readRaw(n.table[i].value)
		}
		return table
	}
	return nil
}

// readArguments reads a table of raw values; an empty one is nil.
func (d *decoder) readArguments(n *node) topology.Arguments {
	if n.kind != tableNode {
		d.wrongType(n, "a map")
		return nil
	}
	if len(n.table) == 0 {
		return nil
	}
	return topology.Arguments(d.readRaw(n).(map[string]any))
}

// shorten makes a text from a file fit for a sentence.
func shorten(s string) string { return text.Truncate(s, 60) }

// set returns a function that reads a text into a field.
func setText[T any](field func(t *T) *string) func(*decoder, *T, *node) {
	return func(d *decoder, t *T, n *node) {
		if s, ok := d.readText(n); ok {
			*field(t) = s
		}
	}
}

// setBool returns a function that reads a boolean into a field.
func setBool[T any](field func(t *T) *bool) func(*decoder, *T, *node) {
	return func(d *decoder, t *T, n *node) {
		if b, ok := d.readBool(n); ok {
			*field(t) = b
		}
	}
}

// setWord returns a function that reads one of a few words into a field.
func setWord[T any, S ~string](field func(t *T) *S, words ...S) func(*decoder, *T, *node) {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return func(d *decoder, t *T, n *node) {
		if s, ok := d.readWord(n, texts...); ok {
			*field(t) = S(s)
		}
	}
}
