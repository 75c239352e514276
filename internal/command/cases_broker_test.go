package command_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

// onVHost writes a spec for a virtual host.
func onVHost(t *testing.T, vhost, text string) string {
	t.Helper()
	return writeSpec(t, fmt.Sprintf("version: 1\nvhost: %q\n%s\n", vhost, text))
}

// planned runs plan --detailed-exitcode and returns one "ACTION KIND/NAME" for each
// change, with " blocked" at the end where it is.
func planned(t *testing.T, b *brokertest.Broker, exit int, spec string) ([]string, result) {
	t.Helper()
	r := runWith(t, b, "plan", "--detailed-exitcode", "--format", "json", spec)
	r.want(t, exit)
	var p struct {
		Changes []struct {
			Actions []string
			Object  struct{ Kind, Name string }
			Blocked []any
		}
	}
	if err := json.Unmarshal([]byte(r.out), &p); err != nil {
		t.Fatalf("%v\n%s", err, r.out)
	}
	var all []string
	for _, c := range p.Changes {
		action := strings.Join(c.Actions, "+")
		if action == "delete+create" {
			action = "replace"
		}
		s := action + " " + c.Object.Kind + "/" + c.Object.Name
		if len(c.Blocked) > 0 {
			s += " blocked"
		}
		all = append(all, s)
	}
	return all, r
}

// secondPlanIsEmpty checks a spec that was applied.
func secondPlanIsEmpty(t *testing.T, b *brokertest.Broker, spec string) {
	t.Helper()
	if changes, r := planned(t, b, 0, spec); len(changes) > 0 {
		t.Errorf("the second plan: %q\n%s", changes, r.err)
	}
	runWith(t, b, "check", spec).want(t, 0)
}

func wantPlan(t *testing.T, b *brokertest.Broker, exit int, spec string, want []string, says ...string) {
	t.Helper()
	got, r := planned(t, b, exit, spec)
	if !slices.Equal(got, want) {
		t.Errorf("plan: %q, want %q\n%s", got, want, r.err)
	}
	text := runWith(t, b, "plan", spec)
	for _, words := range says {
		if !strings.Contains(text.out+text.err, words) {
			t.Errorf("the plan does not say %q:\n%s%s", words, text.out, text.err)
		}
	}
}

// queueArguments are a live queue's arguments without its type, which a default
// type may have added.
func queueArguments(t *testing.T, b *brokertest.Broker, vhost, name string) map[string]any {
	t.Helper()
	q, ok := liveQueues(t, b, vhost)[name]
	if !ok {
		t.Fatalf("there is no queue %q", name)
	}
	delete(q.Arguments, "x-queue-type")
	return q.Arguments
}

// TestRowA21: the wait queue of delays on messages has exactly two arguments.
func TestRowA21(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, kind := range []string{"classic", "quorum"} {
			t.Run(kind, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				spec := onVHost(t, vhost, fmt.Sprintf("queues:\n  refunds: {type: %s, retry: {max_attempts: 5, delays: [2s], mechanism: per-message}, dead_letter: d}\n  d: {%s}", kind, owned))
				runWith(t, b, "apply", "--yes", spec).want(t, 0)
				want := map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "refunds"}
				if kind == "quorum" {
					want["x-dead-letter-strategy"], want["x-overflow"] = "at-least-once", "reject-publish"
				}
				if got := queueArguments(t, b, vhost, "refunds.retry"); !reflect.DeepEqual(got, want) {
					t.Errorf("arguments of refunds.retry: %v, want %v", got, want)
				}
				secondPlanIsEmpty(t, b, spec)
			})
		}
	})
}

// TestRowA24 is the reason for the rule mixed-delays: a long delay holds up the
// short one behind it, on classic and on quorum queues.
func TestRowA24(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		for _, kind := range []string{"classic", "quorum"} {
			b.DeclareQueue(t, vhost, kind, amqp091.Table{"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": kind + ".back"})
			b.DeclareQueue(t, vhost, kind+".back", nil)
			b.Publish(t, vhost, "", kind, 2, func(i int, m *amqp091.Publishing) { m.Expiration = []string{"1500", "100"}[i] })
		}
		time.Sleep(700 * time.Millisecond)
		for _, kind := range []string{"classic", "quorum"} {
			if n := b.Depth(t, vhost, kind+".back"); n != 0 {
				t.Errorf("%s: %d came back before the first one's time", kind, n)
			}
		}
		for _, kind := range []string{"classic", "quorum"} {
			b.AwaitDepth(t, vhost, kind+".back", 2, 10*time.Second)
		}
	})
}

