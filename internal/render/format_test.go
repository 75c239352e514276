package render

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif" // holds the schema of SARIF 2.1.0 as a text
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// hostile holds what breaks terminals, XML, workflow commands and JSON.
const hostile = "a\x1b[2J\u202e\u009b\U000e0001b\r\n::error::c,d:e%<&>\"']]>\x00\xff\ufffe"

var source = "version: 1\nqueues:\n  jöbs: {type: classic, max_lenght: 5}\n"

// sample has a finding of each severity, with and without place and object.
func sample() (diag.List, Options) {
	queue := func(name string) topology.Key {
		return topology.Key{Kind: topology.KindQueue, VirtualHost: "/", Name: name}
	}
	list := diag.List{
		{
			Severity: diag.Error, Code: "unknown-key", Summary: `unknown key "max_lenght" in queue "jöbs"`, Detail: `Did you mean "max_length"?`,
			Object: queue("jöbs"), Position: topology.Position{File: "./specs/a b.yaml", Line: 3, Column: 25}, Structural: true,
		},
		{
			Severity: diag.Warning, Code: "known-rule", Summary: "4 queues have no owner", Object: topology.Key{Kind: topology.KindVirtualHost, VirtualHost: "/"},
			Position: topology.Position{File: "./specs/a b.yaml", Line: 2, Column: 1},
			Related: []diag.Related{
				{Position: topology.Position{File: "./specs/a b.yaml", Line: 3, Column: 3}, Text: "queue b"},
				{Position: topology.Position{File: "/abs/c.yaml", Line: 1}, Text: "queue c"},
				{Text: "queue d, which has no place"},
				{Text: "e"},
				{Text: "f"},
			},
		},
		{Severity: diag.Info, Code: "known-rule", Summary: "good to know", Object: queue("live")},
		{Severity: diag.Info, Code: "no-object", Summary: "nothing but this"},
		{
			Severity: diag.Error, Code: "hostile", Summary: hostile, Detail: hostile, Object: queue(hostile),
			Position: topology.Position{File: hostile, Line: 1, Column: 99}, Related: []diag.Related{{Position: topology.Position{File: hostile}, Text: hostile}},
		},
	}
	return list, Options{
		Version: "v1.2.3", Sources: map[string][]byte{"./specs/a b.yaml": []byte(source), "clean.yaml": []byte("version: 1\n")},
		Rules: []Rule{{Code: "known-rule", Severity: diag.Warning, Summary: "Known.", Doc: "The broker does so.", Help: "Do this."}},
	}
}

