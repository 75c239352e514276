package validate

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

const (
	shovelComponent      = "shovel"
	upstreamComponent    = "federation-upstream"
	upstreamSetComponent = "federation-upstream-set"
)

// componentPlugins are the plugins that know the components of parameters.
var componentPlugins = map[string]string{
	shovelComponent:      "rabbitmq_shovel",
	upstreamComponent:    "rabbitmq_federation",
	upstreamSetComponent: "rabbitmq_federation",
}

// shovelEnd is one end of a shovel, where it is AMQP 0.9.1.
type shovelEnd struct {
	source          bool
	queue, exchange string
	// predeclared: the shovel does not make the queue.
	predeclared bool
	// here: the end is certainly in the same virtual host of the same broker.
	here         bool
	consumerArgs map[string]any
}

// shovelEnds reads the ends of a shovel. Its URIs hold passwords: none of their
// text is kept.
func (s *state) shovelEnds(p *topology.Parameter) []shovelEnd {
	value, _ := p.Value.(map[string]any)
	if p.Component != shovelComponent || value == nil {
		return nil
	}
	var ends []shovelEnd
	for _, prefix := range []string{"src-", "dest-"} {
		text := func(key string) string { t, _ := value[prefix+key].(string); return t }
		if protocol := text("protocol"); protocol != "" && protocol != "amqp091" && protocol != "local" {
			continue
		}
		end := shovelEnd{source: prefix == "src-", queue: text("queue"), exchange: text("exchange")}
		end.predeclared, _ = value[prefix+"predeclared"].(bool)
		end.consumerArgs, _ = value[prefix+"consumer-args"].(map[string]any)
		end.here = s.isHere(value[prefix+"uri"])
		ends = append(ends, end)
	}
	return ends
}

// isHere reports whether a shovel's URI, or each of a list, certainly names the
// virtual host itself. A URI without a host is the broker that runs the shovel.
func (s *state) isHere(uri any) bool {
	uris, isList := uri.([]any)
	if !isList {
		uris = []any{uri}
	}
	for _, one := range uris {
		text, _ := one.(string)
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "amqp" || u.Host != "" || u.User != nil || strings.Contains(text, "${") {
			return false
		}
		// Without a path it is the default virtual host.
		if u.Path == "" && s.vhost.Name != "/" || u.Path != "" && u.Path[1:] != s.vhost.Name {
			return false
		}
	}
	return len(uris) > 0
}

var shovelEndMissing = Rule{
	Code: "shovel-end-missing", Severity: diag.Error,
	Summary: "A shovel inside the broker reads from or writes to a queue or exchange that is not declared.",
	Doc: "A shovel makes a queue that is not there: durable, of the default type, without any setting, so that nobody has " +
		"said what becomes of its messages, and often nobody reads them. It does not make exchanges, and with " +
		"`src-predeclared` or `dest-predeclared` no queues: it then fails and starts again and again (RabbitMQ's documentation). " +
		"Only ends are looked at whose URI names the same virtual host of the same broker: `amqp:///VHOST`.",
	Fix: "Declare it, or mark it `external: true` when somebody else does.",
	Check: func(p *Pass) {
		for _, shovel := range p.vhost.Parameters {
			for _, end := range p.shovelEnds(shovel) {
				if end.here {
					p.report(shovel, shovel.Position, p.shovelEnd(shovel.Name, end))
				}
			}
		}
	},
}

// shovelEnd says what is wrong with an end of a shovel.
func (p *Pass) shovelEnd(shovel string, end shovelEnd) problem {
	does := "writes to"
	if end.source {
		does = "reads from"
	}
	kind, name, known, near, then := "queue", end.queue, missing, "", "the shovel makes a plain queue by itself"
	switch {
	case end.queue != "":
		_, known = p.queue(name)
		near = p.nearestQueue(name)
		if end.predeclared {
			then = "the shovel does not start"
		}
	case end.exchange != "":
		kind, name, then = "exchange", end.exchange, "the shovel fails each time it starts"
		_, known = p.exchange(name)
		near = p.nearestExchange(name)
	default:
		return problem{}
	}
	switch {
	case known == liveOnly:
		return problemf("shovel %q %s %s %q, which is on the broker and not in the spec", shovel, does, kind, name).
			as(diag.Warning).do("Declare it, or mark it external: true so that it is checked.")
	case known != missing:
		return problem{}
	}
	b := problemf("shovel %q %s %s %q, which is not declared: %s", shovel, does, kind, name, then)
	if near != "" {
		b = b.do("Did you mean %q? Otherwise declare it, or mark it external: true when somebody else does.", near)
	}
	return b
}

