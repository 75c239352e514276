package graph_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/graph"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

var update = flag.Bool("update", false, "write testdata/graph anew")

const data = "../../testdata/graph/"

// load draws a spec, with what the rules find on it.
func load(t *testing.T, file string) *graph.Drawing {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	spec, findings := specs.Load(specs.Input{Files: []specs.File{{Name: filepath.Base(file), Data: text}}})
	desired, more := spec.Expand(specs.Target{Version: catalog.V(4, 3)})
	findings = append(findings, more...)
	if findings.HasStructural() {
		t.Fatalf("%s: %v", file, findings)
	}
	found := validate.Check(validate.Input{Topology: desired, Versions: []catalog.Version{catalog.V(4, 3)}, Found: findings})
	return graph.New(graph.Input{Title: "Topology of " + filepath.Base(file), Topology: desired, Version: catalog.V(4, 3), Findings: found})
}

func write(t *testing.T, f graph.Format, d *graph.Drawing) string {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, d); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	return b.String()
}

func format(t *testing.T, name string) graph.Format {
	t.Helper()
	f, err := graph.ParseFormat(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestGolden holds the text formats to files that people have read.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(data + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs in %s (%v)", data, err)
	}
	for _, file := range files {
		d := load(t, file)
		for _, name := range []string{"mermaid", "dot"} {
			f := format(t, name)
			golden := strings.TrimSuffix(file, ".yaml") + f.Extensions[0]
			got := write(t, f, d)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; go test ./internal/graph -update writes it anew\n%s", golden, got)
			}
		}
	}
}

// TestDrawing: what the drawing of a spec with everything in it must show.
func TestDrawing(t *testing.T) {
	d := load(t, data+"shop.yaml")
	classes := map[string]graph.Class{}
	for _, n := range d.Nodes {
		classes[n.Kind+" "+n.Name] = n.Class
	}
	for name, want := range map[string]graph.Class{
		"publisher web": graph.ClassPublisher, "topic exchange orders": graph.ClassExchange, "fanout exchange orders.all": graph.ClassExchange,
		"classic queue refunds": graph.ClassQueue, "classic wait queue refunds.retry": graph.ClassWait,
		"classic dead-letter queue refunds.dead": graph.ClassDeadLetter, "stream audit": graph.ClassStream,
		"consumer worker": graph.ClassConsumer, "quorum queue, external partner": graph.ClassQueue,
	} {
		if classes[name] != want {
			t.Errorf("%s is drawn as %q, want %q; there are %v", name, classes[name], want, classes)
		}
	}
	var edges []string
	for _, e := range d.Edges {
		edges = append(edges, string(e.Link)+": "+e.From.Name+" -> "+e.To.Name+" ["+strings.Join(e.Labels, " ")+"]")
	}
	for _, want := range []string{
		"publish: web -> orders [order.new]", "binding: orders -> refunds [refund.# order.new]", "binding: orders -> orders.all [#]",
		"alternate: orders -> unrouted []", "dead-letter: refunds -> refunds.dead []", "retry: refunds -> refunds.retry [retry 30s]",
		"return: refunds.retry -> refunds [after 30s]", "consume: refunds -> worker []", "dead-letter: payouts -> dlx [payouts]",
	} {
		if !slices.Contains(edges, want) {
			t.Errorf("%s is not drawn; there are\n%s", want, strings.Join(edges, "\n"))
		}
	}
	// The dead letters of payouts lead to an exchange that knows no such key.
	for _, n := range d.Nodes {
		has := slices.ContainsFunc(n.Findings, func(f diag.Diagnostic) bool { return f.Code == "dead-letter-unroutable" })
		if has != (n.Name == "payouts") {
			t.Errorf("the finding dead-letter-unroutable at %q: %v", n.Name, has)
		}
	}
	for _, f := range graph.Formats {
		out := write(t, f, d)
		if !strings.Contains(out, "dead-letter-unroutable") && !strings.Contains(out, "leads to no queue") {
			t.Errorf("%s does not show the finding", f.Name)
		}
		if !strings.Contains(out, "c00020") {
			t.Errorf("%s has no red", f.Name)
		}
	}
}

