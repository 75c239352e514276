package flow

import (
	"slices"
	"strings"
)

// The operations on two sets.
const (
	union     byte = '|'
	intersect byte = '&'
	minus     byte = '-'
)

func (a *algebra) union(x, y *Keys) *Keys     { return a.combine(union, x, y) }
func (a *algebra) intersect(x, y *Keys) *Keys { return a.combine(intersect, x, y) }
func (a *algebra) minus(x, y *Keys) *Keys     { return a.combine(minus, x, y) }

// unions is the union of any number of sets: single keys at once, others half by
// half.
func (a *algebra) unions(sets []*Keys) *Keys {
	if len(sets) == 1 {
		return sets[0]
	}
	var keys []string
	var rest []*Keys
	for _, k := range sets {
		if key, ok := k.only(); ok && !k.wide {
			keys = append(keys, key)
		} else {
			rest = append(rest, k)
		}
	}
	if len(keys) > 0 {
		rest = append(rest, a.literals(keys))
	}
	return a.halves(rest)
}

func (a *algebra) halves(sets []*Keys) *Keys {
	switch len(sets) {
	case 0:
		return a.none
	case 1:
		return sets[0]
	}
	return a.union(a.halves(sets[:len(sets)/2]), a.halves(sets[len(sets)/2:]))
}

// combine works out an operation. What is too costly becomes a wide set that holds
// at least the right keys.
func (a *algebra) combine(operation byte, x, y *Keys) *Keys {
	if operation != minus && x.id > y.id {
		x, y = y, x
	}
	if k := a.easy(operation, x, y); k != nil {
		return k
	}
	key := operands{operation, x.id, y.id}
	if k, ok := a.done[key]; ok {
		return k
	}
	var k *Keys
	// What y has too much must not be taken away.
	if operation != minus || !y.wide {
		if raw, ok := a.product(operation, x, y); ok {
			k = a.intern(raw, x.wide || y.wide)
		}
	}
	switch {
	case k != nil:
	case operation == union:
		k = a.tooCostly(a.all)
	default:
		k = a.tooCostly(x)
	}
	a.done[key] = k
	return k
}

// easy answers what needs no work; nil: it does.
func (a *algebra) easy(operation byte, x, y *Keys) *Keys {
	all := func(k *Keys) bool { return k == a.all }
	switch operation {
	case union:
		switch {
		case x == y || y.Empty() && !y.wide:
			return x
		case x.Empty() && !x.wide:
			return y
		case all(x) || all(y):
			return a.all
		}
	case intersect:
		switch {
		case x == y || all(y) || x.Empty():
			return x
		case all(x) || y.Empty():
			return y
		}
	case minus:
		switch {
		case x.Empty() || y.Empty():
			return x
		case x == y && !x.wide || all(y):
			return a.none
		}
	}
	return nil
}

// product is the automaton of an operation on two others.
func (a *algebra) product(operation byte, x, y *Keys) ([]state, bool) {
	type pair struct{ x, y int32 }
	number := map[pair]int32{}
	var pairs []pair
	meet := func(p pair) int32 {
		switch {
		case p.x == nowhere && (p.y == nowhere || operation != union), p.y == nowhere && operation == intersect:
			return nowhere
		}
		n, ok := number[p]
		if !ok {
			n = int32(len(pairs))
			number[p] = n
			pairs = append(pairs, p)
		}
		return n
	}
	if meet(pair{x.start(), y.start()}) == nowhere {
		return nil, true
	}
	stuck := &state{other: nowhere}
	of := func(k *Keys, s int32) *state {
		if s == nowhere {
			return stuck
		}
		return &k.states[s]
	}
	var raw []state
	size := 0
	for i := 0; i < len(pairs); i++ {
		from := pairs[i]
		sx, sy := of(x, from.x), of(y, from.y)
		s := state{other: meet(pair{sx.other, sy.other})}
		switch operation {
		case union:
			s.accept = sx.accept || sy.accept
		case intersect:
			s.accept = sx.accept && sy.accept
		case minus:
			s.accept = sx.accept && !sy.accept
		}
		add := func(word string, p pair) { s.words = append(s.words, edge{word, meet(p)}) }
		switch {
		case sx.other == nowhere && operation != union:
			for _, e := range sx.words {
				add(e.word, pair{e.to, sy.next(e.word)})
			}
		case sy.other == nowhere && operation == intersect:
			for _, e := range sy.words {
				add(e.word, pair{sx.next(e.word), e.to})
			}
		default:
			eachWord(sx, sy, func(word string, tx, ty int32) { add(word, pair{tx, ty}) })
		}
		raw = append(raw, s)
		size += len(s.words) + 1
		a.left -= len(s.words) + 1
		if size > maxTransitions || a.left < 0 {
			return nil, false
		}
	}
	return raw, true
}

