package broker

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Records reads what all stacks have recorded, in one request. It needs the tag
// policymaker or administrator; without, IsAuth is true of the error (401 on all
// versions).
func (c *Client) Records(ctx context.Context) (*ownership.Records, error) {
	var list []struct {
		Name  *string         `json:"name"`
		Value json.RawMessage `json:"value"`
	}
	const op = "read the ownership records"
	if err := c.get(ctx, "global-parameters", &list); err != nil {
		if IsAuth(err) && !IsLoginFailed(err) {
			c.limited.Store(true) // an administrator may
		}
		return nil, named(err, op, topology.Key{})
	}
	parameters := make(map[string]json.RawMessage, len(list))
	for _, p := range list {
		if p.Name == nil {
			return nil, named(strange("global-parameters", "entries without a name"), op, topology.Key{})
		}
		parameters[*p.Name] = p.Value
	}
	return ownership.Read(parameters), nil
}

// PutRecord writes a record, which must be the one last read with what changed:
// there is no way to write only if nobody else has. A body of some megabytes is
// the most that a broker takes (3.10: more than 5 MB, less than 9).
func (c *Client) PutRecord(ctx context.Context, r *ownership.Record) error {
	_, err := c.send(request{ctx: ctx}, http.MethodPut, "global-parameters/"+escape(r.Name()),
		map[string]any{"name": r.Name(), "value": r})
	return named(err, "record what the stack owns", topology.Key{Kind: topology.KindVirtualHost, VirtualHost: r.VirtualHost})
}

// DeleteRecord deletes a record; one that is not there is no error.
func (c *Client) DeleteRecord(ctx context.Context, r *ownership.Record) error {
	_, err := c.send(request{ctx: ctx}, http.MethodDelete, "global-parameters/"+escape(r.Name()), nil)
	if IsNotFound(err) {
		return nil
	}
	return named(err, "delete the record of what the stack owned", topology.Key{Kind: topology.KindVirtualHost, VirtualHost: r.VirtualHost})
}
