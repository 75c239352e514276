package validate

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var policyNotAnchored = Rule{
	Code: "policy-not-anchored", Severity: diag.Warning,
	Summary: "A policy's pattern matches more objects than the one it names, because it has no anchors.",
	Doc: "A pattern is searched for anywhere in a name: `orders` acts on `orders.debug` and `my-orders` too (measured: a " +
		"max-length of 1 capped all three). Told where a pattern without anchors is the name of one object and matches others, and " +
		"where it begins some names and is in the middle of others. Objects of a broker count too.",
	Fix: "Begin the pattern with ^ and end it with $, and escape dots: `^orders$`.",
	Check: func(p *Pass) {
		for _, policy := range p.specPolicies() {
			p.report(policy, policy.At["pattern"], p.notAnchored(policy))
		}
	},
}

func (p *Pass) notAnchored(pol *topology.Policy) problem {
	tree, err := syntax.Parse(pol.Pattern, syntax.Perl)
	if err != nil || anchored(tree) {
		return problem{} // policy-pattern tells of what cannot be read
	}
	re, err := regexp.Compile(pol.Pattern)
	if err != nil {
		return problem{}
	}
	names, spec := p.policyNames(pol)
	var exact string
	var first, middle []string
	for _, name := range names {
		switch at := re.FindStringIndex(name); {
		case at == nil:
		case tree.Op == syntax.OpLiteral && len(name) == at[1]-at[0]:
			exact = name
		case at[0] == 0:
			first = append(first, name)
		default:
			middle = append(middle, name)
		}
	}
	meant, more, write := first, middle, "^"+pol.Pattern
	if exact != "" {
		meant, more, write = []string{exact}, slices.Concat(first, middle), "^"+regexp.QuoteMeta(exact)+"$"
	}
	if len(meant) == 0 || len(more) == 0 {
		return problem{}
	}
	slices.Sort(more)
	shown := more[:min(len(more), shownNames)]
	those := quoted(shown, "and")
	if len(more) > len(shown) {
		those = quoted(shown, ",") + " and more"
	}
	foreign := 0
	for _, name := range more {
		if !spec[name] {
			foreign++
		}
	}
	notNamed := ""
	if foreign > 0 {
		notNamed = fmt.Sprintf(" (%d not in the spec)", foreign)
	}
	return problemf("the pattern %q of %s matches %s: not only %q but also %s%s",
		pol.Pattern, policyName(pol), text.Plural(len(meant)+len(more), "object", "objects"), meant[0], those, notNamed).
		do("Write %s, or name all that are meant: ^(a|b)$.", write)
}

// anchored reports whether a pattern says where in the name it begins.
func anchored(tree *syntax.Regexp) bool {
	switch tree.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpStar, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpEmptyMatch:
		return true // what begins with .* means anywhere
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return len(tree.Sub) == 0 || anchored(tree.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(tree.Sub, func(s *syntax.Regexp) bool { return !anchored(s) })
	}
	return false
}

// policyNames are the names of the queues and exchanges that a policy's apply-to
// covers, of the spec and of the broker, and which of them are in the spec.
func (p *Pass) policyNames(pol *topology.Policy) (names []string, spec map[string]bool) {
	spec = map[string]bool{}
	ofExchanges := policy.AppliesTo(pol.ApplyTo, "") && pol.Definition["alternate-exchange"] != nil
	add := func(host *topology.VirtualHost, written bool) {
		for _, q := range host.Queues {
			if policy.AppliesTo(pol.ApplyTo, p.typeOf(q)) {
				names = append(names, q.Name)
				spec[q.Name] = spec[q.Name] || written && !isExternal(q)
			}
		}
		for _, e := range host.Exchanges {
			if ofExchanges && e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
				names = append(names, e.Name)
				spec[e.Name] = spec[e.Name] || written
			}
		}
	}
	add(p.vhost, true)
	if p.live != nil {
		add(p.live, false)
	}
	slices.Sort(names)
	return slices.Compact(names), spec
}
