package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// defaultLockTimeout is how long a run waits for another to finish.
const defaultLockTimeout = time.Minute

func lockFlags() []cli.Flag {
	return []cli.Flag{
		&cli.DurationFlag{Name: "lock-timeout", Usage: "wait `DURATION` while another run changes the same stack", Value: defaultLockTimeout},
		&cli.BoolFlag{Name: "no-lock", Usage: "do not keep other runs out; only when nothing else changes the stack meanwhile"},
	}
}

// errLockLost is the cause that stops a run whose lock is gone: another may have
// begun.
var errLockLost = errors.New("the lock was lost")

// runLocks are the locks that a run holds, by virtual host.
type runLocks struct {
	job    *applyJob
	stacks map[string][]string // to be locked, by virtual host
	held   map[string][]*heldLock
	stop   context.CancelCauseFunc
}

type heldLock struct {
	*broker.Lock
	expected atomic.Bool // its virtual host is about to be deleted
}

// lock takes the locks of a run, one virtual host after the other in the order of
// their names, so that two runs never wait for each other. It comes before the
// reading on which the plan rests. From then on the job's context ends when one is
// lost. release gives them back.
func (j *applyJob) lock(stacks map[string]string, taken []string) (release func(), err error) {
	if j.c.Duration("lock-timeout") < 0 {
		return nil, usagef("--lock-timeout must not be negative")
	}
	if j.c.Bool("no-lock") {
		return func() {}, nil
	}
	l := &runLocks{job: j, stacks: map[string][]string{}, held: map[string][]*heldLock{}}
	for vhost, stack := range stacks {
		// Another stack's record is changed when it is taken over.
		names := append([]string{stack}, taken...)
		slices.Sort(names)
		l.stacks[vhost] = slices.Compact(names)
	}
	before := j.c.Context
	ctx, stop := context.WithCancelCause(before)
	l.stop = stop
	release = func() {
		for _, vhost := range slices.Backward(slices.Sorted(maps.Keys(l.held))) {
			for _, one := range l.held[vhost] {
				one.expected.Store(true)
				one.Close()
			}
		}
		stop(nil)
		j.c.Context = before
	}
	for _, vhost := range slices.Sorted(maps.Keys(l.stacks)) {
		err := l.take(ctx, vhost)
		if broker.IsNotFound(err) {
			continue // it may be made by this run: see virtualHosts
		}
		if err != nil {
			release()
			return nil, lockError(err)
		}
	}
	j.c.Context, j.locks = ctx, l
	return release, nil
}

// take takes the locks of one virtual host.
func (l *runLocks) take(ctx context.Context, vhost string) error {
	j := l.job
	for _, stack := range l.stacks[vhost] {
		got, err := j.client.Lock(ctx, vhost, stack, broker.LockOptions{
			Wait: j.c.Duration("lock-timeout"),
			OnWait: func(holder string) {
				if holder == "" {
					holder = "another run"
				}
				fmt.Fprintf(j.s.Err, "waiting for the lock %q in virtual host %q, held by %s\n", topology.LockPrefix+stack, vhost, text.Line(holder))
			},
		})
		if err != nil {
			return err
		}
		one := &heldLock{Lock: got}
		l.held[vhost] = append(l.held[vhost], one)
		go func() {
			select {
			case err := <-one.Lost():
				if !one.expected.Load() {
					l.stop(fmt.Errorf("%w: %w", errLockLost, err))
				}
			case <-ctx.Done():
			}
		}()
	}
	return nil
}

// leave says that the virtual host is about to be deleted, and the lock with it.
func (l *runLocks) leave(vhost string) {
	if l == nil {
		return
	}
	for _, one := range l.held[vhost] {
		one.expected.Store(true)
	}
}

// lockError is why a run did not begin.
func lockError(err error) error {
	var held *broker.LockedError
	switch {
	case errors.As(err, &held):
		return fail(ExitBlocked, fmt.Errorf("nothing was changed: %w\nwait for it, or give it more time with --lock-timeout", err))
	case broker.IsUnreachable(err):
		return fail(ExitBroker, fmt.Errorf("nothing was changed: %w\nthe lock that keeps other runs out needs AMQP (--amqp-url); --no-lock goes on without, when nothing else changes this stack meanwhile", err))
	case broker.IsAuth(err) && !broker.IsLoginFailed(err):
		return fail(ExitBroker, fmt.Errorf("nothing was changed: %w\ngive the user the right, or use --no-lock when nothing else changes this stack meanwhile", err))
	}
	return brokerError(err)
}

// lockLost reports whether the run stopped because its lock is gone.
func (j *applyJob) lockLost() error {
	if err := context.Cause(j.c.Context); errors.Is(err, errLockLost) {
		return err
	}
	return nil
}

// virtualHosts makes the virtual hosts that the plan makes, since a lock can only be
// had in one that is there, takes their locks, and sees whether what was agreed to
// is still what is to be done. some says that it made any.
func (j *applyJob) virtualHosts(writer broker.Writer, p *plan.Plan, again func(context.Context) (*plan.Plan, error)) (some bool, err error) {
	var made []*plan.Change
	for _, c := range p.Changes {
		if c.Key.Kind == topology.KindVirtualHost && c.Action == plan.Create && len(c.Blocked) == 0 {
			made = append(made, c)
		}
	}
	if len(made) == 0 || j.locks == nil {
		return false, nil
	}
	slices.SortFunc(made, func(a, b *plan.Change) int { return cmp.Compare(a.Key.VirtualHost, b.Key.VirtualHost) })
	for i, c := range made {
		if err := writer.Create(j.c.Context, c.After); err != nil {
			if i == 0 {
				return false, fail(ExitBroker, fmt.Errorf("nothing was changed: %w", err))
			}
			return true, fail(ExitPartial, err)
		}
		if err := j.locks.take(j.c.Context, c.Key.VirtualHost); err != nil {
			status := ExitPartial
			if errors.As(err, new(*broker.LockedError)) {
				status = ExitBlocked
			}
			return true, fail(status, fmt.Errorf("%s was made, nothing else: %w", c.Key, err))
		}
	}
	now, err := again(j.c.Context)
	if err != nil {
		return true, fail(ExitPartial, fmt.Errorf("the new virtual hosts are there, nothing else was changed: %w", err))
	}
	if key, same := sameChanges(p, now); !same {
		return true, fail(ExitBlocked, fmt.Errorf("the plan is stale: %s was changed by somebody else since it was made; the new virtual hosts are there, nothing else was changed\nrun it again", key))
	}
	return true, nil
}

// sameChanges compares what two plans do to which object, but for virtual hosts and
// for permissions, which the broker gives to whoever makes a virtual host. key is
// the first object about which they differ.
func sameChanges(a, b *plan.Plan) (key topology.Key, same bool) {
	actions := func(p *plan.Plan) map[topology.Key]plan.Action {
		m := map[topology.Key]plan.Action{}
		for _, c := range p.Changes {
			if c.Key.Kind != topology.KindVirtualHost && c.Key.Kind != topology.KindPermission {
				m[c.Key] = c.Action
			}
		}
		return m
	}
	before, now := actions(a), actions(b)
	keys := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now)))
	slices.SortFunc(keys, func(a, b topology.Key) int { return cmp.Compare(a.String(), b.String()) })
	for _, k := range keys {
		if before[k] != now[k] {
			return k, false
		}
	}
	return topology.Key{}, true
}
