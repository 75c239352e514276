package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/explain"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
)

func explainCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "exchange", Usage: "follow a message to this `EXCHANGE` instead of explaining a queue; empty: the default exchange"},
		&cli.StringFlag{Name: "key", Usage: "its routing `KEY`"},
		&cli.StringSliceFlag{Name: "header", Usage: "`NAME=VALUE` of a header, read as YAML: 1 is a number, \"1\" a text; may be repeated"},
		&cli.StringSliceFlag{Name: "cc", Usage: "a further `KEY`, as in the header CC; may be repeated"},
		&cli.StringFlag{Name: "vhost", Usage: "`NAME` of the virtual host; needed when there are several"},
		rabbitmqFlag(),
		formatFlag(render.Formats),
	}
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what is in effect on a queue and why, or where a message goes",
		ArgsUsage: "[QUEUE] SPEC...",
		UsageText: "rabbitctl explain payouts refunds.yaml                    settings, deliveries, failures\n" +
			"rabbitctl explain --exchange orders --key refund.card refunds.yaml\n" +
			"rabbitctl explain --against definitions.json payouts      on an export, without a spec\n" +
			"rabbitctl explain --broker --vhost shop payouts           on a broker, without a spec\n" +
			"rabbitctl explain --broker payouts refunds.yaml           as it would be with the spec applied",
		Description: "Exits with 1 when there is no such queue, or when the message reaches none.\n" +
			"docs/explain.md describes the answer and its JSON form.",
		Flags:  joinFlags(flags, liveFlags("explain"), specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runExplain(c, s) },
	}
}

// liveFlags choose a live state: a broker or an exported file.
func liveFlags(verb string) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "broker", Usage: verb + " what is on a broker; a spec is not needed then"},
		&cli.StringFlag{Name: "against", Usage: verb + " what is in an exported definitions `FILE`; a spec is not needed then"},
	}
}

func runExplain(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal, render.Formats)
	if err != nil {
		return err
	}
	publish := c.IsSet("exchange")
	queue, args := "", c.Args().Slice()
	if !publish {
		for _, name := range []string{"key", "header", "cc"} {
			if c.IsSet(name) {
				return usagef("--%s is about a message: name its --exchange", name)
			}
		}
		if len(args) == 0 {
			return usagef("name a queue, or a message by --exchange and --key")
		}
		queue, args = args[0], args[1:]
	}
	in, err := explainInputs(c, s, args)
	if err != nil {
		return err
	}
	if publish {
		return explainPublish(c, s, in, o)
	}
	return explainQueue(c, s, in, queue, o)
}

func explainQueue(c *cli.Context, s Streams, in []explain.Input, name string, o render.Options) error {
	var found []*explain.Explainer
	var names, vhosts []string
	for _, i := range in {
		e := explain.New(i)
		for _, q := range e.Queues() {
			if q == name {
				found = append(found, e)
				vhosts = append(vhosts, fmt.Sprintf("%q", i.VirtualHost.Name))
			}
			names = append(names, q)
		}
	}
	switch len(found) {
	case 0:
		message := fmt.Sprintf("there is no queue %q%s", name, inVirtualHosts(in))
		if near := text.Nearest(name, names); near != "" {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		return fail(ExitFailure, errors.New(message))
	case 1:
		return render.ExplainQueue(s.Out, found[0].Queue(name), o)
	}
	return usagef("there is a queue %q in the virtual hosts %s: choose one with --vhost", name, strings.Join(vhosts, ", "))
}

func inVirtualHosts(in []explain.Input) string {
	if len(in) == 1 {
		return fmt.Sprintf(" in virtual host %q", in[0].VirtualHost.Name)
	}
	return ""
}

func explainPublish(c *cli.Context, s Streams, in []explain.Input, o render.Options) error {
	if len(in) != 1 {
		return usagef("there are %d virtual hosts: choose one with --vhost", len(in))
	}
	m := explain.Message{Exchange: c.String("exchange"), Key: c.String("key"), CC: c.StringSlice("cc"), Headers: map[string]any{}}
	for _, h := range c.StringSlice("header") {
		name, given, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return usagef("--header %q is not of the form NAME=VALUE", h)
		}
		if name == "CC" || name == "BCC" {
			return usagef("name further routing keys by --cc, not as the header %s", name)
		}
		var value any
		if err := yaml.Unmarshal([]byte(given), &value); err != nil {
			value = given // such as "*": no YAML, so a text
		}
		value, err := topology.Canonical(value)
		if err != nil {
			return usagef("--header %q: %w", name, err)
		}
		m.Headers[name] = value
	}
	answer := explain.New(in[0]).Publish(m)
	if err := render.ExplainPublish(s.Out, answer, o); err != nil {
		return err
	}
	if !answer.Reaches() {
		return exit(ExitFailure)
	}
	return nil
}

