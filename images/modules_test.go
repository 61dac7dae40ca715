package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/registry"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// fakeRunner is strict about what it gets and leaves modules as the entrypoint would.
type fakeRunner struct {
	t     *testing.T
	runs  atomic.Int32
	fails error
	wants []string // must be in the root besides what all have; RELEASE is that of the kernel
}

func (f *fakeRunner) String() string { return "fake" }

func (f *fakeRunner) Run(ctx context.Context, s runner.Step, dir string, output func(string)) error {
	f.runs.Add(1)
	if f.fails != nil {
		return f.fails
	}
	arg := func(name string) string {
		i := slices.Index(s.Args, name)
		if i < 0 || i+1 == len(s.Args) {
			return ""
		}
		return s.Args[i+1]
	}
	release, flavour := arg("--kernel"), arg("--kernel-module-type")
	root := f.root(ctx, s)
	for _, want := range append(f.wants, strings.TrimPrefix(s.Args[0], "/"), "usr/bin/gcc", "usr/bin/make", "lib/modules/RELEASE/build", recipe.KernelDir(newDriver, flavour)+"/Kbuild") {
		want = strings.ReplaceAll(want, "RELEASE", release)
		if _, ok := root.Lstat(want); !ok && !root.Exists(want) {
			f.t.Errorf("the root to compile in has no %s", want)
		}
	}
	info, err := driverinfo.Read(root.OpenFS())
	if err != nil || !info.Toolchain || info.Driver != newDriver || len(info.Precompiled) > 0 {
		f.t.Errorf("the root's description: %+v, %v", info, err)
	}
	output("compiling")
	return leaveSet(ctx, dir, release, flavour, info, strings.Split(arg("--modules"), ","))
}

func (f *fakeRunner) root(ctx context.Context, s runner.Step) *rootfs.Tree {
	spool := require.Value(rootfs.NewSpool(f.t.TempDir()))(f.t)
	f.t.Cleanup(func() { _ = spool.Close() })
	tree := rootfs.New(spool, nil)
	for _, l := range s.Layers {
		assert.NoErrorf(f.t, layer.Apply(ctx, tree, l, nil, progress.Quiet(), ""), "layer")
	}
	return tree
}

// leaveSet does what driver-entrypoint compile --into does.
func leaveSet(ctx context.Context, dir, release, flavour string, info driverinfo.Description, names []string) error {
	if names[0] == "" {
		names = []string{"nvidia", "nvidia-uvm", "nvidia-modeset"}
	}
	key := kbuild.Key{Driver: newDriver, Flavour: flavour, Release: release, Arch: "amd64", Variables: driverinfo.MakeVariables(info.VGPU), Patches: info.PatchNames(flavour)}
	versions := map[string]string{}
	for _, name := range names {
		versions[name] = newDriver
	}
	for _, name := range driverinfo.Companions() {
		if c, ok := info.Companion(name); ok && c.Fits(flavour) {
			key.Companions = append(key.Companions, kbuild.Companion{Name: c.Name, Version: c.Version, Digest: c.Digest}.ID())
			names, versions[name] = append(names, name), c.Version
		}
	}
	_, err := imagetest.PutModules(ctx, dir, key, names, func(name string) []byte {
		return imagetest.Module(strings.ReplaceAll(name, "-", "_"), versions[name], release)
	})
	return err
}

func precompiledRig(t *testing.T) (*rig, *fakeRunner) {
	t.Helper()
	r := newRig(t)
	return r, runWith(t, r.b, "usr/src/linux-headers-RELEASE", "usr/lib/linux-kbuild-6.1/scripts/mod/modpost")
}

// runWith gives a builder a runner that wants these files to be in each root.
func runWith(t *testing.T, b *Builder, wants ...string) *fakeRunner {
	t.Helper()
	f := &fakeRunner{t: t, wants: wants}
	b.Runner = func(context.Context) (runner.Runner, error) { return f, nil }
	return f
}

