package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var danglingBinding = Rule{
	Code: "dangling-binding", Severity: diag.Error,
	Summary: "A binding names an exchange or a queue that is not declared.",
	Doc: "Declaring the binding is refused with 404. A definitions import skips it silently on 3.10 and stops half way on 4.x, " +
		"leaving another part undone on each run.",
	Fix: "Declare what is missing, or mark it `external: true` when somebody else does.",
	Check: func(p *Pass) {
		for _, b := range p.vhost.Bindings {
			if b.Source != "" {
				_, known := p.exchange(b.Source)
				p.dangling(b, topology.KindExchange, b.Source, known)
			}
			switch {
			case b.DestinationType == topology.ToQueue:
				_, known := p.queue(b.Destination)
				p.dangling(b, topology.KindQueue, b.Destination, known)
			case b.Destination != "":
				_, known := p.exchange(b.Destination)
				p.dangling(b, topology.KindExchange, b.Destination, known)
			}
		}
	},
}

// dangling reports one end of a binding.
func (p *Pass) dangling(b *topology.Binding, kind topology.Kind, name string, known presence) {
	switch known {
	case missing:
		similar := p.nearestExchange
		if kind == topology.KindQueue {
			similar = p.nearestQueue
		}
		r := problemf("the binding of %s names %s %q, which is not declared", endsOf(b), kind.Title(), name)
		if near := similar(name); near != "" {
			r = r.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
		}
		p.report(b, b.Position, r)
	case liveOnly:
		p.report(b, b.Position, problemf("the binding of %s names %s %q, which is on the broker and not in the spec", endsOf(b), kind.Title(), name).
			as(diag.Warning).do("Declare it, or mark it external: true so that it is checked."))
	}
}

// endsOf names the ends of a binding for a sentence.
func endsOf(b *topology.Binding) string {
	return quoted([]string{b.Source, b.Destination}, "to")
}

var bindDefaultExchange = Rule{
	Code: "bind-default-exchange", Severity: diag.Error,
	Summary: "A binding comes from or leads to the default exchange.",
	Doc:     "The broker refuses it: 403, `operation not permitted on the default exchange`. Every queue is bound to it under its own name.",
	Fix:     "Remove the binding: publish to the default exchange with the queue's name as routing key.",
	Check: func(p *Pass) {
		for _, b := range p.vhost.Bindings {
			switch {
			case b.Source == "":
				p.report(b, b.Position, problemf("%s %q is bound to the default exchange", b.DestinationType, b.Destination))
			case b.DestinationType == topology.ToExchange && b.Destination == "":
				p.report(b, b.Position, problemf("the default exchange is bound to exchange %q", b.Source))
			}
		}
	},
}

var localRandomKey = Rule{
	Code: "local-random-key", Severity: diag.Error,
	Summary: "A binding from an exchange of type x-local-random has a routing key.",
	Doc:     "The broker refuses it: 406, `Non empty binding key not permitted` (4.x).",
	Fix:     "Remove the routing key.",
	Check: func(p *Pass) {
		for _, b := range p.vhost.Bindings {
			if b.RoutingKey != "" && p.exchangeType(b.Source) == "x-local-random" {
				p.report(b, b.Position, problemf("the binding of %s has the routing key %q, and %q is of type x-local-random", endsOf(b), b.RoutingKey, b.Source))
			}
		}
	},
}

var localRandomDestination = Rule{
	Code: "local-random-destination", Severity: diag.Error,
	Summary: "An exchange of type x-local-random is bound to something that is no classic queue.",
	Doc: "The broker refuses it: 406, `Destination not found` for an exchange and `Queue type rabbit_quorum_queue not valid for " +
		"this exchange type` for a quorum queue or stream (4.x).",
	Fix: "Make the queue classic, or the exchange direct.",
	Check: func(p *Pass) {
		for _, b := range p.vhost.Bindings {
			if p.exchangeType(b.Source) != "x-local-random" {
				continue
			}
			what := ""
			if b.DestinationType == topology.ToExchange {
				what = "an exchange"
			} else if q := p.index.Queues[b.Destination]; q != nil && p.typeOf(q) != topology.Classic {
				what = fmt.Sprintf("a %s queue", p.typeOf(q))
			}
			if what != "" {
				p.report(b, b.Position, problemf("the binding of %s leads to %s, and %q is of type x-local-random", endsOf(b), what, b.Source))
			}
		}
	},
}

