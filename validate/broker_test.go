package validate

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var errNothing = errors.New("the queue is empty")

// What a broker says to a declaration: an AMQP code, an HTTP status, or one of
// these.
const (
	taken   = 0  // taken, and the rule reports it all the same
	right   = -1 // taken, and there is nothing to report
	leftOut = -2 // not tried
)

// brokerCase declares objects one by one on a real broker. All but the last must
// be taken; the last is what the rule is about.
type brokerCase struct {
	name     string
	code     string
	severity diag.Severity // of the finding, error when empty
	objects  []topology.Object
	// answers are by release; one that is absent is that of the release before.
	v310, v40, v43 int
}

// all is a case that every release answers alike.
func all(code, name string, answer int, objects ...topology.Object) brokerCase {
	return brokerCase{name: name, code: code, objects: objects, v310: answer, v40: answer, v43: answer}
}

// by is a case that releases answer differently.
func by(code, name string, v310, v40, v43 int, objects ...topology.Object) brokerCase {
	return brokerCase{name: name, code: code, objects: objects, v310: v310, v40: v40, v43: v43}
}

func (c brokerCase) as(s diag.Severity) brokerCase {
	c.severity = s
	return c
}

// onlySince40 leaves older brokers out, onlyBefore43 newer ones: there another
// rule says more.
func (c brokerCase) onlySince40() brokerCase {
	c.v310 = leftOut
	return c
}

func (c brokerCase) onlyBefore43() brokerCase {
	c.v43 = leftOut
	return c
}

func (c brokerCase) answer(b *brokertest.Broker) int {
	switch {
	case b.AtLeast("4.3"):
		return c.v43
	case b.AtLeast("4.0"):
		return c.v40
	}
	return c.v310
}

type args = topology.Arguments

func q(t topology.QueueType, a args) *topology.Queue { return named("q", t, a) }

func named(name string, t topology.QueueType, a args) *topology.Queue {
	return &topology.Queue{Name: name, Type: t, Durable: true, Arguments: a, Intent: &topology.QueueIntent{}}
}

func flagged(t topology.QueueType, durable, autoDelete bool) *topology.Queue {
	return &topology.Queue{Name: "q", Type: t, Durable: durable, AutoDelete: autoDelete, Intent: &topology.QueueIntent{}}
}

func x(name, kind string, a args) *topology.Exchange {
	return &topology.Exchange{Name: name, Type: kind, Durable: true, Arguments: a, Intent: &topology.ExchangeIntent{}}
}

func bound(source, key string, a args) *topology.Binding {
	return &topology.Binding{Source: source, Destination: "q", DestinationType: topology.ToQueue, RoutingKey: key, Arguments: a}
}

func policyOf(applyTo, pattern string, a args) *topology.Policy {
	return &topology.Policy{Name: "p", ApplyTo: applyTo, Pattern: pattern, Definition: a}
}

func operator(a args) *topology.Policy {
	return &topology.Policy{Name: "p", Operator: true, ApplyTo: "queues", Pattern: "^q$", Definition: a}
}

var (
	classic, quorum, stream = topology.Classic, topology.Quorum, topology.Stream
	plain                   = func() *topology.Queue { return q(classic, nil) }
	dead                    = func() *topology.Queue { return named("dead", classic, nil) }
)

// TestRulesOnBrokers holds the rules that say what a broker refuses or accepts
// (rows A37 and A38) to what brokers do.
func TestRulesOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		version, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		vhost := b.VirtualHost(t)
		for _, c := range slices.Concat(refusedCases(), acceptedCases(), policyCases()) {
			t.Run(c.code+"/"+c.name, func(t *testing.T) {
				want := c.answer(b)
				if want == leftOut {
					return
				}
				defer remove(t, b, vhost, c.objects)
				last := len(c.objects) - 1
				for i, o := range c.objects {
					answer, text := declare(t, b, vhost, o)
					if i < last && answer != 0 {
						t.Fatalf("the broker refused what the case needs, %s: %d %s", o.Key(), answer, text)
					}
					if i == last && answer != max(want, 0) {
						t.Errorf("the broker answered %d %s, want %d", answer, text, max(want, 0))
					}
				}
				judge(t, c, want, version)
			})
		}
	})
}

