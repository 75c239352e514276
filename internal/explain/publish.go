package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/flow"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Message is a message to be published.
type Message struct {
	Exchange string
	Key      string
	CC       []string
	// Headers are canonical values, see topology.Canonical.
	Headers map[string]any
}

// Publish explains where a message goes.
type Publish struct {
	VirtualHost string         `json:"vhost"`
	RabbitMQ    string         `json:"rabbitmq"`
	Exchange    string         `json:"exchange"`
	Key         string         `json:"routing_key"`
	CC          []string       `json:"cc,omitempty"`
	Headers     map[string]any `json:"headers,omitempty"`

	// Outcome is routed, unroutable, unknown (it comes to an exchange of which not all
	// bindings are known, and to no queue that is), no-exchange or internal-exchange.
	Outcome string   `json:"outcome"`
	Text    string   `json:"text"`
	Routes  []Route  `json:"routes"`
	Notes   []string `json:"notes"`
	// Stages are the queues that the message comes to, first and after each failure.
	Stages []MessageStage `json:"stages"`
	// LeftOut counts stages that were not followed.
	LeftOut int `json:"stages_left_out"`
}

// Route is a queue that gets the message.
type Route struct {
	Queue string `json:"queue"`
	By    string `json:"by"`
	// Chance: an exchange on the way gives it to one of several bindings.
	Chance bool `json:"chance"`
	// Unknown: it is not known how an exchange on the way routes.
	Unknown bool `json:"unknown"`
	Stage   int  `json:"stage"` // number in Stages, from 1; 0: not followed
}

// MessageStage is the message in one queue.
type MessageStage struct {
	Number int    `json:"number"`
	Queue  string `json:"queue"`
	Type   string `json:"type,omitempty"`
	// Keys are the message's routing key and CC keys here.
	Keys     []string        `json:"routing_keys"`
	Failures []MessageFailed `json:"failures"`
}

// MessageFailed is what becomes of the message for some causes.
type MessageFailed struct {
	Causes []string `json:"causes"`
	When   []string `json:"when"`
	// Outcome is dead-lettered, dropped, refused or stays.
	Outcome string  `json:"outcome"`
	Routes  []Route `json:"routes"`
	Text    string  `json:"text"`
}

// Reaches reports whether the message comes to some queue, or may.
func (p *Publish) Reaches() bool { return p.Outcome == "routed" || p.Outcome == "unknown" }

// maxMessageStages bounds how far one message is followed.
const maxMessageStages = 40

// Publish follows a message to its queues, and from each along every way of failing.
func (e *Explainer) Publish(m Message) *Publish {
	out := &Publish{
		VirtualHost: e.vhost.Name, RabbitMQ: e.version.String(), Exchange: m.Exchange, Key: m.Key, CC: m.CC, Headers: m.Headers,
		Routes: []Route{}, Notes: []string{}, Stages: []MessageStage{},
	}
	if x := e.index.Exchanges[m.Exchange]; x != nil && x.Internal {
		out.Outcome = "internal-exchange"
		out.Text = fmt.Sprintf("%s is internal: the broker refuses the publish (403) and closes the channel", exchangeText(m.Exchange))
		return out
	}
	message := flow.Message{Exchange: m.Exchange, Keys: append([]string{m.Key}, m.CC...), Headers: map[string]any{}}
	for k, v := range m.Headers {
		message.Headers[k] = v
	}
	if len(m.CC) > 0 {
		list := make([]any, len(m.CC))
		for i, key := range m.CC {
			list[i] = key
		}
		message.Headers["CC"] = list
	}
	routing := e.graph.Route(message)
	f := &follower{Explainer: e, out: out, known: map[string]int{}, byDeath: e.routesByDeath()}
	out.Routes = f.routes(routing, message)
	out.Outcome, out.Text = published(m.Exchange, routing)
	if len(routing.Deliveries) > 0 && len(routing.Unmatched) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("On a way that leads on nothing takes it: %s. It reached a queue elsewhere, so that nobody is told.", exchanges(routing.Unmatched)))
	}
	if routing.Open {
		out.Notes = append(out.Notes, "It comes to an exchange of which not all bindings are known: it may go to further queues.")
	}
	f.run()
	return out
}

