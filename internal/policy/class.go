package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// class translates a bracket expression.
func (t *translator) class() error {
	t.begin()
	t.at++
	t.out.WriteByte('[')
	if t.peek(0) == '^' {
		t.out.WriteByte('^')
		t.at++
	}
	for first := true; ; first = false {
		if t.at >= len(t.in) {
			return errors.New("missing ]")
		}
		c := t.in[t.at]
		if c == ']' && !first {
			t.out.WriteByte(']')
			t.at++
			return nil
		}
		if handled, err := t.set(); err != nil {
			return err
		} else if handled {
			// Whether a hyphen behind a set is a literal differs between versions,
			// unless it is the last.
			if t.peek(0) == '-' && t.peek(1) != ']' {
				return errors.New("a range that begins with a set")
			}
			continue
		}
		low, err := t.member()
		if err != nil {
			return err
		}
		t.out.WriteString(quoteByte(low))
		if t.peek(0) != '-' || t.peek(1) == ']' || t.at+1 >= len(t.in) {
			continue
		}
		t.at++
		if _, isSet := t.named1(t.peek(1)); t.peek(0) == '\\' && isSet || t.peek(0) == '[' && strings.IndexByte(":.=", t.peek(1)) >= 0 {
			return errors.New("a range that ends with a set")
		}
		high, err := t.member()
		if err != nil {
			return err
		}
		if high < low {
			return errors.New("a range that is out of order")
		}
		t.out.WriteString("-" + quoteByte(high))
	}
}

// member reads one byte of a class.
func (t *translator) member() (byte, error) {
	c := t.in[t.at]
	if c != '\\' {
		t.at++
		return c, nil
	}
	switch t.peek(1) {
	case 'b':
		t.at += 2
		return 8, nil
	case 'Q', 'E':
		return 0, errors.New(`\Q in a class`)
	}
	return t.char()
}

// set translates a set inside of a class: \w, [:alpha:].
func (t *translator) set() (bool, error) {
	if t.in[t.at] == '\\' {
		ranges, ok := t.named1(t.peek(1))
		if ok {
			t.out.WriteString(ranges)
			t.at += 2
		}
		return ok, nil
	}
	rest := t.in[t.at:]
	if strings.HasPrefix(rest, "[.") || strings.HasPrefix(rest, "[=") {
		return false, errors.New(rest[:2])
	}
	if !strings.HasPrefix(rest, "[:") {
		return false, nil
	}
	end := strings.Index(rest, ":]")
	if end < 0 || end == 1 {
		return false, nil
	}
	name, negated := strings.CutPrefix(rest[2:end], "^")
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
		return false, nil // PCRE takes it for single characters
	}
	ranges, ok := t.posix(name)
	if !ok {
		return false, fmt.Errorf("[:%s:]", name)
	}
	if negated {
		ranges = complement(ranges)
	}
	t.out.WriteString(spell(ranges))
	t.at += end + 2
	return true, nil
}

// span is a range of bytes.
type span struct{ low, high byte }

var (
	digits     = []span{{'0', '9'}}
	upper      = []span{{'A', 'Z'}}
	lower      = []span{{'a', 'z'}}
	ascii      = []span{{'A', 'Z'}, {'a', 'z'}}
	latin      = []span{{0xaa, 0xaa}, {0xb5, 0xb5}, {0xba, 0xba}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0xff}}
	horizontal = []span{{9, 9}, {' ', ' '}, {0xa0, 0xa0}}
	vertical   = []span{{10, 13}, {0x85, 0x85}}
)

func (t *translator) letters() []span {
	if t.latin1 {
		return slices.Concat(ascii, latin)
	}
	return ascii
}

func (t *translator) word() string {
	return spell(slices.Concat(digits, t.letters(), []span{{'_', '_'}}))
}

// named1 returns the members of a set that one letter names: \w, \D.
func (t *translator) named1(c byte) (string, bool) {
	var set []span
	switch c | 0x20 {
	case 'd':
		set = digits
	case 'w':
		set = slices.Concat(digits, t.letters(), []span{{'_', '_'}})
	case 's':
		set = []span{{9, 13}, {' ', ' '}}
		if t.latin1 {
			set = append(set, span{0x85, 0x85}, span{0xa0, 0xa0})
		}
	case 'h':
		set = horizontal
	case 'v':
		set = vertical
	default:
		return "", false
	}
	if c&0x20 == 0 {
		set = complement(set)
	}
	return spell(set), c >= 'A'
}

// posix returns the members of a POSIX class that means the same everywhere.
func (t *translator) posix(name string) ([]span, bool) {
	switch name {
	case "alpha":
		return t.letters(), true
	case "alnum":
		return slices.Concat(digits, t.letters()), true
	case "word":
		return slices.Concat(digits, t.letters(), []span{{'_', '_'}}), true
	case "digit":
		return digits, true
	case "xdigit":
		return []span{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, true
	case "ascii":
		return []span{{0, 127}}, true
	case "upper", "lower", "space", "blank", "punct", "graph", "print", "cntrl":
		if t.latin1 {
			return nil, false // what counts above 127 was not measured
		}
	}
	switch name {
	case "upper":
		return upper, true
	case "lower":
		return lower, true
	case "space":
		return []span{{9, 13}, {' ', ' '}}, true
	case "blank":
		return []span{{9, 9}, {' ', ' '}}, true
	case "punct":
		return []span{{33, 47}, {58, 64}, {91, 96}, {123, 126}}, true
	case "graph":
		return []span{{33, 126}}, true
	case "print":
		return []span{{32, 126}}, true
	case "cntrl":
		return []span{{0, 31}, {127, 127}}, true
	}
	return nil, false
}

func complement(set []span) []span {
	var has [256]bool
	for _, s := range set {
		for c := int(s.low); c <= int(s.high); c++ {
			has[c] = true
		}
	}
	var rest []span
	for c := 0; c < 256; c++ {
		if has[c] {
			continue
		}
		start := c
		for c+1 < 256 && !has[c+1] {
			c++
		}
		rest = append(rest, span{byte(start), byte(c)})
	}
	return rest
}

func spell(set []span) string {
	var b strings.Builder
	for _, s := range set {
		b.WriteString(quoteByte(s.low))
		if s.high > s.low {
			b.WriteString("-" + quoteByte(s.high))
		}
	}
	return b.String()
}
