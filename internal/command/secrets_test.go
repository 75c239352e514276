package command

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

type recorder struct{ got []topology.Object }

func (r *recorder) Create(_ context.Context, o topology.Object) error {
	r.got = append(r.got, o)
	return nil
}

func (r *recorder) Update(ctx context.Context, o topology.Object) error { return r.Create(ctx, o) }
func (r *recorder) Delete(context.Context, topology.Object) error       { return nil }

// TestSecretsAreResolvedLate: the object in the plan keeps its reference, what is
// written has the secret, and a missing one stops before the first write.
func TestSecretsAreResolvedLate(t *testing.T) {
	shovel := &topology.Parameter{VirtualHost: "/", Component: "shovel", Name: "s", Value: map[string]any{
		"src-uri": []any{"amqp://app:${env:MQ_SECRET}@host"}, "prefetch": int64(3),
	}}
	p := &plan.Plan{Changes: []*plan.Change{{Key: shovel.Key(), Action: plan.Create, After: shovel}}}
	set := Streams{Environ: []string{"MQ_SECRET=p@ss"}}

	err := checkSecrets(p, Streams{})
	if err == nil || statusOf(err) != ExitUsage || !strings.Contains(err.Error(), "MQ_SECRET") {
		t.Errorf("a missing secret: %v", err)
	}
	if err := checkSecrets(p, set); err != nil {
		t.Error(err)
	}
	var r recorder
	if err := (secretWriter{&r, Streams{}}).Create(t.Context(), shovel); err == nil {
		t.Error("a missing secret was written")
	}
	for _, write := range []func(context.Context, topology.Object) error{secretWriter{&r, set}.Create, secretWriter{&r, set}.Update} {
		r.got = nil
		if err := write(t.Context(), shovel); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"src-uri": []any{"amqp://app:p@ss@host"}, "prefetch": int64(3)}
		if got := r.got[0].(*topology.Parameter).Value; !reflect.DeepEqual(got, want) {
			t.Errorf("written: %v", got)
		}
	}
	if !strings.Contains(topology.Text(shovel.Value), "${env:MQ_SECRET}") {
		t.Error("the plan's own object lost its reference")
	}
}
