package documents

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// dependencies are all pins of a recipe: what was fetched or read, each with its digest and its
// role. An input with two roles is there twice.
func dependencies(r *recipe.Recipe) (all []Resource) {
	add := func(role, name, uri, digest string) {
		algorithm, hex, _ := strings.Cut(digest, ":")
		all = append(all, Resource{name, uri, map[string]string{algorithm: hex}, map[string]string{"role": role}})
	}
	addFile := func(role string, f fetch.File) { add(role, path.Base(f.URL), f.URL, f.Digest()) }
	// named as a registry does; one that came from a file has only a word
	addImage := func(role, word string, of recipe.Base) {
		if of.Name == "" {
			add(role, word, "", of.Digest)
		} else {
			add(role, of.Name, "docker://"+of.Name+"@"+of.Digest, of.Digest)
		}
	}
	// named as a repository does: "libc6_2.36-9_amd64"
	addPackages := func(role string, list ...distros.Package) {
		for _, p := range list {
			add(role, p.Name+"_"+p.Version+"_"+p.Arch, p.URL, recipe.PackageFile(p).Digest())
		}
	}
	addImage("base image", "base", r.Base)
	addPackages("package of the image", r.Packages...)
	addPackages("driver", r.Source.Packages...)
	addPackages("compiler", r.Compiler...)
	for _, k := range r.Kernels {
		addPackages("headers of "+k.Release, k.Headers...)
		for _, flavour := range slices.Sorted(maps.Keys(k.Signed)) {
			addPackages(flavour+" modules of "+k.Release, k.Signed[flavour]...)
		}
		if k.Toolkit != nil {
			addImage("image with headers and compiler of "+k.Release, "toolkit", *k.Toolkit)
		}
	}
	if archive := r.Source.Archive(); archive != nil {
		addFile("driver", *archive)
	}
	for _, c := range r.Fabric {
		addFile("component of the driver", c.File)
	}
	for _, c := range r.Companions {
		if c.File != nil {
			addFile("companion", *c.File)
		} else {
			addPackages("companion", *c.Package)
		}
	}
	for _, p := range r.Patches {
		add("patch of the driver", p.Name, p.URL, "sha256:"+p.SHA256)
	}
	for _, p := range r.Entrypoint {
		add("program", p.Name, "", "sha256:"+p.SHA256)
	}
	if r.Signer != "" {
		add("signing certificate", "certificate", "", "sha256:"+r.Signer)
	}
	return all
}
