// Package telemetry is what consumer and publisher share of OpenTelemetry: its API alone,
// so that who sets up no SDK pays nothing.
package telemetry

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Providers are where spans and metrics go; nil fields are the global ones.
type Providers struct {
	Tracer     trace.TracerProvider
	Meter      metric.MeterProvider
	Propagator propagation.TextMapPropagator
}

// Scope is one instrumented package.
type Scope struct {
	trace.Tracer
	metric.Meter
	propagator propagation.TextMapPropagator
}

// New makes the scope of a package, which is named by its import path.
func New(name string, p Providers) Scope {
	if p.Tracer == nil {
		p.Tracer = otel.GetTracerProvider()
	}
	if p.Meter == nil {
		p.Meter = otel.GetMeterProvider()
	}
	if p.Propagator == nil {
		p.Propagator = otel.GetTextMapPropagator()
	}
	return Scope{Tracer: p.Tracer.Tracer(name), Meter: p.Meter.Meter(name), propagator: p.Propagator}
}

// Headers carry a trace context in the headers of a message.
type Headers map[string]any

// Get implements propagation.TextMapCarrier.
func (h Headers) Get(key string) string {
	s, _ := h[key].(string)
	return s
}

// Set implements propagation.TextMapCarrier.
func (h Headers) Set(key, value string) { h[key] = value }

// Keys implements propagation.TextMapCarrier.
func (h Headers) Keys() []string {
	keys := make([]string, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	return keys
}

// Inject writes the trace context into headers, which must not be nil.
func (s Scope) Inject(ctx context.Context, headers map[string]any) {
	s.propagator.Inject(ctx, Headers(headers))
}

// Carries reports whether there is a trace context to write.
func (s Scope) Carries(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }

// Extract reads the trace context of headers.
func (s Scope) Extract(ctx context.Context, headers map[string]any) context.Context {
	return s.propagator.Extract(ctx, Headers(headers))
}

// Counter makes a counter; one that cannot be made counts nothing.
func (s Scope) Counter(name, unit, description string) metric.Int64Counter {
	c, err := s.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	if err != nil {
		return noop.Int64Counter{}
	}
	return c
}

// UpDown makes a counter that goes up and down.
func (s Scope) UpDown(name, unit, description string) metric.Int64UpDownCounter {
	c, err := s.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	if err != nil {
		return noop.Int64UpDownCounter{}
	}
	return c
}

// Histogram makes a histogram.
func (s Scope) Histogram(name, unit, description string, bounds ...float64) metric.Float64Histogram {
	h, err := s.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		return noop.Float64Histogram{}
	}
	return h
}

// Seconds are bounds for durations in seconds.
var Seconds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300}

// System is the attribute that every span and metric has.
var System = attribute.String("messaging.system", "rabbitmq")

// Destination names a queue or an exchange.
func Destination(name string) attribute.KeyValue {
	return attribute.String("messaging.destination.name", name)
}
