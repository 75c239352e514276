package specs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// defaultPolicyPriority is the priority of generated policies.
const defaultPolicyPriority = 1000

// queue reads one queue.
func (doc *document) readQueue(v *VirtualHost, e *entry, n *node) *Queue {
	d := doc.decoder(topology.Key{Kind: topology.KindQueue, VirtualHost: v.Name, Name: e.key})
	d.checkName(topology.KindQueue, e.key, e.pos())
	q := &Queue{
		Name: e.key, Pos: e.pos(), Durable: true,
		SettingsBy: doc.settingsBy, PolicyPriority: doc.policyPriority, InheritPolicy: doc.inheritPolicy,
	}
	readQueueTable(d, n, q)
	q.At = make(Places, n.size/2)
	addPlaces(q.At, "", n)
	return q
}

// readQueueTable reads the keys of a queue, or of defaults.queue.
func readQueueTable(d *decoder, n *node, q *Queue) {
	ok := readTable(d, n, q, queueFields, func(e *entry) bool {
		s := queueSetting(e.key)
		if s == nil {
			d.unknownKey(e, slices.Concat(queueFields.names(), settingKeys))
			return true
		}
		if e.value.kind == invalidNode {
			return true
		}
		d.push(e.key)
		if e.value.kind == nullNode {
			d.noValue(e.value)
		} else {
			d.readSetting(q, s, e.value)
		}
		d.pop()
		return true
	})
	if !ok {
		return
	}
	d.checkRaw(n)
	if reason := n.get("reason"); reason != nil && reason.kind == textNode {
		d.push("reason")
		if q.Contract != nil && q.Contract.None {
			q.Contract.Reason = reason.text
		} else {
			d.finding(reason.pos(), "reason-without-contract", d.subject()+" belongs to contract: none", "Write contract: none beside it, or remove the reason.")
		}
		d.pop()
	}
}

// checkRaw reports a type among the arguments: it has a key of its own.
func (d *decoder) checkRaw(n *node) {
	if e := n.get("arguments").entry("x-queue-type"); e != nil {
		d.push("arguments")
		d.finding(e.pos(), "setting-twice", "the argument \"x-queue-type\" of "+d.title+" is the queue's type", "Write it as the key type.")
		d.pop()
	}
}

var queueFields = fields[Queue]{
	"type": func(d *decoder, q *Queue, n *node) {
		if t, ok := d.readQueueType(n); ok {
			q.Type = t
		}
	},
	"durable":     setBool(func(q *Queue) *bool { return &q.Durable }),
	"auto_delete": setBool(func(q *Queue) *bool { return &q.AutoDelete }),
	"exclusive": func(d *decoder, _ *Queue, n *node) {
		if exclusive, ok := d.readBool(n); ok && exclusive {
			d.finding(n.pos(), "exclusive-queue", d.title+" is exclusive: it would be gone as soon as the tool disconnects",
				"Let the client that uses it declare it, and remove it here.")
		}
	},
	"arguments":               func(d *decoder, q *Queue, n *node) { q.Arguments = d.readArguments(n) },
	"allow_unknown_arguments": func(d *decoder, q *Queue, n *node) { q.AllowUnknownArguments, _ = d.readTexts(n) },
	"settings_by":             func(d *decoder, q *Queue, n *node) { d.readSettingsBy(n, &q.SettingsBy) },
	"inherit_policy":          setBool(func(q *Queue) *bool { return &q.InheritPolicy }),
	"hides_policy": func(d *decoder, q *Queue, n *node) {
		if n.kind == listNode {
			q.HidesPolicy, _ = d.readTexts(n)
		} else if s, ok := d.readText(n); ok {
			q.HidesPolicy = []string{s}
		}
	},
	"bindings":      func(d *decoder, q *Queue, n *node) { q.Bindings = d.readBindings(n) },
	"retry":         readRetry,
	"dead_letter":   func(d *decoder, q *Queue, n *node) { q.DeadLetter = d.readDeadLetter(n) },
	"delayed_retry": func(d *decoder, q *Queue, n *node) { d.readDelayedRetry(q, n) },
	"role":          setWord(func(q *Queue) *topology.Role { return &q.Role }, topology.RoleDeadLetter, topology.RoleWait),
	"owner":         setText(func(q *Queue) *string { return &q.Owner }),
	"delays": func(d *decoder, q *Queue, n *node) {
		d.readList(n, func(item *node) {
			if t, ok := d.readDelay(item); ok {
				q.Delays = append(q.Delays, t)
			}
		})
	},
	"contract":    func(d *decoder, q *Queue, n *node) { q.Contract = d.readContract(n) },
	"reason":      func(d *decoder, _ *Queue, n *node) { d.readText(n) }, // see readQueueTable
	"loses":       func(d *decoder, q *Queue, n *node) { q.Loses = d.readLoses(n, queueLosses) },
	"drills":      setWord(func(q *Queue) *string { return &q.Drills }, "allowed"),
	"external":    setBool(func(q *Queue) *bool { return &q.External }),
	"declared_by": func(d *decoder, q *Queue, n *node) { q.DeclaredByClients = d.readDeclaredBy(n) },
}

