package recipe

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// clone is a copy whose addresses can be changed.
func (r *Recipe) clone() *Recipe {
	c := *r
	c.Packages = slices.Clone(r.Packages)
	c.Source.Packages = slices.Clone(r.Source.Packages)
	c.Source.Runfile = clonePointer(r.Source.Runfile)
	c.Source.Redist = clonePointer(r.Source.Redist)
	c.Compiler = slices.Clone(r.Compiler)
	c.Fabric = slices.Clone(r.Fabric)
	c.Patches = slices.Clone(r.Patches)
	c.Companions = slices.Clone(r.Companions)
	for i := range c.Companions {
		c.Companions[i].File = clonePointer(c.Companions[i].File)
		c.Companions[i].Package = clonePointer(c.Companions[i].Package)
	}
	c.Kernels = slices.Clone(r.Kernels)
	for i := range c.Kernels {
		c.Kernels[i].Headers = slices.Clone(c.Kernels[i].Headers)
		signed := maps.Clone(c.Kernels[i].Signed)
		for flavour := range signed {
			signed[flavour] = slices.Clone(signed[flavour])
		}
		c.Kernels[i].Signed = signed
	}
	c.Repositories = slices.Clone(r.Repositories)
	for i := range c.Repositories {
		c.Repositories[i].URIs = slices.Clone(c.Repositories[i].URIs)
		c.Repositories[i].BaseURLs = slices.Clone(c.Repositories[i].BaseURLs)
	}
	return &c
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// eachPackage calls f for all packages; some may come twice.
func (r *Recipe) eachPackage(f func(*distros.Package)) {
	each := func(list []distros.Package) {
		for i := range list {
			f(&list[i])
		}
	}
	each(r.Packages)
	each(r.Source.Packages)
	each(r.Compiler)
	for _, c := range r.Companions {
		if c.Package != nil {
			f(c.Package)
		}
	}
	for _, k := range r.Kernels {
		each(k.Headers)
		for _, flavour := range slices.Sorted(maps.Keys(k.Signed)) {
			each(k.Signed[flavour])
		}
	}
}

// eachFile calls f for all archives: of the driver, its components and companions.
func (r *Recipe) eachFile(f func(*fetch.File)) {
	archive := r.Source.Archive()
	if archive != nil {
		f(archive)
	}
	for i := range r.Fabric {
		f(&r.Fabric[i].File)
	}
	for _, c := range r.Companions {
		if c.File != nil {
			f(c.File)
		}
	}
}

// WithPackagesFrom is the recipe with its packages at other addresses.
func (r *Recipe) WithPackagesFrom(to func(address string) string) *Recipe {
	moved := r.clone()
	moved.eachPackage(func(p *distros.Package) { p.URL = to(p.URL) })
	return moved
}

// Public is the recipe as it may be shown: without the credentials that addresses of mirrors may
// hold.
func (r *Recipe) Public() *Recipe {
	public := r.WithPackagesFrom(publicURL)
	public.eachFile(func(f *fetch.File) { f.URL = publicURL(f.URL) })
	for i, p := range public.Patches {
		public.Patches[i].URL = publicURL(p.URL)
	}
	for _, repository := range public.Repositories {
		for _, list := range [][]string{repository.URIs, repository.BaseURLs} {
			for i, address := range list {
				list[i] = publicURL(address)
			}
		}
	}
	return public
}

// PublicMirror is a mirror, as Options has it, without the credentials in its URLs.
func PublicMirror(mirror string) string {
	words := distros.SplitList(mirror)
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

func publicURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}
