package command

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

func validateCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "find mistakes in specs; needs no broker",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl validate refunds.yaml\n" +
			"rabbitctl validate --rabbitmq 4.3 specs/          is the spec right for another version?\n" +
			"rabbitctl validate --format json - < spec.yaml",
		Description: "Exits with 0 when there is no error (warnings are shown), 3 when there is one.",
		Flags: append([]cli.Flag{
			rabbitmqFlag(),
			formatFlag(),
		}, specFlags()...),
		Action: func(c *cli.Context) error { return runValidate(c, s) },
	}
}

func rabbitmqFlag() cli.Flag {
	return &cli.StringFlag{Name: "rabbitmq", Usage: "`VERSION` of RabbitMQ to check for (default: every version that the spec's requires allows)"}
}

func runValidate(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal)
	if err != nil {
		return err
	}
	version, err := versionFlag(c)
	if err != nil {
		return err
	}
	spec, findings, err := loadSpec(c, s, c.Args().Slice())
	if err != nil {
		return err
	}
	if !findings.HasStructural() {
		findings = checkSpec(spec, findings, version)
	}
	if spec != nil {
		o.Sources = spec.Files
	}
	if err := render.Findings(s.Out, findings, o); err != nil {
		return err
	}
	if len(findings) == 0 && o.Format == render.Text {
		if _, err := fmt.Fprintln(s.Out, "no findings"); err != nil {
			return err
		}
	}
	if findings.HasErrors() {
		return exit(ExitFindings)
	}
	return nil
}

// versionFlag reads --rabbitmq; the zero version when it is not given.
func versionFlag(c *cli.Context) (catalog.Version, error) {
	if !c.IsSet("rabbitmq") {
		return catalog.Version{}, nil
	}
	v, err := catalog.ParseVersion(c.String("rabbitmq"))
	if err != nil {
		return catalog.Version{}, fail(ExitUsage, fmt.Errorf("--rabbitmq: %w", err))
	}
	return v, nil
}

// checkSpec expands a spec for a version and applies every rule; a zero version
// stands for all that the spec allows. The findings of loading are part of the
// result.
func checkSpec(spec *specs.Spec, found diag.List, version catalog.Version) diag.List {
	desired, more := spec.Expand(specs.Target{Version: version})
	found = append(found, more...)
	if found.HasStructural() {
		found.Sort()
		return found
	}
	in := validate.Input{Topology: desired, Versions: spec.Versions(), Sources: spec.Files, Found: found}
	if !version.IsZero() {
		in.Versions = []catalog.Version{version}
	}
	return validate.Check(in)
}
