package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/compile"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

func compileCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "rabbitmq", Usage: "`VERSION` of RabbitMQ that imports the file; required, unless the spec's requires says it"},
		&cli.StringFlag{Name: "output", Usage: "write the definitions to `FILE` instead of standard output"},
		&cli.BoolFlag{Name: "with-secrets", Usage: "write secrets into the file, readable by its owner only; needs --output"},
	}
	return &cli.Command{
		Name:      "compile",
		Usage:     "write specs as a definitions file, for import when a broker boots",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl compile --rabbitmq 4.3 --output definitions.json specs/",
		Flags:     joinFlags(flags, specFlags()),
		Action:    func(c *cli.Context) error { return runCompile(c, s) },
	}
}

func runCompile(c *cli.Context, s Streams) error {
	version, err := versionFlag(c)
	if err != nil {
		return err
	}
	spec, findings, err := loadSpec(c, s, c.Args().Slice())
	if err != nil {
		return err
	}
	if err := stopOnStructural(s, findings, spec); err != nil {
		return err
	}
	if version.IsZero() {
		if version = required(spec); version.IsZero() {
			return usagef("say with --rabbitmq for which version the file is, or in the spec with requires.rabbitmq")
		}
	}
	desired, more := spec.Expand(specs.Target{Version: version})
	findings = append(findings, more...)
	findings = validate.Check(validate.Input{Topology: desired, Versions: []catalog.Version{version}, Sources: spec.Files, Found: findings})
	text, name, secret := []byte(nil), c.String("output"), false
	if !findings.HasErrors() {
		if secret, err = compileSecrets(c, s, desired); err != nil {
			return errors.Join(showFindings(s, findings, spec), err)
		}
		text, more, err = compile.Definitions(desired, version)
		if err != nil {
			return err
		}
		findings = append(findings, more...)
	}
	if err := showFindings(s, findings, spec); err != nil {
		return err
	}
	if findings.HasErrors() {
		return exit(ExitFindings)
	}
	if name == "" {
		_, err := s.Out.Write(text)
		return err
	}
	if err := writeDefinitions(name, text, secret); err != nil {
		return fmt.Errorf("write the definitions: %w", err)
	}
	return nil
}

// required is the newest known version that the spec asks for; zero: it says
// nothing.
func required(spec *specs.Spec) catalog.Version {
	says := slices.ContainsFunc(spec.VirtualHosts, func(v *specs.VirtualHost) bool { return len(v.Requires.RabbitMQ.Ranges) > 0 })
	if versions := spec.Versions(); says && len(versions) > 0 {
		return versions[len(versions)-1]
	}
	return catalog.Version{}
}

// compileSecrets puts secrets in the place of their references where the user
// wants that, and reports whether there are any.
func compileSecrets(c *cli.Context, s Streams, t *topology.Topology) (bool, error) {
	secret := false
	for _, v := range t.VirtualHosts {
		for _, p := range v.Parameters {
			p.Position = topology.Position{}
			value, missing := resolveSecrets(p.Value, s)
			raw := plan.Plan{Changes: []*plan.Change{{Key: p.Key(), After: p}}}
			if topology.Equal(value, p.Value) && len(raw.RawSecrets()) == 0 {
				continue
			}
			secret = true
			switch {
			case !c.Bool("with-secrets") || c.String("output") == "":
				return true, usagef("the %s holds a secret, which would stand in the file: --with-secrets and --output FILE write it, readable by its owner only", p.Key())
			case len(missing) > 0:
				return true, usagef("the spec takes a secret from the environment variable %s, which is not set", missing[0])
			}
			p.Value = value
		}
	}
	return secret, nil
}

// writeDefinitions renames the file into place, so that no broker reads half of
// it.
func writeDefinitions(name string, data []byte, secret bool) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".rabbitctl-definitions-*") // CreateTemp makes it 0600
	if err != nil {
		return err
	}
	if !secret {
		err = f.Chmod(0o644)
	}
	_, werr := f.Write(data)
	if err = errors.Join(err, werr, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
