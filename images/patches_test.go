package images

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/patch"
	"github.com/driver-container/driver-container/images/recipe"
)

// newSource is what openPatch makes of nv.c in the open sources.
const (
	openPatch = "--- a/kernel-open/nvidia/nv.c\n+++ b/kernel-open/nvidia/nv.c\n@@ -1 +1,2 @@\n int x;\n+int y;\n"
	newSource = "int x;\nint y;\n"
)

// patchOf is a patch of the open sources, whose text is in the matrix.
func patchOf(name, text string) matrix.Patch {
	return matrix.Patch{
		Name: name, File: name + ".patch", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(text))), Text: text, Kernels: []driverinfo.Span{{From: "6.12"}},
		Flavours: []string{matrix.Open}, Sources: []string{matrix.SourceArchive, matrix.SourcePackages}, Licence: "MIT", Reason: "y is missing", Origin: "test",
	}
}

func patched(target matrix.Target, patches ...matrix.Patch) matrix.Target {
	target.Driver.Patches = patches
	return target
}

// memberText returns the text of a file in a layer.
func memberText(t *testing.T, l v1.Layer, name string) string {
	t.Helper()
	in := require.Value(l.Uncompressed())(t)
	defer in.Close()
	for tr := tar.NewReader(in); ; {
		h, err := tr.Next()
		if err != nil {
			t.Fatalf("no %s: %v", name, err)
		}
		if h.Name == name {
			return string(require.Value(io.ReadAll(tr))(t))
		}
	}
}

// TestPatches: whatever the driver comes from, the layer with its sources has the change and no other, and it
// is another layer than that of the sources as they are. The layer of the user-mode driver stays the same.
func TestPatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, archive := redistOf(t, imagetest.DriverFiles(newDriver, "amd64"), nil)
	for label, target := range map[string]matrix.Target{
		"run": r.target(t, pair("ubuntu18.04", newDriver)), "redist": r.fromRedist(t, r.target(t, pair("ubuntu18.04", newDriver)), archive),
		"packages": r.target(t, pair("debian12", newDriver)),
	} {
		plain := require.Value(planOne(t, r.b, target, recipe.Options{}))(t)
		plan := require.Value(planOne(t, r.b, patched(target, patchOf("y", openPatch)), recipe.Options{}))(t)
		want, got := require.Value(r.b.Build(t.Context(), plain))(t), require.Value(r.b.Build(t.Context(), plan))(t)
		const place = "usr/src/nvidia-" + newDriver + "/"
		i := slices.IndexFunc(require.Value(got.ConfigFile())(t).History, func(h v1.History) bool { return strings.HasSuffix(h.CreatedBy, ": kernel sources") })
		before, after := layersOf(t, want), layersOf(t, got)
		assert.Equalf(t, newSource, memberText(t, after[i], place+"kernel-open/nvidia/nv.c"), "%s: open sources", label)
		assert.Equalf(t, "int x;\n", memberText(t, after[i], place+"kernel/nvidia/nv.c"), "%s: proprietary sources", label)
		assert.Equalf(t, listing(t, before[i]), listing(t, after[i]), "%s: names and modes", label)
		assert.Equalf(t, digestOf(t, before[i-1]), digestOf(t, after[i-1]), "%s: user-mode driver", label)
		alone := newBuilder(t, r.World, t.TempDir())
		assert.Equalf(t, digestOf(t, got), digestOf(t, require.Value(alone.Build(t.Context(), plan))(t)), "%s: built again", label)

		labels := require.Value(got.ConfigFile())(t).Config.Labels
		assert.Equalf(t, "y sha256:"+plan.Patches[0].SHA256, labels[recipe.LabelPatches], "%s: label", label)
		info := require.Value(driverinfo.Read(treeOf(t, got).OpenFS()))(t)
		assert.Samef(t, []string{"y@sha256:" + plan.Patches[0].SHA256}, info.PatchNames(matrix.Open), "%s: driver.json", label)
		assert.Samef(t, []string(nil), info.PatchNames(matrix.Proprietary), "%s: driver.json, proprietary", label)
		if _, has := require.Value(want.ConfigFile())(t).Config.Labels[recipe.LabelPatches]; has {
			t.Errorf("%s: unpatched sources have a label", label)
		}
	}
}

