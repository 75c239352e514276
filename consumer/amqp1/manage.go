package amqp1

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// info is what the broker says of a queue.
type info struct {
	found bool
	kind  string // classic, quorum or stream
}

// look asks the broker for a queue. It needs a connection of its own: RabbitMQ 4.0.5 now
// and then delivers nothing in a session that begins on the channel of one that has just
// ended (measured: 4 of 30).
func (c *Consumer) look(ctx context.Context) (i info, version string, err error) {
	for attempt := range 5 {
		conn, failed := c.dial(ctx)
		if failed != nil {
			return info{}, "", failed
		}
		if v, old := isOld(conn.Properties()); old {
			return info{}, v, conn.Close()
		}
		i, err = ask(ctx, conn, c.options.queue)
		_ = conn.Close()
		// The request may overtake the credit for its answer.
		var refused *amqp.Error
		if !errors.As(err, &refused) || refused.Condition != amqp.ErrCondPreconditionFailed {
			return i, "", err
		}
		select {
		case <-time.After(50 * time.Millisecond << attempt):
		case <-ctx.Done():
			return info{}, "", context.Cause(ctx)
		}
	}
	return i, "", err
}

// ask sends the question: requests and answers are messages to the node /management, over
// a pair of links, with no more rights than any user has.
func ask(ctx context.Context, conn *amqp.Conn, queue string) (info, error) {
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return info{}, err
	}
	const node, pair = "/management", "management-link-pair"
	properties := map[string]any{"paired": true}
	receiver, err := session.NewReceiver(ctx, node, &amqp.ReceiverOptions{
		Name: pair, Properties: properties, Credit: 1, TargetAddress: node,
		RequestedSenderSettleMode: amqp.SenderSettleModeSettled.Ptr(), SettlementMode: amqp.ReceiverSettleModeFirst.Ptr(),
	})
	if err != nil {
		return info{}, err
	}
	sender, err := session.NewSender(ctx, node, &amqp.SenderOptions{
		Name: pair, Properties: properties, SourceAddress: node,
		SettlementMode: amqp.SenderSettleModeSettled.Ptr(), RequestedReceiverSettleMode: amqp.ReceiverSettleModeFirst.Ptr(),
	})
	if err != nil {
		return info{}, err
	}
	to, subject, reply := "/queues/"+url.PathEscape(queue), "GET", "$me"
	request := &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: "1", To: &to, Subject: &subject, ReplyTo: &reply},
		Value:      amqp.Null{},
	}
	if err := sender.Send(ctx, request, nil); err != nil {
		return info{}, err
	}
	answer, err := receiver.Receive(ctx, nil)
	if err != nil {
		return info{}, err
	}
	if answer.Properties == nil || answer.Properties.Subject == nil {
		return info{}, errors.New("the broker's answer has no status")
	}
	switch status := *answer.Properties.Subject; status {
	case "200":
		body, _ := answer.Value.(map[string]any)
		kind, _ := body["type"].(string)
		return info{found: true, kind: kind}, nil
	case "404":
		return info{}, nil
	default:
		return info{}, fmt.Errorf("the broker answers %s: %v", status, answer.Value)
	}
}

// isOld reports whether a broker has no modified outcome: before 4.0 AMQP 1.0 is a plugin
// without it.
func isOld(properties map[string]any) (version string, old bool) {
	version, _ = properties["version"].(string)
	return version, strings.HasPrefix(version, "3.")
}
