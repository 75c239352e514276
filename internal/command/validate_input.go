package command

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rabbitctl/rabbitctl/internal/broker"
	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/text"
	"github.com/rabbitctl/rabbitctl/internal/topology"
	"github.com/rabbitctl/rabbitctl/specs"
	"github.com/rabbitctl/rabbitctl/validate"
)

// validateInput gathers what is to be checked: a spec, the live state of a broker or
// an export, or a spec beside a live state. target is the version of --rabbitmq, zero
// without. The result holds the findings of reading, and sources the text that they
// point into.
func validateInput(c *cli.Context, s Streams, target catalog.Version) (in validate.Input, sources map[string][]byte, err error) {
	from, err := versionIn(c, "from")
	if err != nil {
		return in, nil, err
	}
	switch {
	case !from.IsZero() && target.IsZero():
		return in, nil, usagef("--from is where an upgrade starts: say by --rabbitmq where it leads")
	case c.IsSet("vhost") && !isLive(c):
		return in, nil, usagef("--vhost chooses among what --broker or --against has")
	}
	sources = map[string][]byte{}
	var spec *specs.Spec
	if c.Args().Present() || !isLive(c) {
		if spec, in.Found, err = loadSpec(c, s, c.Args().Slice()); err != nil {
			return in, nil, err
		}
		if spec != nil {
			sources = spec.Files
		}
		if in.Found.HasStructural() {
			return in, sources, nil
		}
	}
	if !isLive(c) {
		return checkInput(spec, in.Found, target, from), sources, nil
	}
	state, more, err := liveState(c, s, spec, target)
	if err != nil {
		return in, nil, err
	}
	in.Found = append(in.Found, more...)
	if name := c.String("against"); name != "" {
		sources = maps.Clone(sources)
		if text, err := os.ReadFile(name); err == nil {
			sources[name] = text
		}
	}
	if !from.IsZero() {
		state.Version = from
	}
	return liveInput(spec, state, in.Found, target), sources, nil
}

// checkInput expands a spec for a version, for validate.Check; a zero target stands
// for all versions that the spec allows. An upgrade starts from those, or from one
// version. The findings of loading and expanding are among Found.
func checkInput(spec *specs.Spec, found diag.List, target, from catalog.Version) validate.Input {
	desired, more := spec.Expand(specs.Target{Version: target})
	in := validate.Input{Topology: desired, Versions: spec.Versions(), Sources: spec.Files, Found: append(found, more...)}
	if !target.IsZero() {
		in.Versions, in.From = []catalog.Version{target}, in.Versions
	}
	if !from.IsZero() {
		in.From = []catalog.Version{from}
	}
	return in
}

// liveInput is what there is to check with a live state: the state itself, or a spec
// beside it.
func liveInput(spec *specs.Spec, state *broker.State, found diag.List, target catalog.Version) validate.Input {
	in := validate.Input{Topology: state.Topology, ExchangeTypes: state.ExchangeTypes, Found: found}
	version := target
	if version.IsZero() {
		version = state.Version
	}
	if !version.IsZero() {
		in.Versions = []catalog.Version{version}
	}
	if !target.IsZero() && !state.Version.IsZero() {
		in.From = []catalog.Version{state.Version}
		if target.Series() != state.Version.Series() {
			in.ExchangeTypes = nil // those of the other version are not known
		}
	}
	if spec != nil {
		desired, more := spec.Expand(specs.Target{Version: version, DefaultQueueTypes: defaultQueueTypes(state)})
		in.Topology, in.Live, in.Sources = desired, state.Topology, spec.Files
		in.Found = append(in.Found, more...)
		if version.IsZero() {
			in.Versions = spec.Versions()
		}
	}
	return in
}

// liveState reads the live state that is to be checked, and what only a broker can
// tell of an upgrade.
func liveState(c *cli.Context, s Streams, spec *specs.Spec, target catalog.Version) (*broker.State, diag.List, error) {
	if c.Bool("broker") && c.IsSet("against") {
		return nil, nil, usagef("--broker and --against exclude each other")
	}
	if c.IsSet("against") {
		state, found, err := readExport(c, spec)
		if spec == nil { // dangling-binding says so
			found = slices.DeleteFunc(found, func(d diag.Diagnostic) bool { return d.Code == "definitions-end-missing" })
		}
		return state, found, err
	}
	client, _, err := connect(c, s, nil)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	state, err := readFrom(c, client, spec)
	if err != nil {
		return nil, nil, err
	}
	var found diag.List
	if spec != nil {
		if found, err = readFindings(c.Context, client, spec, state); err != nil {
			return nil, nil, err
		}
		found = append(found, requirementFindings(spec, state)...)
	}
	more, err := usedFindings(c, client, state, target)
	return state, append(found, more...), err
}

// usedFindings says which features a broker has in use that a later version lacks.
func usedFindings(c *cli.Context, client *broker.Client, state *broker.State, target catalog.Version) (diag.List, error) {
	var list diag.List
	features, _, err := client.DeprecatedFeatures(c.Context)
	if err != nil {
		return nil, brokerError(err)
	}
	for _, f := range features {
		d := diag.Diagnostic{
			Severity: diag.Info, Code: "deprecated-feature-used",
			Summary: fmt.Sprintf("the broker says that the deprecated feature %q is in use (%s)", f.Name, f.Phase),
			Detail:  "A later release of RabbitMQ refuses it.",
		}
		if f.URL != "" {
			d.Detail += " What to do in its place: " + f.URL
		}
		if !target.IsZero() {
			d.Severity = diag.Warning
		}
		list.Add(d)
	}
	since := catalog.V(4, 3)
	if target.IsZero() || target.Below(since) || state.Version.AtLeast(catalog.V(4, 0)) {
		return list, nil
	}
	for _, v := range state.Topology.VirtualHosts {
		users, err := client.GlobalPrefetch(c.Context, v.Name)
		if err != nil {
			return nil, brokerError(err)
		}
		for _, user := range slices.Sorted(maps.Keys(users)) {
			list.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: "upgrade-shared-prefetch",
				Summary: fmt.Sprintf("%s of user %q in virtual host %q share one prefetch among their consumers (basic.qos with global)",
					text.Plural(users[user], "channel", "channels"), user, v.Name),
				Detail: fmt.Sprintf("RabbitMQ %s counts it for each consumer: a channel then gets that many messages for every consumer. Use a prefetch for each consumer.", since),
				Object: topology.Key{Kind: topology.KindVirtualHost, VirtualHost: v.Name},
			})
		}
	}
	return list, nil
}
