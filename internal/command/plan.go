package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

func planCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "against", Usage: "compare with an exported definitions `FILE` instead of a broker"},
		&cli.StringFlag{Name: "out", Usage: "save the plan to `FILE` for apply"},
		&cli.BoolFlag{Name: "detailed-exitcode", Usage: "exit with 2 when changes are pending, 4 when any is blocked"},
		&cli.BoolFlag{Name: "show-unmanaged", Usage: "list live objects that the spec does not name"},
		rabbitmqFlag(),
		formatFlag(render.Formats),
	}
	return &cli.Command{
		Name:      "plan",
		Usage:     "show what differs between specs and a broker; changes nothing",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl plan refunds.yaml\n" +
			"rabbitctl plan --against definitions.json refunds.yaml    without a broker\n" +
			"rabbitctl plan --out plan.json specs/ && rabbitctl apply plan.json\n" +
			"rabbitctl plan --format markdown --detailed-exitcode specs/",
		Flags:  joinFlags(flags, selectionFlags(), specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runPlan(c, s) },
	}
}

// selectionFlags say which part of a plan is meant and what is agreed to.
func selectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "target", Usage: "only `KIND/NAME` and what it needs; may be repeated"},
		&cli.StringSliceFlag{Name: "allow", Usage: "agree to `ACTION=KIND/NAME`, such as lossy=policy/cap or delete=queue/old; may be repeated"},
		&cli.StringSliceFlag{Name: "adopt", Usage: "record `KIND/NAME`, which is there already, as the stack's; stack/OLD takes all of a stack; may be repeated"},
	}
}

func joinFlags(groups ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

func runPlan(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal, render.Formats)
	if err != nil {
		return err
	}
	result, err := planFor(c, s, c.Args().Slice())
	if err != nil {
		return err
	}
	if result.plan == nil || result.findings.HasStructural() { // of a target that is not there no plan says anything
		return errors.Join(showFindings(s, result.findings, result.spec), exit(ExitFindings))
	}
	if err := showPlan(c, s, result, o); err != nil {
		return err
	}
	if result.blocking() {
		return exit(ExitFindings)
	}
	if name := c.String("out"); name != "" {
		if err := savePlan(name, result.plan); err != nil {
			return err
		}
		hint := "carries it out"
		if len(result.plan.BlockedChanges()) > 0 {
			hint = "refuses it while anything is blocked, unless --skip-blocked"
		}
		fmt.Fprintf(s.Err, "saved the plan to %s; rabbitctl apply %s %s\n", safeLine(name), safeLine(name), hint)
	}
	if !c.Bool("detailed-exitcode") || result.plan.Empty() {
		return nil
	}
	if len(result.plan.BlockedChanges()) > 0 {
		return exit(ExitBlocked)
	}
	return exit(ExitPending)
}

// planFor computes the plan of the specs that a command names, against what its
// flags say.
func planFor(c *cli.Context, s Streams, args []string) (*comparison, error) {
	version, err := versionFlag(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel() // what was begun to be read and is not wanted
	var client *broker.Client
	var conn *connection
	var begun *broker.Beginning
	var offline error
	spec, findings, err := loadSpecMeanwhile(c, s, args, func(files []specs.File) {
		if c.String("against") != "" || !version.IsZero() {
			return
		}
		if client, conn, offline = connect(c, s, nil); offline == nil {
			begun = client.BeginWithRecords(ctx)
			begun.Expect(specs.GuessVirtualHosts(files))
		}
	})
	if err != nil {
		return nil, err
	}
	if findings.HasStructural() {
		return &comparison{spec: spec, findings: findings}, nil
	}
	if name := c.String("against"); name != "" {
		in, err := planInput(c, s, spec)
		if err != nil {
			return nil, err
		}
		result, err := compare(c.Context, spec, findings, fromDefinitions(name, version), in, nil)
		if err != nil {
			return nil, err
		}
		result.against = name
		return result, nil
	}
	if !version.IsZero() {
		return nil, usagef("--rabbitmq belongs to --against: a broker tells its own version")
	}
	if offline != nil {
		return nil, offline
	}
	result, err := planLive(ctx, c, s, spec, findings, client, begun)
	if err != nil {
		return nil, err
	}
	result.against = conn.values["url"]
	return result, nil
}

// planLive computes the plan against a broker that was begun to be read.
func planLive(ctx context.Context, c *cli.Context, s Streams, spec *specs.Spec, findings diag.List, client *broker.Client, begun *broker.Beginning) (*comparison, error) {
	begun.Expect(vhostNames(spec))
	in, err := planInput(c, s, spec)
	if err != nil {
		return nil, err
	}
	records, why, err := readRecords(begun.Records)
	if err != nil {
		return nil, err
	}
	stacks := map[string]string{}
	for _, v := range spec.VirtualHosts {
		stacks[v.Name] = v.Stack
	}
	in.Owners = owners(stacks, records, why, takenStacks(in.Allowed))
	if c.Bool("no-lock") {
		withoutLock(in.Owners)
	}
	findings = append(slices.Clone(findings), recordFindings(stacks, records)...)
	result, err := compare(ctx, spec, findings, fromBroker(client, begun, in.Owners), in, client)
	if err != nil {
		return nil, err
	}
	result.records, result.taken = records, takenStacks(in.Allowed)
	return result, nil
}

func planInput(c *cli.Context, s Streams, spec *specs.Spec) (plan.Input, error) {
	keys, err := targets(c, spec)
	if err != nil {
		return plan.Input{}, err
	}
	allowed, err := consents(c)
	if err != nil {
		return plan.Input{}, err
	}
	in := plan.Input{Targets: keys, Allowed: allowed, ConsumersLeave: c.Duration("wait-consumers") > 0}
	in.Secret = func(value any) (any, bool) {
		resolved, missing := resolveSecrets(value, s)
		return resolved, len(missing) == 0
	}
	if name, ok := replacing(c); ok {
		in.Targets = []topology.Key{{Kind: topology.KindQueue, Name: name}}
		in.Allowed = append(in.Allowed, plan.Consent{Action: "replace", Kind: topology.KindQueue, Name: name})
	}
	return in, nil
}

// showPlan writes the plan to standard output and, in text, the findings to
// standard error.
func showPlan(c *cli.Context, s Streams, result *comparison, o render.Options) error {
	view := render.PlanView{
		Plan: result.plan, Findings: result.findings, Against: result.against, ShowUnmanaged: c.Bool("show-unmanaged"),
	}
	switch o.Format {
	case render.JSON:
		return render.PlanJSON(s.Out, view)
	case render.Text:
		if err := showFindings(s, result.findings, result.spec); err != nil {
			return err
		}
	}
	return render.Plan(s.Out, view, o)
}
