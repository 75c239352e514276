// Package management compares what a consumer needs with the broker over its management
// API when the consumer starts: arguments, bindings and the policies in effect, where
// package consumer by itself looks for existence alone. It is a package of its own so
// that services without it do not carry the client.
package management

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

// timeout bounds each request.
const timeout = 10 * time.Second

// Check adds the comparison to what consumer.Open checks. The URL is that of the
// management API, http://USER:PASSWORD@HOST:15672; the user needs the tag management and
// a permission in the virtual host. With a spec everything is compared that the queue
// needs, as `rabbitctl check --queue` does; without one the type, and the limit and the
// dead-letter route of a quorum queue, are compared with QueueType, MaxAttempts and DeadLetterTo.
func Check(url string) consumer.Option {
	return consumer.CheckWith(func(ctx context.Context, s consumer.Subject) ([]consumer.Problem, error) {
		client, err := broker.New(broker.Options{URL: url, Timeout: timeout})
		if err != nil {
			return nil, err
		}
		defer client.Close()
		state, err := client.Read(ctx, []string{s.VirtualHost}, broker.ReadOptions{})
		if err != nil {
			return nil, fmt.Errorf("check queue %q over the management API: %w", s.Queue, err)
		}
		live := state.Topology.VirtualHost(s.VirtualHost)
		if live == nil {
			return []consumer.Problem{{
				Object: fmt.Sprintf("virtual host %q", s.VirtualHost),
				Text:   "it is not there on the broker of the management URL, or the user has no permission in it",
			}}, nil
		}
		if s.Spec == nil {
			return byHand(s, state, live), nil
		}
		return bySpec(s, state, live), nil
	})
}

// bySpec compares everything that the queue needs.
func bySpec(s consumer.Subject, state *broker.State, live *topology.VirtualHost) []consumer.Problem {
	if s.SpecHost != s.VirtualHost {
		return []consumer.Problem{{
			Object: fmt.Sprintf("virtual host %q", s.VirtualHost),
			Text:   fmt.Sprintf("the spec describes the virtual host %q, so that nothing can be compared: connect to that one, or make it a variable in the spec", s.SpecHost),
		}}
	}
	target := specs.Target{Version: state.Version, DefaultQueueTypes: map[string]topology.QueueType{live.Name: live.DefaultQueueType}}
	desired, findings := s.Spec.Expand(target)
	var problems []consumer.Problem
	for _, d := range findings {
		if d.Structural {
			problems = append(problems, consumer.Problem{Object: d.Position.String(), Text: d.Summary})
		}
	}
	if len(problems) > 0 {
		return problems
	}
	p, findings := plan.Compute(plan.Input{
		Desired: desired, Live: state.Topology, Server: plan.Server{Version: state.Version, ClusterName: state.ClusterName, ExchangeTypes: state.ExchangeTypes},
		Targets: []topology.Key{{Kind: topology.KindQueue, VirtualHost: s.VirtualHost, Name: s.Queue}},
	})
	for _, c := range p.Changes {
		if c.Action != plan.Delete {
			problems = append(problems, ofChange(c)...)
		}
	}
	for _, d := range findings {
		// What needs no change and is still not as declared: somebody else's policy wins.
		if slices.Contains([]string{"effective-value", "foreign-policy-wins", "generated-policy-left", "external-differs"}, d.Code) {
			problems = append(problems, consumer.Problem{Object: object(d.Object), Text: d.Summary})
		}
	}
	return problems
}

func ofChange(c *plan.Change) []consumer.Problem {
	if c.Action == plan.Create {
		return []consumer.Problem{{Object: object(c.Key), Text: "it does not exist; `rabbitctl apply` makes it"}}
	}
	var all []consumer.Problem
	for _, f := range c.Fields {
		all = append(all, consumer.Problem{Object: object(c.Key), Field: f.Name, Want: shown(f.New), Have: shown(f.Old), Text: "it differs"})
	}
	if len(all) == 0 {
		all = append(all, consumer.Problem{Object: object(c.Key), Text: "it is not as declared; `rabbitctl plan` shows it"})
	}
	return all
}

func object(k topology.Key) string { return fmt.Sprintf("%s %q", k.Kind.Title(), k.Name) }

func shown(v any) string {
	if v == nil {
		return "none"
	}
	return text.Line(topology.Text(v))
}

// byHand compares a cap that options name with what is in effect.
func byHand(s consumer.Subject, state *broker.State, live *topology.VirtualHost) []consumer.Problem {
	q := live.Index().Queues[s.Queue]
	if q == nil || s.MaxAttempts == 0 {
		return nil // that it is missing was found without us
	}
	name := object(q.Key())
	if s.QueueType != "" && s.QueueType != string(q.Type) {
		return []consumer.Problem{{Object: name, Field: "type", Want: s.QueueType, Have: string(q.Type), Text: "the type decides who counts attempts"}}
	}
	if q.Type != topology.Quorum {
		return nil
	}
	set := policy.New(state.Version, live.Policies, live.OperatorPolicies)
	effective := set.Effective(q, set.Queue(q.Name, q.Type))
	var problems []consumer.Problem
	differs := func(field string, want any) {
		have := effective[field].Value
		if !topology.Equal(want, have) {
			problems = append(problems, consumer.Problem{Object: name, Field: field, Want: shown(want), Have: shown(have), Text: "what is in effect does not make the cap"})
		}
	}
	differs("delivery-limit", int64(s.MaxAttempts-1))
	differs("dead-letter-exchange", "")
	differs("dead-letter-routing-key", s.DeadLetterTo)
	return problems
}
