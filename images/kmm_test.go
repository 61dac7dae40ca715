package images

import (
	"archive/tar"
	"path"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// TestKMM: an image for Kernel Module Management has each module once in a layer, under both names, for every
// kernel, and the folder of KMM first: programs that pass over hard links find the modules there. Nothing is
// compiled twice, and an image without has the layers that it had.
func TestKMM(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	o := recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, OneImage: true, Compression: recipe.Gzip}
	plain := r.build(t, pair("debian12", newDriver), o)
	o.KMM = true
	planned := r.plan(t, pair("debian12", newDriver), o)
	img := require.Value(r.b.Build(t.Context(), planned))(t)
	assert.Equalf(t, int32(2), f.runs.Load(), "compiles")
	assert.Equal(t, digestOf(t, img), digestOf(t, require.Value(r.b.Build(t.Context(), planned))(t)))
	tree := treeOf(t, img)
	for _, release := range o.Kernels {
		dir := path.Join(recipe.KMMDir, release)
		assert.Contains(t, read(t, tree, dir+"/modules.dep"), "nvidia-uvm.ko:")
		e, ok := tree.Lstat(dir + "/nvidia.ko")
		assert.Equalf(t, true, ok && e.Kind == rootfs.File && e.Mode == 0o644, "%s/nvidia.ko: %+v", dir, e)
	}
	second := 0
	members(t, modulesOf(t, img), func(h *tar.Header) {
		if recipe.InFolder(h.Name, recipe.ModulesDir) && strings.HasSuffix(h.Name, ".ko") {
			second++
			assert.Equalf(t, string(tar.TypeLink), string(h.Typeflag), "%s", h.Name)
			assert.Equal(t, path.Join(recipe.KMMDir, imagetest.Kernel, path.Base(h.Name)), h.Linkname)
		}
	})
	assert.Equalf(t, 3, second, "modules of a set that are second names")
	for _, found := range require.Value(examiner(r.b).Verify(t.Context(), "x", img, verify.Options{}))(t) {
		if found.Severity == verify.Error && found.Path != "bin/cp" { // the base of the tests has no programs
			t.Error(found)
		}
	}
	changed := 0
	for i, l := range layersOf(t, plain) {
		if digestOf(t, l) != digestOf(t, layersOf(t, img)[i]) {
			changed++
		}
	}
	assert.Equalf(t, 3, changed, "layers that are others: the modules of two kernels, description")
	one, two := require.Value(r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: o.Kernels, OneImage: true}).Describe())(t), require.Value(planned.Describe())(t)
	assert.Equalf(t, false, one.ID == two.ID, "an image without is out of date for one with")
}

// TestKMMSigned: signing the image and building it with the key give the same layers, with both names.
func TestKMMSigned(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	o := recipe.Options{Kernels: []string{imagetest.Kernel}, KMM: true}
	unsigned := r.build(t, pair("debian12", newDriver), o)
	signed := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", unsigned, kernelmodules.SignaturesBy(signers()[0])))(t)
	r.b.Signer = signers()[0]
	o.Signer = signers()[0].Certificate
	built := r.build(t, pair("debian12", newDriver), o)
	assert.Equal(t, digestOf(t, modulesOf(t, built)), digestOf(t, modulesOf(t, signed)))
	tree := treeOf(t, signed)
	list := require.Value(tree.ReadDir(recipe.ModulesDir))(t)
	for _, name := range []string{"nvidia.ko", "nvidia-uvm.ko", "nvidia-modeset.ko"} {
		module := read(t, tree, path.Join(recipe.KMMDir, imagetest.Kernel, name))
		assert.Equalf(t, true, module == read(t, tree, path.Join(recipe.ModulesDir, list[0].Name(), name)), "%s of both folders", name)
		assert.Containsf(t, module, "Module signature appended", "%s", name)
	}
	for _, rule := range []string{"kmm", "layers", "modules", "module-signature"} {
		for _, found := range findingsOf(t, r, signed, rule, signers()[0].Certificate) {
			assert.Equalf(t, "bin/cp", found.Path, "%s", found)
		}
	}
}

// TestKMMChanged: a change in the folder for KMM after the build is not signed.
func TestKMMChanged(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	img := r.build(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}, KMM: true})
	dir := path.Join(recipe.KMMDir, imagetest.Kernel)
	more := changed(t, img, []repotest.File{{Name: recipe.ModulesDir + "/x/nvidia.ko", Body: "x"}, {Name: dir + "/rootkit.ko", Body: "x"}}, nil)
	assert.ErrorIs(t, assert.Err(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", more, kernelmodules.SignaturesBy(signers()[0]))), rootfs.ErrFormat)
}
