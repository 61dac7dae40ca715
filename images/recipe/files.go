package recipe

import (
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// AllPackages lists all packages of a recipe, each once.
func (r *Recipe) AllPackages() []distros.Package {
	all := slices.Concat(r.Packages, r.Source.Packages, r.Compiler, r.companionPins())
	for _, k := range r.Kernels {
		all = append(all, k.Headers...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p distros.Package) bool {
		again := seen[p.Digest()]
		seen[p.Digest()] = true
		return again
	})
}

// Files lists what a recipe downloads, besides the base, each once.
func (r *Recipe) Files() []fetch.File {
	var files []fetch.File
	for _, p := range r.AllPackages() {
		files = append(files, PackageFile(p))
	}
	if archive := r.Source.Archive(); archive != nil {
		files = append(files, *archive)
	}
	for _, c := range r.Fabric {
		files = append(files, c.File)
	}
	for _, c := range r.Companions {
		if c.File != nil {
			files = append(files, *c.File)
		}
	}
	for _, p := range r.Patches {
		if file, ok := p.Download(); ok {
			files = append(files, file)
		}
	}
	return files
}

// PackageFile is the download of a package.
func PackageFile(p distros.Package) fetch.File {
	return fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size}
}
