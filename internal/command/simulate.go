package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/scenario"
	"github.com/rabbitctl/rabbitctl/specs"
)

func simulateCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "vhost", Usage: "`NAME` of the virtual host; needed when there are several"},
		rabbitmqFlag(),
		formatFlag([]render.Format{render.Text, render.JSON}),
	}
	return &cli.Command{
		Name:      "simulate",
		Usage:     "follow scripted messages through a spec on a virtual clock, without a broker",
		ArgsUsage: "SPEC... SCENARIO",
		UsageText: "rabbitctl simulate refunds.yaml scenario.yaml\n" +
			"rabbitctl simulate --rabbitmq 4.3 --format json specs/ scenario.yaml",
		Description: "Shows the path and the end of every message. Exits with 1 when an expectation of the\n" +
			"scenario is not met. docs/simulate.md has the language of scenarios.",
		Flags:  joinFlags(flags, specFlags()),
		Action: func(c *cli.Context) error { return runSimulate(c, s) },
	}
}

func runSimulate(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal, []render.Format{render.Text, render.JSON})
	if err != nil {
		return err
	}
	args := c.Args().Slice()
	if len(args) < 2 {
		return usagef("name a spec and a scenario: rabbitctl simulate SPEC... SCENARIO")
	}
	name := args[len(args)-1]
	data, err := os.ReadFile(name)
	if err != nil {
		return usagef("read the scenario: %w", err)
	}
	script, found := scenario.Read(name, data)
	spec, more, err := loadSpec(c, s, args[:len(args)-1])
	if err != nil {
		return err
	}
	if spec == nil {
		spec = &specs.Spec{Files: map[string][]byte{}}
	}
	spec.Files[name] = data // to show lines of findings
	found = append(found, more...)
	if found.HasErrors() {
		return errors.Join(showFindings(s, found, spec), exit(ExitFindings))
	}
	in, more, err := simulation(c, spec, script)
	if err != nil {
		return err
	}
	if more.HasErrors() {
		return errors.Join(showFindings(s, more, spec), exit(ExitFindings))
	}
	result, failed, err := scenario.Run(c.Context, in)
	if err != nil {
		return fail(ExitFailure, err)
	}
	if err := showSimulation(s, o, in.Version, result, failed); err != nil {
		return err
	}
	if len(failed) > 0 {
		return errors.Join(showFindings(s, failed, spec), exit(ExitFailure))
	}
	return nil
}

// simulation is what a script runs on.
func simulation(c *cli.Context, spec *specs.Spec, script *scenario.Scenario) (scenario.Input, diag.List, error) {
	version, err := versionFlag(c)
	if err != nil {
		return scenario.Input{}, nil, err
	}
	if version.IsZero() && script.RabbitMQ != "" {
		if version, err = catalog.ParseVersion(script.RabbitMQ); err != nil {
			return scenario.Input{}, nil, usagef("rabbitmq in the scenario: %w", err)
		}
	}
	if version.IsZero() {
		all := spec.Versions()
		if len(all) == 0 {
			all = catalog.Releases
		}
		version = all[len(all)-1]
	}
	vhost := c.String("vhost")
	if vhost == "" {
		vhost = script.VirtualHost
	}
	names := vhostNames(spec)
	switch {
	case vhost == "" && len(names) == 1:
		vhost = names[0]
	case vhost == "":
		return scenario.Input{}, nil, usagef("the specs have %d virtual hosts: name one by --vhost", len(names))
	}
	expanded, findings := spec.Expand(specs.Target{Version: version})
	if expanded.VirtualHost(vhost) == nil {
		return scenario.Input{}, nil, usagef("the specs have no virtual host %q", vhost)
	}
	return scenario.Input{Scenario: script, Topology: expanded, Version: version.String(), VirtualHost: vhost}, findings, nil
}

func showSimulation(s Streams, o render.Options, version string, r *scenario.Result, failed diag.List) error {
	if o.Format != render.JSON {
		_, err := fmt.Fprint(s.Out, r.Text())
		return err
	}
	type event struct {
		AfterMS int64  `json:"after_ms"`
		Kind    string `json:"kind"`
		Text    string `json:"text"`
	}
	type message struct {
		ID     string  `json:"id"`
		Events []event `json:"events"`
		End    string  `json:"end"`
		Lost   bool    `json:"lost"`
	}
	out := struct {
		FormatVersion string    `json:"format_version"`
		RabbitMQ      string    `json:"rabbitmq"`
		Messages      []message `json:"messages"`
		Lost          int       `json:"lost"`
		Failed        []string  `json:"failed_expectations"`
	}{FormatVersion: "1.0", RabbitMQ: version, Messages: []message{}, Lost: r.Lost, Failed: []string{}}
	for _, m := range r.Messages {
		row := message{ID: m.ID, Events: []event{}, End: m.End, Lost: m.Lost}
		for _, e := range m.Events {
			row.Events = append(row.Events, event{e.After.Milliseconds(), e.Kind, e.Text})
		}
		out.Messages = append(out.Messages, row)
	}
	for _, d := range failed {
		out.Failed = append(out.Failed, fmt.Sprintf("%s: %s", d.Position, d.Summary))
	}
	encoder := json.NewEncoder(s.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
