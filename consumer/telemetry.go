package consumer

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
)

// Telemetry says where spans and metrics go; nil arguments are OpenTelemetry's global ones.
// The trace context is read from the headers of messages and written into those of copies.
func Telemetry(t trace.TracerProvider, m metric.MeterProvider, p propagation.TextMapPropagator) Option {
	return func(o *options) { o.telemetry = telemetry.Providers{Tracer: t, Meter: m, Propagator: p} }
}

// instruments are the consumer's spans and metrics.
type instruments struct {
	telemetry.Scope
	queue    attribute.KeyValue
	outcomes metric.Int64Counter
	reports  metric.Int64Counter
	duration metric.Float64Histogram
	attempts metric.Float64Histogram
	inFlight metric.Int64UpDownCounter
}

func newInstruments(p telemetry.Providers, queue string) *instruments {
	s := telemetry.New("github.com/rabbitctl/rabbitctl/consumer", p)
	return &instruments{
		Scope: s, queue: telemetry.Destination(queue),
		outcomes: s.Counter("rabbitctl.consumer.outcomes", "{delivery}", "Deliveries that were handled, by outcome."),
		reports:  s.Counter("rabbitctl.consumer.reports", "{report}", "What went wrong, by kind (copy-failed, not-settled, connection, ...)."),
		duration: s.Histogram("rabbitctl.consumer.duration", "s", "How long handlers worked.", telemetry.Seconds...),
		attempts: s.Histogram("rabbitctl.consumer.attempts", "{attempt}", "Which attempt a delivery was.", 1, 2, 3, 5, 10, 20),
		inFlight: s.UpDown("rabbitctl.consumer.in_flight", "{delivery}", "Deliveries that are being handled or settled."),
	}
}

// begin opens the span of a delivery, below the one that published the message.
func (i *instruments) begin(ctx context.Context, d *Delivery) (context.Context, trace.Span, time.Time) {
	ctx = i.Extract(ctx, d.Headers)
	ctx, span := i.Start(ctx, "process "+d.queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		telemetry.System, i.queue, attribute.String("messaging.operation.type", "process"), attribute.String("messaging.message.id", d.MessageID),
		attribute.Int("rabbitctl.attempt", d.Attempt()),
	))
	i.attempts.Record(ctx, float64(d.Attempt()), metric.WithAttributes(telemetry.System, i.queue))
	return ctx, span, time.Now()
}

// end closes the span of a delivery whose outcome is known.
func (i *instruments) end(ctx context.Context, span trace.Span, begin time.Time, o Outcome) {
	outcome := attribute.String("rabbitctl.outcome", string(o.kind))
	i.outcomes.Add(ctx, 1, metric.WithAttributes(telemetry.System, i.queue, outcome))
	i.duration.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributes(telemetry.System, i.queue, outcome))
	span.SetAttributes(outcome)
	if err := o.Reason(); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, string(o.kind))
	}
	span.End()
}

// settle opens the span of a settlement.
func (i *instruments) settle(ctx context.Context, v verb) trace.Span {
	_, span := i.Start(ctx, "settle "+i.queue.Value.AsString(), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		telemetry.System, i.queue, attribute.String("messaging.operation.type", "settle"), attribute.String("rabbitctl.settlement", string(v)),
	))
	return span
}
