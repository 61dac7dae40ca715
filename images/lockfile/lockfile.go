// Package lockfile keeps what plans found, in a file beside the matrix, so that builds today and next year
// are made from the same bytes: the digest of each base, and address, size and digest of every package.
//
// The file is made for version control: a section for each image, one package a line, everything sorted, no
// time, no path of this machine and no credential in it. The same content gives the same bytes.
//
// It does no planning and asks no network: package images plans, the command decides when. What differs
// between what was locked and what is wanted or found now is a list of [Change].
package lockfile

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Schema is the version of the file's format.
const Schema = 1

// ErrFormat means that a file is not a lock, or that it was damaged or merged badly.
var ErrFormat = errors.New("not a valid lock")

// ErrLater means that a later driver-build wrote the lock, with what this one would lose.
var ErrLater = errors.New("a lock of a later driver-build")

// Lock is what is locked, by Target.Name.
type Lock struct {
	Targets map[string]*Target
	Old     bool // sections have no digest: an earlier driver-build wrote them
}

// Target is one image: a tag for one architecture.
type Target struct {
	Tag, System, Driver, Arch string

	Kernels []string       // the words that meant its kernels: "latest", "6.12:latest cloud-amd64", a release; sorted
	Asked   recipe.Request // what was planned from
	Pins    recipe.Pins    // what was found
}

// Name is the key of a section: "535.261.03-debian12/amd64".
func Name(tag, arch string) string { return tag + "/" + arch }

// Name of the target's section.
func (t *Target) Name() string { return Name(t.Tag, t.Arch) }

// New makes a section of pins. It refuses addresses of files on this machine, which no other machine could
// use.
func New(tag string, of matrix.Target, pins recipe.Pins, asked recipe.Request, kernels []string) (*Target, error) {
	t := &Target{
		Tag: tag, System: of.System.ID, Driver: of.Driver.Version, Arch: of.Arch, Asked: asked, Pins: pins.Public(),
		Kernels: slices.Compact(slices.Sorted(slices.Values(kernels))),
	}
	for _, p := range t.Pins.All() {
		if u, err := url.Parse(p.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("lock %s: package %s comes from %s, which other machines do not have: give a mirror with an http or https address", t.Name(), p.Name, p.URL)
		}
	}
	return t, nil
}

// Names of all sections, sorted.
func (l *Lock) Names() []string { return slices.Sorted(maps.Keys(l.Targets)) }

// Find gives the section of an image.
func (l *Lock) Find(tag, arch string) (*Target, bool) {
	t, ok := l.Targets[Name(tag, arch)]
	return t, ok
}
