package apt

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// Index has the packages of all repositories for one architecture. It does not change and may be shared.
type Index struct {
	releases  *Releases
	entries   []entry            // by name, then newest first, then order of the sources
	providers map[string][]int32 // virtual name -> entries that provide it, ascending
}

// entry is one package of an index. Its strings are parts of raw.
type entry struct {
	name, version, arch, provides string
	raw                           string // the paragraph
	repo                          *repo
	component                     string
}

// Package is a package to add, pinned by its digest.
type Package struct {
	distros.Package // Arch is Debian's name, or "all"; Replaces is "" when the package is new

	Origin    string         `json:"-"` // "bookworm/main", for people
	Paragraph dpkg.Paragraph `json:"-"` // its entry in the index
}

// build merges the indexes. If several repositories have one version, the first of them counts.
func (x *Index) build(found [][]entry) {
	x.entries = slices.Concat(found...)
	slices.SortStableFunc(x.entries, func(a, b entry) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return dpkg.Compare(dpkg.Version(b.version), dpkg.Version(a.version))
	})
	x.entries = slices.CompactFunc(x.entries, func(a, b entry) bool { return a.name == b.name && a.version == b.version })
	x.providers = map[string][]int32{}
	for i := range x.entries {
		for name := range providedNames(x.entries[i].provides) {
			x.providers[name] = append(x.providers[name], int32(i)) //nolint:gosec // bounded by maxEntries
		}
	}
}

// providedNames reads only the names of a Provides field: parsing all of them whole would take longer than
// the rest.
func providedNames(field string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for field != "" {
			var one string
			one, field, _ = strings.Cut(field, ",")
			one = strings.TrimLeft(one, " \t\n")
			if end := strings.IndexAny(one, " \t\n(:"); end >= 0 {
				one = one[:end]
			}
			if one != "" && !yield(one) {
				return
			}
		}
	}
}

// named returns the versions of a package, newest first.
func (x *Index) named(name string) []entry {
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].name >= name })
	n := i
	for n < len(x.entries) && x.entries[n].name == name {
		n++
	}
	return x.entries[i:n]
}

// candidate returns the version to install: the newest. Repositories with NotAutomatic (backports) count only
// for packages that no other repository has.
func (x *Index) candidate(name string) *entry {
	all := x.named(name)
	for i := range all {
		if !all[i].repo.rel.notAutomatic {
			return &all[i]
		}
	}
	if len(all) > 0 {
		return &all[0]
	}
	return nil
}

// Candidate returns the version of a package that would be installed. ok is false when there is none, or when
// its entry in the index is unusable.
func (x *Index) Candidate(name string) (*Package, bool) {
	e := x.candidate(name)
	if e == nil {
		return nil, false
	}
	p, err := e.toPackage()
	return &p, err == nil
}

// Notes returns messages for users, such as repositories that were skipped because they lack the
// architecture.
func (x *Index) Notes() []string { return slices.Clone(x.releases.notes) }

// Len returns the number of packages; every version counts.
func (x *Index) Len() int { return len(x.entries) }

func (e *entry) origin() string {
	if e.component == "" {
		return e.repo.name()
	}
	return e.repo.suite + "/" + e.component
}

// toPackage checks an entry and converts it into a Package. Mistakes are distros.ErrIndex.
func (e *entry) toPackage() (Package, error) {
	bad := func(what, value string) (Package, error) {
		return Package{}, fmt.Errorf("package repository %s: %w: package %s %s: bad %s %.80q",
			e.repo.name(), distros.ErrIndex, e.name, e.version, what, value)
	}
	p, err := dpkg.ParseParagraph([]byte(e.raw))
	if err != nil {
		return bad("entry", err.Error())
	}
	size, err := strconv.ParseInt(p.Get("Size"), 10, 64)
	if err != nil || size <= 0 {
		return bad("Size", p.Get("Size"))
	}
	digest := strings.ToLower(p.Get("SHA256"))
	if b, err := hex.DecodeString(digest); err != nil || len(b) != 32 {
		return bad("SHA256 (weaker digests do not count)", digest)
	}
	file := strings.TrimPrefix(p.Get("Filename"), "./")
	if !safePath(file) {
		return bad("Filename", p.Get("Filename"))
	}
	if _, err := dpkg.ParseVersion(e.version); err != nil {
		return bad("Version", e.version)
	}
	return Package{
		Package: distros.Package{
			Name: e.name, Version: e.version, Arch: e.arch, SHA256: digest, Size: size,
			URL: e.repo.base + "/" + (&url.URL{Path: file}).EscapedPath(),
		},
		Origin: e.origin(), Paragraph: p,
	}, nil
}
