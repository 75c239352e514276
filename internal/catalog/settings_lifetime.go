package catalog

var lifetimeSettings = []Setting{
	{
		Name: "expires", Argument: "x-expires", PolicyKey: "expires",
		Value: Milliseconds, Min: 1, Max: tenYears,
		Arguments:      []Support{{classic, always}, {quorum, always}},
		Compared:       []Support{{classic, always}, {quorum, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{always},
		PolicyMatches:  []Support{{classic, always}, {quorum, always}},
		PolicyActs:     []Support{{classic, always}, {quorum, always}},
		Effect:         Immediately,
		Conflict: []Conflict{
			{QueueType: quorum, Range: until40, ArgumentPolicy: PolicyWins, ArgumentOperator: PolicyWins},
			smallerWins,
		},
		Merge: SmallerWins,
		Doc: "After how long without use the queue is deleted, with its messages and without dead-lettering them. " +
			"Consumers, gets and redeclarations are use; publishing is none.",
		URL: "https://www.rabbitmq.com/docs/ttl#queue-ttl",
	},
	{
		Name: "message-ttl", Argument: "x-message-ttl", PolicyKey: "message-ttl",
		Value: Milliseconds, Max: tenYears,
		Arguments:      []Support{{classic, always}, {quorum, always}},
		Compared:       []Support{{classic, always}, {quorum, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{always},
		PolicyMatches:  []Support{{classic, always}, {quorum, always}},
		PolicyActs:     []Support{{classic, always}, {quorum, always}},
		Effect:         NewMessages,
		Conflict:       []Conflict{smallerWins},
		Merge:          SmallerWins,
		Doc: "How long a message may wait before it is dead-lettered or dropped. 0 dead-letters what no consumer takes " +
			"at once. A changed policy acts on messages published after it.",
		URL: "https://www.rabbitmq.com/docs/ttl#per-queue-message-ttl",
	},
}
