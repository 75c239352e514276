package validate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

const oldSins = `version: 1
queues:
  a: {type: classic, role: dead-letter}
  b: {type: classic, role: dead-letter}
  c: {type: classic, role: dead-letter}
  d: {type: classic, role: dead-letter}
  jobs: {type: classic, dead_letter: nowhere}
`

// inputOf reads a spec for Check, the findings of expanding it included.
func inputOf(t *testing.T, text string) Input {
	t.Helper()
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: "specs/a.yaml", Data: []byte(text)}}})
	if found.HasStructural() {
		t.Fatal(describe(found))
	}
	desired, more := spec.Expand(specs.Target{})
	return Input{Topology: desired, Versions: spec.Versions(), Sources: spec.Files, Found: append(found, more...)}
}

// baselineOf is the baseline of a spec, written and read again.
func baselineOf(t *testing.T, text string) *Baseline {
	t.Helper()
	data, err := NewBaseline(inputOf(t, text)).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ReadBaseline("old.json", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return b
}

func check(t *testing.T, b *Baseline, text string) diag.List {
	t.Helper()
	in := inputOf(t, text)
	in.Baseline = b
	return Check(in)
}

func TestBaselineAcceptsWhatWasThere(t *testing.T) {
	b := baselineOf(t, oldSins)
	if b.Len() < 5 {
		t.Fatalf("only %d entries: %+v", b.Len(), b.entries)
	}
	moved := strings.Replace(oldSins, "queues:\n", "# lines move\n\nqueues:\n", 1)
	for _, text := range []string{oldSins, moved} {
		if list := check(t, b, text); len(list) > 0 {
			t.Errorf("still reported:\n%s", describe(list))
		}
	}
}

// One more object with the same mistake is reported, although the old ones are
// shown as one finding when there is no baseline.
func TestBaselineDoesNotAcceptNewObjects(t *testing.T) {
	list := check(t, baselineOf(t, oldSins), oldSins+"  e: {type: classic, role: dead-letter}\n")
	if len(list) != 1 || list[0].Code != "dead-letter-queue-without-owner" || list[0].Object.Name != "e" {
		t.Errorf("got:\n%s", describe(list))
	}
	// Another mistake of an object that is there.
	list = check(t, baselineOf(t, oldSins), strings.Replace(oldSins, "dead_letter: nowhere}", "dead_letter: nowhere, durable: false}", 1))
	if len(list) == 0 || slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Object.Name != "jobs" }) {
		t.Errorf("got:\n%s", describe(list))
	}
}

