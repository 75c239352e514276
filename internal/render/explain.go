package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/explain"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// ExplainVersion is the format version of explanations in JSON. Fields are only added
// within a major version.
const ExplainVersion = "1.0"

// ExplainQueue writes what is in effect on a queue.
func ExplainQueue(w io.Writer, q *explain.Queue, o Options) error {
	if o.Format == JSON {
		return explainJSON(w, struct {
			FormatVersion string         `json:"format_version"`
			Queue         *explain.Queue `json:"queue"`
		}{ExplainVersion, q})
	}
	return explainPage(w, queuePage(q), o)
}

// ExplainPublish writes where a message goes.
func ExplainPublish(w io.Writer, m *explain.Publish, o Options) error {
	if o.Format == JSON {
		return explainJSON(w, struct {
			FormatVersion string           `json:"format_version"`
			Publish       *explain.Publish `json:"publish"`
		}{ExplainVersion, m})
	}
	return explainPage(w, publishPage(m), o)
}

func explainJSON(w io.Writer, v any) error {
	p := &printer{w: w}
	p.json(v)
	return p.err
}

// page is an explanation as titles and items, for text and Markdown alike.
type page struct {
	title    string
	intro    []string
	sections []section
}

// section is a title with items; numbered ones are steps.
type section struct {
	title    string
	numbered bool
	items    []item
}

// item is one line with what belongs below it. The head is aligned in text.
type item struct {
	head string
	body string
	more []string
	bad  bool // messages are lost
}

func (pg *page) add(title string, items ...item) *section {
	if len(items) > 0 {
		pg.sections = append(pg.sections, section{title: title, items: items})
		return &pg.sections[len(pg.sections)-1]
	}
	return nil
}

func queuePage(q *explain.Queue) *page {
	pg := &page{title: fmt.Sprintf("queue %q in virtual host %q on RabbitMQ %s", q.Name, q.VirtualHost, q.RabbitMQ)}
	what := []string{fmt.Sprintf("type %s (%s)", q.Type, q.TypeFrom)}
	for _, flag := range []struct {
		on   bool
		text string
	}{
		{q.Durable, "durable"},
		{!q.Durable, "not durable: gone after a restart"},
		{q.AutoDelete, "auto-delete"},
		{q.Exclusive, "exclusive"},
		{q.External, "external: must exist, is never changed"},
		{q.Role != "", "role " + q.Role},
		{q.Owner != "", "owner " + q.Owner},
		{q.Generated != "", q.Generated},
	} {
		if flag.on {
			what = append(what, flag.text)
		}
	}
	pg.intro = append(pg.intro, strings.Join(what, ", "))
	if !q.Position.IsZero() {
		pg.intro = append(pg.intro, q.Position.String())
	}
	pg.settings(q)
	pg.policies(q)
	in := []item{{body: fmt.Sprintf("the default exchange with %q", q.Name)}}
	for _, b := range q.Incoming {
		in = append(in, item{body: b})
	}
	pg.add("Messages come from", append(in, leftOut(q.More)...)...)
	var lines []item
	for _, t := range q.Deliveries.Text {
		lines = append(lines, item{body: t})
	}
	pg.add("Deliveries", lines...)
	pg.add("When a message fails", failureItems(q.Failures)...)
	for _, s := range q.Then {
		title := fmt.Sprintf("Then in queue %q", s.Queue)
		if s.Type != "" {
			title += " (" + s.Type + ")"
		}
		if s.Retry {
			title = fmt.Sprintf("Retries wait in queue %q", s.Queue)
		}
		items := failureItems(s.Failures)
		if len(items) == 0 {
			items = []item{{body: "nothing more is known of it"}}
			if s.Type != "" {
				items = []item{{body: "messages stay until somebody takes them"}}
			}
		}
		pg.add(title, items...)
	}
	pg.add("Not followed", leftOut(q.LeftOut)...)
	var cycles []item
	for _, c := range q.Cycles {
		cycles = append(cycles, item{body: c.Text, bad: c.Dropped})
	}
	pg.add("Circles", cycles...)
	if q.ToQuorum != nil {
		var changes, steps []item
		for _, c := range q.ToQuorum.Changes {
			changes = append(changes, item{body: c})
		}
		for _, s := range q.ToQuorum.Steps {
			steps = append(steps, item{body: s})
		}
		pg.add("As a quorum queue", changes...)
		pg.add("The way there without losing messages", steps...).numbered = true
	}
	return pg
}

func leftOut(n int) []item {
	if n == 0 {
		return nil
	}
	return []item{{body: fmt.Sprintf("and %d more", n)}}
}

func (pg *page) settings(q *explain.Queue) {
	var items []item
	for _, s := range q.Settings {
		one := item{head: s.Name, body: fmt.Sprintf("%s, by %s", s.Text, s.Source)}
		for _, o := range s.Overrides {
			one.more = append(one.more, fmt.Sprintf("not %s of %s: %s", o.Text, o, o.Why))
		}
		items = append(items, one)
	}
	if items == nil {
		items = []item{{body: "none"}}
	}
	pg.add("Settings in effect", items...)
	items = nil
	for _, i := range q.Idle {
		items = append(items, item{head: i.Argument, body: i.Why, bad: true})
	}
	pg.add("Arguments without effect", items...)
}