var shovelStreamWithoutOffset = Rule{
	Code: "shovel-stream-without-offset", Severity: diag.Error,
	Summary: "A shovel reads a stream and does not say from where.",
	Doc: "A consumer of a stream that gives no `x-stream-offset` gets only what is published after it came (measured): what " +
		"arrives while the shovel is down or not yet there never gets to the other end.",
	Fix: "Set `src-consumer-args: {x-stream-offset: ...}`. A shovel does not remember where it was: with `first` it sends all " +
		"that the stream has each time it starts, and with a duration such as `1h` what came since then, so the other end must bear repetitions.",
	Check: func(p *Pass) {
		for _, shovel := range p.vhost.Parameters {
			for _, end := range p.shovelEnds(shovel) {
				if !end.source || !end.here || end.queue == "" || end.consumerArgs["x-stream-offset"] != nil {
					continue
				}
				if q, _ := p.queue(end.queue); q != nil && p.typeOf(q) == topology.Stream {
					p.report(shovel, shovel.Position,
						problemf("shovel %q reads the stream %q without x-stream-offset: what arrives while it is down is left out", shovel.Name, end.queue))
				}
			}
		}
	},
}

var parameterNeedsPlugin = Rule{
	Code: "parameter-needs-plugin", Severity: diag.Info,
	Summary: "A parameter belongs to a component that only a plugin brings.",
	Doc: "Without the plugin the broker answers 400, `component shovel not found`. An import of definitions stops there: queues " +
		"and bindings, which come later, are not made (both measured). It is an error where a broker of RabbitMQ below 4.1 is known " +
		"not to have the exchange type that rabbitmq_federation brings.",
	Fix: "See that the plugin is enabled on every broker that gets the spec, and name it in `requires: {plugins: [...]}`.",
	Check: func(p *Pass) {
		if p.live == nil && p.exchangeTypes != nil {
			return // a broker has them
		}
		for _, component := range sortedKeys(componentPlugins) {
			of := keepParameters(p.vhost.Parameters, component)
			if len(of) == 0 || p.live != nil && len(keepParameters(p.live.Parameters, component)) > 0 {
				continue
			}
			plugin := componentPlugins[component]
			what := fmt.Sprintf("parameter %q of component %s needs", of[0].Name, component)
			if len(of) > 1 {
				what = fmt.Sprintf("%d parameters of component %s need", len(of), component)
			}
			switch {
			case p.lacksFederation(plugin):
				p.report(of[0], of[0].Position, problemf("%s the plugin %s, which the broker does not have", what, plugin).
					as(diag.Error).do("Enable %s on the broker.", plugin))
			case !slices.Contains(p.vhost.Plugins, plugin):
				p.report(of[0], of[0].Position, problemf("%s the plugin %s", what, plugin))
			}
		}
	},
}

func keepParameters(all []*topology.Parameter, component string) []*topology.Parameter {
	var kept []*topology.Parameter
	for _, p := range all {
		if p.Component == component {
			kept = append(kept, p)
		}
	}
	return kept
}

// lacksFederation reports whether the broker is known not to have the plugin for
// federation: up to 4.0 it is one plugin that brings an exchange type; later ones
// can have federation of queues alone.
func (p *Pass) lacksFederation(plugin string) bool {
	return plugin == "rabbitmq_federation" && p.exchangeTypes != nil && p.newest().Below(catalog.V(4, 1)) &&
		!slices.Contains(p.exchangeTypes, "x-federation-upstream")
}

var federationUpstreamMissing = Rule{
	Code: "federation-upstream-missing", Severity: diag.Warning,
	Summary: "A policy or an upstream set names a federation upstream that is not among the parameters.",
	Doc: "No link is started, and nothing comes from there; only the log of the broker tells. Looked at where the virtual " +
		"host's spec declares federation parameters at all.",
	Fix: "Correct the name, or declare the upstream under `parameters: {federation-upstream: ...}`.",
	Check: func(p *Pass) {
		known := map[string]map[string]bool{upstreamComponent: {}, upstreamSetComponent: {"all": true}}
		all := p.vhost.Parameters
		if len(keepParameters(all, upstreamComponent))+len(keepParameters(all, upstreamSetComponent)) == 0 {
			return
		}
		if p.live != nil {
			all = slices.Concat(all, p.live.Parameters)
		}
		for _, parameter := range all {
			if names := known[parameter.Component]; names != nil {
				names[parameter.Name] = true
			}
		}
		for _, set := range keepParameters(p.vhost.Parameters, upstreamSetComponent) {
			members, _ := set.Value.([]any)
			for _, m := range members {
				member, _ := m.(map[string]any)
				if name, ok := member["upstream"].(string); ok && !known[upstreamComponent][name] {
					p.report(set, set.Position, problemf("upstream set %q names the upstream %q, which is not declared", set.Name, name))
				}
			}
		}
		for _, policy := range p.specPolicies() {
			for _, component := range []string{upstreamComponent, upstreamSetComponent} {
				if name, ok := policy.Definition[component].(string); ok && !known[component][name] {
					p.report(policy, keyAt(policy, component),
						problemf("%s sets %s to %q, which is not declared", policyName(policy), component, name))
				}
			}
		}
	},
}