// explainInputs gathers the virtual hosts in question: of specs, of a live state, or
// of specs as they would be on it.
func explainInputs(c *cli.Context, s Streams, args []string) ([]explain.Input, error) {
	version, err := versionFlag(c)
	if err != nil {
		return nil, err
	}
	var spec *specs.Spec
	if len(args) > 0 || !isLive(c) {
		loaded, findings, err := loadSpec(c, s, args)
		if err != nil {
			return nil, err
		}
		if err := stopOnStructural(s, findings, loaded); err != nil {
			return nil, err
		}
		spec = loaded
	}
	state, err := readLive(c, s, spec, version)
	if err != nil {
		return nil, err
	}
	var in []explain.Input
	if spec == nil {
		for _, v := range state.Topology.VirtualHosts {
			in = append(in, explain.Input{VirtualHost: v, Version: state.Version})
		}
		return chosen(c, in)
	}
	target := specs.Target{Version: version}
	if state != nil {
		target = specs.Target{Version: state.Version, DefaultQueueTypes: defaultQueueTypes(state)}
	}
	desired, findings := spec.Expand(target)
	if err := stopOnStructural(s, findings, spec); err != nil {
		return nil, err
	}
	if target.Version.IsZero() {
		if versions := spec.Versions(); len(versions) > 0 {
			target.Version = versions[len(versions)-1]
		}
	}
	for _, v := range desired.VirtualHosts {
		i := explain.Input{VirtualHost: v, Version: target.Version}
		if state != nil {
			i.Live = state.Topology.VirtualHost(v.Name)
		}
		in = append(in, i)
	}
	return chosen(c, in)
}

// chosen keeps the virtual host that --vhost names.
func chosen(c *cli.Context, in []explain.Input) ([]explain.Input, error) {
	if !c.IsSet("vhost") {
		return in, nil
	}
	for _, i := range in {
		if i.VirtualHost.Name == c.String("vhost") {
			return []explain.Input{i}, nil
		}
	}
	return nil, fail(ExitFailure, fmt.Errorf("there is no virtual host %q", c.String("vhost")))
}

// isLive reports whether a broker or an exported file is asked for.
func isLive(c *cli.Context) bool { return c.Bool("broker") || c.IsSet("against") }

// readLive reads the live state that --broker or --against names: the virtual hosts of
// the spec, of --vhost, or all that the user sees. Nil: neither flag is given.
func readLive(c *cli.Context, s Streams, spec *specs.Spec, version catalog.Version) (*broker.State, error) {
	switch {
	case c.Bool("broker") && c.IsSet("against"):
		return nil, usagef("--broker and --against exclude each other")
	case c.Bool("broker"):
		return readBroker(c, s, spec)
	case c.IsSet("against"):
		state, findings, err := readExport(c, spec)
		if err != nil {
			return nil, err
		}
		if len(state.Topology.VirtualHosts) == 0 && findings.HasErrors() {
			return nil, errors.Join(showFindings(s, findings, nil), exit(ExitFindings))
		}
		if !version.IsZero() {
			state.Version = version
		}
		return state, nil
	}
	return nil, nil
}

func readBroker(c *cli.Context, s Streams, spec *specs.Spec) (*broker.State, error) {
	client, _, err := connect(c, s, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return readFrom(c, client, spec)
}

// readFrom reads the virtual hosts in question from a broker.
func readFrom(c *cli.Context, client *broker.Client, spec *specs.Spec) (*broker.State, error) {
	var names []string
	var err error
	switch {
	case c.IsSet("vhost"):
		names = []string{c.String("vhost")}
	case spec != nil:
		names = vhostNames(spec)
	default:
		if names, err = client.VirtualHosts(c.Context); err != nil {
			return nil, brokerError(err)
		}
	}
	state, err := client.Read(c.Context, names, broker.ReadOptions{})
	if err != nil {
		return nil, brokerError(err)
	}
	if c.IsSet("vhost") && len(state.Missing) > 0 {
		return nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not there, or this user has no permission in it", state.Missing[0]))
	}
	return state, nil
}

// readExport reads an exported definitions file; findings say what is wrong with it.
func readExport(c *cli.Context, spec *specs.Spec) (*broker.State, diag.List, error) {
	name := c.String("against")
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read definitions: %w", err)
	}
	defer f.Close()
	only := c.String("vhost") // an export of one virtual host does not name it
	if spec != nil && only == "" {
		if names := vhostNames(spec); len(names) == 1 {
			only = names[0]
		}
	}
	state, findings, err := broker.ReadDefinitions(f, name, only)
	if err != nil {
		return nil, nil, err
	}
	return state, findings, onlyVirtualHost(c, state)
}

// onlyVirtualHost keeps the virtual host that --vhost names.
func onlyVirtualHost(c *cli.Context, state *broker.State) error {
	if !c.IsSet("vhost") {
		return nil
	}
	v := state.Topology.VirtualHost(c.String("vhost"))
	if v == nil {
		return fail(ExitFailure, fmt.Errorf("there is no virtual host %q in it", c.String("vhost")))
	}
	state.Topology = &topology.Topology{VirtualHosts: []*topology.VirtualHost{v}}
	return nil
}
