package broker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// VirtualHosts lists the names of the virtual hosts that the user sees, sorted: all
// for administrators and users with the tag monitoring, else those in which the user
// has a permission.
func (c *Client) VirtualHosts(ctx context.Context) ([]string, error) {
	entries, err := c.virtualHosts(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(entries)), nil
}

// DeprecatedFeature is a feature that RabbitMQ deprecates and that a broker says is
// in use.
type DeprecatedFeature struct {
	Name string
	// Phase is RabbitMQ's: permitted_by_default, denied_by_default, disconnected or
	// removed.
	Phase string
	URL   string
}

// DeprecatedFeatures lists the deprecated features that are in use, sorted by name.
// known is false where the broker does not tell: 3.10 has no such list, and a user
// without the tag management must not read it.
func (c *Client) DeprecatedFeatures(ctx context.Context) (used []DeprecatedFeature, known bool, err error) {
	var list []struct {
		Name  string `json:"name"`
		Phase string `json:"deprecation_phase"`
		URL   string `json:"doc_url"`
	}
	err = c.get(ctx, "deprecated-features/used", &list)
	if err = named(err, "list the deprecated features in use", topology.Key{}); err != nil {
		if e, ok := as(err); IsAuth(err) || ok && e.Status == 404 {
			return nil, false, nil
		}
		return nil, false, err
	}
	for _, f := range list {
		used = append(used, DeprecatedFeature{f.Name, f.Phase, f.URL})
	}
	slices.SortFunc(used, func(a, b DeprecatedFeature) int { return cmp.Compare(a.Name, b.Name) })
	return used, true, nil
}

// GlobalPrefetch counts by user the channels in a virtual host whose prefetch is
// shared by all their consumers (basic.qos with global). Only brokers before 4.0 tell;
// others count none. A user without the tag monitoring sees only its own connections.
// Statistics lag by some seconds.
func (c *Client) GlobalPrefetch(ctx context.Context, vhost string) (map[string]int, error) {
	var list []struct {
		User   string `json:"user"`
		Global int64  `json:"global_prefetch_count"`
	}
	// One request whatever the number of channels; the columns keep the answer short.
	err := c.get(ctx, "vhosts/"+escape(vhost)+"/channels?columns=user,global_prefetch_count", &list)
	if err != nil {
		return nil, named(err, vhostSentence("list the channels of %s", vhost), topology.Key{})
	}
	users := map[string]int{}
	for _, channel := range list {
		if channel.Global > 0 {
			users[channel.User]++
		}
	}
	return users, nil
}

// QueueConsumers describes who consumes from a queue, for a message, as far as this
// user may see it. Consumers show some seconds late.
func (c *Client) QueueConsumers(ctx context.Context, vhost, queue string) ([]string, error) {
	var entry struct {
		Consumers []struct {
			Tag     string `json:"consumer_tag"`
			Channel struct {
				Host string `json:"peer_host"`
				Port any    `json:"peer_port"` // "undefined" for some
				User string `json:"user"`
			} `json:"channel_details"`
		} `json:"consumer_details"`
	}
	if err := c.get(ctx, "queues/"+escape(vhost)+"/"+escape(queue), &entry); err != nil {
		return nil, named(err, "list the consumers of", queueKey(vhost, queue))
	}
	list := make([]string, len(entry.Consumers))
	for i, e := range entry.Consumers {
		list[i] = fmt.Sprintf("%q of user %q at %s:%v", e.Tag, e.Channel.User, text.Line(e.Channel.Host), e.Channel.Port)
	}
	slices.Sort(list)
	return list, nil
}
