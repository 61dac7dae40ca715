// Package csaf reads security bulletins of NVIDIA about its display driver for Linux, in the form of
// CSAF 2.0 in which github.com/NVIDIA/product-security has them. A document goes in, and the first
// fixed releases of each branch come out. It does not say which driver is affected: package releases
// does that. The documents are not signed, so their content may only inform people.
package csaf

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/strictjson"
)

// ErrFormat says that a text is no such document.
var ErrFormat = failure.New(failure.Content, "no CSAF document of NVIDIA")

// errOther says that a document is none of those of a folder that count: a CVE record, a draft.
var errOther = fmt.Errorf("%w that counts", ErrFormat)

// document is what counts of a CSAF document.
type document struct {
	Document struct {
		Version   string `json:"csaf_version"`
		Publisher struct {
			Namespace string `json:"namespace"`
		} `json:"publisher"`
		Tracking struct {
			ID      string `json:"id"`
			Initial string `json:"initial_release_date"` // "2026-09-30T00:00:00Z"
			Status  string `json:"status"`
		} `json:"tracking"`
	} `json:"document"`
	Tree struct {
		Branches []branch `json:"branches"`
	} `json:"product_tree"`
	Vulnerabilities []vulnerability `json:"vulnerabilities"`
}

// branch is a node of the tree of products. NVIDIA has the platform as an architecture,
// "Linux(R580)", and below it the version that has the fix, whose branch is named "Tesla".
type branch struct {
	Category string   `json:"category"`
	Name     string   `json:"name"`
	Branches []branch `json:"branches"`
	Product  struct {
		ID   string `json:"product_id"`
		Name string `json:"name"` // "580.178.04", "580.178.04(vGPU 19.6)"
	} `json:"product"`
}

type vulnerability struct {
	CVE    string `json:"cve"`
	Status struct {
		Fixed []string `json:"fixed"` // IDs of products
	} `json:"product_status"`
	Scores []struct {
		CVSS struct {
			Base float64 `json:"baseScore"`
		} `json:"cvss_v3"`
	} `json:"scores"`
}

// product is a version of a product on a platform.
type product struct{ platform, name, version string }

const (
	maxProducts = 20_000 // of a document; that of September 2026 has about 250
	maxFixes    = 200_000
	maxNotes    = 20
)

// Parse reads a document. Rows that name no version of their branch are left out, and notes name
// them. A document about other products has no rows.
func Parse(text []byte) (fixes []releases.Fix, notes []string, err error) {
	d, err := strictjson.Decode[document](text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	err = d.check()
	if err != nil {
		return nil, nil, err
	}
	products := map[string]product{}
	err = collect(products, d.Tree.Branches, "")
	if err != nil {
		return nil, nil, err
	}
	found := &found{rows: map[releases.Fix][]string{}, versions: map[string]string{}}
	for _, v := range d.Vulnerabilities {
		for _, id := range v.Status.Fixed {
			p, known := products[id]
			if !known {
				found.note("%.40s: fixed in %.80q, which the document does not describe", v.CVE, id)
				continue
			}
			found.add(d, v, p)
		}
		if len(found.rows) > maxFixes {
			return nil, nil, fmt.Errorf("%w: it has more than %d fixes", ErrFormat, maxFixes)
		}
	}
	fixes = found.fixes()
	_, err = new(releases.VulnerabilityTable).With(fixes)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return fixes, found.notes, nil
}

// check says whether it is a bulletin of NVIDIA that is out.
func (d *document) check() error {
	from, err := url.Parse(d.Document.Publisher.Namespace)
	switch {
	case d.Document.Version == "":
		return fmt.Errorf("%w: it has no csaf_version", errOther)
	case d.Document.Version != "2.0":
		return fmt.Errorf("%w: csaf_version %.20q, want 2.0", ErrFormat, d.Document.Version)
	case err != nil || from.Host != "nvidia.com" && !strings.HasSuffix(from.Host, ".nvidia.com"):
		return fmt.Errorf("%w: its publisher is %.80q", ErrFormat, d.Document.Publisher.Namespace)
	case d.Document.Tracking.Status == "draft":
		return fmt.Errorf("%w: bulletin %.40q is a draft", errOther, d.Document.Tracking.ID)
	case len(d.Document.Tracking.Initial) < len("2006-01-02"):
		return fmt.Errorf("%w: bulletin %.40q has no date", ErrFormat, d.Document.Tracking.ID)
	}
	return nil
}

// collect notes the products of a tree by their IDs.
func collect(products map[string]product, branches []branch, platform string) error {
	for _, b := range branches {
		on := platform
		if b.Category == "architecture" {
			on = b.Name
		}
		if b.Product.ID != "" {
			products[b.Product.ID] = product{on, b.Name, b.Product.Name}
		}
		if len(products) > maxProducts {
			return fmt.Errorf("%w: it has more than %d products", ErrFormat, maxProducts)
		}
		err := collect(products, b.Branches, on)
		if err != nil {
			return err
		}
	}
	return nil
}

// found is what was found in a document.
type found struct {
	rows     map[releases.Fix][]string // products, by the row without them
	versions map[string]string         // with the fix, by CVE, branch and product
	notes    []string
}

func (f *found) note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if len(f.notes) < maxNotes && !slices.Contains(f.notes, note) {
		f.notes = append(f.notes, note)
	}
}

