package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// RabbitMQ matches names with Erlang's re module: PCRE over bytes, without UTF-8.
// translate rewrites such a pattern for the regexp2 engine, which follows .NET
// and works on code points: every byte stands as the code point of its value,
// classes are spelt out, and what .NET reads in another way is rewritten. What
// cannot be rewritten is an error, so that no pattern is ever silently read in
// another way than the broker reads it.
//
// latin1 says that \w and POSIX classes hold letters above 127 too, as in PCRE
// below RabbitMQ 4.3 (measured on 3.10.8 and 4.0.5); 4.3.6 has PCRE2, where they
// are ASCII.
func translate(pattern string, latin1 bool) (translated string, folds bool, err error) {
	t := &translator{in: pattern, latin1: latin1, atom: -1}
	if err := t.run(); err != nil {
		return "", false, err
	}
	if t.named && t.numbered {
		return "", false, errors.New("named groups together with numbered references")
	}
	return t.out.String(), t.folds, nil
}

type translator struct {
	in     string
	at     int
	latin1 bool
	out    strings.Builder
	atom   int   // where the last atom begins in out; -1: there is none
	groups []int // where the open groups begin in out
	named  bool
	// numbered: there are references such as \1.
	numbered bool
	folds    bool // ignores case somewhere
}

func (t *translator) run() error {
	for t.at < len(t.in) {
		var err error
		switch c := t.in[t.at]; c {
		case '\\':
			err = t.escape()
		case '[':
			err = t.class()
		case '(':
			err = t.open()
		case ')':
			if len(t.groups) == 0 {
				return errors.New("unmatched )")
			}
			t.out.WriteByte(')')
			t.atom = t.groups[len(t.groups)-1]
			t.groups = t.groups[:len(t.groups)-1]
			t.at++
		case '|':
			t.out.WriteByte('|')
			t.atom = -1
			t.at++
		case '*', '+', '?', '{':
			err = t.quantifier()
		case '.', '^', '$':
			t.begin()
			t.out.WriteByte(c)
			t.at++
		case ' ', '\t', '\n', '\r', '\f', '\v', '#':
			// Left as it is: it means nothing where the x flag holds.
			t.begin()
			t.out.WriteByte(c)
			t.at++
		default:
			t.literal(c)
			t.at++
		}
		if err != nil {
			return err
		}
	}
	if len(t.groups) > 0 {
		return errors.New("missing )")
	}
	return nil
}

func (t *translator) begin() { t.atom = t.out.Len() }

func (t *translator) literal(c byte) {
	t.begin()
	t.out.WriteString(quoteByte(c))
}

// quoteByte writes a byte as a literal, inside and outside of classes.
func quoteByte(c byte) string {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' {
		return string(rune(c))
	}
	return fmt.Sprintf(`\x%02x`, c)
}

// peek returns the byte n places on, 0 at the end.
func (t *translator) peek(n int) byte {
	if t.at+n < len(t.in) {
		return t.in[t.at+n]
	}
	return 0
}

