package provenance

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// The roles of dependencies, an annotation of each.
const (
	roleBase     = "base image"
	rolePackage  = "package of the image"
	roleDriver   = "driver"
	roleCompiler = "compiler"
	rolePart     = "component of the driver"
	rolePatch    = "patch of the driver"
	roleHeaders  = "headers of "
	roleToolkit  = "image with headers and compiler of "

	roleCompanion = "companion"
	roleProgram   = "program"
	roleSigner    = "signing certificate"
	roleMatrix    = "matrix"
	roleLock      = "lock"
	roleConfig    = "configuration"
)

// The other annotations: what a recipe knows of a package or an archive, as a name cannot be taken apart (the
// versions and architectures of rpm packages have underscores).
const (
	noteRole    = "role"
	notePackage = "package"
	noteVersion = "version"
	noteArch    = "arch"
	noteKeys    = "keys" // fingerprints, of which one must have signed the package itself
	noteSize    = "size" // bytes
	noteFormat  = "format"
	notePart    = "component"

	// Of a companion; notePart and noteVersion are taken by its archive or package.
	noteCompanion        = "companion"
	noteCompanionVersion = "companion version"
	noteFlavours         = "flavours"
	noteLicence          = "licence"
)

// formatRedist is the format of a driver's archive that is none of the usual .run archives.
const formatRedist = "redist"

// dependencies are all pins of a recipe: what was fetched or read, each with its digest. An input with two
// roles is there twice.
func dependencies(r *recipe.Recipe, run Run) (all []Resource) {
	add := func(role string, d Resource) {
		notes := map[string]string{noteRole: role}
		maps.Copy(notes, d.Annotations)
		d.Annotations = notes
		all = append(all, d)
	}
	packages := func(role string, list []distros.Package) {
		for _, p := range list {
			add(role, packageResource(p))
		}
	}
	add(roleBase, imageResource(r.Base, "base"))
	packages(rolePackage, r.Packages)
	packages(roleDriver, r.Source.Packages)
	packages(roleCompiler, r.Compiler)
	for _, k := range r.Kernels {
		packages(roleHeaders+k.Release, k.Headers)
		if k.Toolkit != nil {
			add(roleToolkit+k.Release, imageResource(*k.Toolkit, "toolkit"))
		}
	}
	if file := r.Source.Archive(); file != nil {
		d := fileResource(*file)
		if r.Source.Redist != nil {
			d.Annotations[noteFormat] = formatRedist
		}
		add(roleDriver, d)
	}
	for _, c := range r.Fabric {
		d := fileResource(c.File)
		d.Annotations[notePart], d.Annotations[noteVersion] = c.Name, c.Version
		add(rolePart, d)
	}
	for _, c := range r.Companions {
		add(roleCompanion, companionResource(c))
	}
	for _, p := range r.Patches {
		d := Resource{Name: p.Name, URI: p.URL, Digest: map[string]string{"sha256": p.SHA256}}
		if p.URL == "" {
			d.Content = []byte(p.Text)
		}
		add(rolePatch, d)
	}
	for _, p := range r.Entrypoint {
		add(roleProgram, Resource{Name: p.Name, Digest: map[string]string{"sha256": p.SHA256}})
	}
	if r.Signer != "" {
		add(roleSigner, Resource{Name: "certificate", Digest: map[string]string{"sha256": r.Signer}})
	}
	for _, file := range []struct {
		role string
		d    *Resource
	}{{roleMatrix, run.Matrix}, {roleLock, run.Lock}} {
		if file.d != nil {
			add(file.role, *file.d)
		}
	}
	for _, d := range run.Configs {
		add(roleConfig, d)
	}
	return sorted(all)
}

// fileResource is an archive that was downloaded.
func fileResource(file fetch.File) Resource {
	return Resource{Name: path.Base(file.URL), URI: file.URL, Digest: map[string]string{"sha256": file.SHA256}, Annotations: sizeNote(file.Size)}
}

func companionResource(c recipe.Companion) (d Resource) {
	if c.Package != nil {
		d = packageResource(*c.Package)
	} else {
		d = fileResource(*c.File)
	}
	d.Annotations[noteCompanion], d.Annotations[noteCompanionVersion], d.Annotations[noteLicence] = c.Name, c.Version, c.Licence
	if len(c.Flavours) > 0 {
		d.Annotations[noteFlavours] = strings.Join(c.Flavours, " ")
	}
	return d
}

// imageResource names an image as a registry does; one that came from a file has only a word.
func imageResource(image recipe.Base, word string) Resource {
	d := Resource{Name: cmp.Or(image.Name, word), Digest: digestOf(image.Digest)}
	if image.Name != "" {
		d.URI = "docker://" + image.Name + "@" + image.Digest
	}
	return d
}

// packageResource names a package as the repository does: "libc6_2.36-9_amd64".
func packageResource(p distros.Package) Resource {
	d := Resource{Name: p.Name + "_" + p.Version + "_" + p.Arch, URI: p.URL, Digest: map[string]string{"sha256": p.SHA256}}
	if p.SHA256 == "" {
		d.Digest = map[string]string{"sha512": p.SHA512}
	}
	d.Annotations = sizeNote(p.Size)
	d.Annotations[notePackage], d.Annotations[noteVersion], d.Annotations[noteArch] = p.Name, p.Version, p.Arch
	if len(p.Keys) > 0 {
		d.Annotations[noteKeys] = strings.Join(p.Keys, " ")
	}
	return d
}

func sizeNote(size int64) map[string]string {
	if size == 0 { // unknown
		return map[string]string{}
	}
	return map[string]string{noteSize: strconv.FormatInt(size, 10)}
}

func digestOf(text string) map[string]string {
	algorithm, hex, ok := strings.Cut(text, ":")
	if !ok {
		return nil
	}
	return map[string]string{algorithm: hex}
}

// sorted returns resources in an order of their own: by role, name and digest.
func sorted(list []Resource) []Resource {
	return slices.SortedFunc(slices.Values(list), func(a, b Resource) int {
		return cmp.Or(strings.Compare(a.Annotations[noteRole], b.Annotations[noteRole]), strings.Compare(a.Name, b.Name),
			strings.Compare(digestText(a), digestText(b)), strings.Compare(a.URI, b.URI))
	})
}

// digestText is "sha256:..." of a resource; of several digests, all of them.
func digestText(d Resource) string {
	var all []string
	for algorithm, hex := range d.Digest {
		all = append(all, algorithm+":"+hex)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
