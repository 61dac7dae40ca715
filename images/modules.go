package images

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/description"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/signedmodules"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// compileOutput is where the entrypoint leaves the modules in the root that it compiles in.
const compileOutput = "/modules"

// modulesLayers makes the layers with modules: one for each kernel and flavour, in the order of the
// recipe.
func (b *Builder) modulesLayers(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
) ([]namedLayer, error) {
	layers := make([]namedLayer, len(r.Kernels)*len(r.PrecompiledFlavours))
	eg, ctx := errgroup.WithContext(ctx)
	for i, k := range r.Kernels {
		for j, flavour := range r.PrecompiledFlavours {
			l := &layers[i*len(r.PrecompiledFlavours)+j]
			l.name = "modules " + flavour + " " + k.Release
			start(eg, &l.layer, func() (v1.Layer, error) {
				return b.modulesLayer(ctx, r, base, k, flavour)
			})
		}
	}
	return layers, eg.Wait()
}

// modulesLayer holds the modules of one driver, flavour and kernel. It does not depend on the image
// that they are for, so that every image that has them shares it. The entrypoint that compiles them
// is no part of the key: what it does with equal inputs is kbuild.Method.
func (b *Builder) modulesLayer(ctx context.Context, r *recipe.Recipe, base v1.Image, k recipe.Kernel, flavour string) (v1.Layer, error) {
	key := layer.Key("modules", r.ModulesInputs(k, flavour)...)
	name := "modules " + flavour + " " + k.Release
	compiled := spec(r, name, key)
	compiled.Content = layer.Key("compile", r.CompileInputs(k, flavour)...)
	made := func(ctx context.Context) (v1.Layer, error) {
		return b.Layers().Make(ctx, compiled, func(ctx context.Context, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
			tree := rootfs.New(spool, nil)
			add := func(set *kbuild.Set) error { return kernelmodules.Add(tree, set) }
			if len(k.Signed[flavour]) > 0 {
				from := signedmodules.Source{Layers: b.Layers(), Env: b.Env(), Of: sources(r), Base: base, Runner: b.Runner}
				return tree, from.Take(ctx, r, k, flavour, spool, step, add)
			}
			root := func() ([]v1.Layer, string, error) { return b.compileRoot(ctx, r, base, k) }
			return tree, b.compile(ctx, r, k, flavour, step, root, add)
		})
	}
	if r.KMM { // the modules are those of the layer without, so that nothing is compiled twice
		key = layer.Key("kmm-modules", key, kernelmodules.KMMMethod)
		made = b.derived(spec(r, name+", for KMM", key), made, func(ctx context.Context, plain v1.Layer, tree *rootfs.Tree) error {
			return kernelmodules.Each(ctx, b.Store, plain, func(set *kbuild.Set, _ string, _ bool) error {
				if err := kernelmodules.Add(tree, set); err != nil {
					return err
				}
				return kernelmodules.AddKMM(tree, set)
			})
		})
	}
	signed := b.Signed
	if signed == nil && b.Signer != nil {
		with := kernelmodules.SignaturesBy(b.Signer)
		signed = &with
	}
	// cached by what was signed and by whom: what has been signed before is not compiled again
	if signed != nil && len(k.Signed) == 0 {
		key = kernelmodules.SignedKey(key, sign.Fingerprint(signed.Certificate.Raw))
		made = b.derived(spec(r, name+", signed", key), made, func(ctx context.Context, unsigned v1.Layer, tree *rootfs.Tree) error {
			return signed.Sign(ctx, b.Store, unsigned, tree)
		})
	}
	return made(ctx)
}

// derived makes a layer from another one, which is only made if it is needed.
func (b *Builder) derived(
	of layer.Spec,
	from func(context.Context) (v1.Layer, error),
	change func(context.Context, v1.Layer, *rootfs.Tree) error,
) func(context.Context) (v1.Layer, error) {
	return func(ctx context.Context) (v1.Layer, error) {
		return b.Layers().
			Make(ctx, of, func(ctx context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
				plain, err := from(ctx)
				if err != nil {
					return nil, err
				}
				tree := rootfs.New(spool, nil)
				return tree, change(ctx, plain, tree)
			})
	}
}

