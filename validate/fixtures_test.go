package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/specs"
)

var marks = regexp.MustCompile(`# (want|fine): ([a-z0-9 -]+)$`)

// checkSpec reads, expands and checks a spec as the command does, and returns
// the findings of the rules alone. A name with ".strict." asks for --strict, one that
// begins with "upgrade-" for an upgrade to 4.3.
func checkSpec(t *testing.T, name, text string) (rules, earlier diag.List) {
	t.Helper()
	spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: name, Data: []byte(text)}}})
	if found.HasStructural() {
		t.Fatalf("%s cannot be read: %v", name, found)
	}
	in := Input{Versions: spec.Versions(), Sources: spec.Files, Strict: strings.Contains(name, ".strict.")}
	var target specs.Target
	if strings.HasPrefix(name, "upgrade-") {
		target.Version = catalog.V(4, 3)
		in.From, in.Versions = in.Versions, []catalog.Version{target.Version}
	}
	desired, more := spec.Expand(target)
	earlier = append(found, more...)
	in.Topology = desired
	return Check(in), earlier
}

// common are codes that most specs with a limit or a dead-letter route have: they
// count in their own fixtures only.
var common = map[string]bool{
	"dead-letter-at-most-once": true, "nack-not-counted": true, "limit-counts-returns": true, "classic-cap-does-not-count-crashes": true,
}

// TestFixtures holds every rule against testdata/validate: a line that ends in
// "# want: CODE ..." has exactly those findings, and all other lines have none but
// common ones.
func TestFixtures(t *testing.T) {
	files, err := filepath.Glob("../testdata/validate/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	bad, good, strict := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		code, _, _ := strings.Cut(name, ".")
		t.Run(name, func(t *testing.T) {
			var want []string
			for i, line := range strings.Split(string(data), "\n") {
				m := marks.FindStringSubmatch(line)
				if m == nil {
					continue
				}
				for _, c := range strings.Fields(m[2]) {
					if m[1] == "fine" {
						good[c] = good[c] || c == code
						continue
					}
					want = append(want, fmt.Sprintf("%d %s", i+1, c))
					bad[c] = bad[c] || c == code
					strict[c] = strict[c] || c == code && strings.Contains(name, ".strict.")
				}
			}
			list, _ := checkSpec(t, name, string(data))
			var got []string
			for _, d := range list {
				if common[d.Code] && d.Code != code {
					continue
				}
				got = append(got, fmt.Sprintf("%d %s", d.Position.Line, d.Code))
				for _, r := range d.Related {
					if strings.HasPrefix(d.Summary, fmt.Sprint(len(d.Related)+1)+" ") {
						got = append(got, fmt.Sprintf("%d %s", r.Position.Line, d.Code)) // one of several that were merged
					}
				}
				checkWording(t, d)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("findings: %v\nwant:     %v\n%s", got, want, describe(list))
			}
		})
	}
	for _, r := range Rules {
		if !bad[r.Code] {
			t.Errorf("testdata/validate/%s.yaml has no line that ends in # want: %s", r.Code, r.Code)
		}
		if r.Strict != "" && !strict[r.Code] {
			t.Errorf("testdata/validate/%s.strict.yaml has no line that ends in # want: %s", r.Code, r.Code)
		}
		if !good[r.Code] {
			t.Errorf("testdata/validate/%s.yaml has no line that ends in # fine: %s", r.Code, r.Code)
		}
	}
}

func describe(list diag.List) string {
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%s: %s: %s [%s]\n", d.Position, d.Severity, d.Summary, d.Code)
	}
	return b.String()
}

// checkWording holds what every finding must have.
func checkWording(t *testing.T, d diag.Diagnostic) {
	t.Helper()
	switch {
	case d.Summary == "" || d.Detail == "":
		t.Errorf("%s lacks a summary or what to do: %+v", d.Code, d)
	case strings.HasSuffix(d.Summary, ".") || strings.ContainsAny(d.Summary, "\n\t"):
		t.Errorf("%s: the summary is one line without a full stop: %q", d.Code, d.Summary)
	case d.Position.Line == 0:
		t.Errorf("%s has no position: %s", d.Code, d.Summary)
	}
}
