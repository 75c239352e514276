package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var upgradeSettingChanges = Rule{
	Code: "upgrade-setting-changes", Severity: diag.Warning, Upgrade: true,
	Summary: "A setting of a queue has another value in effect after the upgrade, begins to act or ends.",
	Doc: "Who wins between argument and policy, and which arguments a broker ignores, changes between versions: on 3.10 the " +
		"policy's expires beats the argument of a quorum queue, from 4.0 on the smaller one counts; an argument " +
		"x-delivery-limit of -1 is 0 before 4.0 and no limit after; delayed-retry arguments do nothing before 4.3 (measured).",
	Fix: "Decide which value is meant and set only that, in one place, before the upgrade.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			t := p.typeOf(q)
			p.onUpgrade(q, q.Position, func(from, to catalog.Version) problem {
				changes := p.settingChanges(q, from, to)
				if len(changes) == 0 {
					return problem{}
				}
				text := strings.Join(changes, "; ")
				return problemf("settings in effect on %s queue %q change with RabbitMQ %s: %s", t, q.Name, to, text).
					like("have other settings in effect on RabbitMQ %s: %s", to, text)
			})
		}
	},
}

// toldElsewhere are settings whose change by an upgrade has a rule of its own.
var toldElsewhere = []string{"consumer-timeout"}

// settingChanges lists the settings that have another value in effect after an
// upgrade, except where the policy behind them changes: upgrade-policy-acts says so.
func (p *Pass) settingChanges(q *topology.Queue, from, to catalog.Version) []string {
	t := p.typeOf(q)
	before, after := p.effective(q, from), p.effective(q, to)
	ofPolicy, ofOperator := changedPolicy(p.match(q, from), p.match(q, to))
	byOther := func(v policy.Value) bool {
		return ofPolicy && v.Origin == policy.FromPolicy || ofOperator && v.Origin == policy.FromOperator
	}
	var changes []string
	for i := range catalog.Settings {
		row := &catalog.Settings[i]
		was, had := before[row.Name]
		is, has := after[row.Name]
		switch {
		case slices.Contains(toldElsewhere, row.Name), !had && !has, had && has && topology.Equal(was.Value, is.Value), byOther(was), byOther(is):
		case !had && row.IsUnlimited(is.Value, to): // as if it were not set
		case !had:
			if isTaken(is, row, t, from) {
				changes = append(changes, fmt.Sprintf("%s begins to act (%s)", row.Name, valueOf(row, is)))
			}
		case !has:
			if !row.IsDeprecated(to) && isTaken(was, row, t, to) {
				changes = append(changes, fmt.Sprintf("%s does nothing any more (%s)", row.Name, valueOf(row, was)))
			}
		default:
			changes = append(changes, fmt.Sprintf("%s is %s, now %s", row.Name, valueOf(row, is), valueOf(row, was)))
		}
	}
	return changes
}

// isTaken reports whether a version takes a setting the way it is set. What it refuses
// other rules tell.
func isTaken(v policy.Value, row *catalog.Setting, t topology.QueueType, version catalog.Version) bool {
	switch v.Origin {
	case policy.FromArgument:
		return accepts(row, t, version)
	case policy.FromOperator:
		return row.TakesOperatorPolicy(version)
	case policy.FromPolicy:
		return row.TakesPolicy(version)
	}
	return false
}

// valueOf writes a value with where it comes from.
func valueOf(row *catalog.Setting, v policy.Value) string {
	text := topology.Text(v.Value)
	if n, ok := v.Value.(int64); ok && row.Name == "delivery-limit" && n < 0 {
		text = "no limit"
	}
	switch {
	case v.Origin == policy.FromArgument:
		return text + " by argument"
	case v.Policy != nil:
		return text + " by " + policyName(v.Policy)
	}
	return text + " by default"
}

