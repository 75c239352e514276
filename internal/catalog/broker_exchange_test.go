package catalog

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
)

func TestExchangeTypesOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		have := exchangeTypesOf(t, b)
		for _, name := range have {
			if LookupExchangeType(name) == nil {
				t.Errorf("%s has exchange type %s, the table does not know it", b.Version, name)
			}
		}
		builtIn := ExchangeTypes(versionOf(t, b))
		for _, e := range ExchangeTypeTable {
			if slices.Contains(builtIn, e.Name) && !slices.Contains(have, e.Name) {
				t.Errorf("%s does not have exchange type %s, the table says it is built in", b.Version, e.Name)
			}
			if e.Plugin == "" && !slices.Contains(builtIn, e.Name) && slices.Contains(have, e.Name) {
				t.Errorf("%s has exchange type %s, the table says it does not", b.Version, e.Name)
			}
		}
	})
}

func exchangeTypesOf(t *testing.T, b *brokertest.Broker) []string {
	t.Helper()
	var overview struct {
		ExchangeTypes []struct{ Name string } `json:"exchange_types"`
	}
	b.Get(t, "/api/overview", &overview)
	var names []string
	for _, e := range overview.ExchangeTypes {
		names = append(names, e.Name)
	}
	return names
}

// Arguments of types that need a plugin are tried where a broker has it.
func TestExchangeArgumentsOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		d := &declarer{t: t, b: b, vhost: b.VirtualHost(t)}
		have := exchangeTypesOf(t, b)
		for _, a := range ExchangeArguments {
			types := a.Types
			if types == nil {
				types = []string{"direct", "topic"}
			}
			for _, typ := range types {
				if slices.Contains(have, typ) {
					tryExchangeArgument(d, a, typ)
				}
			}
		}
	})
}

func tryExchangeArgument(d *declarer, a ExchangeArgument, typ string) {
	d.t.Helper()
	s := &Setting{Value: a.Value, Min: a.Min, Enum: a.Enum}
	name := a.Name + "." + typ
	values := append(rightValues(s), int64(7))[:2]
	for i, want := range []bool{true, true, !a.Compared} {
		value := values[max(i-1, 0)] // the same twice, then the other
		if got := d.declareExchange(name, typ, amqp.Table{a.Name: value}); got != want {
			d.t.Errorf("%s %s = %v on a %s exchange, declaration %d: accepted %v, the table says %v",
				d.b.Version, a.Name, value, typ, i+1, got, want)
		}
	}
}
