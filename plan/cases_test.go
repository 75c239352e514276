package plan

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var update = flag.Bool("update", false, "write what the cases give into testdata/plan")

// caseFile is one document of testdata/plan/*.yaml. Queues and exchanges are
// durable unless it says otherwise.
type caseFile struct {
	Name          string            `yaml:"name"`
	Versions      []string          `yaml:"versions,flow"` // default: all three
	ExchangeTypes []string          `yaml:"exchange_types,omitempty"`
	Desired       caseHost          `yaml:"desired"`
	Live          *caseHost         `yaml:"live"`             // absent: no virtual host
	Counts        map[string]int64  `yaml:"counts,omitempty"` // messages by queue
	Allow         []string          `yaml:"allow,omitempty"`
	Targets       []string          `yaml:"targets,omitempty"`
	Offline       bool              `yaml:"offline,omitempty"`
	Stack         string            `yaml:"stack,omitempty"`
	Ours          []string          `yaml:"ours,omitempty"`      // addresses of what the stack has recorded
	Others        map[string]string `yaml:"others,omitempty"`    // stacks by address
	Consumers     map[string]int64  `yaml:"consumers,omitempty"` // by queue; of counted queues none
	Want          string            `yaml:"want"`
}

type caseHost struct {
	DefaultQueueType string                  `yaml:"default_queue_type"`
	Settings         map[string]string       `yaml:"settings"`
	Exchanges        map[string]caseExchange `yaml:"exchanges"`
	Queues           map[string]caseQueue    `yaml:"queues"`
	Bindings         []caseBinding           `yaml:"bindings"`
	Policies         map[string]casePolicy   `yaml:"policies"`
	OperatorPolicies map[string]casePolicy   `yaml:"operator_policies"`
}

type caseExchange struct {
	Type      string         `yaml:"type"`
	Durable   *bool          `yaml:"durable"`
	Unknown   bool           `yaml:"internal_unknown"`
	Internal  bool           `yaml:"internal"`
	Arguments map[string]any `yaml:"arguments"`
	External  bool           `yaml:"external"`
	Stated    []string       `yaml:"stated"`
}

type caseQueue struct {
	Type       string         `yaml:"type"`
	Durable    *bool          `yaml:"durable"`
	AutoDelete bool           `yaml:"auto_delete"`
	Exclusive  bool           `yaml:"exclusive"`
	Arguments  map[string]any `yaml:"arguments"`
	Settings   map[string]any `yaml:"settings"`
	Role       string         `yaml:"role"`
	External   bool           `yaml:"external"`
	Stated     []string       `yaml:"stated"`
	Clients    bool           `yaml:"declared_by_clients"`
	Inherit    bool           `yaml:"inherit_policy"`
	Hides      []string       `yaml:"hides_policy"`
}

type caseBinding struct {
	From      string         `yaml:"from"`
	To        string         `yaml:"to"`
	Exchange  string         `yaml:"to_exchange"`
	Key       string         `yaml:"key"`
	Arguments map[string]any `yaml:"arguments"`
}

type casePolicy struct {
	Pattern    string         `yaml:"pattern"`
	ApplyTo    string         `yaml:"apply_to"`
	Priority   int64          `yaml:"priority"`
	Definition map[string]any `yaml:"definition"`
	Queue      string         `yaml:"queue"`
}

