package plan

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/ownership"
	"github.com/rabbitctl/rabbitctl/internal/policy"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// Compute says what has to change so that the live topology becomes the desired
// one. Equal input gives an equal plan, whatever the order of its objects. The
// findings are about the live state: objects that differ and must not be changed,
// policies that cannot be read, unknown targets. What must not be done stands in
// the plan as a blocked change.
//
// What would need a replacement is blocked. Deleted is what is recorded as the
// stack's and left the spec, after everything else is done; all other objects that
// the spec does not name are listed as unmanaged.
func Compute(in Input) (*Plan, diag.List) {
	c := &computation{in: in, version: in.Server.Version, changes: map[topology.Key]*Change{}, wants: map[topology.Key]bool{}}
	c.plan = &Plan{Server: in.Server, Digest: in.Digest, Routes: map[string][]string{}, Fingerprints: map[string]string{}, Stacks: map[string]string{}}
	if c.version.IsZero() {
		c.version = catalog.Newest
		c.findings.Add(diag.Diagnostic{
			Severity: diag.Info, Code: "version-unknown",
			Summary: fmt.Sprintf("the RabbitMQ version of the live side is unknown; the plan takes it for %s", c.version),
			Detail:  "with --against, say it with --rabbitmq",
		})
	}
	if in.Desired != nil {
		for _, d := range in.Desired.VirtualHosts {
			c.hosts = append(c.hosts, newHost(d, in.Live, c.version, in.Owners[d.Name]))
		}
	}
	slices.SortStableFunc(c.hosts, func(a, b *host) int { return strings.Compare(a.name, b.name) })
	for _, h := range c.hosts {
		c.compare(h)
	}
	c.wanted = c.targets()
	g := c.dependencies()
	c.restrict(g, g.order())
	for _, h := range c.hosts {
		c.addDeletes(h)
		c.judge(h)
		c.judgeOwners(h)
		c.orderDeletes(h)
	}
	c.finish()
	return c.plan, c.findings
}

// computation is the work on one plan.
type computation struct {
	in       Input
	version  catalog.Version
	hosts    []*host
	plan     *Plan
	changes  map[topology.Key]*Change
	findings diag.List
	wants    map[topology.Key]bool
	wanted   map[topology.Key]bool // see targets; nil: everything
}

// host is one virtual host, desired and live in one form.
type host struct {
	name    string
	missing bool // it does not exist on the broker
	desired *topology.VirtualHost
	live    *topology.VirtualHost // empty when missing

	want, have *topology.Index
	// managed are the keys that the spec names.
	managed map[topology.Key]bool
	// before and after match the live policies, and those that there will be; then
	// those that there are when all is done but the deletes.
	before, then, after *policy.Set
	// owner is what is recorded of who owns what; nil: nothing is known.
	owner *ownership.View
	// objects are the live objects by key; leaving are those that are to be deleted.
	objects map[topology.Key]topology.Object
	leaving map[topology.Key]*Change
	// generated are the desired policies that belong to one queue, by its name.
	generated map[string]*topology.Policy
	sources   map[string][]string // see deadLettersTo
}

func newHost(d *topology.VirtualHost, live *topology.Topology, v catalog.Version, owner *ownership.View) *host {
	h := &host{name: d.Name, owner: owner, leaving: map[topology.Key]*Change{}, managed: map[topology.Key]bool{}, generated: map[string]*topology.Policy{}}
	if live != nil {
		h.live = live.VirtualHost(d.Name)
	}
	if h.live == nil {
		h.missing = true
		h.live = &topology.VirtualHost{Name: d.Name}
	}
	h.live = normalLive(h.live)
	h.desired = normalDesired(d, h.live, v)
	h.want, h.have = h.desired.Index(), h.live.Index()
	h.before = policy.New(v, h.live.Policies, h.live.OperatorPolicies)
	for _, p := range h.desired.Policies {
		if p.Queue != "" {
			h.generated[p.Queue] = p
		}
	}
	return h
}

