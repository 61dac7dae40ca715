package dpkg

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	// Ascending; the versions on one line are equal.
	order := [][]Version{
		{"~~"},
		{"~~a"},
		{"~"},
		{"", "0", "0-0", "0:0", "00"},
		{"0a"},
		{"0+"},
		{"1.0~rc1-1"},
		{"1.0~rc1-1.1"},
		{"1.0", "1.0-0", "0:1.0", "01.00"},
		{"1.0-0+b1"},
		{"1.0-1~bpo12+1"},
		{"1.0-1"},
		{"1.0-1+b1"},
		{"1.0-1.1"},
		{"1.0a"},
		{"1.0+dfsg-1"},
		{"1.0.1"},
		{"1.2-9"},
		{"1.2-10", "1.2-010"},
		{"1.10"},
		{"418.87.01-1"},
		{"418.226.00-3"},
		{"535.261.03-1~deb12u1"},
		{"535.261.03-1"},
		{"99999999999999999999999999999999"},
		{"100000000000000000000000000000000"},
		{"1:0.1"},
		{"1:1.0"},
		{"2:0"},
		{"10:0"},
	}
	for i, a := range order {
		for j, b := range order {
			for _, x := range a {
				for _, y := range b {
					assert.Equalf(t, cmp.Compare(i, j), Compare(x, y), "Compare(%q, %q)", x, y)
				}
			}
		}
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"1", "1:2.3-4", "1.0~rc1+dfsg-1~bpo12+1", "0:1-2-3", "1:2:3-1", "4.15.0-213.224"} {
		if v, err := ParseVersion(s); err != nil || string(v) != s {
			t.Errorf("ParseVersion(%q) = %q, %v", s, v, err)
		}
	}
	for _, s := range []string{"", "a1", "1-", ":1", "x:1", "-1:1", "1 2", "1_2", "1-2_3", "1:", "12345678901:1", "1-a:b", "1\n"} {
		assert.Errorf(t, assert.Err(ParseVersion(s)), "ParseVersion(%q) succeeded", s)
	}
}

func versions() *rapid.Generator[Version] {
	return rapid.Custom(func(t *rapid.T) Version {
		v := rapid.StringMatching(`[0-9][0-9a-c.+~]{0,8}`).Draw(t, "upstream")
		if rapid.Bool().Draw(t, "hyphenated") {
			v += "-" + rapid.StringMatching(`[0-9a-c.+~]{1,5}`).Draw(t, "revision")
		}
		if rapid.IntRange(0, 3).Draw(t, "epoch") == 0 {
			v = rapid.StringMatching(`[0-2]`).Draw(t, "epoch") + ":" + v
		}
		return Version(v)
	})
}

// TestCompareLikeDpkg asks dpkg about some hundred pairs. One shell loop serves all of them, because starting
// a process is the main cost.
func TestCompareLikeDpkg(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("no dpkg on this machine to compare with")
	}
	pairs := 400
	if testing.Short() {
		pairs = 50
	}
	var list [][2]Version
	var in bytes.Buffer
	for seed := range pairs {
		a, b := versions().Example(2*seed), versions().Example(2*seed+1)
		if seed%3 == 0 { // neighbours: two random versions rarely agree for long
			b = a + "~"
		}
		list = append(list, [2]Version{a, b})
		fmt.Fprintln(&in, a, b)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `while read -r a b; do
		if dpkg --compare-versions "$a" lt "$b"; then echo -1; elif dpkg --compare-versions "$a" eq "$b"; then echo 0; else echo 1; fi
	done`)
	cmd.Stdin = &in
	out := require.Value(cmd.Output())(t)
	answers := strings.Fields(string(out))
	if len(answers) != len(list) {
		t.Fatalf("%d answers to %d questions", len(answers), len(list))
	}
	for i, pair := range list {
		assert.Equalf(t, answers[i], fmt.Sprint(Compare(pair[0], pair[1])), "Compare(%q, %q), of which dpkg says", pair[0], pair[1])
	}
}