func written(t *testing.T, list diag.List, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := Findings(&b, list, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNoFormatLetsControlCharactersThrough: whatever a spec holds.
func TestNoFormatLetsControlCharactersThrough(t *testing.T) {
	list, o := sample()
	for _, o.Format = range FindingFormats() {
		out := written(t, list, o)
		if out == "" {
			t.Errorf("%s writes nothing", o.Format)
		}
		unsafe := func(r rune) bool {
			return r < ' ' && r != '\n' && r != '\t' || r == '\u202e' || r == '\u009b' || r == '\U000e0001'
		}
		if i := strings.IndexFunc(out, unsafe); i >= 0 {
			t.Errorf("%s lets %q through", o.Format, out[max(0, i-20):min(len(out), i+20)])
		}
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range FindingFormats() {
		if got, err := ParseFormat(string(f), FindingFormats()); got != f || err != nil {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("sarif", Formats); err == nil || !strings.Contains(err.Error(), "choose one of text, json, markdown") {
		t.Errorf("a plan cannot be SARIF: %v", err)
	}
	if Formats[0] != Text || FindingFormats()[0] != Text {
		t.Error("the default format is text")
	}
}

func TestGitHub(t *testing.T) {
	list, o := sample()
	o.Format = GitHub
	lines := strings.Split(strings.TrimSuffix(written(t, list, o), "\n"), "\n")
	want := []string{
		`::error file=specs/a b.yaml,line=3,col=25,title=rabbitctl unknown-key::unknown key "max_lenght" in queue "jöbs"%0ADid you mean "max_length"?`,
		`::warning file=specs/a b.yaml,line=2,col=1,title=rabbitctl known-rule::4 queues have no owner%0A./specs/a b.yaml:3:3: queue b%0A/abs/c.yaml:1: queue c%0Aqueue d, which has no place%0Aand 2 more`,
		`::notice title=rabbitctl known-rule::queue "live" in virtual host "/": good to know`,
		`::notice title=rabbitctl no-object::nothing but this`,
	}
	if len(lines) != len(list) {
		t.Fatalf("%d lines for %d findings:\n%s", len(lines), len(list), strings.Join(lines, "\n"))
	}
	for i, w := range want {
		if lines[i] != w {
			t.Errorf("got\n%s\nwant\n%s", lines[i], w)
		}
	}
	// The last one must be a single command: no second one inside, no property
	// that ends early.
	parts := strings.SplitN(strings.TrimPrefix(lines[4], "::error "), "::", 2)
	for _, p := range strings.Split(parts[0], ",") {
		if name, value, ok := strings.Cut(p, "="); !ok || !slices.Contains([]string{"file", "line", "col", "title"}, name) || strings.Contains(value, ":") {
			t.Errorf("the property %q of %s", p, lines[4])
		}
	}
	if unescaped := strings.NewReplacer("%25", "", "%0A", "").Replace(parts[1]); strings.Contains(unescaped, "%") {
		t.Errorf("a percent sign is left: %s", unescaped)
	}
}

// sarifSchemaText is the schema that the standard's committee published.
func sarifSchemaText(t *testing.T) string {
	t.Helper()
	p, err := build.Import("github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif", ".", build.FindOnly)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, "schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	spec := file.Decls[0].(*ast.GenDecl).Specs[0].(*ast.ValueSpec)
	text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "(SARIF) Version 2.1.0 JSON Schema") {
		t.Fatal("this is not the schema of SARIF 2.1.0")
	}
	return text
}

func sarifValidator(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(sarifSchemaText(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("sarif.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validSARIF(t interface{ Errorf(string, ...any) }, s *jsonschema.Schema, text string) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(doc)
	}
	if err != nil {
		t.Errorf("not valid: %v\n%s", err, text)
	}
}

func TestSARIF(t *testing.T) {
	schema := sarifValidator(t)
	list, o := sample()
	o.Format = SARIF
	out := written(t, list, o)
	validSARIF(t, schema, out)
	validSARIF(t, schema, written(t, nil, Options{Format: SARIF}))
	// The validator does reject something.
	if doc, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(out, `"ruleId"`, `"rule"`, 1))); err != nil || schema.Validate(doc) == nil {
		t.Errorf("an unknown property is taken: %v", err)
	}

	var log sarifLog
	if err := json.Unmarshal([]byte(out), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	var levels []string
	seen := map[string]bool{}
	for _, r := range run.Results {
		levels = append(levels, r.Level)
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule index %d is not that of %s", r.RuleIndex, r.RuleID)
		}
		for _, f := range r.Fingerprints {
			if seen[f] || len(f) != 32 {
				t.Errorf("the fingerprint %q is no fingerprint or taken twice", f)
			}
			seen[f] = true
		}
	}
	if got := strings.Join(levels, " "); got != "error warning note note error" {
		t.Errorf("levels: %s", got)
	}
	first := run.Results[0].Locations[0]
	if first.Physical.Artifact.URI != "specs/a%20b.yaml" || *first.Physical.Region != (sarifRegion{3, 25, 35}) {
		t.Errorf("place: %+v %+v", first.Physical.Artifact, first.Physical.Region)
	}
	if first.Logical[0].FullyQualifiedName != `queue "jöbs" in virtual host "/"` {
		t.Errorf("object: %+v", first.Logical)
	}
	if related := run.Results[1].Related; len(related) != 2 || related[1].Physical.Artifact.URI != "file:///abs/c.yaml" || related[0].Message.Text != "queue b" {
		t.Errorf("related: %+v", related)
	}
	if r := run.Tool.Driver.Rules[0]; r.ID != "known-rule" || r.ShortDescription.Text != "Known." || r.Default.Level != "warning" || !strings.HasSuffix(r.HelpURI, "docs/rules.md#known-rule") {
		t.Errorf("rule: %+v", r)
	}
}

// TestSARIFFingerprintsStay when lines and words change, and tell the findings of
// one object apart.
func TestSARIFFingerprintsStay(t *testing.T) {
	prints := func(list diag.List) []string {
		var log sarifLog
		if err := json.Unmarshal([]byte(written(t, list, Options{Format: SARIF})), &log); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, r := range log.Runs[0].Results {
			all = append(all, r.Fingerprints["rabbitctlFinding/v1"])
		}
		return all
	}
	list, _ := sample()
	before := prints(list)
	moved := slices.Clone(list)
	for i := range moved {
		moved[i].Position.Line += 7
		moved[i].Summary += " now"
	}
	if after := prints(moved); !slices.Equal(before, after) {
		t.Errorf("%v\n%v", before, after)
	}
	if twice := prints(diag.List{list[0], list[0]}); twice[0] == twice[1] || twice[0] != before[0] {
		t.Errorf("%v", twice)
	}
}

func TestJUnit(t *testing.T) {
	list, o := sample()
	o.Format = JUnit
	var s junitSuites
	read := func(out string) {
		s = junitSuites{}
		if err := xml.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	read(written(t, list, o))
	if s.Tests != 6 || s.Failures != 2 || s.Skipped != 3 || len(s.Suites) != 4 {
		t.Errorf("%d tests, %d failures, %d skipped in %d suites", s.Tests, s.Failures, s.Skipped, len(s.Suites))
	}
	tests := 0
	for _, suite := range s.Suites {
		failures, skipped := 0, 0
		for _, c := range suite.Cases {
			if c.Failure != nil {
				failures++
			}
			if c.Skipped != nil {
				skipped++
			}
		}
		if suite.Tests != len(suite.Cases) || suite.Failures != failures || suite.Skipped != skipped || suite.Tests == 0 {
			t.Errorf("the counts of suite %q are wrong: %+v", suite.Name, suite)
		}
		tests += suite.Tests
	}
	if tests != s.Tests {
		t.Errorf("%d tests in suites, %d in all", tests, s.Tests)
	}
	i := slices.IndexFunc(s.Suites, func(s *junitSuite) bool { return s.Name == "specs/a b.yaml" })
	if i < 0 {
		t.Fatalf("no suite for the file: %+v", s.Suites)
	}
	c := s.Suites[i].Cases[0]
	if c.File != "specs/a b.yaml" || c.Line != 3 || c.Failure.Type != "unknown-key" || !strings.Contains(c.Failure.Text, "Did you mean") || !strings.HasPrefix(c.Failure.Text, "./specs/a b.yaml:3:25: error: ") {
		t.Errorf("%+v %+v", c, c.Failure)
	}
	// What fails follows --severity.
	o.FailAt = diag.Info
	read(written(t, list, o))
	if s.Failures != 5 || s.Skipped != 0 {
		t.Errorf("%d failures, %d skipped", s.Failures, s.Skipped)
	}
	read(written(t, nil, Options{Format: JUnit}))
	if s.Tests != 1 || s.Failures != 0 {
		t.Errorf("without findings or files: %+v", s)
	}
}

// TestFormatsOfAnything: any text and any place give well-formed output.
func TestFormatsOfAnything(t *testing.T) {
	schema := sarifValidator(t)
	rapid.Check(t, func(t *rapid.T) {
		s := func(label string) string { return rapid.StringN(0, 30, -1).Draw(t, label) }
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) diag.Diagnostic {
			pos := func() topology.Position {
				return topology.Position{File: rapid.String().Draw(t, "file"), Line: rapid.IntRange(-1, 3).Draw(t, "line"), Column: rapid.IntRange(-1, 30).Draw(t, "column")}
			}
			return diag.Diagnostic{
				Severity: rapid.SampledFrom([]diag.Severity{diag.Error, diag.Warning, diag.Info}).Draw(t, "severity"),
				Code:     rapid.String().Draw(t, "code"), Summary: rapid.String().Draw(t, "summary"), Detail: rapid.String().Draw(t, "detail"),
				Object:   topology.Key{Kind: topology.KindQueue, VirtualHost: rapid.String().Draw(t, "vhost"), Name: rapid.String().Draw(t, "name")},
				Position: pos(), Related: []diag.Related{{Position: pos(), Text: rapid.String().Draw(t, "text")}},
			}
		}), 0, 4).Draw(t, "findings")
		sources := map[string][]byte{}
		for _, d := range list {
			sources[d.Position.File] = []byte(s("source"))
		}
		for _, f := range FindingFormats() {
			var b bytes.Buffer
			if err := Findings(&b, list, Options{Format: f, Sources: sources}); err != nil {
				t.Fatal(err)
			}
			switch out := b.String(); f {
			case SARIF:
				validSARIF(t, schema, out)
			case JSON:
				var back struct{ Findings []FindingJSON }
				if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back.Findings) != len(list) {
					t.Fatalf("no JSON: %v\n%s", err, out)
				}
				for i, d := range list {
					if back.Findings[i].Summary != d.Summary {
						t.Fatalf("%q is read back as %q", d.Summary, back.Findings[i].Summary)
					}
				}
			case JUnit:
				if err := xml.Unmarshal(b.Bytes(), &junitSuites{}); err != nil {
					t.Fatalf("no XML: %v\n%s", err, out)
				}
			case GitHub:
				if n := strings.Count(out, "\n"); n != len(list) {
					t.Fatalf("%d lines for %d findings:\n%s", n, len(list), out)
				}
			}
		}
	})
}

// TestTextUnderlines shows the line of a finding with the word underlined.
func TestTextUnderlines(t *testing.T) {
	list, o := sample()
	out := written(t, list[:1], o)
	want := "  3 |   jöbs: {type: classic, max_lenght: 5}\n    | " + strings.Repeat(" ", 24) + "^^^^^^^^^^\n"
	if !strings.Contains(out, want) {
		t.Errorf("got\n%s\nwant\n%s", out, fmt.Sprint(want))
	}
}