// setAfter prepares the policies that there will be once the changes for which
// use is true are made.
func (c *computation) setAfter(h *host, use func(*Change) bool) {
	merge := func(live, desired []*topology.Policy) []*topology.Policy {
		all := slices.Clone(live)
		at := make(map[string]int, len(all))
		for i, p := range all {
			at[p.Name] = i
		}
		for _, p := range desired {
			change := c.changes[p.Key()]
			if change == nil || !use(change) {
				continue
			}
			if i, ok := at[p.Name]; ok {
				all[i] = p
			} else {
				at[p.Name] = len(all)
				all = append(all, p)
			}
		}
		return all
	}
	policies, operators := merge(h.live.Policies, h.desired.Policies), merge(h.live.OperatorPolicies, h.desired.OperatorPolicies)
	h.then = policy.New(c.version, policies, operators)
	h.after = h.then
	leaves := func(p *topology.Policy) bool { return h.leaving[p.Key()] != nil }
	if slices.ContainsFunc(policies, leaves) || slices.ContainsFunc(operators, leaves) {
		h.after = policy.New(c.version, slices.DeleteFunc(policies, leaves), slices.DeleteFunc(operators, leaves))
	}
}

// id is the ID of the change of an object.
func id(k topology.Key) string {
	if k.Kind == topology.KindVirtualHost {
		return string(k.Kind) + "/" + url.PathEscape(k.VirtualHost)
	}
	return string(k.Kind) + "/" + url.PathEscape(k.VirtualHost) + "/" + url.PathEscape(k.Name)
}

func (c *computation) add(change *Change) *Change {
	change.ID = id(change.Key)
	c.changes[change.Key] = change
	return change
}

func (c *computation) note(k topology.Key, code, format string, args ...any) {
	c.plan.Notes = append(c.plan.Notes, Note{Key: k, Code: code, Text: fmt.Sprintf(format, args...)})
}

// warn adds a finding about a desired object.
func (c *computation) warn(o topology.Object, code, summary, detail string) {
	c.findings.Add(diag.Diagnostic{
		Severity: diag.Warning, Code: code, Summary: summary, Detail: detail,
		Object: o.Key(), Position: o.Place(),
	})
}

// block adds a reason not to run a change, unless one with the same text is there.
func (c *Change) block(code, unlock, format string, args ...any) {
	b := Block{Code: code, Text: fmt.Sprintf(format, args...), Unlock: unlock}
	if !slices.Contains(c.Blocked, b) {
		c.Blocked = append(c.Blocked, b)
	}
}

// allows reports whether a consent for the action names one of the objects.
func (c *computation) allows(action string, keys ...topology.Key) bool {
	return slices.ContainsFunc(c.in.Allowed, func(a Consent) bool {
		return a.Action == action && slices.ContainsFunc(keys, func(k topology.Key) bool {
			name := k.Name
			if k.Kind == topology.KindVirtualHost {
				name = k.VirtualHost
			}
			return a.Kind == k.Kind && (a.Name == name || matchesPattern(a.Name, name))
		})
	})
}

// matchesPattern matches a shell pattern whose * takes any character, slashes too.
func matchesPattern(pattern, name string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(plain(pattern), plain(name))
	return ok && err == nil
}

// finish brings everything that was collected into a fixed order and computes the
// fingerprints.
func (c *computation) finish() {
	p := c.plan
	slices.SortStableFunc(p.Notes, func(a, b Note) int {
		return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
	})
	p.Notes = slices.Compact(p.Notes)
	slices.SortFunc(p.Unmanaged, compareKeys)
	slices.SortFunc(p.LeftBehind, compareKeys)
	slices.SortFunc(p.Adopt, compareKeys)
	for _, change := range p.Changes {
		slices.SortStableFunc(change.Blocked, func(a, b Block) int {
			return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
		})
	}
	for k := range c.wants {
		p.wantsCounts = append(p.wantsCounts, k)
	}
	slices.SortFunc(p.wantsCounts, compareKeys)
	prints := newPrinter(c.in.Live, c.version, p.Changes, p.Stacks, c.in.Owners)
	for _, change := range p.Changes {
		p.Fingerprints[change.ID] = prints.of(change)
	}
	c.findings.Sort()
}

// rank orders kinds as they are created.
var rank = map[topology.Kind]int{
	topology.KindVirtualHost: 0, topology.KindPermission: 1, topology.KindTopicPermission: 2, topology.KindParameter: 3,
	topology.KindOperatorPolicy: 4, topology.KindPolicy: 5, topology.KindExchange: 6, topology.KindQueue: 7,
	topology.KindBinding: 8,
}

func compareKeys(a, b topology.Key) int {
	return cmp.Or(cmp.Compare(a.VirtualHost, b.VirtualHost), cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Name, b.Name))
}
