package validate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// ignoreMark begins a comment that ignores a rule: # rabbitctl:ignore CODE reason
const ignoreMark = "rabbitctl:ignore"

// The codes of findings on the comments themselves.
const (
	codeIgnoreWithoutReason = "ignore-without-reason"
	codeUnusedIgnore        = "unused-ignore"
)

// ignore is one comment.
type ignore struct {
	file         string
	line, column int // of the comment
	lines        []int
	code, reason string
	used         bool
}

func (g *ignore) covers(at topology.Position) bool {
	return at.File == g.file && slices.Contains(g.lines, at.Line)
}

// applyIgnores takes out the findings that a comment beside their line, on the
// line above, or at the line of their object ignores, and reports comments that
// give no reason or have nothing to ignore.
func applyIgnores(found []*finding, sources map[string][]byte) ([]*finding, diag.List) {
	type lineOf struct {
		file string
		line int
	}
	comments := map[lineOf][]*ignore{}
	var all []*ignore
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		for _, g := range readIgnores(file, string(sources[file])) {
			all = append(all, g)
			for _, l := range g.lines {
				comments[lineOf{file, l}] = append(comments[lineOf{file, l}], g)
			}
		}
	}
	if len(all) == 0 {
		return found, nil
	}
	kept := found[:0:0]
	for _, f := range found {
		hit := false
		for _, at := range []topology.Position{f.Position, f.object} {
			for _, g := range comments[lineOf{at.File, at.Line}] {
				if g.code == f.Code && g.covers(at) && !f.Structural {
					g.used = true
					hit = hit || g.reason != ""
				}
			}
		}
		if !hit {
			kept = append(kept, f)
		}
	}
	var list diag.List
	for _, g := range all {
		list = append(list, g.findings()...)
	}
	return kept, list
}

func (g *ignore) findings() diag.List {
	at := topology.Position{File: g.file, Line: g.line, Column: g.column}
	var list diag.List
	if g.code == "" || g.reason == "" {
		summary := "the ignore comment names no rule"
		if g.code != "" {
			summary = fmt.Sprintf("the comment ignores %q and does not say why", g.code)
		}
		list.Add(diag.Diagnostic{
			Severity: diag.Error, Code: codeIgnoreWithoutReason, Position: at, Summary: summary,
			Detail: "Write # rabbitctl:ignore CODE and the reason in words. Without a reason nothing is ignored.",
		})
	}
	if g.code != "" && !g.used {
		detail := "Remove the comment, or put it beside or above the line that the finding names."
		if !slices.ContainsFunc(Rules, func(r Rule) bool { return r.Code == g.code }) {
			if near := nearest(g.code, Codes()); near != "" {
				detail = fmt.Sprintf("No rule has this code; did you mean %q?", near)
			}
		}
		list.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: codeUnusedIgnore, Position: at, Detail: detail,
			Summary: unusedSummary(g.code),
		})
	}
	return list
}

// readIgnores finds the comments of one file. A comment beside something counts
// for its line; one that stands alone counts for the next line that holds more
// than a comment.
func readIgnores(file, source string) []*ignore {
	var all, waiting []*ignore
	for i, line := range strings.Split(source, "\n") {
		before, comment, found := cutComment(line)
		alone := strings.TrimSpace(before) == ""
		if found {
			if rest, ok := strings.CutPrefix(strings.TrimSpace(comment), ignoreMark); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
				g := &ignore{file: file, line: i + 1, column: len(before) + 1}
				if words := strings.Fields(rest); len(words) > 0 {
					g.code = text.Line(words[0])
					g.reason = strings.Join(words[1:], " ")
				}
				all = append(all, g)
				if alone {
					waiting = append(waiting, g)
				} else {
					g.lines = []int{i + 1}
				}
			}
		}
		if alone {
			if !found {
				waiting = nil // a blank line ends what a comment is about
			}
			continue
		}
		for _, g := range waiting {
			g.lines = []int{i + 1}
		}
		waiting = nil
	}
	return all
}

// cutComment splits a line of YAML at its comment: a # at the start or after
// white space, outside of quotes.
func cutComment(line string) (before, comment string, found bool) {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			// A quote opens a scalar only where one can begin.
			if i == 0 || strings.IndexByte(" \t[{,:", line[i-1]) >= 0 {
				quote = c
			}
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return line[:i], line[i+1:], true
		}
	}
	return line, "", false
}

// Codes lists the codes of all rules in their order, and those of findings on
// ignore comments and baselines.
func Codes() []string {
	codes := make([]string, 0, len(Rules)+3)
	for _, r := range Rules {
		codes = append(codes, r.Code)
	}
	return append(codes, codeIgnoreWithoutReason, codeUnusedIgnore, codeBaselineEntryUnused)
}

// nearest is the candidate that differs from a word by the fewest letters, ""
// when all differ by more than a third of its length.
func nearest(word string, candidates []string) string {
	return nearestSorted(word, slices.Sorted(slices.Values(candidates)))
}

// nearestSorted is nearest for candidates in their order.
func nearestSorted(word string, candidates []string) string {
	best, distance := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(word, c, distance); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts inserted, removed, changed and swapped letters; it gives
// up at limit.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit || len(a) > 256 {
		return limit
	}
	var before, previous []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, previous, row = previous, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}

func unusedSummary(code string) string { return fmt.Sprintf("nothing here is reported as %q", code) }
