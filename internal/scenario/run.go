package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/internal/confirm"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/internal/wire"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// Input is what Run needs.
type Input struct {
	Scenario *Scenario
	// Topology is the spec, expanded for Version.
	Topology    *topology.Topology
	Version     string
	VirtualHost string
}

// Run carries a script out. The findings are expectations that are not met; the error says
// which step cannot be done.
func Run(ctx context.Context, in Input) (*Result, diag.List, error) {
	r := &runner{in: in, trace: newTrace()}
	r.broker = simulator.New(simulator.Version(in.Version), simulator.Events(r.trace.note))
	r.trace.begin = r.broker.Now()
	if err := r.broker.Declare(in.Topology); err != nil {
		return nil, nil, err
	}
	for _, s := range in.Scenario.Steps {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := r.step(ctx, s); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", s.Position, err)
		}
	}
	if r.conn != nil {
		_ = r.conn.Close()
	}
	return r.trace.result(r.places()), r.found, nil
}

type runner struct {
	in     Input
	broker *simulator.Broker
	trace  *trace
	conn   wire.Connection
	sent   int
	found  diag.List
}

func (r *runner) step(ctx context.Context, s Step) error {
	switch {
	case s.Publish != nil:
		return r.publish(ctx, s.Publish)
	case s.Consume != nil && byHelper[s.Consume.Outcome]:
		return r.help(ctx, s.Consume)
	case s.Consume != nil:
		return r.consume(ctx, s.Consume)
	case s.Advance > 0:
		r.broker.Advance(s.Advance)
	case s.Restart:
		r.broker.Stop()
		r.broker.Start()
	case s.Cut:
		r.broker.CutConnections()
	case s.Expect != nil:
		r.expect(s)
	}
	return nil
}

// channel opens a channel, on a new connection where the old one is gone.
func (r *runner) channel(ctx context.Context) (wire.Channel, error) {
	if r.conn == nil || r.conn.IsClosed() {
		conn, err := r.broker.Dialer(r.in.VirtualHost).Dial(ctx, "scenario")
		if err != nil {
			return nil, err
		}
		r.conn = conn
	}
	return r.conn.Channel()
}

func (r *runner) publish(ctx context.Context, p *Publish) error {
	ch, err := r.channel(ctx)
	if err != nil {
		return err
	}
	defer ch.Close()
	c, err := confirm.New(ch)
	if err != nil {
		return err
	}
	for i := range max(p.Count, 1) {
		r.sent++
		id := p.ID
		switch {
		case id == "":
			id = "m" + strconv.Itoa(r.sent)
		case p.Count > 1:
			id += "." + strconv.FormatInt(i+1, 10)
		}
		m := amqp091.Publishing{MessageId: id, Body: []byte(p.Body), Headers: table(p.Headers), DeliveryMode: amqp091.Persistent, Priority: uint8(p.Priority)}
		if p.Transient {
			m.DeliveryMode = amqp091.Transient
		}
		if p.Expiration > 0 {
			m.Expiration = strconv.FormatInt(p.Expiration.Milliseconds(), 10)
		}
		pending, err := c.Publish(ctx, p.Exchange, p.RoutingKey, true, m)
		if err == nil {
			err = pending.Wait(ctx)
		}
		var returned *confirm.Returned
		var nacked *confirm.Nacked
		switch {
		case err == nil, errors.As(err, &returned), errors.As(err, &nacked): // the trace has it
		default:
			return fmt.Errorf("publish to exchange %q: %w", p.Exchange, err)
		}
	}
	return nil
}

func table(m map[string]any) amqp091.Table {
	if m == nil {
		return nil
	}
	t := amqp091.Table{}
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			t[k] = table(v)
		case int:
			t[k] = int64(v)
		default:
			t[k] = v
		}
	}
	return t
}

// count is how many deliveries are taken: those that are there, where the script does not
// say it, so that what comes back does not come round for ever.
func (r *runner) count(c *Consume) (int, error) {
	if !slices.Contains(r.broker.Queues(r.in.VirtualHost), c.Queue) {
		detail := ""
		if near := text.Nearest(c.Queue, r.broker.Queues(r.in.VirtualHost)); near != "" {
			detail = fmt.Sprintf("; did you mean %q?", near)
		}
		return 0, fmt.Errorf("there is no queue %q%s", c.Queue, detail)
	}
	if c.Count > 0 {
		return int(c.Count), nil
	}
	return r.broker.Depth(r.in.VirtualHost, c.Queue), nil
}

