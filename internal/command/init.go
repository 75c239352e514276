package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
	"github.com/rabbitctl/rabbitctl/specs/examples"
)

// defaultSpec is the file that init writes when none is named.
const defaultSpec = "rabbitctl.yaml"

func initCommand(s Streams) *cli.Command {
	names := make([]string, len(examples.List))
	var list strings.Builder
	for i, e := range examples.List {
		names[i] = e.Name
		fmt.Fprintf(&list, "\n   %-14s %s", e.Name, e.Title)
	}
	return &cli.Command{
		Name:      "init",
		Usage:     "write a commented starter spec",
		ArgsUsage: "[FILE]",
		UsageText: "rabbitctl init [FILE]                       write " + defaultSpec + " or FILE\n" +
			"rabbitctl init --template categories -      print another template",
		Description: "Templates:\n" + list.String(),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "template", Usage: "`NAME` of the template: " + strings.Join(names, ", "), Value: examples.List[0].Name},
			&cli.BoolFlag{Name: "force", Usage: "overwrite an existing file"},
		},
		Action: func(c *cli.Context) error { return runInit(c, s) },
	}
}

func runInit(c *cli.Context, s Streams) error {
	if c.Args().Len() > 1 {
		return usagef("name one file to write")
	}
	data, err := template(c.String("template"))
	if err != nil {
		return fail(ExitUsage, err)
	}
	// Editors find the language's schema by this line.
	data = append([]byte(jsonschema.Modeline+"\n"), data...)
	name := c.Args().First()
	if name == "-" {
		_, err := s.Out.Write(data)
		return err
	}
	if name == "" {
		name = defaultSpec
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Bool("force") {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fail(ExitFailure, fmt.Errorf("%s exists already; --force overwrites it", name))
	}
	if err != nil {
		return fmt.Errorf("write the starter spec: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the starter spec: %w", err)
	}
	_, err = fmt.Fprintf(s.Out, "wrote %s; next: rabbitctl validate %s\n", safeLine(name), safeLine(name))
	return err
}

// template finds a starter spec by name.
func template(name string) ([]byte, error) {
	var names []string
	for _, e := range examples.List {
		if e.Name == name {
			return examples.FS.ReadFile(e.File)
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("there is no template %q; choose one of %s", name, strings.Join(names, ", "))
}
