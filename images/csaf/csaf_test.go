package csaf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/releases"
)

// fixed is a product that a bulletin says to be fixed.
type fixed struct{ platform, name, version string }

// bulletin is a document of the form that NVIDIA publishes, with one CVE for each list of products.
func bulletin(id string, score float64, cves ...[]fixed) string {
	object := func(pairs ...any) map[string]any {
		all := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			all[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return all
	}
	var platforms, vulnerabilities []any
	for n, products := range cves {
		var ids []string
		for i, p := range products {
			product := fmt.Sprintf("p%d_%d", n, i)
			ids = append(ids, product)
			version := object("category", "product_version", "name", p.name, "product", object("product_id", product, "name", p.version))
			platforms = append(platforms, object("category", "architecture", "name", p.platform, "branches", []any{version}))
		}
		vulnerabilities = append(vulnerabilities, object(
			"cve", fmt.Sprintf("CVE-2027-%04d", n+1), "product_status", object("fixed", ids), "scores", []any{object("cvss_v3", object("baseScore", score))},
		))
	}
	text, _ := json.Marshal(object(
		"document", object("csaf_version", "2.0", "category", "csaf_security_advisory", "publisher", object("namespace", "https://www.nvidia.com/security"),
			"tracking", object("id", id, "initial_release_date", "2027-01-20T00:00:00Z", "status", "final")),
		"product_tree", object("branches", []any{object("category", "vendor", "name", "NVIDIA", "branches", platforms)}),
		"vulnerabilities", vulnerabilities,
	))
	return string(text)
}

var driver = []fixed{
	{"Linux(R580)", "GeForce", "580.200.01"}, {"Linux(R580)", "Tesla", "580.200.01"}, {"Linux(R580)", "NVIDIA RTX, Quadro, NVS", "580.200.01"},
	{"Linux(R580 vGPU 19)", "Guest driver", "580.200.01(vGPU 19.9)"}, {"Linux(vGPU 20)", "vGPU software (guest driver)", "595.200.01(vGPU 20.5)"},
	{"Windows(R580)", "GeForce", "582.99"}, {"Linux(Cloud Gaming)", "Guest driver", "595.200.02(May release)"},
	{"XenServer, VMware vSphere(R580 vGPU 19)", "Virtual GPU Manager", "580.200.02(vGPU 19.9)"},
}

// TestParse: the rows are those of the driver for Linux, and what is no release of its branch is named.
func TestParse(t *testing.T) {
	t.Parallel()
	wrong := []fixed{{"Linux(R535)", "Tesla", "575.274.02(vGPU 16.12)"}, {"Linux(R535)", "GeForce", "see below"}, {"Linux(R535)", "Tesla", "535.400.01"}}
	fixes, notes, err := Parse([]byte(bulletin("9001", 7.8, driver, wrong)))
	assert.NoError(t, err)
	row := releases.Fix{CVE: "CVE-2027-0001", Score: 7.8, Bulletin: "9001", Date: "2027-01-20", Branch: "R580", Version: "580.200.01", Products: "geforce,rtx,tesla,vgpu-guest"}
	guest := row
	guest.Branch, guest.Version, guest.Products = "R595", "595.200.01", "vgpu-guest"
	other := row
	other.CVE, other.Branch, other.Version, other.Products = "CVE-2027-0002", "R535", "535.400.01", "tesla"
	assert.Same(t, []releases.Fix{row, guest, other}, fixes)
	assert.Same(t, []string{
		`CVE-2027-0002: left out "575.274.02(vGPU 16.12)" of "Linux(R535)", which is no release of that branch`,
		`CVE-2027-0002: left out "see below" of "Linux(R535)", which is no release of that branch`,
	}, notes)
	known := require.Value(releases.BuiltinVulnerabilities().With(fixes))(t)
	assert.Equal(t, "1 up to 7.8", known.Exposure("580.178.04").String())
}

// TestContradiction: of two fixed releases that a bulletin names for a product and a branch, in any order, the later one
// counts, and a note names both.
func TestContradiction(t *testing.T) {
	t.Parallel()
	early, late := fixed{"Linux(R580)", "Tesla", "580.200.01"}, fixed{"Linux(R580)", "Tesla", "580.250.01"}
	other := fixed{"Linux(R580)", "GeForce", "580.190.01"}
	for _, products := range [][]fixed{{early, late, other}, {other, late, early}} {
		fixes, notes, err := Parse([]byte(bulletin("9001", 7.8, products)))
		assert.NoError(t, err)
		assert.Equal(t, 3, len(fixes))
		assert.Equalf(t, 1, len(notes), "%q", notes)
		for _, word := range []string{"580.200.01", "580.250.01", "tesla: the later one counts"} {
			assert.Contains(t, notes[0], word)
		}
		known := require.Value(releases.BuiltinVulnerabilities().With(fixes))(t)
		assert.Equal(t, "1 known CVEs up to 7.8, fixed in 580.250.01", known.Exposure("580.200.01").Explain())
	}
}

// TestHostile: what is no bulletin of NVIDIA about its driver is refused, or has no rows.
func TestHostile(t *testing.T) {
	t.Parallel()
	sound := bulletin("9001", 7.8, driver)
	replace := func(old, fresh string) string { return strings.Replace(sound, old, fresh, 1) }
	many := make([]fixed, maxProducts+1)
	for wrong, text := range map[string]string{
		"csaf_version":              replace(`"csaf_version":"2.0"`, `"x":1`),
		`csaf_version "3.0"`:        replace(`"csaf_version":"2.0"`, `"csaf_version":"3.0"`),
		"its publisher is":          replace("https://www.nvidia.com/security", "https://nvidia.com.example.org/"),
		"is a draft":                replace(`"final"`, `"draft"`),
		"has no date":               replace("2027-01-20T00:00:00Z", ""),
		"want a number and a day":   replace("2027-01-20T00:00:00Z", "yesterday evening"),
		"it is no CVE":              replace("CVE-2027-0001", `CVE-2027-0001\u001b[2J`),
		"not one of 0 to 10":        replace(`"baseScore":7.8`, `"baseScore":78`),
		"duplicate":                 replace(`{"document":`, `{"vulnerabilities":[],"document":`),
		"nests more than 100 deep":  replace(`"branches":[`, `"branches":[`+strings.Repeat(`{"branches":[`, 60)),
		"more than 20000 products":  bulletin("9001", 7.8, many),
		"duplicate object member":   replace(`"product_tree"`, `"Product_Tree":{"branches":[{}]},"product_tree"`),
		"something follows its end": sound + "{}",
	} {
		_, _, err := Parse([]byte(text))
		assert.ErrorContainsf(t, err, wrong, "%s", wrong)
		assert.Equalf(t, failure.Content, failure.KindOf(err), "%s", wrong)
	}
	fixes, notes, err := Parse([]byte(bulletin("9002", 9.8, []fixed{{"Linux", "NVIDIA Triton Inference Server", "25.01"}, {"Linux(R580)", "DGX OS", "580.1"}})))
	assert.NoError(t, err)
	assert.Equal(t, 0, len(fixes)+len(notes))
	_, notes, err = Parse([]byte(strings.Replace(sound, `"fixed":["p0_0"`, `"fixed":["other"`, 1)))
	assert.NoError(t, err)
	assert.Same(t, []string{`CVE-2027-0001: fixed in "other", which the document does not describe`}, notes)
}

// TestRead: a folder may be a clone with CVE records beside the bulletins.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	file := write("2027/9001/9001.json", bulletin("9001", 7.8, driver))
	write("2027/9001/CVE-2027-0001.json", `{"dataType": "CVE_RECORD"}`)
	write("2027/9001/9001.md", "#")
	fixes, notes, err := Read(dir)
	assert.NoError(t, err)
	assert.Equal(t, 2, len(fixes))
	assert.Same(t, []string{dir + ": left out 1 files that are drafts or no CSAF documents"}, notes)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	linked, _, err := Read(link)
	assert.NoError(t, err)
	assert.Same(t, fixes, linked)
	_, notes, err = Read(write("other.json", bulletin("9002", 9.8, nil)))
	assert.NoError(t, err)
	assert.Contains(t, strings.Join(notes, "\n"), "other.json: it names no driver for Linux")
	_, _, err = Read(filepath.Join(dir, "2027/9001/CVE-2027-0001.json"))
	assert.ErrorIs(t, err, ErrFormat)
	_, _, err = Read(filepath.Join(dir, "missing"))
	assert.Equal(t, failure.Usage, failure.KindOf(err))
	require.NoError(t, os.Truncate(file, maxFile+1))
	_, _, err = Read(dir)
	assert.ErrorContains(t, err, "larger than")
	_, _, err = Read(t.TempDir())
	assert.ErrorIs(t, err, ErrFormat)
}

// FuzzParse: whatever a document says, its rows are a table that does not contradict itself, and nothing in
// notes is longer than a line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(bulletin("9001", 7.8, driver)))
	f.Add([]byte(`{"document": {"csaf_version": "2.0"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fixes, notes, err := Parse(text)
		if err != nil {
			return
		}
		assert.NoError(t, assert.Err(releases.BuiltinVulnerabilities().With(fixes)))
		for _, note := range notes {
			assert.Equalf(t, true, len(note) < 1024, "%s", note)
		}
	})
}
