package graph

import (
	"github.com/rabbitctl/rabbitctl/internal/diag"
)

// Class says what a node stands for. Each has its own shape and colour.
type Class string

// The classes, in the order of the legend.
const (
	ClassPublisher  Class = "publisher"
	ClassExchange   Class = "exchange"
	ClassQueue      Class = "queue"
	ClassStream     Class = "stream"
	ClassWait       Class = "wait"
	ClassDeadLetter Class = "dead-letter"
	ClassConsumer   Class = "consumer"
	ClassMissing    Class = "missing"
)

// Link says what an edge stands for.
type Link string

// The links, in the order of the legend.
const (
	LinkPublish    Link = "publish"
	LinkBinding    Link = "binding"
	LinkAlternate  Link = "alternate"
	LinkDeadLetter Link = "dead-letter"
	LinkRetry      Link = "retry"
	LinkReturn     Link = "return"
	LinkConsume    Link = "consume"
)

var classTitles = []struct {
	Class Class
	Title string
}{
	{ClassPublisher, "publisher"},
	{ClassExchange, "exchange"},
	{ClassQueue, "queue"},
	{ClassStream, "stream"},
	{ClassWait, "wait queue"},
	{ClassDeadLetter, "dead-letter queue"},
	{ClassConsumer, "consumer"},
	{ClassMissing, "named, but not there"},
}

var linkTitles = []struct {
	Link  Link
	Title string
}{
	{LinkPublish, "publishes"},
	{LinkBinding, "binding"},
	{LinkAlternate, "alternate exchange: what is not routed"},
	{LinkDeadLetter, "dead-letter route"},
	{LinkRetry, "to a wait queue"},
	{LinkReturn, "back after the wait"},
	{LinkConsume, "consumes"},
}

// Drawing is a topology as nodes and edges.
type Drawing struct {
	// Title says what is drawn, Notes what the reader must know besides.
	Title string
	Notes []string
	Nodes []*Node
	Edges []*Edge
	// Elsewhere are the findings that belong to no node and no edge.
	Elsewhere diag.List
	// VirtualHosts are the names of those drawn; nodes name theirs only when there
	// are several.
	VirtualHosts []string
}

// Node is an exchange, queue, publisher or consumer.
type Node struct {
	ID          string // n1, n2, ...: made of nothing that a user wrote
	Class       Class
	VirtualHost string
	Name        string // as it is on the broker; writers escape it
	Kind        string // in words: "topic exchange", "quorum queue"
	Settings    []Setting
	Findings    diag.List
}

// Edge leads from one node to another.
type Edge struct {
	ID       string // e1, e2, ...
	From, To *Node
	Link     Link
	// Labels are routing keys, or one word on the route; writers shorten them.
	Labels   []string
	Findings diag.List
}

// Setting is one line of a node's details.
type Setting struct {
	Name, Value string
	// Origin says where the value comes from: "argument", "policy \"cap\"".
	Origin string
}

// worst is the highest severity among findings; empty without any.
func worst(list diag.List) diag.Severity {
	var s diag.Severity
	for _, d := range list {
		if s == "" || d.Severity.Rank() < s.Rank() {
			s = d.Severity
		}
	}
	return s
}

// marked reports whether findings are bad enough to be drawn in red.
func marked(list diag.List) bool {
	s := worst(list)
	return s == diag.Error || s == diag.Warning
}

// findings lists those of the whole drawing, each once, in the order of nodes,
// edges, rest.
func (d *Drawing) findings() []placed {
	var all []placed
	seen := map[string]bool{}
	add := func(list diag.List, id string) {
		for _, f := range list {
			if key := sentence(f) + f.Object.String() + f.Position.String(); !seen[key] {
				seen[key] = true
				all = append(all, placed{f, id})
			}
		}
	}
	for _, n := range d.Nodes {
		add(n.Findings, n.ID)
	}
	for _, e := range d.Edges {
		add(e.Findings, e.ID)
	}
	add(d.Elsewhere, "")
	return all
}

// placed is a finding with the id of the first node or edge that shows it.
type placed struct {
	diag.Diagnostic
	id string
}