func (r *runner) consume(ctx context.Context, c *Consume) error {
	n, err := r.count(c)
	if err != nil {
		return err
	}
	ch, err := r.channel(ctx)
	if err != nil {
		return err
	}
	defer ch.Close() // which is the crash
	for range n {
		d, ok, err := ch.Get(c.Queue, false)
		if err != nil {
			return fmt.Errorf("consume queue %q: %w", c.Queue, err)
		}
		if !ok {
			break
		}
		switch c.Outcome {
		case "ack":
			err = ch.Ack(d.DeliveryTag, false)
		case "reject":
			err = ch.Reject(d.DeliveryTag, false)
		case "requeue":
			err = ch.Reject(d.DeliveryTag, true)
		case "nack":
			err = ch.Nack(d.DeliveryTag, false, true)
		}
		if err != nil {
			return fmt.Errorf("consume queue %q: %w", c.Queue, err)
		}
	}
	return nil
}

// help runs package consumer on the queue for so many deliveries.
func (r *runner) help(ctx context.Context, c *Consume) error {
	n, err := r.count(c)
	if err != nil || n == 0 {
		return err
	}
	outcome := consumer.Retry()
	reason := errors.New("the scenario says so")
	switch c.Outcome {
	case "retry-after":
		outcome = consumer.RetryAfter(c.Delay)
	case "retry-later":
		outcome = consumer.RetryLater()
	case "drop":
		outcome = consumer.Drop(reason)
	case "dead-letter":
		outcome = consumer.DeadLetter(c.Category, reason)
	}
	helper, err := consumer.OpenWith(ctx, r.broker.Dialer(r.in.VirtualHost), consumer.FromTopology(r.in.Topology.VirtualHost(r.in.VirtualHost), c.Queue),
		consumer.Prefetch(1), consumer.Logger(slog.New(slog.DiscardHandler)), consumer.By("scenario"))
	if err != nil {
		return err
	}
	if n > r.broker.Depth(r.in.VirtualHost, c.Queue) {
		// What a retry brings back at once is taken too; what waits is not waited for.
		time.AfterFunc(idle, helper.Stop)
	}
	taken := 0
	return helper.Run(ctx, func(ctx context.Context, _ *consumer.Delivery) consumer.Outcome {
		if taken++; taken >= n {
			helper.Stop()
			r.awaitCancel(ctx, c.Queue) // or the next one would be delivered
		}
		return outcome
	})
}

// idle is how long, in real time, a consumer waits for deliveries that may never come.
const idle = 200 * time.Millisecond

func (r *runner) awaitCancel(ctx context.Context, queue string) {
	ch, err := r.channel(ctx)
	if err != nil {
		return
	}
	defer ch.Close()
	for range 1000 {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil || q.Consumers == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// places says in which queues the messages are, by id.
func (r *runner) places() map[string][]string {
	all := map[string][]string{}
	for _, q := range r.broker.Queues(r.in.VirtualHost) {
		list, err := r.broker.Messages(r.in.VirtualHost, q)
		if err != nil {
			continue
		}
		for _, m := range list {
			if !slices.Contains(all[m.ID], q) {
				all[m.ID] = append(all[m.ID], q)
			}
		}
	}
	return all
}

func (r *runner) expect(s Step) {
	e := s.Expect
	wrong := func(format string, args ...any) {
		r.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "expectation-failed", Position: s.Position, Summary: fmt.Sprintf(format, args...),
			Detail: "The paths of the messages show what happened instead.",
		})
	}
	if e.Queue != "" {
		list, err := r.broker.Messages(r.in.VirtualHost, e.Queue)
		switch {
		case err != nil:
			wrong("there is no queue %q", e.Queue)
		case int64(len(list)) != *e.Messages:
			wrong("queue %q has %s, %d expected", e.Queue, text.Plural(len(list), "message", "messages"), *e.Messages)
		}
	}
	if e.LostTotal != nil {
		if n := int64(r.trace.lost()); n != *e.LostTotal {
			wrong("%s lost, %d expected", text.Plural(int(n), "message", "messages"), *e.LostTotal)
		}
	}
	if e.Message == "" {
		return
	}
	m := r.trace.byID[e.Message]
	if m == nil {
		wrong("no message %q was published", e.Message)
		return
	}
	in := r.places()[e.Message]
	if e.In != "" && !slices.Contains(in, e.In) {
		wrong("message %q is not in queue %q but %s", e.Message, e.In, m.end(in))
	}
	if e.Acknowledged && (len(in) > 0 || m.gone > 0 || m.acknowledged == 0) {
		wrong("message %q was not acknowledged: it is %s", e.Message, m.end(in))
	}
	if e.Lost && m.gone == 0 {
		wrong("message %q is not lost: it is %s", e.Message, m.end(in))
	}
	if e.Deliveries != nil && int64(m.deliveries) != *e.Deliveries {
		wrong("message %q was delivered %d times, %d expected", e.Message, m.deliveries, *e.Deliveries)
	}
}
