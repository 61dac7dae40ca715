package matrix

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	rising := []string{"R390", "418.87.00", "418.87.01", "418.113", "418.226.00", "R535", "535.54.03", "535.104.05", "1000.1"}
	for i, a := range rising {
		for j, b := range rising {
			assert.Equalf(t, min(1, max(-1, i-j)), CompareVersions(a, b), "%s and %s", a, b)
		}
	}
	assert.Equal(t, 0, CompareVersions("418.87.1", "418.87.01"))
	assert.Equal(t, 0, CompareVersions("418.113", "418.113.00"))
}

// Versions in whatever form are ordered as their numbers are, and a range has what is between its ends.
func TestOrderOfVersions(t *testing.T) {
	t.Parallel()
	type form struct {
		numbers [3]int
		text    string
	}
	forms := rapid.Custom(func(t *rapid.T) form {
		n := [3]int{rapid.IntRange(100, 104).Draw(t, "branch"), rapid.IntRange(0, 12).Draw(t, "minor"), rapid.IntRange(0, 12).Draw(t, "patch")}
		texts := []string{fmt.Sprintf("%d.%d.%d", n[0], n[1], n[2]), fmt.Sprintf("%d.%02d.%02d", n[0], n[1], n[2])}
		if n[2] == 0 {
			texts = append(texts, fmt.Sprintf("%d.%02d", n[0], n[1]))
		}
		if n[1]+n[2] == 0 {
			texts = append(texts, fmt.Sprintf("R%d", n[0]), fmt.Sprint(n[0]))
		}
		return form{n, rapid.SampledFrom(texts).Draw(t, "text")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := forms.Draw(t, "a"), forms.Draw(t, "b"), forms.Draw(t, "c")
		want := slices.Compare(a.numbers[:], b.numbers[:])
		assert.Equalf(t, want, CompareVersions(a.text, b.text), "%s and %s", a.text, b.text)
		assert.Equalf(t, want == 0, canonical(a.text) == canonical(b.text), "%s and %s are one", a.text, b.text)
		assert.Equal(t, a.numbers[0], Major(a.text))
		if a.text[0] == 'R' || c.text[0] == 'R' { // no end of a range
			return
		}
		from, below := driverinfo.Span{From: a.text}, driverinfo.Span{Below: c.text}
		assert.Equalf(t, want <= 0, inRange(b.text, from), "%s in %v", b.text, from)
		assert.Equalf(t, CompareVersions(b.text, c.text) < 0, inRange(b.text, below), "%s in %v", b.text, below)
		both := driverinfo.Span{From: a.text, Below: c.text}
		assert.Equalf(t, inRange(b.text, from) && inRange(b.text, below), inRange(b.text, both), "%s in %v", b.text, both)
		assert.Equal(t, true, inRange(b.text, driverinfo.Span{}))
	})
}

// What is no version is older than all that are: an unknown version never passes for a new one.
func TestNoVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "R", "418.x", "99999999999999999999.1", "-1"} {
		assert.Equalf(t, -1, CompareVersions(text, "71.86"), "%q", text)
		assert.Equalf(t, 0, Major(text), "%q", text)
	}
}
