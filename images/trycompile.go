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
	err = b.step(
		ref,
		"compile",
		func(spool *rootfs.Spool, step *progress.Step) (cached bool, err error) {
			t, info, err := compiling(ctx, ref, img, spool, step)
			if err != nil {
				return false, fmt.Errorf("compile in %s: %w", ref, err)
			}
			k, err := b.kernelFor(ctx, t, info, img, release, spool, step)
			if err != nil {
				return false, fmt.Errorf("compile in %s: %w", ref, err)
			}
			r := &recipe.Recipe{
				Distro: t.Distro, System: info.OS, Driver: info.Driver, Branch: info.Branch, Arch: info.Arch, Tag: ref, Flavours: info.Flavours,
				Base: recipe.Base{
					Digest: img.Digest.String(),
				}, Compression: recipe.Gzip, Modules: driverinfo.RequiredModules(),
			}
			release = k.Release
			return false, b.compile(
				ctx,
				r,
				k,
				info.Flavours[0],
				step,
				func() ([]v1.Layer, string, error) {
					layers, err := img.Image.Layers()
					if err != nil {
						return nil, "", err
					}
					headers, err := b.headersLayer(ctx, r, img.Image, k)
					return append(layers, headers), r.SearchPath(recipe.DefaultPath), err
				},
				func(*kbuild.Set) error { return nil },
			)
		},
	)
	return release, err
}

// compiling reads the description of an image that can compile, and of which target it is.
func compiling(
	ctx context.Context,
	ref string,
	img *registry.Opened,
	spool *rootfs.Spool,
	step *progress.Step,
) (t matrix.Target, info driverinfo.Description, err error) {
	tree, err := layer.Flatten(
		ctx,
		img.Image,
		spool,
		func(p string) bool { return p == driverinfo.Path },
		step,
	)
	if err != nil {
		return t, info, err
	}
	info, err = driverinfo.Read(tree.OpenFS())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, info, fmt.Errorf("%w: driver-build did not make it", ErrNotCompiling)
	case err != nil:
		return t, info, err
	case !info.Toolchain:
		return t, info, fmt.Errorf(
			"%w: it has modules for the kernels %q, and no compiler",
			ErrNotCompiling,
			info.Kernels(),
		)
	}
	t = matrix.Target{
		System: matrix.System{
			ID:   info.OS,
			Base: ref,
		}, Driver: matrix.Driver{Version: info.Driver, Branch: info.Branch},
		Arch: info.Arch, Flavours: info.Flavours,
	}
	t.Distro, err = distros.Lookup(info.OS)
	return t, info, err
}

// kernelFor finds the kernel to compile for, and the packages with its headers, in the repositories
// that the image itself names.
func (b *Builder) kernelFor(
	ctx context.Context,
	t matrix.Target,
	info driverinfo.Description,
	img *registry.Opened,
	release string,
	spool *rootfs.Spool,
	step *progress.Step,
) (k recipe.Kernel, err error) {
	digest := img.Digest.String()
	tree, err := packages.ReadBase(ctx, b.Layers(), img.Image, digest, spool, step)
	if err != nil {
		return k, err
	}
	repos, err := packages.Open(
		ctx,
		b.env(),
		packages.SourcesOf(t, recipe.Options{Kernels: []string{release}}),
		tree,
	)
	if err != nil {
		return k, err
	}
	if release == "" {
		offered, _, err := b.indexedKernels(ctx, t, repos, step)
		if err != nil {
			return k, err
		}
		release = usualKernel(offered, t.Distro.KernelFlavour(t.Arch), info)
		if release == "" {
			return k, fmt.Errorf(
				"%w: of the %d kernels that its repositories offer, driver %s compiles on none of the usual flavour",
				recipe.ErrKernel,
				len(offered),
				info.Driver,
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
	pins, err := b.resolve(ctx, digest, repos, recipe.Wants{Image: headers}, info.Driver, step)
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
