package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

func checkCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.DurationFlag{Name: "wait", Usage: "try again for up to `DURATION` until everything is there", DefaultText: "look once"},
		&cli.StringSliceFlag{Name: "queue", Usage: "only the queue `NAME` and what it needs; may be repeated"},
		&cli.BoolFlag{Name: "amqp-only", Usage: "existence only, over AMQP with passive declares; the default when only an AMQP URL is given"},
		formatFlag(render.Formats),
	}
	return &cli.Command{
		Name:      "check",
		Usage:     "is everything there and as declared? for start-up and pipelines",
		ArgsUsage: "SPEC...",
		UsageText: "rabbitctl check refunds.yaml\n" +
			"rabbitctl check --wait 60s --queue payouts refunds.yaml     in an init container\n" +
			"rabbitctl check --amqp-url amqp://app@mq/ refunds.yaml      existence only, no management API",
		Description: "Exits with 0 when everything is as declared, 2 when something is missing or different\n" +
			"(also after --wait), 5 when the broker cannot be asked. With --amqp-only, and when an AMQP\n" +
			"URL is given and no management URL, it looks only whether the queues and exchanges exist.",
		Flags:  joinFlags(flags, specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runCheck(c, s) },
	}
}

// checkInterval is the pause between two looks of --wait.
const checkInterval = time.Second

func runCheck(c *cli.Context, s Streams) error {
	o, err := outputOptions(c, s, s.OutTerminal, render.Formats)
	if err != nil {
		return err
	}
	spec, findings, err := loadSpec(c, s, c.Args().Slice())
	if err != nil {
		return err
	}
	if err := stopOnStructural(s, findings, spec); err != nil {
		return err
	}
	passive := func(conn *connection) bool { return c.Bool("amqp-only") || conn.amqpOnly() }
	client, conn, err := connect(c, s, passive)
	if err != nil {
		return err
	}
	look := func(ctx context.Context) (*checkResult, error) { return checkManaged(ctx, c, spec, client) }
	if passive(conn) {
		look = func(ctx context.Context) (*checkResult, error) { return checkPassive(ctx, c, spec, client) }
	}
	result, err := lookUntil(c.Context, c.Duration("wait"), look)
	if err != nil {
		return err
	}
	if err := showFindings(s, result.findings, spec); err != nil {
		return err
	}
	if result.findings.HasStructural() {
		return exit(ExitFindings)
	}
	if err := render.Check(s.Out, render.CheckView{Checked: result.checked, ExistenceOnly: result.passive, Problems: result.problems}, o); err != nil {
		return err
	}
	if len(result.problems) > 0 {
		return exit(ExitPending)
	}
	return nil
}

// checkResult is what one look found.
type checkResult struct {
	checked  int  // how many objects were looked at
	passive  bool // for existence only
	problems []render.Problem
	findings diag.List
}

// lookUntil looks again until nothing is wrong or the time is over. Errors are
// waited out too: a broker that is starting refuses connections.
func lookUntil(ctx context.Context, wait time.Duration, look func(context.Context) (*checkResult, error)) (*checkResult, error) {
	end := time.Now().Add(wait)
	for {
		result, err := look(ctx)
		good := err == nil && (len(result.problems) == 0 || result.findings.HasStructural())
		if good || ctx.Err() != nil || time.Now().Add(checkInterval).After(end) {
			return result, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(checkInterval):
		}
	}
}

// checkManaged compares existence and every field through the management API.
func checkManaged(ctx context.Context, c *cli.Context, spec *specs.Spec, client *broker.Client) (*checkResult, error) {
	in := plan.Input{Targets: queueTargets(c)}
	// A look needs no message counts, hence no client: it only compares.
	result, err := compare(ctx, spec, nil, fromBroker(client, client.Begin(ctx), nil), in, nil)
	if err != nil {
		return nil, err
	}
	out := &checkResult{}
	for _, d := range result.findings {
		if d.Structural {
			out.findings.Add(d)
		}
	}
	if result.plan == nil {
		return out, nil
	}
	for _, v := range result.desired.VirtualHosts {
		out.checked += len(v.Objects())
	}
	for _, ch := range result.plan.Changes {
		out.problems = append(out.problems, render.ProblemOf(ch))
	}
	out.problems = append(out.problems, overruled(result.findings, in.Targets)...)
	return out, nil
}

// overruled are objects that need no change and are still not as declared: what
// others do wins over them, or they are others' and differ.
func overruled(findings diag.List, targets []topology.Key) []render.Problem {
	var problems []render.Problem
	for _, d := range findings {
		if !slices.Contains([]string{"effective-value", "foreign-policy-wins", "generated-policy-left", "external-differs"}, d.Code) {
			continue
		}
		anywhere := topology.Key{Kind: d.Object.Kind, Name: d.Object.Name}
		if len(targets) > 0 && !slices.Contains(targets, anywhere) {
			continue
		}
		if i := slices.IndexFunc(problems, func(p render.Problem) bool { return p.Object == d.Object }); i >= 0 {
			problems[i].Text += "; " + d.Summary
			continue
		}
		problems = append(problems, render.Problem{Object: d.Object, What: "different", Text: d.Summary})
	}
	return problems
}

// checkPassive looks for existence over AMQP only.
func checkPassive(ctx context.Context, c *cli.Context, spec *specs.Spec, client *broker.Client) (*checkResult, error) {
	desired, findings := spec.Expand(specs.Target{})
	if findings.HasStructural() {
		return &checkResult{findings: findings}, nil
	}
	only, findings := neededBy(desired, queueTargets(c))
	if findings.HasStructural() {
		return &checkResult{findings: findings}, nil
	}
	out := &checkResult{passive: true}
	for _, v := range desired.VirtualHosts {
		var objects []topology.Object
		for _, o := range v.Objects() {
			kind := o.Key().Kind
			if (kind == topology.KindQueue || kind == topology.KindExchange) && only[o.Key()] {
				objects = append(objects, o)
			}
		}
		missing, err := client.Passive(ctx, v.Name, objects)
		if err != nil {
			return nil, brokerError(err)
		}
		out.checked += len(objects)
		for _, k := range missing {
			out.problems = append(out.problems, render.Problem{Object: k, What: "missing"})
		}
	}
	return out, nil
}

// neededBy are the objects that the targets need, themselves among them, and all
// without targets.
func neededBy(desired *topology.Topology, targets []topology.Key) (map[topology.Key]bool, diag.List) {
	nothing := &topology.Topology{}
	for _, v := range desired.VirtualHosts {
		nothing.VirtualHosts = append(nothing.VirtualHosts, &topology.VirtualHost{Name: v.Name})
	}
	p, findings := plan.Compute(plan.Input{Desired: desired, Live: nothing, Targets: targets, Offline: true})
	needed := map[topology.Key]bool{}
	for _, ch := range p.Changes {
		needed[ch.Key] = true
	}
	return needed, findings
}

func queueTargets(c *cli.Context) []topology.Key {
	var keys []topology.Key
	for _, name := range c.StringSlice("queue") {
		keys = append(keys, topology.Key{Kind: topology.KindQueue, Name: name}) // in whichever virtual host
	}
	return keys
}

// brokerError gives an error of the broker the exit status that it stands for:
// before the first write everything that keeps us from the broker is 5.
func brokerError(err error) error {
	if errors.Is(err, context.Canceled) {
		return fail(ExitFailure, fmt.Errorf("interrupted, nothing was changed: %w", err))
	}
	return fail(ExitBroker, err)
}
