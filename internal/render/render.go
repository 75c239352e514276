// Package render writes findings, plans and results for people and for
// programs. It decides nothing. Every text that came from a file or a broker is
// made safe for a terminal here, whatever was done before.
package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// Format is a way to write results.
type Format string

// The formats.
const (
	Text     Format = "text"
	JSON     Format = "json"
	Markdown Format = "markdown"
	GitHub   Format = "github"
	SARIF    Format = "sarif"
	JUnit    Format = "junit"
)

// Formats lists the formats of plans and results, the default first. Those of
// findings are FindingFormats.
var Formats = []Format{Text, JSON, Markdown}

// ParseFormat finds one of some formats by name.
func ParseFormat(name string, formats []Format) (Format, error) {
	if f := Format(name); slices.Contains(formats, f) {
		return f, nil
	}
	return "", fmt.Errorf("there is no format %q here; choose one of %s", name, FormatNames(formats))
}

// FormatNames lists formats for a message.
func FormatNames(formats []Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// Options say how to write.
type Options struct {
	Format Format
	Color  bool
	// Sources holds the text of the files that findings point into.
	Sources map[string][]byte

	// For says in text what the findings were looked for in: "RabbitMQ 3.10 to 4.3".
	For string

	// The formats for other programs use these too.

	// Version is rabbitctl's own.
	Version string
	// Rules describe the codes of findings.
	Rules []Rule
	// FailAt is the severity from which on a finding makes the command fail;
	// empty: error.
	FailAt diag.Severity
}

// Rule describes the findings of one code.
type Rule struct {
	Code               string
	Severity           diag.Severity
	Summary, Doc, Help string
}

// fails reports whether a finding makes the command fail.
func (o Options) fails(d diag.Diagnostic) bool {
	at := o.FailAt
	if at == "" {
		at = diag.Error
	}
	return d.Severity.Rank() <= at.Rank()
}

// style is an ANSI colour.
type style string

const (
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "34"
	bold   style = "1"
	faint  style = "2"
)

// printer collects output and the first error.
type printer struct {
	w     io.Writer
	color bool
	err   error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// paint colours s, which must be one of our own words or safe already.
func (p *printer) paint(s string, c style) string {
	if !p.color || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// markdownEscape makes text safe inside a Markdown table cell or list item.
func markdownEscape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "`", "\\`", "|", `\|`, "*", `\*`, "_", `\_`, "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "\n", " ",
	).Replace(text.Safe(s))
}
