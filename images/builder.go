// Package images turns targets of the matrix into driver images.
//
// A [Request] is planned into recipes, in which everything that goes into an image is pinned
// ([Builder.Plan]). A recipe is built into an image ([Builder.Build]): of layers, each a pure
// function of its inputs and kept in a cache by their digest, on the base. Images of one tag become
// one artifact ([Combine]), which package attestation publishes.
//
// Nothing is executed and nothing is unpacked onto the machine, so no step needs root or a daemon,
// except one: a runner (package runner) compiles modules. The package prints nothing and knows no
// exit codes.
package images

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/sign"
)

// Builder makes images. It is safe for concurrent use: targets that share a layer make it once.
type Builder struct {
	Store    *fetch.Store  // downloads and finished layers
	Fetch    *fetch.Client // of packages, drivers and other files
	Registry *registry.Client
	Observe  progress.Observer // nil: nobody looks

	Jobs          int                   // downloads and packages unpacked at a time, 0: 4; images planned, 0: 1
	XZ            compression.XZProgram // "": in Go
	Machine       fs.FS                 // as in packages.Env
	AllowRollback bool                  // accept an index of packages that is older than one seen before

	// the programs that go into the entrypoint layer
	Binaries func(arch string) ([]recipe.Binary, error)
	Info     recipe.BuilderInfo

	// Finished finds finished layers in registries; nil: every layer is made on this machine.
	Finished *layer.Finder

	// Runner returns the runner that compiles modules. Build calls it only if there are modules to
	// compile; nil: Build cannot compile.
	Runner func(context.Context) (runner.Runner, error)
	// of the modules that are compiled for images; nil: they stay unsigned
	Signer *sign.Signer
	// that another party made for these modules; nil: Signer signs
	Signed *kernelmodules.Signatures

	// what repositories and images offer, each asked once
	kernels layer.Once[[]distros.Kernel] // by platform, or by images
	first   layer.Once[recipe.Pins]      // of the first image of a platform
	pins    layer.Once[recipe.Pins]      // by platform and request

	// layers in the making, by key, and errors of those that could not be made
	making    layer.Once[v1.Layer]
	bases     layer.Once[*registry.Opened]
	unpacking layer.Once[driverLayers] // by archive
	compiling sync.Once                // makes slots
	slots     *semaphore.Weighted
}

// Env is what packages are found and read with.
func (b *Builder) Env() packages.Env {
	return packages.Env{
		Store: b.Store, Fetch: b.Fetch, Jobs: b.Jobs, XZ: b.XZ,
		Machine: b.Machine, AllowRollback: b.AllowRollback,
	}
}

// Build makes the image of a recipe. It fails as fetch, apt, runfile and dpkg do; what was finished
// stays in the cache.
func (b *Builder) Build(ctx context.Context, r *recipe.Recipe) (v1.Image, error) {
	img, err := b.build(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", r.Target(), err)
	}
	return img, nil
}

func (b *Builder) build(ctx context.Context, r *recipe.Recipe) (v1.Image, error) {
	base, err := b.base(ctx, r)
	if err != nil {
		return nil, err
	}
	info, err := r.Describe()
	if err != nil {
		return nil, err
	}
	if b.Finished != nil {
		b.Finished.Read(r.Tag, r.Arch) //nolint:contextcheck // the finder has a context that lasts as long as its layers
	}
	var made imageLayers
	eg, ectx := errgroup.WithContext(ctx)
	whole := r.Profile != recipe.ModulesOnly
	if whole {
		start(eg, &made.packages, func() (v1.Layer, error) { return b.installedLayer(ectx, r, base) })
		start(eg, &made.entrypoint, func() (v1.Layer, error) { return b.entrypointLayer(ectx, r) })
	}
	if r.Sources {
		start(eg, &made.companions, func() (v1.Layer, error) { return b.companionsLayer(ectx, r) })
	}
	start(eg, &made.fabric, func() (v1.Layer, error) { return b.fabricLayer(ectx, r) })
	start(eg, &made.driver, func() (driverLayers, error) { return b.driverLayers(ectx, r, r.Sources) })
	start(eg, &made.modules, func() ([]namedLayer, error) { return b.modulesLayers(ectx, r, base) })
	err = eg.Wait()
	if err != nil {
		return nil, err
	}
	if whole {
		made.loaderCache, err = b.loaderCacheLayer(ctx, r, base, made.packages, made.driver.user, made.fabric)
		if err != nil {
			return nil, err
		}
	}
	if !r.Sources {
		made.driver.kernel = nil // it may have been made beside the other
	}
	if r.Distroless {
		base = empty.Image
	}
	omitted, err := b.omitted(ctx, r, made.modules)
	if err != nil {
		return nil, err
	}
	return b.assemble(ctx, r, info, base, made.list(r), omitted)
}

// imageLayers are the layers that a build adds to the base; nil: the image has no such layer.
type imageLayers struct {
	packages    v1.Layer
	driver      driverLayers
	fabric      v1.Layer
	companions  v1.Layer
	modules     []namedLayer
	entrypoint  v1.Layer
	loaderCache v1.Layer
}

// list returns the layers in their order in the image.
func (l imageLayers) list(r *recipe.Recipe) []namedLayer {
	layers := slices.Concat(
		[]namedLayer{
			{"packages", l.packages},
			{userMode(r), l.driver.user},
			{recipe.FabricLayer, l.fabric},
			{"kernel sources", l.driver.kernel},
			{recipe.CompanionsLayer, l.companions},
		},
		l.modules,
		[]namedLayer{{"entrypoint", l.entrypoint}, {loaderCacheName, l.loaderCache}},
	)
	return slices.DeleteFunc(layers, func(l namedLayer) bool { return l.layer == nil })
}

// start runs part beside others and stores what it makes.
func start[T any](eg *errgroup.Group, result *T, part func() (T, error)) {
	eg.Go(func() (err error) {
		*result, err = part()
		return err
	})
}

// base reads the base image, once for all images of this builder, and makes sure that it is the one
// that was planned. With finished layers from registries, the base may be needed by its digests
// only, so each of its layers is downloaded when it is read.
func (b *Builder) base(ctx context.Context, r *recipe.Recipe) (v1.Image, error) {
	return b.pinned(ctx, "base image", r.Base, r.Arch, func() (*registry.Opened, error) {
		if b.Finished != nil {
			return b.Finished.Base(r.Base.Location, r.Arch) //nolint:contextcheck // as in Build
		}
		return b.Registry.Open(
			ctx,
			r.Base.Location,
			registry.OpenOptions{Arch: r.Arch, Part: registry.Layers},
		)
	})
}

// pinned is an image that open opens, once for all images of this builder, and that is the one that
// was planned.
func (b *Builder) pinned(
	ctx context.Context,
	what string,
	base recipe.Base,
	arch string,
	open func() (*registry.Opened, error),
) (v1.Image, error) {
	found, err := b.bases.Get(ctx, what+" "+base.Location+" "+arch, open)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	got := found.Digest.String()
	if got != base.Digest {
		return nil, fmt.Errorf(
			"%s %s is %s now, but was planned as %s: plan again",
			what,
			base.Location,
			got,
			base.Digest,
		)
	}
	return found.Image, nil
}
