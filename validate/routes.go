package validate

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// graph is where messages go on a version.
func (s *state) graph(v catalog.Version) *flow.Graph {
	if g, ok := s.graphs[v]; ok {
		return g
	}
	effective := func(q *topology.Queue) map[string]policy.Value { return s.effective(q, v) }
	var g *flow.Graph
	if newest := s.newest(); v == newest {
		g = flow.New(s.vhost, v, flow.Options{
			Live: s.live, Effective: effective,
			Alternate: func(e *topology.Exchange) (string, bool) {
				name, _, ok := s.alternate(e)
				return name, ok
			},
		})
	} else {
		g = s.graph(newest).At(v, effective)
	}
	s.graphs[v] = g
	return g
}

// routed reports whether a queue has a dead-letter route on a version.
func (s *state) routed(q *topology.Queue, v catalog.Version) bool {
	return s.graph(v).DeadLetter(q.Name) != nil
}

// cycles are the circles of dead-letter routes on a version.
func (s *state) cycles(v catalog.Version) []flow.Cycle {
	all, ok := s.circles[v]
	if !ok {
		all = s.graph(v).Cycles()
		s.circles[v] = all
	}
	return all
}

// exchangeType is the type of an exchange, "" when it is unknown.
func (s *state) exchangeType(name string) string {
	if t := builtIn[name]; t != "" {
		return t
	}
	if e, _ := s.exchange(name); e != nil {
		return e.Type
	}
	return ""
}

// alternate is the alternate exchange in effect, and in brackets which policy
// sets it. Policies act alike on exchanges in all versions.
func (s *state) alternate(e *topology.Exchange) (name, from string, ok bool) {
	set := s.policySet(s.newest())
	in := settings(set.EffectiveExchange(e, set.Exchange(e.Name)))
	name, ok = in.text("alternate-exchange")
	return name, in.from("alternate-exchange"), ok
}

// hasAlternate reports whether an alternate exchange is in effect.
func (s *state) hasAlternate(e *topology.Exchange) bool {
	if e == nil {
		return false
	}
	_, _, ok := s.alternate(e)
	return ok
}

// targets are the queues that the dead letters of a queue can come to.
func targets(r *flow.Reach) []string {
	names := make([]string, len(r.Targets))
	for i, t := range r.Targets {
		names[i] = t.Queue
	}
	return names
}

// some names keys of a set for a sentence: all of them where they are few.
func some(k *flow.Keys) string {
	keys, all := k.Some(shownNames)
	switch {
	case all:
		return quoted(keys, "and")
	case k.Listable():
		return quoted(keys, ",") + " and more"
	}
	return fmt.Sprintf("such as %q", k.Example())
}

// isDeadLetterTarget reports whether the dead messages of another queue, or what
// an exchange cannot route, end in a queue.
func (s *state) isDeadLetterTarget(q *topology.Queue) bool {
	return s.takesDeadLetters(q) || s.ends().unrouted[q.Name]
}

// takesDeadLetters reports whether a queue is one for the dead messages of another.
func (s *state) takesDeadLetters(q *topology.Queue) bool { return len(s.gathered(q)) > 0 }

// sources are the queues whose dead messages can come into a queue, itself left out.
func (s *state) sources(q *topology.Queue) []*topology.Queue { return s.ends().sources[q.Name] }

// gathered are the sources of a queue that is one for dead messages. None for one that
// other messages come to as well, such as a work queue that gets its messages back
// after a delay, or that hands its own dead messages on.
func (s *state) gathered(q *topology.Queue) []*topology.Queue {
	if role(q) == topology.RoleWork && !s.gathers(q) {
		return nil
	}
	return s.sources(q)
}

// gathers reports whether nothing but dead letters and what cannot be routed comes
// into a queue by its bindings, and nothing goes on from there to another queue.
func (s *state) gathers(q *topology.Queue) bool {
	for _, b := range s.index.To[topology.End{Type: topology.ToQueue, Name: q.Name}] {
		if !s.ends().exchanges[b.Source] {
			return false
		}
	}
	return !s.ends().handsOn[q.Name]
}

// ends are the queues that messages end in which another one gave up.
type ends struct {
	sources  map[string][]*topology.Queue
	unrouted map[string]bool // what an exchange cannot route
	// exchanges are the dead-letter exchanges and alternate exchanges.
	exchanges map[string]bool
	handsOn   map[string]bool // queues whose own dead messages come to another one
}

// maxSources is how many sources of one queue are remembered: rules that look at
// each pair need not see thousands that are alike.
const maxSources = 200

func (s *state) ends() *ends {
	if s.ended != nil {
		return s.ended
	}
	e := &ends{sources: map[string][]*topology.Queue{}, unrouted: map[string]bool{}, exchanges: map[string]bool{}, handsOn: map[string]bool{}}
	g := s.graph(s.newest())
	for _, source := range s.vhost.Queues {
		if r := g.DeadLetter(source.Name); r != nil {
			e.exchanges[r.Exchange] = true
		}
		reach, _ := g.DeadLetters(source.Name)
		for _, t := range reach.Targets {
			if t.Queue == source.Name {
				continue
			}
			e.handsOn[source.Name] = true
			if len(e.sources[t.Queue]) < maxSources {
				e.sources[t.Queue] = append(e.sources[t.Queue], source)
			}
		}
	}
	var alternates []string
	for _, x := range s.vhost.Exchanges {
		if ae, _, ok := s.alternate(x); ok && ae != "" { // the default exchange takes nothing from others
			e.exchanges[ae] = true
			alternates = append(alternates, ae)
		}
	}
	for _, name := range g.ReachedFrom(alternates) {
		e.unrouted[name] = true
	}
	s.ended = e
	return e
}

// promisedFrom is the first queue with a contract that messages published to an
// exchange can come to; nil: there is none.
func (s *state) promisedFrom(exchange string) *topology.Queue {
	g := s.graph(s.newest())
	for _, name := range targets(g.Reach(exchange, g.AllKeys())) {
		q := s.index.Queues[name]
		if q == nil {
			continue
		}
		if c := intent(q).Contract; c != nil && !c.None && !meantToVanish(q) {
			return q
		}
	}
	return nil
}
