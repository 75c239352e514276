package catalog

var pluginSettings = []Setting{
	{
		Name: "alternate-exchange", Argument: "alternate-exchange", PolicyKey: "alternate-exchange",
		Value:         Text,
		Unchecked:     []Support{{classic, always}, {quorum, always}, {stream, always}},
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}, {stream, always}},
		Exchange:      true,
		Effect:        Immediately,
		Doc:           "The exchange that gets what an exchange cannot route. A missing one is accepted, its messages are lost.",
		URL:           "https://www.rabbitmq.com/docs/ae",
	},
	{
		Name: "federation-upstream", PolicyKey: "federation-upstream",
		Value:         Text,
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}, {stream, always}},
		PolicyActs:    []Support{{classic, always}, {quorum, always}},
		Plugin:        "rabbitmq_federation",
		Effect:        Immediately,
		Doc: "The name of the one upstream that a queue or an exchange gets messages from. Only one of the " +
			"federation keys may be set.",
		URL: "https://www.rabbitmq.com/docs/federation",
	},
	{
		Name: "federation-upstream-pattern", PolicyKey: "federation-upstream-pattern",
		Value:         Text,
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}, {stream, always}},
		PolicyActs:    []Support{{classic, always}, {quorum, always}},
		Plugin:        "rabbitmq_federation",
		Effect:        Immediately,
		Doc: "The regular expression for the names of the upstreams that a queue or an exchange gets messages from. Only one of the " +
			"federation keys may be set.",
		URL: "https://www.rabbitmq.com/docs/federation",
	},
	{
		Name: "federation-upstream-set", PolicyKey: "federation-upstream-set",
		Value:         Text,
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}, {stream, always}},
		PolicyActs:    []Support{{classic, always}, {quorum, always}},
		Plugin:        "rabbitmq_federation",
		Effect:        Immediately,
		Doc:           "The set of upstreams that a queue or an exchange gets messages from; all is every one.",
		URL:           "https://www.rabbitmq.com/docs/federation",
	},
}
