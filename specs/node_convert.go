package specs

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Bounds on what a file can cost. They are far above what a spec needs: a broker
// with 100,000 queues has a spec of some two million nodes.
const (
	maxFileSize = 64 << 20  // bytes
	maxHeight   = 100       // levels of nesting
	maxExtra    = 3_000_000 // nodes that aliases, merge keys, defaults and repetition may add
	maxRepeated = 100_000   // objects that one for_each may make
	maxReplaced = 64 << 20  // bytes of text that variables may make
)

// converter turns the YAML nodes of one document into nodes.
type converter struct {
	*loader
	src  *source
	vars *scope // nil: variables stay as they are
	// done holds the nodes of anchors, open those that are being made: an alias
	// to one of these would never end.
	done map[*yaml.Node]*node
	open map[*yaml.Node]bool
	// merged counts the keys that merge keys have copied.
	merged int
}

func (c *converter) make(k kind, y *yaml.Node) *node {
	c.budget++ // what is written may be visited
	return &node{kind: k, src: c.src, line: int32(y.Line), col: int32(y.Column), size: 1, height: 1}
}

// invalid reports what is wrong with a node and stands for it.
func (c *converter) invalid(y *yaml.Node, code, summary, detail string) *node {
	n := c.make(invalidNode, y)
	c.report(n.pos(), code, summary, detail)
	return n
}

// convert makes the node of y, depth levels below the document.
func (c *converter) convert(y *yaml.Node, depth int) *node {
	if depth > maxHeight {
		return c.invalid(y, "yaml-too-deep", fmt.Sprintf("values are nested more than %d levels deep", maxHeight),
			"A spec needs no more than ten levels: check the indentation and the brackets.")
	}
	switch y.Kind {
	case yaml.AliasNode:
		return c.alias(y, depth)
	case yaml.ScalarNode:
		n := c.scalar(y)
		if c.vars != nil && n.kind == textNode && strings.Contains(n.text, "${") {
			return c.vars.value(n)
		}
		return n
	case yaml.SequenceNode, yaml.MappingNode:
		if y.Anchor == "" {
			return c.collection(y, depth)
		}
		if n, ok := c.done[y]; ok {
			return n
		}
		c.open[y] = true
		n := c.collection(y, depth)
		delete(c.open, y)
		c.done[y] = n
		return n
	}
	return c.invalid(y, "yaml-syntax", "a value of a kind that YAML does not have", "")
}

func (c *converter) alias(y *yaml.Node, depth int) *node {
	switch {
	case y.Alias == nil:
		return c.invalid(y, "yaml-syntax", fmt.Sprintf("the alias %q has no anchor", y.Value), "")
	case c.open[y.Alias]:
		return c.invalid(y, "yaml-alias-cycle", fmt.Sprintf("the alias *%s stands inside its own anchor", y.Value),
			"It would never end. Move the anchor to a value that does not hold the alias.")
	}
	n := c.convert(y.Alias, depth)
	if depth+int(n.height) > maxHeight+1 {
		return c.invalid(y, "yaml-too-deep", fmt.Sprintf("the alias *%s makes values nest more than %d levels deep", y.Value, maxHeight),
			"A spec needs no more than ten levels.")
	}
	return n
}

func (c *converter) collection(y *yaml.Node, depth int) *node {
	if want := map[yaml.Kind]string{yaml.SequenceNode: "!!seq", yaml.MappingNode: "!!map"}[y.Kind]; y.Tag != "" && y.Tag != want && y.Tag != "!" {
		return c.unknownTag(y)
	}
	if y.Kind == yaml.MappingNode {
		return c.mapping(y, depth)
	}
	n := c.make(listNode, y)
	n.list = make([]*node, len(y.Content))
	for i, item := range y.Content {
		n.list[i] = c.convert(item, depth+1)
	}
	n.measure()
	return n
}

func (c *converter) unknownTag(y *yaml.Node) *node {
	return c.invalid(y, "yaml-tag", fmt.Sprintf("the YAML tag %q means nothing in a spec", y.Tag), "Remove the tag.")
}

func (c *converter) mapping(y *yaml.Node, depth int) *node {
	n := c.make(tableNode, y)
	n.table = make([]entry, 0, len(y.Content)/2)
	keys := newKeys(len(y.Content) / 2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		ky := y.Content[i]
		if ky.Tag == "!!merge" {
			merges = append(merges, y.Content[i+1])
			continue
		}
		key, ok := c.key(ky)
		if !ok {
			continue
		}
		e := entry{key: key, src: c.src, line: int32(ky.Line), col: int32(ky.Column)}
		if first := keys.find(n.table, key); first >= 0 {
			c.duplicate(e.pos(), "duplicate-key", fmt.Sprintf("the key %q is written twice", key),
				"A YAML map has a key once: merge the two, or rename one.", n.table[first].pos())
			continue
		}
		e.value = c.convert(y.Content[i+1], depth+1)
		keys.add(key, len(n.table))
		n.table = append(n.table, e)
	}
	for _, m := range merges {
		c.merge(n, keys, m, depth)
	}
	n.measure()
	return n
}

