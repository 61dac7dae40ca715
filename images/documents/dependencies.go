package documents

import (
	"cmp"
	"maps"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// as gives a resource its role among the dependencies.
func (d Resource) as(role string) Resource {
	d.Annotations = map[string]string{"role": role}
	return d
}

// equal reports whether two resources are the same content in the same role.
func (d Resource) equal(other Resource) bool {
	return d.Name == other.Name && d.URI == other.URI && maps.Equal(d.Digest,
		other.Digest) && d.Annotations["role"] == other.Annotations["role"]
}

// dependencies are all pins of a recipe: what was fetched or read, each with its digest. An input with two
// roles is there twice.
func dependencies(r *recipe.Recipe) (all []Resource) {
	add := func(role string, list ...Resource) {
		for _, d := range list {
			all = append(all, d.as(role))
		}
	}
	add("base image", imageResource(r.Base, "base"))
	add("package of the image", packageResources(r.Packages...)...)
	add("driver", packageResources(r.Source.Packages...)...)
	add("compiler", packageResources(r.Compiler...)...)
	for _, k := range r.Kernels {
		add("headers of "+k.Release, packageResources(k.Headers...)...)
		if k.Toolkit != nil {
			add("image with headers and compiler of "+k.Release, imageResource(*k.Toolkit, "toolkit"))
		}
	}
	if archive := r.Source.Archive(); archive != nil {
		add("driver", fileResource(*archive))
	}
	for _, c := range r.Fabric {
		add("component of the driver", fileResource(c.File))
	}
	for _, c := range r.Companions {
		if c.File != nil {
			add("companion", fileResource(*c.File))
		} else {
			add("companion", packageResources(*c.Package)...)
		}
	}
	for _, p := range r.Patches {
		add("patch of the driver", Resource{Name: p.Name, URI: p.URL, Digest: sha256Digest(p.SHA256)})
	}
	for _, p := range r.Entrypoint {
		add("program", Resource{Name: p.Name, Digest: sha256Digest(p.SHA256)})
	}
	if r.Signer != "" {
		add("signing certificate", Resource{Name: "certificate", Digest: sha256Digest(r.Signer)})
	}
	return all
}

func sha256Digest(hex string) map[string]string { return map[string]string{"sha256": hex} }

// fileResource is an archive that was downloaded.
func fileResource(f fetch.File) Resource {
	return Resource{Name: path.Base(f.URL), URI: f.URL, Digest: sha256Digest(f.SHA256)}
}

// imageResource names an image as a registry does; one that came from a file has only a word.
func imageResource(of recipe.Base, word string) Resource {
	d := Resource{Name: cmp.Or(of.Name, word), Digest: sha256Digest(strings.TrimPrefix(of.Digest, "sha256:"))}
	if of.Name != "" {
		d.URI = "docker://" + of.Name + "@" + of.Digest
	}
	return d
}

// packageResources names packages as a repository does: "libc6_2.36-9_amd64".
func packageResources(list ...distros.Package) (all []Resource) {
	for _, p := range list {
		d := Resource{Name: p.Name + "_" + p.Version + "_" + p.Arch, URI: p.URL, Digest: sha256Digest(p.SHA256)}
		if p.SHA256 == "" {
			d.Digest = map[string]string{"sha512": p.SHA512}
		}
		all = append(all, d)
	}
	return all
}