// published words where a publish ends.
func published(exchange string, r flow.Routing) (outcome, text string) {
	to := exchangeText(exchange)
	unknown := r.Open || slices.ContainsFunc(r.Deliveries, func(d flow.Delivery) bool { return d.Unknown })
	switch {
	case r.Missing:
		return "no-exchange", to + " does not exist: the broker closes the channel (404)"
	case len(r.Deliveries) > 0:
		chance := slices.ContainsFunc(r.Deliveries, func(d flow.Delivery) bool { return !d.Chance && !d.Unknown })
		text = "reaches " + plural(int64(len(r.Deliveries)), "queue")
		if !chance {
			text = "can reach " + plural(int64(len(r.Deliveries)), "queue") + ", which of them is decided by a hash, by chance or by something unknown"
		}
		return "routed", text
	case unknown:
		return "unknown", "reaches no queue that is known, and an exchange of which not all bindings are known"
	case len(r.Unmatched) == 1 && r.Unmatched[0] == exchange:
		text = "no binding of " + to + " takes it, and there is no alternate exchange"
		if exchange == "" {
			text = "there is no queue of that name"
		}
	case len(r.Unmatched) > 0:
		text = "nothing takes it at " + exchanges(r.Unmatched)
	default:
		text = "the way ends before a queue"
	}
	return "unroutable", text + ": the broker acknowledges the publish and drops the message; only with mandatory the publisher gets it back (312 NO_ROUTE)"
}

func exchanges(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = exchangeText(n)
	}
	return strings.Join(all, ", ")
}

// routesByDeath reports whether a headers exchange looks at the headers of dead
// letters: then messages that died otherwise are not alike.
func (e *Explainer) routesByDeath() bool {
	return slices.ContainsFunc(e.vhost.Bindings, func(b *topology.Binding) bool {
		return slices.ContainsFunc(b.Arguments.Keys(), func(k string) bool {
			return strings.HasPrefix(k, "x-first-death-") || strings.HasPrefix(k, "x-last-death-")
		})
	})
}

// follower follows one message. Stages that differ in nothing that decides where it
// goes are one, so that their number does not grow with that of the ways.
type follower struct {
	*Explainer
	out     *Publish
	known   map[string]int // number of a stage by what decides where it goes
	todo    []flow.Message // of each stage
	byDeath bool
}

func (f *follower) routes(r flow.Routing, m flow.Message) []Route {
	routes := []Route{}
	for i, d := range r.Deliveries {
		if i >= maxMessageStages {
			f.out.LeftOut++
			continue
		}
		routes = append(routes, Route{Queue: d.Queue, By: pathText(d.Path), Chance: d.Chance, Unknown: d.Unknown, Stage: f.stage(d.Queue, m)})
	}
	return routes
}

// stage finds or adds the message in a queue; 0 when there are too many.
func (f *follower) stage(queue string, m flow.Message) int {
	key := f.identity(queue, m)
	if n, ok := f.known[key]; ok {
		return n
	}
	if len(f.out.Stages) >= maxMessageStages {
		f.out.LeftOut++
		f.known[key] = 0
		return 0
	}
	n := len(f.out.Stages) + 1
	f.known[key] = n
	s := MessageStage{Number: n, Queue: queue, Keys: slices.Clone(m.Keys), Failures: []MessageFailed{}}
	f.out.Stages = append(f.out.Stages, s)
	f.todo = append(f.todo, m)
	return n
}

// identity holds everything that decides where a message goes from a queue.
func (f *follower) identity(queue string, m flow.Message) string {
	var since []string // queues that it died in after the last reject
	for _, d := range m.Deaths {
		if d.Cause == flow.Rejected {
			break
		}
		since = append(since, d.Queue)
	}
	slices.Sort(since)
	_, cc := m.Headers["CC"]
	key := fmt.Sprintf("%q %q %q %v", queue, m.Keys, slices.Compact(since), cc)
	if f.byDeath {
		for _, h := range []string{"x-first-death-queue", "x-first-death-reason", "x-first-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-last-death-exchange"} {
			key += fmt.Sprintf(" %q", fmt.Sprint(m.Headers[h]))
		}
	}
	return key
}

