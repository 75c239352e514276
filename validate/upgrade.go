package validate

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// before are the releases of an upgrade's start that lie before all of its targets,
// oldest first. A patch release within a series is no upgrade.
func before(from, targets []catalog.Version) []catalog.Version {
	var all []catalog.Version
	for _, v := range from {
		if len(targets) > 0 && v.Series().Below(targets[0].Series()) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, catalog.Version.Compare)
	return slices.Compact(all)
}

// onUpgrade asks for each release that an upgrade can start from what changes on the
// way to the newest target, and reports each answer once. What holds for some of the
// starts only names them.
func (p *Pass) onUpgrade(o topology.Object, at topology.Position, check func(from, to catalog.Version) problem) {
	type answer struct {
		problem
		from []catalog.Version
	}
	var answers []answer
	for _, v := range p.from {
		b := check(v, p.newest())
		if b.summary == "" {
			continue
		}
		i := slices.IndexFunc(answers, func(a answer) bool { return a.summary == b.summary && a.severity == b.severity })
		if i < 0 {
			answers = append(answers, answer{problem: b})
			i = len(answers) - 1
		}
		answers[i].from = append(answers[i].from, v)
	}
	for _, a := range answers {
		if len(a.from) < len(p.from) {
			coming := ", coming from RabbitMQ " + catalog.Span(a.from, p.from)
			a.summary += coming
			if a.group != "" {
				a.group += coming
			}
		}
		p.report(o, at, a.problem)
	}
}

// changedPolicy reports whether another policy acts on a queue after an upgrade, and
// another operator policy. Generated policies are made anew for each version and count
// as one.
func changedPolicy(before, after policy.Match) (ofPolicy, ofOperator bool) {
	name := func(p *topology.Policy) string {
		switch {
		case p == nil:
			return ""
		case p.Queue != "":
			return "generated:" + p.Queue
		}
		return "written:" + p.Name
	}
	return name(before.Policy) != name(after.Policy), name(before.Operator) != name(after.Operator)
}
