package consumer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rabbitctl/rabbitctl/consumer"
	"github.com/rabbitctl/rabbitctl/simulator"
)

// TestInABubble: consumer and simulator live by the clock of testing/synctest, in which
// hours pass as soon as everybody waits.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := simulator.New(simulator.RealTime())
		l := &lab{T: t, dialer: b.Dialer("/"), version: "4.3.6", sim: b}
		l.policy = func(string, string, string, map[string]any) {}
		l.start(func(*lab) {})
		option := fromSpec(l, `version: 1
vhost: /
defaults: {queue: {settings_by: arguments}}
queues:
  work: {type: quorum, retry: {max_attempts: 4, delays: [1h, 6h]}, dead_letter: dead}
  dead: {type: classic, role: dead-letter, owner: us}
`)
		var seen calls
		begin := time.Now()
		_, stop := l.run(seen.handle(always(consumer.RetryLater())), option)
		l.publish("", "work")
		time.Sleep(24 * time.Hour)
		if n := seen.n(); n != 4 {
			t.Fatalf("%d calls, want 4", n)
		}
		for i, want := range []time.Duration{0, 1 * time.Hour, 7 * time.Hour, 13 * time.Hour} {
			if got := seen.at[i].Sub(begin).Round(time.Minute); got != want {
				t.Errorf("attempt %d after %s, want %s", i+1, got, want)
			}
		}
		if n := l.depth("dead"); n != 1 {
			t.Errorf("%d dead", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := l.conn.Close(); err != nil {
			t.Error(err)
		}
		b.Stop()
	})
}