// TestPatchKeys: a patch changes the keys of what is made from its flavour's sources, and of nothing else.
func TestPatchKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	target := r.target(t, pair("ubuntu18.04", newDriver))
	keys := func(flavour string, patches ...matrix.Patch) (sources, modules, id string) {
		plan := require.Value(planOne(t, r.b, patched(target, patches...), recipe.Options{}))(t)
		sources = kernelSourcesKey(plan)
		modules = layer.Key("modules", plan.CompileInputs(recipe.Kernel{Release: "5.4.0-1-generic"}, flavour)...)
		return sources, modules, require.Value(plan.Describe())(t).ID
	}
	one, other := patchOf("y", openPatch), patchOf("y", strings.ReplaceAll(openPatch, "int y", "int z"))
	seen := map[string]bool{}
	for _, patches := range [][]matrix.Patch{nil, {one}, {other}} {
		for _, key := range all(keys(matrix.Open, patches...)) {
			assert.Equalf(t, false, seen[key], "two sources have a key or an id in common")
			seen[key] = true
		}
	}
	assert.Equalf(t, all(keys(matrix.Proprietary))[1], all(keys(matrix.Proprietary, one))[1], "modules of the other flavour")
	one.Sources = []string{matrix.SourcePackages}
	assert.Samef(t, all(keys(matrix.Open)), all(keys(matrix.Open, one)), "a patch for packages alone, and an archive")
}

func all(keys ...string) []string { return keys }

// TestPatchFromURL: a patch at an address is downloaded with the rest, and compared with its digest.
func TestPatchFromURL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := patchOf("y", openPatch)
	p.File, p.Text, p.URL = "", "", r.URL+"/y.patch"
	r.Put("/y.patch", []byte(openPatch))
	target := patched(r.target(t, pair("ubuntu18.04", newDriver)), p)
	plan := require.Value(planOne(t, r.b, target, recipe.Options{}))(t)
	if !slices.ContainsFunc(plan.Files(), func(f fetch.File) bool { return f.URL == p.URL && f.SHA256 == p.SHA256 }) {
		t.Errorf("fetch does not bring the patch: %v", plan.Files())
	}
	require.Value(r.b.Download(t.Context(), plan))(t)
	r.Put("/y.patch", []byte("gone"))
	img := require.Value(r.b.Build(t.Context(), plan))(t)
	assert.Equal(t, newSource, read(t, treeOf(t, img), "usr/src/nvidia-"+newDriver+"/kernel-open/nvidia/nv.c"))

	fresh := newBuilder(t, r.World, t.TempDir())
	_, err := fresh.Build(t.Context(), plan)
	if _, ok := errors.AsType[*fetch.MismatchError](err); !ok {
		t.Errorf("another text at the address: %v", err)
	}
}

// TestPatchesRefused: a patch that does not fit stops the build, with the place.
func TestPatchesRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	target := r.target(t, pair("ubuntu18.04", newDriver))
	wrongSum := patchOf("y", openPatch)
	wrongSum.Text += "\n"
	for label, c := range map[string]struct {
		patch matrix.Patch
		says  string
	}{
		"other version": {patchOf("y", strings.Replace(openPatch, " int x;", " int w;", 1)), `kernel-open/nvidia/nv.c, hunk 1: line 1 is "int x;\n" and should be "int w;\n"`},
		"elsewhere":     {patchOf("y", strings.Replace(openPatch, "@@ -1 +1,2 @@", "@@ -2 +2,2 @@", 1)), "would fit at line 1"},
		"no such file":  {patchOf("y", strings.ReplaceAll(openPatch, "nv.c", "nv2.c")), "the sources have no kernel-open/nvidia/nv2.c"},
		"a folder":      {patchOf("y", strings.ReplaceAll(openPatch, "nvidia/nv.c", "nvidia")), "it is no file"},
		"wrong text":    {wrongSum, "sha256"},
		"new file that is there": {
			patchOf("y", "--- /dev/null\n+++ b/kernel-open/Kbuild\n@@ -0,0 +1 @@\n+x\n"), "the sources have such a file",
		},
	} {
		plan := require.Value(planOne(t, r.b, patched(target, c.patch), recipe.Options{}))(t)
		_, err := newBuilder(t, r.World, t.TempDir()).Build(t.Context(), plan)
		assert.ErrorContainsf(t, err, c.says, "%s", label)
	}
	bad := patchOf("y", "no patch")
	plan := require.Value(planOne(t, r.b, patched(target, bad), recipe.Options{}))(t)
	assert.ErrorIs(t, assert.Err(r.b.Build(t.Context(), plan)), patch.ErrFormat)
	plan.Patches[0].Text = "" // a recipe of a lock
	assert.ErrorContains(t, r.b.Localize(plan, "", ""), "text of patch y")
}
