package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// tagFor is the least tag that the management API wants for a change of a kind, the
// same in RabbitMQ 3.10 to 4.3; "": any, and the user's permissions decide.
func tagFor(k topology.Kind) string {
	switch k {
	case topology.KindVirtualHost, topology.KindPermission, topology.KindTopicPermission, topology.KindOperatorPolicy:
		return "administrator"
	case topology.KindPolicy, topology.KindParameter:
		return "policymaker"
	}
	return ""
}

// checkRights refuses a plan that needs a tag that the user does not have, before
// anything is written: half of a virtual host is worse than none. All that is
// missing is named at once.
func checkRights(ctx context.Context, client *broker.Client, p *plan.Plan) error {
	var keys []topology.Key
	for _, c := range p.Changes {
		if len(c.Blocked) == 0 && tagFor(c.Key.Kind) != "" {
			keys = append(keys, c.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	user, err := client.Whoami(ctx)
	if err != nil {
		return brokerError(err)
	}
	return missingRights(user, keys)
}

func missingRights(user *broker.User, keys []topology.Key) error {
	if user.Has("administrator") {
		return nil
	}
	var lines []string
	for _, tag := range []string{"administrator", "policymaker"} {
		var needing []topology.Key
		for _, k := range keys {
			if tagFor(k.Kind) == tag && !user.Has(tag) {
				needing = append(needing, k)
			}
		}
		if n := len(needing); n > 0 {
			line := fmt.Sprintf("the tag %s, for %s", tag, needing[0])
			if n > 1 {
				line += " and " + text.Plural(n-1, "other object", "other objects")
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fail(ExitBroker, fmt.Errorf("nothing was changed: user %q lacks\n  %s\nlet an administrator give it the tag, or run this as a user that has it",
		user.Name, strings.Join(lines, "\n  ")))
}
