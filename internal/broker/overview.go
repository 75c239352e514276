package broker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Overview is what a broker says of itself.
type Overview struct {
	Version     catalog.Version
	ClusterName string
	Node        string // the node that answered; empty when not visible
	// ExchangeTypes are the names of all exchange types, plugins included, sorted.
	ExchangeTypes []string
	// Listeners are visible to users with the tag monitoring or administrator.
	Listeners []Listener
	// DefaultQueueType is the node's own default (4.x); empty: not told.
	DefaultQueueType topology.QueueType
	// Queues counts those of the virtual hosts that the user sees.
	Queues int
}

// Listener is a port of a node.
type Listener struct {
	Node     string
	Protocol string // amqp, amqp/ssl, http, ...
	Port     int
}

// Overview reads /api/overview, which needs the tag management. Anything but a
// management API is ErrNotManagementAPI.
func (c *Client) Overview(ctx context.Context) (*Overview, error) {
	return c.overview(ctx, "overview")
}

// glance is the overview without listeners and statistics, which cost 4.3 five times
// as long.
func (c *Client) glance(ctx context.Context) (*Overview, error) {
	return c.overview(ctx, "overview?disable_stats=true")
}

func (c *Client) overview(ctx context.Context, path string) (*Overview, error) {
	const op = "read the overview of the broker"
	var answer struct {
		Version     string                  `json:"rabbitmq_version"`
		Cluster     string                  `json:"cluster_name"`
		Node        string                  `json:"node"`
		Types       []struct{ Name string } `json:"exchange_types"`
		DefaultType string                  `json:"default_queue_type"`
		Totals      struct {
			Queues json.Number `json:"queues"`
		} `json:"object_totals"`
		ListenerPorts []struct {
			Node, Protocol string
			Port           json.Number
		} `json:"listeners"`
	}
	err := c.get(ctx, path, &answer)
	if e, ok := as(err); ok && e.class == refused && e.Status == 404 {
		// A JSON 404 of another program: the API has an overview since 2.0.
		err = notManagement(e, "no /api/overview")
	}
	if err != nil {
		return nil, named(err, op, topology.Key{})
	}
	version, err := catalog.ParseVersion(answer.Version)
	if err != nil || len(answer.Types) == 0 {
		e := &Error{Via: ViaHTTP, Step: "GET /api/overview", Status: 200}
		return nil, named(notManagement(e, "JSON without a RabbitMQ version and exchange types"), op, topology.Key{})
	}
	o := &Overview{Version: version, ClusterName: answer.Cluster, Node: answer.Node, DefaultQueueType: queueType(answer.DefaultType)}
	if n, err := answer.Totals.Queues.Int64(); err == nil {
		o.Queues = int(n)
	}
	for _, t := range answer.Types {
		o.ExchangeTypes = append(o.ExchangeTypes, t.Name)
	}
	slices.Sort(o.ExchangeTypes)
	for _, l := range answer.ListenerPorts {
		port, _ := l.Port.Int64()
		o.Listeners = append(o.Listeners, Listener{l.Node, l.Protocol, int(port)})
	}
	return o, nil
}

// queueType is t when it is one of the three, and empty otherwise ("undefined").
func queueType(s string) topology.QueueType {
	if t := topology.QueueType(s); slices.Contains(topology.QueueTypes, t) {
		return t
	}
	return ""
}

// User is who is logged in.
type User struct {
	Name string
	Tags []string
}

// Has reports whether the user has one of the tags.
func (u *User) Has(tags ...string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return slices.Contains(u.Tags, t) })
}

// SeesAllVirtualHosts reports whether the list of virtual hosts is complete for
// the user; others see only those in which they have a permission.
func (u *User) SeesAllVirtualHosts() bool { return u.Has("administrator", "monitoring") }

// Whoami reads the name and tags of the user.
func (c *Client) Whoami(ctx context.Context) (*User, error) {
	const op = "ask who is logged in"
	api, err := c.api(request{ctx: ctx})
	if err != nil {
		return nil, named(err, op, topology.Key{})
	}
	info, err := api.Whoami()
	if err != nil {
		return nil, named(apiError(err), op, topology.Key{})
	}
	u := &User{Name: info.Name}
	for _, t := range info.Tags {
		if t = strings.TrimSpace(t); t != "" {
			u.Tags = append(u.Tags, t)
		}
	}
	return u, nil
}

// apiError takes our own error out of what rabbit-hole returns; its other errors
// come from decoding an answer of another form.
func apiError(err error) error {
	if e, ok := as(err); ok {
		return e
	}
	var syntax *json.SyntaxError
	var form *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &form) {
		return notManagement(&Error{Via: ViaHTTP, Status: 200}, "an answer of another form")
	}
	return err
}
