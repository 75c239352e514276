// Package topology holds the nouns of a RabbitMQ broker: exchanges, queues,
// bindings, policies and what surrounds them. Desired state (from a spec) and
// live state (from a broker or a definitions file) use the same types, so that
// they can be compared. The package is pure and imports only the standard
// library.
package topology
