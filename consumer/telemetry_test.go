package consumer_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/publisher"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// TestTelemetry: one trace from the publisher through a retry by copy to the end, and the
// metrics of both sides.
func TestTelemetry(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	reader := sdkmetric.NewManualReader()
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	propagator := propagation.TraceContext{}

	b := simulator.New(simulator.RealTime())
	l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
	l.policy = func(string, string, string, map[string]any) {}
	l.start(func(*lab) {})
	option := fromSpec(l, classicSpec)
	p, err := publisher.OpenWith(t.Context(), l.dialer, publisher.Telemetry(tracer, meter, propagator), publisher.Logger(slog.New(slog.DiscardHandler)))
	l.must(err)
	defer p.Close(t.Context())
	var seen calls
	_, stop := l.run(seen.handle(func(n int, _ *consumer.Delivery) consumer.Outcome {
		if n == 1 {
			return consumer.Retry()
		}
		return consumer.DeadLetter("", errors.New("no stock"))
	}), option, consumer.Telemetry(tracer, meter, propagator))
	ctx, root := tracer.Tracer("test").Start(context.Background(), "request")
	l.must(p.Publish(ctx, "", "work", publisher.Message{ID: "m1"}))
	root.End()
	l.take("dead")
	l.must(stop())

	names := map[string]int{}
	var processed []sdktrace.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID() != root.SpanContext().TraceID() {
			t.Errorf("span %q is of another trace", s.Name())
		}
		names[s.Name()]++
		if s.SpanKind() == trace.SpanKindConsumer {
			processed = append(processed, s)
		}
	}
	for name, n := range map[string]int{"request": 1, "publish ": 1, "process work": 2, "settle work": 2} {
		if names[name] != n {
			t.Errorf("%d spans %q, want %d: %v", names[name], name, n, names)
		}
	}
	if len(processed) == 2 {
		if processed[1].Parent().SpanID() != processed[0].SpanContext().SpanID() {
			t.Error("the second attempt does not follow from the first")
		}
		if s := processed[1].Status(); s.Code != codes.Error {
			t.Errorf("the status of the second attempt is %v", s)
		}
	}

	var all metricdata.ResourceMetrics
	l.must(reader.Collect(t.Context(), &all))
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					by := ""
					for _, key := range []attribute.Key{"rabbitctl.outcome", "rabbitctl.result"} {
						if v, ok := point.Attributes.Value(key); ok {
							by = " " + v.AsString()
						}
					}
					sums[m.Name+by] += point.Value
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					sums[m.Name] += int64(point.Count)
				}
			}
		}
	}
	for name, want := range map[string]int64{
		"rabbitctl.consumer.outcomes retry": 1, "rabbitctl.consumer.outcomes dead-letter": 1, "rabbitctl.consumer.duration": 2, "rabbitctl.consumer.attempts": 2,
		"rabbitctl.consumer.in_flight": 0, "rabbitctl.publisher.results confirmed": 1, "rabbitctl.publisher.duration": 1, "rabbitctl.publisher.outstanding": 0,
	} {
		if sums[name] != want {
			t.Errorf("%s is %d, want %d", name, sums[name], want)
		}
	}
}
