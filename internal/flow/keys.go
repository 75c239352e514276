package flow

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
)

// Keys is a set of routing keys, possibly infinite: a minimal automaton that reads
// a key word by word. Sets of one Graph are equal exactly when their pointers are.
// A set is never changed.
type Keys struct {
	id     int
	states []state // 0 is the start; none at all: the empty set
	wide   bool
}

// state is a state of an automaton. From each, some words lead somewhere of their
// own and all other words lead to one place.
type state struct {
	accept bool
	other  int32
	words  []edge // sorted by word
}

type edge struct {
	word string
	to   int32
}

// nowhere is the state from which no key is accepted.
const nowhere int32 = -1

// Empty reports whether no key is in the set.
func (k *Keys) Empty() bool { return len(k.states) == 0 }

// Wide reports whether the set had to be made larger than it is, because the exact
// one would have been too costly: what holds for all of its keys is true, what
// holds for some may not be.
func (k *Keys) Wide() bool { return k.wide }

// Contains reports whether a key is in the set.
func (k *Keys) Contains(key string) bool {
	at := k.start()
	for _, w := range words(key) {
		if at == nowhere {
			return false
		}
		at = k.states[at].next(w)
	}
	return at != nowhere && k.states[at].accept
}

func (k *Keys) start() int32 {
	if k.Empty() {
		return nowhere
	}
	return 0
}

func (s *state) next(word string) int32 {
	i, found := slices.BinarySearchFunc(s.words, word, func(e edge, w string) int { return strings.Compare(e.word, w) })
	if found {
		return s.words[i].to
	}
	return s.other
}

// words splits a routing key as RabbitMQ's topic exchange does: the empty key has
// no word, "a." has two.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// Some lists keys of the set in a fixed order, at most n, and whether these are
// all. Where the set takes any word in a place, one word stands for all of them.
func (k *Keys) Some(n int) (keys []string, all bool) {
	if k.Empty() {
		return nil, true
	}
	if key, ok := k.only(); ok && n > 0 {
		return []string{key}, true
	}
	type path struct {
		at   int32
		text []string
	}
	all = true
	// By length: each state can reach an accepting one, so no more than n paths of
	// each length are of use, and the shortest key has fewer words than the states.
	level := []path{{at: 0}}
	for depth := 0; len(level) > 0; depth++ {
		var next []path
		for _, p := range level {
			s := &k.states[p.at]
			if s.accept {
				if len(keys) == n {
					return keys, false
				}
				keys = append(keys, strings.Join(p.text, "."))
			}
			follow := func(word string, to int32) {
				if to != nowhere {
					next = append(next, path{to, append(p.text[:len(p.text):len(p.text)], word)})
				}
			}
			for _, e := range s.words {
				follow(e.word, e.to)
			}
			if s.other != nowhere {
				all = false
				follow(s.freshWord(), s.other)
			}
		}
		if keep := n + len(k.states); len(next) > keep {
			next, all = next[:keep], false
		}
		if depth > len(k.states)+n {
			return keys, false
		}
		level = next
	}
	return keys, all
}

// Listable reports whether the keys are made of named words alone, so that Some
// shows what they are.
func (k *Keys) Listable() bool {
	return !slices.ContainsFunc(k.states, func(s state) bool { return s.other != nowhere })
}

// few lists the keys of a set of at most n; false: there are more.
func (k *Keys) few(n int) ([]string, bool) {
	if !k.Listable() {
		return nil, false
	}
	return k.Some(n)
}

// only returns the key of a set of one.
func (k *Keys) only() (string, bool) {
	var text []string
	for i := range k.states {
		s := &k.states[i]
		// States are numbered along the way, so that a straight line is this.
		last := i == len(k.states)-1
		if s.other != nowhere || s.accept != last || !last && (len(s.words) != 1 || s.words[0].to != int32(i)+1) || last && len(s.words) > 0 {
			return "", false
		}
		if !last {
			text = append(text, s.words[0].word)
		}
	}
	return strings.Join(text, "."), len(k.states) > 0
}

// Example is one key of the set, the empty key only where there is no other.
func (k *Keys) Example() string {
	keys, _ := k.Some(2)
	switch {
	case len(keys) == 0:
		return ""
	case keys[0] == "" && len(keys) > 1:
		return keys[1]
	}
	return keys[0]
}

// freshWord is a word that the state does not name.
func (s *state) freshWord() string {
	named := func(w string) bool {
		_, found := slices.BinarySearchFunc(s.words, w, func(e edge, w string) int { return strings.Compare(e.word, w) })
		return found
	}
	for _, w := range []string{"x", "any", "other"} {
		if !named(w) {
			return w
		}
	}
	for i := 1; ; i++ {
		if w := "x" + strconv.Itoa(i); !named(w) {
			return w
		}
	}
}

// algebra makes and combines sets. Equal sets are one.
type algebra struct {
	known map[string]*Keys
	done  map[operands]*Keys
	// single are the sets of one key that were asked for.
	single map[string]*Keys
	none   *Keys
	all    *Keys
	// left is how many more transitions may be worked out: beyond it, results are
	// wide. No input can make the analysis run for ever.
	left int
	// rough: something was too costly to be worked out.
	rough bool
}

type operands struct {
	operation byte
	x, y      int
}

