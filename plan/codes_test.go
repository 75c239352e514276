package plan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCodesAreDocumented: every code in the source stands in docs/plan-json.md,
// and every block there is in the source.
func TestCodesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/plan-json.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	find := regexp.MustCompile(`(?:\.block\(|\.note\([^"]*|Reason\{+)"([a-z-]+)"`)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range find.FindAllStringSubmatch(string(source), -1) {
			codes = append(codes, m[1])
		}
	}
	if len(codes) < 20 {
		t.Fatalf("found only %q", codes)
	}
	for _, c := range codes {
		if !strings.Contains(string(doc), "`"+c+"`") {
			t.Errorf("code %q is not in docs/plan-json.md", c)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .* \\| .* \\|$").FindAllStringSubmatch(string(doc), -1) {
		if !slices.Contains(codes, m[1]) {
			t.Errorf("docs/plan-json.md speaks of %q, which is not in the source", m[1])
		}
	}
}
