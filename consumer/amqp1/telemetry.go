package amqp1

import (
	"context"
	"time"

	"github.com/Azure/go-amqp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
)

// Telemetry says where spans and metrics go; nil arguments are OpenTelemetry's global ones.
// The trace context is read from the application properties, which are what headers of AMQP
// 0.9.1 become.
func Telemetry(t trace.TracerProvider, m metric.MeterProvider, p propagation.TextMapPropagator) Option {
	return func(o *options) { o.telemetry = telemetry.Providers{Tracer: t, Meter: m, Propagator: p} }
}

// instruments are the consumer's spans and metrics, with the names of package consumer.
type instruments struct {
	telemetry.Scope
	queue    attribute.KeyValue
	outcomes metric.Int64Counter
	duration metric.Float64Histogram
}

func newInstruments(p telemetry.Providers, queue string) *instruments {
	s := telemetry.New("github.com/rabbitctl/rabbitctl/consumer/amqp1", p)
	return &instruments{
		Scope: s, queue: telemetry.Destination(queue),
		outcomes: s.Counter("rabbitctl.consumer.outcomes", "{delivery}", "Deliveries that were handled, by outcome."),
		duration: s.Histogram("rabbitctl.consumer.duration", "s", "How long handlers worked.", telemetry.Seconds...),
	}
}

// process runs a handler within the span of a message.
func (i *instruments) process(ctx context.Context, m *amqp.Message, work func(context.Context) Outcome) Outcome {
	ctx = i.Extract(ctx, m.ApplicationProperties)
	ctx, span := i.Start(ctx, "process "+i.queue.Value.AsString(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		telemetry.System, i.queue, attribute.String("messaging.operation.type", "process"),
	))
	defer span.End()
	begin := time.Now()
	o := work(ctx)
	outcome := attribute.String("rabbitctl.outcome", string(o.kind))
	i.outcomes.Add(ctx, 1, metric.WithAttributes(telemetry.System, i.queue, outcome))
	i.duration.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributes(telemetry.System, i.queue, outcome))
	span.SetAttributes(outcome)
	if o.err != nil {
		span.RecordError(o.err)
		span.SetStatus(codes.Error, string(o.kind))
	}
	return o
}
