package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/replace"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/plan"
	"github.com/rabbitctl/rabbitctl/specs"
)

func applyCommand(s Streams) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "carry out what plan shows, or refuse",
		ArgsUsage: "SPEC... | PLANFILE",
		UsageText: "rabbitctl apply refunds.yaml            shows the plan and asks\n" +
			"rabbitctl apply --yes specs/            in a pipeline\n" +
			"rabbitctl apply plan.json               exactly the plan that plan --out saved, or nothing",
		Description: "What the spec's stack has made and the spec no longer has is deleted; nothing else is.\n" +
			"Replacements and changes that could lose messages are blocked until they are agreed to with\n" +
			"--allow; while any change is blocked nothing is done, unless --skip-blocked.\n" +
			"Interrupted or failed runs are finished by running apply again.",
		Flags:  joinFlags(runFlags(), selectionFlags(), replaceFlags(), specFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runApply(c, s) },
	}
}

func runApply(c *cli.Context, s Streams) error {
	job, err := newApplyJob(c, s)
	if err != nil {
		return err
	}
	files, findings, err := specs.ReadFiles(c.Args().Slice(), s.In)
	if err != nil {
		return err
	}
	if err := job.connect(); err != nil {
		return err
	}
	if len(files) == 1 && plan.IsPlanFile(files[0].Data) {
		return job.savedPlan(files[0])
	}
	if len(c.Args().Slice()) == 0 {
		return usagef("name a spec (a file, a folder, or -) or a saved plan")
	}
	return job.files(files, findings)
}

// files applies specs whose text is at hand.
func (j *applyJob) files(files []specs.File, findings diag.List) error {
	spec, findings, err := loadFiles(j.c, j.s, files, findings)
	if err != nil {
		return err
	}
	if err := stopOnStructural(j.s, findings, spec); err != nil {
		return err
	}
	allowed, err := consents(j.c)
	if err != nil {
		return err
	}
	stacks := map[string]string{}
	for _, v := range spec.VirtualHosts {
		stacks[v.Name] = v.Stack
	}
	release, err := j.lock(stacks, takenStacks(allowed))
	if err != nil {
		return err
	}
	defer release()
	result, err := planLive(j.c.Context, j.c, j.s, spec, findings, j.client, j.client.BeginWithRecords(j.c.Context))
	if err != nil {
		return err
	}
	result.against = j.against
	return j.spec(result)
}

// applyJob is one run of apply.
type applyJob struct {
	c       *cli.Context
	s       Streams
	o       render.Options
	via     broker.Via
	client  *broker.Client
	against string
	timeout time.Duration
	locks   *runLocks // nil: --no-lock
	// reached is told of the steps of replacements; an error ends the run there.
	reached func(replace.Step) error
}

// newApplyJob reads the flags of a command that changes a broker.
func newApplyJob(c *cli.Context, s Streams) (*applyJob, error) {
	o, err := outputOptions(c, s, s.OutTerminal, render.Formats)
	if err != nil {
		return nil, err
	}
	via, err := parseVia(c.String("via"))
	if err != nil {
		return nil, fail(ExitUsage, err)
	}
	if c.Int("parallel") < 1 {
		return nil, usagef("--parallel must be at least 1")
	}
	if !c.Bool("yes") && !s.InTerminal {
		return nil, fail(ExitUsage, errNoTerminal)
	}
	return &applyJob{c: c, s: s, o: o, via: via}, nil
}

func (j *applyJob) connect() error {
	client, conn, err := connect(j.c, j.s, nil)
	if err != nil {
		return err
	}
	j.client, j.against, j.timeout = client, conn.values["url"], conn.timeout
	return nil
}

// spec applies what a comparison found and verifies it.
func (j *applyJob) spec(result *comparison) error {
	if result.plan == nil || result.blocking() {
		return errors.Join(showFindings(j.s, result.findings, result.spec), exit(ExitFindings))
	}
	if name, ok := replacing(j.c); ok && !replaces(result.plan, name) {
		return errors.Join(j.showPlan(result), nothingToReplace(result.plan, name))
	}
	again := func(ctx context.Context) (*plan.Plan, error) {
		after, err := planLive(ctx, j.c, j.s, result.spec, nil, j.client, j.client.BeginWithRecords(ctx))
		if err != nil {
			return nil, err
		}
		if after.plan == nil {
			return nil, errors.New("the broker's state could not be compared")
		}
		return after.plan, nil
	}
	return j.run(result, again)
}

