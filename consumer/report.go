package consumer

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rabbitctl/rabbitctl/internal/telemetry"
	"github.com/rabbitctl/rabbitctl/internal/text"
)

// ReportKind says what a Report is about.
type ReportKind string

// The kinds of reports.
const (
	// ReportCopyFailed: a copy was not confirmed, the message went back to its queue.
	ReportCopyFailed ReportKind = "copy-failed"
	// ReportNotSettled: see ErrNotSettled.
	ReportNotSettled ReportKind = "not-settled"
	// ReportDelayRounded: RetryAfter asked for a delay that is not declared.
	ReportDelayRounded ReportKind = "delay-rounded"
	// ReportBadCount: a count header is no number and counts as 0.
	ReportBadCount ReportKind = "bad-count"
	// ReportForeignUser: the user_id of a message was left out of its copy.
	ReportForeignUser ReportKind = "foreign-user"
	// ReportPanic, ReportFailed and ReportUndecodable: the handler could not judge.
	ReportPanic       ReportKind = "panic"
	ReportFailed      ReportKind = "failed"
	ReportUndecodable ReportKind = "undecodable"
	// ReportOverCap: a message came that had used up its attempts; the handler did not
	// see it.
	ReportOverCap ReportKind = "over-cap"
	// ReportNoDeadLetter: DeadLetter was returned and there is no place for it.
	ReportNoDeadLetter ReportKind = "no-dead-letter"
	// ReportConnection: the connection, its channel or the consumer on it was lost, or
	// could not be had; the consumer goes on trying.
	ReportConnection ReportKind = "connection"
	// ReportBlocked: the broker takes no messages, because it runs out of memory or
	// disk space (connection.blocked).
	ReportBlocked ReportKind = "blocked"
)

// Report is something that the people who run the service may want to know of.
type Report struct {
	Kind  ReportKind
	Queue string
	// MessageID is the property message_id; empty: none, or no message is meant.
	MessageID string
	Err       error
}

// report tells of something by the logger and by OnReport.
func (c *Consumer) report(kind ReportKind, d *Delivery, err error) {
	r := Report{Kind: kind, Queue: c.queue.name, Err: err}
	attributes := []any{"queue", c.queue.name, "kind", string(kind)}
	if d != nil && d.MessageID != "" {
		r.MessageID = d.MessageID
		attributes = append(attributes, "message_id", text.Line(d.MessageID))
	}
	if err != nil {
		attributes = append(attributes, "error", text.Line(err.Error()))
	}
	c.otel.reports.Add(context.Background(), 1, metric.WithAttributes(telemetry.System, c.otel.queue, attribute.String("rabbitctl.kind", string(kind))))
	c.options.log.Warn("rabbitctl consumer: "+string(kind), attributes...)
	if c.options.onReport != nil {
		c.options.onReport(r)
	}
}
