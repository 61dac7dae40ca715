package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// packagesLayer holds what the image has besides the driver: packages, and the repositories from which a node
// gets more of them.
func (b *Builder) packagesLayer(ctx context.Context, r *recipe.Recipe, base v1.Image) (v1.Layer, error) {
	var links map[string]string
	if r.Toolchain {
		links = r.Links
	}
	return b.installedLayer(ctx, r, base, "packages", r.Packages, links, r.Public().Repositories)
}

// installedLayer is packages on the base, recorded as installed, and repositories that are added to the
// base's.
func (b *Builder) installedLayer(
	ctx context.Context, r *recipe.Recipe, base v1.Image, name string, pkgs []distros.Package, links map[string]string,
	repositories []matrix.Repository,
) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, recipe.Digests(pkgs), links, r.Compression, r.Epoch}
	if len(repositories) > 0 {
		inputs = append(inputs, repositories)
	}
	k, err := layer.Key("packages", inputs...)
	if err != nil {
		return nil, err
	}
	return b.unpackedLayer(ctx, r, base, spec(r, name, k), pkgs, func(tree, lower *rootfs.Tree, all []packages.Unpacked) error {
		if err := packages.Install(r.Distro, tree, lower, all, r.Time()); err != nil {
			return err
		}
		if len(repositories) > 0 {
			if err := packages.Configure(r.Distro, tree, repositories); err != nil {
				return err
			}
		}
		return packages.AddLinks(tree, links)
	})
}

// headersLayer has the headers of a kernel. It is for compiling only and records nothing.
func (b *Builder) headersLayer(ctx context.Context, r *recipe.Recipe, base v1.Image, k recipe.Kernel) (v1.Layer, error) {
	key, err := layer.Key("headers", r.Base.Digest, recipe.Digests(k.Headers), r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.unpackedLayer(ctx, r, base, spec(r, "headers "+k.Release, key), k.Headers, func(tree, _ *rootfs.Tree, all []packages.Unpacked) error {
		if err := packages.Place(tree, all); err != nil {
			return err
		}
		return linkBuild(tree, r.Distro, k.Release)
	})
}

// unpackedLayer downloads and unpacks packages and passes them to install, which lays them over the base.
func (b *Builder) unpackedLayer(
	ctx context.Context, r *recipe.Recipe, base v1.Image, of layer.Spec, pkgs []distros.Package,
	install func(tree, lower *rootfs.Tree, all []packages.Unpacked) error,
) (v1.Layer, error) {
	return b.Layers().Make(ctx, of, func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		tree := rootfs.New(spool, lower)
		if len(pkgs) == 0 {
			return tree, install(tree, lower, nil)
		}
		reader, err := packages.NewReader(b.Env, sources(r), lower)
		if err != nil {
			return nil, err
		}
		all, err := reader.Unpack(ctx, pkgs, spool, step)
		if err != nil {
			return nil, err
		}
		return tree, install(tree, lower, all)
	})
}

// sources are the repositories that the packages of a recipe come from.
func sources(r *recipe.Recipe) packages.Sources {
	return packages.Sources{Distro: r.Distro, Arch: r.Arch, Repositories: r.Repositories, OnlyThese: r.OnlyThese, Kernels: r.Releases()}
}

// linkBuild makes the link by which modules are built, where the package that has it is the kernel's own and
// not there: that of all rpm kernels.
func linkBuild(tree *rootfs.Tree, d distros.Distro, release string) error {
	link := "lib/modules/" + release + "/build"
	if tree.Exists(link) {
		return nil
	}
	for _, dir := range d.BuildDirs(release) {
		if tree.Exists(dir) {
			return tree.AddLink(link, "/"+dir)
		}
	}
	return nil
}