func canonical(t *testing.T, m map[string]any) topology.Arguments {
	t.Helper()
	a, err := topology.CanonicalArguments(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (c *caseHost) topology(t *testing.T) *topology.Topology {
	if c == nil {
		return &topology.Topology{}
	}
	v := &topology.VirtualHost{Name: "shop", DefaultQueueType: topology.QueueType(c.DefaultQueueType)}
	if c.Settings != nil {
		v.Settings = &topology.VirtualHostSettings{VirtualHost: "shop", DefaultQueueType: topology.QueueType(c.Settings["default_queue_type"])}
		if d, ok := c.Settings["description"]; ok {
			v.Settings.Description = &d
		}
	}
	lasts := func(d *bool) bool { return d == nil || *d }
	set := func(list []string) map[string]bool {
		m := map[string]bool{}
		for _, s := range list {
			m[s] = true
		}
		return m
	}
	for name, e := range c.Exchanges {
		v.Exchanges = append(v.Exchanges, &topology.Exchange{
			VirtualHost: "shop", Name: name, Type: e.Type, Durable: lasts(e.Durable), Internal: e.Internal, InternalUnknown: e.Unknown,
			Arguments: canonical(t, e.Arguments), Intent: &topology.ExchangeIntent{External: e.External, Stated: set(e.Stated)},
		})
	}
	for name, q := range c.Queues {
		intent := &topology.QueueIntent{
			Role: topology.Role(q.Role), External: q.External, DeclaredByClients: q.Clients, Stated: set(q.Stated),
			InheritPolicy: q.Inherit, HidesPolicy: q.Hides, Settings: map[string]topology.SettingValue{},
		}
		for s, value := range canonical(t, q.Settings) {
			intent.Settings[s] = topology.SettingValue{Value: value}
		}
		v.Queues = append(v.Queues, &topology.Queue{
			VirtualHost: "shop", Name: name, Type: topology.QueueType(q.Type), Durable: lasts(q.Durable), AutoDelete: q.AutoDelete,
			Exclusive: q.Exclusive, Arguments: canonical(t, q.Arguments), Intent: intent,
		})
	}
	for _, b := range c.Bindings {
		n := &topology.Binding{VirtualHost: "shop", Source: b.From, Destination: b.To, DestinationType: topology.ToQueue, RoutingKey: b.Key, Arguments: canonical(t, b.Arguments)}
		if b.Exchange != "" {
			n.Destination, n.DestinationType = b.Exchange, topology.ToExchange
		}
		v.Bindings = append(v.Bindings, n)
	}
	for name, p := range c.Policies {
		v.Policies = append(v.Policies, p.policy(t, name, false))
	}
	for name, p := range c.OperatorPolicies {
		v.OperatorPolicies = append(v.OperatorPolicies, p.policy(t, name, true))
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
}

func (p casePolicy) policy(t *testing.T, name string, operator bool) *topology.Policy {
	return &topology.Policy{
		VirtualHost: "shop", Name: name, Operator: operator, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority,
		Definition: canonical(t, p.Definition), Queue: p.Queue,
	}
}

func address(t *testing.T, s string) topology.Key {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		t.Fatalf("no address: %q", s)
	}
	return topology.Key{Kind: topology.Kind(kind), Name: name}
}

func (c *caseFile) input(t *testing.T, version string) Input {
	v, err := catalog.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	in := Input{
		Desired: c.Desired.topology(t), Live: c.Live.topology(t), Server: Server{Version: v, ExchangeTypes: c.ExchangeTypes},
		Counts: map[topology.Key]Counts{}, Offline: c.Offline,
	}
	for _, host := range in.Live.VirtualHosts { // only a spec has intents
		for _, q := range host.Queues {
			q.Intent = nil
		}
		for _, e := range host.Exchanges {
			e.Intent = nil
		}
	}
	for name, n := range c.Counts {
		consumers := c.Consumers[name]
		in.Counts[topology.Key{Kind: topology.KindQueue, VirtualHost: "shop", Name: name}] = Counts{Messages: &n, Consumers: &consumers}
	}
	if c.Stack != "" {
		view := &ownership.View{Stack: c.Stack, Ours: map[topology.Key]ownership.State{}, Others: map[topology.Key]string{}}
		in.Owners = map[string]*ownership.View{"shop": view}
		for _, a := range c.Ours {
			k := address(t, a)
			k.VirtualHost = "shop"
			view.Ours[k] = ownership.Owned
		}
		for a, stack := range c.Others {
			k := address(t, a)
			k.VirtualHost = "shop"
			view.Others[k] = stack
		}
	}
	for _, a := range c.Allow {
		action, target, _ := strings.Cut(a, "=")
		k := address(t, target)
		in.Allowed = append(in.Allowed, Consent{Action: action, Kind: k.Kind, Name: k.Name})
	}
	for _, a := range c.Targets {
		in.Targets = append(in.Targets, address(t, a))
	}
	return in
}

// describePlan writes a plan for comparison.
func describePlan(in Input) string {
	p, findings := Compute(in)
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s", c.Action, c.Key.Address())
		if c.Cost.Bindings > 0 {
			fmt.Fprintf(&b, " (%s)", plural(c.Cost.Bindings, "binding"))
		}
		b.WriteString("\n")
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "    %s\n", describe(f))
		}
		for _, block := range c.Blocked {
			fmt.Fprintf(&b, "    BLOCKED %s: %s\n      unlock: %s\n", block.Code, block.Text, block.Unlock)
		}
		for _, r := range c.Reasons {
			if r.Code != "missing" && r.Code != "differs" && r.Code != "fixed-at-declaration" {
				fmt.Fprintf(&b, "    %s: %s\n", r.Code, r.Text)
			}
		}
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note %s %s: %s\n", n.Code, n.Key.Address(), n.Text)
	}
	for _, d := range findings {
		fmt.Fprintf(&b, "%s %s: %s\n", d.Severity, d.Code, d.Summary)
	}
	for _, k := range p.Unmanaged {
		fmt.Fprintf(&b, "unmanaged %s\n", k.Address())
	}
	for _, k := range p.LeftBehind {
		fmt.Fprintf(&b, "left behind %s\n", k.Address())
	}
	for _, k := range p.Adopt {
		fmt.Fprintf(&b, "adopt %s\n", k.Address())
	}
	for _, k := range p.WantsCounts() {
		fmt.Fprintf(&b, "counts wanted of %s\n", k.Address())
	}
	return b.String()
}

