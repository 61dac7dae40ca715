package releases

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// Coverage is one branch, with what the matrix has of it.
type Coverage struct {
	Branch
	Over   bool     `json:"over"` // support has ended
	Newest string   `json:"newest,omitempty"`
	Date   string   `json:"newestDate,omitempty"`
	Matrix []string `json:"matrix"` // versions that the matrix has, rising
	// the matrix has the branch, but not its newest release
	Lags bool `json:"lags"`
	// where it lags: the newest missing release whose checksum is known
	Addable string `json:"addable,omitempty"`
	// RunsCUDA says how its newest release runs the release of CUDA that was asked for: native,
	// minor-version, none.
	RunsCUDA string `json:"runsCUDA,omitempty"`
	// the known CVEs of its newest release; nil if none is known
	Exposure *Exposure         `json:"vulnerabilities,omitempty"`
	Releases []ReleaseCoverage `json:"releases"`
}

// ReleaseCoverage is one release of a branch.
type ReleaseCoverage struct {
	Release
	InMatrix bool     `json:"inMatrix"`
	Archs    []string `json:"archs"`          // archives that are known
	Checked  []string `json:"checksums"`      // those whose sha256 is known
	CUDA     string   `json:"cuda,omitempty"` // the highest release that it runs natively
	// how it runs the release of CUDA that was asked for
	RunsCUDA string `json:"runsCUDA,omitempty"`

	// Recommended says why the driver is the one to take: "recommended: LTS until 2028-06".
	Recommended string `json:"recommended,omitempty"`

	// faults that the matrix knows of
	Advisories []driverinfo.Advisory `json:"advisories,omitempty"`
	// its known CVEs; nil if none is known
	Exposure *Exposure `json:"vulnerabilities,omitempty"`
}

// Coverage compares the branches that are named (by name or by any version of theirs), or all
// branches, with a matrix, the newest branch first. With lagging it leaves out those whose
// newest release the matrix has. With cuda it says how drivers run that release of CUDA.
func (t *Table) Coverage(
	m *matrix.Matrix,
	advisor Advisor,
	cuda *CUDA,
	branches []string,
	lagging bool,
) (all []Coverage, err error) {
	var known, wanted []string
	for _, b := range t.Branches {
		known = append(known, b.Name)
	}
	for _, name := range branches {
		b, ok := t.Branch(name)
		near := strings.Join(distros.Nearest(strings.ToUpper(name), known), " or ")
		switch {
		case ok:
			wanted = append(wanted, b.Name)
		case near != "":
			err = errors.Join(err, fmt.Errorf("no branch %q is known: did you mean %s?", name, near))
		default:
			err = errors.Join(err, fmt.Errorf("no branch %q is known", name))
		}
	}
	for _, b := range slices.Backward(t.Branches) {
		c := b.Coverage(m, advisor, cuda)
		if (len(branches) == 0 || slices.Contains(wanted, b.Name)) && (c.Lags || !lagging) {
			all = append(all, c)
		}
	}
	return all, err
}

