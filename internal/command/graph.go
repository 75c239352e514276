package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/graph"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

func graphCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "`FORMAT` of the drawing: " + graph.FormatNames() + " (default: by the name of --output, else mermaid)"},
		&cli.StringFlag{Name: "output", Usage: "write the drawing to `FILE` instead of standard output"},
		&cli.BoolFlag{Name: "broker", Usage: "draw what is on a broker instead of specs"},
		&cli.StringFlag{Name: "against", Usage: "draw what is in an exported definitions `FILE` instead of specs"},
		&cli.StringSliceFlag{Name: "vhost", Usage: "only the virtual host `NAME`; may be repeated. With --broker the default is /"},
		rabbitmqFlag(),
	}
	return &cli.Command{
		Name:      "graph",
		Usage:     "draw exchanges, queues and failure paths, with findings in red",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl graph --output topology.html refunds.yaml      one page: search, zoom, settings\n" +
			"rabbitctl graph refunds.yaml                             Mermaid, for Markdown\n" +
			"rabbitctl graph --format svg specs/ > topology.svg\n" +
			"rabbitctl graph --broker --vhost shop --output live.html what is on the broker\n" +
			"rabbitctl graph --against definitions.json --format dot  what is in an export",
		Description: "Findings are drawn, and do not change the exit status, unless the spec cannot be\n" +
			"understood: then it is 3 and nothing is drawn. docs/graph.md says how to read a drawing.",
		Flags:  joinFlags(flags, specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runGraph(c, s) },
	}
}

func runGraph(c *cli.Context, s Streams) error {
	format, err := graph.ParseFormat(c.String("format"), c.String("output"))
	if err != nil {
		return fail(ExitUsage, err)
	}
	in, err := graphInput(c, s)
	if err != nil {
		return err
	}
	drawing := graph.New(*in)
	var b bytes.Buffer
	if err := format.Write(&b, drawing); err != nil {
		return err
	}
	if format.Name == "mermaid" && (b.Len() > graph.MermaidMaxText || len(drawing.Edges) > graph.MermaidMaxEdges) {
		fmt.Fprintf(s.Err, "note: Mermaid refuses diagrams of more than %d characters or %d edges unless told otherwise; --format html or svg has no limit\n",
			graph.MermaidMaxText, graph.MermaidMaxEdges)
	}
	name := c.String("output")
	if name == "" {
		_, err := s.Out.Write(b.Bytes())
		return err
	}
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the drawing: %w", err)
	}
	fmt.Fprintf(s.Err, "wrote %s: %s, %s\n", safeLine(name), text.Plural(len(drawing.Nodes), "node", "nodes"), text.Plural(len(drawing.Edges), "edge", "edges"))
	return nil
}

// graphInput gathers what is drawn: specs, a broker or a definitions file.
func graphInput(c *cli.Context, s Streams) (*graph.Input, error) {
	version, err := versionFlag(c)
	if err != nil {
		return nil, err
	}
	live, file := c.Bool("broker"), c.String("against")
	switch {
	case live && file != "":
		return nil, usagef("--broker and --against exclude each other")
	case (live || file != "") && c.Args().Present():
		return nil, usagef("--broker and --against draw what is there, without a spec: leave %q out", c.Args().First())
	case live && !version.IsZero():
		return nil, usagef("a broker tells its own version: leave --rabbitmq out")
	case live:
		return graphBroker(c, s)
	case file != "":
		return graphDefinitions(c, s, file, version)
	}
	return graphSpec(c, s, version)
}

