package policy

import (
	"regexp/syntax"
	"strings"
)

// maxListed bounds how many names a pattern is written out into.
const maxListed = 64

// listed writes out a pattern that lists names, such as ^team\.(work|old)$; nil: it
// is no such pattern. Go's syntax means the same as PCRE where nothing but groups,
// alternatives and escaped punctuation is used.
func listed(text string) map[string]bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 0x80 || strings.IndexByte(`.[]{}*+?`, c) >= 0:
			return nil
		case c == '\\':
			i++
			if i == len(text) || text[i] >= 0x80 || isAlphanumeric(text[i]) {
				return nil
			}
		}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil || tree.Op != syntax.OpConcat || len(tree.Sub) < 2 {
		return nil
	}
	last := len(tree.Sub) - 1
	if tree.Sub[0].Op != syntax.OpBeginText || tree.Sub[last].Op != syntax.OpEndText {
		return nil
	}
	all := []string{""}
	for _, part := range tree.Sub[1:last] {
		if all = times(all, writtenOut(part)); all == nil {
			return nil
		}
	}
	names := make(map[string]bool, len(all))
	for _, name := range all {
		names[name] = true
	}
	return names
}

// writtenOut lists the texts that a part matches; nil: too many, or not only texts.
func writtenOut(part *syntax.Regexp) []string {
	switch part.Op {
	case syntax.OpEmptyMatch:
		return []string{""}
	case syntax.OpLiteral:
		return []string{string(part.Rune)}
	case syntax.OpCapture:
		return writtenOut(part.Sub[0])
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range part.Sub {
			if all = times(all, writtenOut(sub)); all == nil {
				return nil
			}
		}
		return all
	case syntax.OpCharClass:
		// The parser makes a class of alternatives of one letter each.
		var all []string
		for i := 0; i < len(part.Rune); i += 2 {
			for r := part.Rune[i]; r <= part.Rune[i+1]; r++ {
				if all = append(all, string(r)); len(all) > maxListed {
					return nil
				}
			}
		}
		return all
	case syntax.OpAlternate:
		var all []string
		for _, sub := range part.Sub {
			some := writtenOut(sub)
			if all = append(all, some...); some == nil || len(all) > maxListed {
				return nil
			}
		}
		return all
	}
	return nil
}

// times joins every text of one list with every one of another; nil: too many.
func times(first, second []string) []string {
	if len(first)*len(second) > maxListed {
		return nil
	}
	var all []string
	for _, a := range first {
		for _, b := range second {
			all = append(all, a+b)
		}
	}
	return all
}
