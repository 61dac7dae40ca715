package recipe

import (
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Moved is the recipe with its packages at other addresses.
func (r *Recipe) Moved(to func(address string) string) *Recipe {
	moved := *r
	list := func(pkgs []distros.Package) []distros.Package {
		pkgs = slices.Clone(pkgs)
		for i := range pkgs {
			pkgs[i].URL = to(pkgs[i].URL)
		}
		return pkgs
	}
	moved.Packages, moved.Source.Packages, moved.Compiler = list(
		r.Packages,
	), list(
		r.Source.Packages,
	), list(
		r.Compiler,
	)
	moved.Kernels = slices.Clone(r.Kernels)
	moved.Companions = slices.Clone(r.Companions)
	for i, k := range moved.Kernels {
		moved.Kernels[i].Headers = list(k.Headers)
	}
	for i, c := range moved.Companions {
		if c.Package != nil {
			moved.Companions[i].Package = &list([]distros.Package{*c.Package})[0]
		}
	}
	return &moved
}

// Public is the recipe as it may be shown: without the credentials that addresses of mirrors may
// hold.
func (r *Recipe) Public() *Recipe {
	public := r.Moved(publicURL)
	file := func(f *fetch.File) *fetch.File {
		if f == nil {
			return nil
		}
		shown := *f
		shown.URL = publicURL(f.URL)
		return &shown
	}
	public.Source.Runfile, public.Source.Redist = file(r.Source.Runfile), file(r.Source.Redist)
	for i, c := range public.Companions {
		public.Companions[i].File = file(c.File)
	}
	public.Fabric = slices.Clone(r.Fabric)
	public.Patches = slices.Clone(r.Patches)
	public.Repositories = slices.Clone(r.Repositories)
	for i := range public.Fabric {
		public.Fabric[i].File.URL = publicURL(public.Fabric[i].File.URL)
	}
	for i := range public.Patches {
		public.Patches[i].URL = publicURL(public.Patches[i].URL)
	}
	for i := range public.Repositories {
		public.Repositories[i] = publicRepository(public.Repositories[i])
	}
	return public
}

func publicRepository(r matrix.Repository) matrix.Repository {
	for _, urls := range []*[]string{&r.URIs, &r.BaseURLs} {
		*urls = slices.Clone(*urls)
		for i, u := range *urls {
			(*urls)[i] = publicURL(u)
		}
	}
	return r
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
