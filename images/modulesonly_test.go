package images

import (
	"context"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runner"
)

// TestModulesOnly: an image of modules has the layer of the image that has them too, compiled once, and nothing that
// starts. It is what an empty cache gives, whatever the programs are, and only modules make it out of date.
func TestModulesOnly(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	target := r.target(t, pair("debian12", newDriver))
	o := recipe.Options{Kernels: []string{imagetest.Kernel}}
	_, whole := made(t, r.b, target, o)
	o.Profile = recipe.ModulesOnly
	planned, img := made(t, r.b, target, o)
	assert.Equalf(t, 1, int(f.runs.Load()), "compiles")
	assert.Equal(t, "535.261.03-6.1.0-56-amd64-debian12-modules", planned.Tag)
	wantFit(t, r.b, img)

	layers := layersOf(t, img)
	assert.Equalf(t, 3, len(layers), "layers: licence, modules, description")
	var have []string
	for _, l := range layersOf(t, whole) {
		have = append(have, digestOf(t, l))
	}
	assert.Equalf(t, true, slices.Contains(have, digestOf(t, layers[1])), "the image with everything has the layer of modules, too")
	var others []string
	tree := treeOf(t, img)
	for _, e := range tree.All() {
		if e.Kind != rootfs.Dir && !recipe.InFolder(e.Path, recipe.ModulesDir) {
			others = append(others, e.Path)
		}
	}
	assert.Same(t, []string{recipe.LicenceFile, driverinfo.Path}, others)
	file := require.Value(img.ConfigFile())(t)
	config := file.Config
	assert.Equalf(t, 0, len(config.Entrypoint)+len(config.Cmd)+len(config.Env), "command and variables")
	for name, want := range map[string]string{
		recipe.LabelProfile: "modules", recipe.LabelKernels: imagetest.Kernel, recipe.LabelDriver: newDriver, recipe.LabelSystem: "debian12",
		recipe.LabelFlavours: "proprietary", recipe.OCIPrefix + "version": planned.Tag, recipe.OCIPrefix + "base.digest": "",
	} {
		assert.Equalf(t, want, config.Labels[name], "%s", name)
	}

	empty := newBuilder(t, r.World, t.TempDir())
	empty.Runner, empty.Binaries = func(context.Context) (runner.Runner, error) { return &fakeRunner{t: t}, nil }, r.b.Binaries
	_, again := made(t, empty, target, o)
	assert.Equalf(t, digestOf(t, img), digestOf(t, again), "the image of an empty cache")
	before := require.Value(planned.Describe())(t).ID
	planned.Entrypoint = nil
	assert.Equalf(t, before, require.Value(planned.Describe())(t).ID, "with other programs")
	target.Driver.Advisories = append(target.Driver.Advisories, matrix.Advisory{Advisory: driverinfo.Advisory{ID: "x", Kind: driverinfo.KnownBad, Reason: "news"}})
	assert.Equalf(t, before, require.Value(require.Value(planOne(t, r.b, target, o))(t).Describe())(t).ID, "after news of the driver")
	o.Signer = signers()[0].Certificate
	if is := require.Value(require.Value(planOne(t, r.b, target, o))(t).Describe())(t); is.ID == before {
		t.Error("another signer makes no other image")
	}
}

// TestNoToolchain: an image that gets its modules from elsewhere has neither them nor what makes them, and none of the base.
func TestNoToolchain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	planned, img := made(t, r.b, r.target(t, pair("debian12", newDriver)), recipe.Options{Thin: true})
	assert.Equal(t, "535.261.03-debian12", planned.Tag)
	assert.Equalf(t, 2, len(planned.Flavours), "flavours of the modules that it takes")
	wantFit(t, r.b, img)
	tree := treeOf(t, img)
	wantPaths(t, tree, false, "usr/src", "usr/bin/gcc", recipe.ModulesDir, "etc/apt")
	wantPaths(t, tree, true, libDir+"/libcuda.so."+newDriver, "usr/bin/nvidia-smi", recipe.BinDir+"/"+recipe.EntrypointName)
}