// matches are the values of x-match.
var matches = []string{"all", "any", "all-with-x", "any-with-x"}

// headersBindings calls f for each binding from a headers exchange with its
// x-match ("all" when none is written) and whether that is a known word.
func (p *Pass) headersBindings(f func(b *topology.Binding, match string, known bool)) {
	for _, b := range p.vhost.Bindings {
		if p.exchangeType(b.Source) != "headers" {
			continue
		}
		match, ok := "all", true
		if v, given := b.Arguments["x-match"]; given {
			match, ok = v.(string)
			ok = ok && slices.Contains(matches, match)
		}
		f(b, match, ok)
	}
}

var headersMatchInvalid = Rule{
	Code: "headers-match-invalid", Severity: diag.Error,
	Summary: "A binding from a headers exchange has an x-match that does not exist.",
	Doc:     "The broker refuses it: 406, `Invalid x-match field value`.",
	Fix:     "Use all, any, all-with-x or any-with-x.",
	Check: func(p *Pass) {
		p.headersBindings(func(b *topology.Binding, _ string, known bool) {
			if !known {
				p.report(b, b.Position, problemf("the binding of %s has x-match %s", endsOf(b), topology.Text(b.Arguments["x-match"])))
			}
		})
	},
}

var xMatchIgnoresXHeaders = Rule{
	Code: "x-match-ignores-x-headers", Severity: diag.Error,
	Summary: "A headers binding compares a header that begins with x- and its x-match leaves such headers out.",
	Doc: "With x-match `all` and `any`, which is also what counts when none is written, the broker does not compare headers " +
		"that begin with x-. A binding with only such headers matches every message with `all` and none with `any`.",
	Fix: "Use match: all-with-x or any-with-x.",
	Check: func(p *Pass) {
		p.headersBindings(func(b *topology.Binding, match string, known bool) {
			if !known || match != "all" && match != "any" {
				return
			}
			var left []string
			compared := 0
			for _, k := range b.Arguments.Keys() {
				switch {
				case k == "x-match":
				case strings.HasPrefix(k, "x-"):
					left = append(left, k)
				default:
					compared++
				}
			}
			if len(left) == 0 {
				return
			}
			r := problemf("the binding of %s does not compare %s: x-match %s leaves out headers that begin with x-",
				endsOf(b), quoted(left, "and"), match)
			switch {
			case compared > 0:
			case match == "all":
				r.summary += ", so that every message matches"
			default:
				r.summary += ", so that no message matches"
			}
			p.report(b, b.Position, r.do("Use match: %s-with-x.", match))
		})
	},
}

var headersBindingEmpty = Rule{
	Code: "headers-binding-empty", Severity: diag.Warning,
	Summary: "A headers binding names no header.",
	Doc:     "With x-match `all` it matches every message, with `any` none.",
	Fix:     "Name the headers in arguments, or use a fanout exchange when every message is meant.",
	Check: func(p *Pass) {
		p.headersBindings(func(b *topology.Binding, match string, known bool) {
			headers := len(b.Arguments)
			if _, given := b.Arguments["x-match"]; given {
				headers--
			}
			if !known || headers > 0 {
				return
			}
			if strings.HasPrefix(match, "any") {
				p.report(b, b.Position, problemf("the binding of %s names no header: with x-match %s no message matches", endsOf(b), match).as(diag.Error))
				return
			}
			p.report(b, b.Position, problemf("the binding of %s names no header: every message matches", endsOf(b)))
		})
	},
}

var bindingArgumentsIgnored = Rule{
	Code: "binding-arguments-ignored", Severity: diag.Warning,
	Summary: "A binding has arguments, and its exchange does not look at them.",
	Doc:     "Only headers exchanges and some plugins' exchanges route by arguments. On direct, fanout and topic exchanges the broker stores them and routes by key alone.",
	Fix:     "Remove the arguments, or make the source a headers exchange.",
	Check: func(p *Pass) {
		for _, b := range p.vhost.Bindings {
			t := p.exchangeType(b.Source)
			if len(b.Arguments) > 0 && (t == "direct" || t == "fanout" || t == "topic") {
				p.report(b, b.Position, problemf("the arguments of the binding of %s do nothing: %q is a %s exchange", endsOf(b), b.Source, t).
					like("have arguments that do nothing: their sources are no headers exchanges"))
			}
		}
	},
}
