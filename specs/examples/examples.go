// Package examples holds complete specs that show the language. They are the
// templates of rabbitctl init and are tested on real brokers.
package examples

import "embed"

// FS holds the files of List.
//
//go:embed *.yaml
var FS embed.FS

// Example is one spec.
type Example struct {
	Name  string // as init takes it: "refunds"
	Title string // one line on what it shows
	File  string // its name in FS
}

// List are the examples, the first to look at first.
var List = []Example{
	{"refunds", "two work queues, their retries and their dead-letter queues", "refunds.yaml"},
	{"retry-ladder", "growing delays between the attempts", "retry-ladder.yaml"},
	{"categories", "dead letters sorted by what went wrong", "categories.yaml"},
	{"topic-events", "events by topic, with an alternate exchange for what nobody reads", "topic-events.yaml"},
	{"streams", "a stream beside a work queue", "streams.yaml"},
}
