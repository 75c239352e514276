package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
)

// Telemetry says where spans and metrics go; nil arguments are OpenTelemetry's global ones.
// The trace context is written into the headers of messages.
func Telemetry(t trace.TracerProvider, m metric.MeterProvider, p propagation.TextMapPropagator) Option {
	return func(o *options) { o.telemetry = telemetry.Providers{Tracer: t, Meter: m, Propagator: p} }
}

// instruments are the publisher's spans and metrics.
type instruments struct {
	telemetry.Scope
	results     metric.Int64Counter
	duration    metric.Float64Histogram
	outstanding metric.Int64UpDownCounter
}

func newInstruments(p telemetry.Providers) *instruments {
	s := telemetry.New("github.com/rabbitctl/rabbitctl/publisher", p)
	return &instruments{
		Scope:       s,
		results:     s.Counter("rabbitctl.publisher.results", "{message}", "Messages that were published, by result."),
		duration:    s.Histogram("rabbitctl.publisher.duration", "s", "How long the confirm of a message took.", telemetry.Seconds...),
		outstanding: s.UpDown("rabbitctl.publisher.outstanding", "{message}", "Messages that wait for their confirm."),
	}
}

// publishing is the span of one message, from the call to its result.
type publishing struct {
	*instruments
	ctx   context.Context
	span  trace.Span
	begin time.Time
	to    attribute.KeyValue
}

func (i *instruments) start(ctx context.Context, at Target, m *amqp091.Publishing) *publishing {
	p := &publishing{instruments: i, begin: time.Now(), to: telemetry.Destination(at.Exchange)}
	p.ctx, p.span = i.Start(ctx, "publish "+at.Exchange, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		telemetry.System, p.to, attribute.String("messaging.operation.type", "send"), attribute.String("messaging.message.id", m.MessageId),
		attribute.String("messaging.rabbitmq.destination.routing_key", at.RoutingKey),
	))
	if i.Carries(p.ctx) {
		if m.Headers == nil {
			m.Headers = amqp091.Table{}
		}
		i.Inject(p.ctx, m.Headers)
	}
	i.outstanding.Add(p.ctx, 1, metric.WithAttributes(telemetry.System))
	return p
}

func (p *publishing) end(err error) {
	result := attribute.String("rabbitctl.result", resultOf(err))
	p.outstanding.Add(p.ctx, -1, metric.WithAttributes(telemetry.System))
	p.results.Add(p.ctx, 1, metric.WithAttributes(telemetry.System, p.to, result))
	p.duration.Record(p.ctx, time.Since(p.begin).Seconds(), metric.WithAttributes(telemetry.System, p.to, result))
	p.span.SetAttributes(result)
	if err != nil {
		p.span.RecordError(err)
		p.span.SetStatus(codes.Error, resultOf(err))
	}
	p.span.End()
}

func resultOf(err error) string {
	var returned *Returned
	var nacked *Nacked
	var refused *Refused
	var notSent *NotSent
	switch {
	case err == nil:
		return "confirmed"
	case errors.As(err, &returned):
		return "returned"
	case errors.As(err, &nacked):
		return "nacked"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &notSent):
		return "not-sent"
	}
	return "unknown"
}
