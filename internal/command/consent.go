package command

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// addressKinds are the kinds that KIND/NAME may begin with.
var addressKinds = []topology.Kind{
	topology.KindVirtualHost, topology.KindExchange, topology.KindQueue, topology.KindBinding, topology.KindPolicy,
	topology.KindOperatorPolicy, topology.KindParameter, topology.KindPermission, topology.KindTopicPermission,
}

// consentActions are the actions that --allow knows.
var consentActions = []string{"lossy"}

// splitAddress splits KIND/NAME at the first slash, so that a name may hold any
// character.
func splitAddress(s string) (topology.Kind, string, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q is not of the form KIND/NAME, such as queue/orders", s)
	}
	if !slices.Contains(addressKinds, topology.Kind(kind)) {
		names := make([]string, len(addressKinds))
		for i, k := range addressKinds {
			names[i] = string(k)
		}
		return "", "", fmt.Errorf("%q begins with no known kind; known are %s", s, strings.Join(names, ", "))
	}
	return topology.Kind(kind), name, nil
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
		kind, name, err := splitAddress(object)
		if err != nil {
			return nil, usagef("--allow %q: %w", v, err)
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
