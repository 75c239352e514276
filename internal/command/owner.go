package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rabbitctl/rabbitctl/apply"
	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/plan"
)

// readRecords reads what stacks have recorded; why says why it must not be read.
// Everything but deletion works without.
func readRecords(read func() (*ownership.Records, error)) (records *ownership.Records, why string, err error) {
	records, err = read()
	switch {
	case broker.IsAuth(err) && !broker.IsLoginFailed(err):
		return nil, "this user must not read and write the record of what the stack owns, which needs the tag policymaker or administrator", nil
	case err != nil:
		return nil, "", brokerError(err)
	}
	return records, "", nil
}

// owners is what the records say to the stacks, by virtual host.
func owners(stacks map[string]string, records *ownership.Records, why string, taken []string) map[string]*ownership.View {
	views := make(map[string]*ownership.View, len(stacks))
	for vhost, stack := range stacks {
		if records == nil {
			views[vhost] = ownership.Unavailable(stack, why)
		} else {
			views[vhost] = records.View(stack, vhost, taken)
		}
	}
	return views
}

// withoutLock has nothing recorded or deleted: only under the lock it is known what a
// run makes itself.
func withoutLock(views map[string]*ownership.View) {
	for _, v := range views {
		if v.Stack != "" && v.Why == "" {
			v.Why = "that needs the lock, and --no-lock does without"
		}
	}
}

// recordFindings are about records that somebody has edited: they are left as they
// are, and nothing that they may speak of is deleted.
func recordFindings(stacks map[string]string, records *ownership.Records) diag.List {
	var list diag.List
	if records == nil {
		return nil
	}
	for _, vhost := range slices.Sorted(maps.Keys(stacks)) {
		broken := records.BrokenHere(vhost)
		for _, name := range slices.Sorted(maps.Keys(broken)) {
			list.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: "ownership-record-unreadable",
				Summary: fmt.Sprintf("the global parameter %q, in which a stack records what it owns in virtual host %q, cannot be read: %v", name, vhost, broken[name]),
				Detail:  "It is left as it is, and its stack deletes nothing. Mend it, or delete it: then nothing counts as that stack's until it is adopted again.",
				Object:  topology.Key{Kind: topology.KindVirtualHost, VirtualHost: vhost},
			})
		}
	}
	return list
}

// withRecorded reads what is recorded too: what cannot be seen is neither deleted
// nor forgotten.
func withRecorded(o broker.ReadOptions, owners map[string]*ownership.View) broker.ReadOptions {
	for _, v := range owners {
		for k := range v.Ours {
			o = withKind(o, k.Kind)
		}
	}
	return o
}

// optionsOf reads what a saved plan is about: what is not read looks as if it had
// gone.
func optionsOf(p *plan.Plan) broker.ReadOptions {
	var o broker.ReadOptions
	for _, c := range p.Changes {
		o = withKind(o, c.Key.Kind)
		if s, ok := c.After.(*topology.VirtualHostSettings); ok && s.Limits != nil {
			o.Limits = true
		}
	}
	for _, k := range p.Adopt {
		o = withKind(o, k.Kind)
	}
	return o
}

func withKind(o broker.ReadOptions, k topology.Kind) broker.ReadOptions {
	switch k {
	case topology.KindParameter:
		o.Parameters = true
	case topology.KindPermission, topology.KindTopicPermission:
		o.Permissions = true
	}
	return o
}

// keeper keeps the records of the stacks of one run. The lock of a stack is held
// while it lives, so that what was read is still so when it is written.
type keeper struct {
	client  *broker.Client
	records *ownership.Records
	plan    *plan.Plan
	taken   []string
	now     map[string]*ownership.Record // by virtual host
}

func newKeeper(client *broker.Client, result *comparison) *keeper {
	r := &keeper{client: client, records: result.records, plan: result.plan, taken: result.taken, now: map[string]*ownership.Record{}}
	if r.records == nil {
		return r
	}
	for vhost, stack := range result.plan.Stacks {
		r.now[vhost] = r.records.Of(stack, vhost)
	}
	return r
}

// vhosts are those with a record to keep, sorted.
func (r *keeper) vhosts() []string { return slices.Sorted(maps.Keys(r.now)) }

