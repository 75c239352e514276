package command

import (
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

func init() {
	cli.FlagStringer = flagLine(cli.FlagStringer)
	cli.HelpFlag = &sharedFlag{&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true}}
}

// sharedFlag is a flag that several command lines use at once: the library keeps one
// for --help and writes into it at each start.
type sharedFlag struct{ *cli.BoolFlag }

// Apply implements cli.Flag.
func (f *sharedFlag) Apply(set *flag.FlagSet) error {
	own := *f.BoolFlag
	return own.Apply(set)
}

// flagLine writes a flag for the help without what the library says too much: that
// a switch is off unless given, and repeated flags twice.
func flagLine(write cli.FlagStringFunc) cli.FlagStringFunc {
	return func(f cli.Flag) string {
		line := strings.Replace(write(f), " (default: false)", "", 1)
		names, usage, _ := strings.Cut(line, "\t")
		names, _, _ = strings.Cut(names, " [ --")
		return names + "\t" + usage
	}
}

func helpCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Aliases:   []string{"h"},
		Usage:     "show the commands, or what one of them does",
		ArgsUsage: "[COMMAND]",
		UsageText: "rabbitctl help\nrabbitctl help plan      the same as rabbitctl plan --help",
		Action: func(c *cli.Context) error {
			if c.Args().Len() == 0 {
				return cli.ShowAppHelp(c)
			}
			return cli.ShowCommandHelp(c, c.Args().First())
		},
	}
}

func versionCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "version",
		Usage:     "print the version",
		UsageText: "rabbitctl version",
		Action: func(*cli.Context) error {
			_, err := fmt.Fprintf(s.Out, "rabbitctl %s, %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is that of the module, with the commit where the build recorded one.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			v += " " + setting.Value[:12]
		}
	}
	return v
}
