package validate

import (
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// defaultExchange is the name that permissions know the default exchange by.
const defaultExchange = "amq.default"

// maxPermitted bounds how many names are held against the permissions of one
// virtual host: one example is enough, and a spec with thousands of users and
// queues would otherwise take minutes.
const maxPermitted = 100_000

var defaultExchangeNotWritable = Rule{
	Code: "default-exchange-not-writable", Severity: diag.Warning,
	Summary: "A user may use queues and not write to the default exchange.",
	Doc: "The default exchange is amq.default to permissions. Without write permission on it, a user cannot publish to a " +
		"queue by its name, nor publish the copies that retries through the default exchange need, nor declare a queue with " +
		"the argument `x-dead-letter-exchange: \"\"`: 403 ACCESS_REFUSED, all measured. A route that a policy sets is not held " +
		"against permissions. Users who may write to nothing that the spec has are left alone.",
	Fix: "Let the pattern under `write:` match amq.default too, as in `^(orders.*|amq\\.default)$`; or let the user publish " +
		"through an exchange, and set dead-letter routes by policy.",
	Check: func(p *Pass) {
		left := maxPermitted
		for _, permission := range p.vhost.Permissions {
			u := p.user(permission, &left)
			if u.write.matches(defaultExchange) != no {
				continue
			}
			p.report(permission, permission.Position, u.lacks())
		}
	},
}

// user is what one user may do.
type user struct {
	*Pass
	name                   string
	configure, write, read permitted
}

func (p *Pass) user(permission *topology.Permission, left *int) user {
	of := func(pattern string) permitted { return permitted{p.permissionSet(pattern), left} }
	return user{p, permission.User, of(permission.Configure), of(permission.Write), of(permission.Read)}
}

// permissionSet is a pattern of a permission, matched as the broker does: like that
// of a policy, but an empty one allows nothing. Nil: nothing.
func (p *Pass) permissionSet(pattern string) *policy.Set {
	if pattern == "" {
		return nil
	}
	return policy.New(p.newest(), []*topology.Policy{{Name: "permission", Pattern: pattern, ApplyTo: "exchanges"}}, nil)
}

// permitted matches the names of exchanges and queues.
type permitted struct {
	set  *policy.Set
	left *int
}

type answer int

const (
	no answer = iota
	yes
	unknown
)

func (m permitted) matches(name string) answer {
	if m.set == nil {
		return no
	}
	if *m.left <= 0 {
		return unknown
	}
	*m.left--
	switch match := m.set.Exchange(name); {
	case match.Policy != nil:
		return yes
	case len(match.Undecided) > 0:
		return unknown
	}
	return no
}

// lacks says what a user who cannot write to the default exchange is kept from.
func (u user) lacks() problem {
	queues := u.ours()
	find := func(want func(q *topology.Queue) bool) *topology.Queue {
		if i := slices.IndexFunc(queues, want); i >= 0 {
			return queues[i]
		}
		return nil
	}
	declares := find(func(q *topology.Queue) bool {
		exchange, given := q.Arguments["x-dead-letter-exchange"].(string)
		return given && exchange == "" && u.configure.matches(q.Name) == yes && u.read.matches(q.Name) == yes
	})
	if declares != nil {
		return problemf("user %q may configure queue %q and not write to amq.default: declaring the queue is refused, since its dead-letter exchange is the default exchange",
			u.name, declares.Name)
	}
	copies := find(func(q *topology.Queue) bool {
		return publishesCopies(q) && u.read.matches(q.Name) == yes
	})
	if copies != nil && u.writesSomething() {
		return problemf("user %q may read queue %q and not write to amq.default: a consumer cannot publish the copies that its retries need", u.name, copies.Name)
	}
	byName := find(func(q *topology.Queue) bool {
		return u.write.matches(q.Name) == yes && u.configure.matches(q.Name) == yes
	})
	if byName != nil {
		return problemf("user %q may write to queue %q and not to amq.default: publishing to a queue by its name is refused", u.name, byName.Name)
	}
	return problem{}
}

// publishesCopies reports whether a queue's consumer publishes copies through the
// default exchange, to wait or to be given up.
func publishesCopies(q *topology.Queue) bool {
	retry, dead := intent(q).Retry, intent(q).DeadLetter
	if retry == nil {
		return false
	}
	switch retry.Mechanism {
	case topology.MechanismWaitQueue, topology.MechanismPerMessage:
		return true
	case topology.MechanismDelayedExchange, topology.MechanismDelayedRetry:
		return false
	}
	return retry.MaxAttempts > 0 && dead != nil && dead.Exchange == "" && dead.Queue != "" && q.Type == topology.Classic
}

// writesSomething reports whether the user may write to an exchange or queue of the
// spec.
func (u user) writesSomething() bool {
	return slices.ContainsFunc(u.ourExchanges(), func(e *topology.Exchange) bool { return u.write.matches(e.Name) == yes }) ||
		slices.ContainsFunc(u.ours(), func(q *topology.Queue) bool { return u.write.matches(q.Name) == yes })
}
