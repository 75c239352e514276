// Package command is rabbitctl's command line: one file per command. Commands
// turn flags into option structs, call the packages that do the work and show
// what they return; they decide nothing themselves.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rabbitctl/rabbitctl/internal/text"
)

// Streams is what a command reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTerminal, OutTerminal and ErrTerminal say which of them are terminals.
	InTerminal, OutTerminal, ErrTerminal bool
	// Environ lists NAME=value, as os.Environ does.
	Environ []string
}

// OSStreams are the streams of the process.
func OSStreams() Streams {
	return Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Environ:     os.Environ(),
	}
}

// getenv looks an environment variable up.
func (s Streams) getenv(name string) string {
	value := ""
	for _, e := range s.Environ {
		if len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			value = e[len(name)+1:] // the last one wins, as in the shell
		}
	}
	return value
}

// Run carries out one command line and returns the exit status. When ctx ends a
// command that has begun to write finishes its running steps; any other ends.
func Run(ctx context.Context, args []string, s Streams) int {
	return int(interruptible(ctx, s, func(ctx context.Context) Exit { return run(ctx, args, s) }))
}

func run(ctx context.Context, args []string, s Streams) (status Exit) {
	// The Go runtime would end with 2, which means "changes pending" here.
	defer func() {
		if p := recover(); p != nil {
			status = crashed(ctx, s, p, debug.Stack())
		}
	}()
	app := newApp(s)
	args, err := arrange(app.Commands, args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{"rabbitctl"}, args...))
	}
	if err != nil {
		if msg := err.Error(); msg != "" {
			fmt.Fprintf(s.Err, "rabbitctl: %s\n", text.Safe(msg))
		}
	}
	return statusOf(err)
}

// crashed reports a mistake of ours.
func crashed(ctx context.Context, s Streams, what any, stack []byte) Exit {
	fmt.Fprintf(s.Err, "rabbitctl: internal error: %s\n\n%s\nThis is a bug in rabbitctl: please report it with the lines above and the command.\n",
		text.Safe(fmt.Sprint(what)), text.Safe(string(stack)))
	if hasWritten(ctx) {
		return ExitPartial
	}
	return ExitFailure
}

func newApp(s Streams) *cli.App {
	app := &cli.App{
		Name:  "rabbitctl",
		Usage: "declare, check and change RabbitMQ topology from YAML specs, without losing messages",
		UsageText: "rabbitctl COMMAND [FLAGS] [ARGUMENTS]\n\n" +
			"rabbitctl init refunds.yaml                         write a starter spec\n" +
			"rabbitctl validate refunds.yaml                     find mistakes, no broker needed\n" +
			"rabbitctl plan refunds.yaml --url http://host:15672 show what differs on the broker\n" +
			"rabbitctl apply refunds.yaml --yes                  change the broker, safely",
		Description:     "Exit status, the same for every command:\n\n" + exitTable(),
		HideVersion:     true,
		HideHelpCommand: true,
		Reader:          s.In,
		Writer:          s.Out,
		ErrWriter:       s.Err,
		// Values of --allow and --set may hold commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // Run alone decides the status
		OnUsageError:              usageError,
		Commands:                  commands(s),
		Action: func(c *cli.Context) error {
			if err := cli.ShowAppHelp(c); err != nil {
				return err
			}
			return exit(ExitUsage)
		},
	}
	for _, c := range app.Commands {
		c.OnUsageError = usageError
		c.HideHelpCommand = true
	}
	return app
}

// commands lists every command in the order of the help.
func commands(s Streams) []*cli.Command {
	return []*cli.Command{
		initCommand(s),
		validateCommand(s),
		planCommand(s),
		applyCommand(s),
		destroyCommand(s),
		replaceCommand(s),
		checkCommand(s),
		explainCommand(s),
		simulateCommand(s),
		graphCommand(s),
		exportCommand(s),
		compileCommand(s),
		schemaCommand(s),
		completionCommand(s),
		versionCommand(s),
		helpCommand(s),
	}
}

func usageError(c *cli.Context, err error, _ bool) error {
	name := "rabbitctl"
	if c.Command != nil && c.Command.Name != "" && c.Command.Name != "rabbitctl" {
		name += " " + c.Command.Name
	}
	return usagef("%w (see %q)", err, name+" --help")
}
