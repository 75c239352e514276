package specs

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitctl/rabbitctl/internal/brokertest"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

var updateExpand = flag.Bool("update-expand", false, "write what is expanded to testdata/expand")

// loadWhole reads one file, which must be free of findings.
func loadWhole(t *testing.T, name string, data []byte) *Spec {
	t.Helper()
	spec, found := Load(Input{Files: []File{{Name: name, Data: data}}})
	if len(found) > 0 {
		t.Fatalf("%s: %v", name, found)
	}
	return spec
}

func loadExample(t *testing.T, e examples.Example) *Spec {
	t.Helper()
	data, err := examples.FS.ReadFile(e.File)
	if err != nil {
		t.Fatal(err)
	}
	return loadWhole(t, e.File, data)
}

// golden compares with a file of testdata/expand, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "expand", name)
	if *updateExpand {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./specs -update-expand writes it); got:\n%s", file, got)
	}
}

func TestExamplesExpand(t *testing.T) {
	for _, e := range examples.List {
		for _, v := range []catalog.Version{v310, v40, v43} {
			t.Run(e.Name+"-"+v.Series().String(), func(t *testing.T) {
				top, found := loadExample(t, e).Expand(Target{Version: v})
				if len(found) > 0 {
					t.Errorf("findings: %v", found)
				}
				var b strings.Builder
				for _, host := range top.VirtualHosts {
					b.WriteString(dump(host))
				}
				golden(t, e.Name+"-"+v.Series().String()+".txt", b.String())
			})
		}
	}
}

// Every spec under testdata/expand is expanded, and its findings are part of
// what is expected.
func TestSpecsExpand(t *testing.T) {
	files, err := filepath.Glob("testdata/expand/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			top, found := loadWhole(t, filepath.Base(file), data).Expand(Target{})
			var b strings.Builder
			for _, host := range top.VirtualHosts {
				b.WriteString(dump(host))
			}
			for _, d := range found {
				b.WriteString(findingText(d))
			}
			golden(t, strings.TrimSuffix(filepath.Base(file), ".yaml")+".txt", b.String())
		})
	}
}

func findingText(d diag.Diagnostic) string {
	s := string(d.Severity) + " " + d.Code + " " + d.Position.String() + ": " + d.Summary + "\n  " + d.Detail + "\n"
	for _, r := range d.Related {
		s += "  " + r.Position.String() + ": " + r.Text + "\n"
	}
	return s
}

// The files and the list name each other.
func TestExamplesAreListed(t *testing.T) {
	entries, err := examples.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, e := range examples.List {
		if e.Name+".yaml" != e.File || e.Title == "" || listed[e.File] {
			t.Errorf("example %+v", e)
		}
		listed[e.File] = true
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("%s is not in List", e.Name())
		}
		delete(listed, e.Name())
	}
	if len(listed) > 0 {
		t.Errorf("missing files: %v", listed)
	}
}

// Expanding twice, and expanding for each version, changes nothing in the spec.
func TestExpandIsPure(t *testing.T) {
	for _, e := range examples.List {
		spec := loadExample(t, e)
		first, _ := spec.Expand(Target{Version: v310})
		want := dump(first.VirtualHosts[0])
		for _, q := range first.VirtualHosts[0].Queues { // what a caller does with the result stays there
			q.Type = topology.Stream
			for k := range q.Arguments {
				q.Arguments[k] = "changed"
			}
			q.Intent.Settings["changed"] = topology.SettingValue{}
		}
		for _, x := range first.VirtualHosts[0].Exchanges {
			for k := range x.Arguments {
				x.Arguments[k] = "changed"
			}
		}
		spec.Expand(Target{Version: v43})
		again, _ := spec.Expand(Target{Version: v310})
		if got := dump(again.VirtualHosts[0]); got != want {
			t.Errorf("%s: expanded again to\n%s\nbefore\n%s", e.Name, got, want)
		}
	}
}

func TestExamplesOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples.List {
			t.Run(e.Name, func(t *testing.T) {
				top, _ := loadExample(t, e).Expand(Target{Version: v})
				vhost := b.VirtualHost(t)
				host := top.VirtualHosts[0]
				declare(t, b, vhost, host)
				policies := policiesOf(t, b, vhost)
				want := map[string]string{}
				for _, p := range host.Policies {
					want[p.Queue] = p.Name
				}
				if len(policies) != len(host.Queues) {
					t.Errorf("%d queues on the broker, want %d", len(policies), len(host.Queues))
				}
				for queue, policy := range policies {
					if policy != want[queue] {
						t.Errorf("queue %q has policy %q, want %q", queue, policy, want[queue])
					}
				}
			})
		}
	})
}

// The example routes as it says, the stream included.
func TestCategoriesExampleOnBrokers(t *testing.T) {
	brokertest.Each(t, func(t *testing.T, b *brokertest.Broker) {
		v, err := catalog.ParseVersion(b.Version)
		if err != nil {
			t.Fatal(err)
		}
		var example examples.Example
		for _, e := range examples.List {
			if e.Name == "categories" {
				example = e
			}
		}
		top, _ := loadExample(t, example).Expand(Target{Version: v})
		vhost := b.VirtualHost(t)
		declare(t, b, vhost, top.VirtualHosts[0])
		for _, category := range []string{"transient", "business-logic", "unheard of"} {
			b.Publish(t, vhost, "sales", "placed", 1, func(_ int, m *amqp.Publishing) {
				m.Headers, m.Body = amqp.Table{"x-opt-dead-letter-category": category}, []byte(category)
			})
		}
		if got := len(consume(t, b, vhost, "orders.work", 3, 5*time.Second, discard)); got != 3 {
			t.Fatalf("%d deliveries, want 3", got)
		}
		b.AwaitDepth(t, vhost, "orders.dead.transient", 1, 15*time.Second)
		b.AwaitDepth(t, vhost, "orders.dead.business", 1, 15*time.Second)

		ch := b.Channel(t, vhost)
		if err := ch.Qos(10, 0, false); err != nil {
			t.Fatal(err)
		}
		other, err := ch.Consume("orders.dead.other", "", false, false, false, false, amqp.Table{"x-stream-offset": "first"})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case d := <-other:
			if string(d.Body) != "unheard of" {
				t.Errorf("the stream has %q first", d.Body)
			}
		case <-time.After(20 * time.Second):
			t.Error("the stream got nothing in 20 s")
		}
	})
}
