package text

import (
	"slices"
	"strings"
)

// Nearest returns the name that a misspelt one most likely means, or "". Case,
// and dashes for underscores, count as no difference.
func Nearest(wrong string, names []string) string {
	if wrong == "" || len(wrong) > 64 {
		return ""
	}
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	w := plain(wrong)
	best, bestDistance := "", 1+max(1, min(3, len(wrong)/3))
	for _, name := range slices.Sorted(slices.Values(names)) {
		if d := distance(w, plain(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour to get from a to b.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
