// Package broker is everything that talks to RabbitMQ for the tool: it reads a
// broker (or an exported definitions file) into the types of package topology
// and creates, updates and deletes single objects. It knows topology and
// catalog, not plans, specs or flags.
//
// A Client speaks to the management API through rabbit-hole and one
// http.RoundTripper that adds what rabbit-hole lacks (see transport), and to the
// AMQP 0.9.1 port through amqp091-go. Every failure is an *Error; the Is*
// functions classify it.
package broker