// hostOf makes a topology of objects.
func hostOf(objects []topology.Object) *topology.Topology {
	vhost := &topology.VirtualHost{Name: "v"}
	for _, o := range objects {
		switch o := o.(type) {
		case *topology.Queue:
			vhost.Queues = append(vhost.Queues, o)
		case *topology.Exchange:
			vhost.Exchanges = append(vhost.Exchanges, o)
		case *topology.Binding:
			vhost.Bindings = append(vhost.Bindings, o)
		case *topology.Policy:
			if o.Operator {
				vhost.OperatorPolicies = append(vhost.OperatorPolicies, o)
			} else {
				vhost.Policies = append(vhost.Policies, o)
			}
		}
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{vhost}}
}

// judge runs the rules over the same objects.
func judge(t *testing.T, c brokerCase, want int, v catalog.Version) {
	t.Helper()
	list := Check(Input{Topology: hostOf(c.objects), Versions: []catalog.Version{v}})
	severity := c.severity
	if severity == "" {
		severity = diag.Error
	}
	found := slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == c.code && d.Severity == severity })
	if found != (want != right) {
		t.Errorf("reported as %s %s: %v, want %v; findings:\n%s", severity, c.code, found, want != right, describe(list))
	}
}

// declare sends one object as it is and returns the code of a refusal, 0 for
// none.
func declare(t *testing.T, b *brokertest.Broker, vhost string, o topology.Object) (int, string) {
	t.Helper()
	if p, ok := o.(*topology.Policy); ok {
		kind := "policies"
		if p.Operator {
			kind = "operator-policies"
		}
		status, body := b.Do(t, http.MethodPut, brokertest.Path(kind, vhost, p.Name), map[string]any{
			"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition,
		})
		if status/100 == 2 {
			return 0, ""
		}
		return status, string(body)
	}
	// Each object has a connection of its own: some refusals close it.
	connection, err := amqp.Dial(b.AMQPURL(vhost))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	switch o := o.(type) {
	case *topology.Queue:
		table := amqp.Table{"x-queue-type": string(o.Type)}
		for k, v := range o.Arguments {
			table[k] = v
		}
		_, err = channel.QueueDeclare(o.Name, o.Durable, o.AutoDelete, false, false, table)
	case *topology.Exchange:
		err = channel.ExchangeDeclare(o.Name, o.Type, o.Durable, o.AutoDelete, false, false, amqp.Table(o.Arguments))
	case *topology.Binding:
		if o.DestinationType == topology.ToExchange {
			err = channel.ExchangeBind(o.Destination, o.RoutingKey, o.Source, false, amqp.Table(o.Arguments))
		} else {
			err = channel.QueueBind(o.Destination, o.RoutingKey, o.Source, false, amqp.Table(o.Arguments))
		}
	default:
		t.Fatalf("cannot declare %T", o)
	}
	if err == nil {
		return 0, ""
	}
	if refusal, ok := errors.AsType[*amqp.Error](err); ok {
		return refusal.Code, refusal.Reason
	}
	t.Fatalf("declare %s: %v", o.Key(), err)
	return 0, ""
}

// remove takes away what a case made.
func remove(t *testing.T, b *brokertest.Broker, vhost string, objects []topology.Object) {
	t.Helper()
	for _, o := range slices.Backward(objects) {
		var path string
		switch o := o.(type) {
		case *topology.Queue:
			path = brokertest.Path("queues", vhost, o.Name)
		case *topology.Exchange:
			if strings.HasPrefix(o.Name, "amq.") {
				continue
			}
			path = brokertest.Path("exchanges", vhost, o.Name)
		case *topology.Policy:
			path = brokertest.Path("policies", vhost, o.Name)
			if o.Operator {
				path = brokertest.Path("operator-policies", vhost, o.Name)
			}
		default:
			continue // bindings go with their ends
		}
		if status, body := b.Do(t, http.MethodDelete, path, nil); status/100 != 2 && status != http.StatusNotFound {
			t.Fatalf("delete %s: %d %s", o.Key(), status, body)
		}
	}
}

// TestRulesAreTried: a rule that says what the broker refuses or accepts has a
// case on real brokers.
func TestRulesAreTried(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range slices.Concat(refusedCases(), acceptedCases(), policyCases()) {
		tried[c.code] = true
	}
	for _, c := range upgradeCases() {
		tried[c.code] = true
	}
	tried[upgradeDefaultQueueType.Code] = true // TestDefaultTypeOnBrokers
	for _, r := range Rules {
		for _, claim := range []string{"refuse", "accept"} {
			if strings.Contains(r.Doc, claim) && !tried[r.Code] {
				t.Errorf("%s says that the broker does something and is not tried on one: %s", r.Code, r.Doc)
			}
		}
	}
	for code := range tried {
		if !slices.Contains(Codes(), code) {
			t.Errorf("there is no rule %q", code)
		}
	}
}
