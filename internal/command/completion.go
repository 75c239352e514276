package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func completionCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a completion script for a shell",
		ArgsUsage: "bash|zsh|fish",
		UsageText: "source <(rabbitctl completion bash)\n" +
			"source <(rabbitctl completion zsh)\n" +
			"rabbitctl completion fish > ~/.config/fish/completions/rabbitctl.fish",
		Action: func(c *cli.Context) error {
			shell, err := one(c, "a shell: bash, zsh or fish")
			if err != nil {
				return err
			}
			script, err := completionScript(shell, c.App.Commands)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(s.Out, script)
			return err
		},
	}
}

// completionScript completes commands, the flags of each, and file names.
func completionScript(shell string, commands []*cli.Command) (string, error) {
	switch shell {
	case "bash":
		return bashCompletion(commands), nil
	case "zsh":
		return "#compdef rabbitctl\nautoload -U +X bashcompinit && bashcompinit\n" + bashCompletion(commands), nil
	case "fish":
		return fishCompletion(commands), nil
	}
	return "", usagef("there is no completion for %q; choose bash, zsh or fish", shell)
}

func flagNames(c *cli.Command) []string {
	var names []string
	for _, f := range c.Flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, "--"+n)
			}
		}
	}
	return names
}

func bashCompletion(commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString("_rabbitctl() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words=\"")
	for i, c := range commands {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(c.Name)
	}
	b.WriteString("\"\n  else\n    case ${COMP_WORDS[1]} in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "      %s) words=\"%s\" ;;\n", c.Name, strings.Join(flagNames(c), " "))
	}
	b.WriteString("    esac\n  fi\n  case $cur in\n    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n" +
		"    *) if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi ;;\n" +
		"  esac\n}\ncomplete -o filenames -F _rabbitctl rabbitctl\n")
	return b.String()
}

func fishCompletion(commands []*cli.Command) string {
	var b strings.Builder
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }
	for _, c := range commands {
		fmt.Fprintf(&b, "complete -c rabbitctl -n __fish_use_subcommand -f -a %s -d %s\n", c.Name, quote(c.Usage))
		for _, name := range flagNames(c) {
			fmt.Fprintf(&b, "complete -c rabbitctl -n '__fish_seen_subcommand_from %s' -l %s\n", c.Name, strings.TrimPrefix(name, "--"))
		}
	}
	return b.String()
}
