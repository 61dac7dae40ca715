package images

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// TestDistroless: a thin image has of the system what its programs need, recorded as the system's own installer does, and
// none of the base. Its recipe alone gives it again.
func TestDistroless(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	o := recipe.Options{Kernels: []string{imagetest.Kernel}, Profile: recipe.CUDA}
	planned := r.plan(t, pair("debian12", newDriver), o)
	img := require.Value(r.b.Build(t.Context(), planned))(t)
	wantFit(t, r.b, img)
	tree := treeOf(t, img)
	assert.NoError(t, packages.CheckSystem(tree, planned.Distro))
	for dir, target := range map[string]string{"lib": "usr/lib", "sbin": "usr/sbin", "var/run": "run"} {
		assert.Equal(t, target, require.Value(tree.Resolve(dir))(t))
	}
	wantPaths(t, tree, false, libDir+"/libold.so.1", "etc/apt", "usr/share/keyrings")
	var installed, pinned []string
	for _, p := range require.Value(packages.InstalledIn(tree))(t) {
		installed = append(installed, p.Name+" "+p.Version)
	}
	for _, p := range planned.Packages {
		pinned = append(pinned, p.Name+" "+p.Version)
	}
	slices.Sort(installed)
	slices.Sort(pinned)
	assert.Same(t, strings.Join(pinned, "\n"), strings.Join(installed, "\n"))
	for _, e := range tree.All() {
		wantLibraries(t, tree, e)
	}
	assert.Contains(t, read(t, tree, "etc/ld.so.cache"), "/"+libDir+"/libcuda.so.1\x00")
	labels := require.Value(img.ConfigFile())(t).Config.Labels
	assert.Equalf(t, "", labels[recipe.OCIPrefix+"base.digest"]+labels[recipe.OCIPrefix+"base.name"], "the base of an image without one")

	again := require.Value(recipe.Decode(require.Value(json.Marshal(planned))(t)))(t)
	fresh := r.b.Fresh(t.TempDir())
	require.NoError(t, fresh.Localize(again, "", ""))
	assert.Equal(t, digestOf(t, img), digestOf(t, require.Value(fresh.Build(t.Context(), again))(t)))
}

// wantLibraries fails if a program or library of the image finds one that it needs in no folder of the loader.
func wantLibraries(t *testing.T, tree *rootfs.Tree, e *rootfs.Entry) {
	t.Helper()
	if e.Kind != rootfs.File {
		return
	}
	f, err := elffile.Read(require.Value(e.Open())(t), e.Size)
	if err != nil {
		return
	}
	for _, name := range f.Needed {
		assert.Equalf(t, true, tree.Exists(libDir+"/"+name), "%s finds %s", e.Path, name)
	}
}

// TestBaseNamed: a base that is named is below a thin image, and so it is below any image that compiles.
func TestBaseNamed(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	kernels := []string{imagetest.Kernel}
	for what, o := range map[string]recipe.Options{
		"named": {Kernels: kernels, Base: r.Base("debian12")}, "universal": {}, "toolchain": {Kernels: kernels, Toolchain: true},
	} {
		planned := r.plan(t, pair("debian12", newDriver), o)
		img := require.Value(r.b.Build(t.Context(), planned))(t)
		wantPaths(t, treeOf(t, img), true, "usr/share/keyrings")
		labels := require.Value(img.ConfigFile())(t).Config.Labels
		assert.Equalf(t, planned.Base.Digest, labels[recipe.OCIPrefix+"base.digest"], "%s", what)
	}
}
