package policy

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// matchTimeout is how long one name may take. The broker gives a pattern up too,
// by a limit on its steps, and then takes it for no match.
const matchTimeout = 50 * time.Millisecond

// cuts counts matches that took too long.
var cuts atomic.Int64

// The engine looks at its clock as often as that.
func init() { regexp2.SetTimeoutCheckPeriod(matchTimeout / 5) }

// maxPattern is the longest pattern that is tried, in bytes: PCRE refuses longer
// ones ("regular expression is too large").
const maxPattern = 16 << 10

// verdict is the answer to whether a pattern matches a name.
type verdict int

const (
	no verdict = iota
	yes
	unknown
)

// pattern is a policy's pattern, ready to be matched. Simple ones need no engine:
// brokers with thousands of queues have as many policies of the form ^name$.
type pattern struct {
	kind    patternKind
	literal string          // for engine: what every match begins with
	names   map[string]bool // of oneOf
	re      *regexp2.Regexp
	folds   bool
	err     error       // why it cannot be decided, nil: it can
	cut     atomic.Bool // matches took too long; no further one is tried
}

type patternKind int

const (
	exact patternKind = iota // ^literal$
	prefix
	anywhere // the literal stands anywhere; empty: every name
	oneOf    // ^(one|other)$
	engine
)

// compile never fails: a pattern that cannot be read as the broker reads it is
// unknown for every name.
func compile(text string, v catalog.Version) *pattern {
	if p := simple(text); p != nil {
		return p
	}
	if names := listed(text); names != nil {
		return &pattern{kind: oneOf, names: names}
	}
	return compiled.of(text, v.Below(catalog.V(4, 3)))
}

// compiled keeps the patterns that need an engine, for all versions that read them
// alike: what one has shown to take too long is tried no more by the others.
var compiled = cache{patterns: map[cacheKey]*pattern{}}

type cache struct {
	mu       sync.Mutex
	patterns map[cacheKey]*pattern
}

type cacheKey struct {
	text     string
	before43 bool
}

// maxCached bounds the cache: beyond it is begun anew.
const maxCached = 10000

func (c *cache) of(text string, before43 bool) *pattern {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := cacheKey{text, before43}
	if p := c.patterns[key]; p != nil {
		return p
	}
	if len(c.patterns) >= maxCached {
		clear(c.patterns)
	}
	p := compileText(text, before43)
	c.patterns[key] = p
	return p
}

func compileText(text string, before43 bool) *pattern {
	p := &pattern{kind: engine}
	if len(text) > maxPattern {
		p.err = fmt.Errorf("it has %d bytes", len(text))
		return p
	}
	translated, folds, err := translate(text, before43)
	if err != nil {
		p.err = err
		return p
	}
	p.folds = folds
	if !folds {
		p.literal = leading(text)
	}
	p.re, p.err = compileEngine(translated)
	if p.re != nil {
		p.re.MatchTimeout = matchTimeout
	}
	return p
}

// compileEngine shields from faults in the engine's parser: patterns come from
// files and brokers.
func compileEngine(text string) (re *regexp2.Regexp, err error) {
	defer func() {
		if r := recover(); r != nil {
			re, err = nil, fmt.Errorf("it is not understood: %v", r)
		}
	}()
	return regexp2.Compile(text, regexp2.None)
}

// simple reads patterns without any special meaning but a leading ^, a trailing $
// or .*; nil: it is none.
func simple(text string) *pattern {
	if text == ".*" {
		return &pattern{kind: anywhere}
	}
	rest, anchored := strings.CutPrefix(text, "^")
	var literal strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '$' && i == len(rest)-1 && anchored:
			return &pattern{kind: exact, literal: literal.String()}
		case c == '.' && i == len(rest)-2 && rest[i+1] == '*' && anchored:
			return &pattern{kind: prefix, literal: literal.String()}
		case c == '\\':
			i++
			if i == len(rest) || isAlphanumeric(rest[i]) {
				return nil
			}
			literal.WriteByte(rest[i])
		case strings.IndexByte(`.[]{}()*+?|^$`, c) >= 0:
			return nil
		default:
			literal.WriteByte(c)
		}
	}
	if anchored {
		return &pattern{kind: prefix, literal: literal.String()}
	}
	return &pattern{kind: anywhere, literal: literal.String()}
}

// leading is a text that every match of an anchored pattern begins with, "" when
// none is certain. It spares the engine most names where there are thousands.
func leading(text string) string {
	rest, anchored := strings.CutPrefix(text, "^")
	// Settings, quoting and alternatives could undo what stands in front.
	if !anchored || strings.Contains(text, "(?") || strings.Contains(text, "(*") || strings.Contains(text, `\Q`) || splits(rest) {
		return ""
	}
	var literal []byte
	for i := 0; i < len(rest) && rest[i] < 0x80; i++ {
		c := rest[i]
		switch {
		case strings.IndexByte("*?{+", c) >= 0:
			return string(literal[:max(len(literal)-1, 0)])
		case c == '\\' && i+1 < len(rest) && rest[i+1] < 0x80 && !isAlphanumeric(rest[i+1]):
			i++
			c = rest[i]
		case strings.IndexByte(`.[]}()^$\`, c) >= 0:
			return string(literal)
		}
		literal = append(literal, c)
	}
	// The last may be part of what follows.
	return string(literal[:max(len(literal)-1, 0)])
}

// splits reports whether an alternative may stand outside of all groups.
func splits(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[': // what a class holds is not looked at
			return strings.Contains(text[i:], "|")
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth <= 0 {
				return true
			}
		}
	}
	return false
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (p *pattern) match(name string) verdict {
	ok := false
	switch p.kind {
	case exact:
		ok = name == p.literal
	case prefix:
		ok = strings.HasPrefix(name, p.literal)
	case anywhere:
		ok = strings.Contains(name, p.literal)
	case oneOf:
		ok = p.names[name]
	default:
		if p.err == nil && !strings.HasPrefix(name, p.literal) {
			return no
		}
		return p.matchEngine(name)
	}
	if ok {
		return yes
	}
	return no
}

func (p *pattern) matchEngine(name string) (v verdict) {
	if p.err != nil || p.cut.Load() {
		return unknown
	}
	runes := make([]rune, len(name))
	for i := range len(name) {
		runes[i] = rune(name[i])
		if p.folds && name[i] > 127 {
			return unknown // how bytes above 127 are folded differs between versions
		}
	}
	defer func() {
		if recover() != nil { // see compileEngine
			p.cut.Store(true)
			v = unknown
		}
	}()
	matched, err := p.re.MatchRunes(runes)
	if err != nil && cuts.Add(1) <= 4 { // the machine may have been busy with something else
		matched, err = p.re.MatchRunes(runes)
	}
	switch {
	case err != nil:
		p.cut.Store(true)
		return unknown
	case matched:
		return yes
	}
	return no
}

// decides reports whether the pattern can be tried.
func (p *pattern) decides() bool { return p.err == nil && !p.cut.Load() }

// problem says why the pattern is undecided for some names; "" when it is not.
func (p *pattern) problem() string {
	switch {
	case p.err != nil:
		return fmt.Sprintf("rabbitctl cannot read it as RabbitMQ does (%s)", p.err)
	case p.cut.Load():
		return tooSlow()
	}
	return "it ignores case in names with bytes above 127"
}