// compile compiles in the root that root makes, and passes the modules to use. It calls the image's
// own entrypoint, the one implementation of compiling, which keeps all cores busy: one at a time.
func (b *Builder) compile(
	ctx context.Context, r *recipe.Recipe, k recipe.Kernel, flavour string, step *progress.Step,
	root func() (layers []v1.Layer, searchPath string, err error), use func(*kbuild.Set) error,
) (err error) {
	if b.Runner == nil {
		return errors.New("compile modules: there is no runner")
	}
	with, err := b.Runner(ctx)
	if err != nil {
		return err
	}
	layers, searchPath, err := root()
	if err != nil {
		return err
	}
	b.compiling.Do(func() { b.slots = semaphore.NewWeighted(1) })
	if err := b.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer b.slots.Release(1)
	dir, remove, err := layer.WorkFolder(b.Store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	step.Note("compiling with " + with.String())
	args := []string{
		"/" + recipe.BinDir + "/" + recipe.EntrypointName,
		"compile",
		"--kernel",
		k.Release,
		"--kernel-module-type",
		flavour,
		"--into",
		compileOutput,
	}
	if len(r.Modules) > 0 {
		args = append(args, "--modules", strings.Join(r.Modules, ","))
	}
	err = with.Run(ctx, runner.Step{
		Name: fmt.Sprintf(
			"modules %s %s %s",
			r.Driver,
			flavour,
			k.Release,
		), Arch: r.Arch, Layers: layers, Args: args,
		Env: []string{"PATH=" + searchPath, "HOME=/root"}, Output: compileOutput,
	}, dir, tell(step))
	if err != nil {
		return err
	}
	set, err := soleSet(ctx, r, dir, k, flavour)
	if err != nil {
		return err
	}
	return use(set)
}

// What the entrypoint logs: people have the time beside it, and how far it is as 65/477.
var (
	logTime = regexp.MustCompile(`^[0-9-]{10}T[0-9:.]+Z `)
	howFar  = regexp.MustCompile(`^compile progress done=([0-9]{1,9}) total=([0-9]{1,9}) `)
)

// tell returns what takes the lines of a compile for people.
func tell(step *progress.Step) func(line string) {
	return func(line string) {
		line = logTime.ReplaceAllString(line, "")
		m := howFar.FindStringSubmatch(line)
		if m == nil {
			step.Note(line)
			return
		}
		done, _ := strconv.ParseInt(m[1], 10, 64) // digits
		total, _ := strconv.ParseInt(m[2], 10, 64)
		step.Count(done, total)
	}
}

// compileRoot is the root to compile in, what changes least below: base, compiler, entrypoint,
// sources, headers, and a description that says no more than a compile needs to know. A toolkit
// takes the place of base, compiler and headers. It also returns the search path for programs of
// the root.
func (b *Builder) compileRoot(
	ctx context.Context,
	r *recipe.Recipe,
	base v1.Image,
	k recipe.Kernel,
) (layers []v1.Layer, searchPath string, err error) {
	below := base
	searchPath = r.SearchPath(recipe.DefaultPath)
	if k.Toolkit != nil {
		below, searchPath, err = b.headersImage(ctx, *k.Toolkit, r.Arch)
		if err != nil {
			return nil, "", err
		}
	}
	layers, err = below.Layers()
	if err != nil {
		return nil, "", fmt.Errorf("layers of the image to compile in: %w", err)
	}
	of := *r
	of.Flavours = recipe.PreferredFlavours(r.Flavours, r.Driver)
	of.Toolchain = true
	of.Kernels = nil
	of.Overridden = nil
	of.Profile = recipe.Full
	var compiler, headers, companions, entrypoint, description v1.Layer
	var driver driverLayers
	eg, ctx := errgroup.WithContext(ctx)
	if k.Toolkit == nil {
		start(eg, &compiler, func() (v1.Layer, error) {
			return b.packagesLayer(ctx, r, base, "compiler", r.Compiler, r.Links, nil)
		})
		start(eg, &headers, func() (v1.Layer, error) { return b.headersLayer(ctx, r, base, k) })
	}
	start(eg, &entrypoint, func() (v1.Layer, error) { return b.entrypointLayer(ctx, r) })
	start(eg, &driver, func() (driverLayers, error) { return b.driverLayers(ctx, r, true) })
	start(eg, &companions, func() (v1.Layer, error) { return b.companionsLayer(ctx, r) })
	start(eg, &description, func() (v1.Layer, error) { return b.compileDescription(ctx, &of) })
	err = eg.Wait()
	if err != nil {
		return nil, "", err
	}
	all := append(
		slices.Clone(layers),
		compiler,
		entrypoint,
		driver.kernel,
		headers,
		companions,
		description,
	)
	return slices.DeleteFunc(all, func(l v1.Layer) bool { return l == nil }), searchPath, nil
}

// compileDescription is the same for all images of a driver: their identity and rules have nothing
// to do with compiling.
func (b *Builder) compileDescription(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	return description.Layer(ctx, b.Layers(), spec(r, "", ""), driverinfo.Description{
		Driver: r.Driver, Branch: r.Branch, OS: r.System, Arch: r.Arch, Profile: string(r.Profile), Flavours: r.Flavours,
		Toolchain: true, ID: strings.Repeat("0", 64), VGPU: r.VGPU, Companions: r.DescribeCompanions(true), Patches: r.PatchNotes(),
	})
}

// soleSet reads the set of modules that a compile left, and checks that it is the one that was
// requested.
func soleSet(
	ctx context.Context,
	r *recipe.Recipe,
	dir string,
	k recipe.Kernel,
	flavour string,
) (*kbuild.Set, error) {
	patches := driverinfo.Description{Patches: r.PatchNotes()}.PatchNames(flavour)
	set, err := kbuild.Cache{Dir: dir}.Find(ctx, func(key kbuild.Key) bool {
		return key.Driver == r.Driver && key.Flavour == flavour && key.Release == k.Release &&
			key.Arch == r.Arch &&
			slices.Equal(key.Variables, driverinfo.MakeVariables(r.VGPU)) &&
			slices.Equal(key.Patches, patches) &&
			slices.Equal(key.Companions, r.CompanionIDs(flavour))
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
