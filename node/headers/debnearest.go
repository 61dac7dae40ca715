package headers

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

const (
	maxNearest  = 5
	maxDistance = 250 // limit for the difference of one number: Ubuntu counts the ABI of a series up to about 200
)

// nearest lists releases that have headers, the most similar first: those that differ in one number, and the
// one that the metapackage of the same flavour (linux-headers-amd64) points to. It tries names instead of
// listing them: an index finds a name in microseconds, and similarity is defined by exactly these names.
func nearest(x catalogue, d distros.Distro, release string) []string {
	type found struct {
		release  string
		distance int
	}
	var all []found
	try := func(release string, distance int) {
		for _, name := range d.Headers(release) {
			if _, ok := x.Candidate(name); ok && !slices.ContainsFunc(all, func(f found) bool { return f.release == release }) {
				all = append(all, found{release, distance})
			}
		}
	}
	for _, at := range regexp.MustCompile(`[0-9]+`).FindAllStringIndex(release, -1) {
		n, err := strconv.Atoi(release[at[0]:at[1]])
		if err != nil || n > 1<<20 {
			continue
		}
		for m := max(0, n-maxDistance); m <= n+maxDistance; m++ {
			if m != n {
				try(release[:at[0]]+strconv.Itoa(m)+release[at[1]:], max(m-n, n-m))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, f := range all[:min(len(all), maxNearest)] {
		out = append(out, f.release)
	}
	if newest := current(x, release); newest != "" && !slices.Contains(out, newest) {
		out = append(out, newest)
	}
	return out
}

// current returns the release that the metapackage of the kernel's flavour depends on; "" if there is none.
func current(x catalogue, release string) string {
	flavour := regexp.MustCompile(`-([a-z][a-z0-9]*(-[a-z0-9]+)*)$`).FindStringSubmatch(release)
	if flavour == nil {
		return ""
	}
	meta, ok := x.Candidate("linux-headers-" + flavour[1])
	if !ok {
		return ""
	}
	groups, err := dpkg.ParseRelations(meta.Paragraph.Get("Depends"), meta.Arch)
	if err != nil {
		return ""
	}
	for _, group := range groups {
		if r, ok := strings.CutPrefix(group[0].Name, "linux-headers-"); ok {
			return r
		}
	}
	return ""
}