func graphSpec(c *cli.Context, s Streams, version catalog.Version) (*graph.Input, error) {
	spec, findings, err := loadSpec(c, s, c.Args().Slice())
	if err != nil {
		return nil, err
	}
	if err := stopOnStructural(s, findings, spec); err != nil {
		return nil, err
	}
	desired, more := spec.Expand(specs.Target{Version: version})
	findings = append(findings, more...)
	if err := stopOnStructural(s, findings, spec); err != nil {
		return nil, err
	}
	check := validate.Input{Topology: desired, Versions: spec.Versions(), Sources: spec.Files, Found: findings}
	if !version.IsZero() {
		check.Versions = []catalog.Version{version}
	}
	findings = validate.Check(check)
	in := &graph.Input{
		Title: "Topology of " + strings.Join(c.Args().Slice(), ", "), Topology: desired, Version: version, Findings: findings,
	}
	if version.IsZero() {
		if versions := spec.Versions(); len(versions) > 0 {
			in.Version = versions[len(versions)-1]
		}
	}
	in.Notes = append(in.Notes, fmt.Sprintf("Settings are those in effect on RabbitMQ %s.", in.Version))
	return in, onlyVirtualHosts(c, in)
}

func graphBroker(c *cli.Context, s Streams) (*graph.Input, error) {
	client, conn, err := connect(c, s, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	names := c.StringSlice("vhost")
	if len(names) == 0 {
		names = []string{"/"}
	}
	state, err := client.Read(c.Context, names, broker.ReadOptions{LeftOut: true})
	if err != nil {
		return nil, brokerError(err)
	}
	if len(state.Missing) > 0 {
		return nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not there, or this user has no permission in it", state.Missing[0]))
	}
	return graphState(state, "Live topology of "+conn.values["url"], nil), nil
}

func graphDefinitions(c *cli.Context, s Streams, name string, version catalog.Version) (*graph.Input, error) {
	vhost := ""
	if names := c.StringSlice("vhost"); len(names) == 1 {
		vhost = names[0] // an export of one virtual host does not name it
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	defer f.Close()
	state, findings, err := broker.ReadDefinitions(f, name, vhost)
	if err != nil {
		return nil, err
	}
	if len(state.Topology.VirtualHosts) == 0 && findings.HasErrors() {
		return nil, errors.Join(showFindings(s, findings, nil), exit(ExitFindings))
	}
	if !version.IsZero() {
		state.Version = version
	}
	in := graphState(state, "Topology of "+name, findings)
	return in, onlyVirtualHosts(c, in)
}

// graphState judges a live state by the rules and draws it.
func graphState(state *broker.State, title string, found diag.List) *graph.Input {
	check := validate.Input{Topology: state.Topology, ExchangeTypes: state.ExchangeTypes, Found: found}
	in := &graph.Input{Title: title, Topology: state.Topology, Version: state.Version}
	if state.Version.IsZero() {
		in.Notes = append(in.Notes, "The file does not tell its version of RabbitMQ; --rabbitmq does.")
	} else {
		check.Versions = []catalog.Version{state.Version}
		in.Notes = append(in.Notes, fmt.Sprintf("RabbitMQ %s.", state.Version))
	}
	in.Notes = append(in.Notes, "Wait queues and dead-letter queues are told by their settings: a broker does not know what a queue is for.")
	if n := len(state.LeftOut); n > 0 {
		in.Notes = append(in.Notes, fmt.Sprintf("%s not drawn: exclusive and server-named queues and their bindings.", text.Plural(n, "object is", "objects are")))
	}
	in.Findings = validate.Check(check)
	return in
}

// onlyVirtualHosts keeps the virtual hosts that --vhost names.
func onlyVirtualHosts(c *cli.Context, in *graph.Input) error {
	names := c.StringSlice("vhost")
	if len(names) == 0 {
		return nil
	}
	only := &topology.Topology{}
	keep := map[string]bool{}
	for _, name := range names {
		v := in.Topology.VirtualHost(name)
		if v == nil {
			return usagef("there is no virtual host %q in it", name)
		}
		if !keep[name] {
			only.VirtualHosts = append(only.VirtualHosts, v)
		}
		keep[name] = true
	}
	var findings diag.List
	for _, d := range in.Findings {
		if d.Object.VirtualHost == "" || keep[d.Object.VirtualHost] {
			findings.Add(d)
		}
	}
	in.Topology, in.Findings = only, findings
	return nil
}
