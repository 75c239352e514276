package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// do is one rabbit-hole call. Its response body has been read by the transport.
func (w *writer) do(r request, call func(*rabbithole.Client) (*http.Response, error)) error {
	api, err := w.client.api(r)
	if err != nil {
		return err
	}
	res, err := call(api)
	if err != nil {
		return apiError(err)
	}
	return res.Body.Close()
}

// putQueue does not use rabbit-hole, which leaves out auto_delete when it is
// false and writes into the caller's arguments.
func (w *writer) putQueue(ctx context.Context, q *topology.Queue) error {
	_, err := w.client.send(request{ctx: ctx}, http.MethodPut, "queues/"+escape(q.VirtualHost)+"/"+escape(q.Name), map[string]any{
		"durable": q.Durable, "auto_delete": q.AutoDelete, "arguments": jsonTable(withType(q)),
	})
	return err
}

// putExchange does not use rabbit-hole, which does not know internal exchanges.
func (w *writer) putExchange(ctx context.Context, x *topology.Exchange) error {
	_, err := w.client.send(request{ctx: ctx}, http.MethodPut, "exchanges/"+escape(x.VirtualHost)+"/"+escape(x.Name), map[string]any{
		"type": x.Type, "durable": x.Durable, "auto_delete": x.AutoDelete, "internal": x.Internal, "arguments": jsonTable(x.Arguments),
	})
	return err
}

func (w *writer) postBinding(ctx context.Context, b *topology.Binding) error {
	return w.do(request{ctx: ctx}, func(api *rabbithole.Client) (*http.Response, error) {
		return api.DeclareBinding(b.VirtualHost, bindingInfo(b))
	})
}

func bindingInfo(b *topology.Binding) rabbithole.BindingInfo {
	return rabbithole.BindingInfo{
		Source: b.Source, Vhost: b.VirtualHost, Destination: b.Destination, DestinationType: string(b.DestinationType),
		RoutingKey: b.RoutingKey, Arguments: jsonTable(b.Arguments), PropertiesKey: b.PropertiesKey,
	}
}

func (w *writer) deleteExchangeHTTP(ctx context.Context, x *topology.Exchange) error {
	return w.do(request{ctx: ctx}, func(api *rabbithole.Client) (*http.Response, error) {
		return api.DeleteExchange(x.VirtualHost, x.Name)
	})
}

func (w *writer) deleteQueueHTTP(ctx context.Context, q *topology.Queue) error {
	return w.do(request{ctx: ctx}, func(api *rabbithole.Client) (*http.Response, error) {
		return api.DeleteQueue(q.VirtualHost, q.Name)
	})
}

// unbind deletes by the properties_key of a list read just before: its hash of
// the arguments cannot be computed, and over AMQP the types would have to be
// known. Bindings that differ only in AMQP types look alike in JSON; of several
// such none is deleted, since it could be another's.
func (w *writer) unbind(ctx context.Context, b *topology.Binding) error {
	if dots(b.VirtualHost) || dots(b.Source) || dots(b.Destination) {
		return w.unbindAMQP(ctx, b) // a path with these names leads elsewhere
	}
	end := "q"
	if b.DestinationType == topology.ToExchange {
		end = "e"
	}
	path := "bindings/" + escape(b.VirtualHost) + "/e/" + escape(b.Source) + "/" + end + "/" + escape(b.Destination)
	var list []bindingEntry
	if err := w.client.get(ctx, path, &list); err != nil {
		return err
	}
	var keys []string
	for _, e := range list {
		if e.key() == b.RoutingKey && e.Arguments.table().Equal(b.Arguments) {
			keys = append(keys, e.PropertiesKey)
		}
	}
	switch len(keys) {
	case 0:
		return nil // already absent
	case 1:
	default:
		return local("%d bindings look alike and differ only in the AMQP types of their arguments, so that none is deleted; their properties keys are %s",
			len(keys), quoteAll(keys))
	}
	if dots(keys[0]) {
		// The broker decodes a properties_key twice; so its dots survive the path.
		keys[0] = strings.ReplaceAll(keys[0], ".", "%2E")
	}
	info := bindingInfo(b)
	info.PropertiesKey = keys[0]
	return w.do(request{ctx: ctx}, func(api *rabbithole.Client) (*http.Response, error) {
		return api.DeleteBinding(b.VirtualHost, info)
	})
}

