package headers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// catalogue is the part of *apt.Index that is used here.
type catalogue interface {
	Candidate(name string) (*apt.Package, bool)
	Versions(name string) []apt.Package
	Find(want string) (*apt.Package, error)
}

// plan returns the wanted packages with the header packages that they need; none when a wanted one
// is missing. libc is the version of the image's C library; "" if it is not known.
func (f *debManager) plan(
	x catalogue,
	libc dpkg.Version,
	wants []string,
	e *UnavailableError,
) (out plan, err error) {
	var chosen []*apt.Package
	for _, name := range wants {
		p, err := x.Find(name)
		if err != nil {
			e.Package = name
			e.Newest = newest(x, f.Release)
			e.Failed = append(e.Failed, faulty(err)...)
			return nil, nil
		}
		chosen = append(chosen, p)
	}
	needs := func(p *apt.Package, chosen []*apt.Package) ([]*apt.Package, error) {
		return debNeeds(x, libc, p, chosen)
	}
	all, err := closure(chosen, needs)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		out = append(out, p.Package)
	}
	return out, nil
}

// faulty says what the repositories have of a package that was not found.
func faulty(err error) []string {
	missing, ok := errors.AsType[*distros.UnresolvableError](err)
	if !ok {
		return []string{err.Error()}
	}
	return missing.Versions
}

// debNeeds returns the header packages that a package needs. Its other dependencies the image has,
// or the compile does not need them, except the C library: without the right one fixdep and
// modpost, which every module needs, do not start.
func debNeeds(
	x catalogue,
	libc dpkg.Version,
	p *apt.Package,
	chosen []*apt.Package,
) (more []*apt.Package, err error) {
	for _, field := range []string{"Pre-Depends", "Depends"} {
		groups, err := dpkg.ParseRelations(p.Paragraph.Get(field))
		if err != nil {
			return nil, fmt.Errorf("package %s: %s: %w", label(p.Package), field, err)
		}
		for _, group := range groups {
			text := dpkg.Relations{group}.String()
			if r := group[0]; r.Name == "libc6" && libc != "" && !r.Matches(libc) {
				return nil, fmt.Errorf(
					"the tools in package %s need %s, and the image has %s: use an image of the system that the node's kernel was made for",
					label(p.Package),
					text,
					libc,
				)
			}
			group = slices.DeleteFunc(
				slices.Clone(group),
				func(r dpkg.Relation) bool { return !isHeaders(r.Name) },
			)
			there := func(r dpkg.Relation) bool {
				return slices.ContainsFunc(
					slices.Concat(chosen, more),
					func(c *apt.Package) bool { return c.Name == r.Name },
				)
			}
			if len(group) == 0 || slices.ContainsFunc(group, there) {
				continue
			}
			found := debFind(x, group)
			if found == nil {
				return nil, lacking(label(p.Package), text)
			}
			more = append(more, found)
		}
	}
	return more, nil
}

// debFind returns a header package that satisfies one of the alternatives: the version that apt
// would choose, else the newest.
func debFind(x catalogue, group []dpkg.Relation) *apt.Package {
	for _, r := range group {
		if p, ok := x.Candidate(r.Name); ok && r.Matches(dpkg.Version(p.Version)) {
			return p
		}
		for _, p := range x.Versions(r.Name) {
			if r.Matches(dpkg.Version(p.Version)) {
				return &p
			}
		}
	}
	return nil
}

// isHeaders says whether a package has headers or their tools, by its name: linux-headers-*,
// linux-hwe-6.8-headers-*, linux-kbuild-*. Their other dependencies are compilers (and
// linux-compiler-gcc-12-x86, which only names one), kernel images and libraries.
func isHeaders(name string) bool {
	return strings.Contains(name, "linux-") &&
		(strings.Contains(name, "headers-") || strings.Contains(name, "kbuild-"))
}

// newest returns the release that the metapackage of the kernel's flavour (linux-headers-amd64)
// depends on; "" if there is none.
func newest(x catalogue, release string) string {
	flavour := regexp.MustCompile(`-([a-z][a-z0-9]*(-[a-z0-9]+)*)$`).FindStringSubmatch(release)
	if flavour == nil {
		return ""
	}
	meta, ok := x.Candidate("linux-headers-" + flavour[1])
	if !ok {
		return ""
	}
	groups, err := dpkg.ParseRelations(meta.Paragraph.Get("Depends"))
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