// TestCases computes the plans of testdata/plan/*.yaml and compares them with what
// stands there; go test ./plan -update writes it anew.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("../testdata/plan/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) { testCaseFile(t, file) })
	}
}

func testCaseFile(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	results := map[string]string{}
	for {
		var c caseFile
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(c.Versions) == 0 {
			c.Versions = []string{"3.10.8", "4.0.5", "4.3.6"}
		}
		for _, version := range c.Versions {
			in := c.input(t, version)
			got := describePlan(in)
			results[c.Name] = got
			if got != c.Want && !*update {
				t.Errorf("%s on %s:\n%s\nwant:\n%s", c.Name, version, got, c.Want)
			}
			p, _ := Compute(in)
			in.Live = Predict(in.Live, p)
			if second, _ := Compute(in); len(p.BlockedChanges()) == 0 && len(second.Changes) > 0 {
				t.Errorf("%s on %s: the second plan is not empty", c.Name, version)
			}
		}
	}
	if *update {
		writeResults(t, file, data, results)
	}
}

// writeResults replaces what stands under want in each document.
func writeResults(t *testing.T, file string, data []byte, results map[string]string) {
	docs := strings.Split(string(data), "\n---\n")
	for i, doc := range docs {
		for _, name := range slices.Sorted(maps.Keys(results)) {
			if !strings.Contains(doc, "name: "+name+"\n") {
				continue
			}
			head, _, _ := strings.Cut(doc, "\nwant:")
			want := "\nwant: \"\"\n"
			if results[name] != "" {
				want = "\nwant: |\n  " + strings.ReplaceAll(strings.TrimSuffix(results[name], "\n"), "\n", "\n  ") + "\n"
			}
			docs[i] = strings.TrimRight(head, "\n") + want
		}
		docs[i] = strings.TrimRight(docs[i], "\n")
	}
	if err := os.WriteFile(file, []byte(strings.Join(docs, "\n---\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
