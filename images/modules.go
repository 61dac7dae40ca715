package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// compileOutput is where the entrypoint leaves the modules in the root that it compiles in.
const compileOutput = "/modules"

// modulesLayers makes the layers with modules: one for each kernel and flavour, in the order of the recipe.
func (b *Builder) modulesLayers(ctx context.Context, r *Recipe, base v1.Image) ([]namedLayer, error) {
	layers := make([]namedLayer, len(r.Kernels)*len(r.Precompile))
	eg, ctx := errgroup.WithContext(ctx)
	for i, k := range r.Kernels {
		for j, flavour := range r.Precompile {
			l := &layers[i*len(r.Precompile)+j]
			l.name = "modules " + flavour + " " + k.Release
			eg.Go(func() (err error) { l.layer, err = b.modulesLayer(ctx, r, base, k, flavour); return err })
		}
	}
	return layers, eg.Wait()
}

// modulesLayer holds the modules of one driver, flavour and kernel. It does not depend on the image that they are for, so that
// every image that has them shares it. The entrypoint that compiles them is no part of the key: what it does with equal inputs
// is kbuild.Recipe.
func (b *Builder) modulesLayer(ctx context.Context, r *Recipe, base v1.Image, k Kernel, flavour string) (v1.Layer, error) {
	unsigned, err := key("modules", r.modulesInputs(k, flavour)...)
	if err != nil {
		return nil, err
	}
	name := "modules " + flavour + " " + k.Release
	made, err := b.layer(ctx, r, name, unsigned, func(ctx context.Context, spool *rootfs.Spool, step *Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		return tree, b.compile(ctx, r, base, k, flavour, step, tree)
	})
	if err != nil || b.Signer == nil {
		return made, err
	}
	return b.signedLayer(ctx, r, name, unsigned, made)
}

// modulesInputs is what modules are made from.
func (r *Recipe) modulesInputs(k Kernel, flavour string) []any {
	return []any{
		r.Base.Digest, r.Links, pins(r.Compiler), pins(k.Headers), r.Source.kernelPins(flavour), r.Driver, flavour, r.Arch, k.Release, r.Modules,
		kbuild.Recipe, r.Compression, r.Epoch,
	}
}

// precompiledInputs is what all sets of modules of the image are made from.
func (r *Recipe) precompiledInputs() []any {
	inputs := []any{r.Signer}
	for _, k := range r.Kernels {
		for _, flavour := range r.Precompile {
			inputs = append(inputs, r.modulesInputs(k, flavour))
		}
	}
	return inputs
}

// compile has the runner compile and adds the result to a tree.
func (b *Builder) compile(ctx context.Context, r *Recipe, base v1.Image, k Kernel, flavour string, step *Step, tree *rootfs.Tree) (err error) {
	if b.Runner == nil {
		return errors.New("compile modules: there is no runner")
	}
	with, err := b.Runner(ctx)
	if err != nil {
		return err
	}
	layers, err := b.compileRoot(ctx, r, base, k)
	if err != nil {
		return err
	}
	if err := b.slot(ctx); err != nil {
		return err
	}
	defer b.slots.Release(1)
	dir, remove, err := b.workFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	step.Note("compiling with " + with.String())
	if err := with.Run(ctx, compileStep(r, k, flavour, layers), dir, step.Note); err != nil {
		return err
	}
	set, err := r.soleSet(ctx, dir, k, flavour)
	if err != nil {
		return err
	}
	return addSet(tree, set)
}

// slot waits until one more compile may run.
func (b *Builder) slot(ctx context.Context) error {
	b.compiling.Do(func() { b.slots = semaphore.NewWeighted(int64(max(b.Compiles, 1))) })
	return b.slots.Acquire(ctx, 1)
}

// compileStep calls the image's own entrypoint, the one implementation of compiling.
func compileStep(r *Recipe, k Kernel, flavour string, layers []v1.Layer) runner.Step {
	args := []string{"/" + binDir + "/" + EntrypointName, "compile", "--kernel", k.Release, "--kernel-module-type", flavour, "--into", compileOutput}
	if len(r.Modules) > 0 {
		args = append(args, "--modules", strings.Join(r.Modules, ","))
	}
	return runner.Step{
		Name: fmt.Sprintf("modules %s %s %s", r.Driver, flavour, k.Release), Arch: r.Arch, Layers: layers, Args: args,
		Env: []string{"PATH=" + r.searchPath(defaultPath), "HOME=/root"}, Output: compileOutput,
	}
}

