package validate

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func TestRulesAreComplete(t *testing.T) {
	seen := map[string]bool{codeUnusedIgnore: true, codeIgnoreWithoutReason: true}
	for _, r := range Rules {
		if seen[r.Code] || !kebab.MatchString(r.Code) {
			t.Errorf("code %q is taken twice or not in kebab case", r.Code)
		}
		seen[r.Code] = true
		for _, text := range []string{r.Summary, r.Doc, r.Fix} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence", r.Code, text)
			}
		}
		if r.Check == nil || !slices.Contains([]diag.Severity{diag.Error, diag.Warning, diag.Info}, r.Severity) {
			t.Errorf("%s lacks its check or severity", r.Code)
		}
	}
}

// host makes a topology of one virtual host.
func host(objects ...any) *topology.Topology {
	v := &topology.VirtualHost{Name: "shop"}
	for _, o := range objects {
		switch o := o.(type) {
		case *topology.Queue:
			v.Queues = append(v.Queues, o)
		case *topology.Exchange:
			v.Exchanges = append(v.Exchanges, o)
		case *topology.Binding:
			v.Bindings = append(v.Bindings, o)
		case *topology.Policy:
			v.Policies = append(v.Policies, o)
		}
	}
	return &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
}

func queueOf(t topology.QueueType, name string, arguments topology.Arguments) *topology.Queue {
	return &topology.Queue{VirtualHost: "shop", Name: name, Type: t, Durable: true, Arguments: arguments}
}

// of lists severity and summary of the findings with a code.
func of(list diag.List, code string) []string {
	var all []string
	for _, d := range list {
		if d.Code == code {
			all = append(all, string(d.Severity)+": "+d.Summary)
		}
	}
	return all
}