// savedPlan applies a saved plan if nothing that it touches has moved.
func (j *applyJob) savedPlan(file specs.File) error {
	saved, err := plan.Unmarshal(file.Data)
	if err != nil {
		return fail(ExitFailure, fmt.Errorf("read the saved plan %s: %w", file.Name, err))
	}
	allowed, err := consents(j.c)
	if err != nil {
		return err
	}
	stacks := map[string]string{}
	for _, vhost := range saved.VirtualHosts() {
		stacks[vhost] = saved.Stacks[vhost]
	}
	release, err := j.lock(stacks, takenStacks(allowed))
	if err != nil {
		return err
	}
	defer release()
	records, why, err := readRecords(func() (*ownership.Records, error) { return j.client.Records(j.c.Context) })
	if err != nil {
		return err
	}
	views := owners(saved.Stacks, records, why, takenStacks(allowed))
	state, err := j.client.Read(j.c.Context, saved.VirtualHosts(), withRecorded(optionsOf(saved), views))
	if err != nil {
		return brokerError(err)
	}
	server := plan.Server{Version: state.Version, ClusterName: state.ClusterName, ExchangeTypes: state.ExchangeTypes}
	if elsewhere := plan.Elsewhere(saved, server); elsewhere != "" {
		return fail(ExitBlocked, fmt.Errorf("the saved plan is stale, nothing was changed: %s\nplan again", elsewhere))
	}
	if moved := plan.Moved(saved, state.Topology, views); len(moved) > 0 {
		var b strings.Builder
		for _, m := range moved {
			fmt.Fprintf(&b, "\n  %s", m)
		}
		return fail(ExitBlocked, fmt.Errorf("the saved plan is stale, nothing was changed; since it was made these moved:%s\nplan again", b.String()))
	}
	if j.c.Bool("no-lock") {
		for _, c := range saved.Changes {
			if c.Action == plan.Delete && len(c.Blocked) == 0 {
				return usagef("%s is to be deleted, which needs the lock: leave --no-lock away", c.Key)
			}
		}
		saved.Stacks = nil // nothing is recorded
	}
	again := func(ctx context.Context) (*plan.Plan, error) {
		state, err := j.client.Read(ctx, saved.VirtualHosts(), optionsOf(saved))
		if err != nil {
			return nil, brokerError(err)
		}
		return plan.Remaining(saved, state.Topology, server), nil
	}
	return j.run(&comparison{
		plan: saved, state: state, against: j.against, records: records, taken: takenStacks(allowed),
	}, again)
}

// run asks, carries the plan out, reads back and shows the result.
func (j *applyJob) run(result *comparison, again func(context.Context) (*plan.Plan, error)) error {
	if err := j.showPlan(result); err != nil {
		return err
	}
	skip := j.c.Bool("skip-blocked")
	if blocked := result.plan.BlockedChanges(); len(blocked) > 0 && !skip {
		if err := j.show(&apply.Result{Blocked: apply.BlockedOutcomes(blocked)}, nil); err != nil {
			return err
		}
		return fail(ExitBlocked, fmt.Errorf("%s blocked, nothing was changed; see above for the ways out, or --skip-blocked for the rest",
			text.Plural(len(blocked), "change is", "changes are")))
	}
	if result.plan.Empty() {
		// What an earlier run that was killed left pending is settled here.
		if err := newKeeper(j.client, result).settle(j.c.Context, &apply.Result{}, result.state); err != nil {
			return brokerError(err)
		}
		return j.show(&apply.Result{}, nil)
	}
	if !j.c.Bool("yes") {
		if ok, err := ask(j.s, "Carry this out?"); err != nil || !ok {
			return errors.Join(err, fail(ExitFailure, errors.New("not confirmed, nothing was changed")))
		}
	}
	if err := checkSecrets(result.plan, j.s); err != nil {
		return err
	}
	if err := checkRights(j.c.Context, j.client, result.plan); err != nil {
		return err
	}
	if err := j.stillEmpty(result.plan); err != nil {
		return err
	}
	if err := j.lockLost(); err != nil {
		return fail(ExitBroker, fmt.Errorf("nothing was changed: %w", err))
	}
	keeper := newKeeper(j.client, result)
	beginWriting(j.c.Context)
	writer, err := j.client.Writer(j.c.Context, result.plan.VirtualHosts(), j.via)
	if err != nil {
		return brokerError(err)
	}
	defer writer.Close()
	made, err := j.virtualHosts(writer, result.plan, again)
	if err != nil {
		return err
	}
	if err := keeper.begin(j.c.Context); err != nil {
		if made {
			return fail(ExitPartial, fmt.Errorf("the new virtual hosts are there, nothing else was changed: %w", err))
		}
		return fail(ExitBroker, fmt.Errorf("nothing was changed: %w", err))
	}
	progress := newProgress(j.s)
	objects, hosts := result.plan.WithoutVirtualHosts()
	guarded := guard(secretWriter{writer, j.s}, writer, j.client, result.plan)
	done, err := apply.Run(j.c.Context, objects, newReplacer(j, guarded, writer, result.plan, progress), apply.Options{
		Parallel: j.c.Int("parallel"), SkipBlocked: skip, Observer: progress, Fault: faultOf, Timeout: j.timeout,
	})
	progress.finish()
	if err != nil {
		return err
	}
	ctx, cancel := j.afterwards()
	defer cancel()
	if j.lockLost() != nil {
		// Another run may have begun. What this one leaves recorded as pending is
		// settled by the next.
		return j.verify(done, again)
	}
	j.deleteVirtualHosts(ctx, result.plan, hosts, done)
	if err := keeper.settle(ctx, done, result.state); err != nil {
		return errors.Join(j.show(done, nil), fail(ExitPartial,
			fmt.Errorf("the changes were made, but what the stack owns could not be recorded: %w\nrun apply again", err)))
	}
	if n := len(result.plan.Adopt); n > 0 {
		fmt.Fprintf(j.s.Err, "recorded %s that %s there already\n", text.Plural(n, "object", "objects"), map[bool]string{true: "was", false: "were"}[n == 1])
	}
	return j.verify(done, again)
}

