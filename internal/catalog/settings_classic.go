package catalog

var classicSettings = []Setting{
	{
		Name: "queue-mode", Argument: "x-queue-mode", PolicyKey: "queue-mode",
		Value: Text, Enum: []string{"default", "lazy"},
		Arguments:     []Support{{classic, until312}},
		Idle:          []Support{{classic, Range{V(3, 12), V(4, 3)}}},
		Unchecked:     []Support{{classic, since43}},
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
			QueueType: classic, Range: since43, ByArgument: true, Min: 2, Max: 2, Refused: true,
		}},
		Arguments:      []Support{{classic, until40}},
		Idle:           []Support{{classic, since40}},
		Compared:       []Support{{classic, always}},
		Policy:         []Range{always},
		OperatorPolicy: []Range{since3127},
		PolicyMatches:  []Support{{classic, always}, {quorum, always}, {stream, always}},
		PolicyActs:     []Support{{classic, until40}},
		Effect:         Immediately,
		Merge:          OperatorWins,
		Deprecated:     V(4, 0), Instead: "nothing: 2 is the only format left",
		Doc: "The storage format of a classic queue. From 4.0 on every queue is stored in format 2, whatever is set; " +
			"from 4.3 on 1 is refused as an argument.",
		URL: "https://www.rabbitmq.com/docs/classic-queues",
	},
}
