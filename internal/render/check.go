package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// Problem is one object that is not as declared.
type Problem struct {
	Object topology.Key `json:"object"`
	// What is missing, different or refused.
	What   string         `json:"what"`
	Fields []ProblemField `json:"fields,omitempty"`
	Text   string         `json:"text,omitempty"`
}

// ProblemField is one field that differs; a null Want or Have means absent.
type ProblemField struct {
	Name string `json:"name"`
	Want any    `json:"want"`
	Have any    `json:"have"`
}

// ProblemOf turns a pending change into what is wrong now.
func ProblemOf(c *plan.Change) Problem {
	pr := Problem{Object: c.Key, What: "different"}
	switch {
	case c.Before == nil:
		pr.What = "missing"
		return pr
	case c.After == nil:
		pr.What = "to be deleted"
		var texts []string
		for _, r := range c.Reasons {
			texts = append(texts, r.Text)
		}
		pr.Text = strings.Join(texts, "; ")
		return pr
	}
	for _, f := range c.Fields {
		pr.Fields = append(pr.Fields, ProblemField{f.Name, f.New, f.Old})
	}
	if len(c.Fields) == 0 {
		var texts []string
		for _, b := range c.Blocked {
			texts = append(texts, b.Text)
		}
		pr.Text = strings.Join(texts, "; ")
	}
	return pr
}

// line is the problem without what is wrong, which stands before it.
func (pr Problem) line() string {
	s := pr.Object.String()
	var parts []string
	for _, f := range pr.Fields {
		parts = append(parts, fmt.Sprintf("%s: want %s, have %s", f.Name, valueText(f.Want), valueText(f.Have)))
	}
	if pr.Text != "" {
		parts = append(parts, pr.Text)
	}
	if len(parts) > 0 {
		s += ": " + strings.Join(parts, "; ")
	}
	return s
}

func problems(list []Problem) []Problem {
	if list == nil {
		return []Problem{}
	}
	return list
}

// CheckView is what the check command has found.
type CheckView struct {
	Checked int
	// ExistenceOnly: nothing but existence was looked at.
	ExistenceOnly bool
	Problems      []Problem
}

// Check writes the answer of the check command.
func Check(w io.Writer, v CheckView, o Options) error {
	p := &printer{w: w, color: o.Color}
	switch o.Format {
	case JSON:
		p.json(struct {
			FormatVersion string    `json:"format_version"`
			Checked       int       `json:"checked"`
			ExistenceOnly bool      `json:"existence_only"`
			Problems      []Problem `json:"problems"`
		}{ResultVersion, v.Checked, v.ExistenceOnly, problems(v.Problems)})
	case Markdown:
		p.printf("### rabbitctl check\n\n%s\n\n", v.summary())
		for _, pr := range v.Problems {
			p.printf("- %s: %s\n", pr.What, markdownEscape(pr.line()))
		}
	default:
		for _, pr := range v.Problems {
			p.printf("%s %s\n", p.paint(pr.What+":", red), text.Line(pr.line()))
		}
		p.printf("%s\n", v.summary())
	}
	return p.err
}

func (v CheckView) summary() string {
	checked := "Checked " + text.Plural(v.Checked, "object", "objects")
	switch {
	case len(v.Problems) > 0:
		return fmt.Sprintf("%s: %s.", checked, text.Plural(len(v.Problems), "problem", "problems"))
	case v.ExistenceOnly:
		return checked + " for existence only: everything is there."
	}
	return checked + ": everything is as declared."
}