// TestRowA25: a missing plugin is found in the overview, and nothing is tried.
func TestRowA25(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "queues:\n  refunds: {type: classic, retry: {max_attempts: 5, delays: [2s], mechanism: delayed-exchange}, dead_letter: d}\n  d: {"+owned+"}")
		api, amqp := brokertest.HTTPProxy(t, b, nil), brokertest.Proxy(t, b.AMQPAddress())
		env := append(environmentAt(api.URL, b), "RABBITCTL_AMQP_URL=amqp://"+amqp.Address)
		for _, command := range [][]string{{"plan"}, {"plan", "--detailed-exitcode"}, {"apply", "--yes"}, {"apply", "--yes", "--skip-blocked"}} {
			r := runCommand(t, env, append(command, spec)...)
			r.want(t, 3)
			if !strings.Contains(r.err, "rabbitmq_delayed_message_exchange") {
				t.Errorf("%v does not name the plugin:\n%s", command, r.err)
			}
			if w := api.Writes(); len(w) > 0 || command[0] == "plan" && amqp.Connections() > 0 { // apply has a lock
				t.Errorf("%v: writes %v, AMQP connections %d", command, w, amqp.Connections())
			}
		}
		if len(liveQueues(t, b, vhost)) > 0 {
			t.Error("something was declared")
		}
	})
}

// TestRowA29: max_attempts and dead_letter as a policy and as arguments, with an
// exchange of the spec's own kept.
func TestRowA29(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		for _, by := range []string{"policy", "arguments"} {
			t.Run(by, func(t *testing.T) {
				vhost := b.VirtualHost(t)
				spec := onVHost(t, vhost, fmt.Sprintf("defaults: {queue: {settings_by: %s}}\nexchanges: {dlx: {type: direct}}\nqueues:\n"+
					"  short: {type: quorum, retry: {max_attempts: 5}, dead_letter: dead}\n"+
					"  own: {type: quorum, retry: {max_attempts: 1}, dead_letter: {queue: dead, via: dlx}}\n  dead: {%s}", by, owned))
				runWith(t, b, "apply", "--yes", spec).want(t, 0)
				queues, policies := liveQueues(t, b, vhost), livePolicies(t, b, vhost)
				for name, want := range map[string]map[string]any{
					"short": {"delivery-limit": 4.0, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"},
					"own":   {"delivery-limit": 0.0, "dead-letter-exchange": "dlx", "dead-letter-routing-key": "dead"},
				} {
					if queues[name].Arguments["x-queue-type"] != "quorum" {
						t.Errorf("%s: %v", name, queues[name].Arguments)
					}
					got := policies["rabbitctl:"+name]
					if by == "arguments" {
						got = map[string]any{}
						for key, value := range queueArguments(t, b, vhost, name) {
							got[strings.TrimPrefix(key, "x-")] = value
						}
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%s: %v, want %v", name, got, want)
					}
				}
				secondPlanIsEmpty(t, b, spec)
			})
		}
	})
}

// TestRowA30: argument and policy, the smaller limit wins; plan says which limit
// is in effect, and as many deliveries happen.
func TestRowA30(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		b.DeclareQueue(t, vhost, "dead", nil)
		for name, limits := range map[string][2]int{"low.policy": {5, 2}, "low.argument": {2, 5}, "none": {0, 5}} {
			t.Run(name, func(t *testing.T) {
				pattern := "^" + strings.ReplaceAll(name, ".", `\.`) + "$"
				b.Put(t, brokertest.Path("policies", vhost, name), map[string]any{
					"pattern": pattern, "apply-to": "queues", "definition": map[string]any{"delivery-limit": limits[1]},
				})
				spec := onVHost(t, vhost, fmt.Sprintf("queues:\n  %s: {type: quorum, settings_by: arguments, delivery_limit: %d, dead_letter: dead}\n  dead: {external: true}", name, limits[0]))
				effective := min(limits[0], limits[1])
				if limits[0] == effective {
					runWith(t, b, "apply", "--yes", spec).want(t, 0)
				} else {
					wantPlan(t, b, 4, spec, []string{"create queue/" + name + " blocked"}, fmt.Sprintf("is declared as %d, in effect will be %d", limits[0], effective))
					b.DeclareQueue(t, vhost, name, map[string]any{
						"x-queue-type": "quorum", "x-delivery-limit": int64(limits[0]), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead",
					})
				}
				b.Publish(t, vhost, "", name, 1)
				if got := deliveriesUntilDead(t, b, vhost, name); got != effective+1 {
					t.Errorf("%d deliveries, want %d", got, effective+1)
				}
			})
		}
	})
}

