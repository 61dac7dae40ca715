package images

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/registry"
)

// Request is all that a plan starts from. Plans of equal requests differ only in what registries and repositories have.
type Request struct {
	Base         string              // the reference as it is written; "": an image of this machine
	Mirror       string              // of packages, without credentials
	Components   []string            // added to the repositories of the base
	Repositories []matrix.Repository // added to those of the base; without keys, which decide what is trusted and not what is chosen
	OnlyThese    bool                // instead of those of the base
	Image        []string            // what the image has beside the driver, in the words of the package manager
	Compiler     []string            // what compiles ahead of time
	Headers      map[string][]string // by the release of the kernel
	Driver       []string            // packages with the driver
	Archive      *fetch.File         // or its .run archive, as the matrix has it
}

// Pins is what a plan finds: the part of a recipe that depends on when registries and repositories were asked.
type Pins struct {
	Base     Base                         // without Location
	Packages []distros.Package            // beside the driver
	Compiler []distros.Package            // what compiles ahead of time
	Headers  map[string][]distros.Package // by the release of the kernel
	Driver   []distros.Package            // nil for a .run archive
}

// Ask says what a plan of a target starts from. It uses no network and reads nothing.
func Ask(t matrix.Target, o PlanOptions) (Request, error) {
	d, err := distros.Lookup(t.System.ID)
	if err != nil {
		return Request{}, err
	}
	w, err := wants(t, d, o, newRecipe(t, d, o))
	if err != nil {
		return Request{}, err
	}
	q := Request{
		Base: cmp.Or(o.Base, t.System.Base), Components: t.System.Components, Repositories: publicRepositories(t.System.Repositories),
		OnlyThese: t.System.OnlyThese, Image: w.Image, Compiler: w.Compiler, Headers: w.Headers, Driver: w.Driver,
	}
	if registry.IsLocal(q.Base) {
		q.Base = ""
	}
	if len(w.Headers) == 0 {
		q.Headers = nil
	}
	if w.runfile != nil {
		a := t.Driver.Archives[t.Arch]
		q.Archive = &fetch.File{URL: a.URL, SHA256: a.SHA256, Size: a.Size}
	}
	q.Mirror = PublicMirror(o.Mirror)
	return q, nil
}

// publicRepositories are repositories without the credentials in their addresses.
func publicRepositories(all []matrix.Repository) []matrix.Repository {
	public := slices.Clone(all)
	for i := range public {
		for _, urls := range []*[]string{&public[i].URIs, &public[i].BaseURLs} {
			*urls = slices.Clone(*urls)
			for j, u := range *urls {
				(*urls)[j] = publicURL(u)
			}
		}
	}
	return public
}

// PublicMirror is a mirror, as PlanOptions has it, without the credentials in its URLs.
func PublicMirror(mirror string) string {
	words := strings.FieldsFunc(mirror, func(r rune) bool { return strings.ContainsRune(", \t\n", r) })
	for i, word := range words {
		prefix, address, pair := strings.Cut(word, "=")
		if !pair || strings.Contains(prefix, "?") {
			words[i] = publicURL(word)
		} else {
			words[i] = prefix + "=" + publicURL(address)
		}
	}
	return strings.Join(words, " ")
}

// newRecipe is the part of a recipe that follows from the matrix and the options alone.
func newRecipe(t matrix.Target, d distros.Distro, o PlanOptions) *Recipe {
	r := &Recipe{
		Schema: recipeVersion, System: t.System.ID, Driver: t.Driver.Version, Branch: t.Driver.Branch, Arch: t.Arch, Tag: t.Tag(),
		Profile: cmp.Or(o.Profile, Full), Flavours: t.Flavours, Links: d.Links(), LibDir: d.LibDir(t.Arch), LibDir32: d.LibDir32(t.Arch),
		Compression: cmp.Or(o.Compression, Gzip), Epoch: o.Epoch, Kernel: kernelRule(t.Driver.Kernel), Overridden: t.Overridden,
		Toolchain: true, Sources: true, Aliases: AliasTags(t), Repositories: t.System.Repositories, OnlyThese: t.System.OnlyThese,
	}
	if len(o.Kernels) > 0 {
		r.precompiled(t, o)
	}
	return r
}

// Pins are those of a recipe, without the credentials in addresses.
func (r *Recipe) Pins() Pins {
	public := r.Public()
	p := Pins{Base: Base{Name: r.Base.Name, Digest: r.Base.Digest}, Packages: public.Packages, Compiler: public.Compiler, Driver: public.Source.Packages}
	for _, k := range public.Kernels {
		if p.Headers == nil {
			p.Headers = map[string][]distros.Package{}
		}
		p.Headers[k.Release] = k.Headers
	}
	return p
}

// Pinned makes a recipe of what an earlier plan found. It asks no registry and no repository: whether the base and the files are
// still to be had shows when they are fetched. The caller makes sure that the request is the one that the pins answer.
func (b *Builder) Pinned(t matrix.Target, o PlanOptions, p Pins) (*Recipe, error) {
	d, err := distros.Lookup(t.System.ID)
	if err != nil {
		return nil, err
	}
	r := newRecipe(t, d, o)
	r.Builder = b.Info
	if r.Entrypoint, err = b.Binaries(t.Arch); err != nil {
		return nil, err
	}
	w, err := wants(t, d, o, r)
	if err != nil {
		return nil, err
	}
	r.Base = Base{Name: p.Base.Name, Digest: p.Base.Digest, Location: o.Base}
	if !registry.IsLocal(o.Base) {
		if p.Base.Name == "" {
			return nil, errors.New("the base was an image of the machine that planned: give --base")
		}
		r.Base.Location = p.Base.Name + "@" + p.Base.Digest
	}
	r.Packages, r.Compiler = slices.Clone(p.Packages), slices.Clone(p.Compiler)
	r.Source = Source{Runfile: w.runfile, Packages: slices.Clone(p.Driver)}
	for i, k := range r.Kernels {
		headers, ok := p.Headers[k.Release]
		if !ok {
			return nil, fmt.Errorf("headers of kernel %s were not planned", k.Release)
		}
		r.Kernels[i].Headers = slices.Clone(headers)
	}
	return r, nil
}
