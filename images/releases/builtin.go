package releases

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/redist"
)

//go:embed data
var data embed.FS

// The bases of the URLs in data/checksums.tsv and data/redist.tsv.
const (
	archiveHost = "https://us.download.nvidia.com"
	redistHost  = "https://developer.download.nvidia.com/compute/"
)

// Builtin returns the table in this program, which is as old as the program: see the heads of the files in
// data/.
func Builtin() (*Table, error) {
	t := new(Table)
	for _, part := range []struct {
		file   string
		fields int
		add    func(t *Table, row []string) error
	}{
		{"branches.tsv", 6, addBranch},
		{"releases.tsv", 4, addRelease},
		{"checksums.tsv", 7, addChecksum},
		{"redist.tsv", 8, addRedist},
	} {
		text, err := data.ReadFile("data/" + part.file)
		if err != nil {
			return nil, fmt.Errorf("the built-in table of drivers: %w", err)
		}
		if t, err = addRows(t, string(text), part.fields, part.add); err != nil {
			return nil, fmt.Errorf("the built-in table of drivers: %s: %w", part.file, err)
		}
	}
	return t, nil
}

// addRows reads lines of tab-separated fields. "-" and "" mean no value; lines that begin with # are
// comments.
func addRows(t *Table, text string, fields int, add func(*Table, []string) error) (*Table, error) {
	part := new(Table)
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimRight(line, "\r\n"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != fields {
			return nil, fmt.Errorf("line %d: %d fields, not %d", n, len(row), fields)
		}
		for i := range row {
			row[i] = strings.TrimPrefix(row[i], "-")
		}
		if err := add(part, row); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return t.With(part.sortAndMerge()), nil
}

// branchSources are the sources of data/branches.tsv by their letters, for people.
var branchSources = map[string]string{
	"a": "README and changelog of the driver in Debian",
	"b": "endoflife.date, which follows NVIDIA's list of releases",
	"c": "no release for years, NVIDIA/nvidia-installer",
	"d": "NVIDIA, CUDA drivers support, March 2021",
	"e": "NVIDIA, supported drivers, August 2025",
	"f": "NVIDIA, supported drivers, edition with R610",
	"g": "NVIDIA/open-gpu-kernel-modules",
	"h": "NVIDIA's redist folder",
	"i": "NVIDIA/gpu-driver-container, 2026-02-23",
	"j": "NVIDIA, supported drivers, edition with R620",
}

func addBranch(t *Table, row []string) error {
	b := Branch{Name: row[0], Kind: Kind(row[1]), End: row[2], CUDA: row[3], Kernel: row[4]}
	for letter := range strings.SplitSeq(row[5], ",") {
		source, ok := branchSources[letter]
		if !ok {
			return fmt.Errorf("%q is no source of a branch", letter)
		}
		if b.EndSource == "" || strings.Contains("defij", letter) { // NVIDIA's own words count
			b.EndSource = source
		}
	}
	if !branchShape.MatchString(b.Name) {
		return fmt.Errorf("%q is no branch, such as R535", b.Name)
	}
	t.Branches = append(t.Branches, b)
	return nil
}

func addRelease(t *Table, row []string) error {
	return t.add(Release{Version: row[0], Date: row[1], Kernel: row[2], Reason: row[3]})
}

func addChecksum(t *Table, row []string) error {
	a := Archive{Arch: row[1], URL: archiveHost + row[2], SHA256: row[3], From: row[6]}
	if row[4] != "" {
		size, err := strconv.ParseInt(row[4], 10, 64)
		if err != nil || size <= 0 {
			return fmt.Errorf("%q is no size in bytes", row[4])
		}
		a.Size = size
	}
	if !sumShape.MatchString(a.SHA256) {
		return fmt.Errorf("%.80q is no sha256", a.SHA256)
	}
	return t.add(Release{Version: row[0], Archives: []Archive{a}})
}

func addRedist(t *Table, row []string) error {
	f := RedistFile{
		Component: row[1], Version: cmp.Or(row[2], row[0]),
		Archive: Archive{Arch: row[3], URL: redistHost + row[4], SHA256: row[5], From: row[7]},
	}
	if row[6] != "" {
		size, err := strconv.ParseInt(row[6], 10, 64)
		if err != nil || size <= 0 {
			return fmt.Errorf("%q is no size in bytes", row[6])
		}
		f.Size = size
	}
	if !slices.Contains(redist.Components(), f.Component) || !sumShape.MatchString(f.SHA256) {
		return fmt.Errorf("%.80q is no component, or %.80q no sha256", f.Component, f.SHA256)
	}
	return t.add(Release{Version: row[0], Redist: []RedistFile{f}})
}

// add appends a release to its branch; sortAndMerge then sorts the releases.
func (t *Table) add(r Release) error {
	if !versionShape.MatchString(r.Version) {
		return fmt.Errorf("%.80q is no driver version, such as 535.261.03", r.Version)
	}
	name := BranchOf(r.Version)
	n := slices.IndexFunc(t.Branches, func(b Branch) bool { return b.Name == name })
	if n < 0 {
		n, t.Branches = len(t.Branches), append(t.Branches, Branch{Name: name})
	}
	t.Branches[n].Releases = append(t.Branches[n].Releases, r)
	return nil
}

// sortAndMerge sorts releases that were added one by one and merges equal ones.
func (t *Table) sortAndMerge() *Table {
	sorted := new(Table)
	for _, b := range t.Branches {
		slices.SortStableFunc(b.Releases, byVersion)
		all := b.Releases
		b.Releases = nil
		for _, r := range all {
			if n := len(b.Releases) - 1; n >= 0 && b.Releases[n].Version == r.Version {
				b.Releases[n] = b.Releases[n].with(r)
				continue
			}
			slices.SortFunc(r.Archives, byArch)
			b.Releases = append(b.Releases, r)
		}
		sorted.Branches = append(sorted.Branches, b)
	}
	slices.SortStableFunc(sorted.Branches, func(a, b Branch) int { return Compare(a.Name, b.Name) })
	return sorted
}
