package topology

// Attributes implements Object. Only what is stated is listed, so that nothing
// else is compared.
func (s *VirtualHostSettings) Attributes() []Attribute {
	var all []Attribute
	if s.Description != nil {
		all = append(all, Attribute{"description", *s.Description})
	}
	if s.Tags != nil {
		tags, _ := Canonical(s.Tags) // a list of strings always has a form
		all = append(all, Attribute{"tags", tags})
	}
	if s.DefaultQueueType != "" {
		all = append(all, Attribute{"default_queue_type", string(s.DefaultQueueType)})
	}
	for _, k := range []string{"max-connections", "max-queues"} {
		if v, ok := s.Limits[k]; ok {
			all = append(all, Attribute{"limits." + k, v})
		}
	}
	if s.ProtectFromDeletion != nil {
		all = append(all, Attribute{"protected_from_deletion", *s.ProtectFromDeletion})
	}
	return all
}

// Attributes implements Object.
func (e *Exchange) Attributes() []Attribute {
	all := []Attribute{{"type", e.Type}, {"durable", e.Durable}, {"auto_delete", e.AutoDelete}}
	if !e.InternalUnknown {
		all = append(all, Attribute{"internal", e.Internal})
	}
	return appendArguments(all, e.Arguments)
}

// Attributes implements Object. The type is listed as "type".
func (q *Queue) Attributes() []Attribute {
	all := []Attribute{{"type", string(q.Type)}, {"durable", q.Durable}, {"auto_delete", q.AutoDelete}}
	return appendArguments(all, q.Arguments)
}

// Attributes implements Object. A binding has none: all of its fields identify
// it.
func (b *Binding) Attributes() []Attribute { return nil }

// Attributes implements Object.
func (p *Policy) Attributes() []Attribute {
	all := []Attribute{{"pattern", p.Pattern}, {"apply-to", p.ApplyTo}, {"priority", p.Priority}}
	return appendArguments(all, p.Definition)
}

// Attributes implements Object.
func (p *Parameter) Attributes() []Attribute { return []Attribute{{"value", p.Value}} }

// Attributes implements Object.
func (p *Permission) Attributes() []Attribute {
	return []Attribute{{"configure", p.Configure}, {"write", p.Write}, {"read", p.Read}}
}

// Attributes implements Object.
func (p *TopicPermission) Attributes() []Attribute {
	return []Attribute{{"write", p.Write}, {"read", p.Read}}
}

func appendArguments(all []Attribute, args Arguments) []Attribute {
	for _, k := range args.Keys() {
		all = append(all, Attribute{k, args[k]})
	}
	return all
}
