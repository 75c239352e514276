package broker

import (
	"context"
	"net/http"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Contents lists what is in a virtual host, queues of connections too, but
// permissions, exchanges that every virtual host has, and the lock of the stack.
func (c *Client) Contents(ctx context.Context, vhost, stack string) ([]topology.Key, error) {
	state, err := c.Read(ctx, []string{vhost}, ReadOptions{Parameters: true, LeftOut: true})
	if err != nil {
		return nil, err
	}
	objects := state.LeftOut
	for _, v := range state.Topology.VirtualHosts {
		objects = append(objects, v.Objects()...)
	}
	var keys []topology.Key
	for _, o := range objects {
		k := o.Key()
		switch {
		case k.Kind == topology.KindVirtualHost:
		case k.Kind == topology.KindExchange && (k.Name == "" || strings.HasPrefix(k.Name, "amq.")):
		default:
			keys = append(keys, k)
		}
	}
	// Read leaves locks out: the run of another stack is under way there.
	var queues []queueEntry
	path := "queues/" + escape(vhost) + "?disable_stats=true"
	if err := c.get(ctx, path, &queues); err != nil {
		return nil, named(err, vhostSentence("list the queues of %s", vhost), topology.Key{})
	}
	for _, q := range queues {
		if q.Name != nil && strings.HasPrefix(*q.Name, topology.LockPrefix) && *q.Name != topology.LockPrefix+stack {
			keys = append(keys, queueKey(vhost, *q.Name))
		}
	}
	return keys, nil
}

// DeleteVirtualHost deletes a virtual host with all that is in it; one that is not
// there is no error. It needs the tag administrator. 4.3 refuses one that is
// protected from deletion (412).
func (c *Client) DeleteVirtualHost(ctx context.Context, vhost string) error {
	if err := checkAddressable(ViaHTTP, "name of the virtual host", vhost); err != nil {
		return named(err, vhostSentence("delete %s", vhost), topology.Key{})
	}
	_, err := c.send(request{ctx: ctx, slow: true}, http.MethodDelete, "vhosts/"+escape(vhost), nil)
	if IsNotFound(err) {
		return nil
	}
	return named(err, vhostSentence("delete %s", vhost), topology.Key{})
}