func TestVersions(t *testing.T) {
	old := host(queueOf(topology.Quorum, "q", topology.Arguments{"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(1)}))
	const text = `the argument x-delayed-retry-min of queue "q" does nothing on quorum queues`
	tests := []struct {
		versions []catalog.Version
		want     string
	}{
		{nil, "warning: " + text + " on RabbitMQ 3.10 to 4.2"},
		{[]catalog.Version{catalog.V(4, 0)}, "error: " + text},
		{[]catalog.Version{{Major: 4, Minor: 3, Patch: 6}}, ""},
		{[]catalog.Version{catalog.V(4, 3), catalog.V(4, 0), catalog.V(4, 0)}, "error: " + text + " on RabbitMQ 4.0"},
	}
	for _, test := range tests {
		got := of(Check(Input{Topology: old, Versions: test.versions}), "argument-without-effect")
		if test.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 2 || got[0] != test.want {
			t.Errorf("%v: %q, want %q", test.versions, got, test.want)
		}
	}
}

func TestIgnoreComments(t *testing.T) {
	const code = "drop-is-loss"
	tests := []struct {
		name, spec string
		want       []string // line and code
	}{
		{"beside", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignore drop-is-loss metrics may go\n", nil},
		{"above", "version: 1\nqueues:\n  # rabbitctl:ignore drop-is-loss metrics may go\n  q: {type: classic}\n", nil},
		{"above another comment", "version: 1\nqueues:\n  # rabbitctl:ignore drop-is-loss metrics may go\n  # and more\n  q: {type: classic}\n", nil},
		{"beside the object", "version: 1\nqueues:\n  q: # rabbitctl:ignore cap-without-dead-letter tries\n    type: quorum\n    retry: {max_attempts: 5}\n", nil},
		{"without reason", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignore drop-is-loss\n", []string{"3 drop-is-loss", "3 ignore-without-reason"}},
		{"without code", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignore\n", []string{"3 drop-is-loss", "3 ignore-without-reason"}},
		{"of another rule", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignore transient-queue why not\n", []string{"3 drop-is-loss", "3 unused-ignore"}},
		{"misspelt", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignore drop-is-los why not\n", []string{"3 drop-is-loss", "3 unused-ignore"}},
		{"too far above", "version: 1\nqueues:\n  # rabbitctl:ignore drop-is-loss why not\n\n  q: {type: classic}\n", []string{"3 unused-ignore", "5 drop-is-loss"}},
		{"in a text", "version: 1\nqueues:\n  \"q # rabbitctl:ignore drop-is-loss x\": {type: classic}\n", []string{"3 drop-is-loss"}},
		{"other words", "version: 1\nqueues:\n  q: {type: classic} # rabbitctl:ignored drop-is-loss\n", []string{"3 drop-is-loss"}},
		{"Windows line ends", "version: 1\r\nqueues:\r\n  q: {type: classic} # rabbitctl:ignore drop-is-loss metrics may go\r\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, _ := checkSpec(t, "a.yaml", test.spec)
			var got []string
			for _, d := range list {
				got = append(got, fmt.Sprintf("%d %s", d.Position.Line, d.Code))
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: %v, want %v\n%s", code, got, test.want, describe(list))
			}
		})
	}
}

func TestIgnoreOfEarlierFindings(t *testing.T) {
	at := topology.Position{File: "a.yaml", Line: 1, Column: 1}
	found := diag.List{
		{Severity: diag.Info, Code: "queue-type-defaulted", Summary: "s", Position: at},
		{Severity: diag.Error, Code: "unknown-key", Summary: "s", Position: at, Structural: true},
	}
	source := "version: 1 # rabbitctl:ignore queue-type-defaulted the broker decides\n"
	list := Check(Input{Found: found, Sources: map[string][]byte{"a.yaml": []byte(source)}})
	if len(list) != 1 || list[0].Code != "unknown-key" {
		t.Errorf("got %s", describe(list))
	}
	source = "version: 1 # rabbitctl:ignore unknown-key it is right\n"
	list = Check(Input{Found: found, Sources: map[string][]byte{"a.yaml": []byte(source)}})
	if got := of(list, "unknown-key"); len(got) != 1 {
		t.Errorf("a structural error was ignored: %s", describe(list))
	}
}

func TestMerge(t *testing.T) {
	var objects []any
	for i := range 8 {
		objects = append(objects, queueOf(topology.Classic, fmt.Sprintf("q%d", i), nil))
	}
	few := Check(Input{Topology: host(objects[:3]...)})
	if got := of(few, "drop-is-loss"); len(got) != 3 {
		t.Errorf("three findings are shown one by one, not as %q", got)
	}
	many := Check(Input{Topology: host(objects...)})
	want := []string{`warning: 8 queues have no dead-letter route: what a consumer rejects is deleted: "q0", "q1", "q2", "q3", "q4" and 3 more`}
	if got := of(many, "drop-is-loss"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(many[0].Related) != 7 || many[0].Object.Kind != topology.KindVirtualHost {
		t.Errorf("the others are not named: %+v", many[0])
	}
	// What the expansion says of several queues is merged too.
	var found diag.List
	for i := range 5 {
		name := fmt.Sprintf("q%d", i)
		found.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: "setting-without-effect", Summary: fmt.Sprintf("queue %q: queue_mode has no effect", name),
			Object: topology.Key{Kind: topology.KindQueue, Name: name},
		})
	}
	want = []string{`warning: queue_mode has no effect (5 queues: "q0", "q1", "q2", "q3" and "q4")`}
	if got := of(Check(Input{Found: found}), "setting-without-effect"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLive(t *testing.T) {
	q := queueOf(topology.Classic, "orders", topology.Arguments{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "k", "x-max-length": int64(1000)})
	q.Intent = &topology.QueueIntent{Settings: map[string]topology.SettingValue{"max-length": {Value: int64(1000), By: topology.ByArgument}}}
	x := &topology.Exchange{VirtualHost: "shop", Name: "late", Type: "x-delayed-message", Durable: true, Arguments: topology.Arguments{"x-delayed-type": "direct"}}
	b := &topology.Binding{VirtualHost: "shop", Source: "feed", Destination: "orders", DestinationType: topology.ToQueue}
	desired := host(q, x, b)
	offline := Check(Input{Topology: desired})
	for _, code := range []string{"dead-letter-exchange-missing", "dangling-binding"} {
		if got := of(offline, code); len(got) != 1 || !strings.HasPrefix(got[0], "error") {
			t.Errorf("offline %s: %q", code, got)
		}
	}
	live := host(
		&topology.Exchange{VirtualHost: "shop", Name: "dlx", Type: "direct", Durable: true},
		&topology.Exchange{VirtualHost: "shop", Name: "feed", Type: "fanout", Durable: true},
		&topology.Policy{VirtualHost: "shop", Name: "foreign", Pattern: ".*", ApplyTo: "queues", Definition: topology.Arguments{"max-length": int64(5)}},
	)
	online := Check(Input{Topology: desired, Live: live, Versions: []catalog.Version{catalog.V(4, 0)}, ExchangeTypes: []string{"direct", "fanout", "topic", "headers"}})
	for _, code := range []string{"dead-letter-exchange-missing", "dangling-binding"} {
		if got := of(online, code); len(got) != 1 || !strings.Contains(got[0], "is on the broker and not in the spec") || !strings.HasPrefix(got[0], "warning") {
			t.Errorf("with a broker %s: %q", code, got)
		}
	}
	// Somebody else's policy on the broker is no mistake of the spec; plan blocks
	// what could lose messages.
	want := []string{`warning: max_length of queue "orders" is 5 in effect and not 1000: policy "foreign" sets it`}
	if got := of(online, "setting-overruled"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want = []string{`error: exchange "late" has the type "x-delayed-message", which the broker does not have`}
	if got := of(online, "exchange-type-unknown"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAdaptsGeneratedPolicies: a generated policy is written for one version and
// must not be judged as if it went to the others like that.
func TestAdaptsGeneratedPolicies(t *testing.T) {
	const spec = `
version: 1
queues:
  work:
    type: quorum
    retry: {max_attempts: 5}
    dead_letter: {queue: dead, strategy: at-most-once}
  dead: {type: quorum, role: dead-letter, owner: test}
`
	list, _ := checkSpec(t, "a.yaml", spec)
	if len(list) != 0 {
		t.Errorf("false alarms:\n%s", describe(list))
	}
}

// TestPolicyApplyTo: specs cannot say this, definitions files can.
func TestPolicyApplyTo(t *testing.T) {
	p := &topology.Policy{VirtualHost: "shop", Name: "p", Pattern: "a", ApplyTo: "exchange", Definition: topology.Arguments{"alternate-exchange": "b"}}
	list := Check(Input{Topology: host(p)})
	want := []string{`error: policy "p" applies to "exchange", which does not exist`}
	if got := of(list, "policy-apply-to"); !slices.Equal(got, want) || list[0].Detail != "Did you mean exchanges?" {
		t.Errorf("got %s", describe(list))
	}
}

// TestExamples: what newcomers start from is free of errors and warnings.
func TestExamples(t *testing.T) {
	files, _ := filepath.Glob("../specs/examples/*.yaml")
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, earlier := checkSpec(t, filepath.Base(file), string(data))
		list = append(list, earlier...)
		if list.Count(diag.Error)+list.Count(diag.Warning) > 0 {
			t.Errorf("%s:\n%s", filepath.Base(file), describe(list))
		}
	}
}

func TestEmptyInput(t *testing.T) {
	for _, in := range []Input{
		{},
		{Topology: &topology.Topology{VirtualHosts: []*topology.VirtualHost{nil, {}}}, Live: &topology.Topology{}},
		{Topology: host(&topology.Queue{}, &topology.Exchange{}, &topology.Binding{}, &topology.Policy{})},
	} {
		first := Check(in)
		if again := Check(in); !reflect.DeepEqual(first, again) {
			t.Errorf("two runs differ: %v, %v", first, again)
		}
	}
}

// TestLadder: exchanges with 2^28 paths through them are walked once each.
func TestLadder(t *testing.T) {
	list := Check(Input{Topology: host(large(10)...)})
	if got := of(list, "dead-letter-unroutable"); len(got) != 1 {
		t.Errorf("the ladder leads nowhere: %q", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	topology := host(large(5000)...)
	for b.Loop() {
		Check(Input{Topology: topology})
	}
}

// large is n work queues with a dead-letter queue and a policy each, and a ladder
// of 28 exchanges with two bindings from each to the next.
func large(n int) []any {
	var objects []any
	for i := range n {
		name := fmt.Sprintf("q%d", i)
		objects = append(
			objects,
			queueOf(topology.Quorum, name, topology.Arguments{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "dead." + name}),
			queueOf(topology.Quorum, "dead."+name, nil),
			&topology.Policy{VirtualHost: "shop", Name: "p" + name, Pattern: "^" + name + "$", ApplyTo: "queues", Definition: topology.Arguments{"delivery-limit": int64(5)}},
			&topology.Binding{VirtualHost: "shop", Source: "dlx", Destination: "dead." + name, DestinationType: topology.ToQueue, RoutingKey: "dead." + name},
		)
	}
	for i := range 28 {
		level := fmt.Sprintf("level%d", i)
		objects = append(objects, &topology.Exchange{VirtualHost: "shop", Name: level, Type: "fanout", Durable: true})
		for range 2 {
			objects = append(objects, &topology.Binding{VirtualHost: "shop", Source: level, Destination: fmt.Sprintf("level%d", i+1), DestinationType: topology.ToExchange})
		}
	}
	return append(objects, &topology.Exchange{VirtualHost: "shop", Name: "dlx", Type: "direct", Durable: true},
		queueOf(topology.Classic, "ladder", topology.Arguments{"x-dead-letter-exchange": "level0"}))
}
