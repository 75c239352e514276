package catalog

// ExchangeType is a type of exchanges.
type ExchangeType struct {
	Name string
	// BuiltIn are the versions that have it without a plugin.
	BuiltIn []Range
	// Plugin brings it elsewhere; empty: none does.
	Plugin string
	Doc    string
}

// ExchangeTypeTable lists the known types, sorted by name. A broker may report
// others.
var ExchangeTypeTable = []ExchangeType{
	{Name: "direct", BuiltIn: []Range{always}, Doc: "To the bindings whose key equals the routing key."},
	{Name: "fanout", BuiltIn: []Range{always}, Doc: "To every binding."},
	{Name: "headers", BuiltIn: []Range{always}, Doc: "To the bindings whose arguments match the headers."},
	{Name: "topic", BuiltIn: []Range{always}, Doc: "To the bindings whose pattern of words matches the routing key."},
	{Name: "x-consistent-hash", Plugin: "rabbitmq_consistent_hash_exchange", Doc: "To one binding by a hash; keys are weights."},
	{Name: "x-delayed-message", Plugin: "rabbitmq_delayed_message_exchange", Doc: "As x-delayed-type says, after the delay in the header x-delay."},
	{Name: "x-federation-upstream", Plugin: "rabbitmq_federation", Doc: "Made and used by the plugin itself."},
	{Name: "x-jms-topic", Plugin: "rabbitmq_jms_topic_exchange", Doc: "To the bindings whose JMS selector matches."},
	{Name: "x-local-random", BuiltIn: []Range{since40}, Doc: "To one binding of a queue on the publisher's node; keys must be empty."},
	{Name: "x-modulus-hash", BuiltIn: []Range{since43}, Plugin: "rabbitmq_sharding", Doc: "To one binding by a hash of the routing key."},
	{Name: "x-random", Plugin: "rabbitmq_random_exchange", Doc: "To one binding by chance."},
	{Name: "x-recent-history", Plugin: "rabbitmq_recent_history_exchange", Doc: "To every binding; a new one first gets the newest messages."},
}

// ExchangeTypes lists the types that version v has without a plugin.
func ExchangeTypes(v Version) []string {
	var names []string
	for _, t := range ExchangeTypeTable {
		if inRanges(t.BuiltIn, v) {
			names = append(names, t.Name)
		}
	}
	return names
}

// LookupExchangeType finds a type by name; nil: unknown.
func LookupExchangeType(name string) *ExchangeType {
	for i := range ExchangeTypeTable {
		if ExchangeTypeTable[i].Name == name {
			return &ExchangeTypeTable[i]
		}
	}
	return nil
}

// ExchangeArgument is an argument of exchanges.
type ExchangeArgument struct {
	Name string
	// Types are the exchange types that know it; nil: all.
	Types []string
	// Required: the type cannot be declared without it.
	Required bool
	// Compared: a redeclaration with another value is refused (406); otherwise it
	// is silently accepted and changes nothing.
	Compared bool
	Value    ValueType
	Min      int64
	Enum     []string // allowed texts; nil: any
	Doc      string
	URL      string
}

// ExchangeArguments is the table of exchange arguments, sorted by name.
var ExchangeArguments = []ExchangeArgument{
	{
		Name: "alternate-exchange", Value: Text, Compared: true,
		Doc: "The exchange that gets what this one cannot route.",
		URL: "https://www.rabbitmq.com/docs/ae",
	},
	{
		Name: "hash-header", Types: []string{"x-consistent-hash"}, Value: Text,
		Doc: "The header whose value is hashed in place of the routing key; not together with hash-property.",
		URL: "https://github.com/rabbitmq/rabbitmq-server/tree/main/deps/rabbitmq_consistent_hash_exchange",
	},
	{
		Name: "hash-property", Types: []string{"x-consistent-hash"}, Value: Text,
		Enum: []string{"correlation_id", "message_id", "timestamp"},
		Doc:  "The property whose value is hashed in place of the routing key; not together with hash-header.",
		URL:  "https://github.com/rabbitmq/rabbitmq-server/tree/main/deps/rabbitmq_consistent_hash_exchange",
	},
	{
		Name: "x-delayed-type", Types: []string{"x-delayed-message"}, Required: true, Value: Text,
		Doc: "The exchange type that routes once the delay is over.",
		URL: "https://github.com/rabbitmq/rabbitmq-delayed-message-exchange",
	},
	{
		Name: "x-recent-history-length", Types: []string{"x-recent-history"}, Value: Integer, Min: 1,
		Doc: "How many messages a new binding gets.",
		URL: "https://github.com/rabbitmq/rabbitmq-server/tree/main/deps/rabbitmq_recent_history_exchange",
	},
}

// LookupExchangeArgument finds an exchange argument by name; nil: unknown.
func LookupExchangeArgument(name string) *ExchangeArgument {
	for i := range ExchangeArguments {
		if ExchangeArguments[i].Name == name {
			return &ExchangeArguments[i]
		}
	}
	return nil
}
