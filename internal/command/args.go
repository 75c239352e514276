package command

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts a command line into the order that urfave/cli understands: it
// stops at the first argument, while our flags may stand anywhere. The result is
// the command, its flags, "--" and its arguments; "--" in the input ends the
// flags as usual. It returns a usage error for an unknown command.
func arrange(commands []*cli.Command, args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	name, rest := args[0], args[1:]
	if name == "help" || name == "h" {
		if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && findCommand(commands, rest[0]) == nil {
			return nil, unknownCommand(commands, rest[0])
		}
		return args, nil
	}
	c := findCommand(commands, name)
	if c == nil {
		return nil, unknownCommand(commands, name)
	}
	var flags, operands []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		switch {
		case arg == "--":
			operands = append(operands, rest[i+1:]...)
			i = len(rest)
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			operands = append(operands, arg)
		default:
			flags = append(flags, arg)
			if !strings.Contains(arg, "=") && takesValue(c, strings.TrimLeft(arg, "-")) && i+1 < len(rest) {
				i++
				flags = append(flags, rest[i])
			}
		}
	}
	return append(append(append([]string{name}, flags...), "--"), operands...), nil
}

func findCommand(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// takesValue reports whether the flag of that name wants a value; unknown flags
// do not, so that the parser names them.
func takesValue(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		for _, n := range f.Names() {
			if n == name {
				d, ok := f.(cli.DocGenerationFlag)
				return ok && d.TakesValue()
			}
		}
	}
	return false
}

func unknownCommand(commands []*cli.Command, name string) error {
	hint := ""
	if s := cli.SuggestCommand(commands, name); s != "" {
		hint = " " + s
	}
	return usagef("there is no command %q.%s \"rabbitctl help\" lists them", name, hint)
}