func TestBaselineNotesWhatIsFixed(t *testing.T) {
	b := baselineOf(t, oldSins)
	list := check(t, b, strings.Replace(oldSins, "  c: {type: classic, role: dead-letter}\n", "", 1))
	if len(list) != 1 {
		t.Fatalf("got:\n%s", describe(list))
	}
	d := list[0]
	want := topology.Key{Kind: topology.KindQueue, VirtualHost: "/", Name: "c"}
	if d.Code != codeBaselineEntryUnused || d.Severity != diag.Info || d.Object != want || d.Position.File != "old.json" || !strings.Contains(d.Summary, `"dead-letter-queue-without-owner"`) {
		t.Errorf("got %+v", d)
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(string(data), "\n")[d.Position.Line-1]; !strings.Contains(line, `"name":"c"`) {
		t.Errorf("line %d is %s", d.Position.Line, line)
	}
}

func TestBaselineAndStrict(t *testing.T) {
	const text = "version: 1\nqueues:\n  jobs: {type: classic}\n"
	in := inputOf(t, text)
	in.Strict = true
	b := NewBaseline(in)
	in.Baseline = b
	if list := Check(in); len(list) > 0 {
		t.Errorf("still reported:\n%s", describe(list))
	}
	// Without --strict the rule is not asked, which says nothing of the entry.
	in.Strict = false
	if list := Check(in); len(list) > 0 {
		t.Errorf("reported:\n%s", describe(list))
	}
}

// TestBaselineKeepsStructuralErrors: what cannot be understood is never accepted.
func TestBaselineKeepsStructuralErrors(t *testing.T) {
	bad := diag.Diagnostic{Severity: diag.Error, Code: "expansion", Summary: "does not work", Structural: true, Object: topology.Key{Kind: topology.KindQueue, Name: "q"}}
	in := Input{Found: diag.List{bad}}
	if b := NewBaseline(in); b.Len() != 0 {
		t.Errorf("accepted: %+v", b.entries)
	}
	in.Baseline = &Baseline{entries: []BaselineEntry{{Code: "expansion", Object: &bad.Object}}}
	if list := Check(in); !list.HasStructural() {
		t.Errorf("got:\n%s", describe(list))
	}
}

func TestBaselineIsStable(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(oldSins), "\n")
	slices.Reverse(lines[2:])
	reversed := strings.Join(lines, "\n") + "\n"
	one, two := baselineOf(t, oldSins), baselineOf(t, reversed)
	if !reflect.DeepEqual(one.entries, two.entries) || len(one.entries) == 0 {
		t.Errorf("the order of the spec changes the baseline:\n%v\n%v", one.entries, two.entries)
	}
	empty, err := (&Baseline{}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := ReadBaseline("x", empty); err != nil || b.Len() != 0 {
		t.Errorf("an empty baseline is not read back: %v", err)
	}
}

func TestBaselineOfFilesAndHostileNames(t *testing.T) {
	object := topology.Key{Kind: topology.KindQueue, VirtualHost: "a/b", Name: "x\x1b[2J\n\"<&>\u202e"}
	in := Input{Found: diag.List{
		{Severity: diag.Warning, Code: "of-a-file", Position: topology.Position{File: "./specs/a.yaml", Line: 3}},
		{Severity: diag.Warning, Code: "of-an-object", Object: object},
	}}
	data, err := NewBaseline(in).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if in.Baseline, err = ReadBaseline("b.json", data); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	if list := Check(in); len(list) > 0 {
		t.Errorf("still reported:\n%s", describe(list))
	}
	in.Found = nil
	list := Check(in)
	if len(list) != 2 || !strings.Contains(list[0].Summary, `"specs/a.yaml"`) || strings.ContainsAny(describe(list[1:]), "\x1b\u202e") {
		t.Errorf("got %q", describe(list))
	}
}

func TestReadBaselineRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "line 1: the file ends too early",
		"[]":                 "expected {",
		"{}":                 "format_version is missing",
		"{\"findings\": []}": "format_version is missing",
		`{"format_version": "2.0", "findings": []}`:                                         `format version "2.0"`,
		`{"format_version": 1}`:                                                             "line 1",
		"{\"format_version\": \"1.0\",\n\"codes\": 1}":                                      `line 2: unknown key "codes"`,
		"{\"format_version\": \"1.0\", \"findings\": [\n{\"line\": 1}]}":                    `unknown field "line"`,
		"{\"format_version\": \"1.0\", \"findings\": [\n{\"file\": \"a\"}]}":                "line 2: an entry has no code",
		"{\"format_version\": \"1.0\", \"findings\": [{\"code\": \"a\"}":                    "the file ends too early",
		"{\"format_version\": \"1.0\", \"findings\": [{\"code\": \"a\"}]} {}":               "more after the end",
		"{\"format_version\": \"1.0\", \"findings\": [{\"code\": \"a\", \"object\": [1]}]}": "object",
		"{\"format_version\": \"1.0\", \"findings\": {}}":                                   "expected [",
	} {
		_, err := ReadBaseline("b.json", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"b.json"`) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestExamplesAreStrict: the starter specs hold what --strict asks for.
func TestExamplesAreStrict(t *testing.T) {
	for name, text := range exampleSpecs(t) {
		in := inputOf(t, text)
		in.Strict = true
		for _, d := range Check(in) {
			t.Errorf("%s: %s", name, fmt.Sprint(d.Position, " ", d.Summary, " ", d.Code))
		}
	}
}

func exampleSpecs(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, e := range examples.List {
		data, err := examples.FS.ReadFile(e.File)
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name] = string(data)
	}
	if len(all) == 0 {
		t.Fatal("no examples")
	}
	return all
}
