package releases

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
)

// Fix is a row of NVIDIA's security bulletins: the first release of a branch in which a
// vulnerability is fixed.
type Fix struct {
	CVE      string  // "CVE-2026-47501"
	Score    float64 // CVSS 3 base score, 0 to 10
	Bulletin string  // NVIDIA's number of it: "5861"
	Date     string  // of its first edition: "2026-09-30"
	Branch   string  // "R580"
	Version  string  // of this branch: "580.178.04"
	Products string  // of which the bulletin speaks: "geforce,rtx,tesla,vgpu-guest"
}

// Vulnerability is a CVE that a driver has, as far as the bulletins say.
type Vulnerability struct {
	CVE      string  `json:"cve"`
	Score    float64 `json:"score"` // CVSS 3 base score, 0 to 10
	Bulletin string  `json:"bulletin"`
	Date     string  `json:"date"` // of the bulletin
	// the first release of the branch with the fix; "": the branch had ended, and no fix will come
	Fixed string `json:"fixed,omitempty"`
}

// Exposure sums up the vulnerabilities of a driver.
type Exposure struct {
	Count   int     `json:"count" yaml:"count"`
	Unfixed int     `json:"unfixed" yaml:"unfixed"` // of these, for which no fix will come
	Highest float64 `json:"highest" yaml:"highest"` // score
	// the first release of the branch without those that have a fix; "" if none has
	Fixed string `json:"fixed,omitempty" yaml:"fixed,omitempty"`
}

// VulnerabilityTable is what is known of vulnerabilities. It never changes.
type VulnerabilityTable struct {
	fixes []Fix
	found sync.Map // []Vulnerability, by driver
}

// BuiltinVulnerabilities returns the table in this program: see the head of
// data/vulnerabilities.tsv.
var BuiltinVulnerabilities = sync.OnceValue(func() *VulnerabilityTable {
	t := new(VulnerabilityTable)
	for _, row := range rows("vulnerabilities.tsv") {
		score, _ := strconv.ParseFloat(row[1], 64)
		t.fixes = append(t.fixes, Fix{
			CVE:      row[0],
			Score:    score,
			Bulletin: row[2],
			Date:     row[3],
			Branch:   row[4],
			Version:  row[5],
			Products: row[6],
		})
	}
	return t
})

// With returns the table with the fixes of other bulletins, which replace those of the same number.
// A table that contradicts itself is an error.
func (t *VulnerabilityTable) With(fixes []Fix) (*VulnerabilityTable, error) {
	newer := map[string]bool{}
	for _, f := range fixes {
		newer[f.Bulletin] = true
	}
	isReplaced := func(f Fix) bool { return newer[f.Bulletin] }
	kept := slices.DeleteFunc(slices.Clone(t.fixes), isReplaced)
	all := &VulnerabilityTable{fixes: append(kept, fixes...)}
	return all, all.check()
}

// String returns the row as data/vulnerabilities.tsv has it.
func (f Fix) String() string {
	score := strconv.FormatFloat(f.Score, 'g', -1, 64)
	return strings.Join([]string{f.CVE, score, f.Bulletin, f.Date, f.Branch, f.Version, f.Products}, "\t")
}

// Differences compares the table with the rows of bulletins: those that the table lacks begin with
// "+", and those that it has of a bulletin which has them no longer with "-".
func (t *VulnerabilityTable) Differences(fixes []Fix) (lines []string) {
	read := map[string]bool{} // bulletins
	for _, f := range fixes {
		read[f.Bulletin] = true
		if !slices.Contains(t.fixes, f) {
			lines = append(lines, "+"+f.String())
		}
	}
	for _, f := range t.fixes {
		if read[f.Bulletin] && !slices.Contains(fixes, f) {
			lines = append(lines, "-"+f.String())
		}
	}
	return lines
}