// Coverage compares the branch with a matrix.
func (b Branch) Coverage(m *matrix.Matrix, advisor Advisor, cuda *CUDA) Coverage {
	c := Coverage{Branch: b, Over: b.Ended(advisor.Day), Matrix: []string{}, Releases: []ReleaseCoverage{}}
	stated := map[string]string{}
	advice := advisor.Recommend(m.Drivers)
	for _, d := range m.Drivers {
		if d.Branch == b.Name {
			c.Matrix = append(c.Matrix, d.Version)
			stated[d.Version] = d.CUDA
		}
	}
	slices.SortFunc(c.Matrix, matrix.CompareVersions)
	for _, known := range b.Releases { // rising: the last one is the newest
		version := known.Version
		isSame := func(v string) bool { return matrix.CompareVersions(v, version) == 0 }
		r := ReleaseCoverage{
			Release:     known,
			Archs:       []string{},
			Checked:     []string{},
			InMatrix:    slices.ContainsFunc(c.Matrix, isSame),
			CUDA:        CUDAOf(version, stated[version]),
			RunsCUDA:    runsCUDA(cuda, version, stated[version]),
			Recommended: advice.Mark(version),
			Exposure:    advisor.Vulnerabilities().Exposure(version),
		}
		for _, a := range m.AdvisoriesOf(version) {
			if a.Kind != driverinfo.EndOfLife {
				r.Advisories = append(r.Advisories, a.Advisory)
			}
		}
		for _, arch := range archs {
			a, ok := known.Driver(arch)
			if ok {
				r.Archs = append(r.Archs, arch)
			}
			if a.SHA256 != "" {
				r.Checked = append(r.Checked, arch)
			}
		}
		c.Newest = version
		c.Exposure = r.Exposure
		c.Date = known.Date
		c.RunsCUDA = runsCUDA(cuda, version, cmp.Or(stated[version], b.CUDA))
		c.Lags = len(c.Matrix) > 0 && matrix.CompareVersions(c.Matrix[len(c.Matrix)-1], version) < 0
		if c.Lags && len(r.Checked) > 0 {
			c.Addable = version
		}
		c.Releases = append(c.Releases, r)
	}
	return c
}

// runsCUDA says how a driver runs a release of CUDA; "" without one.
func runsCUDA(cuda *CUDA, driver, stated string) string {
	if cuda == nil {
		return ""
	}
	return string(cuda.RunBy(driver, stated).Support)
}

// branchOnly is a branch as people write it: 580, R580.
var branchOnly = regexp.MustCompile(`^[Rr]?[0-9]{3,4}$`)

// Resolve replaces each branch among names of drivers ("580", "R580") by its newest version in the
// matrix. The notes say which. A branch that the matrix lacks stays: the caller refuses it as an
// unknown driver. A branch never means a driver for vGPU guests, which needs a licence.
func Resolve(m *matrix.Matrix, names []string) (notes []string) {
	for i, name := range names {
		if !branchOnly.MatchString(name) {
			continue
		}
		newest := "" // older than any
		for _, d := range m.Drivers {
			ofBranch := d.VGPU == "" && matrix.Major(d.Branch) == matrix.Major(strings.ToUpper(name))
			if ofBranch && matrix.CompareVersions(d.Version, newest) > 0 {
				newest = d.Version
			}
		}
		if newest == "" {
			continue
		}
		notes = append(notes, fmt.Sprintf("--driver %s means %s, the newest of its branch in the matrix", name, newest))
		names[i] = newest
	}
	return notes
}

// Absent says of a release that the table knows it and the matrix does not, and how its row is
// made; "" of any other. It is never chosen for a build: an archive without a checksum is in no
// row.
func Absent(m *matrix.Matrix, version string) string {
	r, known := Builtin().Release(version)
	same := func(d matrix.Driver) bool { return matrix.CompareVersions(d.Version, version) == 0 }
	if !known || slices.ContainsFunc(m.Drivers, same) {
		return ""
	}
	why := ""
	if !r.checked() {
		why = ", because no public source has the checksum of its archives"
	}
	return fmt.Sprintf("driver %[1]s is known, but the matrix has no row of it%[2]s: "+
		"driver-build matrix add-driver %[1]s prints one, from NVIDIA's manifest or its copy (--redist redistrib_%[1]s.json)",
		r.Version, why)
}

// checked reports whether the checksum of an archive with the driver is known.
func (r Release) checked() bool {
	return slices.ContainsFunc(archs, func(arch string) bool {
		a, _ := r.Driver(arch)
		return a.SHA256 != ""
	})
}

// Lacking says that no driver of the matrix has all of a release of CUDA, and which known one has;
// "" if one has.
func (r CUDA) Lacking(m *matrix.Matrix) string {
	native := func(d matrix.Driver) bool { return r.RunByDriver(d).Support == CUDANative }
	absent := Absent(m, r.Native)
	if absent == "" || slices.ContainsFunc(m.Drivers, native) {
		return ""
	}
	return "no driver of the matrix runs CUDA " + r.Version + " natively; " + absent
}
