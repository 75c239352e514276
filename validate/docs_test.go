package validate

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/rules.md from the rules")

const rulesPage = "../docs/rules.md"

// TestRulesPage holds docs/rules.md to the rules.
func TestRulesPage(t *testing.T) {
	page := rulesMarkdown()
	if *update {
		if err := os.WriteFile(rulesPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(there) != page {
		t.Error("docs/rules.md is not what the rules say; write it with: go test ./validate -run RulesPage -update")
	}
}

const rulesIntroduction = `# Rules

<!-- Written from validate/rules.go: go test ./validate -run RulesPage -update -->

What ` + "`rabbitctl validate`" + ` finds. Most of it a broker accepts without a word. Where a page says what the broker does, it was
measured on RabbitMQ 3.10.8, 4.0.5 and 4.3.6.

- **error**: the broker refuses it, or does certainly not what is written, or messages are certainly lost on some path.
- **warning**: it depends on who publishes or consumes, or on the version.
- **info**: good to know.

An error that holds on some versions of RabbitMQ only names them. It is a warning unless the spec says in ` + "`requires`" + `, or
` + "`--rabbitmq`" + ` or a broker says, which versions are meant.

To accept a finding, write why, beside the line or above it, or at the line of its object:

` + "```yaml" + `
queues:
  metrics: {type: classic}   # rabbitctl:ignore drop-is-loss the next sample comes in a second
` + "```" + `

A comment without a reason is an error (` + "`ignore-without-reason`" + `), one that ignores nothing a warning (` + "`unused-ignore`" + `).
Errors in the form of a spec, such as an unknown key, cannot be ignored. What was there before the tool came can be accepted as a
whole, with a [baseline](formats.md#baselines).

`

// rulesMarkdown writes the page: a table, then a section for each rule.
func rulesMarkdown() string {
	var b strings.Builder
	b.WriteString(rulesIntroduction)
	b.WriteString("| Code | Severity | What it finds |\n|---|---|---|\n")
	for _, r := range Rules {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.Code, r.Code, severityText(r), r.Summary)
	}
	for _, r := range Rules {
		fmt.Fprintf(&b, "\n## %s\n\n*%s.* %s\n\n%s\n\n**What to do:** %s\n", r.Code, severityText(r), r.Summary, r.Doc, r.Fix)
	}
	return b.String()
}

// severityText is a rule's severity, with and without --strict.
func severityText(r Rule) string {
	switch {
	case r.OnlyStrict:
		return string(r.Severity) + " with --strict only"
	case r.Strict != "":
		return string(r.Severity) + ", " + string(r.Strict) + " with --strict"
	}
	return string(r.Severity)
}