var (
	cveShape      = regexp.MustCompile(`^CVE-[0-9]{4}-[0-9]{4,7}$`)
	bulletinShape = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,31}$`)
)

const maxScore = 10

// check returns what is wrong with the first row of which something is.
func (t *VulnerabilityTable) check() error {
	dates := map[string]string{}
	scores := map[string]float64{} // by bulletin and CVE: a later bulletin may correct one
	for _, f := range t.fixes {
		_, err := time.Parse(time.DateOnly, f.Date)
		key := f.Bulletin + " " + f.CVE
		date, dated := dates[f.Bulletin]
		score, scored := scores[key]
		wrong := ""
		switch {
		case !cveShape.MatchString(f.CVE):
			wrong = "it is no CVE"
		case !bulletinShape.MatchString(f.Bulletin) || err != nil:
			wrong = fmt.Sprintf("bulletin %.40q of %.40q: want a number and a day", f.Bulletin, f.Date)
		case f.Score < 0 || f.Score > maxScore:
			wrong = fmt.Sprintf("its score %g is not one of 0 to 10", f.Score)
		case !matrix.HasForm("version", f.Version):
			wrong = fmt.Sprintf("fixed in %.40q, which is no driver version", f.Version)
		case BranchOf(f.Version) != f.Branch:
			wrong = fmt.Sprintf("%s is fixed in %s, which is not of this branch", f.Branch, f.Version)
		case dated && date != f.Date:
			wrong = fmt.Sprintf("bulletin %s is of %s and of %s", f.Bulletin, date, f.Date)
		case scored && score != f.Score:
			wrong = fmt.Sprintf("bulletin %s has the scores %g and %g", f.Bulletin, score, f.Score)
		}
		if wrong != "" {
			return fmt.Errorf("vulnerability %.40q: %s", f.CVE, wrong)
		}
		dates[f.Bulletin] = f.Date
		scores[key] = f.Score
	}
	return nil
}

// Of returns the vulnerabilities of a driver, the highest score first. A driver has one if its
// branch has a later release with the fix. If a bulletin names other branches alone, and the
// driver's branch had ended before it, NVIDIA says in the bulletin that the branch may be affected
// too: that counts as a vulnerability for which no fix will come. Of a branch that had not ended,
// such a bulletin says nothing, and neither does an empty answer: it is no promise.
func (t *VulnerabilityTable) Of(driver string) []Vulnerability {
	kept, ok := t.found.Load(driver)
	if !ok {
		kept, _ = t.found.LoadOrStore(driver, t.find(driver))
	}
	all, _ := kept.([]Vulnerability)
	return all
}

func (t *VulnerabilityTable) find(driver string) (all []Vulnerability) {
	name := BranchOf(driver)
	branch, _ := Builtin().Branch(name)
	speaks := map[string]bool{}  // bulletins of the branch
	latest := map[string]Fix{}   // of the branch, by CVE: products may have it in different releases
	unfixed := map[string]bool{} // CVEs that are listed already
	for _, f := range t.fixes {
		if f.Branch != name {
			continue
		}
		speaks[f.Bulletin] = true
		if matrix.CompareVersions(f.Version, latest[f.CVE].Version) > 0 {
			latest[f.CVE] = f
		}
	}
	for _, f := range t.fixes {
		_, fixed := latest[f.CVE]
		day, _ := time.Parse(time.DateOnly, f.Date)
		if fixed || speaks[f.Bulletin] || unfixed[f.CVE] || !branch.Ended(day) {
			continue
		}
		unfixed[f.CVE] = true
		all = append(all, Vulnerability{f.CVE, f.Score, f.Bulletin, f.Date, ""})
	}
	for _, f := range latest {
		if matrix.CompareVersions(f.Version, driver) > 0 {
			all = append(all, Vulnerability{f.CVE, f.Score, f.Bulletin, f.Date, f.Version})
		}
	}
	slices.SortFunc(all, func(a, b Vulnerability) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.CVE, b.CVE))
	})
	return all
}

// Exposure sums up the vulnerabilities of a driver; nil if none is known.
func (t *VulnerabilityTable) Exposure(driver string) *Exposure {
	all := t.Of(driver)
	if len(all) == 0 {
		return nil
	}
	sum := &Exposure{Count: len(all), Highest: all[0].Score}
	for _, v := range all {
		if v.Fixed == "" {
			sum.Unfixed++
			continue
		}
		if sum.Fixed == "" || matrix.CompareVersions(v.Fixed, sum.Fixed) > 0 {
			sum.Fixed = v.Fixed
		}
	}
	return sum
}

// String returns the sum as a column has it: "100 up to 8.8 (82 no fix)"; "" of none.
func (e *Exposure) String() string {
	switch {
	case e == nil:
		return ""
	case e.Unfixed == 0:
		return fmt.Sprintf("%d up to %.1f", e.Count, e.Highest)
	case e.Unfixed == e.Count:
		return fmt.Sprintf("%d up to %.1f (no fix)", e.Count, e.Highest)
	}
	return fmt.Sprintf("%d up to %.1f (%d no fix)", e.Count, e.Highest, e.Unfixed)
}

// Explain says in words what mends the driver: "18 known CVEs up to 8.8, fixed in 535.309.01".
func (e *Exposure) Explain() string {
	text := fmt.Sprintf("%d known CVEs up to %.1f", e.Count, e.Highest)
	switch {
	case e.Unfixed == e.Count:
		return text + ", for which no fix will come"
	case e.Unfixed > 0:
		return fmt.Sprintf("%s, %d fixed in %s, no fix will come for the others", text, e.Count-e.Unfixed, e.Fixed)
	}
	return text + ", fixed in " + e.Fixed
}
