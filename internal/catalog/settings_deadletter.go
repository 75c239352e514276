package catalog

var deadLetterSettings = []Setting{
	{
		Name: "dead-letter-exchange", Argument: "x-dead-letter-exchange", PolicyKey: "dead-letter-exchange",
		Value:         Text,
		Arguments:     []Support{{classic, always}, {quorum, always}},
		Compared:      []Support{{classic, always}, {quorum, always}},
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}},
		PolicyActs:    []Support{{classic, always}, {quorum, always}},
		Effect:        Immediately,
		Doc: "The exchange that dead messages go to; empty is the default exchange. A missing exchange is accepted, " +
			"its messages are lost.",
		URL: "https://www.rabbitmq.com/docs/dlx",
	},
	{
		Name: "dead-letter-routing-key", Argument: "x-dead-letter-routing-key", PolicyKey: "dead-letter-routing-key",
		Value:         Text,
		Arguments:     []Support{{classic, always}, {quorum, always}},
		Compared:      []Support{{classic, always}, {quorum, always}},
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}, {quorum, always}},
		PolicyActs:    []Support{{classic, always}, {quorum, always}},
		Effect:        Immediately,
		Doc: "The routing key that dead messages get; without it they keep their own. As an argument it needs the " +
			"exchange as an argument too.",
		URL: "https://www.rabbitmq.com/docs/dlx#routing",
	},
	{
		Name: "dead-letter-strategy", Argument: "x-dead-letter-strategy", PolicyKey: "dead-letter-strategy",
		Value: Text, Enum: []string{"at-most-once", "at-least-once"},
		Arguments:     []Support{{quorum, always}},
		Compared:      []Support{{quorum, always}},
		Policy:        []Range{always},
		PolicyMatches: []Support{{quorum, always}},
		PolicyActs:    []Support{{quorum, always}},
		Effect:        Immediately,
		Doc: "How safely dead messages are moved. at-least-once works only with overflow reject-publish and a " +
			"dead-letter exchange; otherwise the broker falls back to at-most-once and only its log says so.",
		URL: "https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering",
	},
	{
		Name: "delivery-limit", Argument: "x-delivery-limit", PolicyKey: "delivery-limit",
		Value: Integer, Min: -1,
		Narrow: []Narrow{
			{
				QueueType: quorum, Range: until40, ByArgument: true, Min: 0,
				Why: "-1 is taken as 0: the first return is the last",
			},
			{QueueType: quorum, Range: until40, ByPolicy: true, Min: 0, Why: "the broker refuses it"},
		},
		Arguments:      []Support{{quorum, always}},
		Unchecked:      []Support{{quorum, always}},
		Compared:       []Support{{quorum, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{always},
		PolicyMatches:  []Support{{quorum, always}},
		PolicyActs:     []Support{{quorum, always}},
		Effect:         Immediately,
		Conflict:       []Conflict{smallerWins},
		Doc: "How often a message may come back before it is dead-lettered or dropped: it is delivered once more than " +
			"that. Without it 20 from 4.0 on and no limit before; -1 is no limit from 4.0 on and loses against any number.",
		URL: "https://www.rabbitmq.com/docs/quorum-queues#poison-message-handling",
	},
	{
		Name: "overflow", Argument: "x-overflow", PolicyKey: "overflow",
		Value: Text, Enum: []string{"drop-head", "reject-publish", "reject-publish-dlx"},
		Narrow: []Narrow{{
			QueueType: quorum, ByArgument: true, ByPolicy: true,
			Enum: []string{"drop-head", "reject-publish"},
			Why:  "reject-publish-dlx is taken as drop-head: the oldest message goes",
		}},
		Arguments:      []Support{{classic, always}, {quorum, always}},
		Compared:       []Support{{classic, always}, {quorum, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{since312},
		PolicyMatches:  []Support{{classic, always}, {quorum, always}},
		PolicyActs:     []Support{{classic, always}, {quorum, always}},
		Effect:         Immediately,
		Conflict: []Conflict{
			{QueueType: classic, ArgumentPolicy: ArgumentWins, ArgumentOperator: ArgumentWins},
			{QueueType: quorum, ArgumentPolicy: PolicyWins, ArgumentOperator: PolicyWins},
		},
		Doc: "What a full queue does: drop its oldest message (drop-head, the default) or refuse new ones.",
		URL: "https://www.rabbitmq.com/docs/maxlength#overflow-behaviour",
	},
}
