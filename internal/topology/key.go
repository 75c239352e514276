package topology

import (
	"fmt"
	"strings"
)

// Kind names a kind of object, as it is written in addresses such as
// "queue/orders".
type Kind string

// The kinds of objects that rabbitctl knows.
const (
	KindVirtualHost     Kind = "vhost"
	KindExchange        Kind = "exchange"
	KindQueue           Kind = "queue"
	KindBinding         Kind = "binding"
	KindPolicy          Kind = "policy"
	KindOperatorPolicy  Kind = "operator_policy"
	KindParameter       Kind = "parameter"
	KindPermission      Kind = "permission"
	KindTopicPermission Kind = "topic_permission"
)

// Title is the kind as it is written in a sentence: "operator policy".
func (k Kind) Title() string {
	if k == KindVirtualHost {
		return "virtual host"
	}
	return strings.ReplaceAll(string(k), "_", " ")
}

// Key identifies an object on a broker. For a binding Name is made of all of
// its fields (see Binding.Key), because a broker has no other name for it.
type Key struct {
	Kind        Kind   `json:"kind"`
	VirtualHost string `json:"vhost"`
	Name        string `json:"name"`
}

// String names the object for a sentence: queue "orders" in virtual host "shop".
func (k Key) String() string {
	switch {
	case k == Key{}:
		return ""
	case k.Kind == KindVirtualHost:
		return fmt.Sprintf("virtual host %q", k.VirtualHost)
	}
	return fmt.Sprintf("%s %q in virtual host %q", k.Kind.Title(), k.Name, k.VirtualHost)
}

// Address is the short form KIND/NAME that flags such as --target and --allow
// take. It is split at the first slash, so any name is possible.
func (k Key) Address() string {
	if k.Kind == KindVirtualHost {
		return string(k.Kind) + "/" + k.VirtualHost
	}
	return string(k.Kind) + "/" + k.Name
}

// Position is a place in a spec or definitions file. Line and Column count from
// 1; the zero Position means that the object has no place, as on a live broker.
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// IsZero reports whether there is no place.
func (p Position) IsZero() bool { return p == Position{} }

// String is file:line:column, without the parts that are unknown.
func (p Position) String() string {
	switch {
	case p.IsZero():
		return ""
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Object is one thing on a broker: *Exchange, *Queue, *Binding, *Policy, ...
type Object interface {
	// Key identifies the object.
	Key() Key
	// Attributes lists what can differ between two objects of one key, in a
	// fixed order: first the properties, then arguments or definition keys
	// sorted by name. Absent values are left out.
	Attributes() []Attribute
	// Place is where the spec or file made the object.
	Place() Position
}

// Attribute is one comparable property of an object. Value is canonical (see
// Canonical).
type Attribute struct {
	Name  string
	Value any
}