func quoteAll(list []string) string {
	slices.Sort(list)
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return strings.Join(quoted, ", ")
}

// put creates or changes what only the management API can write.
func (w *writer) put(ctx context.Context, o topology.Object) error {
	r := request{ctx: ctx}
	switch o := o.(type) {
	case *topology.Policy:
		return w.serially(ctx, func(r request) error {
			return w.do(r, func(api *rabbithole.Client) (*http.Response, error) { return putPolicy(api, o) })
		})
	case *topology.Parameter:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.PutRuntimeParameter(o.Component, o.VirtualHost, o.Name, jsonValue(o.Value))
		})
	case *topology.Permission:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.UpdatePermissionsIn(o.VirtualHost, o.User, rabbithole.Permissions{Configure: o.Configure, Write: o.Write, Read: o.Read})
		})
	case *topology.TopicPermission:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.UpdateTopicPermissionsIn(o.VirtualHost, o.User, rabbithole.TopicPermissions{Exchange: o.Exchange, Write: o.Write, Read: o.Read})
		})
	case *topology.VirtualHostSettings:
		return w.putVirtualHost(ctx, o)
	}
	return unknownObject(o)
}

// serially runs one write of a policy at a time, and none once ctx has ended: a
// single one can keep the broker busy for minutes.
func (w *writer) serially(ctx context.Context, call func(request) error) error {
	if err := w.client.policies.Lock(ctx); err != nil {
		return &Error{Via: ViaHTTP, class: cancelled, Err: err}
	}
	defer w.client.policies.Unlock()
	return call(request{ctx: ctx, slow: true})
}

func putPolicy(api *rabbithole.Client, p *topology.Policy) (*http.Response, error) {
	definition := rabbithole.PolicyDefinition(jsonTable(p.Definition))
	applyTo := cmp.Or(p.ApplyTo, "all")
	if p.Operator {
		return api.PutOperatorPolicy(p.VirtualHost, p.Name, rabbithole.OperatorPolicy{
			Vhost: p.VirtualHost, Name: p.Name, Pattern: p.Pattern, ApplyTo: applyTo, Priority: int(p.Priority), Definition: definition,
		})
	}
	return api.PutPolicy(p.VirtualHost, p.Name, rabbithole.Policy{
		Vhost: p.VirtualHost, Name: p.Name, Pattern: p.Pattern, ApplyTo: applyTo, Priority: int(p.Priority), Definition: definition,
	})
}

// putVirtualHost puts what is stated. A PUT replaces description and tags that it
// does not name, so those of the broker are read and sent along.
func (w *writer) putVirtualHost(ctx context.Context, s *topology.VirtualHostSettings) error {
	there, err := w.client.virtualHosts(ctx)
	if err != nil {
		return err
	}
	live, exists := there[s.VirtualHost]
	body := map[string]any{}
	if description := firstOf(s.Description, live.Description); description != nil {
		body["description"] = *description
	}
	tags := s.Tags
	if tags == nil {
		tags = live.Tags
	}
	if tags != nil {
		body["tags"] = strings.Join(tags, ",")
	}
	if t := cmp.Or(s.DefaultQueueType, queueType(live.DefaultQueueType)); t != "" {
		body["default_queue_type"] = string(t)
	}
	path := "vhosts/" + escape(s.VirtualHost)
	if len(body) > 0 || !exists {
		if _, err := w.client.send(request{ctx: ctx}, http.MethodPut, path, body); err != nil {
			return err
		}
	}
	if err := w.checkDefaultType(ctx, s); err != nil {
		return err
	}
	if err := w.putLimits(ctx, s); err != nil {
		return err
	}
	if s.ProtectFromDeletion == nil {
		return nil
	}
	method := http.MethodDelete
	if *s.ProtectFromDeletion {
		method = http.MethodPost
	}
	_, err = w.client.send(request{ctx: ctx}, method, path+"/deletion/protection", nil)
	if e, ok := as(err); ok && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed) {
		e.Hint = "this version of RabbitMQ has no deletion protection"
	}
	return err
}

