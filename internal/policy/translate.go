package policy

import (
	"errors"
	"fmt"
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
