package command

import (
	"errors"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/specs"
)

// variablePrefix marks environment variables that set spec variables.
const variablePrefix = "RABBITCTL_VAR_"

// specFlags are the flags of every command that reads specs.
func specFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "set", Usage: "`NAME=VALUE` of a spec variable; may be repeated", Category: "SPEC"},
		&cli.StringSliceFlag{Name: "values", Usage: "`FILE` with spec variables, YAML; may be repeated", Category: "SPEC"},
	}
}

// formatFlag chooses in which of the formats the result is written.
func formatFlag(formats []render.Format) cli.Flag {
	return &cli.StringFlag{Name: "format", Usage: "`FORMAT` of the result: " + render.FormatNames(formats), Value: string(formats[0])}
}

// outputOptions reads --format and whether colours are wanted on a stream.
func outputOptions(c *cli.Context, s Streams, terminal bool, formats []render.Format) (render.Options, error) {
	f, err := render.ParseFormat(c.String("format"), formats)
	if err != nil {
		return render.Options{}, fail(ExitUsage, err)
	}
	return render.Options{Format: f, Color: terminal && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"}, nil
}

// loadSpec reads the specs that a command names.
func loadSpec(c *cli.Context, s Streams, args []string) (*specs.Spec, diag.List, error) {
	return loadSpecMeanwhile(c, s, args, func([]specs.File) {})
}

// loadSpecMeanwhile begins something before the text of the specs is understood.
func loadSpecMeanwhile(c *cli.Context, s Streams, args []string, begin func([]specs.File)) (*specs.Spec, diag.List, error) {
	if len(args) == 0 {
		return nil, nil, usagef("name a spec: a file, a folder, or - for standard input")
	}
	files, findings, err := specs.ReadFiles(args, s.In)
	if err != nil {
		return nil, nil, err
	}
	begin(files)
	return loadFiles(c, s, files, findings)
}

// loadFiles reads specs whose text is at hand.
func loadFiles(c *cli.Context, s Streams, files []specs.File, findings diag.List) (*specs.Spec, diag.List, error) {
	if len(files) == 0 && findings.HasStructural() {
		return nil, findings, nil // not a spec that says nothing, but no spec at all
	}
	input := specs.Input{Files: files, Set: map[string]string{}, Environment: map[string]string{}}
	for _, assignment := range c.StringSlice("set") {
		name, value, ok := strings.Cut(assignment, "=")
		if !ok || name == "" {
			return nil, nil, usagef("--set %q is not of the form NAME=VALUE", assignment)
		}
		input.Set[name] = value
	}
	for _, name := range c.StringSlice("values") {
		file, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, usagef("read values: %w", err)
		}
		input.Values = append(input.Values, specs.File{Name: name, Data: file})
	}
	for _, e := range s.Environ {
		if name, value, ok := strings.Cut(strings.TrimPrefix(e, variablePrefix), "="); ok && strings.HasPrefix(e, variablePrefix) {
			input.Environment[name] = value
		}
	}
	spec, more := specs.Load(input)
	findings = append(findings, more...)
	findings.Sort()
	return spec, findings, nil
}

// showFindings writes findings to standard error in text, so that standard
// output is for the result.
func showFindings(s Streams, list diag.List, spec *specs.Spec) error {
	if len(list) == 0 {
		return nil
	}
	o := render.Options{Format: render.Text, Color: s.ErrTerminal && s.getenv("NO_COLOR") == "" && s.getenv("TERM") != "dumb"}
	if spec != nil {
		o.Sources = spec.Files
	}
	return render.Findings(s.Err, list, o)
}

// stopOnStructural ends a command whose spec cannot be understood.
func stopOnStructural(s Streams, list diag.List, spec *specs.Spec) error {
	if !list.HasStructural() {
		return nil
	}
	if err := showFindings(s, list, spec); err != nil {
		return err
	}
	return exit(ExitFindings)
}

func safeLine(s string) string { return text.Line(s) }

// one ensures that a command got exactly one argument.
func one(c *cli.Context, what string) (string, error) {
	if c.Args().Len() != 1 {
		return "", usagef("name %s", what)
	}
	return c.Args().First(), nil
}

var errNoTerminal = errors.New("there is no terminal to ask on; say --yes to carry the plan out")
