package command

import (
	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/jsonschema"
)

func schemaCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:  "schema",
		Usage: "print the JSON Schema of specs, for editors",
		UsageText: "rabbitctl schema > spec.schema.json\n" +
			"then write above a spec: # yaml-language-server: $schema=spec.schema.json",
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 0 {
				return usagef("schema takes no arguments")
			}
			_, err := s.Out.Write(jsonschema.Spec())
			return err
		},
	}
}
