package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// ErrNotCompiling says that an image cannot be asked to compile: another program made it, or it has
// no compiler.
var ErrNotCompiling = errors.New("the image is not one that compiles modules")

// TryCompile compiles the modules that a driver needs at least, nvidia and nvidia-uvm, as a node
// would: with the image's own entrypoint, compiler and sources. The headers are packages from the
// image's own repositories. release is the kernel; "": the newest of the usual flavour that the
// driver compiles on. It returns the release. Errors: ErrNotCompiling, those of Plan, and those of
// the runner; a *runner.FailedError is the image's fault.
func (b *Builder) TryCompile(
	ctx context.Context,
	ref string,
	img *registry.Opened,
	release string,
) (_ string, err error) {
	work := func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
		c, err := b.openCompiler(ctx, b.Env(), ref, img, []string{release}, spool, step)
		if err != nil {
			return false, fmt.Errorf("compile in %s: %w", ref, err)
		}
		k, err := b.kernelFor(ctx, c, release, step)
		if err != nil {
			return false, fmt.Errorf("compile in %s: %w", ref, err)
		}
		release = k.Release
		return false, b.compileIn(ctx, c, ref, img.Image, k, step)
	}
	err = b.Step(ref, "compile", work)
	return release, err
}

// compileIn compiles the modules that a driver needs at least in an image.
func (b *Builder) compileIn(
	ctx context.Context,
	c compilerImage,
	ref string,
	img v1.Image,
	k recipe.Kernel,
	step *progress.Step,
) error {
	info := c.info
	r := &recipe.Recipe{
		Distro:      c.target.Distro,
		System:      info.OS,
		Driver:      info.Driver,
		Branch:      info.Branch,
		Arch:        info.Arch,
		Tag:         ref,
		Flavours:    info.Flavours,
		Base:        recipe.Base{Digest: c.digest},
		Compression: recipe.Gzip,
		Modules:     driverinfo.RequiredModules(),
	}
	root := func() ([]v1.Layer, string, error) {
		layers, err := img.Layers()
		if err != nil {
			return nil, "", err
		}
		headers, err := b.headersLayer(ctx, r, img, k)
		return append(layers, headers), r.SearchPath(recipe.DefaultPath), err
	}
	discard := func(*kbuild.Set) error { return nil }
	return b.compile(ctx, r, k, info.Flavours[0], step, root, discard)
}

// compilerImage is an image that compiles modules.
type compilerImage struct {
	target matrix.Target
	info   driverinfo.Description
	digest string
	repos  packages.Repositories // that the image itself names
}

// openCompiler reads the description of an image, which must be one that can compile, and opens its
// repositories by env, for the headers of some kernels.
func (b *Builder) openCompiler(
	ctx context.Context,
	env packages.Env,
	ref string,
	img *registry.Opened,
	releases []string,
	spool *rootfs.Spool,
	step *progress.Step,
) (c compilerImage, err error) {
	isDescription := func(p string) bool { return p == driverinfo.Path }
	tree, err := layer.Flatten(ctx, img.Image, spool, isDescription, step)
	if err != nil {
		return c, err
	}
	c.info, err = driverinfo.Read(tree.OpenFS())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, fmt.Errorf("%w: driver-build did not make it", ErrNotCompiling)
	case err != nil:
		return c, err
	case !c.info.Toolchain:
		return c, fmt.Errorf(
			"%w: it has modules for the kernels %q, and no compiler",
			ErrNotCompiling,
			c.info.Kernels(),
		)
	}
	c.target = matrix.Target{
		System:   matrix.System{ID: c.info.OS, Base: ref},
		Driver:   matrix.Driver{Version: c.info.Driver, Branch: c.info.Branch},
		Arch:     c.info.Arch,
		Flavours: c.info.Flavours,
	}
	c.target.Distro, err = distros.Lookup(c.info.OS)
	if err != nil {
		return c, err
	}
	c.digest = img.Digest.String()
	base, err := packages.ReadBase(ctx, b.Layers(), img.Image, c.digest, spool, step)
	if err != nil {
		return c, err
	}
	sources := packages.SourcesOf(c.target, recipe.Options{Kernels: releases})
	c.repos, err = packages.Open(ctx, env, sources, base)
	return c, err
}

// kernelFor finds the kernel to compile for, and the packages with its headers.
func (b *Builder) kernelFor(
	ctx context.Context,
	c compilerImage,
	release string,
	step *progress.Step,
) (k recipe.Kernel, err error) {
	t := c.target
	if release == "" {
		offered, _, err := b.indexedKernels(ctx, t, c.repos, step)
		if err != nil {
			return k, err
		}
		release = usualKernel(offered, t.Distro.KernelFlavour(t.Arch), c.info)
		if release == "" {
			return k, fmt.Errorf(
				"%w: of the %d kernels that its repositories offer, driver %s compiles on none of the usual flavour",
				recipe.ErrKernel,
				len(offered),
				c.info.Driver,
			)
		}
	}
	headers := t.Distro.Headers(release)
	if headers == nil {
		return k, fmt.Errorf(
			"%w: %q is no release of a kernel of %s with packages of headers",
			recipe.ErrKernel,
			release,
			t.System.ID,
		)
	}
	pins, err := b.resolve(ctx, c.digest, c.repos, recipe.Wants{Image: headers}, c.info.Driver, step)
	return recipe.Kernel{Release: release, Headers: pins.Packages}, err
}

// usualKernel is the newest kernel of a flavour that the driver compiles on, of the series that the
// system installs by default if the repositories say which that is; or "".
func usualKernel(
	offered []packages.Kernel,
	flavour string,
	info driverinfo.Description,
) (release string) {
	for _, k := range offered {
		if k.Flavour != flavour || info.CheckKernel(k.Release) != nil ||
			info.Breaks(
				driverinfo.Kernel{
					Release: k.Release,
					Version: driverinfo.UpstreamRelease(k.Release, k.Version),
				},
				info.Flavours[0],
			) != nil {
			continue
		}
		if k.Default {
			return k.Release
		}
		release = cmp.Or(release, k.Release)
	}
	return release
}
