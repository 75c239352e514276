package specs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/diag"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// unlimited is the delivery limit that means none, from 4.0 on. 3.10 takes it
// for 0 as an argument and refuses it in a policy.
const unlimited = int64(-1)

// wanted is one setting of a queue on its way to the broker.
type wanted struct {
	name  string
	value any
	by    topology.By
	// pin says that by must hold, also where the same value is written with
	// another.
	pin bool
	// raw is a value that stands under arguments: it goes out as it is.
	raw bool
	pos topology.Position
	// why names the key that the setting follows from; empty: it is written
	// itself.
	why string
}

// origin names what makes the setting, for a sentence.
func (w wanted) origin() string {
	switch {
	case w.why != "":
		return w.why
	case w.raw:
		return "arguments"
	}
	return specKey(w.name)
}

// specKey is the setting's name in a spec.
func specKey(name string) string {
	if s := catalog.Lookup(name); s != nil {
		return s.SpecKey()
	}
	return name
}

// derived is what retry, dead_letter and being a wait queue add to a queue.
type derived struct {
	settings   []wanted
	exchanges  []*topology.Exchange
	bindings   []*topology.Binding
	retry      *topology.Retry
	deadLetter *topology.DeadLetter
	generated  string
}

// derive works out what retry and dead_letter stand for.
func (e *expansion) derive(q *Queue) *derived {
	d := &derived{}
	if q.Retry != nil {
		e.deriveRetry(q, d)
	}
	if q.DeadLetter != nil {
		e.deriveDeadLetter(q, d)
	}
	return d
}

// queueWork collects the settings of one queue.
type queueWork struct {
	e    *expansion
	q    *Queue
	key  topology.Key
	list map[string]wanted
}

// addQueue writes a queue, its generated policy and the bindings that lead to
// it.
func (e *expansion) addQueue(q *Queue, d *derived) {
	w := &queueWork{
		e: e, q: q, list: map[string]wanted{},
		key: topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: q.Name},
	}
	out := &topology.Queue{
		VirtualHost: e.spec.Name, Name: q.Name, Type: e.typeOf(q),
		Durable: q.Durable, AutoDelete: q.AutoDelete, Arguments: topology.Arguments{}, Position: q.Pos,
	}
	if q.External && q.Type == "" {
		out.Type = "" // whatever it is
	}
	for _, name := range q.Arguments.Keys() {
		out.Arguments[name] = q.Arguments[name]
	}
	w.collect(d, out.Type)
	settings, definition := w.place(out)
	if q.InheritPolicy && len(definition) > 0 {
		e.inherit(q, out.Type, definition, settings)
	}
	if len(out.Arguments) == 0 {
		out.Arguments = nil
	}
	out.Intent = intentOf(q, d)
	out.Intent.Settings = settings
	out.Intent.Stated = stated(q.At, out.Arguments, "durable", "auto_delete")
	if q.Type != "" {
		out.Intent.Stated["type"] = true
	}
	e.out.Queues = append(e.out.Queues, out)
	if len(definition) > 0 {
		e.addPolicy(q, out.Type, definition)
	}
	e.addWrittenBindings(q.Bindings, topology.ToQueue, q.Name)
}