// begin records as pending what is about to be created, before anything is: a run
// that is killed leaves nothing that nobody owns. What is taken over from another
// stack is recorded too, and only then taken out of the other's record.
func (r *keeper) begin(ctx context.Context) error {
	for _, vhost := range r.vhosts() {
		stack := r.plan.Stacks[vhost]
		var c ownership.Changes
		for _, change := range r.plan.Changes {
			if change.Action == plan.Create && len(change.Blocked) == 0 && change.Key.VirtualHost == vhost {
				c.Pending = append(c.Pending, change.Key)
			}
		}
		var taken []*ownership.Record
		for _, name := range r.taken {
			if one := r.records.Of(name, vhost); one != nil && name != stack {
				taken = append(taken, one)
				for k, s := range one.Objects {
					if s == ownership.Owned {
						c.Owned = append(c.Owned, k)
					} else {
						c.Pending = append(c.Pending, k)
					}
				}
			}
		}
		if err := r.write(ctx, vhost, c); err != nil {
			return err
		}
		for _, one := range taken {
			if err := r.client.DeleteRecord(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle records what became of the run; state is what was there before it.
func (r *keeper) settle(ctx context.Context, done *apply.Result, state *broker.State) error {
	changes := map[string]*ownership.Changes{}
	for _, vhost := range r.vhosts() {
		changes[vhost] = &ownership.Changes{}
	}
	for _, o := range done.Done {
		if c := changes[o.Change.Key.VirtualHost]; c != nil {
			if o.Change.Action == plan.Delete {
				c.Gone = append(c.Gone, o.Change.Key)
			} else {
				c.Owned = append(c.Owned, o.Change.Key)
			}
		}
	}
	for _, o := range slices.Concat(done.Failed, done.NotTried) {
		// One that may have been made stays pending.
		if c := changes[o.Change.Key.VirtualHost]; c != nil && o.Change.Action == plan.Create && !o.Unknown {
			c.Gone = append(c.Gone, o.Change.Key)
		}
	}
	adopted := slices.Clone(r.plan.Adopt)
	for _, o := range done.Done {
		if o.Change.Action == plan.Update || o.Change.Action == plan.Replace {
			adopted = append(adopted, o.Change.Key)
		}
	}
	for _, k := range r.plan.Adopt {
		if c := changes[k.VirtualHost]; c != nil {
			c.Owned = append(c.Owned, k)
		}
	}
	for _, vhost := range r.vhosts() {
		r.review(vhost, changes[vhost], state)
		if err := r.takeFromOthers(ctx, vhost, adopted); err != nil {
			return err
		}
		if err := r.write(ctx, vhost, *changes[vhost]); err != nil {
			return err
		}
	}
	return nil
}

// review finds what an earlier run left pending and what was gone before this one
// began.
func (r *keeper) review(vhost string, c *ownership.Changes, state *broker.State) {
	if r.now[vhost] == nil || state == nil {
		return
	}
	touched := map[topology.Key]bool{}
	changed := false
	for _, change := range r.plan.Changes {
		touched[change.Key] = true
		changed = changed || change.Key.VirtualHost == vhost
	}
	if slices.Contains(state.Missing, vhost) {
		if !changed { // it is being destroyed, and gone already
			c.Gone = slices.AppendSeq(c.Gone, maps.Keys(r.now[vhost].Objects))
		}
		return
	}
	v := state.Topology.VirtualHost(vhost)
	if v == nil {
		return // it was not read
	}
	there := map[topology.Key]bool{}
	for _, o := range v.Objects() {
		there[o.Key()] = true
	}
	for k, s := range r.now[vhost].Objects {
		_, unknown := state.Unknown[k.Kind]
		switch {
		case touched[k] || unknown && k.Kind != topology.KindVirtualHost:
		case there[k] && s == ownership.Pending:
			c.Owned = append(c.Owned, k)
		case !there[k] && k.Kind != topology.KindVirtualHost:
			c.Gone = append(c.Gone, k)
		}
	}
}

// takeFromOthers takes what was adopted out of the records of other stacks, before
// it is in ours: killed in between, it is nobody's.
func (r *keeper) takeFromOthers(ctx context.Context, vhost string, keys []topology.Key) error {
	view := r.records.View(r.plan.Stacks[vhost], vhost, r.taken)
	byStack := map[string][]topology.Key{}
	for _, k := range keys {
		if other := view.Others[k]; other != "" && k.VirtualHost == vhost {
			byStack[other] = append(byStack[other], k)
		}
	}
	if len(byStack) == 0 {
		return nil
	}
	fresh, err := r.client.Records(ctx)
	if err != nil {
		return err
	}
	for _, other := range slices.Sorted(maps.Keys(byStack)) {
		if one := fresh.Of(other, vhost); one != nil {
			if err := r.put(ctx, one, one.With(ownership.Changes{Gone: byStack[other]})); err != nil {
				return err
			}
		}
	}
	return nil
}

// write changes the record of a virtual host.
func (r *keeper) write(ctx context.Context, vhost string, c ownership.Changes) error {
	was := r.now[vhost]
	record := cmp.Or(was, &ownership.Record{Stack: r.plan.Stacks[vhost], VirtualHost: vhost}).With(c)
	record.Digest, record.Time = r.plan.SpecDigest(), time.Now()
	if ownership.SameObjects(was, record) {
		return nil
	}
	if err := r.put(ctx, was, record); err != nil {
		return err
	}
	r.now[vhost] = record
	return nil
}

// put writes a record that has changed, or deletes it when nothing is left.
func (r *keeper) put(ctx context.Context, was, record *ownership.Record) error {
	if len(record.Objects) == 0 && was != nil {
		return r.client.DeleteRecord(ctx, record)
	}
	return r.client.PutRecord(ctx, record)
}
