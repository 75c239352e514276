package validate

import "github.com/rabbitctl/rabbitctl/internal/diag"

var routesNotExact = Rule{
	Code: "routes-not-exact", Severity: diag.Warning,
	Summary: "Where messages go is too costly to work out exactly, so that something may have been missed.",
	Doc: "Nothing of the broker's. A few binding keys such as `#.a.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*` have more cases than memory has room " +
		"for, and thousands of exchanges that all lead to each other have millions of ways. rabbitctl then stops counting and takes " +
		"for possible what it cannot rule out: no loss is told that is none, but one may stay untold.",
	Fix: "Put fewer words behind a `#` in binding keys, lead fewer exchanges into each other, or look at the routes in question " +
		"with `rabbitctl explain --exchange NAME --key KEY`, which is exact for one message.",
	Check: func(p *Pass) {
		if p.graph(p.newest()).Rough() {
			p.reportVirtualHost(problemf("the bindings of virtual host %q are too many or too wide to follow every message: losses may have been missed", p.vhost.Name))
		}
	},
}
