package apt

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

// Index has the packages of all repositories for one architecture. It does not change and may be
// shared.
type Index struct {
	releases  *Releases
	entries   []entry             // by name, then newest first, then order of the sources
	providers map[string][]int32  // virtual name -> entries that provide it, ascending
	unusable  map[string][]string // name -> why entries of it cannot be used
	notes     []string
}

// entry is one package of an index. Its strings are parts of raw.
type entry struct {
	name, version, arch, provides string
	raw                           string // the paragraph
	repo                          *repo
	component                     string
	fault                         error // why it cannot be used; nil: it can
}

// Package is a package to add, pinned by its digest.
type Package struct {
	distros.Package // Arch is Debian's name, or "all"; Replaces is "" when the package is new

	Origin    string         `json:"-"` // "bookworm/main", for people
	Paragraph dpkg.Paragraph `json:"-"` // its entry in the index
}

// build merges the indexes. If several repositories have one version, the first of them counts.
// Entries that cannot be used are left out, and noted for each index.
func (x *Index) build(found [][]entry) {
	x.unusable = map[string][]string{}
	for _, entries := range found {
		bad := 0
		for _, e := range entries {
			if e.fault == nil {
				x.entries = append(x.entries, e)
				continue
			}
			bad++
			x.unusable[e.name] = append(x.unusable[e.name], e.fault.Error())
			if bad == 1 {
				x.notes = append(x.notes, "")
			}
			x.notes[len(x.notes)-1] = fmt.Sprintf("%d of %d packages cannot be used, the last is: %v", bad, len(entries), e.fault)
		}
	}
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

// providedNames reads only the names of a Provides field: parsing all of them whole would take
// longer than the rest.
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

// first returns the first entry whose name does not sort before this one.
func (x *Index) first(name string) int {
	return sort.Search(len(x.entries), func(i int) bool { return x.entries[i].name >= name })
}

// named returns the versions of a package, newest first.
func (x *Index) named(name string) []entry {
	i := x.first(name)
	n := i
	for n < len(x.entries) && x.entries[n].name == name {
		n++
	}
	return x.entries[i:n]
}

// candidate returns the version to install: the newest. Repositories with NotAutomatic (backports)
// count only for packages that no other repository has.
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

// Candidate returns the version of a package that would be installed. ok is false when there is
// none that can be used.
func (x *Index) Candidate(name string) (*Package, bool) {
	e := x.candidate(name)
	if e == nil {
		return nil, false
	}
	p, err := e.toPackage()
	return &p, err == nil
}

// Notes returns messages for users, such as repositories that were skipped because they lack the
// architecture, and entries that cannot be used.
func (x *Index) Notes() []string { return slices.Concat(x.releases.notes, x.notes) }

// Len returns the number of packages; every version counts.
func (x *Index) Len() int { return len(x.entries) }

func (e *entry) origin() string {
	if e.component == "" {
		return e.repo.name()
	}
	return e.repo.suite + "/" + e.component
}

// toPackage converts an entry into a Package.
func (e *entry) toPackage() (Package, error) {
	p, err := dpkg.ParseParagraph([]byte(e.raw))
	if err != nil {
		return Package{}, err
	}
	path, sum, err := pin(p)
	if err != nil {
		return Package{}, err
	}
	return Package{
		Package: distros.Package{
			Name: e.name, Version: e.version, Arch: e.arch, SHA256: sum.SHA256, SHA512: sum.SHA512, Size: sum.Size,
			URL: e.repo.base + "/" + (&url.URL{Path: path}).EscapedPath(),
		},
		Origin: e.origin(), Paragraph: p,
	}, nil
}

// check returns why an entry with the fields p cannot be used, distros.ErrIndex.
func (e *entry) check(p dpkg.Paragraph) error {
	_, _, wrong := pin(p)
	_, strange := dpkg.ParseVersion(e.version)
	err := cmp.Or(wrong, strange)
	if err != nil {
		return distros.BadIndex(
			"package repository %s: package %s %s: %w",
			e.repo.name(),
			e.name,
			e.version,
			err,
		)
	}
	return nil
}

// pin returns the path of a package below its repository, and what its file must be.
func pin(p dpkg.Paragraph) (path string, sum fetch.File, err error) {
	size, err := strconv.ParseInt(p.Get("Size"), 10, 64)
	if err != nil || size <= 0 {
		return "", sum, fmt.Errorf("bad Size %.80q", p.Get("Size"))
	}
	kind := "SHA256"
	digest, found := p.Lookup(kind)
	if !found {
		kind = "SHA512"
		digest, found = p.Lookup(kind)
	}
	if !found {
		return "", sum, errors.New("it has no SHA256 and no SHA512; weaker digests do not count")
	}
	path, ok := distros.CleanPath(p.Get("Filename"))
	if !ok {
		return "", sum, fmt.Errorf("bad Filename %.80q", p.Get("Filename"))
	}
	sum, err = fetch.NewFile(kind, digest, size)
	return path, sum, err
}
