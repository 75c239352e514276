package jsonschema

import (
	"fmt"

	"github.com/rabbitctl/rabbitctl/internal/catalog"
	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// document is the schema of one document.
func document() schema {
	s := require(table(documentKeys()...), "version")
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["$id"] = URL
	s["title"] = "rabbitctl spec"
	s["description"] = fmt.Sprintf("What one virtual host of RabbitMQ %s to %s must have.", catalog.Oldest, catalog.Newest)
	s["type"] = []string{"object", "null"} // a file of comments only is no mistake of its form
	delete(s, "pattern")
	s["definitions"] = schema{
		"exchange":    object(exchangeKeys()...),
		"queue":       object(queueKeys()...),
		"binding":     require(table(bindingKeys()...), "exchange"),
		"settings_by": settingsBy(),
		"for_each":    named(typed("array", schema{"minItems": 1, "items": schema{"type": []string{"string", "number", "boolean"}}})),
	}
	// An overlay changes single keys of objects, so it need not have all.
	required := schema{}
	for section, names := range map[string][]string{
		"policies": {"pattern", "definition"}, "operator_policies": {"pattern", "definition"},
		"permissions": {"configure", "write", "read"}, "publishers": {"exchange"}, "consumers": {"queue"},
	} {
		required[section] = schema{"additionalProperties": schema{"required": names}}
	}
	s["if"] = schema{"properties": schema{"overlay": schema{"not": schema{"const": false}}}, "required": []string{"overlay"}}
	s["else"] = schema{"properties": required}
	return s
}

func documentKeys() []key {
	policy := section(
		key{"pattern", text(), "Regular expression (PCRE) for the names that the policy is for."},
		key{"apply_to", word(catalog.ApplyTo(catalog.Newest)...), "What the policy is for. Default: all."},
		key{"priority", typed("integer", nil), "Of the policies that match, the one with the highest priority acts alone. Default: 0."},
		key{"definition", policyDefinition(), "RabbitMQ's own keys, such as max-length."},
	)
	permission := []key{
		{"configure", text(), "Regular expression for what the user may declare and delete."},
		{"write", text(), "Regular expression for what the user may publish to."},
		{"read", text(), "Regular expression for what the user may read from."},
	}
	return []key{
		{"version", schema{"const": 1}, "The version of this language: 1."},
		{"stack", matching("[a-z0-9._-]{1,60}"), "The owner's name. Without one nothing is ever deleted."},
		{"vhost", text(), "The virtual host. Default: /."},
		{"overlay", boolean(), "true: the document changes those before it by name; null takes away."},
		{"requires", table(
			key{"rabbitmq", schema{"type": []string{"string", "number"}}, `The versions that the spec is for, such as ">=3.10".`},
			key{"plugins", list(text()), "Plugins that the broker must have."},
		), "What the broker must offer."},
		{"variables", orNull(named(table(key{"default", schema{}, "The value when none is given."}))), "Variables, written ${name}."},
		{"defaults", orNull(table(
			key{"queue", defaultOf("queue"), "What holds for every queue that does not say otherwise. {name} is the queue's name."},
			key{"exchange", defaultOf("exchange"), "What holds for every exchange that does not say otherwise."},
			key{"settings_by", ref("settings_by"), "How settings reach the broker. Default: policy."},
			key{"inherit_policy", boolean(), "true: policies may match queues that have a generated one, which then has their keys too."},
			key{"policy_priority", typed("integer", nil), "The priority of generated policies. Default: 1000."},
		)), "What holds for every object of this document."},
		{"vhost_settings", object(
			key{"description", text(), ""},
			key{"tags", list(text()), ""},
			key{"default_queue_type", word(topology.QueueTypes...), "What a queue without a type is."},
			key{"limits", object(
				key{"max_connections", integer(-1, 0), "-1: no limit."},
				key{"max_queues", integer(-1, 0), "-1: no limit."},
			), ""},
			key{"protected_from_deletion", boolean(), ""},
			key{"settings_by", ref("settings_by"), "How settings reach the broker in this virtual host."},
		), "Settings of the virtual host itself."},
		{"exchanges", sections(ref("exchange")), "Exchanges by name."},
		{"queues", sections(ref("queue")), "Queues by name."},
		{"policies", sections(policy), "Policies by name."},
		{"operator_policies", sections(policy), "Operator policies by name."},
		{"permissions", sections(section(permission...)), "Permissions by user."},
		{"topic_permissions", sections(orNull(named(object(permission[1:]...)))), "Permissions on topics, by user and exchange."},
		{"parameters", sections(orNull(free())), "Parameters by component and name."},
		{"publishers", sections(section(
			key{"exchange", text(), `The exchange it publishes to; "" is the default exchange.`},
			key{"routing_key", text(), "The key it publishes with."},
			key{"routing_keys", list(text()), "The keys it publishes with; * and # stand for words."},
			key{"headers", free(), "Headers of its messages."},
			key{"cc", list(text()), "Keys in the header CC."},
			key{"mandatory", boolean(), "true: it is told when a message cannot be routed."},
		)), "Who publishes what."},
		{"consumers", sections(section(
			key{"queue", text(), "The queue it consumes from."},
			key{"prefetch", integer(0, 65535), "How many messages it may hold; 0: any number."},
		)), "Who consumes what."},
		{
			"external", list(require(table(key{"pattern", text(), "Regular expression for names."}), "pattern")),
			"Objects that others make and that are never changed.",
		},
	}
}

// section is an object of a section whose objects may be repeated.
func section(keys ...key) schema {
	return object(append(keys, key{"for_each", ref("for_each"), "Makes one object for each value; {name} stands for it."})...)
}

// sections is a section of objects by name.
func sections(of schema) schema { return orNull(named(of)) }

// defaultOf is an object without what is true of single objects only.
func defaultOf(name string) schema {
	return schema{"allOf": []schema{ref(name), {"properties": schema{"external": false, "declared_by": false, "for_each": false}}}}
}

func bindingKeys() []key {
	return []key{
		{"exchange", text(), "Where the messages come from."},
		{"routing_key", text(), "Default: the empty key."},
		{"routing_keys", typed("array", schema{"items": text(), "minItems": 1}), "One binding for each."},
		{"match", word("all", "any", "all-with-x", "any-with-x"), "Of a headers exchange: how many of the headers must match; the forms with-x count names that begin with x-."},
		{"arguments", free(), "The headers to match."},
	}
}

func commonKeys() []key {
	return []key{
		{"durable", boolean(), "Survives a restart. Default: true."},
		{"auto_delete", boolean(), "Goes when the last one who uses it goes. Default: false."},
		{"arguments", free(), "Further arguments, sent as they stand."},
		{"allow_unknown_arguments", list(text()), "Arguments that RabbitMQ does not know and that are meant."},
		{"bindings", list(ref("binding")), "Bindings that lead here."},
		{"external", boolean(), "true: it must exist and is never changed."},
		{"declared_by", word("clients"), "clients: applications declare it too."},
		{"for_each", ref("for_each"), "Makes one object for each value; {name} stands for it."},
	}
}

func exchangeKeys() []key {
	return append(append(commonKeys(), exchangeArguments()...),
		key{"type", schema{"type": []string{"string"}, "minLength": 1}, "direct, fanout, topic, headers or a plugin's type. Default: direct."},
		key{"internal", boolean(), "true: only other exchanges publish to it."},
		key{"loses", object(key{"unrouted", text(), "Why messages that no queue wants may be dropped."}), "Loss that is meant."},
	)
}

func queueKeys() []key {
	return append(append(commonKeys(), settings()...),
		key{"type", word(topology.QueueTypes...), "Default: the virtual host's default queue type."},
		key{"kind", word(topology.QueueTypes...), "The same as type."},
		key{"exclusive", either(schema{"enum": []any{false}}, schema{"type": []string{"string"}, "pattern": placeholder}), "A tool cannot declare exclusive queues."},
		key{"settings_by", ref("settings_by"), "How settings reach the broker: by a generated policy, which can change later, or by arguments."},
		key{"inherit_policy", boolean(), "true: a policy may match the queue, the generated one then has its keys too."},
		key{"hides_policy", either(text(), list(text())), "Policies that the generated one may hide."},
		key{"retry", retry(), "How often and after which delays a message is tried again."},
		key{"dead_letter", deadLetter(), "Where a message goes that is given up: the name of a queue, or the whole route."},
		key{"delayed_retry", delayedRetry(), "RabbitMQ 4.3's own delayed retry of quorum queues."},
		key{"role", word(topology.RoleDeadLetter, topology.RoleWait), "dead-letter: it holds what was given up; wait: messages wait in it for the next attempt."},
		key{"owner", text(), "Who looks at it."},
		key{"delays", list(delay()), "Of a hand-made wait queue: the delays it serves."},
		key{"contract", either(schema{"enum": []string{"none"}}, contract()), "What the queue promises: four answers, or none with a reason."},
		key{"reason", text(), "Why it promises nothing."},
		key{"loses", object(
			key{"expired", text(), "Why messages may expire."},
			key{"overflow", text(), "Why messages may be dropped when it is full."},
			key{"rejected", text(), "Why rejected messages may be dropped."},
			key{"delivery_limit", text(), "Why messages may be dropped at the delivery limit."},
		), "Loss that is meant."},
		key{"drills", word("allowed"), "allowed: live tests may use the queue."},
	)
}

func delay() schema {
	return require(table(
		key{"delay", duration(), "How long a message waits."},
		key{"queue", text(), "The wait queue."},
	), "delay", "queue")
}

func retry() schema {
	return object(
		key{"max_attempts", integer(1, 0), "Deliveries, the first included."},
		key{"delays", list(either(duration(), delay())), "The i-th retry waits the i-th delay, the last repeats."},
		key{"mechanism", word(topology.MechanismAuto, topology.MechanismWaitQueue, topology.MechanismRejectCycle,
			topology.MechanismDelayedRetry, topology.MechanismDelayedExchange, topology.MechanismPerMessage), "How a message waits. Default: auto."},
		key{"wait_queue", object(
			key{"name", text(), "Its name where there is one delay."},
			key{"names", text(), "Their names: {queue}, {delay} and {n} are replaced."},
			key{"type", word(topology.QueueTypes...), "Default: that of the queue."},
		), "Names and type of generated wait queues."},
	)
}

func deadLetter() schema {
	route := []key{
		{"queue", text(), "The queue for this category."},
		{"type", word(topology.QueueTypes...), ""},
		{"owner", text(), "Who looks at it."},
		{"replay", word("automatic", "manual"), "How messages come back."},
	}
	return either(text(), object(
		key{"queue", text(), "The queue that takes the dead letters, by the default exchange."},
		key{"exchange", text(), "The dead-letter exchange."},
		key{"routing_key", text(), "The dead-letter routing key; without one messages keep their own."},
		key{"via", text(), "An exchange to reach the queue by."},
		key{"strategy", word("at-most-once", "at-least-once"), "at-least-once: no dead letter is lost on the way (quorum queues)."},
		key{"method", word("auto", "modified", "republish"), "How the consumer says the category."},
		key{"settings_by", by(), "How the route reaches the broker; arguments: no policy can hide it."},
		key{"categories", object(
			key{"header", text(), "The header with the category."},
			key{"routes", orNull(named(object(route...))), "Queues by category."},
			key{"otherwise", object(route...), "The queue for what has no known category."},
		), "Dead letters by category."},
	))
}

func contract() schema {
	return object(
		key{"publisher_may_retry", boolean(), "May the publisher send a message again after a crash?"},
		key{"survives", word("nothing", "restart", "node-loss"), "What messages survive."},
		key{"redelivered_after_crash", boolean(), "Does a message come again after a crash of its consumer?"},
		key{"after_failure", object(
			key{"queue", text(), "Where a message goes that keeps failing."},
			key{"owner", text(), "Who looks at it."},
		), "Where does a message go that keeps failing, and who looks?"},
	)
}

func by() schema { return word(topology.ByPolicy, topology.ByArgument) }
