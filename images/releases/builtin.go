package releases

import (
	"cmp"
	"embed"
	"strconv"
	"strings"
	"sync"
)

//go:embed data
var data embed.FS

// The bases of the URLs in data/checksums.tsv and data/redist.tsv.
const (
	archiveHost = "https://us.download.nvidia.com"
	redistHost  = "https://developer.download.nvidia.com/compute/"
)

// Builtin returns the table in this program, which is as old as the program: see the heads of the
// files in data/.
var Builtin = sync.OnceValue(func() *Table {
	t := new(Table)
	add := func(r Release) { t.add(Branch{Name: BranchOf(r.Version), Releases: []Release{r}}) }
	for _, row := range rows("branches.tsv") {
		t.add(
			Branch{
				Name:      row[0],
				Type:      BranchType(row[1]),
				End:       row[2],
				CUDA:      row[3],
				Kernel:    row[4],
				EndSource: row[6],
			},
		)
	}
	for _, row := range rows("releases.tsv") {
		add(Release{Version: row[0], Date: row[1], Kernel: row[2], Reason: row[3]})
	}
	for _, row := range rows("checksums.tsv") {
		a := Archive{
			Arch:   row[1],
			URL:    archiveHost + row[2],
			SHA256: row[3],
			Size:   bytes(row[4]),
			From:   source(row[6]),
		}
		add(Release{Version: row[0], Archives: []Archive{a}})
	}
	for _, row := range rows("redist.tsv") {
		add(Release{Version: row[0], Archives: []Archive{{
			Component: row[1], Version: cmp.Or(row[2], row[0]), Arch: row[3], URL: redistHost + row[4], SHA256: row[5],
			Size: bytes(row[6]), From: source(row[7]),
		}}})
	}
	return t
})

// rows returns the lines of tab-separated fields in an embedded file, whose form TestBuiltin
// checks. "-" and "" mean no value; lines that begin with # are comments.
func rows(file string) (all [][]string) {
	text, _ := data.ReadFile("data/" + file)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i := range row {
			row[i] = strings.TrimPrefix(row[i], "-")
		}
		all = append(all, row)
	}
	return all
}

// fromTable ends the name of a source that the built-in table has.
const fromTable = " (table of driver-build)"

// source is the source of a checksum as people read it.
func source(names string) string { return strings.ReplaceAll(names, ",", ", ") + fromTable }

// bytes reads a size, which is 0 when unknown.
func bytes(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
