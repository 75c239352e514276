// Package diag holds findings: what is wrong in a spec or with a broker, where,
// and what to do. User mistakes are findings, never Go errors, and are shown
// all at once.
package diag

import (
	"cmp"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Severity says how bad a finding is.
type Severity string

// Error: the broker refuses it, or does certainly not what is written, or
// messages are certainly lost. Warning: it depends on who publishes or consumes,
// or on a version. Info: good to know.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Rank orders severities, the worst first.
func (s Severity) Rank() int {
	switch s {
	case Error:
		return 0
	case Warning:
		return 1
	}
	return 2
}

// Diagnostic is one finding.
type Diagnostic struct {
	Severity Severity
	// Code is stable: "unknown-key", "dead-letter-queue-missing".
	Code string
	// Summary says in one line what is wrong, Detail what to do about it.
	Summary string
	Detail  string
	// Object is what the finding is about; zero for the file as a whole.
	Object   topology.Key
	Position topology.Position
	// Objects are those that one finding stands for when it says the same of many;
	// Object is then their virtual host.
	Objects []topology.Key
	// Related are further places, such as the first of two duplicates.
	Related []Related
	// Structural findings (syntax, types, unknown names) always stop a command.
	Structural bool
}

// Related is a further place with a word on it.
type Related struct {
	Position topology.Position
	Text     string
}

// List is a number of findings.
type List []Diagnostic

// Add appends a finding.
func (l *List) Add(d Diagnostic) { *l = append(*l, d) }

// HasErrors reports whether any finding is an error.
func (l List) HasErrors() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Severity == Error })
}

// HasStructural reports whether any structural error is among the findings.
func (l List) HasStructural() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Structural && d.Severity == Error })
}

// Count counts the findings of one severity.
func (l List) Count(s Severity) int {
	n := 0
	for _, d := range l {
		if d.Severity == s {
			n++
		}
	}
	return n
}

// AtLeast returns the findings of one severity or worse.
func (l List) AtLeast(s Severity) List {
	var worse List
	for _, d := range l {
		if d.Severity.Rank() <= s.Rank() {
			worse = append(worse, d)
		}
	}
	return worse
}

// Mentions reports whether a finding has its place in a file.
func (l List) Mentions(file string) bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Position.File == file })
}

// Sort orders findings by file, place, severity, code and text, so that equal
// input gives equal output.
func (l List) Sort() {
	slices.SortStableFunc(l, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Position.File, b.Position.File),
			cmp.Compare(a.Position.Line, b.Position.Line),
			cmp.Compare(a.Position.Column, b.Position.Column),
			cmp.Compare(a.Severity.Rank(), b.Severity.Rank()),
			cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Object.String(), b.Object.String()),
			cmp.Compare(a.Summary, b.Summary),
		)
	})
}
