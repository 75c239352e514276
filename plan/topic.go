package plan

import (
	"strings"

	"github.com/rabbitctl/rabbitctl/internal/topology"
)

// keyIndex finds the bindings of a direct or topic exchange that a routing key
// takes.
type keyIndex struct {
	literal  map[string][]*topology.Binding
	patterns []*topology.Binding // of a topic exchange, with * or #
}

func newKeyIndex(bindings []*topology.Binding, topic bool) *keyIndex {
	x := &keyIndex{literal: map[string][]*topology.Binding{}}
	for _, b := range bindings {
		if topic && strings.ContainsAny(b.RoutingKey, "*#") {
			x.patterns = append(x.patterns, b)
		} else {
			x.literal[b.RoutingKey] = append(x.literal[b.RoutingKey], b)
		}
	}
	return x
}

func (x *keyIndex) find(key string) []*topology.Binding {
	found := x.literal[key]
	for _, b := range x.patterns {
		if topicMatches(b.RoutingKey, key) {
			found = append(found[:len(found):len(found)], b)
		}
	}
	return found
}

// topicMatches compares a topic exchange's binding key with a routing key: words
// between dots, * for one word, # for any number of words.
func topicMatches(pattern, key string) bool {
	words := topicWords(key)
	// reached[i]: the pattern read so far matches the first i words.
	reached := make([]bool, len(words)+1)
	reached[0] = true
	for _, p := range topicWords(pattern) {
		next := make([]bool, len(words)+1)
		for i := range reached {
			if p == "#" {
				next[i] = reached[i] || i > 0 && next[i-1]
			} else {
				next[i] = i > 0 && reached[i-1] && (p == "*" || p == words[i-1])
			}
		}
		reached = next
	}
	return reached[len(words)]
}

// topicWords splits a key; the empty one has no words.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}