// showPlan shows what is about to be done; a saved plan that nobody is asked
// about was seen before.
func (j *applyJob) showPlan(result *comparison) error {
	switch {
	case j.o.Format != render.Text:
		return nil
	case result.desired == nil && j.c.Bool("yes"):
		_, err := fmt.Fprintln(j.s.Out, render.Summary(render.PlanView{Plan: result.plan, Against: result.against}))
		return err
	}
	return showPlan(j.c, j.s, result, j.o)
}

// readBackGrace bounds the read-back of a run that was interrupted.
const readBackGrace = 30 * time.Second

// afterwards is the context for what has to be done after a run, even one that was
// interrupted.
func (j *applyJob) afterwards() (context.Context, context.CancelFunc) {
	if j.c.Context.Err() == nil {
		return context.WithCancel(j.c.Context)
	}
	return context.WithTimeout(context.WithoutCancel(j.c.Context), readBackGrace)
}

// verify reads the broker again: what is done must be there, and nothing else
// may be left to do.
func (j *applyJob) verify(done *apply.Result, again func(context.Context) (*plan.Plan, error)) error {
	ctx, cancel := j.afterwards()
	defer cancel()
	rest, err := again(ctx)
	if err != nil {
		return errors.Join(j.show(done, nil), fail(ExitPartial, fmt.Errorf("read back: %w", err)))
	}
	differences := apply.Verify(done, rest)
	if err := j.show(done, differences); err != nil {
		return err
	}
	switch lost := j.lockLost(); {
	case lost != nil:
		return fail(ExitPartial, fmt.Errorf("stopped, what was begun is finished: %w\nanother run may be under way; run it again to finish the rest", lost))
	case j.c.Context.Err() != nil:
		return fail(ExitPartial, errors.New("interrupted; run apply again to finish the rest"))
	case done.Status() == apply.NothingChanged:
		return fail(ExitBroker, errors.New("the broker refused; nothing was changed"))
	case done.Status() == apply.Partial:
		return fail(ExitPartial, errors.New("not everything was done; run apply again when the cause is mended"))
	case len(differences) > 0:
		return fail(ExitPartial, errors.New("the broker does not show what was applied"))
	case done.Status() == apply.BlockedLeft:
		return exit(ExitBlocked)
	}
	return nil
}

func (j *applyJob) show(done *apply.Result, differences []*plan.Change) error {
	return render.Result(j.s.Out, done, differences, j.o)
}

// ask puts a question on a terminal; only y and yes agree.
func ask(s Streams, question string) (bool, error) {
	if !s.InTerminal {
		return false, fail(ExitUsage, errNoTerminal)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

// faultOf tells apply what kind of fault an error of the broker is.
func faultOf(err error) apply.Fault {
	return apply.Fault{Unknown: broker.IsUnknown(err), Transient: broker.IsTransient(err), NotFound: broker.IsNotFound(err)}
}

// parseVia reads --via.
func parseVia(s string) (broker.Via, error) {
	switch via := broker.Via(s); via {
	case broker.ViaAuto, broker.ViaAMQP, broker.ViaHTTP:
		return via, nil
	}
	return "", fmt.Errorf("--via must be auto, amqp or http, not %q", s)
}