// deliveriesUntilDead returns the message of a queue to it until it is in "dead".
func deliveriesUntilDead(t *testing.T, b *brokertest.Broker, vhost, queue string) int {
	t.Helper()
	ch := b.Channel(t, vhost)
	before, n := b.Depth(t, vhost, "dead"), 0
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		m, ok, err := ch.Get(queue, false)
		switch {
		case err != nil:
			t.Fatal(err)
		case ok:
			n++
			if err := m.Reject(true); err != nil {
				t.Fatal(err)
			}
		case b.Depth(t, vhost, "dead") > before:
			return n
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
	t.Fatalf("the message of %q is not dead-lettered after %d deliveries", queue, n)
	return n
}

// TestRowA31: half a declaration is refused before anything is asked to change.
func TestRowA31(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		api := brokertest.HTTPProxy(t, b, nil)
		for _, half := range []string{"retry: {max_attempts: 3}", "delivery_limit: 3"} {
			spec := onVHost(t, vhost, "queues:\n  payouts: {type: quorum, "+half+"}\n  other: {type: classic}")
			for _, command := range [][]string{{"plan"}, {"apply", "--yes"}, {"apply", "--yes", "--skip-blocked"}} {
				r := runCommand(t, environmentAt(api.URL, b), append(command, spec)...)
				r.want(t, 3)
				if !strings.Contains(r.err, `queue "payouts"`) || !strings.Contains(r.err, "cap-without-dead-letter") {
					t.Errorf("%v:\n%s", command, r.err)
				}
			}
		}
		if w := api.Writes(); len(w) > 0 || len(liveQueues(t, b, vhost)) > 0 {
			t.Errorf("written: %v", w)
		}
	})
}

// TestRowA35: equal is left alone, and another argument is said with both values.
func TestRowA35(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := "defaults: {queue: {settings_by: arguments}}\nexchanges: {orders: {type: topic}}\nqueues:\n" +
			"  refunds: {type: classic, message_ttl: %s, retry: {max_attempts: 5, delays: [2s]}, dead_letter: d, " +
			"bindings: [{exchange: orders, routing_key: r}, {exchange: amq.topic, routing_key: z}]}\n  d: {" + owned + "}"
		spec := onVHost(t, vhost, fmt.Sprintf(text, "1m"))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		before := definitions(t, b, vhost)
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if definitions(t, b, vhost) != before {
			t.Error("the second run changed something")
		}
		changed := onVHost(t, vhost, fmt.Sprintf(text, "2m"))
		wantPlan(t, b, 4, changed, []string{"replace queue/refunds blocked"}, "x-message-ttl: 60000 -> 120000")
		runWith(t, b, "apply", "--yes", changed).want(t, 4)
		r := runWith(t, b, "check", changed)
		r.want(t, 2)
		if !strings.Contains(r.out, `queue "refunds"`) || !strings.Contains(r.out, "x-message-ttl: want 120000, have 60000") {
			t.Errorf("check:\n%s", r.out)
		}
		if definitions(t, b, vhost) != before {
			t.Error("the refused change changed something")
		}
	})
}

// TestRowA37: the width of an integer is no difference, the type of a queue is.
func TestRowA37(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		for name, value := range map[string]any{"short": int16(1000), "int": int32(1000), "long": int64(1000)} {
			b.DeclareQueue(t, vhost, name, amqp091.Table{"x-queue-type": "quorum", "x-message-ttl": value})
		}
		text := "defaults: {queue: {type: %s, settings_by: arguments, message_ttl: 1s, loses: {rejected: test, expired: test, delivery_limit: test}}}\nqueues: {short: {}, int: {}, long: {}}"
		secondPlanIsEmpty(t, b, onVHost(t, vhost, fmt.Sprintf(text, "quorum")))
		wantPlan(t, b, 4, onVHost(t, vhost, strings.Replace(fmt.Sprintf(text, "classic"), ", delivery_limit: test", "", 1)),
			[]string{"replace queue/int blocked", "replace queue/long blocked", "replace queue/short blocked"}, `type: "quorum" -> "classic"`)
	})
}