// merge works a YAML merge key (<<) in: keys that are there already stay.
func (c *converter) merge(n *node, keys *keys, y *yaml.Node, depth int) {
	from := y
	if y.Kind == yaml.AliasNode && y.Alias != nil {
		from = y.Alias
	}
	if from.Kind == yaml.SequenceNode && !c.open[from] && depth <= maxHeight {
		for _, item := range from.Content {
			c.merge(n, keys, item, depth+1)
		}
		return
	}
	m := c.convert(y, depth+1)
	if m.kind == invalidNode {
		return
	}
	if m.kind != tableNode {
		c.report(m.pos(), "yaml-merge-key", "the merge key << takes a map or a list of maps, not "+m.kind.title(), "Give it an alias to a map.")
		return
	}
	if c.merged += len(m.table); c.merged > maxExtra {
		c.tooLarge(m.pos())
		return
	}
	for _, e := range m.table {
		if keys.find(n.table, e.key) < 0 {
			keys.add(e.key, len(n.table))
			n.table = append(n.table, e)
		}
	}
}

// key reads a key as it is written: 1 and yes are the names "1" and "yes".
func (c *converter) key(y *yaml.Node) (string, bool) {
	k := y
	if k.Kind == yaml.AliasNode && k.Alias != nil {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode {
		c.invalid(y, "wrong-type", "a key must be a text, not a list or a map", "Inside { } and [ ] a variable needs quotes: \"${name}\".")
		return "", false
	}
	if c.vars == nil || !strings.Contains(k.Value, "${") {
		return k.Value, true
	}
	n := c.vars.value(&node{kind: textNode, text: k.Value, src: c.src, line: int32(y.Line), col: int32(y.Column), size: 1, height: 1})
	switch n.kind {
	case invalidNode:
		return "", false
	case listNode, tableNode, nullNode:
		c.report(n.pos(), "wrong-type", fmt.Sprintf("the variable in the key %q is %s, a key must be a text", k.Value, n.kind.title()), "")
		return "", false
	}
	return n.text, true
}

func (c *converter) scalar(y *yaml.Node) *node {
	n := c.make(textNode, y)
	n.text = y.Value
	switch y.Tag {
	case "!!str", "!!timestamp", "":
	case "!!merge":
		if y.Style&yaml.TaggedStyle != 0 {
			return c.unknownTag(y)
		}
		// << means something before a colon only.
	case "!!null":
		n.kind = nullNode
	case "!!bool", "!!int", "!!float":
		return c.typed(n, y)
	default:
		return c.unknownTag(y)
	}
	return n
}

// typed reads numbers and booleans with YAML's own rules (0x1F, 1_000, .5).
func (c *converter) typed(n *node, y *yaml.Node) *node {
	if y.Tag == "!!int" && plainInteger(y.Value) {
		if i, err := strconv.ParseInt(y.Value, 10, 64); err == nil {
			n.kind, n.value = intNode, i
			return n
		}
	}
	var v any
	if err := y.Decode(&v); err != nil {
		return c.invalid(y, "wrong-value", fmt.Sprintf("%q is no value of the YAML type %s", shorten(y.Value), y.Tag), "Remove the tag, or correct the value.")
	}
	switch v := v.(type) {
	case bool:
		n.kind, n.value = boolNode, v
	case int:
		n.kind, n.value = intNode, int64(v)
	case int64:
		n.kind, n.value = intNode, v
	case uint64:
		return c.invalid(y, "wrong-value", fmt.Sprintf("the number %d does not fit into 64 bits with sign", v), "RabbitMQ takes numbers up to 9223372036854775807.")
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return c.invalid(y, "wrong-value", fmt.Sprintf("%q cannot be sent to RabbitMQ", shorten(y.Value)), "Write a finite number, or put the text in quotes.")
		}
		n.kind, n.value = floatNode, v
	default:
		n.kind = textNode
	}
	return n
}

// plainInteger reports whether s is a decimal number that YAML and Go read alike.
func plainInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && (digits == "0" || digits[0] != '0') && strings.Trim(digits, "0123456789") == ""
}

// keys finds the entries of a table that is being made.
type keys struct{ index map[string]int }

// newKeys keeps an index only where searching would be slower.
func newKeys(n int) *keys {
	if n <= 16 {
		return &keys{}
	}
	return &keys{index: make(map[string]int, n)}
}

func (k *keys) find(table []entry, key string) int {
	if k.index == nil && len(table) > 16 {
		k.index = make(map[string]int, 2*len(table))
		for i := range table {
			k.index[table[i].key] = i
		}
	}
	if k.index == nil {
		return slices.IndexFunc(table, func(e entry) bool { return e.key == key })
	}
	if i, ok := k.index[key]; ok {
		return i
	}
	return -1
}

func (k *keys) add(key string, i int) {
	if k.index != nil {
		k.index[key] = i
	}
}
