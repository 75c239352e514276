package command

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

const replaceName = "replace"

func replaceCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringSliceFlag{Name: "allow", Usage: "agree to `ACTION=KIND/NAME`, such as lossy=queue/orders; may be repeated"},
		&cli.StringSliceFlag{Name: "adopt", Usage: "record `KIND/NAME`, which is there already, as the stack's; may be repeated"},
	}
	return &cli.Command{
		Name:      replaceName,
		Usage:     "replace a queue whose type or arguments differ, without losing a message",
		ArgsUsage: "QUEUE SPEC...",
		UsageText: "rabbitctl replace orders shop.yaml                          shows the plan and asks\n" +
			"rabbitctl replace --yes --wait-consumers 5m orders shop.yaml",
		Description: "The messages are kept in a holding queue, which has the bindings of the queue meanwhile. The old\n" +
			"queue is deleted only when it is proved empty and nobody consumes from it. A run that failed or was\n" +
			"killed is continued by the same command. It takes about half a minute and the time that it takes\n" +
			"to move the messages twice. docs/replace.md says what is guaranteed and what is not.",
		Flags:  joinFlags(flags, runFlags(), replaceFlags(), specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runReplace(c, s) },
	}
}

// replaceFlags say how queues are replaced.
func replaceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "wait-consumers", Usage: "wait `DURATION` until nobody consumes from a queue that is to be replaced"},
	}
}

func runReplace(c *cli.Context, s Streams) error {
	job, err := newApplyJob(c, s)
	if err != nil {
		return err
	}
	args := c.Args().Slice()
	if len(args) < 2 {
		return usagef("name the queue to replace and a spec: rabbitctl replace QUEUE SPEC...")
	}
	files, findings, err := specs.ReadFiles(args[1:], s.In)
	if err != nil {
		return err
	}
	if err := job.connect(); err != nil {
		return err
	}
	return job.files(files, findings)
}

// replacing is the queue that the command replace names.
func replacing(c *cli.Context) (name string, ok bool) {
	return c.Args().First(), c.Command.Name == replaceName
}

// replaces reports whether the plan replaces the queue.
func replaces(p *plan.Plan, name string) bool {
	return slices.ContainsFunc(p.Changes, func(c *plan.Change) bool {
		return c.Action == plan.Replace && c.Key.Kind == topology.KindQueue && c.Key.Name == name
	})
}

func nothingToReplace(p *plan.Plan, name string) error {
	if p.Empty() {
		return nil
	}
	return fail(ExitFailure, fmt.Errorf("queue %q needs no replacement, nothing was changed; apply does the rest", name))
}
