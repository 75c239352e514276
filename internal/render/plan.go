package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// PlanView is what is shown of a plan.
type PlanView struct {
	Plan     *plan.Plan
	Findings diag.List
	// Against says what the plan was compared with: "http://host:15672" or a
	// file name.
	Against string
	// ShowUnmanaged lists live objects that the spec does not name.
	ShowUnmanaged bool
}

// Plan writes a plan for people (text, markdown). The JSON form is the plan's
// own, see PlanJSON.
func Plan(w io.Writer, v PlanView, o Options) error {
	p := &printer{w: w, color: o.Color}
	if o.Format == Markdown {
		p.planMarkdown(v)
	} else {
		p.planText(v)
	}
	return p.err
}

// mark is how an action is shown.
type mark struct {
	mark  string
	style style
}

var actionMarks = map[plan.Action]mark{
	plan.Create:  {"+", green},
	plan.Update:  {"~", yellow},
	plan.Replace: {"-/+", red},
	plan.Delete:  {"-", red},
}

// externalMark is for objects that others make and that are not there.
var externalMark = mark{"!", red}

// isExternal reports whether a change stands for an object that the spec expects
// of others: rabbitctl never makes it.
func isExternal(c *plan.Change) bool {
	return slices.ContainsFunc(c.Blocked, func(b plan.Block) bool { return b.Code == "external-missing" })
}

// verb is the action in a word, as the reader would say it.
func verb(c *plan.Change) string {
	if isExternal(c) {
		return "missing"
	}
	return string(c.Action)
}

func (p *printer) planText(v PlanView) {
	vhost := ""
	for _, c := range v.Plan.Changes {
		if c.Key.VirtualHost != vhost || vhost == "" {
			vhost = c.Key.VirtualHost
			p.printf("%s\n", p.paint("virtual host "+text.Line(fmt.Sprintf("%q", vhost)), bold))
		}
		p.changeText(c)
	}
	if len(v.Plan.Changes) > 0 {
		p.printf("\n")
	}
	for _, n := range v.Plan.Notes {
		p.printf("%s %s: %s\n", p.paint("note:", blue), text.Line(n.Key.Address()), text.Line(n.Text))
	}
	for _, k := range v.Plan.Adopt {
		p.printf("%s %s\n", p.paint("adopt:", green), text.Line(k.String()))
	}
	for _, k := range v.Plan.LeftBehind {
		p.printf("%s %s\n", p.paint("left behind:", yellow), text.Line(k.String()))
	}
	if v.ShowUnmanaged {
		for _, k := range v.Plan.Unmanaged {
			p.printf("%s %s\n", p.paint("not in the spec:", faint), text.Line(k.String()))
		}
	}
	p.printf("%s\n", Summary(v))
}

// changeText writes one change with its fields, reasons, costs and blocks.
func (p *printer) changeText(c *plan.Change) {
	m := actionMarks[c.Action]
	if isExternal(c) {
		m = externalMark
	}
	blocked := ""
	if len(c.Blocked) > 0 {
		blocked = p.paint("  BLOCKED", red)
	}
	p.printf("  %s %s %s %s%s%s\n", p.paint(m.mark, m.style), verb(c), c.Key.Kind.Title(), text.Line(objectName(c.Key)), p.paint(text.Line(origin(c)), faint), blocked)
	for _, f := range shownFields(c) {
		p.printf("      %s\n", text.Line(fieldText(c.Action, f)))
	}
	for _, r := range c.Reasons {
		if c.Action != plan.Create && r.Text != "" {
			p.printf("      because: %s\n", text.Line(r.Text))
		}
	}
	if cost := costText(c); cost != "" {
		p.printf("      cost: %s\n", text.Line(cost))
	}
	for _, b := range c.Blocked {
		p.printf("      %s %s [%s]\n", p.paint("blocked:", red), text.Line(b.Text), text.Line(b.Code))
		if b.Unlock != "" {
			p.printf("      way out: %s\n", text.Line(b.Unlock))
		}
	}
}

// origin says what in the spec made an object that is not written there itself.
func origin(c *plan.Change) string {
	made := ""
	switch o := c.After.(type) {
	case *topology.Queue:
		if o.Intent != nil {
			made = o.Intent.Generated
		}
	case *topology.Exchange:
		if o.Intent != nil {
			made = o.Intent.Generated
		}
	case *topology.Binding:
		made = o.Generated
	case *topology.Policy:
		if o.Queue != "" {
			made = fmt.Sprintf("settings of queue %q", o.Queue)
		}
	}
	if made == "" {
		return ""
	}
	return "  (" + made + ")"
}

// shownFields are the fields that differ; of a new object those that are not
// what everybody expects.
func shownFields(c *plan.Change) []plan.Field {
	if isExternal(c) {
		return nil
	}
	if c.Action != plan.Create || c.After == nil {
		return c.Fields
	}
	var fields []plan.Field
	for _, a := range c.After.Attributes() {
		switch {
		case a.Name == "durable" && a.Value == true:
		case (a.Name == "auto_delete" || a.Name == "internal") && a.Value == false:
		default:
			fields = append(fields, plan.Field{Name: a.Name, New: a.Value})
		}
	}
	return fields
}