// compileRoot is the root to compile in, what changes least below: base, compiler, entrypoint, sources, headers, and a
// description that says no more than a compile needs to know.
func (b *Builder) compileRoot(ctx context.Context, r *Recipe, base v1.Image, k Kernel) ([]v1.Layer, error) {
	layers, err := base.Layers()
	if err != nil {
		return nil, fmt.Errorf("layers of the base: %w", err)
	}
	of := *r
	of.Flavours, of.Toolchain, of.Kernels, of.Overridden, of.Profile = preferred(r.Flavours, r.Driver), true, nil, nil, Full
	var compiler, headers, entrypoint, description v1.Layer
	var driver driverLayers
	eg, ctx := errgroup.WithContext(ctx)
	eg.Go(func() (err error) {
		compiler, err = b.installedLayer(ctx, r, base, "compiler", r.Compiler, r.Links, nil)
		return err
	})
	eg.Go(func() (err error) { headers, err = b.headersLayer(ctx, r, base, k); return err })
	eg.Go(func() (err error) { entrypoint, err = b.entrypointLayer(ctx, r); return err })
	eg.Go(func() (err error) { driver, err = b.driverLayers(ctx, r); return err })
	eg.Go(func() (err error) { description, err = b.compileDescription(ctx, &of); return err })
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	return append(slices.Clone(layers), compiler, entrypoint, driver.kernel, headers, description), nil
}

// compileDescription is the same for all images of a driver: their identity and rules have nothing to do with compiling.
func (b *Builder) compileDescription(ctx context.Context, r *Recipe) (v1.Layer, error) {
	return b.describedLayer(ctx, r, driverinfo.Info{
		Driver: r.Driver, Branch: r.Branch, OS: r.System, Arch: r.Arch, Profile: string(r.Profile), Flavours: r.Flavours,
		Toolchain: true, ID: strings.Repeat("0", 64),
	})
}

// headersLayer has the headers of a kernel. It is for compiling only and records nothing.
func (b *Builder) headersLayer(ctx context.Context, r *Recipe, base v1.Image, k Kernel) (v1.Layer, error) {
	ck, err := key("headers", r.Base.Digest, pins(k.Headers), r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.unpackedLayer(ctx, r, base, "headers "+k.Release, ck, k.Headers, func(_ family, tree, _ *rootfs.Tree, all []unpacked) error {
		if err := place(tree, all); err != nil {
			return err
		}
		return r.linkBuild(tree, k.Release)
	})
}

// linkBuild makes the link by which modules are built, where the package that has it is the kernel's own and not there: that of
// all rpm kernels.
func (r *Recipe) linkBuild(tree *rootfs.Tree, release string) error {
	d, err := distros.Lookup(r.System)
	if err != nil {
		return err
	}
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

// soleSet reads what a compile left, which must be what was asked for.
func (r *Recipe) soleSet(ctx context.Context, dir string, k Kernel, flavour string) (*kbuild.Set, error) {
	set, err := kbuild.Cache{Dir: dir}.Find(ctx, func(key kbuild.Key) bool {
		return key.Driver == r.Driver && key.Flavour == flavour && key.Release == k.Release && key.Arch == r.Arch
	})
	if err != nil {
		return nil, fmt.Errorf("modules for kernel %s: what the compile left: %w", k.Release, err)
	}
	for _, name := range r.Modules {
		if _, ok := set.File(name); !ok {
			return nil, fmt.Errorf("modules for kernel %s: the compile left no %s", k.Release, name)
		}
	}
	return set, nil
}

// addSet puts a stored set into a tree: its modules and its manifest.
func addSet(tree *rootfs.Tree, set *kbuild.Set) error {
	names := []string{kbuild.ManifestName}
	for _, f := range set.Modules {
		names = append(names, filepath.Base(f.Path))
	}
	for _, name := range names {
		if err := addLocal(tree, path.Join(ModulesDir, filepath.Base(set.Dir), name), filepath.Join(set.Dir, name)); err != nil {
			return fmt.Errorf("modules %s: %w", set.Key, err)
		}
	}
	return nil
}

// addLocal copies a file of this machine into a tree.
func addLocal(tree *rootfs.Tree, name, file string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return tree.AddFile(name, 0o644, info.Size(), io.LimitReader(f, info.Size()))
}