func (f *follower) run() {
	for i := 0; i < len(f.todo); i++ {
		raw := f.index.Queues[f.out.Stages[i].Queue]
		if raw == nil {
			continue // it is there, and nothing more is known
		}
		q, _ := f.typed(raw)
		f.out.Stages[i].Type = string(q.Type)
		failures := f.fail(q, f.todo[i])
		f.out.Stages[i].Failures = failures
	}
}

// fail follows the message from a queue for every cause, those with the same end
// together.
func (f *follower) fail(q *topology.Queue, m flow.Message) []MessageFailed {
	all := []MessageFailed{}
	if q.Type == topology.Stream {
		return all
	}
	settings := f.effective(q)
	for _, c := range f.causes(q, settings) {
		one := f.die(q, settings, c, m)
		i := slices.IndexFunc(all, func(o MessageFailed) bool {
			return o.Outcome == one.Outcome && o.Text == one.Text && slices.Equal(o.Routes, one.Routes)
		})
		if i < 0 {
			all = append(all, one)
			continue
		}
		all[i].Causes = append(all[i].Causes, one.Causes...)
		all[i].When = append(all[i].When, one.When...)
	}
	return all
}

// causes lists for what the message can leave a queue: a consumer that rejects it, and
// what the queue's settings bring about.
func (f *follower) causes(q *topology.Queue, settings map[string]policy.Value) []flow.Cause {
	all := append([]flow.Cause{flow.Rejected}, f.graph.Causes(q.Name)...)
	_, length := number(settings, "max-length")
	_, bytes := number(settings, "max-length-bytes")
	if (length || bytes) && !slices.Contains(all, flow.Overflow) {
		all = append(all, flow.Overflow)
	}
	return all
}

func (f *follower) die(q *topology.Queue, settings map[string]policy.Value, c flow.Cause, m flow.Message) MessageFailed {
	out := MessageFailed{Causes: []string{string(c)}, When: []string{when(c, q.Type, settings)}, Routes: []Route{}}
	if c == flow.Overflow && !slices.Contains(f.graph.Causes(q.Name), c) {
		out.Outcome, out.Text = "refused", "a full queue refuses it: the publisher gets a nack, if it uses confirms"
		return out
	}
	dead, routing, cycles, ok := f.graph.Die(q.Name, c, m)
	if !ok {
		out.Outcome, out.Text = "dropped", "deleted: the queue has no dead-letter exchange"
		return out
	}
	route := f.graph.DeadLetter(q.Name)
	to := fmt.Sprintf("%s with %s", exchangeText(dead.Exchange), keyList(dead.Keys))
	out.Outcome, out.Text = "dead-lettered", "dead-lettered to "+to
	if len(routing.Deliveries) == 0 && !routing.Open {
		out.Outcome = "dropped"
		switch {
		case routing.Missing:
			out.Text = fmt.Sprintf("lost: %s does not exist", exchangeText(dead.Exchange))
		case len(cycles) > 0:
			out.Text = fmt.Sprintf("lost: through %s it would come back to %s, where it died before with no consumer rejecting it since; the broker drops it", to, quoted(cycles))
		default:
			out.Text = fmt.Sprintf("lost: %s leads to no queue", to)
		}
		if route != nil && route.AtLeastOnce && len(cycles) == 0 {
			out.Outcome, out.Text = "stays", strings.Replace(out.Text, "lost: ", "stays in the queue until it can be delivered (at-least-once): ", 1)
		}
		return out
	}
	if len(cycles) > 0 {
		out.Text += fmt.Sprintf("; dropped on the way to %s, where it died before with no consumer rejecting it since", quoted(cycles))
	}
	if routing.Open {
		out.Text += "; it may go elsewhere too, not all bindings on the way are known"
	}
	out.Routes = f.routes(routing, dead)
	return out
}

func keyList(keys []string) string {
	list := make([]string, len(keys))
	for i, k := range keys {
		list[i] = fmt.Sprintf("%q", k)
	}
	what := "the key "
	if len(list) != 1 {
		what = "the keys "
	}
	return what + cmp.Or(strings.Join(list, ", "), `""`)
}
