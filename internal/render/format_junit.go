package render

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Skipped  int           `xml:"skipped,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string       `xml:"name,attr"`
	ClassName string       `xml:"classname,attr"`
	File      string       `xml:"file,attr,omitempty"`
	Line      int          `xml:"line,attr,omitempty"`
	Failure   *junitResult `xml:"failure"`
	Skipped   *junitResult `xml:"skipped"`
}

type junitResult struct {
	Type    string `xml:"type,attr,omitempty"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// findingsJUnit writes one suite for each file and one case for each finding.
// Findings that make the command fail are failures, others are skipped cases with
// their text, which no reader counts as failed. A file without findings has one
// case that passes: readers complain about reports without any.
func (p *printer) findingsJUnit(list diag.List, o Options) {
	all := junitSuites{Name: "rabbitctl validate"}
	byName := map[string]*junitSuite{}
	suite := func(file string) *junitSuite {
		name := "broker" // what is not about a place in a file
		if file != "" {
			name = text.Line(slashed(file))
		}
		if byName[name] == nil {
			byName[name] = &junitSuite{Name: name}
		}
		return byName[name]
	}
	for _, d := range list {
		suite(d.Position.File).add(d, o)
	}
	for file := range o.Sources {
		if s := suite(file); s.Tests == 0 {
			s.Tests, s.Cases = 1, []junitCase{{Name: "no findings", ClassName: s.Name, File: s.Name}}
		}
	}
	if len(byName) == 0 {
		byName[""] = &junitSuite{Name: "rabbitctl", Tests: 1, Cases: []junitCase{{Name: "no findings", ClassName: "rabbitctl"}}}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s := byName[name]
		all.Suites = append(all.Suites, s)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Skipped += s.Skipped
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("write findings as JUnit: %w", err)
	}
	p.printf("%s%s\n", xml.Header, data)
}

func (s *junitSuite) add(d diag.Diagnostic, o Options) {
	c := junitCase{Name: d.Code, ClassName: s.Name}
	if d.Object != (topology.Key{}) {
		c.Name += ": " + text.Line(d.Object.String())
	}
	if d.Position.File != "" {
		c.File, c.Line = s.Name, d.Position.Line
	}
	where := ""
	if !d.Position.IsZero() {
		where = d.Position.String() + ": "
	}
	r := &junitResult{Type: d.Code, Message: text.Line(d.Summary), Text: text.Safe(where + string(d.Severity) + ": " + message(d))}
	s.Tests++
	if o.fails(d) {
		c.Failure = r
		s.Failures++
	} else {
		r.Type = ""
		c.Skipped = r
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}