// objectName is the name in quotes, except for bindings, whose name is composed
// and quoted already.
func objectName(k topology.Key) string {
	switch k.Kind {
	case topology.KindBinding:
		return k.Name
	case topology.KindVirtualHost:
		return fmt.Sprintf("%q", k.VirtualHost)
	}
	return fmt.Sprintf("%q", k.Name)
}

// maxValueBytes bounds a value that is shown.
const maxValueBytes = 300

func valueText(v any) string {
	if v == nil {
		return "(none)"
	}
	return text.Truncate(topology.Text(v), maxValueBytes)
}

func fieldText(a plan.Action, f plan.Field) string {
	if a == plan.Create {
		return f.Name + ": " + valueText(f.New)
	}
	s := f.Name + ": " + valueText(f.Old) + " -> " + valueText(f.New)
	if f.Fixed {
		s += " (fixed at declaration)"
	}
	return s
}

func costText(c *plan.Change) string {
	var parts []string
	if c.Cost.Messages != nil {
		parts = append(parts, text.Plural(int(*c.Cost.Messages), "message", "messages"))
	}
	if c.Cost.Consumers != nil {
		parts = append(parts, text.Plural(int(*c.Cost.Consumers), "consumer", "consumers"))
	}
	if c.Cost.Bindings > 0 {
		parts = append(parts, text.Plural(c.Cost.Bindings, "binding", "bindings")+" to restore")
	}
	if c.Cost.SecondsEstimated >= 1 {
		parts = append(parts, fmt.Sprintf("about %.0f s of the broker's time", c.Cost.SecondsEstimated))
	}
	return strings.Join(parts, ", ")
}

// Summary is the last line of a plan: "Plan: 3 to create, 1 to replace (1
// blocked)."
func Summary(v PlanView) string {
	against := ""
	if v.Against != "" {
		against = " against " + text.Line(v.Against)
	}
	if v.Plan.Server.Version.IsZero() {
		against += "."
	} else {
		against += " (RabbitMQ " + v.Plan.Server.Version.String() + ")."
	}
	unmanaged := ""
	if n := len(v.Plan.Unmanaged); n > 0 {
		unmanaged = "\n" + text.Plural(n, "live object is", "live objects are") + " not in the spec and stay as they are (--show-unmanaged lists them)."
		if n == 1 {
			unmanaged = strings.Replace(unmanaged, "stay as they are (--show-unmanaged lists them)", "stays as it is (--show-unmanaged shows it)", 1)
		}
	}
	if v.Plan.Empty() {
		return "Nothing to do" + against + unmanaged
	}
	counts, external := map[plan.Action]int{}, 0
	for _, c := range v.Plan.Changes {
		if isExternal(c) {
			external++
			continue
		}
		counts[c.Action]++
	}
	var parts []string
	for _, a := range []plan.Action{plan.Create, plan.Update, plan.Replace, plan.Delete} {
		if counts[a] > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", counts[a], a))
		}
	}
	if n := len(v.Plan.Adopt); n > 0 {
		parts = append(parts, fmt.Sprintf("%d to adopt", n))
	}
	if external > 0 {
		parts = append(parts, fmt.Sprintf("%d external missing", external))
	}
	s := "Plan: " + strings.Join(parts, ", ")
	if n := len(v.Plan.BlockedChanges()); n > 0 {
		s += fmt.Sprintf(" (%d blocked)", n)
	}
	return s + against + unmanaged
}

func (p *printer) planMarkdown(v PlanView) {
	p.printf("### rabbitctl plan\n\n%s\n", markdownEscape(Summary(v)))
	if len(v.Plan.Changes) > 0 {
		p.printf("\n| | Object | Change |\n|---|---|---|\n")
	}
	for _, c := range v.Plan.Changes {
		var what []string
		for _, f := range shownFields(c) {
			what = append(what, markdownEscape(fieldText(c.Action, f)))
		}
		if c.Action == plan.Delete {
			for _, r := range c.Reasons {
				what = append(what, "because: "+markdownEscape(r.Text))
			}
		}
		if cost := costText(c); cost != "" {
			what = append(what, "cost: "+markdownEscape(cost))
		}
		for _, b := range c.Blocked {
			line := "**blocked** (" + markdownEscape(b.Code) + "): " + markdownEscape(b.Text)
			if b.Unlock != "" {
				line += " Way out: " + markdownEscape(b.Unlock)
			}
			what = append(what, line)
		}
		p.printf("| %s | %s %s in %s | %s |\n", verb(c), c.Key.Kind.Title(), markdownEscape(objectName(c.Key)),
			markdownEscape(fmt.Sprintf("%q", c.Key.VirtualHost)), strings.Join(what, "<br>"))
	}
	if len(v.Plan.Notes) > 0 {
		p.printf("\n")
	}
	for _, n := range v.Plan.Notes {
		p.printf("- note: %s: %s\n", markdownEscape(n.Key.Address()), markdownEscape(n.Text))
	}
	for _, k := range v.Plan.Adopt {
		p.printf("- adopt: %s\n", markdownEscape(k.String()))
	}
	for _, k := range v.Plan.LeftBehind {
		p.printf("- left behind: %s\n", markdownEscape(k.String()))
	}
	if v.ShowUnmanaged {
		for _, k := range v.Plan.Unmanaged {
			p.printf("- not in the spec: %s\n", markdownEscape(k.String()))
		}
	}
	if len(v.Findings) > 0 {
		p.printf("\n")
		p.findingsMarkdown(v.Findings)
	}
}