var upgradeConsumerTimeout = Rule{
	Code: "upgrade-consumer-timeout", Severity: diag.Warning, Upgrade: true,
	Summary: "A queue's consumer timeout does something else after the upgrade.",
	Doc: "Before 3.12 a queue has none: the argument is ignored, the policy key refused. Up to 4.2 the channel of a consumer " +
		"that holds a delivery for too long is closed, on every type of queue. From 4.3 on quorum queues cancel the consumer " +
		"and the channel stays; on classic queues and streams the policy key does nothing, and the argument is refused " +
		"(measured on 3.10.8, 4.0.5 and 4.3.6).",
	Fix: "See that consumers of quorum queues handle basic.cancel from the broker, and that nothing relies on the timeout of " +
		"another type of queue; remove it there.",
	Check: func(p *Pass) {
		row := catalog.Lookup("consumer-timeout")
		for _, q := range p.ours() {
			t := p.typeOf(q)
			p.onUpgrade(q, place(q, row.Name), func(from, to catalog.Version) problem {
				was, had := p.effective(q, from)[row.Name]
				is, has := p.effective(q, to)[row.Name]
				switch {
				case !had && has && isTaken(is, row, t, from):
					return problemf("the consumer timeout of queue %q begins to act with RabbitMQ %s (%s)", q.Name, to, valueOf(row, is)).
						like("get a consumer timeout that begins to act with RabbitMQ %s (%s)", to, valueOf(row, is))
				case had && !has && isTaken(was, row, t, to):
					return problemf("the consumer timeout of %s queue %q does nothing on RabbitMQ %s (%s)", t, q.Name, to, valueOf(row, was)).
						like("have a consumer timeout that does nothing on RabbitMQ %s (%s)", to, valueOf(row, was))
				case had && has && from.Below(catalog.V(4, 3)) && to.AtLeast(catalog.V(4, 3)):
					return problemf("after the consumer timeout of queue %q RabbitMQ %s cancels the consumer, in place of closing its channel (%s)", q.Name, to, valueOf(row, is)).
						like("have a consumer timeout, after which RabbitMQ %s cancels the consumer in place of closing its channel (%s)", to, valueOf(row, is))
				}
				return problem{}
			})
		}
	},
}

var upgradeMaxAgeCompared = Rule{
	Code: "upgrade-max-age-compared", Severity: diag.Info, Upgrade: true,
	Summary: "From 4.3 on an application may declare a stream's x-max-age in another spelling of the same length.",
	Doc: "4.3 compares `x-max-age` by length: 1M equals 30D. Older versions compare the text and refuse every other spelling " +
		"(406). A spec and applications that disagree in spelling work after the upgrade and not before, nor after a way back.",
	Fix: "Nothing has to be done. Keep one spelling while both versions run.",
	Check: func(p *Pass) {
		for _, q := range p.ours() {
			age, ok := q.Arguments["x-max-age"].(string)
			if !ok || p.typeOf(q) != topology.Stream {
				continue
			}
			p.onUpgrade(q, argumentAt(q, "x-max-age"), func(from, to catalog.Version) problem {
				if from.AtLeast(catalog.V(4, 3)) || to.Below(catalog.V(4, 3)) {
					return problem{}
				}
				return problemf("from RabbitMQ 4.3 on x-max-age %q of stream %q may be declared in another spelling of the same length", age, q.Name).
					like("are streams whose x-max-age may be declared in another spelling of the same length from RabbitMQ 4.3 on")
			})
		}
	},
}

var upgradeDefaultQueueType = Rule{
	Code: "upgrade-default-queue-type", Severity: diag.Warning, Upgrade: true,
	Summary: "A queue without a type is of another type after the upgrade.",
	Doc: "3.10 takes a virtual host's default queue type and declares classic queues all the same; newer versions honour it " +
		"(measured on 3.10.8, 4.0.5 and 4.3.6). A queue that exists keeps its type, and declaring it without one is then refused (406).",
	Fix: "Write the type of each queue that exists, classic, and replace those that are to be of the default type one by one.",
	Check: func(p *Pass) {
		if p.vhost.Settings == nil {
			return
		}
		def := p.vhost.Settings.DefaultQueueType
		if def == "" || def == topology.Classic {
			return
		}
		for _, q := range p.ours() {
			in := intent(q)
			_, written := in.At["type"]
			if q.Intent == nil || written || in.Generated != "" || !q.Durable || q.AutoDelete || q.Exclusive || q.Type != def {
				continue
			}
			p.onUpgrade(q, q.Position, func(from, _ catalog.Version) problem {
				if from.AtLeast(catalog.V(3, 11)) {
					return problem{}
				}
				return problemf("queue %q has no type: RabbitMQ 3.10 has made it classic whatever the default of the virtual host, newer versions expect %s", q.Name, def).
					like("have no type: RabbitMQ 3.10 has made them classic whatever the default of the virtual host, newer versions expect %s", def)
			})
		}
	},
}

var upgradeDelayedMessagePlugin = Rule{
	Code: "upgrade-delayed-message-plugin", Severity: diag.Warning, Upgrade: true,
	Summary: "An exchange depends on the delayed-message plugin.",
	Doc: "The plugin is not part of RabbitMQ and no longer developed; each release series needs a build of its own. Messages that " +
		"wait are kept by one node outside of queues, and are lost with it.",
	Fix: "Replace it by wait queues, one for each delay (`retry: {delays: [...]}`), and let the exchange run empty before the upgrade.",
	Check: func(p *Pass) {
		for _, e := range p.ourExchanges() {
			if e.Type != "x-delayed-message" {
				continue
			}
			p.onUpgrade(e, exchangeAt(e, "type"), func(catalog.Version, catalog.Version) problem {
				return problemf("exchange %q needs the plugin rabbitmq_delayed_message_exchange, whose waiting messages an upgrade can lose", e.Name).
					like("need the plugin rabbitmq_delayed_message_exchange, whose waiting messages an upgrade can lose")
			})
		}
	},
}
