package distros

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxSuggestions = 3
	maxWord        = 64 // bytes; longer words are not typing mistakes
)

// Nearest returns up to three similar words, best first: words that differ in few letters, in any
// case, or that begin with word. The same input gives the same list.
func Nearest(word string, among []string) []string {
	type candidate struct {
		word  string
		score int
	}
	if word == "" || len(word) > maxWord {
		return nil
	}
	lower := strings.ToLower(word)
	var found []candidate
	for _, other := range among {
		if len(other) > maxWord {
			continue
		}
		otherLower := strings.ToLower(other)
		d := distance(lower, otherLower)
		switch {
		case d <= max(1, len(lower)/3):
			found = append(found, candidate{other, d})
		case len(lower) >= 2 && strings.HasPrefix(otherLower, lower):
			found = append(found, candidate{other, maxWord + d}) // after all words with few changes
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.score, b.score),
			// Of equally near words, the one with the longest common beginning: typing mistakes
			// come late in a word.
			cmp.Compare(common(lower, b.word), common(lower, a.word)),
			cmp.Compare(a.word, b.word),
		)
	})
	var out []string
	for _, c := range found[:min(len(found), maxSuggestions)] {
		out = append(out, c.word)
	}
	return slices.Compact(out)
}

// distance is Levenshtein's distance, with a swap of neighbours as one step.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// common returns the length of the common beginning.
func common(a, b string) int {
	b = strings.ToLower(b)
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