// TestRowB9: what the categories example makes of an empty broker, name by name.
func TestRowB9(t *testing.T) {
	want := []string{
		"binding work.dead-letter => business all-with-x business-logic", "binding work.dead-letter => transient all-with-x transient",
		"binding work.dead-letter.otherwise => other  ", "exchange work.dead-letter headers work.dead-letter.otherwise true",
		"exchange work.dead-letter.otherwise fanout  true", "queue business quorum true", "queue other stream true", "queue transient quorum true", "queue work quorum true",
	}
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "queues:\n  work:\n    type: quorum\n    max_length: 1000\n    retry: {max_attempts: 3}\n    dead_letter:\n      strategy: at-least-once\n"+
			"      categories:\n        header: x-opt-dead-letter-category\n        routes:\n          transient: {queue: transient, owner: platform, replay: automatic}\n"+
			"          business-logic: {queue: business, owner: sales, replay: manual}\n        otherwise: {queue: other, type: stream, owner: platform}")
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		var d struct {
			Queues, Exchanges, Bindings []struct {
				Name, Type, Source, Destination string
				Durable                         bool
				Arguments                       map[string]string
			}
		}
		if err := json.Unmarshal([]byte(definitions(t, b, vhost)), &d); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, q := range d.Queues {
			got = append(got, fmt.Sprintf("queue %s %s %v", q.Name, q.Arguments["x-queue-type"], q.Durable))
		}
		for _, x := range d.Exchanges {
			got = append(got, fmt.Sprintf("exchange %s %s %s %v", x.Name, x.Type, x.Arguments["alternate-exchange"], x.Durable))
		}
		for _, n := range d.Bindings {
			got = append(got, fmt.Sprintf("binding %s => %s %s %s", n.Source, n.Destination, n.Arguments["x-match"], n.Arguments["x-opt-dead-letter-category"]))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if route := livePolicies(t, b, vhost)["rabbitctl:work"]; route["dead-letter-exchange"] != "work.dead-letter" || route["dead-letter-routing-key"] != nil {
			t.Errorf("route %v", route)
		}
		secondPlanIsEmpty(t, b, spec)
	})
}

// TestRowC12: the binding of a dead-letter exchange is missed when it is gone.
func TestRowC12(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		spec := onVHost(t, vhost, "exchanges: {dlx: {type: direct}}\nqueues: {w: {type: classic, dead_letter: {queue: d, via: dlx}}, d: {"+owned+"}}")
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if status, body := b.Do(t, "DELETE", "/api/bindings/"+url.PathEscape(vhost)+"/e/dlx/q/d/d", nil); status != 204 {
			t.Fatalf("%d %s", status, body)
		}
		wantPlan(t, b, 2, spec, []string{"create binding/dlx => queue d [d]"})
		r := runWith(t, b, "check", spec)
		r.want(t, 2)
		if !strings.Contains(r.out, `missing: binding "dlx => queue d [d]"`) {
			t.Errorf("check:\n%s", r.out)
		}
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		secondPlanIsEmpty(t, b, spec)
	})
}

// TestRowC15: durations and sizes are integers on the broker.
func TestRowC15(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		vhost := b.VirtualHost(t)
		text := "queues: {w: {type: classic, settings_by: %s, message_ttl: \"30s\", expires: 1h30m, max_length_bytes: 10MB, loses: {rejected: test, expired: test, overflow: test}}}"
		want := map[string]any{"message-ttl": 30000.0, "expires": 5400000.0, "max-length-bytes": 10000000.0}
		spec := onVHost(t, vhost, fmt.Sprintf(text, "policy"))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if got := livePolicies(t, b, vhost)["rabbitctl:w"]; !reflect.DeepEqual(got, want) {
			t.Errorf("policy %v, want %v", got, want)
		}
		secondPlanIsEmpty(t, b, spec)

		vhost = b.VirtualHost(t)
		spec = onVHost(t, vhost, fmt.Sprintf(text, "arguments"))
		runWith(t, b, "apply", "--yes", spec).want(t, 0)
		if got := queueArguments(t, b, vhost, "w"); got["x-message-ttl"] != 30000.0 || got["x-expires"] != 5400000.0 || got["x-max-length-bytes"] != 10000000.0 {
			t.Errorf("arguments %v", got)
		}
		secondPlanIsEmpty(t, b, spec)
	})
}
