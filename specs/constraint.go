package specs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
)

// ParseConstraint reads which versions are allowed: comparisons with >=, >, <, <=
// and = that must all hold, separated by blanks or commas, or a bare version.
// "4.0" is the whole series 4.0, "4" everything from 4.0 to before 5.0.
func ParseConstraint(text string) (Constraint, error) {
	c := Constraint{Text: strings.TrimSpace(text)}
	rest := strings.ReplaceAll(c.Text, ",", " ")
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		operator := rest[:len(rest)-len(strings.TrimLeft(rest, "<>=!~^"))]
		rest = strings.TrimLeft(rest[len(operator):], " \t")
		end := strings.IndexAny(rest, " \t<>=!~^")
		if end < 0 {
			end = len(rest)
		}
		r, err := rangeOf(operator, rest[:end])
		if err != nil {
			return Constraint{}, err
		}
		c.Ranges = append(c.Ranges, r)
		rest = rest[end:]
	}
	if len(c.Ranges) == 0 {
		return Constraint{}, errors.New("must name a version, such as >=3.10 or 4.0")
	}
	return c, nil
}

// rangeOf is the span of versions that one comparison allows.
func rangeOf(operator, text string) (catalog.Range, error) {
	first, err := catalog.ParseVersion(text)
	if err != nil {
		return catalog.Range{}, fmt.Errorf("%q is no RabbitMQ version such as 4.3 or 3.10.8", shorten(text))
	}
	after := first // the first version that the text does not name
	switch strings.Count(text, ".") {
	case 0:
		after = catalog.V(first.Major+1, 0)
	case 1:
		after = catalog.V(first.Major, first.Minor+1)
	default:
		after.Patch++
	}
	switch operator {
	case "", "=", "==":
		return catalog.Range{Since: first, Until: after}, nil
	case ">=":
		return catalog.Range{Since: first}, nil
	case ">":
		return catalog.Range{Since: after}, nil
	case "<":
		return catalog.Range{Until: first}, nil
	case "<=":
		return catalog.Range{Until: after}, nil
	}
	return catalog.Range{}, fmt.Errorf("%q is no comparison of versions, use >= > < <= or =", shorten(operator))
}

// Allows reports whether a version satisfies the constraint.
func (c Constraint) Allows(v catalog.Version) bool {
	for _, r := range c.Ranges {
		if !r.Has(v) {
			return false
		}
	}
	return true
}

// allowsSeries reports whether some version of the series of v may satisfy the
// constraint: ">=4.0.5" leaves room in 4.0.
func (c Constraint) allowsSeries(v catalog.Version) bool {
	since, until := v.Series(), catalog.V(v.Major, v.Minor+1)
	for _, r := range c.Ranges {
		if since.Below(r.Since) {
			since = r.Since
		}
		if !r.Until.IsZero() && r.Until.Below(until) {
			until = r.Until
		}
	}
	return since.Below(until)
}

// Versions are the known release series that the requirement allows, oldest
// first.
func (r Requires) Versions() []catalog.Version {
	var allowed []catalog.Version
	for _, v := range catalog.Releases {
		if r.RabbitMQ.allowsSeries(v) {
			allowed = append(allowed, v)
		}
	}
	return allowed
}

// Versions are the known release series that the requirements of every virtual
// host allow, oldest first; all of them where nothing is required.
func (s *Spec) Versions() []catalog.Version {
	all := Constraint{}
	for _, v := range s.VirtualHosts {
		all.Ranges = append(all.Ranges, v.Requires.RabbitMQ.Ranges...)
	}
	return Requires{RabbitMQ: all}.Versions()
}
