package releases

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

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
var Builtin = sync.OnceValues(func() (*Table, error) {
	t := new(Table)
	for _, part := range []struct {
		file   string
		fields int
		add    func(row []string) error
	}{
		{"branches.tsv", 6, t.addBranch},
		{"releases.tsv", 4, func(row []string) error {
			return t.add(Release{Version: row[0], Date: row[1], Kernel: row[2], Reason: row[3]})
		}},
		{"checksums.tsv", 7, func(row []string) error {
			return t.addArchive(row[0], Archive{Arch: row[1], URL: archiveHost + row[2], SHA256: row[3], From: row[6]}, row[4])
		}},
		{"redist.tsv", 8, t.addRedist},
	} {
		if err := readRows("data/"+part.file, part.fields, part.add); err != nil {
			return nil, fmt.Errorf("the built-in table of drivers: %w", err)
		}
	}
	return t, nil
})

// readRows reads lines of tab-separated fields. "-" and "" mean no value; lines that begin with # are
// comments.
func readRows(file string, fields int, add func(row []string) error) error {
	text, err := data.ReadFile(file)
	if err != nil {
		return err
	}
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != fields {
			return fmt.Errorf("%s:%d: %d fields, not %d", file, n+1, len(row), fields)
		}
		for i := range row {
			row[i] = strings.TrimPrefix(row[i], "-")
		}
		if err := add(row); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
	}
	return nil
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

func (t *Table) addBranch(row []string) error {
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
	t.put(b)
	return nil
}

func (t *Table) addRedist(row []string) error {
	if !slices.Contains(redist.Components(), row[1]) {
		return fmt.Errorf("%.80q is no component", row[1])
	}
	a := Archive{Component: row[1], Version: cmp.Or(row[2], row[0]), Arch: row[3], URL: redistHost + row[4], SHA256: row[5], From: row[7]}
	return t.addArchive(row[0], a, row[6])
}

func (t *Table) addArchive(version string, a Archive, size string) (err error) {
	if size != "" {
		if a.Size, err = strconv.ParseInt(size, 10, 64); err != nil || a.Size <= 0 {
			return fmt.Errorf("%q is no size in bytes", size)
		}
	}
	if !sumShape.MatchString(a.SHA256) {
		return fmt.Errorf("%.80q is no sha256", a.SHA256)
	}
	return t.add(Release{Version: version, Archives: []Archive{a}})
}

func (t *Table) add(r Release) error {
	if !versionShape.MatchString(r.Version) {
		return fmt.Errorf("%.80q is no driver version, such as 535.261.03", r.Version)
	}
	t.put(Branch{Name: BranchOf(r.Version), Releases: []Release{r}})
	return nil
}