const (
	// maxTransitions bounds one set.
	maxTransitions = 1 << 16
	// maxWork bounds all of them together, to some seconds.
	maxWork = 1 << 24
)

func newAlgebra() *algebra {
	a := &algebra{known: map[string]*Keys{}, done: map[operands]*Keys{}, single: map[string]*Keys{}, left: maxWork}
	a.none = a.intern(nil, false)
	a.all = a.patterns([]string{"#"})
	return a
}

// intern makes an automaton minimal and its numbering canonical, and returns the
// one set for it.
func (a *algebra) intern(raw []state, wide bool) *Keys {
	canonical := minimal(raw, &a.left)
	var text []byte
	for i := range canonical {
		text = canonical[i].appendTo(text, func(s int32) int32 { return s }, nowhere-1)
	}
	if wide {
		text = append(text, "wide"...)
	}
	if k, ok := a.known[string(text)]; ok {
		return k
	}
	k := &Keys{id: len(a.known), states: canonical, wide: wide}
	a.known[string(text)] = k
	return k
}

// appendTo writes a state with its targets renamed. Words that lead to skip are
// left out.
func (s *state) appendTo(text []byte, name func(int32) int32, skip int32) []byte {
	flag := byte(0)
	if s.accept {
		flag = 1
	}
	text = append(text, flag)
	text = binary.AppendVarint(text, int64(name(s.other)))
	for _, e := range s.words {
		to := name(e.to)
		if to == skip {
			continue
		}
		text = binary.AppendUvarint(text, uint64(len(e.word))+1)
		text = append(text, e.word...)
		text = binary.AppendVarint(text, int64(to))
	}
	return append(text, 0)
}

// minimal merges states that accept the same keys, round by round, and numbers
// what is left from the start. State 0 is the start.
func minimal(raw []state, left *int) []state {
	if len(raw) == 0 {
		return nil
	}
	// The class of nowhere is 0, that of the other states by number.
	class := make([]int32, len(raw))
	count := 1
	for i := range raw {
		if raw[i].accept {
			class[i] = 1
			count = 2
		}
	}
	name := func(s int32) int32 {
		if s == nowhere {
			return 0
		}
		return class[s]
	}
	dead := state{other: nowhere}
	for {
		classes := map[string]int32{}
		text := binary.AppendVarint(nil, 0)
		text = dead.appendTo(text, name, 0)
		classes[string(text)] = 0
		next := make([]int32, len(raw))
		for i := range raw {
			s := &raw[i]
			*left -= len(s.words) + 1
			text = binary.AppendVarint(text[:0], int64(class[i]))
			text = s.appendTo(text, name, name(s.other))
			c, ok := classes[string(text)]
			if !ok {
				c = int32(len(classes))
				classes[string(text)] = c
			}
			next[i] = c
		}
		class = next
		if len(classes) == count {
			break
		}
		count = len(classes)
	}
	if class[0] == 0 {
		return nil
	}
	return quotient(raw, class)
}

// quotient makes one state of each class but that of nowhere, numbered in the order
// in which a walk from the start meets them.
func quotient(raw []state, class []int32) []state {
	number := map[int32]int32{0: nowhere}
	var first []int32 // a state of each class, by number
	meet := func(s int32) int32 {
		if s == nowhere || class[s] == 0 {
			return nowhere
		}
		n, ok := number[class[s]]
		if !ok {
			n = int32(len(first))
			number[class[s]] = n
			first = append(first, s)
		}
		return n
	}
	meet(0)
	var states []state
	for i := 0; i < len(first); i++ {
		from := &raw[first[i]]
		s := state{accept: from.accept}
		var otherClass int32
		if from.other != nowhere {
			otherClass = class[from.other]
		}
		for _, e := range from.words {
			var c int32
			if e.to != nowhere {
				c = class[e.to]
			}
			if c != otherClass {
				s.words = append(s.words, edge{e.word, meet(e.to)})
			}
		}
		s.other = meet(from.other)
		states = append(states, s)
	}
	return states
}

// literal is the set of one key.
func (a *algebra) literal(key string) *Keys {
	k, ok := a.single[key]
	if !ok {
		k = a.literals([]string{key})
		a.single[key] = k
	}
	return k
}

// literals is the set of some keys.
func (a *algebra) literals(keys []string) *Keys {
	raw := []state{{other: nowhere}}
	children := []map[string]int32{{}}
	for _, key := range keys {
		at := int32(0)
		for _, w := range words(key) {
			to, ok := children[at][w]
			if !ok {
				to = int32(len(raw))
				raw = append(raw, state{other: nowhere})
				children = append(children, map[string]int32{})
				children[at][w] = to
				raw[at].words = append(raw[at].words, edge{w, to})
			}
			at = to
		}
		raw[at].accept = true
	}
	if len(keys) == 0 {
		return a.none
	}
	for i := range raw {
		slices.SortFunc(raw[i].words, func(x, y edge) int { return strings.Compare(x.word, y.word) })
	}
	return a.intern(raw, false)
}

// tooCostly stands for a set that is too costly to work out and holds no more than k.
func (a *algebra) tooCostly(k *Keys) *Keys {
	a.rough = true
	return a.widened(k)
}

// widened is the same set, marked as larger than it should be.
func (a *algebra) widened(k *Keys) *Keys {
	if k.wide {
		return k
	}
	return a.intern(k.states, true)
}
