package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// arrange puts a command line into the order that urfave/cli understands: it
// stops at the first argument, while our flags may stand anywhere. The result is
// the command, its flags, "--" and its arguments; "--" in the input ends the
// flags as usual. It returns a usage error for an unknown command.
func arrange(commands []*cli.Command, args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	if flag, ok := strings.CutPrefix(args[0], "-"); ok {
		switch strings.TrimPrefix(flag, "-") {
		case "help", "h":
			args = append([]string{"help"}, args[1:]...)
		case "version", "v":
			return []string{"version"}, nil
		default:
			name, _, _ := strings.Cut(args[0], "=") // the value may be a password
			return nil, usagef("flags come after the command: rabbitctl COMMAND %s; \"rabbitctl help\" lists the commands", name)
		}
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
			name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			flags = append(flags, arg)
			if !given && takesValue(c, name) && i+1 < len(rest) {
				i++
				value, given = rest[i], true
				flags = append(flags, rest[i])
			}
			if err := checkFlag(c, name, value, given); err != nil {
				return nil, err
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

// checkFlag says in our words what the parser would say in its own.
func checkFlag(c *cli.Command, name, value string, given bool) error {
	names := []string{"help", "h"}
	for _, f := range c.Flags {
		names = append(names, f.Names()...)
		if _, ok := f.(*cli.DurationFlag); ok && given && slices.Contains(f.Names(), name) {
			if _, err := time.ParseDuration(value); err != nil {
				return usagef("--%s %q is no duration such as 30s", name, value)
			}
		}
	}
	if slices.Contains(names, name) {
		return nil
	}
	hint := ""
	if near := text.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(" Did you mean --%s?", near)
	}
	return usagef("rabbitctl %s has no flag --%s.%s \"rabbitctl %s --help\" lists them", c.Name, name, hint, c.Name)
}

func unknownCommand(commands []*cli.Command, name string) error {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	hint := ""
	if near := text.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(" Did you mean %q?", near)
	}
	return usagef("there is no command %q.%s \"rabbitctl help\" lists them", name, hint)
}
