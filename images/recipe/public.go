package recipe

import (
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

// Public is the recipe as it may be shown: without the credentials that addresses of mirrors may hold.
func (r *Recipe) Public() *Recipe {
	public := *r
	public.Packages, public.Source.Packages = publicPackages(r.Packages), publicPackages(r.Source.Packages)
	public.Compiler = publicPackages(r.Compiler)
	public.Kernels = slices.Clone(r.Kernels)
	for i := range public.Kernels {
		public.Kernels[i].Headers = publicPackages(public.Kernels[i].Headers)
	}
	public.Repositories = publicRepositories(r.Repositories)
	if archive := r.Source.Archive(); archive != nil {
		file := *archive
		file.URL = publicURL(file.URL)
		public.Source = public.Source.WithArchive(&file)
	}
	public.Companions = publicCompanions(r.Companions)
	public.Fabric = slices.Clone(r.Fabric)
	for i := range public.Fabric {
		public.Fabric[i].File.URL = publicURL(public.Fabric[i].File.URL)
	}
	public.Patches = slices.Clone(r.Patches)
	for i := range public.Patches {
		public.Patches[i].URL = publicURL(public.Patches[i].URL)
	}
	return &public
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

// PublicMirror is a mirror, as Options has it, without the credentials in its URLs.
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

func publicPackages(pkgs []distros.Package) []distros.Package {
	public := slices.Clone(pkgs)
	for i := range public {
		public[i].URL = publicURL(public[i].URL)
	}
	return public
}

func publicURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	u.User = nil
	return u.String()
}
