package catalog

var classicSettings = []Setting{
	{
		Name: "queue-mode", Argument: "x-queue-mode", PolicyKey: "queue-mode",
		Value: Text, Enum: []string{"default", "lazy"},
		Arguments:     []Support{{classic, until312}},
		Unchecked:     []Support{{classic, since312}},
		Compared:      []Support{{classic, always}},
		Policy:        []Range{always},
		PolicyMatches: []Support{{classic, always}},
		PolicyActs:    []Support{{classic, until312}},
		Effect:        Immediately,
		Deprecated:    V(3, 12), Instead: "nothing: classic queues keep few messages in memory",
		Doc: "lazy moves messages to disk as early as possible. Without effect from 3.12 on.",
		URL: "https://www.rabbitmq.com/docs/lazy-queues",
	},
	{
		Name: "queue-version", Argument: "x-queue-version", PolicyKey: "queue-version",
		Value: Integer, Min: 1, Max: 2,
		Narrow: []Narrow{{
			QueueType: classic, Range: since43, ByArgument: true, Min: 2, Max: 2,
			Why: "the broker refuses it",
		}},
		Arguments:      []Support{{classic, always}},
		Compared:       []Support{{classic, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{since312},
		PolicyMatches:  []Support{{classic, always}, {quorum, always}, {stream, always}},
		PolicyActs:     []Support{{classic, always}},
		Effect:         Immediately,
		Conflict:       []Conflict{policyWins},
		Doc: "The storage format of a classic queue. From 4.0 on 2 is the only one, from 4.3 on 1 is refused as an " +
			"argument.",
		URL: "https://www.rabbitmq.com/docs/classic-queues",
	},
}
