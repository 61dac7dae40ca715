package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

const header = "part\tcase\tseconds\tpeak KB\tprocessor seconds\tmachine before\tMB\n"

// TestJudge follows one goal of each kind through numbers on both sides of it.
func TestJudge(t *testing.T) {
	t.Parallel()
	timed := goal{"", times, 3, processor, "s", "a/ours", "a/theirs", "a/tools"}
	for name, c := range map[string]struct {
		goal    goal
		numbers string
		want    string // verdict, ratio and bound
	}{
		"three times":                 {timed, "a\tours\t9\t\t10\na\ttheirs\t9\t\t30\n", "met; 3; "},
		"three times, in fractions":   {timed, "a\tours\t9\t\t0.8\na\ttheirs\t9\t\t2.4\n", "met; 3; "},
		"less than three times":       {timed, "a\tours\t9\t\t10\na\ttheirs\t9\t\t29\n", "**not met**; 2.9; "},
		"medians of three":            {timed, "a\tours\t9\t\t10\na\tours\t9\t\t90\na\tours\t9\t\t1\na\ttheirs\t9\t\t30\n", "met; 3; "},
		"met, whatever the tools":     {timed, "a\tours\t9\t\t10\na\ttheirs\t9\t\t30\na\ttools\t1\t\t20\n", "met; 3; 20.0 s: 1.5"},
		"tools could, we cannot":      {timed, "a\tours\t9\t\t20\na\ttheirs\t9\t\t30\na\ttools\t1\t\t10\n", "**not met**; 1.5; 10.0 s: 3.0"},
		"faster than the tools":       {timed, "a\tours\t9\t\t15\na\ttheirs\t9\t\t30\na\ttools\t1\t\t15\n", "impossible with the C tools; faster than these: met; 2; 15.0 s: 2.0"},
		"slower than the tools":       {timed, "a\tours\t9\t\t20\na\ttheirs\t9\t\t30\na\ttools\t1\t\t15\n", "impossible with the C tools; slower than these: **not met**; 1.5; 15.0 s: 2.0"},
		"ours was not measured":       {timed, "a\ttheirs\t9\t\t30\n", "not measured; ; "},
		"the other was not measured":  {timed, "a\tours\t9\t\t30\n", "not measured; ; "},
		"zero is not a measurement":   {timed, "a\tours\t9\t\t\na\ttheirs\t9\t\t30\n", "not measured; ; "},
		"below":                       {goal{"", below, 10, elapsed, "s", "a/ours", "", ""}, "a\tours\t9.9\t\t\n", "met; ; "},
		"not below":                   {goal{"", below, 10, elapsed, "s", "a/ours", "", ""}, "a\tours\t10\t\t\n", "**not met**; ; "},
		"40 %":                        {goal{"", share, 0.4, megabytes, "MB", "a/ours", "a/theirs", ""}, "a\tours\t\t\t\t\t40\na\ttheirs\t\t\t\t\t100\n", "met; 0.40; "},
		"41 %":                        {goal{"", share, 0.4, megabytes, "MB", "a/ours", "a/theirs", ""}, "a\tours\t\t\t\t\t41\na\ttheirs\t\t\t\t\t100\n", "**not met**; 0.41; "},
		"peak memory is in kilobytes": {goal{"", below, 300, peak, "MB", "a/ours", "", ""}, "a\tours\t1\t299999\t\n", "met; ; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := c.goal.judge(require.Value(read(strings.NewReader(header + c.numbers)))(t))
			assert.Equal(t, c.want, strings.Join([]string{res.verdict, res.ratio, res.bound}, "; "))
		})
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\tb\t1\n":               "line 1: 3 columns",
		"a\tb\tsoon\t\t\n":        `line 1: seconds "soon"`,
		"a\tb\t1\t1\t1\tx\t1\t\n": "line 1: 8 columns",
	} {
		_, err := read(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}

// TestTables: the head, a goal and a case; the numbers of a busy machine are marked.
func TestTables(t *testing.T) {
	t.Parallel()
	for begin, marked := range map[string]bool{"# a machine\n": false, "# busy: 40 %\n": true} {
		numbers := filepath.Join(t.TempDir(), "bench.tsv")
		require.NoError(t, os.WriteFile(numbers, []byte(begin+header+"runner\tfilled\t0.5\t\t0.1\tload 0.3\nrunner\tempty\t40\t\t30\tload 0.9\n"), 0o600))
		var out strings.Builder
		require.NoError(t, start([]string{numbers}, &out))
		for _, want := range []string{"| 0.50 s | 40.0 s | 80 |  | 1, 0.9 | met |", "| runner | empty | 1 | 40.00 | 30.00 |  |  | 0.9 |"} {
			assert.Contains(t, out.String(), want)
		}
		assert.Equal(t, marked, strings.Contains(out.String(), "**Other programs used the machine: these numbers are no results.**"))
	}
}