// eachWord calls f for every word that one of two states names, in order.
func eachWord(x, y *state, f func(word string, tx, ty int32)) {
	i, j := 0, 0
	for i < len(x.words) || j < len(y.words) {
		switch {
		case j == len(y.words) || i < len(x.words) && x.words[i].word < y.words[j].word:
			f(x.words[i].word, x.words[i].to, y.other)
			i++
		case i == len(x.words) || y.words[j].word < x.words[i].word:
			f(y.words[j].word, x.other, y.words[j].to)
			j++
		default:
			f(x.words[i].word, x.words[i].to, y.words[j].to)
			i++
			j++
		}
	}
}

// patterns is the set of the keys that match at least one of some topic patterns.
func (a *algebra) patterns(list []string) *Keys {
	var t trie
	for i, p := range list {
		t.add(p, i)
	}
	raw, ok := t.determine(&a.left)
	if !ok {
		return a.tooCostly(a.all)
	}
	return a.intern(raw, false)
}

// trie holds topic patterns as a tree of words, as the broker does.
type trie struct {
	nodes []node
}

type node struct {
	words map[string]int32
	star  int32 // 0: none
	hash  int32 // 0: none
	// loops: the node stands for #, which reads any word and stays.
	loops bool
	// ends are the numbers of the patterns that end here.
	ends []int
}

func (t *trie) add(pattern string, number int) {
	if len(t.nodes) == 0 {
		t.nodes = []node{{}}
	}
	at := int32(0)
	child := func(loops bool) int32 {
		t.nodes = append(t.nodes, node{loops: loops})
		return int32(len(t.nodes) - 1)
	}
	for _, w := range words(pattern) {
		switch w {
		case "*":
			if t.nodes[at].star == 0 {
				n := child(false)
				t.nodes[at].star = n
			}
			at = t.nodes[at].star
		case "#":
			if t.nodes[at].hash == 0 {
				n := child(true)
				t.nodes[at].hash = n
			}
			at = t.nodes[at].hash
		default:
			to, ok := t.nodes[at].words[w]
			if !ok {
				to = child(false)
				if t.nodes[at].words == nil {
					t.nodes[at].words = map[string]int32{}
				}
				t.nodes[at].words[w] = to
			}
			at = to
		}
	}
	t.nodes[at].ends = append(t.nodes[at].ends, number)
}

// close adds to a set of nodes those that # reaches without a word, and sorts it.
func (t *trie) close(set []int32) []int32 {
	for i := 0; i < len(set); i++ {
		if h := t.nodes[set[i]].hash; h != 0 {
			set = append(set, h)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// determine makes one automaton of all the patterns.
func (t *trie) determine(left *int) ([]state, bool) {
	if len(t.nodes) == 0 {
		return nil, true
	}
	number := map[string]int32{}
	var sets [][]int32
	size := 0
	meet := func(set []int32) int32 {
		if len(set) == 0 {
			return nowhere
		}
		set = t.close(set)
		size += len(set)
		name := nameOf(set)
		n, ok := number[name]
		if !ok {
			n = int32(len(sets))
			number[name] = n
			sets = append(sets, set)
		}
		return n
	}
	meet([]int32{0})
	var raw []state
	for i := 0; i < len(sets); i++ {
		var s state
		var any []int32
		var named []string
		for _, n := range sets[i] {
			from := &t.nodes[n]
			s.accept = s.accept || len(from.ends) > 0
			if from.loops {
				any = append(any, n)
			}
			if from.star != 0 {
				any = append(any, from.star)
			}
			for w := range from.words {
				named = append(named, w)
			}
		}
		// A key of one empty word does not exist: "" has none.
		if i == 0 && len(any) > 0 {
			named = append(named, "")
		}
		slices.Sort(named)
		s.other = meet(slices.Clone(any))
		for _, w := range slices.Compact(named) {
			set := slices.Clone(any)
			for _, n := range sets[i] {
				if to, ok := t.nodes[n].words[w]; ok {
					set = append(set, to)
				}
			}
			s.words = append(s.words, edge{w, meet(set)})
		}
		raw = append(raw, s)
		size += len(s.words) + 1
		if size > maxTransitions || *left < size {
			return nil, false
		}
	}
	*left -= size
	return withoutEmptyWord(raw), true
}

// withoutEmptyWord takes the key that is one empty word out of an automaton. The
// start may be met again later, so that it is copied first.
func withoutEmptyWord(raw []state) []state {
	to := raw[0].next("")
	if to == nowhere || !raw[to].accept {
		return raw
	}
	start, end := raw[0], raw[to]
	first := int32(len(raw))
	raw = append(raw, start)
	end.accept = false
	raw = append(raw, end)
	// State 0 becomes the copy that only the start is; the old one moves away.
	for i := range raw {
		moved := slices.Clone(raw[i].words)
		for j := range moved {
			if moved[j].to == 0 {
				moved[j].to = first
			}
		}
		raw[i].words = moved
		if raw[i].other == 0 {
			raw[i].other = first
		}
	}
	edges := raw[0].words
	i, _ := slices.BinarySearchFunc(edges, "", func(e edge, w string) int { return strings.Compare(e.word, w) })
	edges[i].to = first + 1
	return raw
}

func nameOf(set []int32) string {
	b := make([]byte, 0, 4*len(set))
	for _, n := range set {
		b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	return string(b)
}
