package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// TestVerdict follows a goal with an alternative and one without through numbers on both sides of them.
func TestVerdict(t *testing.T) {
	t.Parallel()
	timed, limit := goal{"", 3, processor, "a/ours", "a/theirs", "a/tools"}, goal{"", 300, peak, "a/ours", "", ""}
	for name, c := range map[string]struct {
		goal    goal
		numbers string // CASE PROCESSOR ...
		want    string // ratio and verdict
	}{
		"three times":                {timed, "ours 10 theirs 30", "3.0 met"},
		"three times, in fractions":  {timed, "ours 0.8 theirs 2.4", "3.0 met"},
		"less than three times":      {timed, "ours 10 theirs 29", "2.9 **not met**"},
		"medians of three":           {timed, "ours 10 ours 90 ours 1 theirs 30", "3.0 met"},
		"met, whatever the tools":    {timed, "ours 10 theirs 30 tools 20", "3.0 met"},
		"tools could, we cannot":     {timed, "ours 20 theirs 30 tools 10", "1.5 **not met**"},
		"faster than the tools":      {timed, "ours 15 theirs 30 tools 15", "2.0 impossible with the C tools; faster than these: met"},
		"slower than the tools":      {timed, "ours 20 theirs 30 tools 15", "1.5 impossible with the C tools; slower than these: **not met**"},
		"ours was not measured":      {timed, "theirs 30", " not measured"},
		"the other was not measured": {timed, "ours 30", " not measured"},
		"zero is not a measurement":  {timed, "ours 0 theirs 30", " not measured"},
		"below":                      {limit, "ours 299", " met"},
		"not below":                  {limit, "ours 300", " **not met**"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for words := strings.Fields(c.numbers); len(words) > 0; words = words[2:] {
				text.WriteString("a\t" + words[0] + "\t\t" + words[1] + "000\t" + words[1] + "\t\n")
			}
			r := require.Value(read(strings.NewReader(text.String())))(t)
			assert.Equal(t, c.want, c.goal.ratio(r)+" "+c.goal.verdict(r))
		})
	}
}

// TestTables: the head, a goal and a case, and what is no file of raw numbers.
func TestTables(t *testing.T) {
	t.Parallel()
	numbers := filepath.Join(t.TempDir(), "bench.tsv")
	require.NoError(t, os.WriteFile(numbers, []byte("# a machine\nrunner\tfilled\t0.5\t\t0.1\t\nrunner\tempty\t40\t\t30\t\n"), 0o600))
	var out strings.Builder
	require.NoError(t, start([]string{numbers}, &out))
	for _, want := range []string{"a machine\n", "| 0.50 | 40.00 | 80.0 |  | 1 | met |", "| runner/empty | 1 | 40.00 | 0 | 30.00 | 0.0 |"} {
		assert.Contains(t, out.String(), want)
	}
	for text, want := range map[string]string{"a\tb\t1\n": "line 1: 3 columns", "a\tb\tsoon\t\t\t\n": `"soon"`} {
		assert.ErrorContains(t, assert.Err(read(strings.NewReader(text))), want)
	}
}
