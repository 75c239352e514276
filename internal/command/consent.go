package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// addressKinds are the kinds that KIND/NAME may begin with.
var addressKinds = []topology.Kind{
	topology.KindVirtualHost, topology.KindExchange, topology.KindQueue, topology.KindBinding, topology.KindPolicy,
	topology.KindOperatorPolicy, topology.KindParameter, topology.KindPermission, topology.KindTopicPermission,
}

// consentActions are the actions that --allow knows.
var consentActions = []string{"replace", "lossy", "delete", "adopt"}

// kindStack is what --adopt stack/OLD begins with: all that a stack has recorded.
const kindStack topology.Kind = "stack"

// splitAddress splits KIND/NAME at the first slash, so that a name may hold any
// character.
func splitAddress(s string, more ...topology.Kind) (topology.Kind, string, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is not of the form KIND/NAME, such as queue/orders", s)
	}
	if known := slices.Concat(addressKinds, more); !slices.Contains(known, topology.Kind(kind)) {
		names := make([]string, len(known))
		for i, k := range known {
			names[i] = string(k)
		}
		return "", "", fmt.Errorf("%q begins with no known kind; known are %s", s, strings.Join(names, ", "))
	}
	return topology.Kind(kind), name, nil
}

// consents reads --allow and --adopt KIND/NAME, which is short for --allow
// adopt=KIND/NAME.
func consents(c *cli.Context) ([]plan.Consent, error) {
	values := slices.Clone(c.StringSlice("allow"))
	for _, v := range c.StringSlice("adopt") {
		values = append(values, "adopt="+v)
	}
	return parseConsents(values, c.Bool("yes"))
}

// takenStacks are the stacks whose objects are taken over as a whole.
func takenStacks(all []plan.Consent) []string {
	var names []string
	for _, a := range all {
		if a.Kind == kindStack {
			names = append(names, a.Name)
		}
	}
	return names
}

// parseConsents reads --allow ACTION[,ACTION]=KIND/NAME, split at the first "="
// and the first "/". A shell pattern in NAME needs --yes, so that nobody agrees
// to more than is seen.
func parseConsents(values []string, yes bool) ([]plan.Consent, error) {
	var all []plan.Consent
	for _, v := range values {
		actions, object, ok := strings.Cut(v, "=")
		if !ok {
			return nil, usagef("--allow %q is not of the form ACTION=KIND/NAME, such as lossy=policy/cap", v)
		}
		var more []topology.Kind
		if actions == "adopt" {
			more = append(more, kindStack)
		}
		kind, name, err := splitAddress(object, more...)
		if err != nil {
			return nil, usagef("--allow %q: %w", v, err)
		}
		if kind == kindStack && !ownership.StackName.MatchString(name) {
			return nil, usagef("--allow %q: %q is not the name of a stack", v, name)
		}
		if strings.ContainsAny(name, "*?[") {
			if _, err := path.Match(name, ""); errors.Is(err, path.ErrBadPattern) {
				return nil, usagef("--allow %q: the pattern is not well formed", v)
			}
			if !yes {
				return nil, usagef("--allow %q: a pattern needs --yes", v)
			}
		}
		for _, action := range strings.Split(actions, ",") {
			if !slices.Contains(consentActions, action) {
				return nil, usagef("--allow %q: there is no action %q to allow; known: %s", v, action, strings.Join(consentActions, ", "))
			}
			all = append(all, plan.Consent{Action: action, Kind: kind, Name: name})
		}
	}
	return all, nil
}