// TestCompiledOnce: modules are compiled again for what they depend on, and for nothing else of their image, which is the
// one that an empty cache gives.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	target := r.target(t, pair("debian12", newDriver))
	kernel, signer := []string{imagetest.Kernel}, signers()[0]
	build := func(b *Builder, o recipe.Options) string {
		b.Signer = nil
		if o.Signer != nil {
			b.Signer = signer
		}
		_, img := made(t, b, target, o)
		return digestOf(t, img)
	}
	for i, o := range []recipe.Options{
		{Kernels: kernel}, {Kernels: kernel, Profile: recipe.CUDA}, {Kernels: kernel, Compression: recipe.Gzip},
		{Kernels: kernel, Compression: recipe.Gzip, Profile: recipe.CUDA, Sources: true}, {Kernels: kernel, Signer: signer.Certificate},
		{Kernels: kernel, Compression: recipe.Gzip, Signer: signer.Certificate},
	} {
		got := build(r.b, o)
		assert.Equalf(t, 1, int(f.runs.Load()), "compiles after image %d", i)
		if o.Compression == recipe.Gzip {
			empty := newBuilder(t, r.World, t.TempDir())
			empty.Runner, empty.Binaries = func(context.Context) (runner.Runner, error) { return &fakeRunner{t: t}, nil }, r.b.Binaries
			assert.Equalf(t, build(empty, o), got, "image %d is not the one of an empty cache", i)
		}
	}
	for i, o := range []recipe.Options{
		{Kernels: []string{imagetest.OldKernel}}, {Kernels: kernel, Modules: []string{"nvidia"}}, {Kernels: kernel, Flavours: []string{matrix.Open}},
	} {
		build(r.b, o)
		assert.Equalf(t, i+2, int(f.runs.Load()), "compiles after other inputs %d", i)
	}
}

// TestCompileFails: what the runner says comes through, nothing is cached, and it works the next time.
func TestCompileFails(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	f.fails = &runner.FailedError{Step: "modules", Runner: "fake", Code: 12, Tail: []string{"error: too few arguments"}}
	planned := r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}})
	var failed *runner.FailedError
	if _, err := r.b.Build(t.Context(), planned); !errors.As(err, &failed) || failed.Code != 12 {
		t.Errorf("%v", err)
	}
	f.fails, r.b.making = nil, layer.Once[v1.Layer]{} // as in another call
	if _, err := r.b.Build(t.Context(), planned); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(filepath.Join(r.b.Store.Dir(), "work")); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	r.b.Runner = nil
	planned = r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.OldKernel}})
	assert.ErrorContains(t, assert.Err(r.b.Build(t.Context(), planned)), "no runner")
}

// TestTryCompile: the runner gets the image as it is and the headers of a kernel. fakeRunner checks that both
// are there.
func TestTryCompile(t *testing.T) {
	t.Parallel()
	r, fake := precompiledRig(t)
	as := func(img v1.Image) *registry.Opened {
		digest := require.Value(img.Digest())(t)
		return &registry.Opened{Image: img, Digest: digest}
	}
	universal := as(r.build(t, pair("debian12", newDriver), recipe.Options{}))
	for asked, want := range map[string]string{"": imagetest.Kernel, imagetest.OldKernel: imagetest.OldKernel} {
		assert.Equalf(t, want, require.Value(r.b.TryCompile(t.Context(), "x", universal, asked))(t), "kernel %q", asked)
	}
	assert.Equalf(t, 2, fake.runs.Load(), "compiles")
	_, err := r.b.TryCompile(t.Context(), "x", universal, "no release")
	assert.ErrorContains(t, err, `"no release" is no release of a kernel of debian12`)
	if _, err := r.b.TryCompile(t.Context(), "x", as(thin(t, r)), ""); !errors.Is(err, ErrNotCompiling) || !strings.Contains(err.Error(), "no compiler") {
		t.Errorf("an image without a compiler: %v", err)
	}
	fake.fails = &runner.FailedError{Step: "modules", Runner: "fake", Code: 2}
	_, err = r.b.TryCompile(t.Context(), "x", universal, "")
	if failed := (*runner.FailedError)(nil); !errors.As(err, &failed) {
		t.Errorf("a compile that fails: %v", err)
	}
	r.b.Runner = nil
	_, err = r.b.TryCompile(t.Context(), "x", universal, "")
	assert.ErrorContains(t, err, "there is no runner")
}
