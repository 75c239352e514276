package command_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestDocumentedSpecs loads every spec that the documentation shows, expands it
// and applies the rules: none may have an error, nor a warning whose code the example
// does not name.
func TestDocumentedSpecs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, readmeFile) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range yamlBlock.FindAllSubmatchIndex(data, -1) {
			block := data[m[2]:m[3]]
			if !strings.HasPrefix(string(block), "version: 1\n") {
				if base := filepath.Base(page); base == "specs.md" || base == "adopt.md" {
					t.Errorf("%s: an example does not begin with version: 1:\n%s", page, block)
				}
				continue
			}
			count++
			// The lines before keep the numbers of findings right.
			text := strings.Repeat("#\n", strings.Count(string(data[:m[2]]), "\n")) + string(block)
			spec, found := specs.Load(specs.Input{Files: []specs.File{{Name: page, Data: []byte(text)}}})
			desired, more := spec.Expand(specs.Target{})
			found = append(found, more...)
			if !found.HasStructural() {
				found = validate.Check(validate.Input{Topology: desired, Versions: spec.Versions(), Sources: spec.Files, Found: found})
			}
			for _, d := range found {
				if d.Severity == diag.Error || d.Severity == diag.Warning && !strings.Contains(string(block), d.Code) {
					t.Errorf("%s: %s [%s] %s", d.Position, d.Summary, d.Code, d.Detail)
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("%d examples found", count)
	}
}

// TestEveryKeyIsDocumented holds docs/specs.md and docs/settings.md against the
// spec that has every key of the language.
func TestEveryKeyIsDocumented(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"specs.md", "settings.md"} {
		data, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(data)
	}
	data, err := os.ReadFile("../../testdata/specs/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var complete yaml.Node
	if err := yaml.Unmarshal(data, &complete); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^(variables|exchanges|queues|policies|operator_policies|permissions|publishers|consumers|parameters|topic_permissions|routes|for_each)$`)
	free := regexp.MustCompile(`^(arguments|definition|headers|parameters)$`)
	word := func(key string) *regexp.Regexp { return regexp.MustCompile(`\b` + regexp.QuoteMeta(key) + `\b`) }
	var walk func(n *yaml.Node, names int)
	walk = func(n *yaml.Node, names int) {
		for i, c := range n.Content {
			switch {
			case n.Kind != yaml.MappingNode:
				walk(c, 0)
			case i%2 == 1:
				continue
			case names > 0:
				walk(n.Content[i+1], names-1)
			default:
				if !word(c.Value).MatchString(pages.String()) {
					t.Errorf("line %d: the key %s is in neither docs/specs.md nor docs/settings.md", c.Line, c.Value)
				}
				switch {
				case free.MatchString(c.Value):
				case c.Value == "topic_permissions":
					walk(n.Content[i+1], 2)
				case named.MatchString(c.Value):
					walk(n.Content[i+1], 1)
				default:
					walk(n.Content[i+1], 0)
				}
			}
		}
	}
	walk(&complete, 0)
}
