// Package releases has data about NVIDIA's driver releases: their branches, the end of support of
// each, and the sha256 of the archives as public packaging recipes publish them. It has a built-in
// table, and parses NVIDIA's releases.json and manifests.
//
// It compares a matrix with these drivers, and makes the entry of a driver that is to be added. It
// reads the network only through the functions that its caller passes. It does not say that a
// driver works on a system: package matrix does that. No value in the table was computed from a
// downloaded archive; data/ names the source of each value.
package releases

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
)

// BranchType says how long NVIDIA supports a branch.
type BranchType string

// The types of branches, as NVIDIA's documents call them.
const (
	LongTerm   BranchType = "lts"         // about three years
	Production BranchType = "production"  // about one year
	NewFeature BranchType = "new-feature" // until the next branch
	Legacy     BranchType = "legacy"      // only for old cards
)

// archs are the architectures of drivers.
var archs = []string{"amd64", "arm64"}

// EndPassed is the end of life of a branch whose support has ended in an unpublished month.
const EndPassed = "over"

// Table is a set of branches in ascending order. Values never change: Merge returns a new table.
type Table struct{ Branches []Branch }

// Branch is a line of releases that share the first field of their versions.
type Branch struct {
	Name string     `json:"branch"`         // "R535"
	Type BranchType `json:"kind,omitempty"` // "" when unknown
	// last month of support, "2028-06"; "over"; "" when unknown
	End       string `json:"endOfLife,omitempty"`
	EndSource string `json:"-"` // who says End, for people
	// the CUDA version that it shipped with, "12.2"; "" when unknown
	CUDA string `json:"cuda,omitempty"`
	// the oldest kernel that its last releases compile on, "3.10"; "" when unknown
	Kernel   string    `json:"minKernel,omitempty"`
	Releases []Release `json:"-"` // rising
}

// Release is one version of the driver.
type Release struct {
	Version string `json:"version"`
	Date    string `json:"date,omitempty"` // "2023-06-14"; "" when unknown
	// the highest that the modules compile on without patches, "6.5"; "" when unknown
	Kernel string `json:"maxKernel,omitempty"`
	// https URL of the release notes, "" when unknown
	Notes    string    `json:"notes,omitempty"`
	Reason   string    `json:"-"` // the source of Kernel, for people
	CUDA     string    `json:"-"` // that it came with, as its manifest says it; ""
	Archives []Archive `json:"-"`
}

// Archive is a .run file, or one of NVIDIA's redist folder, for one architecture.
type Archive struct {
	Component string // as in the manifest of the folder: fabricmanager; "" for a .run file
	// of a component: the release's, except for components with versions of their own
	Version string
	Arch    string // "amd64", "arm64"
	URL     string // http or https
	SHA256  string // 64 lower-case hex digits, "" when unpublished
	Size    int64  // bytes; 0: unknown
	From    string // the source of the sha256, for people
}

// Archive returns the archive of a component for an architecture.
func (r Release) Archive(component, arch string) (a Archive, ok bool) {
	for _, a := range r.Archives {
		if a.Component == component && a.Arch == arch {
			return a, true
		}
	}
	return a, false
}

// Driver returns the archive that a build would take the driver from: the .run archive, or the one
// of the redist folder where there is no other.
func (r Release) Driver(arch string) (Archive, bool) {
	if a, ok := r.Archive("", arch); ok {
		return a, true
	}
	return r.Archive(redistDriver, arch)
}

// addresses are where the driver's archives are, by architecture.
func (r Release) addresses() map[string]string {
	all := map[string]string{}
	for _, arch := range archs {
		if a, ok := r.Driver(arch); ok {
			all[arch] = a.URL
		}
	}
	return all
}

// Branch returns the branch with this name, such as R535, or of this version.
func (t *Table) Branch(name string) (b Branch, ok bool) {
	for _, b := range t.Branches {
		if b.Name == name || b.Name == BranchOf(name) {
			return b, true
		}
	}
	return b, false
}

// Release returns a release: the one with exactly this version, else one with an equal version,
// such as 418.87.01 for 418.87.1.
func (t *Table) Release(version string) (found Release, ok bool) {
	b, _ := t.Branch(version)
	for _, r := range b.Releases {
		same := matrix.CompareVersions(r.Version, version) == 0
		if r.Version == version || same && !ok {
			found = r
			ok = true
		}
	}
	return found, ok
}

// Ended reports whether support has ended at a time: the month of End has passed.
func (b Branch) Ended(at time.Time) bool {
	if b.End == EndPassed {
		return true
	}
	end, err := time.Parse("2006-01", b.End)
	if err != nil {
		return false // it is not known
	}
	return !at.UTC().Before(end.AddDate(0, 1, 0))
}

// BranchOf returns the branch of a version: R535 for 535.261.03.
func BranchOf(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return "R" + first
}

// Merge returns the table completed and corrected by a newer one: values that fresh has count,
// others stay. A sha256 that the table has stays.
func (t *Table) Merge(fresh *Table) *Table {
	merged := &Table{Branches: slices.Clone(t.Branches)}
	for _, b := range fresh.Branches {
		merged.add(b)
	}
	return merged
}

// add merges a branch into the table.
func (t *Table) add(fresh Branch) {
	byName := func(a, b Branch) int { return matrix.CompareVersions(a.Name, b.Name) }
	t.Branches = merge(t.Branches, fresh, byName, Branch.merge)
}

// merge joins an element with its equal of a sorted list, or with a zero one at its place.
func merge[T any](list []T, fresh T, order func(a, b T) int, join func(old, fresh T) T) []T {
	n, found := slices.BinarySearchFunc(list, fresh, order)
	if !found {
		list = slices.Insert(list, n, *new(T))
	}
	list[n] = join(list[n], fresh)
	return list
}

func (b Branch) merge(fresh Branch) Branch {
	if fresh.End != "" {
		b.End = fresh.End
		b.EndSource = fresh.EndSource
	}
	b.Name = fresh.Name
	b.Type = cmp.Or(fresh.Type, b.Type)
	b.CUDA = cmp.Or(fresh.CUDA, b.CUDA)
	b.Kernel = cmp.Or(fresh.Kernel, b.Kernel)
	b.Releases = slices.Clone(b.Releases) // of a table that stays as it is
	for _, r := range fresh.Releases {
		b.Releases = merge(b.Releases, r, byVersion, Release.merge)
	}
	return b
}

func (r Release) merge(fresh Release) Release {
	r.Version = fresh.Version
	r.Date = cmp.Or(fresh.Date, r.Date)
	r.Notes = cmp.Or(fresh.Notes, r.Notes)
	r.Kernel = cmp.Or(fresh.Kernel, r.Kernel)
	r.Reason = cmp.Or(fresh.Reason, r.Reason)
	r.Archives = slices.Clone(r.Archives) // of a table that stays as it is
	for _, a := range fresh.Archives {
		if _, found := r.Archive(a.Component, a.Arch); !found {
			r.Archives = append(r.Archives, a)
		}
	}
	slices.SortStableFunc(r.Archives, func(a, b Archive) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Arch, b.Arch))
	})
	return r
}

// byVersion treats 440.64 and 440.64.00 as different, because NVIDIA published two archives.
func byVersion(a, b Release) int {
	return cmp.Or(
		matrix.CompareVersions(a.Version, b.Version),
		strings.Compare(a.Version, b.Version),
	)
}
