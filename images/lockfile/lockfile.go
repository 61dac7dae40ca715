// Package lockfile keeps the recipes of images in a file beside the matrix, so that builds today
// and next year are made from the same bytes: the digest of each base, and address, size and digest
// of every package.
//
// The file is JSON, made for version control: an entry for each image, one package a line,
// everything sorted, no time, no path of this machine and no credential in it. The same content
// gives the same bytes.
//
// The package does no planning and asks no network: package images plans, the command decides when.
// What differs between what was locked and what is wanted or found now is a list of [Change].
package lockfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
)

// Schema is the version of the file's format.
const Schema = 2

// Lock is what is locked.
type Lock struct {
	Schema int               `json:"schema"`
	Images map[string]*Entry `json:"images"` // by Name
	File   string            `json:"-"`      // that was read
	SHA256 string            `json:"-"`      // of its bytes; hex digits
}

// Entry is one image: a tag for one architecture.
type Entry struct {
	// of name and entry without it: what was changed by hand is refused
	Digest string `json:"digest,omitempty"`
	// the words that meant its kernels: "latest", "6.12:latest cloud-amd64", a release; sorted
	Kernels []string `json:"kernels,omitempty"`
	// Recipe is that of the image with the options of driver-build lock, without programs and texts
	// of patches.
	Recipe *recipe.Recipe `json:"recipe"`
}

// Name is the key of an entry: "535.261.03-debian12/amd64".
func Name(tag, arch string) string { return tag + "/" + arch }

// Name of the entry.
func (e *Entry) Name() string { return Name(e.Recipe.Tag, e.Recipe.Arch) }

// New makes an entry of a recipe. It refuses addresses of files on this machine, which no other
// machine could use.
func New(r *recipe.Recipe, kernels []string) (*Entry, error) {
	r = r.Public()
	r.Entrypoint = nil
	r.Builder = recipe.BuilderInfo{}
	for i := range r.Patches {
		r.Patches[i].Text = "" // the file is beside the matrix
	}
	e := &Entry{Kernels: slices.Compact(slices.Sorted(slices.Values(kernels))), Recipe: r}
	for _, p := range r.AllPackages() {
		if !recipe.IsWeb(p.URL) {
			return nil, fmt.Errorf(
				"lock %s: package %s comes from %s, which other machines do not have: give a mirror with an http or https address",
				e.Name(),
				p.Name,
				p.URL,
			)
		}
	}
	return e, nil
}

// sum is the digest of the entry.
func (e *Entry) sum() (string, error) {
	bare := *e
	bare.Digest = ""
	text, err := json.Marshal(bare)
	sum := sha256.Sum256(append([]byte(e.Name()+"\n"), text...))
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// Names of all entries, sorted.
func (l *Lock) Names() []string { return slices.Sorted(maps.Keys(l.Images)) }

// Find gives the entry of an image.
func (l *Lock) Find(tag, arch string) (*Entry, bool) {
	e, ok := l.Images[Name(tag, arch)]
	return e, ok
}

// Pins gives what is locked, with packages from a mirror; the digests stay. A mirror is what a plan
// takes: PREFIX=URL words, and a URL without a path, which replaces hosts. When asked is the same
// mirror that was locked with, its credentials are put back. What only a plan can tell (a URL with
// a path, which stands for repositories and not for files) is a *MismatchError.
func (e *Entry) Pins(mirror string, asked recipe.Request) (p recipe.Pins, err error) {
	m, err := distros.ParseMirror(mirror)
	if err != nil {
		return p, err
	}
	locked := e.Recipe.Asked.Mirror
	if asked.Mirror == locked {
		return e.Recipe.WithPackagesFrom(m.Login).Pins(), nil
	}
	host := func(address string) string {
		to, toErr := url.Parse(m.Bare)
		u, addressErr := url.Parse(address)
		if toErr != nil || addressErr != nil || to.Path != "" {
			err = &MismatchError{
				Target: e.Name(), Changes: []Change{{"mirror", cmp.Or(locked, "none"), asked.Mirror}},
				Err: errors.New(
					"the lock knows addresses of files, not which repository each is of: give --mirror HOST/PATH=URL",
				),
			}
			return address
		}
		u.Scheme = to.Scheme
		u.Host = to.Host
		u.User = to.User
		return u.String()
	}
	moved := e.Recipe.WithPackagesFrom(func(address string) string {
		address, _ = m.Replace(address, host)
		return address
	})
	return moved.Pins(), err
}
