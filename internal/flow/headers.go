package flow

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// verdict says whether a binding takes the messages in question.
type verdict int

const (
	never verdict = iota
	perhaps
	always
)

// headersMatch says whether a headers binding takes a message. Of the headers that
// are not in known it is either sure that the message has none (exact) or nothing.
//
// The broker compares what the binding names, as x-match says: all (which also
// counts when none is written), any, and the same -with-x. Without -with-x names
// that begin with x- are left out. With nothing to compare, all takes every message
// and any takes none.
func headersMatch(binding topology.Arguments, known map[string]any, exact bool, v catalog.Version) verdict {
	match, _ := binding["x-match"].(string)
	if match == "" {
		match = "all"
	}
	withX := strings.HasSuffix(match, "-with-x")
	all := strings.HasPrefix(match, "all")
	result := always
	if !all {
		result = never
	}
	for name, want := range binding {
		if name == "x-match" || !withX && strings.HasPrefix(name, "x-") {
			continue
		}
		one := never
		have, there := known[name]
		switch {
		case there && headerEqual(want, have, v):
			one = always
		case !there && !exact:
			one = perhaps
		}
		if all {
			result = min(result, one)
		} else {
			result = max(result, one)
		}
	}
	return result
}

// headerEqual compares a header as headers exchanges do: integers of every width
// are one kind, and a binding without a value asks for the header alone. Before 4.0
// an integer equals a float of the same value (measured).
func headerEqual(want, have any, v catalog.Version) bool {
	switch want.(type) {
	case nil:
		return true
	case int64, float64:
		_, wantFloat := want.(float64)
		_, haveFloat := have.(float64)
		if wantFloat != haveFloat && v.AtLeast(catalog.V(4, 0)) {
			return false
		}
	}
	return topology.Equal(want, have)
}

// brokerCounts are headers that the broker sets when it delivers a quorum queue's
// message. They are not there when it routes a dead one: a binding on them never
// matches at a dead-letter exchange (measured).
var brokerCounts = map[string]bool{"x-delivery-count": true, "x-acquired-count": true}

// deadHeadersMatch is headersMatch for dead letters, of which nothing is known but
// that they lack the broker's counts.
func deadHeadersMatch(binding topology.Arguments, v catalog.Version) verdict {
	asked := binding
	for name := range brokerCounts {
		if _, ok := binding[name]; !ok {
			continue
		}
		if match, _ := binding["x-match"].(string); match == "all-with-x" {
			return never
		}
		asked = asked.Clone()
		delete(asked, name)
	}
	return headersMatch(asked, nil, false, v)
}