// TestLive draws definitions, where nothing says what a queue is for.
func TestLive(t *testing.T) {
	f, err := os.Open(data + "live.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	state, findings, err := broker.ReadDefinitions(f, "live.json", "")
	if err != nil || findings.HasErrors() {
		t.Fatal(err, findings)
	}
	d := graph.New(graph.Input{Topology: state.Topology, Version: state.Version})
	got := map[string]graph.Class{}
	for _, n := range d.Nodes {
		got[n.Name] = n.Class
	}
	want := map[string]graph.Class{
		"work": graph.ClassQueue, "work.delay": graph.ClassWait, "work.failed": graph.ClassDeadLetter, "parked": graph.ClassDeadLetter,
		"other": graph.ClassQueue, "events": graph.ClassQueue, "dlx": graph.ClassExchange, "in": graph.ClassExchange, "gone": graph.ClassMissing,
	}
	for name, class := range want {
		if got[name] != class {
			t.Errorf("%q is drawn as %q, want %q", name, got[name], class)
		}
	}
	if len(got) != len(want) {
		t.Errorf("drawn are %v", got)
	}
}

// TestDeterministic: equal input gives equal output, byte for byte.
func TestDeterministic(t *testing.T) {
	for _, in := range []func() graph.Input{hostile, func() graph.Input { return generated(120) }} {
		for _, f := range graph.Formats {
			first := write(t, f, graph.New(in()))
			for range 5 {
				if write(t, f, graph.New(in())) != first {
					t.Fatalf("%s differs from run to run", f.Name)
				}
			}
		}
	}
}

// TestSpeed: a drawing of 300 queues takes a second at most, with much to spare.
func TestSpeed(t *testing.T) {
	for _, name := range []string{"svg", "html"} {
		start := time.Now()
		write(t, format(t, name), graph.New(generated(300)))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s of 300 queues took %v", name, took)
		}
	}
}

// TestSVG reads the drawing back: it is well-formed, has nothing but drawing
// elements, and every reference to another place is its own.
func TestSVG(t *testing.T) {
	allowed := strings.Fields("svg title style rect text g path")
	for name, in := range map[string]graph.Input{"hostile": hostile(), "300": generated(300), "nothing": {}} {
		d := graph.New(in)
		out := write(t, format(t, "svg"), d)
		ids, marked := map[string]bool{}, 0
		decoder := xml.NewDecoder(strings.NewReader(out))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			if !slices.Contains(allowed, start.Name.Local) {
				t.Errorf("%s: element %s", name, start.Name.Local)
			}
			for _, a := range start.Attr {
				if a.Name.Local == "id" {
					ids[a.Value] = true
				}
				if a.Name.Local == "class" && strings.HasPrefix(a.Value, "node") && strings.Contains(a.Value, "marked") {
					marked++
				}
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" || a.Name.Local == "style" {
					t.Errorf("%s: attribute %s", name, a.Name.Local)
				}
			}
		}
		if len(ids) != len(d.Nodes)+len(d.Edges) {
			t.Errorf("%s: %d ids for %d nodes and %d edges", name, len(ids), len(d.Nodes), len(d.Edges))
		}
		if len(in.Findings) > 0 && marked == 0 {
			t.Errorf("%s: no node is marked", name)
		}
	}
}

// TestHTMLHostile: no name gets out of its place in the page; TestPageHostile sees
// the same in a browser.
func TestHTMLHostile(t *testing.T) {
	out := write(t, format(t, "html"), graph.New(hostile()))
	if n := strings.Count(out, "<script"); n != 2 {
		t.Errorf("%d script elements", n)
	}
	for _, tag := range []string{"<img", "<b>", "<!--", "<iframe"} {
		if strings.Contains(out, tag) {
			t.Errorf("the page contains %s", tag)
		}
	}
	if !strings.Contains(out, `content="default-src 'none'; script-src 'sha256-`) {
		t.Error("the page has no content security policy")
	}
	if strings.Contains(write(t, format(t, "html"), load(t, data+"shop.yaml")), "://") {
		t.Error("the page names an address")
	}
}

// TestMermaidHostile: each label is one quoted text of harmless signs and codes.
func TestMermaidHostile(t *testing.T) {
	out := write(t, format(t, "mermaid"), graph.New(hostile()))
	label := regexp.MustCompile(`"((?:[\pL\pN\pM .,…-]|#[0-9]+;|<br/>|&nbsp;)*)"`)
	shapes := regexp.MustCompile(`^(\(\[LABEL\]\)|\{\{LABEL\}\}|\[LABEL\]|\[\(LABEL\)\]|\[/LABEL/\]|\[\[LABEL\]\]|>LABEL\])$`)
	node := regexp.MustCompile(`^(?:n[0-9]+|l[0-9]+|k[0-9]+|rest)(\W.*)$`)
	edge := regexp.MustCompile(`^(n|k)[0-9]+ (-->|-\.->)(\|LABEL\|)? (n|k)[0-9]+$`)
	other := regexp.MustCompile(`^(flowchart LR|subgraph legend|direction LR|end|class [nlk0-9,]+ [a-z]+|class rest finding|classDef [a-z]+ [a-z0-9:#,-]+|linkStyle [0-9,]+ [a-z0-9:#,-]+)$`)
	for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if strings.HasPrefix(line, "%% ") {
			if strings.ContainsAny(line, "{}") {
				t.Errorf("line %d: a comment could be a directive: %q", i+1, line)
			}
			continue
		}
		text := strings.TrimSpace(label.ReplaceAllString(line, "LABEL"))
		ok := edge.MatchString(text) || other.MatchString(text)
		if m := node.FindStringSubmatch(text); !ok && m != nil {
			ok = shapes.MatchString(m[1])
		}
		if !ok {
			t.Errorf("line %d: %q", i+1, line)
		}
	}
}

