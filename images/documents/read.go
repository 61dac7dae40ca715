package documents

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// maxLicence bounds the text of a licence that a document repeats, in bytes. NVIDIA's has 25 kB,
// with those of Debian's packages 60 kB.
const maxLicence = 1 << 20

// OpenImages reads what a reference names, as registry.Client.Open does: one image, or the images
// of an index. arch selects one of an index; "" takes all. Errors are those of [Open] and
// [ReadImage].
func OpenImages(
	ctx context.Context,
	c *registry.Client,
	cache layer.Cache,
	ref, arch string,
) (m Model, err error) {
	top, all, err := Open(ctx, c, ref, arch)
	if err != nil {
		return m, err
	}
	for _, named := range all {
		i, err := ReadImage(ctx, cache, ref, named.Image)
		if err != nil {
			return m, fmt.Errorf("read %s: %w", ref, err)
		}
		m.Images = append(m.Images, i)
		if named.Digest != top {
			m.Index = top.String()
		}
		if !oci.IsLocal(ref) {
			m.Name, _, _ = strings.Cut(path.Base(named.Name), ":")
		}
	}
	return m, nil
}

// Open opens what a reference names, with its layers: one image, or the images of an index by
// architecture, or that for arch if it is not "". top is the digest of what it took them from: the
// index, or the image. Errors are those of registry.Client.Open.
func Open(
	ctx context.Context,
	c *registry.Client,
	ref, arch string,
) (top v1.Hash, all []*registry.Opened, err error) {
	named, err := c.Open(ctx, ref, registry.OpenOptions{Arch: arch})
	if err != nil {
		return top, nil, fmt.Errorf("open %s: %w", ref, err)
	}
	top = named.Digest
	if arch == "" && !oci.IsLocal(ref) && !strings.Contains(ref, "@") {
		// all architectures are of one index, also if the tag moves meanwhile
		ref += "@" + top.String()
	}
	var missing error
	for _, a := range distros.Archs() {
		if arch != "" && arch != a.Name {
			continue
		}
		named, err := c.Open(ctx, ref, registry.OpenOptions{Arch: a.Name, Part: registry.Layers})
		_, other := errors.AsType[*oci.PlatformError](err)
		if other {
			missing = err
			continue
		}
		if err != nil {
			return top, nil, fmt.Errorf("open %s: %w", ref, err)
		}
		all = append(all, named)
	}
	if len(all) == 0 {
		return top, nil, fmt.Errorf("open %s: %w", ref, missing)
	}
	return top, all, nil
}

// ReadImage returns what an image itself tells: its labels, its package database, its files.
func ReadImage(ctx context.Context, cache layer.Cache, name string, img v1.Image) (_ *ImageContent, err error) {
	step := cache.Observe.Begin(name, "sbom")
	defer func() { _ = step.End(false, err) }() // the error goes to the caller as well
	spool, err := rootfs.NewSpool(cache.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	tree, err := layer.Flatten(ctx, img, spool, nil, step)
	if err != nil {
		return nil, err
	}
	inspected, err := verify.Examiner{Store: cache.Store, Observe: cache.Observe}.InspectTree(ctx, img, tree)
	if err != nil {
		return nil, err
	}
	i := &ImageContent{Inspection: *inspected, created: config.Created.UTC(), texts: map[string]string{}, sums: map[string]string{}, links: links(tree)}
	// An image without os-release has packages of no known system.
	i.systemID, i.systemVersion, _ = osrelease.Read(tree.OpenFS())
	// it has none, and its compiler's packages are of the system that its name says
	if i.modulesOnly() {
		version := max(0, strings.IndexAny(i.System, "0123456789"))
		i.systemID = i.System[:version]
		i.systemVersion = i.System[version:]
	}
	return i, i.addFiles(tree)
}

// addFiles adds what the files tell of which the inspection has the names: digests, texts of
// licences, builds of programs.
func (i *ImageContent) addFiles(tree *rootfs.Tree) error {
	files := slices.Concat(i.Libraries, i.Firmware, i.Programs)
	for _, e := range tree.All() {
		p := "/" + e.Path
		switch {
		case e.Kind != rootfs.File:
		case isProgram(e.Path):
			build, err := buildInfo(e)
			if err != nil {
				return err
			}
			i.own = append(i.own, program{p, build})
			files = append(files, p)
		case i.isOther(p):
			i.others = append(i.others, p)
			files = append(files, p)
		}
	}
	texts := []string{recipe.LicenceFile}
	for _, name := range matrix.ComponentNames {
		texts = append(texts, recipe.ComponentLicence(name))
	}
	for _, p := range i.Packages {
		if p.Kind == "deb" {
			texts = append(texts, copyrightFile(p.Name))
		}
	}
	for _, name := range texts {
		e, err := tree.Stat(name)
		if err != nil || e.Kind != rootfs.File || e.ContentOmitted || e.Size > maxLicence {
			continue // verify says what is wrong with the licence; here it is not known
		}
		text, err := tree.ReadFile(e.Path)
		if err != nil {
			return fmt.Errorf("read the licence %s: %w", name, err)
		}
		i.texts[name] = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	for _, s := range i.Modules {
		for _, m := range s.Modules {
			files = append(files, "/"+path.Join(recipe.ModulesDir, s.Folder, m.Name+".ko"))
		}
	}
	for _, p := range files {
		e, err := tree.Stat(strings.TrimPrefix(p, "/"))
		if err != nil {
			return fmt.Errorf("digest of %s: %w", p, err)
		}
		i.sums[p], err = e.SHA256()
		if err != nil {
			return fmt.Errorf("digest of %s: %w", p, err)
		}
	}
	return nil
}

// isOther says that a file is one of the driver's by its name, and in none of the other lists:
// scripts such as nvidia-bug-report.sh, profiles, descriptions for loaders. Sources and records of
// packages are not listed by file.
func (i *ImageContent) isOther(p string) bool {
	inside := []string{
		"/" + recipe.ShareDir + "/",
		"/usr/src/",
		"/usr/share/doc/",
		"/var/",
		"/licenses/",
	}
	return i.Driver != "" && strings.Contains(p, "nvidia") &&
		!slices.ContainsFunc(inside, func(dir string) bool { return strings.HasPrefix(p, dir) }) &&
		!slices.Contains(
			i.Libraries,
			p,
		) && !slices.Contains(i.Firmware, p) && !slices.Contains(i.Programs, p)
}

// links are the names in the folder of a library that lead to it, which programs ask for, by the
// library.
func links(tree *rootfs.Tree) map[string][]string {
	all := map[string][]string{}
	for _, e := range tree.All() {
		if e.Kind != rootfs.Link || !strings.Contains(path.Base(e.Path), ".so") {
			continue
		}
		at, err := tree.Stat(e.Path) // verify says which links lead nowhere
		if err != nil || path.Dir(at.Path) != path.Dir(e.Path) {
			continue
		}
		all["/"+at.Path] = append(all["/"+at.Path], path.Base(e.Path))
	}
	return all
}