// What a queue and an exchange can lose on purpose, by x-death's reasons with
// maxlen written as overflow.
var (
	queueLosses    = []string{"expired", "overflow", "rejected", "delivery_limit"}
	exchangeLosses = []string{"unrouted"}
)

func (d *decoder) readLoses(n *node, known []string) map[string]string {
	loses := map[string]string{}
	readTable(d, n, &loses, fields[map[string]string]{}, func(e *entry) bool {
		if !slices.Contains(known, e.key) {
			d.unknownKey(e, known)
			return true
		}
		d.push(e.key)
		if s, ok := d.readText(e.value); ok {
			if strings.TrimSpace(s) == "" {
				d.wrongValue(e.value, "must say why the loss is meant")
			} else {
				loses[e.key] = s
			}
		}
		d.pop()
		return true
	})
	return loses
}

func (d *decoder) readDeclaredBy(n *node) bool {
	_, ok := d.readWord(n, "clients")
	return ok
}

func (d *decoder) readQueueType(n *node) (topology.QueueType, bool) {
	s, ok := d.readWord(n, string(topology.Classic), string(topology.Quorum), string(topology.Stream))
	return topology.QueueType(s), ok
}

// readContract reads "none" or the answers.
func (d *decoder) readContract(n *node) *topology.Contract {
	c := &topology.Contract{Position: n.pos()}
	if n.kind == textNode {
		if _, ok := d.readWord(n, "none"); !ok {
			return nil
		}
		c.None = true
		return c
	}
	if n.kind != tableNode {
		d.wrongType(n, "none or a map of answers")
		return nil
	}
	readTable(d, n, c, contractFields)
	return c
}

var contractFields = fields[topology.Contract]{
	"publisher_may_retry": setAnswer(func(c *topology.Contract) **bool { return &c.PublisherMayRetry }),
	"survives": setWord(func(c *topology.Contract) *string { return &c.Survives },
		"nothing", "restart", "node-loss"),
	"redelivered_after_crash": setAnswer(func(c *topology.Contract) **bool { return &c.RedeliveredAfterCrash }),
	"after_failure": func(d *decoder, c *topology.Contract, n *node) {
		if readTable(d, n, c, fields[topology.Contract]{
			"queue": setText(func(c *topology.Contract) *string { return &c.AfterFailureQueue }),
			"owner": setText(func(c *topology.Contract) *string { return &c.AfterFailureOwner }),
		}) && n.get("queue") == nil {
			d.missing(n.pos(), "queue", "Name the queue that gets what keeps failing.")
		}
	},
}

func setAnswer(field func(c *topology.Contract) **bool) func(*decoder, *topology.Contract, *node) {
	return func(d *decoder, c *topology.Contract, n *node) {
		if b, ok := d.readBool(n); ok {
			*field(c) = &b
		}
	}
}

// readBindings reads the bindings of which the object is the destination.
func (d *decoder) readBindings(n *node) []*Binding {
	var all []*Binding
	d.readList(n, func(item *node) {
		b := &Binding{Pos: item.pos()}
		if !readTable(d, item, b, bindingFields) {
			return
		}
		if item.get("exchange") == nil {
			d.missing(item.pos(), "exchange", "Name the exchange that the messages come from.")
			return
		}
		if one, many := item.entry("routing_key"), item.get("routing_keys"); one != nil && many != nil {
			d.finding(one.pos(), "setting-twice", d.subject()+" has both routing_key and routing_keys", "Put all keys under routing_keys.")
		}
		if len(b.RoutingKeys) == 0 {
			b.RoutingKeys, b.KeyPos = []string{""}, []topology.Position{item.pos()}
		}
		all = append(all, b)
	})
	return all
}

var bindingFields = fields[Binding]{
	"exchange": setText(func(b *Binding) *string { return &b.Exchange }),
	"routing_key": func(d *decoder, b *Binding, n *node) {
		if s, ok := d.readText(n); ok {
			d.checkRoutingKey(n, s)
			b.RoutingKeys, b.KeyPos = append(b.RoutingKeys, s), append(b.KeyPos, n.pos())
		}
	},
	"routing_keys": func(d *decoder, b *Binding, n *node) {
		if n.kind == listNode && len(n.list) == 0 {
			d.wrongValue(n, "must hold a key: without one nothing is bound")
			return
		}
		texts, at := d.readTexts(n)
		for i, s := range texts {
			d.at(i, func() { d.checkRoutingKeyAt(at[i], s) })
		}
		b.RoutingKeys, b.KeyPos = append(b.RoutingKeys, texts...), append(b.KeyPos, at...)
	},
	"match":     setWord(func(b *Binding) *string { return &b.Match }, "all", "any", "all-with-x", "any-with-x"),
	"arguments": func(d *decoder, b *Binding, n *node) { b.Arguments = d.readArguments(n) },
}

func (d *decoder) checkRoutingKey(n *node, s string) { d.checkRoutingKeyAt(n.pos(), s) }

func (d *decoder) checkRoutingKeyAt(at topology.Position, s string) {
	if len(s) > maxName {
		d.finding(at, "name-too-long", fmt.Sprintf("%s has %d bytes", d.subject(), len(s)), "AMQP 0.9.1 takes routing keys of at most 255 bytes.")
	}
}
