package flow

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// host reads a virtual host from lines:
//
//	exchange NAME TYPE [alternate=NAME] [internal]
//	queue NAME [TYPE] [SETTING=VALUE ...]
//	bind SOURCE -> NAME [KEY] [HEADER=VALUE ...]     a queue, or "x:NAME" for an exchange
//	publish EXCHANGE KEY[,KEY] [cc=KEY] [HEADER=VALUE ...]
func host(text string) *topology.VirtualHost {
	v := &topology.VirtualHost{Name: "v"}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var plain []string
		values := topology.Arguments{}
		for _, w := range f {
			if name, value, ok := strings.Cut(w, "="); ok {
				var n int64
				if _, err := fmt.Sscan(value, &n); err == nil {
					values[name] = n
				} else {
					values[name] = strings.Trim(value, `"`)
				}
				continue
			}
			plain = append(plain, w)
		}
		switch f[0] {
		case "exchange":
			e := &topology.Exchange{Name: plain[1], Type: plain[2], Durable: true, Internal: slices.Contains(plain, "internal")}
			if to, ok := values["alternate"]; ok {
				e.Arguments = topology.Arguments{"alternate-exchange": to}
			}
			v.Exchanges = append(v.Exchanges, e)
		case "queue":
			q := &topology.Queue{Name: plain[1], Type: topology.Classic, Durable: true, Arguments: values}
			if len(plain) > 2 {
				q.Type = topology.QueueType(plain[2])
			}
			v.Queues = append(v.Queues, q)
		case "bind":
			b := &topology.Binding{Source: plain[1], Destination: plain[3], DestinationType: topology.ToQueue, Arguments: values}
			if name, ok := strings.CutPrefix(b.Destination, "x:"); ok {
				b.Destination, b.DestinationType = name, topology.ToExchange
			}
			if len(plain) > 4 {
				b.RoutingKey = plain[4]
			}
			v.Bindings = append(v.Bindings, b)
		case "publish":
			p := &topology.Publisher{Name: "p", Exchange: plain[1], RoutingKeys: strings.Split(plain[2], ",")}
			if cc, ok := values["cc"].(string); ok {
				p.CC = []string{cc}
				delete(values, "cc")
			}
			p.Headers = values
			v.Publishers = append(v.Publishers, p)
		}
	}
	return v
}

// some writes a set: its keys where they are few, else one as an example.
func some(k *Keys) string {
	keys, all := k.Some(4)
	if all {
		return fmt.Sprintf("%q", keys)
	}
	return fmt.Sprintf("%q and others", k.Example())
}

