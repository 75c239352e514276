package validate

import "github.com/rabbitctl/rabbitctl/internal/topology"

// maxSimilar bounds how many pairs of letters are compared to suggest names: a
// spec with thousands of wrong names would otherwise take minutes, and its reader
// needs no thousand suggestions.
const maxSimilar = 300_000_000

// similar suggests names of declared objects for wrong ones.
type similar struct {
	names map[topology.Kind][]string
	found map[topology.Key]string
	spent int // pairs of letters compared, about
}

// nearestQueue is the declared queue whose name is most like a wrong one, "" when
// none is.
func (s *state) nearestQueue(name string) string {
	return s.similar.nearest(topology.KindQueue, name, func() []string { return sortedKeys(s.index.Queues) })
}

// nearestExchange is nearestQueue for exchanges.
func (s *state) nearestExchange(name string) string {
	return s.similar.nearest(topology.KindExchange, name, func() []string { return sortedKeys(s.index.Exchanges) })
}

func (s *similar) nearest(kind topology.Kind, name string, declared func() []string) string {
	k := topology.Key{Kind: kind, Name: name}
	if near, known := s.found[k]; known {
		return near
	}
	names, known := s.names[kind]
	if !known {
		names = declared()
		s.names[kind] = names
	}
	cost := len(names) * len(name) * len(name)
	if s.spent+cost > maxSimilar {
		return ""
	}
	s.spent += cost
	s.found[k] = nearestSorted(name, names)
	return s.found[k]
}
