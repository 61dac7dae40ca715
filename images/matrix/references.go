package matrix

import (
	"slices"
	"strings"

	goversion "github.com/hashicorp/go-version"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// The kinds of words that refer to another part of the file, or define what others refer to.
const (
	kindSystem    = "system"
	kindAlias     = "alias"
	kindDriver    = "driver"
	kindPattern   = "driver pattern"
	kindUpstream  = "Debian version"
	kindComponent = "component"
)

// reference is a word whose check needs the whole file.
type reference struct {
	kind         string
	word         string
	at           *yaml.Node
	isDefinition bool    // the word is an id, not a use of one
	version      *string // for kindUpstream and kindComponent: the version of its driver
	name         string  // for kindComponent
}

// readDefinition reads the id of a system or the version of a driver.
func (d *decoder) readDefinition(kind string, to *string, checks ...check) reader {
	return func(n *yaml.Node) {
		d.text(map[string]string{kindSystem: "id", kindDriver: "version"}[kind], to, checks...)(n)
		if *to != "" {
			d.refs = append(d.refs, reference{kind: kind, word: *to, at: n, isDefinition: true})
		}
	}
}

// readReference reads a word that refers to a system or to drivers.
func (d *decoder) readReference(kind string, to *string, checks ...check) reader {
	return func(n *yaml.Node) {
		d.text(kind, to, checks...)(n)
		if *to != "" {
			d.refs = append(d.refs, reference{kind: kind, word: *to, at: n})
		}
	}
}

// references checks that ids are unique and that every use means something. A system that is used needs no row:
// drivers and companions name all systems that have their packages, and a matrix for one of them needs no edit
// in each.
func (d *decoder) references(m *Matrix) {
	known := make([]string, 0, 16)
	for _, s := range distros.All() {
		known = append(known, s.ID())
	}
	drivers := m.versions()
	places := map[string]*yaml.Node{}
	for _, r := range d.refs {
		if d.tooManyErrors() {
			return
		}
		switch {
		case r.kind == kindSystem:
			if r.isDefinition {
				d.unique(places, r, kindSystem+" "+r.word)
			}
			if !slices.Contains(known, r.word) {
				d.errorf(r.at, "unknown system %s%s", quoted(r.word), suggest(r.word, known))
			}
		case r.isDefinition && r.kind == kindAlias:
			if slices.Contains(known, r.word) {
				d.errorf(r.at, "alias %s is the id of a system", quoted(r.word))
				continue
			}
			d.unique(places, r, kindSystem+" "+r.word)
		case r.isDefinition:
			d.unique(places, r, kindDriver+" "+canonical(r.word))
		case r.kind == kindPattern && !anyMatch(r.word, drivers):
			d.errorf(r.at, "driver %s is not in drivers%s", quoted(r.word), suggest(strings.TrimSuffix(r.word, ".*"), drivers))
		case r.kind == kindUpstream && *r.version != "" && dpkg.Version(r.word).Upstream() != *r.version:
			d.errorf(r.at, "Debian version %s is not one of driver %s", quoted(r.word), *r.version)
		case r.kind == kindComponent && *r.version != "" && r.word != *r.version:
			d.errorf(r.at, "component %s is of version %s, its driver of version %s: they must be the same", r.name, r.word, *r.version)
		}
	}
}

// unique refuses the second definition of the same thing.
func (d *decoder) unique(places map[string]*yaml.Node, r reference, id string) {
	first, twice := places[id]
	if !twice {
		places[id] = r.at
		return
	}
	if first.Value == r.word {
		d.errorf(r.at, "%s %s appears twice: first on line %d", r.kind, quoted(r.word), first.Line)
		return
	}
	d.errorf(r.at, "%s %s is the same release as %s on line %d", r.kind, quoted(r.word), first.Value, first.Line)
}

// canonical returns the form of a version that is the same for equal releases: 418.87.1 for 418.87.01.
func canonical(v string) string {
	parsed, err := goversion.NewVersion(v)
	if err != nil {
		return v
	}
	return parsed.String()
}

// matches reports whether a driver pattern of an exclusion covers a version: "" all, "418.*" a prefix, else
// the exact text.
func matches(pattern, version string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(version, prefix)
	}
	return pattern == "" || pattern == version
}

func anyMatch(pattern string, versions []string) bool {
	for _, v := range versions {
		if matches(pattern, v) {
			return true
		}
	}
	return false
}
