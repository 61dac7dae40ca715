package releases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestVulnerabilitiesByHand: what awk counts in the table of twelve drivers, beside the ends of
// support in branches.tsv.
func TestVulnerabilitiesByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		driver         string
		count, unfixed int
		highest        float64
		fixed          string
	}{
		{"390.157", 138, 138, 8.8, ""},
		{"470.256.02", 113, 113, 8.8, ""},
		{"510.73.05", 167, 138, 8.8, "510.108.03"},
		{"525.147.05", 120, 120, 8.8, ""},
		{"535.261.03", 100, 82, 8.8, "535.309.01"},
		{"535.309.01", 82, 82, 7.8, ""},
		{"550.163.01", 106, 106, 8.8, ""},
		{"570.86.15", 111, 94, 8.8, "570.211.01"},
		{"580.126.09", 94, 0, 8.8, "580.178.04"},
		{"590.48.01", 94, 94, 8.8, ""},
		{"595.84", 82, 0, 7.8, "595.91.07"},
		{"610.43.02", 80, 0, 7.8, "610.57.04"},
	} {
		got := BuiltinVulnerabilities().Exposure(c.driver)
		assert.Samef(t, &Exposure{c.count, c.unfixed, c.highest, c.fixed}, got, "%s", c.driver)
	}
	for _, driver := range []string{"580.178.04", "595.91.07", "610.57.04", "615.71.09", "620.70.06"} {
		assert.Equalf(t, "", BuiltinVulnerabilities().Exposure(driver).String(), "%s", driver)
	}
	perBulletin := map[string]int{}
	for _, v := range BuiltinVulnerabilities().Of("535.261.03") {
		if v.Fixed != "" {
			perBulletin[v.Bulletin]++
		}
	}
	assert.Same(t, map[string]int{"5703": 6, "5747": 2, "5821": 10}, perBulletin)
}

// TestBuiltinVulnerabilities: the table has no row of another form, and does not contradict itself.
func TestBuiltinVulnerabilities(t *testing.T) {
	t.Parallel()
	assert.NoError(t, BuiltinVulnerabilities().check())
	for _, f := range BuiltinVulnerabilities().fixes {
		_, known := Builtin().Branch(f.Branch)
		assert.Equalf(t, true, known && f.Products != "", "%v", f)
	}
}

// TestNewerIsNotWorse: within a branch a later release never has more vulnerabilities, and no
// answer depends on the order of the rows.
func TestNewerIsNotWorse(t *testing.T) {
	t.Parallel()
	known := BuiltinVulnerabilities()
	rapid.Check(t, func(t *rapid.T) {
		branch := rapid.SampledFrom([]string{"390", "470", "510", "535", "570", "580", "595"}).Draw(t, "branch")
		version := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%s.%d.%02d", branch, rapid.IntRange(1, 320).Draw(t, "minor"), rapid.IntRange(1, 20).Draw(t, "patch"))
		})
		one := version.Draw(t, "one")
		other := version.Draw(t, "other")
		if matrix.CompareVersions(one, other) > 0 {
			one, other = other, one
		}
		older := known.Of(one)
		for _, v := range known.Of(other) {
			if !slices.Contains(older, v) {
				t.Fatalf("%s has %v, and %s has not", other, v, one)
			}
		}
		turned := &VulnerabilityTable{fixes: rapid.Permutation(known.fixes).Draw(t, "rows")}
		assert.Same(t, known.Exposure(one), turned.Exposure(one))
	})
}

// TestContradictions: a table that contradicts itself is refused, and a newer edition of a bulletin
// takes the place of the older one.
func TestContradictions(t *testing.T) {
	t.Parallel()
	sound := Fix{CVE: "CVE-2027-0001", Score: 7, Bulletin: "9999", Date: "2027-01-02", Branch: "R580", Version: "580.200.01"}
	for wrong, change := range map[string]func(*Fix){
		"no CVE":                       func(f *Fix) { f.CVE = "CVE-2027-0001; rm -rf /" },
		"want a number and a day":      func(f *Fix) { f.Date = "soon" },
		"not one of 0 to 10":           func(f *Fix) { f.Score = 11 },
		"no driver version":            func(f *Fix) { f.Version = "580.200.01 and later" },
		"not of this branch":           func(f *Fix) { f.Branch = "R595" },
		"is of 2027-01-02 and of 2027": func(f *Fix) { f.Date = "2027-01-03" },
		"has the scores 7 and 8":       func(f *Fix) { f.Score = 8 },
	} {
		bad := sound
		change(&bad)
		_, err := BuiltinVulnerabilities().With([]Fix{sound, bad})
		assert.ErrorContains(t, err, wrong)
	}
	known := require.Value(BuiltinVulnerabilities().With([]Fix{sound}))(t)
	assert.Equal(t, "1 known CVEs up to 7.0, fixed in 580.200.01", known.Exposure("580.178.04").Explain())
	sound.Version = "580.178.04"
	known = require.Value(known.With([]Fix{sound}))(t)
	assert.Equal(t, "", known.Exposure("580.178.04").String())
	assert.Equal(t, "", BuiltinVulnerabilities().Exposure("580.178.04").String())
}

// TestDifferences: the rows of a bulletin that the table lacks, and those that the bulletin lacks.
func TestDifferences(t *testing.T) {
	t.Parallel()
	known := BuiltinVulnerabilities()
	isOther := func(f Fix) bool { return f.Bulletin != "5586" }
	some := slices.DeleteFunc(slices.Clone(known.fixes), isOther)
	assert.Equal(t, 0, len(known.Differences(some)))
	gone := some[0]
	some[0].Score = 9.9
	assert.Same(t, []string{"+" + some[0].String(), "-" + gone.String()}, known.Differences(some))
	file := strings.TrimSuffix(string(require.Value(data.ReadFile("data/vulnerabilities.tsv"))(t)), "\n")
	assert.Containsf(t, file, "\n"+gone.String()+"\n", "the table")
}

func ExampleVulnerabilityTable_Of() {
	known := BuiltinVulnerabilities()
	for _, v := range known.Of("535.261.03")[:3] {
		fmt.Println(v.CVE, v.Score, "fixed in", v.Fixed)
	}
	fmt.Println(known.Exposure("535.261.03").Explain())
	fmt.Println(known.Exposure("470.256.02").Explain())
	// Output:
	// CVE-2026-24187 8.8 fixed in 535.309.01
	// CVE-2025-33219 7.8 fixed in 535.288.01
	// CVE-2025-33220 7.8 fixed in 535.288.01
	// 100 known CVEs up to 8.8, 18 fixed in 535.309.01, no fix will come for the others
	// 113 known CVEs up to 8.8, for which no fix will come
}
