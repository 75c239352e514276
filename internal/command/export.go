package command

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/export"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

func exportCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "read an exported definitions `FILE` instead of a broker"},
		&cli.StringSliceFlag{Name: "vhost", Usage: "the virtual host `NAME`; may be repeated (default: / of a broker, all of a file)"},
		&cli.StringFlag{Name: "output", Usage: "write the spec to `FILE`, which must not exist, instead of standard output"},
		rabbitmqFlag(),
	}
	return &cli.Command{
		Name:  "export",
		Usage: "write what is on a broker, or in a definitions file, as a spec",
		UsageText: "rabbitctl export --vhost shop --output shop.yaml\n" +
			"rabbitctl export --from definitions.json > specs.yaml     without a broker",
		Description: "plan of the spec against the same broker or file is empty. Passwords in parameters\n" +
			"become references to environment variables; users are left out. docs/export.md has more.",
		Flags:  joinFlags(flags, connectionFlags()),
		Action: func(c *cli.Context) error { return runExport(c, s) },
	}
}

func runExport(c *cli.Context, s Streams) error {
	if c.Args().Present() {
		return usagef("export takes no argument %q; --from names a definitions file, --output the spec to write", c.Args().First())
	}
	state, findings, err := exportState(c, s)
	if err != nil {
		return err
	}
	if findings.HasErrors() {
		return errors.Join(showFindings(s, findings, nil), exit(ExitFindings))
	}
	text, more := export.Spec(export.Input{Topology: state.Topology, Version: state.Version})
	// What the reader says of bindings without ends is said of the spec here.
	findings = slices.DeleteFunc(findings, func(d diag.Diagnostic) bool { return d.Code == "definitions-end-missing" })
	findings = append(findings, more...)
	for _, kind := range slices.Sorted(maps.Keys(state.Unknown)) {
		findings.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: "not-exported",
			Summary: fmt.Sprintf("%s objects are not exported: %s", kind.Title(), state.Unknown[kind]),
			Detail:  "Where a user's rights are the reason, log in as an administrator.",
		})
	}
	if err := showFindings(s, findings, nil); err != nil {
		return err
	}
	name := c.String("output")
	if name == "" {
		_, err := s.Out.Write(text)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	fmt.Fprintf(s.Err, "wrote %s; next: rabbitctl validate %s\n", safeLine(name), safeLine(name))
	return nil
}

// exportState reads what is to be exported.
func exportState(c *cli.Context, s Streams) (*broker.State, diag.List, error) {
	version, err := versionFlag(c)
	if err != nil {
		return nil, nil, err
	}
	names := c.StringSlice("vhost")
	if file := c.String("from"); file != "" {
		only := ""
		if len(names) == 1 {
			only = names[0] // an export of one virtual host does not name it
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, fmt.Errorf("read definitions: %w", err)
		}
		defer f.Close()
		state, findings, err := broker.ReadDefinitions(f, file, only)
		if err != nil || findings.HasErrors() {
			return state, findings, err
		}
		if !version.IsZero() {
			state.Version = version
		}
		for _, n := range names {
			if state.Topology.VirtualHost(n) == nil {
				return nil, nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not in the file", n))
			}
		}
		state.Topology.VirtualHosts = slices.DeleteFunc(state.Topology.VirtualHosts, func(v *topology.VirtualHost) bool {
			return len(names) > 0 && !slices.Contains(names, v.Name)
		})
		return state, findings, nil
	}
	if !version.IsZero() {
		return nil, nil, usagef("--rabbitmq belongs to --from: a broker tells its own version")
	}
	client, _, err := connect(c, s, nil)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	if len(names) == 0 {
		names = []string{"/"}
	}
	state, err := client.Read(c.Context, names, broker.ReadOptions{Limits: true, Parameters: true, Permissions: true})
	if err != nil {
		return nil, nil, brokerError(err)
	}
	if len(state.Missing) > 0 {
		return nil, nil, fail(ExitFailure, fmt.Errorf("virtual host %q is not there, or this user has no permission in it", state.Missing[0]))
	}
	return state, nil, nil
}
