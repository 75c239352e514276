package wire_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/wire"
)

func TestDialsARealBroker(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		d := wire.AMQP{URL: b.AMQPURL(b.VirtualHost(t))}
		c, err := d.Dial(t.Context(), "wire test")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, _, _ := strings.Cut(c.ServerVersion(), "+"); got != b.Version {
			t.Errorf("server version %q, want %q", got, b.Version)
		}
		ch, err := c.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclarePassive("missing", false, false, false, false, nil); err == nil {
			t.Error("a missing queue was found")
		}
		if !ch.IsClosed() {
			t.Error("the channel is open after a 404")
		}
	})
}

func TestDialErrorNamesTheBrokerAndNoPassword(t *testing.T) {
	d := wire.AMQP{URL: "amqp://service:hunter2@127.0.0.1:1/shop"}
	_, err := d.Dial(t.Context(), "wire test")
	if err == nil {
		t.Fatal("connected to port 1")
	}
	if !strings.Contains(err.Error(), `127.0.0.1:1 virtual host "shop"`) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %q", err)
	}
	if d.Username() != "service" {
		t.Errorf("user is %q", d.Username())
	}
}

func TestSleepEndsWithTheClockOrTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := wire.Sleep(t.Context(), wire.System, time.Hour); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("slept %v with %v", time.Since(begin), err)
		}
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		begin = time.Now()
		if err := wire.Sleep(ctx, wire.System, time.Hour); !errors.Is(err, cause) || time.Since(begin) != time.Minute {
			t.Errorf("slept %v with %v", time.Since(begin), err)
		}
	})
}