// collect joins what is written with what follows from it.
func (w *queueWork) collect(d *derived, t topology.QueueType) {
	q := w.q
	for _, arg := range q.Arguments.Keys() {
		if s := catalog.LookupArgument(arg); s != nil && !s.Exchange {
			w.add(wanted{
				name: s.Name, value: q.Arguments[arg], by: topology.ByArgument, raw: true,
				pos: q.At.place(q.Pos, "arguments."+arg, "arguments"),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Settings)) {
		w.add(wanted{name: name, value: q.Settings[name], by: wayOf(q, name), pos: settingPlace(q, name)})
	}
	for _, s := range d.settings {
		w.add(s)
	}
	if q.Role == topology.RoleDeadLetter && t == topology.Quorum && !q.External {
		// A dead-letter queue must not lose what is looked at often. The policy
		// works on 4.x and, unlike the argument, harms nobody on 3.10.
		limit, written := w.list["delivery-limit"]
		if !written || limit.value == unlimited {
			w.add(wanted{
				name: "delivery-limit", value: unlimited, by: topology.ByPolicy, pin: true,
				pos: q.At.place(q.Pos, "role"), why: "role dead-letter",
			})
		}
	}
}

// wayOf is how a setting of the queue is to reach the broker. What clients
// redeclare has to be arguments.
func wayOf(q *Queue, name string) topology.By {
	if q.DeclaredByClients {
		return topology.ByArgument
	}
	if by := q.SettingsBy.Of(name); by != "" {
		return by
	}
	return topology.ByPolicy
}

// settingPlace is where a setting is written.
func settingPlace(q *Queue, name string) topology.Position {
	key := specKey(name)
	group := ""
	if rest, ok := strings.CutPrefix(name, "delayed-retry-"); ok {
		group = "delayed_retry." + rest
	}
	return q.At.place(q.Pos, key, group, "settings."+key)
}

// add puts a setting on the list. Two different values are an error: one that follows
// from another key is kept, else the first.
func (w *queueWork) add(s wanted) {
	old, both := w.list[s.name]
	if !both {
		w.list[s.name] = s
		return
	}
	related := []diag.Related{{Position: old.pos, Text: fmt.Sprintf("%s says %s", old.origin(), topology.Text(old.value))}}
	switch {
	case old.raw && s.why == "":
		w.fail(diag.Diagnostic{
			Code: "argument-twice",
			Summary: fmt.Sprintf("queue %q has both %s and the argument %s", w.q.Name, specKey(s.name),
				catalog.Lookup(s.name).Argument),
			Detail: "Remove the line under arguments.", Position: s.pos, Related: related,
		})
	case !topology.Equal(old.value, s.value):
		w.fail(diag.Diagnostic{
			Code: "setting-contradiction",
			Summary: fmt.Sprintf("queue %q: %s makes %s %s, but %s says %s", w.q.Name, s.origin(),
				specKey(s.name), topology.Text(s.value), old.origin(), topology.Text(old.value)),
			Detail: "Remove one of the two.", Position: old.pos,
			Related: []diag.Related{{Position: s.pos, Text: s.origin()}},
		})
		if s.why != "" {
			w.list[s.name] = s // so that nothing else is said of the same mistake
		}
	case s.pin && !old.raw:
		old.by, old.pin = s.by, true
		w.list[s.name] = old
	}
}

func (w *queueWork) fail(d diag.Diagnostic) {
	d.Severity, d.Object = diag.Error, w.key
	w.e.found.Add(d)
}

// place puts each setting where it works: into the queue's arguments or into the
// definition of its policy.
func (w *queueWork) place(out *topology.Queue) (map[string]topology.SettingValue, topology.Arguments) {
	settings := map[string]topology.SettingValue{}
	definition := topology.Arguments{}
	for _, name := range slices.Sorted(maps.Keys(w.list)) {
		s := w.list[name]
		if name == "dead-letter-routing-key" && !s.raw {
			// A key in the arguments without an exchange there is refused, and a
			// key alone in a policy can be combined with another exchange.
			if x, ok := w.list["dead-letter-exchange"]; ok {
				s.by = x.by
			}
		}
		by, ok := w.way(s, out.Type)
		if !ok {
			continue
		}
		row := catalog.Lookup(name)
		switch {
		case s.raw: // is there
		case by == topology.ByArgument:
			out.Arguments[row.Argument] = s.value
		case !w.q.External:
			definition[row.PolicyKey] = s.value
		}
		settings[name] = topology.SettingValue{Value: s.value, By: by, Position: s.pos}
	}
	return settings, definition
}

// way decides how one setting reaches the broker, and tells what it cannot.
func (w *queueWork) way(s wanted, t topology.QueueType) (topology.By, bool) {
	row := catalog.Lookup(s.name)
	switch {
	case row == nil:
		w.fail(diag.Diagnostic{
			Code: "unknown-setting", Summary: fmt.Sprintf("queue %q: %q is no setting of queues", w.q.Name, s.name),
			Detail: "Remove it, or write it under arguments.", Position: s.pos,
		})
		return "", false
	case s.raw:
		return topology.ByArgument, t == "" || row.TakesArgument(t, w.e.version)
	case t == "": // an external queue of unknown type: only compared
		if row.PolicyKey == "" {
			return topology.ByArgument, true
		}
		return s.by, true
	}
	if s.name == "delivery-limit" && s.value == unlimited && w.e.version.Below(catalog.V(4, 0)) {
		return "", false // without a limit there is none
	}
	if !w.supported(s, row, t) {
		return "", false
	}
	by, ok, acts := wayFor(row, s.by, t, w.e.version)
	if ok && !acts {
		w.e.found.Add(diag.Diagnostic{
			Severity: diag.Warning, Code: "setting-without-effect",
			Summary: fmt.Sprintf("queue %q: %s has no effect on RabbitMQ %s", w.q.Name, row.SpecKey(), w.e.version),
			Detail:  instead(row), Object: w.key, Position: s.pos,
		})
	}
	return by, ok
}

// instead says what to do about a setting without effect.
func instead(s *catalog.Setting) string {
	if why, nothing := strings.CutPrefix(s.Instead, "nothing"); nothing {
		return "Leave it out" + why + "."
	}
	return "Use " + s.Instead + " instead."
}

// wayFor finds how a setting can be given to queues of type t in version v,
// preferring the way that is asked for. What is fixed at declaration is an
// argument wherever there is one. acts is false for old settings that the broker
// still takes without acting on them.
func wayFor(s *catalog.Setting, by topology.By, t topology.QueueType, v catalog.Version) (way topology.By, ok, acts bool) {
	argument := s.Argument != "" && s.TakesArgument(t, v)
	policy := s.PolicyKey != "" && s.TakesPolicy(v) && s.PolicyMatchesType(t, v)
	acting := policy && s.PolicyActsOn(t, v)
	if argument && s.Effect == catalog.AtDeclaration {
		by = topology.ByArgument
	}
	switch {
	case acting && by == topology.ByPolicy, acting && !argument:
		return topology.ByPolicy, true, true
	case argument:
		return topology.ByArgument, true, true
	}
	if s.Deprecated.IsZero() || v.Below(s.Deprecated) {
		return "", false, false
	}
	unchecked := s.Argument != "" && s.IsUnchecked(t, v)
	switch {
	case policy && (by == topology.ByPolicy || !unchecked):
		return topology.ByPolicy, true, false
	case unchecked:
		return topology.ByArgument, true, false
	}
	return "", false, false
}

// supported tells when queues of the type do not know the setting or take
// another value, in any of the judged versions.
func (w *queueWork) supported(s wanted, row *catalog.Setting, t topology.QueueType) bool {
	if !knownBy(row, t) {
		w.fail(diag.Diagnostic{
			Code:    "setting-not-for-type",
			Summary: fmt.Sprintf("queue %q: %s does not know %s", w.q.Name, aType(t), s.subject(row)),
			Detail:  fmt.Sprintf("%s; remove it or change the queue's type.", knowers(row)), Position: s.pos,
		})
		return false
	}
	var unknown, refused []catalog.Version
	why := ""
	for _, v := range w.e.judged {
		by, ok, _ := wayFor(row, s.by, t, v)
		if !ok {
			unknown = append(unknown, v)
			continue
		}
		if s.name == "delivery-limit" && s.value == unlimited && v.Below(catalog.V(4, 0)) {
			continue
		}
		if s.name == "overflow" {
			continue // rule reject-publish-dlx-on-quorum says what becomes of it
		}
		if wrong := row.CheckValueFor(s.value, t, v, by); wrong != "" {
			refused, why = append(refused, v), wrong
		}
	}
	if len(unknown) > 0 {
		w.e.found.Add(diag.Diagnostic{
			Severity: w.e.severity(unknown), Code: "setting-not-for-version",
			Summary: fmt.Sprintf("queue %q: RabbitMQ %s does not know %s on %s", w.q.Name, catalog.Span(unknown, w.e.judged),
				s.subject(row), aType(t)),
			Detail: "Remove it, or say with requires.rabbitmq which versions the spec is for.",
			Object: w.key, Position: s.pos,
		})
	}
	if len(refused) > 0 {
		w.e.found.Add(diag.Diagnostic{
			Severity: w.e.severity(refused), Code: "setting-value",
			Summary: fmt.Sprintf("queue %q: %s %s", w.q.Name, s.subject(row), why),
			Detail:  fmt.Sprintf("It is wrong on RabbitMQ %s.", catalog.Span(refused, w.e.judged)),
			Object:  w.key, Position: s.pos,
		})
	}
	return true
}

// subject names the setting and, where it is not written itself, what makes it.
func (s wanted) subject(row *catalog.Setting) string {
	if s.why == "" {
		return row.SpecKey()
	}
	return fmt.Sprintf("%s (from %s)", row.SpecKey(), s.why)
}

// knownBy reports whether queues of type t know the setting in any release.
func knownBy(s *catalog.Setting, t topology.QueueType) bool {
	return slices.ContainsFunc(catalog.Releases, func(v catalog.Version) bool {
		_, ok, _ := wayFor(s, topology.ByPolicy, t, v)
		return ok
	})
}

// knowers names the queue types that know the setting.
func knowers(s *catalog.Setting) string {
	var names []string
	for _, t := range topology.QueueTypes {
		if knownBy(s, t) {
			names = append(names, string(t))
		}
	}
	if len(names) == 0 {
		return "No queue type knows it"
	}
	return "Queue types that know it: " + strings.Join(names, ", ")
}

// aType is a queue of the type, in a sentence.
func aType(t topology.QueueType) string {
	if t == topology.Stream {
		return "a stream"
	}
	return fmt.Sprintf("a %s queue", t)
}

// severity is error where every version that counts must be right.
func (e *expansion) severity(bad []catalog.Version) diag.Severity {
	if e.binding || len(bad) == len(e.judged) {
		return diag.Error
	}
	return diag.Warning
}

// addPolicy writes the policy that is generated for a queue.
func (e *expansion) addPolicy(q *Queue, t topology.QueueType, definition topology.Arguments) {
	pattern := queuePattern(q.Name)
	if len(pattern) > maxPattern {
		e.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: "policy-pattern-too-long",
			Summary: fmt.Sprintf("queue %q: the pattern of its policy has %d bytes, RabbitMQ takes %d", q.Name, len(pattern), maxPattern),
			Detail:  "Write settings_by: arguments for this queue.",
			Object:  topology.Key{Kind: topology.KindQueue, VirtualHost: e.spec.Name, Name: q.Name}, Position: q.Pos,
		})
		return
	}
	e.out.Policies = append(e.out.Policies, &topology.Policy{
		VirtualHost: e.spec.Name, Name: policyName(q.Name), Queue: q.Name,
		Pattern: pattern, ApplyTo: catalog.ApplyToType(t, e.version),
		Priority: q.PolicyPriority, Definition: definition, Position: q.Pos,
	})
}

// intentOf copies what the spec says of the queue beyond what is sent.
func intentOf(q *Queue, d *derived) *topology.QueueIntent {
	return &topology.QueueIntent{
		Role: q.Role, Owner: q.Owner, External: q.External, DeclaredByClients: q.DeclaredByClients,
		Retry: d.retry, DeadLetter: d.deadLetter, Contract: q.Contract,
		Loses: maps.Clone(q.Loses), Delays: slices.Clone(q.Delays), InheritPolicy: q.InheritPolicy,
		HidesPolicy:           slices.Clone(q.HidesPolicy),
		AllowUnknownArguments: slices.Clone(q.AllowUnknownArguments),
		Generated:             d.generated, Drills: q.Drills,
		At: maps.Clone(map[string]topology.Position(q.At)),
	}
}
