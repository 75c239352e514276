package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// These tests declare every row of the table on real brokers and compare. What they
// expect comes from the row alone, so that a wrong row fails.

func TestArgumentsOnBrokers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v := versionOf(t, b)
		d := &declarer{t: t, b: b, vhost: b.VirtualHost(t)}
		for i := range Settings {
			s := &Settings[i]
			if s.Argument == "" {
				continue
			}
			for _, typ := range topology.QueueTypes {
				tryArgument(d, s, typ, v)
				tryRedeclaration(d, s, typ, v)
			}
		}
	})
}

// tryArgument declares new queues with right and wrong values.
func tryArgument(d *declarer, s *Setting, typ topology.QueueType, v Version) {
	d.t.Helper()
	for i, value := range append(rightValues(s), wrongValues(s)...) {
		want := takes(s, value, typ, v)
		name := fmt.Sprintf("%s.%s.%d", s.Name, typ, i)
		if got := d.declare(name, typ, with(s, typ, value)); got != want {
			d.t.Errorf("%s %s = %s on a new %s queue: accepted %v, the table says %v",
				v, s.Argument, topology.Text(value), typ, got, want)
		}
	}
}

// tryRedeclaration changes, removes and adds the argument.
func tryRedeclaration(d *declarer, s *Setting, typ topology.QueueType, v Version) {
	d.t.Helper()
	var values []any
	for _, value := range lastingValues(s) {
		if takes(s, value, typ, v) {
			values = append(values, value)
		}
	}
	want := !s.IsCompared(typ, v)
	check := func(what string, got, want bool) {
		d.t.Helper()
		if got != want {
			d.t.Errorf("%s %s on a %s queue, %s: accepted %v, the table says %v", v, s.Argument, typ, what, got, want)
		}
	}
	name := fmt.Sprintf("%s.%s.again", s.Name, typ)
	if len(values) > 0 {
		check("new", d.declare(name, typ, with(s, typ, values[0])), true)
		check("declared again", d.declare(name, typ, with(s, typ, values[0])), true)
		check("removed", d.declare(name, typ, without(s, typ)), want)
	}
	if len(values) > 1 {
		check("changed", d.declare(name, typ, with(s, typ, values[1])), want)
	}
	if deniedAlways(s, v) {
		return
	}
	// What a type does not know is refused on a new queue and taken in silence on
	// one that is there.
	check("plain", d.declare(name+".plain", typ, without(s, typ)), true)
	check("added", d.declare(name+".plain", typ, with(s, typ, lastingValues(s)[0])), want)
}

// deniedAlways: 4.3 denies the argument before it looks at the queue.
func deniedAlways(s *Setting, v Version) bool {
	return s.Name == "queue-master-locator" && v.AtLeast(V(4, 3))
}

// takes says what the row says of a new queue with the value.
func takes(s *Setting, value any, typ topology.QueueType, v Version) bool {
	if !s.TakesArgument(typ, v) && !s.IgnoresArgument(typ, v) {
		return false
	}
	return s.TakesAnyValue(typ, v) || !refuses(s, value, typ, v, topology.ByArgument)
}

// beside lists the arguments that an argument cannot stand without.
var beside = map[string]amqp.Table{
	"dead-letter-routing-key": {"x-dead-letter-exchange": "amq.fanout"},
}

func with(s *Setting, typ topology.QueueType, value any) amqp.Table {
	table := without(s, typ)
	table[s.Argument] = value
	return table
}

func without(s *Setting, typ topology.QueueType) amqp.Table {
	table := amqp.Table{}
	if typ != stream { // which knows none of them
		maps.Copy(table, beside[s.Name])
	}
	return table
}

// rightValues are the ends of the range, or every word.
func rightValues(s *Setting) []any {
	switch s.Value {
	case Boolean:
		return []any{true, false}
	case Text:
		if s.Enum != nil {
			return words(s.Enum)
		}
		return []any{"", "some text"}
	case Age:
		return []any{"1s", "7D", "2Y"}
	case Any:
		return []any{int64(2)}
	}
	if s.Max != 0 {
		return []any{s.Min, s.Max}
	}
	return []any{s.Min, int64(1) << 40}
}

// wrongValues are those beyond the range and those of another kind.
func wrongValues(s *Setting) []any {
	switch s.Value {
	case Boolean:
		return []any{"true", int64(1)}
	case Text:
		if s.Enum != nil {
			return []any{"bogus", int64(1)}
		}
		return []any{int64(1), true}
	case Age:
		return []any{"bogus", "0s", "10", int64(1)}
	case Any:
		return nil
	}
	wrong := []any{s.Min - 1, "5", 5.5, true}
	if s.Max != 0 {
		wrong = append(wrong, s.Max+1)
	}
	return wrong
}

// lastingValues are two right ones under which a queue lives for the test.
func lastingValues(s *Setting) []any {
	values := rightValues(s)
	if s.Value == Milliseconds {
		return []any{int64(600_000), int64(700_000)}
	}
	if _, number := values[0].(int64); number && s.Name != "queue-version" {
		return []any{max(s.Min, 0) + 1, max(s.Min, 0) + 2}
	}
	return values
}

func words(list []string) []any {
	all := make([]any, len(list))
	for i, w := range list {
		all[i] = w
	}
	return all
}

// declarer declares queues and opens what a refusal closed.
type declarer struct {
	t          *testing.T
	b          *brokertest.Broker
	vhost      string
	connection *amqp.Connection
	channel    *amqp.Channel
}

// declare reports whether the broker takes a queue.
func (d *declarer) declare(name string, typ topology.QueueType, arguments amqp.Table) bool {
	d.t.Helper()
	arguments["x-queue-type"] = string(typ)
	_, err := d.open().QueueDeclare(name, true, false, false, false, arguments)
	return d.accepted(err, name, arguments)
}

// declareExchange is declare for exchanges.
func (d *declarer) declareExchange(name, typ string, arguments amqp.Table) bool {
	d.t.Helper()
	err := d.open().ExchangeDeclare(name, typ, true, false, false, false, arguments)
	return d.accepted(err, name, arguments)
}

func (d *declarer) accepted(err error, name string, arguments amqp.Table) bool {
	d.t.Helper()
	if err == nil {
		return true
	}
	var refusal *amqp.Error
	// 406 closes the channel, 541 the connection.
	if !errors.As(err, &refusal) || !slices.Contains([]int{amqp.PreconditionFailed, amqp.InternalError}, refusal.Code) {
		d.t.Fatalf("declare %s %v: %v", name, arguments, err)
	}
	return false
}

func (d *declarer) open() *amqp.Channel {
	d.t.Helper()
	if d.channel != nil && !d.channel.IsClosed() {
		return d.channel
	}
	for range 2 {
		if d.connection == nil || d.connection.IsClosed() {
			d.connection = d.b.Connect(d.t, d.vhost)
		}
		var err error
		if d.channel, err = d.connection.Channel(); err == nil {
			return d.channel
		}
		// The connection was closing just now.
		d.connection.Close()
	}
	d.t.Fatal("no channel opens")
	return nil
}

func versionOf(t *testing.T, b *brokertest.Broker) Version {
	t.Helper()
	v, err := ParseVersion(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
