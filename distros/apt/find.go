package apt

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// Find returns one package without its dependencies: "name" for the candidate, "name=version" for
// exactly that version. The error is *distros.UnresolvableError, with the existing versions.
func (x *Index) Find(want string) (*Package, error) {
	rel, err := parseWant(want)
	if err != nil {
		return nil, err
	}
	if rel.Op == "" {
		if p, ok := x.Candidate(rel.Name); ok {
			return p, nil
		}
		return nil, &distros.UnresolvableError{
			Relation: want, Reason: "no repository has a package of that name that can be used", Versions: x.unusable[rel.Name],
		}
	}
	var versions []string
	for _, e := range x.named(rel.Name) {
		if rel.Matches(dpkg.Version(e.version)) {
			p, err := e.toPackage()
			return &p, err
		}
		versions = append(versions, fmt.Sprintf("%s (%s)", e.version, e.origin()))
	}
	versions = append(versions, x.unusable[rel.Name]...)
	return nil, &distros.UnresolvableError{
		Relation: want,
		Reason:   "no repository has this version",
		Versions: versions,
	}
}

// Versions returns all versions of a package that can be used, newest first.
func (x *Index) Versions(name string) []Package {
	var all []Package
	for _, e := range x.named(name) {
		p, err := e.toPackage()
		if err != nil {
			continue
		}
		all = append(all, p)
	}
	return all
}

// Names returns the names of packages that begin with a prefix, sorted, each once.
func (x *Index) Names(prefix string) []string {
	var names []string
	for _, e := range x.entries[x.first(prefix):] {
		if !strings.HasPrefix(e.name, prefix) {
			break
		}
		if n := len(names); n == 0 || names[n-1] != e.name {
			names = append(names, e.name)
		}
	}
	return names
}
