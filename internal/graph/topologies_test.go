package graph_test

import (
	"fmt"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/graph"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var areas = []string{"orders", "payments", "stock", "mail", "audit"}

// generated is a topology of at least n queues: work queues with a wait queue and
// a dead-letter queue each, bound to a few topic exchanges, the first with an
// error and a warning.
func generated(n int) graph.Input {
	v := &topology.VirtualHost{Name: "/"}
	v.Exchanges = append(v.Exchanges, &topology.Exchange{VirtualHost: "/", Name: "unrouted", Type: "fanout", Durable: true})
	v.Queues = append(v.Queues, &topology.Queue{VirtualHost: "/", Name: "unrouted", Type: topology.Stream, Durable: true, Intent: &topology.QueueIntent{}})
	v.Bindings = append(v.Bindings, &topology.Binding{VirtualHost: "/", Source: "unrouted", Destination: "unrouted", DestinationType: topology.ToQueue})
	work := (n + 1) / 3
	for i := range min(len(areas), max(1, work/4)) {
		v.Exchanges = append(v.Exchanges, &topology.Exchange{
			VirtualHost: "/", Name: areas[i], Type: "topic", Durable: true,
			Arguments: topology.Arguments{"alternate-exchange": "unrouted"},
		})
		v.Publishers = append(v.Publishers, &topology.Publisher{Name: areas[i] + "-service", Exchange: areas[i], RoutingKeys: []string{areas[i] + ".created"}})
	}
	exchanges := len(v.Exchanges) - 1
	for i := range work {
		area := areas[i%exchanges]
		name := fmt.Sprintf("%s.work.%03d", area, i)
		v.Queues = append(v.Queues,
			&topology.Queue{VirtualHost: "/", Name: name, Type: topology.Quorum, Durable: true, Intent: &topology.QueueIntent{
				Owner:      area + "-team",
				Retry:      &topology.Retry{MaxAttempts: 5, Mechanism: topology.MechanismWaitQueue, WaitQueues: []string{name + ".retry"}},
				DeadLetter: &topology.DeadLetter{Queue: name + ".dead"},
			}},
			&topology.Queue{VirtualHost: "/", Name: name + ".retry", Type: topology.Quorum, Durable: true, Intent: &topology.QueueIntent{Generated: "retry"}, Arguments: topology.Arguments{
				"x-message-ttl": int64(30000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
			}},
			&topology.Queue{VirtualHost: "/", Name: name + ".dead", Type: topology.Quorum, Durable: true, Intent: &topology.QueueIntent{
				Role: topology.RoleDeadLetter, Owner: area + "-team",
			}})
		v.Policies = append(v.Policies, &topology.Policy{
			VirtualHost: "/", Name: "rabbitctl:" + name, Pattern: "^" + strings.ReplaceAll(name, ".", `\.`) + "$", ApplyTo: "queues", Priority: 1000, Queue: name,
			Definition: topology.Arguments{"delivery-limit": int64(4), "dead-letter-exchange": "", "dead-letter-routing-key": name + ".dead"},
		})
		v.Bindings = append(v.Bindings, &topology.Binding{VirtualHost: "/", Source: area, Destination: name, DestinationType: topology.ToQueue, RoutingKey: fmt.Sprintf("%s.%d.#", area, i)})
		if i < 2 {
			v.Consumers = append(v.Consumers, &topology.Consumer{Name: area + "-worker", Queue: name, Prefetch: 20})
		}
	}
	first := v.Queues[1]
	return graph.Input{
		Title: fmt.Sprintf("%d queues", len(v.Queues)), Topology: &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}, Version: catalog.V(4, 3),
		Findings: diag.List{
			{Severity: diag.Error, Code: "dead-letter-unroutable", Summary: "queue \"" + first.Name + "\" dead-letters to nowhere", Detail: "Declare the target.", Object: first.Key()},
			{Severity: diag.Warning, Code: "policy-hidden", Summary: "its policy hides another", Object: v.Policies[0].Key()},
			{Severity: diag.Info, Code: "a-note", Summary: "good to know", Object: v.Exchanges[0].Key()},
		},
	}
}

// lastWorkQueue is the name of the last work queue of generated(n).
func lastWorkQueue(n int) string {
	v := generated(n).Topology.VirtualHosts[0]
	return strings.TrimSuffix(v.Queues[len(v.Queues)-1].Name, ".dead")
}

// hostileNames try to break out of every language that a drawing is written in.
var hostileNames = []string{
	``,
	`"`,
	`'`,
	`\`,
	`a\"b`,
	`\N\G\l`,
	`a:b:c`,
	`<script>window.broken = 1</script>`,
	`</script><script>window.broken = 1</script>`,
	`<img src=x onerror="window.broken = 1">`,
	`"><svg onload="window.broken = 1">`,
	`</title></style><b>`,
	`]]>`,
	`-->`,
	`<!--`,
	`&lt;b&gt; &quot; &#34; &amp`,
	"line\nbreak\r\ttab",
	"\x00\x01\x1b[31m",
	"\xff\xfe invalid",
	"\u202eoverride\u2028\u2066",
	"\ufffe\uffff",
	`brackets ]}>)|[({<`,
	`"]; x --> y; click x href "http://example.org"`,
	`%%{init: {"theme": "forest"}}%%`,
	`style a fill:#f00;`,
	`end`,
	`subgraph x`,
	`#quot; #35; #`,
	"`markdown` **bold** _x_ ~~y~~",
	`1. list`,
	`- list`,
	`n1`,
	`{{x}} ${y} {{ 7 * 7 }}`,
	`日本語のキュー`,
	`очередь`,
	`قائمة`,
	"e\u0301\u0302\u0303 combining",
	`😀🐇`,
	strings.Repeat("x", 255),
	strings.Repeat("W", 255),
	strings.Repeat("語", 85),
	strings.Repeat("😀", 63),
	strings.Repeat("%", 255),
}

// hostile is a topology in which every text is one of hostileNames.
func hostile() graph.Input {
	vhost := `</script>"vhost`
	v := &topology.VirtualHost{Name: vhost}
	var findings diag.List
	for i, name := range hostileNames {
		v.Exchanges = append(v.Exchanges, &topology.Exchange{VirtualHost: vhost, Name: name + "x", Type: name, Arguments: topology.Arguments{name: name, "alternate-exchange": hostileNames[(i+1)%len(hostileNames)] + "x"}})
		v.Queues = append(v.Queues, &topology.Queue{VirtualHost: vhost, Name: name, Type: topology.Classic, Arguments: topology.Arguments{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name + "missing", name: []any{name},
		}, Intent: &topology.QueueIntent{Owner: name, Generated: name, Loses: map[string]string{name: name}}})
		v.Bindings = append(v.Bindings, &topology.Binding{VirtualHost: vhost, Source: name + "x", Destination: name, DestinationType: topology.ToQueue, RoutingKey: name, Arguments: topology.Arguments{name: name}})
		v.Policies = append(v.Policies, &topology.Policy{VirtualHost: vhost, Name: name, Pattern: ".*", Priority: int64(i), Definition: topology.Arguments{"max-length": int64(i), "alternate-exchange": name}})
		v.Publishers = append(v.Publishers, &topology.Publisher{Name: name, Exchange: name + "x", RoutingKeys: []string{name}, Headers: map[string]any{name: name}, CC: []string{name}})
		v.Consumers = append(v.Consumers, &topology.Consumer{Name: name, Queue: name})
		for _, key := range []topology.Key{v.Queues[i].Key(), v.Exchanges[i].Key(), v.Bindings[i].Key(), {}} {
			findings.Add(diag.Diagnostic{Severity: diag.Error, Code: "hostile-name", Summary: "wrong: " + name, Detail: name, Object: key})
		}
	}
	other := &topology.VirtualHost{Name: `%%{init}%%`, Queues: []*topology.Queue{{VirtualHost: `%%{init}%%`, Name: "n1"}}}
	return graph.Input{
		Title: strings.Join(hostileNames[:20], " "), Notes: hostileNames, Findings: findings,
		Topology: &topology.Topology{VirtualHosts: []*topology.VirtualHost{v, other}},
	}
}
