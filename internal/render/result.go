package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// ResultVersion is the format version of apply's result and check's problems in
// JSON. Fields are only added within a major version.
const ResultVersion = "1.0"

// Result writes what apply did. Differences are what the read-back still found.
func Result(w io.Writer, r *apply.Result, differences []*plan.Change, o Options) error {
	p := &printer{w: w, color: o.Color}
	switch o.Format {
	case JSON:
		p.resultJSON(r, differences)
	case Markdown:
		p.resultMarkdown(r, differences)
	default:
		p.resultText(r, differences)
	}
	return p.err
}

type outcomeJSON struct {
	Object  topology.Key `json:"object"`
	Action  string       `json:"action"`
	Error   string       `json:"error,omitempty"`
	Because string       `json:"because,omitempty"`
}

func outcomesJSON(list []apply.Outcome) []outcomeJSON {
	out := make([]outcomeJSON, 0, len(list))
	for _, o := range list {
		j := outcomeJSON{Object: o.Change.Key, Action: string(o.Change.Action), Because: o.Because}
		if o.Err != nil {
			j.Error = o.Err.Error()
		}
		out = append(out, j)
	}
	return out
}

func (p *printer) resultJSON(r *apply.Result, differences []*plan.Change) {
	var left []Problem
	for _, c := range differences {
		left = append(left, ProblemOf(c))
	}
	p.json(struct {
		FormatVersion string        `json:"format_version"`
		Done          []outcomeJSON `json:"done"`
		Failed        []outcomeJSON `json:"failed"`
		NotTried      []outcomeJSON `json:"not_tried"`
		Blocked       []outcomeJSON `json:"blocked"`
		Differences   []Problem     `json:"differences"`
	}{ResultVersion, outcomesJSON(r.Done), outcomesJSON(r.Failed), outcomesJSON(r.NotTried), outcomesJSON(r.Blocked), problems(left)})
}

func outcomeText(o apply.Outcome) string {
	s := fmt.Sprintf("%s %s %s", o.Change.Action, o.Change.Key.Kind.Title(), objectName(o.Change.Key))
	if o.Err != nil {
		s += ": " + o.Err.Error()
	}
	if o.Because != "" {
		s += ": " + o.Because
	}
	return s
}

func (p *printer) resultText(r *apply.Result, differences []*plan.Change) {
	for _, o := range r.Failed {
		p.printf("%s %s\n", p.paint("failed:", red), text.Line(outcomeText(o)))
	}
	for _, o := range r.NotTried {
		p.printf("%s %s\n", p.paint("not tried:", yellow), text.Line(outcomeText(o)))
	}
	for _, c := range differences {
		p.printf("%s %s\n", p.paint("not as applied:", red), text.Line(ProblemOf(c).line()))
	}
	p.printf("%s\n", resultSummary(r, differences))
}

func resultSummary(r *apply.Result, differences []*plan.Change) string {
	if len(r.Done)+len(r.Failed)+len(r.NotTried)+len(r.Blocked) == 0 {
		return "Applied: nothing to do."
	}
	if len(r.Blocked) > 0 && !r.FirstWrite && len(r.Done)+len(r.Failed)+len(r.NotTried) == 0 {
		return "Nothing was applied: " + text.Plural(len(r.Blocked), "change is", "changes are") + " blocked."
	}
	parts := []string{fmt.Sprintf("%d done", len(r.Done))}
	for _, n := range []struct {
		count int
		word  string
	}{{len(r.Failed), "failed"}, {len(r.NotTried), "not tried"}, {len(r.Blocked), "blocked"}, {len(differences), "not as applied"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.word))
		}
	}
	return "Applied: " + strings.Join(parts, ", ") + "."
}

func (p *printer) resultMarkdown(r *apply.Result, differences []*plan.Change) {
	p.printf("### rabbitctl apply\n\n%s\n\n", resultSummary(r, differences))
	for _, group := range []struct {
		title string
		list  []apply.Outcome
	}{{"failed", r.Failed}, {"not tried", r.NotTried}, {"blocked", r.Blocked}, {"done", r.Done}} {
		for _, o := range group.list {
			p.printf("- %s: %s\n", group.title, markdownEscape(outcomeText(o)))
		}
	}
	for _, c := range differences {
		p.printf("- not as applied: %s\n", markdownEscape(ProblemOf(c).line()))
	}
}
