package command

import (
	"fmt"
	"maps"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/validate"
)

func validateCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "find mistakes in specs, offline, or on a broker",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl validate refunds.yaml\n" +
			"rabbitctl validate --rabbitmq 4.3 specs/          what changes or breaks by an upgrade?\n" +
			"rabbitctl validate --broker --rabbitmq 4.3        the same of what is on a broker, without a spec\n" +
			"rabbitctl validate --against definitions.json     of what is in an export\n" +
			"rabbitctl validate --format sarif specs/ > rabbitctl.sarif\n" +
			"rabbitctl validate --write-baseline old.json specs/, then --baseline old.json\n" +
			"rabbitctl validate --format json - < spec.yaml",
		Description: "Exits with 0 when there is no error (warnings and notes are shown), 3 when there is one.\n" +
			"With --severity warning it also exits with 3 when there is a warning, and shows no notes.\n" +
			"docs/upgrade.md says what --rabbitmq looks at.",
		Flags: joinFlags([]cli.Flag{
			rabbitmqFlag(),
			&cli.StringFlag{Name: "from", Usage: "`VERSION` that runs now, for what --rabbitmq says of an upgrade (default: the broker's, else all that the spec's requires allows)"},
			&cli.StringFlag{Name: "vhost", Usage: "only the virtual host `NAME` of --broker or --against (default: all that the user sees)"},
			&cli.BoolFlag{Name: "strict", Usage: "a contract for every queue and an owner for every dead-letter queue"},
			&cli.StringFlag{Name: "severity", Usage: "show only findings of this `SEVERITY` or worse, and exit with 3 when there is one: error, warning, info (default: show all, exit with 3 on errors)"},
			&cli.StringFlag{Name: "baseline", Usage: "accept the findings that `FILE` lists"},
			&cli.StringFlag{Name: "write-baseline", Usage: "write a baseline that accepts what is found now to `FILE`"},
			formatFlag(render.FindingFormats()),
		}, liveFlags("check"), specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runValidate(c, s) },
	}
}

func rabbitmqFlag() cli.Flag {
	return &cli.StringFlag{Name: "rabbitmq", Usage: "`VERSION` of RabbitMQ to check for (default: every version that the spec's requires allows)"}
}

func runValidate(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal, render.FindingFormats())
	if err != nil {
		return err
	}
	o.Version, o.Rules = version(), ruleTexts()
	if o.FailAt, err = severityFlag(c); err != nil {
		return err
	}
	version, err := versionFlag(c)
	if err != nil {
		return err
	}
	baseline, baselineText, err := readBaseline(c.String("baseline"))
	if err != nil {
		return err
	}
	in, sources, err := validateInput(c, s, version)
	if err != nil {
		return err
	}
	in.Strict, in.Baseline = c.Bool("strict"), baseline
	o.Sources = sources
	findings := in.Found
	if !findings.HasStructural() {
		if name := c.String("write-baseline"); name != "" {
			return writeBaseline(s, name, in)
		}
		findings = validate.Check(in)
		if len(in.Versions) == 0 {
			in.Versions = catalog.Releases
		}
		o.For = "RabbitMQ " + catalog.Span(in.Versions, catalog.Releases)
	}
	findings.Sort()
	if c.IsSet("severity") {
		findings = findings.AtLeast(o.FailAt)
	}
	if baseline != nil && findings.Mentions(c.String("baseline")) {
		o.Sources = maps.Clone(o.Sources)
		o.Sources[c.String("baseline")] = baselineText
	}
	if err := render.Findings(s.Out, findings, o); err != nil {
		return err
	}
	if len(findings) == 0 && o.Format == render.Text {
		if _, err := fmt.Fprintf(s.Out, "%s for %s\n", render.Tally(findings), o.For); err != nil {
			return err
		}
	}
	if len(findings.AtLeast(o.FailAt)) > 0 {
		return exit(ExitFindings)
	}
	return nil
}

// severityFlag reads --severity: from which severity on a finding makes the
// command fail.
func severityFlag(c *cli.Context) (diag.Severity, error) {
	if !c.IsSet("severity") {
		return diag.Error, nil
	}
	switch s := diag.Severity(c.String("severity")); s {
	case diag.Error, diag.Warning, diag.Info:
		return s, nil
	}
	return "", usagef("there is no severity %q; choose one of error, warning, info", c.String("severity"))
}

// ruleTexts are the texts of all rules for formats that list them.
func ruleTexts() []render.Rule {
	all := make([]render.Rule, len(validate.Rules))
	for i, r := range validate.Rules {
		all[i] = render.Rule{Code: r.Code, Severity: r.Severity, Summary: r.Summary, Doc: r.Doc, Help: r.Fix}
	}
	return all
}

// readBaseline reads the file of --baseline; nil when it is not given.
func readBaseline(name string) (*validate.Baseline, []byte, error) {
	if name == "" {
		return nil, nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, usagef("read the baseline: %w", err)
	}
	b, err := validate.ReadBaseline(name, data)
	if err != nil {
		return nil, nil, fail(ExitUsage, err)
	}
	return b, data, nil
}

// writeBaseline accepts everything that is found now.
func writeBaseline(s Streams, name string, in validate.Input) error {
	b := validate.NewBaseline(in)
	data, err := b.Marshal()
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("write the baseline: %w", err)
	}
	_, err = fmt.Fprintf(s.Err, "wrote %s, which accepts %s; next: rabbitctl validate --baseline %s\n",
		safeLine(name), text.Plural(b.Len(), "finding", "findings"), safeLine(name))
	return err
}

// versionFlag reads --rabbitmq; the zero version when it is not given.
func versionFlag(c *cli.Context) (catalog.Version, error) { return versionIn(c, "rabbitmq") }

// versionIn reads a flag that holds a version of RabbitMQ.
func versionIn(c *cli.Context, flag string) (catalog.Version, error) {
	if !c.IsSet(flag) {
		return catalog.Version{}, nil
	}
	v, err := catalog.ParseVersion(c.String(flag))
	if err != nil {
		return catalog.Version{}, fail(ExitUsage, fmt.Errorf("--%s: %w", flag, err))
	}
	if v.Below(catalog.Oldest) {
		return catalog.Version{}, usagef("--%s %s: rabbitctl knows RabbitMQ from %s on", flag, v, catalog.Oldest)
	}
	return v, nil
}