// escape translates an escape outside of a class.
func (t *translator) escape() error {
	if t.at+1 >= len(t.in) {
		return errors.New(`\ at the end`)
	}
	c := t.in[t.at+1]
	if ranges, ok := t.named1(c); ok {
		t.begin()
		t.out.WriteString("[" + ranges + "]")
		t.at += 2
		return nil
	}
	switch c {
	case 'Q':
		text, rest, closed := strings.Cut(t.in[t.at+2:], `\E`)
		for i := range len(text) {
			t.literal(text[i])
		}
		if closed {
			t.at = len(t.in) - len(rest)
		} else {
			t.at = len(t.in)
		}
		return nil
	case 'E':
		t.at += 2
		return nil
	case 'A', 'z', 'Z', 'G':
		t.begin()
		t.out.WriteString(t.in[t.at : t.at+2])
		t.at += 2
		return nil
	case 'b', 'B':
		word := "[" + t.word() + "]"
		t.begin()
		if c == 'b' {
			t.out.WriteString("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))")
		} else {
			t.out.WriteString("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))")
		}
		t.at += 2
		return nil
	case 'N':
		t.begin()
		t.out.WriteString(`[^\x0a]`)
		t.at += 2
		return nil
	case 'C':
		t.begin()
		t.out.WriteString(`[\x00-\xff]`)
		t.at += 2
		return nil
	case 'R':
		t.begin()
		t.out.WriteString(`(?>\x0d\x0a|[\x0a-\x0d\x85])`)
		t.at += 2
		return nil
	case 'K': // moves the start of the match, not whether there is one
		t.at += 2
		t.atom = -1
		return nil
	case 'k':
		return t.reference()
	case 'p', 'P', 'X', 'g', 'o':
		return fmt.Errorf(`\%c`, c)
	}
	if c >= '1' && c <= '9' {
		end := t.at + 2
		for end < len(t.in) && t.in[end] >= '0' && t.in[end] <= '9' {
			end++
		}
		digits := t.in[t.at+1 : end]
		if n, _ := strconv.Atoi(digits); n < 10 || strings.Count(t.in, "(") >= n {
			if n >= 10 || n == 0 {
				return fmt.Errorf(`\%s`, digits)
			}
			t.numbered = true
			t.begin()
			// In a group, so that a digit behind it is not read as part of it.
			t.out.WriteString(`(?:\` + digits + `)`)
			t.at = end
			return nil
		}
	}
	b, err := t.char()
	if err != nil {
		return err
	}
	t.literal(b)
	return nil
}

// reference translates \k<name>, \k'name' and \k{name}.
func (t *translator) reference() error {
	closing := map[byte]byte{'<': '>', '\'': '\'', '{': '}'}[t.peek(2)]
	name, rest, ok := "", "", false
	if closing != 0 {
		name, rest, ok = strings.Cut(t.in[t.at+3:], string(rune(closing)))
	}
	if !ok || !isName(name) {
		return errors.New(`\k`)
	}
	t.begin()
	t.out.WriteString(`\k<` + name + `>`)
	t.at = len(t.in) - len(rest)
	return nil
}

func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// char reads an escape that stands for one byte, inside or outside of a class.
func (t *translator) char() (byte, error) {
	if t.at+1 >= len(t.in) {
		return 0, errors.New(`\ at the end`)
	}
	c := t.in[t.at+1]
	t.at += 2
	switch {
	case c == 'a':
		return 7, nil
	case c == 'e':
		return 27, nil
	case c == 'f':
		return 12, nil
	case c == 'n':
		return 10, nil
	case c == 'r':
		return 13, nil
	case c == 't':
		return 9, nil
	case c == 'c':
		if t.at >= len(t.in) || t.in[t.at] < 32 || t.in[t.at] > 126 {
			return 0, errors.New(`\c`)
		}
		x := strings.ToUpper(t.in[t.at : t.at+1])[0] ^ 0x40
		t.at++
		return x, nil
	case c == 'x':
		return t.hex()
	case c >= '0' && c <= '7':
		n, end := 0, min(t.at+2, len(t.in))
		for t.at--; t.at < end && t.in[t.at] >= '0' && t.in[t.at] <= '7'; t.at++ {
			n = n*8 + int(t.in[t.at]-'0')
		}
		if n > 255 {
			return 0, fmt.Errorf("octal number %o", n)
		}
		return byte(n), nil
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '8' || c == '9':
		return 0, fmt.Errorf(`\%c`, c)
	}
	return c, nil
}

func (t *translator) hex() (byte, error) {
	digits := ""
	if t.peek(0) == '{' {
		inside, _, ok := strings.Cut(t.in[t.at+1:], "}")
		if !ok {
			return 0, errors.New(`\x{`)
		}
		digits = inside
		t.at += len(inside) + 2
	} else {
		for len(digits) < 2 && strings.IndexByte("0123456789abcdefABCDEF", t.peek(0)) >= 0 && t.peek(0) != 0 {
			digits += t.in[t.at : t.at+1]
			t.at++
		}
		if digits == "" {
			return 0, nil // PCRE: \x alone is the byte 0
		}
	}
	n, err := strconv.ParseUint(digits, 16, 8)
	if err != nil {
		return 0, fmt.Errorf(`\x{%s}`, digits)
	}
	return byte(n), nil
}

// open translates what begins with a parenthesis.
func (t *translator) open() error {
	rest := t.in[t.at:]
	enter := func(text string, n int) error {
		t.groups = append(t.groups, t.out.Len())
		t.out.WriteString(text)
		t.atom = -1
		t.at += n
		return nil
	}
	if strings.HasPrefix(rest, "(*") {
		return errors.New("(*")
	}
	if !strings.HasPrefix(rest, "(?") {
		return enter("(", 1)
	}
	for _, same := range []string{"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"} {
		if strings.HasPrefix(rest, same) {
			return enter(same, len(same))
		}
	}
	if strings.HasPrefix(rest, "(?#") {
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return errors.New("missing ) after (?#")
		}
		t.at += end + 1
		return nil
	}
	if after, ok := strings.CutPrefix(rest, "(?P="); ok {
		name, tail, ok := strings.Cut(after, ")")
		if !ok || !isName(name) {
			return errors.New("(?P=")
		}
		t.begin()
		t.out.WriteString(`\k<` + name + `>`)
		t.at = len(t.in) - len(tail)
		return nil
	}
	for _, form := range []struct{ start, end string }{{"(?P<", ">"}, {"(?<", ">"}, {"(?'", "'"}} {
		if after, ok := strings.CutPrefix(rest, form.start); ok {
			name, _, ok := strings.Cut(after, form.end)
			if !ok || !isName(name) {
				return errors.New(form.start)
			}
			t.named = true
			return enter("(?<"+name+">", len(form.start)+len(name)+1)
		}
	}
	return t.flags(rest, enter)
}

func (t *translator) flags(rest string, enter func(string, int) error) error {
	end := 2
	for end < len(rest) && strings.IndexByte("imsx-", rest[end]) >= 0 {
		end++
	}
	if end == 2 || end >= len(rest) || strings.Count(rest[:end], "-") > 1 {
		return fmt.Errorf("%q", rest[:min(3, len(rest))])
	}
	on, _, _ := strings.Cut(rest[2:end], "-")
	t.folds = t.folds || strings.Contains(on, "i")
	if strings.Contains(on, "x") && strings.ContainsAny(t.in, `#[\`) {
		return errors.New("(?x) with classes, escapes or comments")
	}
	switch rest[end] {
	case ':':
		return enter(rest[:end+1], end+1)
	case ')':
		t.out.WriteString(rest[:end+1])
		t.atom = -1
		t.at += end + 1
		return nil
	}
	return fmt.Errorf("%q", rest[:end+1])
}

func (t *translator) quantifier() error {
	text := t.in[t.at : t.at+1]
	if text == "{" {
		text = braces(t.in[t.at:])
		if text == "" {
			if strings.HasPrefix(t.in[t.at:], "{,") || strings.HasPrefix(t.in[t.at:], "{ ") {
				return errors.New("{,") // a quantifier in PCRE2 only
			}
			t.literal('{')
			t.at++
			return nil
		}
	}
	if t.atom < 0 {
		return errors.New("nothing to repeat")
	}
	t.at += len(text)
	switch t.peek(0) {
	case '?':
		t.out.WriteString(text + "?")
		t.at++
	case '+': // possessive: once matched, never given back
		all := t.out.String()
		t.out.Reset()
		t.out.WriteString(all[:t.atom] + "(?>" + all[t.atom:] + text + ")")
		t.at++
	default:
		t.out.WriteString(text)
	}
	t.atom = -1 // a second quantifier is an error in PCRE
	return nil
}

// braces returns a leading {n}, {n,} or {n,m}; "" when there is none.
func braces(s string) string {
	end := strings.IndexByte(s, '}')
	if end < 2 {
		return ""
	}
	low, high, two := strings.Cut(s[1:end], ",")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if low == "" || !digits(low) || two && !digits(high) {
		return ""
	}
	return s[:end+1]
}

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
