package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/render"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

func destroyCommand(s Streams) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "vhost", Usage: "only what the stack owns in the virtual host `NAME`"},
		&cli.StringSliceFlag{Name: "allow", Usage: "agree to `ACTION=KIND/NAME`, such as delete=queue/old; may be repeated"},
	}
	return &cli.Command{
		Name:      "destroy",
		Usage:     "delete everything that a stack has made",
		ArgsUsage: "STACK",
		UsageText: "rabbitctl destroy refunds                shows what goes and asks\n" +
			"rabbitctl destroy --yes --vhost test refunds",
		Description: "Deletes what is recorded as the stack's, with the same rules as apply: queues only when they\n" +
			"are proved empty and unused, nothing of others, no route that anything else still needs. A\n" +
			"virtual host that the stack made goes when nothing else is in it.",
		Flags:  joinFlags(flags, runFlags(), connectionFlags()),
		Action: func(c *cli.Context) error { return runDestroy(c, s) },
	}
}

func runDestroy(c *cli.Context, s Streams) error {
	stack, err := one(c, "the stack to destroy")
	if err != nil {
		return err
	}
	if !ownership.StackName.MatchString(stack) {
		return usagef("%q is not the name of a stack: 1 to 60 of the characters a-z 0-9 . _ -", stack)
	}
	if c.Bool("no-lock") {
		return usagef("destroy needs the lock: leave --no-lock away")
	}
	job, err := newApplyJob(c, s)
	if err != nil {
		return err
	}
	if err := job.connect(); err != nil {
		return err
	}
	d := &destroyJob{applyJob: job, stack: stack}
	if d.allowed, err = consents(c); err != nil {
		return err
	}
	release, err := d.lockAll()
	if err != nil {
		return err
	}
	defer release()
	result, err := d.compare(c.Context)
	if err != nil {
		return err
	}
	again := func(ctx context.Context) (*plan.Plan, error) {
		after, err := d.compare(ctx)
		if err != nil {
			return nil, err
		}
		return after.plan, nil
	}
	return job.run(result, again)
}

// destroyJob is one run of destroy.
type destroyJob struct {
	*applyJob
	stack   string
	allowed []plan.Consent
}

// lockAll locks the stack wherever it has recorded anything.
func (d *destroyJob) lockAll() (release func(), err error) {
	records, _, err := readRecords(func() (*ownership.Records, error) { return d.client.Records(d.c.Context) })
	if err != nil {
		return nil, err
	}
	stacks := map[string]string{}
	if records != nil { // compare says what is wrong
		own, _ := records.Stack(d.stack)
		for _, r := range own {
			if d.inside(r.VirtualHost) {
				stacks[r.VirtualHost] = d.stack
			}
		}
	}
	return d.lock(stacks, nil)
}

// inside applies --vhost.
func (d *destroyJob) inside(vhost string) bool {
	return !d.c.IsSet("vhost") || d.c.String("vhost") == vhost
}

// compare computes what is to be deleted, from what is recorded and what is there.
func (d *destroyJob) compare(ctx context.Context) (*comparison, error) {
	records, why, err := readRecords(func() (*ownership.Records, error) { return d.client.Records(ctx) })
	if err != nil {
		return nil, err
	}
	if records == nil {
		return nil, fail(ExitBroker, errors.New(why))
	}
	own, broken := records.Stack(d.stack)
	if len(broken) > 0 {
		return nil, fail(ExitBlocked, fmt.Errorf("nothing was changed: what stack %q owns cannot be read from the global parameter %q; mend it, or delete it", d.stack, broken[0]))
	}
	stacks, names := map[string]string{}, []string{}
	for _, r := range own {
		if d.inside(r.VirtualHost) {
			stacks[r.VirtualHost] = d.stack
			names = append(names, r.VirtualHost)
		}
	}
	views := owners(stacks, records, why, nil)
	state, err := d.client.Read(ctx, names, broker.ReadOptions{Parameters: true, Permissions: true})
	if err != nil {
		return nil, brokerError(err)
	}
	user, err := d.client.Whoami(ctx)
	if err != nil {
		return nil, brokerError(err)
	}
	in := plan.Input{
		Desired: &topology.Topology{}, Live: state.Topology, Owners: views, Allowed: d.allowed, Destroy: true, User: user.Name,
		Server: plan.Server{Version: state.Version, ClusterName: state.ClusterName, ExchangeTypes: state.ExchangeTypes},
	}
	for _, v := range state.Topology.VirtualHosts { // what is in one that is gone is gone too
		in.Desired.VirtualHosts = append(in.Desired.VirtualHosts, &topology.VirtualHost{Name: v.Name, Stack: d.stack})
	}
	p, findings, err := planCounted(ctx, in, d.client)
	if err != nil {
		return nil, err
	}
	for _, name := range state.Missing {
		if user.SeesAllVirtualHosts() {
			p.Stacks[name] = d.stack
		}
	}
	return &comparison{desired: in.Desired, state: state, plan: p, findings: findings, against: d.against, records: records}, nil
}

// deleteVirtualHosts deletes the virtual hosts of a plan that are empty by now. It
// is asked for each right before, since all that is in one goes with it.
func (j *applyJob) deleteVirtualHosts(ctx context.Context, p *plan.Plan, changes []*plan.Change, done *apply.Result) {
	for _, c := range changes {
		o := apply.Outcome{Change: c, Attempts: 1}
		switch err := j.deleteVirtualHost(ctx, c, p.Stacks[c.Key.VirtualHost], done); {
		case errors.Is(err, errNotReached):
			o.Err, o.Attempts = err, 0
			done.NotTried = append(done.NotTried, o)
		case err != nil:
			o.Err = err
			done.Failed = append(done.Failed, o)
		default:
			done.Done, done.FirstWrite = append(done.Done, o), true
		}
	}
}

var errNotReached = errors.New("not everything in it is deleted")

func (j *applyJob) deleteVirtualHost(ctx context.Context, c *plan.Change, stack string, done *apply.Result) error {
	undone := slices.Concat(done.Failed, done.NotTried, done.Blocked)
	if slices.ContainsFunc(undone, func(o apply.Outcome) bool { return o.Change.Key.VirtualHost == c.Key.VirtualHost }) {
		return errNotReached
	}
	left, err := j.client.Contents(ctx, c.Key.VirtualHost, stack)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("it is not empty: %s is in it", left[0])
	}
	j.locks.leave(c.Key.VirtualHost)
	return j.client.DeleteVirtualHost(ctx, c.Key.VirtualHost)
}

// runFlags are the flags of commands that change a broker.
func runFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
		&cli.BoolFlag{Name: "skip-blocked", Usage: "carry out the rest when some changes are blocked"},
		&cli.StringFlag{Name: "via", Usage: "declare over `PROTOCOL`: amqp, http, or auto (AMQP when it can be reached)", Value: "auto"},
		&cli.IntFlag{Name: "parallel", Usage: "`N` changes at once", Value: 16},
		&cli.BoolFlag{Name: "show-unmanaged", Usage: "list live objects that the spec does not name"},
		formatFlag(render.Formats),
	}, lockFlags()...)
}
