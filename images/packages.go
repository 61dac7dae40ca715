package images

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// packagesLayer has packages that are recorded as installed on the base, and repositories that are added to the base's,
// from which a node gets more of them.
func (b *Builder) packagesLayer(
	ctx context.Context, r *recipe.Recipe, base v1.Image, name string, pkgs []distros.Package, links map[string]string,
	repositories []matrix.Repository,
) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, recipe.Digests(pkgs), links, r.Compression, r.Epoch}
	if len(repositories) > 0 {
		inputs = append(inputs, repositories)
	}
	return b.unpackedLayer(ctx, r, base, name, "packages", inputs, pkgs, func(tree, lower *rootfs.Tree, all []packages.Unpacked) error {
		err := packages.Install(r.Distro, tree, lower, all, r.Time())
		if err == nil && len(repositories) > 0 {
			err = packages.Configure(r.Distro, tree, repositories)
		}
		if err == nil {
			err = packages.AddLinks(tree, links)
		}
		return err
	})
}

// headersLayer has the headers of a kernel. It is for compiling only and records nothing.
func (b *Builder) headersLayer(ctx context.Context, r *recipe.Recipe, base v1.Image, k recipe.Kernel) (v1.Layer, error) {
	inputs := []any{r.Base.Digest, recipe.Digests(k.Headers), r.Compression, r.Epoch}
	return b.unpackedLayer(ctx, r, base, "headers "+k.Release, "headers", inputs, k.Headers, func(tree, _ *rootfs.Tree, all []packages.Unpacked) error {
		if err := packages.Place(tree, all); err != nil {
			return err
		}
		// The link by which modules are built is in the kernel's own package with all rpm kernels.
		link := "lib/modules/" + k.Release + "/build"
		if tree.Exists(link) {
			return nil
		}
		for _, dir := range r.Distro.BuildDirs(k.Release) {
			if tree.Exists(dir) {
				return tree.AddLink(link, "/"+dir)
			}
		}
		return nil
	})
}

// unpackedLayer downloads and unpacks packages and passes them to install, which lays them over the base.
func (b *Builder) unpackedLayer(
	ctx context.Context, r *recipe.Recipe, base v1.Image, name, kind string, inputs []any, pkgs []distros.Package,
	install func(tree, lower *rootfs.Tree, all []packages.Unpacked) error,
) (v1.Layer, error) {
	return b.layer(ctx, r, name, kind, inputs, func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
		lower, err := packages.ReadBase(ctx, b.Layers(), base, r.Base.Digest, spool, step)
		if err != nil {
			return nil, err
		}
		var all []packages.Unpacked
		if len(pkgs) > 0 {
			reader, err := packages.NewReader(b.Env, sources(r), lower)
			if err == nil {
				all, err = reader.Unpack(ctx, pkgs, spool, step)
			}
			if err != nil {
				return nil, err
			}
		}
		tree := rootfs.New(spool, lower)
		return tree, install(tree, lower, all)
	})
}

// sources are the repositories that the packages of a recipe come from.
func sources(r *recipe.Recipe) packages.Sources {
	return packages.Sources{Distro: r.Distro, Arch: r.Arch, Repositories: r.Repositories, OnlyThese: r.OnlyThese, Kernels: r.Releases()}
}
