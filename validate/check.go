// Package validate holds the rules that find, without a broker, what a broker
// would refuse, and what it would accept but not do: most lost messages come
// from the second kind. Each rule is one row of Rules. The package is pure.
//
// The package serves the command; its Go API may change. The codes of the rules
// are stable.
package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Input is what Check looks at.
type Input struct {
	// Topology is the desired state, expanded, or a live one to be judged as it
	// is. Nil: nothing.
	Topology *topology.Topology
	// Versions are the releases that the topology must be right for: one when a
	// broker or a flag names it, else all that the spec allows. None: all known
	// releases. What is wrong on one of them is an error where they are fewer than
	// all known ones, and otherwise a warning unless it is wrong on each.
	Versions []catalog.Version
	// From are the releases that the topology runs on now, before an upgrade to
	// Versions: rules on upgrades compare the two. None: there is no upgrade.
	From []catalog.Version
	// Live is the broker's state; nil when there is no broker. Its policies act on
	// desired queues too, and its objects may be referred to.
	Live *topology.Topology
	// ExchangeTypes are those that the broker reports; nil: unknown.
	ExchangeTypes []string
	// Sources holds the text of each spec file, for ignore comments.
	Sources map[string][]byte
	// Found are findings of reading and expanding the spec. They are part of the
	// result, and ignore comments work on them unless they are structural.
	Found diag.List
	// Strict asks for more: rules that say so count as errors.
	Strict bool
	// Baseline accepts what was found before; nil: nothing.
	Baseline *Baseline
}

// Rule is one check.
type Rule struct {
	// Code is stable and in kebab case.
	Code string
	// Severity is the default: a finding of severity error that is wrong on some
	// of the versions only becomes a warning that names them.
	Severity diag.Severity
	// Strict is the severity with Input.Strict; empty: Severity.
	Strict diag.Severity
	// OnlyStrict: the rule is checked with Input.Strict only.
	OnlyStrict bool
	// Upgrade: the rule is checked with Input.From only.
	Upgrade bool
	// Together: findings that say the same are merged from two on, not only where
	// there are many.
	Together bool
	// Summary says in one sentence what the rule finds.
	Summary string
	// Doc says what the broker does; where it was measured, it was on 3.10.8,
	// 4.0.5 and 4.3.6 unless it says otherwise.
	Doc string
	// Fix says what to do.
	Fix string
	// Check reports findings; it is called once for each virtual host.
	Check func(*Pass)
}

// Check applies every rule to every virtual host and returns the findings,
// sorted, without those that a comment in the spec ignores or the baseline
// accepts.
func Check(in Input) diag.List {
	found, more := collect(in)
	if in.Baseline != nil {
		var gone diag.List
		found, gone = in.Baseline.apply(found, in.Strict)
		more = append(more, gone...)
	}
	list := append(merge(found), more...)
	list.Sort()
	return slices.CompactFunc(list, same)
}

// collect applies every rule and the ignore comments; comments are findings on
// these.
func collect(in Input) (found []*finding, comments diag.List) {
	if in.Topology == nil {
		in.Topology = &topology.Topology{}
	}
	versions := slices.Clone(in.Versions)
	if len(versions) == 0 {
		versions = slices.Clone(catalog.Releases)
	}
	slices.SortFunc(versions, catalog.Version.Compare)
	versions = slices.Compact(versions)

	from := before(in.From, versions)

	for _, d := range in.Found {
		f := &finding{Diagnostic: d, name: d.Object.Name}
		// The expansion words what it finds on queues alike.
		if what, ok := strings.CutPrefix(d.Summary, fmt.Sprintf("queue %q: ", f.name)); ok {
			f.group = what + ":"
		}
		found = append(found, f)
	}
	for _, vhost := range in.Topology.VirtualHosts {
		if vhost == nil {
			continue
		}
		var live *topology.VirtualHost
		if in.Live != nil {
			live = in.Live.VirtualHost(vhost.Name)
		}
		shared := newState(vhost, live, versions, in.ExchangeTypes)
		for i := range Rules {
			if !Rules[i].isAsked(in.Strict, from) {
				continue
			}
			p := &Pass{state: shared, rule: &Rules[i], strict: in.Strict, from: from}
			Rules[i].Check(p)
			found = append(found, p.found...)
		}
	}
	found, comments = applyIgnores(found, in.Sources)
	// A comment on a rule that was not checked may well be of use.
	comments = slices.DeleteFunc(comments, func(d diag.Diagnostic) bool {
		return d.Code == codeUnusedIgnore && slices.ContainsFunc(Rules, func(r Rule) bool {
			return !r.isAsked(in.Strict, from) && d.Summary == unusedSummary(r.Code)
		})
	})
	return found, comments
}

// isAsked reports whether a rule is to be checked.
func (r *Rule) isAsked(strict bool, from []catalog.Version) bool {
	return (!r.OnlyStrict || strict) && (!r.Upgrade || len(from) > 0)
}

// same reports whether two findings tell a user the same at the same place.
func same(a, b diag.Diagnostic) bool {
	return a.Severity == b.Severity && a.Code == b.Code && a.Summary == b.Summary &&
		a.Position == b.Position && a.Object == b.Object
}
