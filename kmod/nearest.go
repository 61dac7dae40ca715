package kmod

import (
	"maps"
	"slices"
	"strings"
)

// nearest returns the parameter that was probably meant: the same name in another case or without NVreg_, or
// else the name that the fewest changed letters lead to, at most a third of its letters.
func (i Info) nearest(name string) string {
	plain := func(s string) string {
		return strings.TrimPrefix(strings.ToLower(ModuleName(s)), "nvreg_")
	}
	if len(name) > 128 {
		return ""
	}
	want, best, least := plain(name), "", len(name)/3+1
	for _, have := range slices.Sorted(maps.Keys(i.Params)) {
		if len(have) > 128 {
			continue
		}
		if d := distance(plain(have), want); d < least {
			best, least = have, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or change (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