// TestDOTHostile reads each line as Graphviz does: ids, keywords, quoted texts and
// HTML-like labels that are well-formed.
func TestDOTHostile(t *testing.T) {
	out := write(t, format(t, "dot"), graph.New(hostile()))
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	rest := regexp.MustCompile(`^[A-Za-z0-9_ =\[\],>{}-]*$`)
	for i, line := range strings.Split(out, "\n") {
		if !utf8.ValidString(line) {
			t.Errorf("line %d is no UTF-8", i+1)
		}
		text := line
		if at := strings.Index(text, "label=<"); at >= 0 {
			end := strings.LastIndex(text, ">]")
			if e := strings.Index(text, "> tooltip="); e >= 0 {
				end = e
			}
			inner := text[at+len("label=<") : end]
			text = text[:at] + text[end+1:]
			decoder := xml.NewDecoder(strings.NewReader("<x>" + inner + "</x>"))
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("line %d: label %q: %v", i+1, inner, err)
				}
				if e, ok := token.(xml.StartElement); ok && e.Name.Local != "x" && e.Name.Local != "br" && e.Name.Local != "font" {
					t.Errorf("line %d: element %s in a label", i+1, e.Name.Local)
				}
			}
		}
		if text = quoted.ReplaceAllString(text, "STRING"); !rest.MatchString(text) {
			t.Errorf("line %d: %q", i+1, line)
		}
	}
}

func TestParseFormat(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"", "", "mermaid"},
		{"", "a.SVG", "svg"},
		{"", "a.html", "html"},
		{"", "a.gv", "dot"},
		{"", "a.txt", "mermaid"},
		{"dot", "a.svg", "dot"},
		{"png", "a.svg", ""},
	} {
		f, err := graph.ParseFormat(c.name, c.file)
		if (err != nil) != (c.want == "") || f.Name != c.want {
			t.Errorf("%q for file %q is %q (%v), want %q", c.name, c.file, f.Name, err, c.want)
		}
	}
}

// TestFindingOnMany: a finding that the rules tell once for many queues is drawn
// at each of them, and listed once.
func TestFindingOnMany(t *testing.T) {
	v := &topology.VirtualHost{Name: "/"}
	for i := range 20 {
		v.Queues = append(v.Queues, &topology.Queue{VirtualHost: "/", Name: fmt.Sprintf("q%02d", i), Type: topology.Classic, Durable: true})
	}
	all := &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
	found := validate.Check(validate.Input{Topology: all, Versions: []catalog.Version{catalog.V(4, 3)}})
	d := graph.New(graph.Input{Topology: all, Findings: found})
	for _, n := range d.Nodes {
		if !slices.ContainsFunc(n.Findings, func(f diag.Diagnostic) bool { return f.Code == "drop-is-loss" }) {
			t.Errorf("%q has no finding drop-is-loss, but %v", n.Name, n.Findings)
		}
	}
	svg := write(t, format(t, "svg"), d)
	if n := strings.Count(svg, ">warning drop-is-loss: 20 queues"); n != 1 {
		t.Errorf("the list names the finding %d times", n)
	}
	if n := strings.Count(svg, ">warning drop-is-loss</text>"); n != 20 {
		t.Errorf("%d nodes name the finding", n)
	}
}

// TestVirtualHosts: with several, nodes say whose they are.
func TestVirtualHosts(t *testing.T) {
	var both topology.Topology
	for _, name := range []string{"shop", "bank"} {
		both.VirtualHosts = append(both.VirtualHosts, &topology.VirtualHost{Name: name, Queues: []*topology.Queue{{VirtualHost: name, Name: "jobs", Durable: true}}})
	}
	out := write(t, format(t, "dot"), graph.New(graph.Input{Topology: &both}))
	for _, want := range []string{"in &quot;shop&quot;", "in &quot;bank&quot;"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}

// TestHiddenPolicy: that a policy is hidden is drawn where it is, not where it acts.
func TestHiddenPolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	text := "version: 1\nqueues: {tmp.1: {type: classic}, other: {type: classic}}\npolicies:\n" +
		"  a: {pattern: .*, definition: {max-length: 1000}}\n  b: {pattern: ^tmp, priority: 1, definition: {expires: 60000}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range load(t, file).Nodes {
		hidden := slices.ContainsFunc(n.Findings, func(d diag.Diagnostic) bool { return d.Code == "policy-hidden" })
		if hidden != (n.Name == "tmp.1") {
			t.Errorf("%q has policy-hidden: %v", n.Name, hidden)
		}
	}
}
