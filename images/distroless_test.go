package images

import (
	"debug/elf"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/documents"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// describes are the files that tell of others, and licences.
var describes = regexp.MustCompile(`^(etc/ld\.so\.cache|licenses/.*|usr/share/nvidia-driver/.*\.json|var/lib/dpkg/.*)$`)

// TestDistroless: a thin image has of the system what its programs need, recorded as the system's own installer does, and
// none of the base. Each file is one of a package that dpkg lists, or is in the bill of materials. Its recipe alone gives
// the image again.
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
	bill := string(document(t, documents.SPDX, documents.Model{Images: []*documents.ImageContent{billed(t, r.b, img, planned)}}))
	owned := map[string]bool{}
	for _, e := range require.Value(tree.ReadDir("var/lib/dpkg/info"))(t) {
		if list := "var/lib/dpkg/info/" + e.Name(); strings.HasSuffix(list, ".list") {
			for line := range strings.Lines(read(t, tree, list)) {
				owned[require.Value(tree.Resolve(strings.Trim(line, "/\n")))(t)] = true
			}
		}
	}
	for _, e := range tree.All() {
		wantLibraries(t, tree, e)
		if e.Kind == rootfs.File && !owned[e.Path] && !describes.MatchString(e.Path) {
			assert.Contains(t, bill, e.Path+`"`)
		}
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

// TestBaseNamed: a base that is named is below a thin image, and so it is below any image that compiles. The loader's cache
// has the driver's libraries, and those of the base in folders of its own.
func TestBaseNamed(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	kernels := []string{imagetest.Kernel}
	base := require.Value(remote.Image(require.Value(name.ParseReference(r.Base("debian12")))(t)))(t)
	cache := elffile.LoaderCache(elf.EM_X86_64, map[string]string{
		"libx.so.1": "/opt/lib/libx.so.1", "libold.so.1": "/" + libDir + "/libold.so.1",
	})
	tar := repotest.Tar(t, "", []repotest.File{{Name: "etc/ld.so.cache", Body: string(cache)}})
	own := require.Value(imagetest.Image(t, "amd64", v1.Config{}, repotest.Compress(t, ".gz", tar)).Layers())(t)
	named := r.Base("named")
	img := require.Value(mutate.AppendLayers(base, own...))(t)
	require.NoError(t, remote.Write(require.Value(name.ParseReference(named))(t), img))
	for what, o := range map[string]recipe.Options{
		"named": {Kernels: kernels, Base: named}, "universal": {}, "toolchain": {Kernels: kernels, Toolchain: true},
	} {
		planned := r.plan(t, pair("debian12", newDriver), o)
		img := require.Value(r.b.Build(t.Context(), planned))(t)
		tree := treeOf(t, img)
		wantPaths(t, tree, true, "usr/share/keyrings")
		libraries := elffile.ReadLoaderCache(elf.EM_X86_64, []byte(read(t, tree, "etc/ld.so.cache")))
		assert.Equal(t, "/"+libDir+"/libcuda.so.1", libraries["libcuda.so.1"])
		assert.Equal(t, what == "named", libraries["libx.so.1"] != "")
		assert.Equalf(t, "", libraries["libold.so.1"], "the loader finds it by itself")
		labels := require.Value(img.ConfigFile())(t).Config.Labels
		assert.Equalf(t, planned.Base.Digest, labels[recipe.OCIPrefix+"base.digest"], "%s", what)
	}
}
