package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Pass is one rule looking at one virtual host.
type Pass struct {
	*state
	rule   *Rule
	strict bool
	from   []catalog.Version // what an upgrade comes from, oldest first; none: there is no upgrade
	found  []*finding
}

// finding is a diagnostic and what is needed to ignore or merge it.
type finding struct {
	diag.Diagnostic
	// object is the place of the object's own line.
	object topology.Position
	// group says the same of several objects ("set queue-mode, which does
	// nothing"): more than mergeAbove such findings become one. With a colon at its
	// end the names follow it.
	group string
	// name is the object's name for the merged text.
	name string
	// together: see Rule.Together.
	together bool
}

// problem is what is wrong with an object.
type problem struct {
	// severity is that of the rule when empty.
	severity diag.Severity
	// summary is a whole sentence that names the object; empty: nothing is wrong.
	summary string
	// detail says what to do; empty: what the rule says.
	detail string
	// group: see finding.
	group   string
	related []diag.Related
}

func problemf(format string, args ...any) problem {
	return problem{summary: fmt.Sprintf(format, args...)}
}

func (b problem) do(format string, args ...any) problem {
	b.detail = fmt.Sprintf(format, args...)
	return b
}

// like gives a problem the text for many objects: a sentence without subject.
func (b problem) like(format string, args ...any) problem {
	b.group = fmt.Sprintf(format, args...)
	return b
}

func (b problem) as(s diag.Severity) problem {
	b.severity = s
	return b
}

// report adds a finding on an object at a place; a place that is unknown is that
// of the object.
func (p *Pass) report(o topology.Object, at topology.Position, b problem) {
	if b.summary == "" {
		return
	}
	if at.IsZero() {
		at = o.Place()
	}
	severity, detail := b.severity, b.detail
	if severity == "" {
		severity = p.rule.Severity
	}
	if p.strict && p.rule.Strict != "" {
		severity = p.rule.Strict
	}
	if detail == "" {
		detail = p.rule.Fix
	}
	p.found = append(p.found, &finding{
		Diagnostic: diag.Diagnostic{
			Severity: severity, Code: p.rule.Code, Summary: b.summary, Detail: detail,
			Object: o.Key(), Position: at, Related: b.related,
		},
		object: o.Place(), group: b.group, name: o.Key().Name, together: p.rule.Together,
	})
}

// reportVirtualHost adds a finding on the virtual host as a whole.
func (p *Pass) reportVirtualHost(b problem) {
	p.report(&topology.VirtualHostSettings{VirtualHost: p.vhost.Name, Position: p.vhost.Position}, p.vhost.Position, b)
}

// onVersions asks for each version what is wrong and reports each answer once.
// What holds on some versions only names them, and is a warning in place of an
// error unless the spec itself says which versions it is for.
func (p *Pass) onVersions(o topology.Object, at topology.Position, check func(catalog.Version) problem) {
	type answer struct {
		problem
		versions []catalog.Version
	}
	var answers []answer
	for _, v := range p.versions {
		b := check(v)
		if b.summary == "" {
			continue
		}
		i := slices.IndexFunc(answers, func(a answer) bool { return a.summary == b.summary && a.severity == b.severity })
		if i < 0 {
			answers = append(answers, answer{problem: b})
			i = len(answers) - 1
		}
		answers[i].versions = append(answers[i].versions, v)
	}
	for _, a := range answers {
		if len(a.versions) < len(p.versions) {
			on := " on RabbitMQ " + catalog.Span(a.versions, p.versions)
			a.summary += on
			if a.group != "" {
				a.group += on
			}
			if !p.binding && (a.severity == diag.Error || a.severity == "" && p.rule.Severity == diag.Error) {
				a.severity = diag.Warning
			}
		}
		p.report(o, at, a.problem)
	}
}

// list writes words as "a, b and c"; last may be a comma too.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	if last != "," {
		last = " " + last
	}
	return strings.Join(words[:n], ", ") + last + " " + words[n]
}

// quoted is list for names.
func quoted(names []string, last string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = fmt.Sprintf("%q", n)
	}
	return list(all, last)
}

// mergeAbove is how many findings of one group are shown one by one.
const mergeAbove = 3

// shownNames is how many names a merged finding lists.
const shownNames = 5

// merge makes one finding of many that say the same. Errors are never merged:
// each stops what it concerns.
func merge(found []*finding) diag.List {
	type key struct {
		code, group, vhost string
		severity           diag.Severity
	}
	of := func(f *finding) key {
		return key{f.Code, f.group, f.Object.VirtualHost, f.Severity}
	}
	groups := map[key][]*finding{}
	for _, f := range found {
		if f.group != "" && f.Severity != diag.Error {
			groups[of(f)] = append(groups[of(f)], f)
		}
	}
	var all diag.List
	for _, f := range found {
		group := groups[of(f)]
		if f.group == "" || len(group) <= mergeAbove && (!f.together || len(group) < 2) {
			all.Add(f.Diagnostic)
			continue
		}
		if group[0].Object != f.Object || group[0].Position != f.Position {
			continue
		}
		all.Add(merged(group))
	}
	return all
}

func merged(group []*finding) diag.Diagnostic {
	d := group[0].Diagnostic
	names := make([]string, 0, len(group))
	named := make(map[string]bool, len(group))
	seen := make(map[topology.Key]bool, len(group))
	for i, f := range group {
		if !named[f.name] {
			named[f.name] = true
			names = append(names, f.name)
		}
		if !seen[f.Object] {
			seen[f.Object] = true
			d.Objects = append(d.Objects, f.Object)
		}
		if i > 0 {
			d.Related = append(d.Related, diag.Related{Position: f.Position, Text: f.Object.String()})
		}
	}
	var text string
	if more := len(names) - shownNames; more > 0 {
		text = fmt.Sprintf("%s and %d more", quoted(names[:shownNames], ","), more)
	} else {
		text = quoted(names, "and")
	}
	kind := d.Object.Kind.Title() + "s"
	if stem, ok := strings.CutSuffix(kind, "ys"); ok {
		kind = stem + "ies"
	}
	what := fmt.Sprintf("%d %s", len(names), kind)
	if about, ok := strings.CutSuffix(group[0].group, ":"); ok {
		d.Summary = fmt.Sprintf("%s (%s: %s)", about, what, text)
	} else {
		d.Summary = fmt.Sprintf("%s %s: %s", what, about, text)
	}
	d.Object = topology.Key{Kind: topology.KindVirtualHost, VirtualHost: d.Object.VirtualHost}
	return d
}
