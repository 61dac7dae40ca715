package images

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// installedLayer has the packages of an image: on the base, or all that there are.
func (b *Builder) installedLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
) (v1.Layer, error) {
	if r.Distroless {
		return b.distrolessLayer(ctx, r, base)
	}
	var links map[string]string
	if r.Toolchain {
		links = r.Links
	}
	return b.packagesLayer(ctx, r, base, "packages", r.Packages, links, r.Public().Repositories)
}

// packagesLayer has packages that are recorded as installed on the base, and repositories that are
// added to the base's, from which a node gets more of them.
func (b *Builder) packagesLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	name string,
	pkgs []distros.Package,
	links map[string]string,
	repositories []matrix.Repository,
) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, recipe.Digests(pkgs), links, r.Compression, r.Epoch}
	if len(repositories) > 0 {
		inputs = append(inputs, repositories)
	}
	return b.unpackedLayer(
		ctx,
		r,
		base,
		name,
		"packages",
		inputs,
		pkgs,
		func(lower *rootfs.Tree, spool *rootfs.Spool, all []packages.Unpacked) (*rootfs.Tree, error) {
			tree := rootfs.New(spool, lower)
			err := packages.Install(r.Distro, tree, lower, all, r.Time())
			if err != nil {
				return nil, err
			}
			if len(repositories) > 0 {
				err = packages.Configure(r.Distro, tree, repositories)
				if err != nil {
					return nil, err
				}
			}
			return tree, packages.AddLinks(tree, links)
		},
	)
}

// distrolessLayer has all packages of an image without a base.
func (b *Builder) distrolessLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
) (v1.Layer, error) {
	links := r.Distro.Distroless(r.Arch).Links
	inputs := []any{r.Base.Digest, recipe.Digests(r.Packages), links, r.Compression, r.Epoch}
	return b.unpackedLayer(
		ctx,
		r,
		base,
		"packages",
		"distroless root",
		inputs,
		r.Packages,
		func(base *rootfs.Tree, spool *rootfs.Spool, all []packages.Unpacked) (*rootfs.Tree, error) {
			tree := rootfs.New(spool, nil)
			for i := range all {
				all[i].Distroless = true
			}
			err := packages.LinkFolders(tree, base)
			if err != nil {
				return nil, err
			}
			err = packages.Install(r.Distro, tree, rootfs.New(spool, nil), all, r.Time())
			if err != nil {
				return nil, err
			}
			return tree, packages.AddLinks(tree, links)
		},
	)
}

// loaderCache is the cache of the dynamic loader, which ldconfig makes elsewhere: what layers have
// in the folder of libraries, and what the base's own has in folders that the loader does not know.
func (b *Builder) loaderCache(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	layers []v1.Layer,
	spool *rootfs.Spool,
	step *progress.Step,
) ([]byte, error) {
	arch, _ := distros.LookupArch(r.Arch)
	libraries := map[string]string{}
	folders := []string{strings.TrimPrefix(r.LibDir, "usr/"), r.LibDir}
	var paths []string
	for _, l := range layers {
		some, err := b.librariesOf(ctx, l, spool, step)
		if err != nil {
			return nil, err
		}
		paths = append(paths, some...)
	}
	for _, dir := range folders { // the last one counts
		for _, at := range paths {
			if path.Dir(at) == "/"+dir {
				libraries[path.Base(at)] = at
			}
		}
	}
	if !r.Distroless {
		lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		text, err := lower.ReadFile(elffile.LoaderCachePath)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for name, at := range elffile.ReadLoaderCache(arch.Machine, text) {
			if !slices.Contains(folders, strings.TrimPrefix(path.Dir(at), "/")) {
				libraries[name] = at
			}
		}
	}
	return elffile.LoaderCache(arch.Machine, libraries), nil
}

// librariesRecord is the kind of record that has the libraries of a layer, under its diff ID.
const librariesRecord = "libraries"

// noteLibraries records the libraries of a layer that was made, so that it is not read for them.
func (b *Builder) noteLibraries(id v1.Hash, tree *rootfs.Tree) error {
	paths := libraries(tree)
	if len(paths) == 0 { // most layers, of which none is asked
		return nil
	}
	return b.Store.Note(librariesRecord, layer.Key(librariesRecord, id), "", paths)
}

// libraries are the paths of the libraries in a tree, without those of the lower one.
func libraries(tree *rootfs.Tree) (paths []string) {
	for _, e := range tree.All() {
		name := path.Base(e.Path)
		isFile := e.Kind == rootfs.File || e.Kind == rootfs.Link
		if isFile && strings.HasPrefix(name, "lib") && strings.Contains(name, ".so") {
			paths = append(paths, "/"+e.Path)
		}
	}
	return paths
}

// librariesOf are the libraries of a layer. One of a registry is read once for them: those of a
// driver are in the images of all systems.
func (b *Builder) librariesOf(
	ctx context.Context,
	l v1.Layer,
	spool *rootfs.Spool,
	step *progress.Step,
) ([]string, error) {
	id, err := l.DiffID()
	if err != nil {
		return nil, err
	}
	return remembered(b, librariesRecord, layer.Key(librariesRecord, id), func() ([]string, error) {
		tree := rootfs.New(spool, nil)
		names := func(string) bool { return false }
		err := layer.Apply(ctx, tree, l, names, step, loaderCacheName)
		return libraries(tree), err
	})
}

// headersLayer has the headers of a kernel. It is for compiling only and records nothing.
func (b *Builder) headersLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	k recipe.Kernel,
) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, recipe.Digests(k.Headers), r.Compression, r.Epoch}
	return b.unpackedLayer(
		ctx,
		r,
		base,
		"headers "+k.Release,
		"headers",
		inputs,
		k.Headers,
		func(lower *rootfs.Tree, spool *rootfs.Spool, all []packages.Unpacked) (*rootfs.Tree, error) {
			tree := rootfs.New(spool, lower)
			return tree, packages.PlaceHeaders(r.Distro, tree, k.Release, all)
		},
	)
}

// unpackedLayer downloads and unpacks packages and passes them to install, which makes the layer of
// them.
func (b *Builder) unpackedLayer(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	name, kind string,
	inputs []any,
	pkgs []distros.Package,
	install func(base *rootfs.Tree, spool *rootfs.Spool, all []packages.Unpacked) (*rootfs.Tree, error),
) (v1.Layer, error) {
	work := func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		if len(pkgs) == 0 {
			return install(lower, spool, nil)
		}
		reader, err := packages.NewReader(b.Env(), sources(r), lower)
		if err != nil {
			return nil, err
		}
		all, err := reader.Unpack(ctx, pkgs, spool, step)
		if err != nil {
			return nil, err
		}
		return install(lower, spool, all)
	}
	return b.layer(ctx, r, name, kind, inputs, work)
}

// sources are the repositories that the packages of a recipe come from.
func sources(r *recipe.Recipe) packages.Sources {
	return packages.Sources{
		Distro:       r.Distro,
		Arch:         r.Arch,
		Repositories: r.Repositories,
		OnlyThese:    r.OnlyThese,
		Kernels:      r.Releases(),
		Signed:       len(r.Asked.Signed) > 0,
	}
}