// checkDefaultType reads the default queue type back: 3.10 answers 201 and drops
// it, 4.0 does so with a type that it does not know.
func (w *writer) checkDefaultType(ctx context.Context, s *topology.VirtualHostSettings) error {
	if s.DefaultQueueType == "" {
		return nil
	}
	there, err := w.client.virtualHosts(ctx)
	if err != nil {
		return err
	}
	if live := there[s.VirtualHost]; queueType(live.DefaultQueueType) != s.DefaultQueueType {
		return local("RabbitMQ took the default queue type %q without an error but did not set it; it needs a newer version", s.DefaultQueueType)
	}
	return nil
}

func firstOf(a, b *string) *string {
	if a != nil {
		return a
	}
	return b
}

func (w *writer) remove(ctx context.Context, o topology.Object) error {
	r := request{ctx: ctx}
	switch o := o.(type) {
	case *topology.Exchange:
		return w.deleteExchange(ctx, o)
	case *topology.Queue:
		return w.deleteQueue(ctx, o)
	case *topology.Binding:
		return w.unbind(ctx, o)
	case *topology.Policy:
		return w.serially(ctx, func(r request) error {
			return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
				if o.Operator {
					return api.DeleteOperatorPolicy(o.VirtualHost, o.Name)
				}
				return api.DeletePolicy(o.VirtualHost, o.Name)
			})
		})
	case *topology.Parameter:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.DeleteRuntimeParameter(o.Component, o.VirtualHost, o.Name)
		})
	case *topology.Permission:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.ClearPermissionsIn(o.VirtualHost, o.User)
		})
	case *topology.TopicPermission:
		return w.do(r, func(api *rabbithole.Client) (*http.Response, error) {
			return api.DeleteTopicPermissionsIn(o.VirtualHost, o.User, o.Exchange)
		})
	case *topology.VirtualHostSettings:
		return local("a virtual host is not deleted by its settings: everything in it would go")
	}
	return unknownObject(o)
}

// jsonTable copies arguments for encoding/json.
func jsonTable(a topology.Arguments) map[string]any {
	t := make(map[string]any, len(a))
	for k, v := range a {
		t[k] = jsonValue(v)
	}
	return t
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case topology.Arguments:
		return jsonTable(v)
	case map[string]any:
		return jsonTable(v)
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = jsonValue(e)
		}
		return list
	case float64:
		return double(v)
	}
	return v
}

// double is a float that stays one: encoding/json writes 5.0 as 5, which the
// broker takes for an integer.
type double float64

func (d double) MarshalJSON() ([]byte, error) {
	f := float64(d)
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendFloat(nil, f, 'f', 1, 64), nil
	}
	return json.Marshal(f)
}

// putLimits sets the limits that are stated and takes away those that are left out
// beside them; one that is not there counts as taken away.
func (w *writer) putLimits(ctx context.Context, s *topology.VirtualHostSettings) error {
	if s.Limits == nil {
		return nil
	}
	for _, name := range []string{"max-connections", "max-queues"} {
		n, stated := s.Limits[name]
		err := w.do(request{ctx: ctx}, func(api *rabbithole.Client) (*http.Response, error) {
			if stated {
				return api.PutVhostLimits(s.VirtualHost, rabbithole.VhostLimitsValues{name: int(n)})
			}
			return api.DeleteVhostLimits(s.VirtualHost, rabbithole.VhostLimits{name})
		})
		if e, ok := as(err); ok && !stated && e.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