func (pg *page) policies(q *explain.Queue) {
	var items []item
	for _, p := range q.Policies {
		kind := "policy"
		if p.Operator {
			kind = "operator policy"
		}
		one := item{head: p.State, body: fmt.Sprintf("%s %q (priority %d, pattern %q): %s", kind, p.Name, p.Priority, p.Pattern, strings.Join(p.Definition.Keys(), ", "))}
		if p.Why != "" {
			one.more = []string{p.Why}
		}
		one.bad = p.State != "acts"
		items = append(items, one)
	}
	pg.add("Policies that match", items...)
}

func failureItems(failures []explain.Failure) []item {
	var items []item
	for _, f := range failures {
		one := item{head: f.Cause, body: f.When, more: []string{f.Text}, bad: f.Outcome == "dropped" && f.Happens == "always"}
		if f.Happens == "never" {
			one.more = nil
			one.body += ": cannot happen here"
		}
		for _, t := range f.To {
			line := fmt.Sprintf("-> queue %q through %s", t.Queue, t.By)
			if !t.Certain {
				line += ", as headers, a hash or something unknown decide"
			}
			one.more = append(one.more, line)
		}
		if f.More > 0 {
			one.more = append(one.more, fmt.Sprintf("-> and %d more queues", f.More))
		}
		items = append(items, one)
	}
	return items
}

func publishPage(m *explain.Publish) *page {
	exchange := "the default exchange"
	if m.Exchange != "" {
		exchange = fmt.Sprintf("exchange %q", m.Exchange)
	}
	pg := &page{title: fmt.Sprintf("a message to %s with the routing key %q in virtual host %q on RabbitMQ %s", exchange, m.Key, m.VirtualHost, m.RabbitMQ)}
	if len(m.CC) > 0 {
		keys := make([]string, len(m.CC))
		for i, k := range m.CC {
			keys[i] = fmt.Sprintf("%q", k)
		}
		pg.intro = append(pg.intro, "and the CC keys "+strings.Join(keys, ", "))
	}
	answer := []item{{head: m.Outcome, body: m.Text, bad: !m.Reaches()}}
	answer[0].more = routeLines(m.Routes)
	for _, n := range m.Notes {
		answer = append(answer, item{head: "note", body: n})
	}
	pg.add("Where it goes", answer...)
	for _, s := range m.Stages {
		title := fmt.Sprintf("(%d) in queue %q", s.Number, s.Queue)
		if s.Type != "" {
			title += " (" + s.Type + ")"
		}
		var items []item
		for _, f := range s.Failures {
			items = append(items, item{
				head: strings.Join(f.Causes, ", "), body: f.Text, more: routeLines(f.Routes), bad: f.Outcome == "dropped",
			})
		}
		if items == nil {
			items = []item{{body: "it stays until somebody takes it"}}
		}
		pg.add(title, items...)
	}
	pg.add("Not followed", leftOut(m.LeftOut)...)
	return pg
}

func routeLines(routes []explain.Route) []string {
	var lines []string
	for _, r := range routes {
		line := fmt.Sprintf("-> queue %q through %s", r.Queue, r.By)
		switch {
		case r.Unknown:
			line += ", if the exchange routes it there"
		case r.Chance:
			line += ", if the choice falls on it"
		}
		if r.Stage > 0 {
			line += fmt.Sprintf(" (%d)", r.Stage)
		}
		lines = append(lines, line)
	}
	return lines
}

// explainPage writes a page as text or Markdown.
func explainPage(w io.Writer, pg *page, o Options) error {
	p := &printer{w: w, color: o.Color}
	if o.Format == Markdown {
		p.pageMarkdown(pg)
	} else {
		p.pageText(pg)
	}
	return p.err
}

func (p *printer) pageText(pg *page) {
	p.printf("%s\n", p.paint(text.Line(pg.title), bold))
	for _, line := range pg.intro {
		p.printf("  %s\n", text.Line(line))
	}
	for _, s := range pg.sections {
		p.printf("\n%s\n", p.paint(text.Line(s.title), bold))
		width := 0
		for _, i := range s.items {
			width = max(width, len(i.head))
		}
		for n, i := range s.items {
			head := ""
			switch {
			case s.numbered:
				head = fmt.Sprintf("%2d. ", n+1)
			case width > 0:
				head = fmt.Sprintf("%-*s  ", min(width, maxHead), text.Line(i.head))
			}
			if i.bad {
				head = p.paint(head, yellow)
			}
			p.printf("  %s%s\n", head, text.Line(i.body))
			indent := 4
			if width > 0 {
				indent = min(width, maxHead) + 4
			}
			for _, line := range i.more {
				p.printf("%s%s\n", strings.Repeat(" ", indent), text.Line(line))
			}
		}
	}
}

// maxHead bounds the column of heads.
const maxHead = 32

func (p *printer) pageMarkdown(pg *page) {
	p.printf("### %s\n\n", markdownEscape(pg.title))
	for _, line := range pg.intro {
		p.printf("%s\n\n", markdownEscape(line))
	}
	for _, s := range pg.sections {
		p.printf("**%s**\n\n", markdownEscape(s.title))
		for n, i := range s.items {
			mark := "-"
			if s.numbered {
				mark = fmt.Sprintf("%d.", n+1)
			}
			body := markdownEscape(i.body)
			if i.head != "" {
				body = "**" + markdownEscape(i.head) + "**: " + body
			}
			p.printf("%s %s\n", mark, body)
			for _, line := range i.more {
				p.printf("%s- %s\n", strings.Repeat(" ", len(mark)+1), markdownEscape(line))
			}
		}
		p.printf("\n")
	}
}