func TestDeadLetters(t *testing.T) {
	for _, c := range []struct {
		name, host string
		// targets are "queue keys", "queue? keys" where it is not certain.
		targets         []string
		certain, likely string // lost
	}{
		{
			name: "by name", host: "queue q x-dead-letter-exchange= x-dead-letter-routing-key=d\nqueue d",
			targets: []string{`d ["d"]`}, certain: "[]", likely: "[]",
		},
		{
			name: "no such queue", host: "queue q x-dead-letter-exchange= x-dead-letter-routing-key=d",
			certain: `["d"]`, likely: `["d"]`,
		},
		{
			name: "no such exchange", host: "queue q x-dead-letter-exchange=e x-dead-letter-routing-key=d\nqueue d",
			certain: `["d"]`, likely: `["d"]`,
		},
		{
			name: "own keys to a direct exchange", host: `
				exchange in topic
				exchange d direct
				queue q x-dead-letter-exchange=d
				queue dead
				bind in -> q order.*
				bind d -> dead order.created`,
			targets: []string{`dead ["order.created"]`}, certain: `"order.x" and others`, likely: `"order.x" and others`,
		},
		{
			name: "own keys to a topic exchange", host: `
				exchange in topic
				exchange d topic
				queue q x-dead-letter-exchange=d
				queue dead
				bind in -> q order.*
				bind d -> dead *.#`,
			targets: []string{`dead "order.x" and others`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "an alternate exchange takes the rest", host: `
				exchange in direct
				exchange d direct alternate=f
				exchange f fanout
				queue q x-dead-letter-exchange=d
				queue dead
				queue else
				bind in -> q a
				bind in -> q b
				bind d -> dead a
				bind f -> else`,
			targets: []string{`dead ["a"]`, `else ["b"]`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "an alternate exchange is not for what a binding leads into the void", host: `
				exchange in direct
				exchange d fanout alternate=f
				exchange t topic
				exchange f fanout
				queue q x-dead-letter-exchange=d
				queue else
				bind in -> q a
				bind d -> x:t
				bind f -> else`,
			certain: `["a"]`, likely: `["a"]`,
		},
		{
			name: "headers decide", host: `
				exchange h headers
				queue q x-dead-letter-exchange=h x-dead-letter-routing-key=k
				queue dead
				bind h -> dead x-match=all-with-x x-opt-a=b`,
			targets: []string{`dead? ["k"]`}, certain: `[]`, likely: `["k"]`,
		},
		{
			name: "headers decide, and there is an else", host: `
				exchange h headers alternate=f
				exchange f fanout
				exchange more headers alternate=f
				queue q x-dead-letter-exchange=h
				queue dead
				queue else
				bind h -> dead x-match=all-with-x x-opt-a=b
				bind h -> x:more x-match=all-with-x x-opt-a=c
				bind more -> dead a=b
				bind f -> else`,
			targets: []string{`dead? ["q"]`, `else? ["q"]`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "headers decide, and one way lacks an else", host: `
				exchange h headers alternate=f
				exchange f fanout
				exchange more headers
				queue q x-dead-letter-exchange=h
				queue dead
				queue else
				bind h -> dead x-match=all-with-x x-opt-a=b
				bind h -> x:more x-match=all-with-x x-opt-a=c
				bind more -> dead a=b
				bind f -> else`,
			targets: []string{`dead? ["q"]`, `else? ["q"]`}, certain: `[]`, likely: `["q"]`,
		},
		{
			name: "the broker's counts are not there", host: `
				exchange h headers
				queue q x-dead-letter-exchange=h x-dead-letter-routing-key=k
				queue dead
				bind h -> dead x-match=any-with-x x-delivery-count=3
				bind h -> dead x-match=all-with-x x-acquired-count=3 a=b`,
			certain: `["k"]`, likely: `["k"]`,
		},
		{
			name: "all of nothing", host: `
				exchange h headers
				queue q x-dead-letter-exchange=h x-dead-letter-routing-key=k
				queue dead
				bind h -> dead x-match=all x-opt-a=b`,
			targets: []string{`dead ["k"]`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "one of two, and one leads nowhere", host: `
				exchange c x-consistent-hash
				exchange t topic
				queue q x-dead-letter-exchange=c x-dead-letter-routing-key=k
				queue dead
				bind c -> dead 1
				bind c -> x:t 1`,
			targets: []string{`dead? ["k"]`}, certain: `[]`, likely: `["k"]`,
		},
		{
			name: "a type that nobody knows", host: `
				exchange c pigeon
				queue q x-dead-letter-exchange=c x-dead-letter-routing-key=k
				queue dead
				bind c -> dead k`,
			targets: []string{`dead? ["k"]`}, certain: `[]`, likely: `["k"]`,
		},
		{
			name: "the delay plugin's inner type", host: `
				exchange c x-delayed-message
				queue q x-dead-letter-exchange=c x-dead-letter-routing-key=k
				queue dead
				bind c -> dead k`,
			targets: []string{`dead? ["k"]`}, certain: `[]`, likely: `["k"]`,
		},
		{
			name: "publishers say which keys there are", host: `
				exchange in topic
				exchange d direct
				queue q x-dead-letter-exchange=d
				queue dead
				bind in -> q order.*
				bind d -> dead order.created
				publish in order.created,other.created`,
			targets: []string{`dead ["order.created"]`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "a circle of waiting keeps the keys of the work", host: `
				exchange orders topic
				exchange retry topic
				queue q x-dead-letter-exchange=retry
				queue wait x-message-ttl=1000 x-dead-letter-exchange=orders
				bind orders -> q order.#
				bind retry -> wait #`,
			targets: []string{`wait "order" and others`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "a circle in which every queue waits begins at its first exchange", host: `
				exchange orders topic
				exchange later topic
				queue work x-message-ttl=60000 x-dead-letter-exchange=later
				queue q x-message-ttl=1000 x-dead-letter-exchange=orders
				bind orders -> work order.#
				bind later -> q #`,
			targets: []string{`work "order" and others`}, certain: `[]`, likely: `[]`,
		},
		{
			// real/16: the message's own key leads back, the CC key into the wait queue.
			name: "the way back by CC", host: `
				exchange delay topic
				exchange retry topic
				queue work
				queue q x-message-ttl=1000 x-dead-letter-exchange=retry
				bind delay -> q delay.1m
				bind retry -> work work.#
				publish delay work cc=delay.1m`,
			targets: []string{`work ["work"]`}, certain: `[]`, likely: `[]`,
		},
		{
			name: "no way back without it", host: `
				exchange delay topic
				exchange retry topic
				queue work
				queue q x-message-ttl=1000 x-dead-letter-exchange=retry
				bind delay -> q delay.1m
				bind retry -> work work.#`,
			certain: `["delay.1m"]`, likely: `["delay.1m"]`,
		},
		{
			name: "a stream gives nothing up", host: "queue q stream x-dead-letter-exchange= x-dead-letter-routing-key=d\nqueue d",
			certain: "[]", likely: "[]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := host(c.host)
			g := New(v, catalog.V(4, 3), Options{})
			reach, lost := g.DeadLetters("q")
			var targets []string
			for _, target := range reach.Targets {
				name := target.Queue
				if target.Certain != target.Keys {
					name += "?"
				}
				targets = append(targets, name+" "+some(target.Keys))
			}
			if !slices.Equal(targets, c.targets) {
				t.Errorf("goes to %q, want %q", targets, c.targets)
			}
			if got := some(lost.Certain); got != c.certain {
				t.Errorf("certainly lost: %s, want %s", got, c.certain)
			}
			if got := some(lost.Possible); got != c.likely {
				t.Errorf("possibly lost: %s, want %s", got, c.likely)
			}
		})
	}
}

func TestFates(t *testing.T) {
	for _, c := range []struct {
		host string
		want string // "cause outcome" for each; * where the settings bring it about
	}{
		{"queue q", "rejected dropped, expired dropped, deleted dropped"},
		{"queue q stream", "deleted dropped"},
		{"queue q x-message-ttl=1 x-expires=1", "rejected dropped, expired* dropped, queue-expired* dropped, deleted dropped"},
		{"queue q x-max-length=1", "rejected dropped, expired dropped, maxlen* dropped, deleted dropped"},
		{"queue q x-max-length=1 x-overflow=reject-publish", "rejected dropped, expired dropped, maxlen* refused, deleted dropped"},
		{"queue q x-max-length=1 x-overflow=reject-publish-dlx", "rejected dropped, expired dropped, maxlen* refused, deleted dropped"},
		{"queue q quorum x-max-length=1 x-overflow=reject-publish-dlx", "rejected dropped, expired dropped, maxlen* dropped, delivery_limit* dropped, deleted dropped"},
		{"queue q quorum x-delivery-limit=-1", "rejected dropped, expired dropped, deleted dropped"},
		{"queue d\nqueue q x-max-length=1 x-dead-letter-exchange= x-dead-letter-routing-key=d", "rejected dead-lettered, expired dead-lettered, maxlen* dead-lettered, deleted dropped"},
		{"queue q x-dead-letter-exchange= x-dead-letter-routing-key=d", "rejected dropped, expired dropped, deleted dropped"},
		{"queue q x-dead-letter-exchange= x-dead-letter-routing-key=q", "rejected dead-lettered, expired dead-lettered round q, deleted dropped"},
		{
			"queue q quorum x-delivery-limit=-1 x-overflow=reject-publish x-dead-letter-strategy=at-least-once x-dead-letter-exchange= x-dead-letter-routing-key=d",
			"rejected stays, expired stays, deleted dropped",
		},
	} {
		var got []string
		for _, f := range New(host(c.host), catalog.V(4, 3), Options{}).Fates("q") {
			text := string(f.Cause)
			if f.Configured {
				text += "*"
			}
			text += " " + string(f.Outcome)
			if f.Cycle != nil {
				text += " round " + strings.Join(f.Cycle, " ")
			}
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.host, got, c.want)
		}
	}
}

func TestLimitLoses(t *testing.T) {
	v := host(`
		queue limited quorum x-delivery-limit=25
		queue few quorum x-delivery-limit=3
		queue none quorum x-delivery-limit=-1
		queue default quorum
		queue classic`)
	for _, c := range []struct {
		source, target string
		version        catalog.Version
		limit, carried int64
		loses          bool
	}{
		{"limited", "default", catalog.V(4, 3), 20, 26, true},
		{"few", "default", catalog.V(4, 3), 20, 4, false},
		{"none", "default", catalog.V(4, 3), 20, -1, true},
		{"limited", "default", catalog.V(4, 0), 20, 0, false},
		{"limited", "none", catalog.V(4, 3), -1, 0, false},
		{"limited", "classic", catalog.V(4, 3), 0, 0, false},
		{"classic", "default", catalog.V(4, 3), 0, 0, false},
	} {
		limit, carried, loses := New(v, c.version, Options{}).LimitLoses(c.source, c.target)
		if limit != c.limit || carried != c.carried || loses != c.loses {
			t.Errorf("%s to %s on %s: limit %d, carried %d, loses %v; want %d %d %v", c.source, c.target, c.version, limit, carried, loses, c.limit, c.carried, c.loses)
		}
	}
}

// TestDelayLadder: real/04 has 2^28 keys and more paths; nothing of it is counted.
func TestDelayLadder(t *testing.T) {
	data, err := os.ReadFile("../../testdata/real/04-binary-delay-28-broken.json")
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := broker.ReadDefinitions(bytes.NewReader(data), "04", "")
	if err != nil {
		t.Fatal(err)
	}
	vhost := state.Topology.VirtualHosts[0]
	g := New(vhost, catalog.Newest, Options{})
	if cycles := g.Cycles(); len(cycles) > 0 {
		t.Errorf("cycles: %q", text(cycles))
	}
	var lost []string
	for _, q := range vhost.Queues {
		if _, l := g.DeadLetters(q.Name); !l.Certain.Empty() {
			lost = append(lost, q.Name)
		}
	}
	// Level 0 leads to the exchange where only two addresses are bound.
	if len(lost) != 28 {
		t.Errorf("%d queues lose messages, want 28: %q", len(lost), lost)
	}
	// With publishers the keys are followed level by level.
	vhost.Publishers = []*topology.Publisher{{Exchange: "wait-level-27", RoutingKeys: []string{strings.Repeat("*.", 28) + "#"}}}
	g = New(vhost, catalog.Newest, Options{})
	key := strings.Repeat("0.", 27) + "1.billing"
	if k := g.Keys("wait-level-00"); !k.Contains(key) || k.Contains("1"+key[1:]) || k.Wide() {
		t.Errorf("the last level gets keys such as %q", k.Example())
	}
}