var (
	linux = regexp.MustCompile(`^Linux ?\((.*)\)$`)
	// in the platform's parentheses: R580, R580 vGPU 19, vGPU 19
	branchName = regexp.MustCompile(`\bR[0-9]{3,4}\b`)
	leading    = regexp.MustCompile(`^[0-9]{3,4}(\.[0-9]{1,3}){1,2}`)
)

// words are the products as the table names them, by a part of their names.
var words = []struct{ part, word string }{
	{"guest driver", "vgpu-guest"}, {"geforce", "geforce"}, {"tesla", "tesla"}, {"rtx", "rtx"}, {"quadro", "rtx"},
}

// add adds the row that a fixed product makes, if it is the driver for Linux.
func (f *found) add(d document, v vulnerability, p product) {
	platform := linux.FindStringSubmatch(p.platform)
	name := strings.ToLower(p.name)
	at := slices.IndexFunc(words, func(w struct{ part, word string }) bool { return strings.Contains(name, w.part) })
	if platform == nil || at < 0 || strings.Contains(strings.ToLower(p.platform+name), "gaming") {
		return
	}
	version := leading.FindString(strings.TrimSpace(p.version))
	named := branchName.FindString(platform[1])
	if !matrix.HasForm("version", version) || named != "" && named != releases.BranchOf(version) {
		f.note("%.40s: left out %.40q of %.40q, which is no release of that branch", v.CVE, p.version, p.platform)
		return
	}
	if len(v.Scores) == 0 {
		f.note("%.40s has no score, and counts as 0", v.CVE)
	}
	row := releases.Fix{
		CVE:      v.CVE,
		Bulletin: d.Document.Tracking.ID,
		Date:     d.Document.Tracking.Initial[:len("2006-01-02")],
		Branch:   releases.BranchOf(version),
		Version:  version,
	}
	for _, s := range v.Scores {
		row.Score = max(row.Score, s.CVSS.Base)
	}
	word := words[at].word
	key := row.CVE + " " + row.Branch + " " + word
	other := cmp.Or(f.versions[key], version)
	if other != version {
		f.note("%.40s: %s is fixed in %s and in %s for %s: the later one counts", v.CVE, row.Branch, other, version, word)
	}
	f.versions[key] = version
	if !slices.Contains(f.rows[row], word) {
		f.rows[row] = append(f.rows[row], word)
	}
}

// fixes returns the rows by CVE, branch and version.
func (f *found) fixes() (all []releases.Fix) {
	for row, products := range f.rows {
		slices.Sort(products)
		row.Products = strings.Join(products, ",")
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b releases.Fix) int {
		return cmp.Or(
			strings.Compare(a.CVE, b.CVE),
			strings.Compare(a.Branch, b.Branch),
			matrix.CompareVersions(a.Version, b.Version),
		)
	})
	return all
}
