package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// FindingsVersion is the format version of findings in JSON. Fields are only
// added within a major version.
const FindingsVersion = "1.0"

// findingFormats are the formats of findings, the default first: the place to
// add one.
var findingFormats = []struct {
	format Format
	write  func(p *printer, list diag.List, o Options)
}{
	{Text, func(p *printer, list diag.List, o Options) { p.findingsText(list, o) }},
	{JSON, (*printer).findingsJSON},
	{Markdown, func(p *printer, list diag.List, _ Options) { p.findingsMarkdown(list) }},
	{GitHub, (*printer).findingsGitHub},
	{SARIF, (*printer).findingsSARIF},
	{JUnit, (*printer).findingsJUnit},
}

// FindingFormats lists the formats of findings, the default first.
func FindingFormats() []Format {
	all := make([]Format, len(findingFormats))
	for i, f := range findingFormats {
		all[i] = f.format
	}
	return all
}

// Findings writes findings, in the order of the list.
func Findings(w io.Writer, list diag.List, o Options) error {
	p := &printer{w: w, color: o.Color}
	write := findingFormats[0].write
	for _, f := range findingFormats {
		if f.format == o.Format {
			write = f.write
		}
	}
	write(p, list, o)
	return p.err
}

func (p *printer) findingsJSON(list diag.List, _ Options) {
	p.json(struct {
		FormatVersion string        `json:"format_version"`
		Findings      []FindingJSON `json:"findings"`
	}{FindingsVersion, FindingsJSON(list)})
}

func (p *printer) json(v any) {
	if p.err != nil {
		return
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if p.err = e.Encode(v); p.err == nil {
		_, p.err = io.WriteString(p.w, escapeJSON(b.String()))
	}
}

// escapeJSON writes what a terminal could act on, and encoding/json leaves, as \u
// escapes, which mean the same in JSON.
func escapeJSON(s string) string {
	unsafe := func(r rune) bool { return r >= 0x7f && text.Safe(string(r)) != string(r) }
	if !strings.ContainsFunc(s, unsafe) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !unsafe(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// FindingJSON is one finding in JSON.
type FindingJSON struct {
	Severity string            `json:"severity"`
	Code     string            `json:"code"`
	Summary  string            `json:"summary"`
	Detail   string            `json:"detail,omitempty"`
	Object   *topology.Key     `json:"object,omitempty"`
	Position topology.Position `json:"position,omitzero"`
	Related  []RelatedJSON     `json:"related,omitempty"`
}

// RelatedJSON is a further place of a finding in JSON.
type RelatedJSON struct {
	Position topology.Position `json:"position"`
	Text     string            `json:"text"`
}

// FindingsJSON turns findings into their JSON form; never nil.
func FindingsJSON(list diag.List) []FindingJSON {
	out := make([]FindingJSON, 0, len(list))
	for _, d := range list {
		f := FindingJSON{Severity: string(d.Severity), Code: d.Code, Summary: d.Summary, Detail: d.Detail, Position: d.Position}
		if d.Object != (topology.Key{}) {
			f.Object = &d.Object
		}
		for _, r := range d.Related {
			f.Related = append(f.Related, RelatedJSON{r.Position, r.Text})
		}
		out = append(out, f)
	}
	return out
}

func severityStyle(s diag.Severity) style {
	switch s {
	case diag.Error:
		return red
	case diag.Warning:
		return yellow
	}
	return blue
}

func (p *printer) findingsText(list diag.List, o Options) {
	lines := newSourceLines(o.Sources)
	for _, d := range list {
		p.printf("%s: %s %s\n", p.paint(string(d.Severity), severityStyle(d.Severity)), text.Line(d.Summary), p.paint("["+text.Line(d.Code)+"]", faint))
		if !d.Position.IsZero() {
			p.printf("  --> %s\n", text.Line(d.Position.String()))
			p.sourceLine(d.Position, lines, severityStyle(d.Severity))
		} else if d.Object != (topology.Key{}) {
			p.printf("  --> %s\n", text.Line(d.Object.String()))
		}
		for i, r := range d.Related {
			if i == maxRelated {
				p.printf("  --> and %d more\n", len(d.Related)-maxRelated)
				break
			}
			p.printf("  --> %s\n", text.Line(placed(r)))
		}
		if d.Detail != "" {
			p.printf("  %s\n", strings.ReplaceAll(text.Safe(d.Detail), "\n", "\n  "))
		}
	}
	if len(list) > 0 {
		p.printf("%s%s\n", Tally(list), o.checkedFor())
	}
}

func (o Options) checkedFor() string {
	if o.For == "" {
		return ""
	}
	return " for " + o.For
}

// maxRelated bounds the further places that text shows; JSON has all.
const maxRelated = 3

// Tally counts findings in words: "2 errors, 1 warning".
func Tally(list diag.List) string {
	var parts []string
	for _, s := range []struct {
		severity  diag.Severity
		one, many string
	}{{diag.Error, "error", "errors"}, {diag.Warning, "warning", "warnings"}, {diag.Info, "note", "notes"}} {
		if n := list.Count(s.severity); n > 0 {
			parts = append(parts, text.Plural(n, s.one, s.many))
		}
	}
	if parts == nil {
		return "no findings"
	}
	return strings.Join(parts, ", ")
}

// maxSourceColumns bounds the part of a source line that is shown.
const maxSourceColumns = 160

// sourceLine shows the line of a position with a mark below the column. Column
// counts runes, as yaml.v3 does.
func (p *printer) sourceLine(pos topology.Position, lines sourceLines, c style) {
	line, ok := lines.at(pos)
	if !ok {
		return
	}
	column := max(pos.Column, 1)
	runes := []rune(line)
	if column > len(runes)+1 || column > maxSourceColumns {
		return
	}
	before := text.Line(string(runes[:column-1]))
	shown := text.Truncate(before+text.Line(string(runes[column-1:])), maxSourceColumns+40)
	number := fmt.Sprint(pos.Line)
	gutter := strings.Repeat(" ", len(number))
	p.printf("  %s |\n", gutter)
	p.printf("  %s | %s\n", number, shown)
	p.printf("  %s | %s%s\n", gutter, strings.Repeat(" ", utf8.RuneCountInString(before)), p.paint(marker(runes[column-1:]), c))
}

// marker underlines the word at the start of rest.
func marker(rest []rune) string {
	return strings.Repeat("^", min(wordLength(rest), 40))
}

// wordLength counts the runes of the word at the start of rest, at least one.
func wordLength(rest []rune) int {
	n := 0
	for n < len(rest) && !strings.ContainsRune(" \t,:{}[]#", rest[n]) {
		n++
	}
	return max(n, 1)
}

func (p *printer) findingsMarkdown(list diag.List) {
	p.printf("**Findings:** %s\n", Tally(list))
	if len(list) == 0 {
		return
	}
	p.printf("\n| Severity | Code | Where | What |\n|---|---|---|---|\n")
	for _, d := range list {
		where := d.Position.String()
		if where == "" {
			where = d.Object.String()
		}
		what := d.Summary
		if d.Detail != "" {
			what += ". " + d.Detail
		}
		p.printf("| %s | %s | %s | %s |\n", d.Severity, markdownEscape(d.Code), markdownEscape(where), markdownEscape(what))
	}
}
