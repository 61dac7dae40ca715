package images

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/kernelmodules"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/kmod/sign"
)

// modulesLayerOf is the digest of the layer with an image's modules.
func modulesLayerOf(t *testing.T, r *rig, o recipe.Options) string {
	t.Helper()
	return digestOf(t, modulesOf(t, r.build(t, pair("debian12", newDriver), o)))
}

// modulesOf is the layer with an image's modules.
func modulesOf(t *testing.T, img v1.Image) v1.Layer {
	t.Helper()
	config := require.Value(img.ConfigFile())(t)
	for i, l := range layersOf(t, img) {
		if strings.Contains(config.History[i].CreatedBy, ": modules ") {
			return l
		}
	}
	t.Fatal("the image has no modules")
	return nil
}

// TestToolkit: an image with headers and compiler gives the same modules as packages, and no package of a
// compiler is planned.
func TestToolkit(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	ref := r.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.OldKernel, imagetest.Kernel)...)
	o := recipe.Options{Kernels: []string{imagetest.Kernel}}
	packaged := modulesLayerOf(t, r, o)
	o.KernelFrom = []string{ref}
	planned := r.plan(t, pair("debian12", newDriver), o)
	k := planned.Kernels[0]
	if len(planned.Compiler) > 0 || len(k.Headers) > 0 || k.Toolkit == nil || k.Toolkit.Name != ref || !strings.HasSuffix(k.Toolkit.Location, "@"+k.Toolkit.Digest) {
		t.Errorf("compiler %v, kernel %+v", planned.Compiler, k)
	}
	assert.Equal(t, newDriver+"-"+imagetest.Kernel+"-debian12", planned.Tag)
	assert.Equal(t, packaged, modulesLayerOf(t, r, o))
	assert.Equalf(t, int32(2), f.runs.Load(), "compiles: the inputs differ")
	assert.Equal(t, packaged, modulesLayerOf(t, r, o))
	assert.Equalf(t, int32(2), f.runs.Load(), "compiles after the same build")

	r.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	require.Value(r.b.Build(t.Context(), planned))(t)
	r.b = r.b.with(r.b.Store) // another call
	moved := r.plan(t, pair("debian12", newDriver), o)
	assert.Equalf(t, false, moved.Kernels[0].Toolkit.Digest == k.Toolkit.Digest, "a new plan has the image that the tag named before")
	one, two := require.Value(planned.Describe())(t), require.Value(moved.Describe())(t)
	assert.Equalf(t, false, one.ID == two.ID, "the content of images from two toolkits is the same")
	require.Value(r.b.Build(t.Context(), moved))(t)
	assert.Equalf(t, int32(3), f.runs.Load(), "compiles: another image is another key")
}

// withCompanions returns a target whose images have nvidia-fs and gdrdrv.
func withCompanions(t *testing.T, r *rig) matrix.Target {
	t.Helper()
	target := r.target(t, pair("debian12", newDriver))
	for name, files := range map[string][]repotest.File{
		driverinfo.GDRDrv:   {{Name: "src/gdrdrv/Makefile", Body: "all:\n"}, {Name: "src/gdrdrv/gdrdrv.c", Body: "int x;\n"}, {Name: "LICENSE", Body: "MIT\n"}},
		driverinfo.NvidiaFS: {{Name: "src/Makefile", Body: "all:\n"}, {Name: "src/configure", Body: "#!/bin/sh\n", Mode: 0o755}, {Name: "src/GDS_VERSION", Body: "2.5.2\n"}, {Name: "LICENSE", Body: "MIT\n"}},
	} {
		data := repotest.Compress(t, ".gz", repotest.Tar(t, name+"-2.5.2/", files))
		r.Put("/companions/"+name+".tar.gz", data)
		target.Companions = append(target.Companions, matrix.Companion{Name: name, Version: "2.5.2", Licence: "MIT", Named: true,
			Archive: &matrix.Archive{URL: r.URL + "/companions/" + name + ".tar.gz", SHA256: fmt.Sprintf("%x", sha256.Sum256(data))}})
	}
	slices.SortFunc(target.Companions, func(a, b matrix.Companion) int { return strings.Compare(a.Name, b.Name) })
	return target
}

// TestToolkitSigned: modules that were compiled in an image with headers and compiler are signed as
// those that packages gave, companions too, by a build with the key and by a key afterwards. Signing
// compiles nothing.
func TestToolkitSigned(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	own := signers()[0]
	ref := r.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	target := withCompanions(t, r)
	build := func(signer *sign.Signer, from ...string) v1.Image {
		t.Helper()
		o := recipe.Options{Kernels: []string{imagetest.Kernel}, KernelFrom: from}
		r.b.Signer = signer
		if signer != nil {
			o.Signer = signer.Certificate
		}
		_, img := made(t, r.b, target, o)
		return img
	}
	layers := map[string]bool{}
	for _, from := range [][]string{nil, {ref}} {
		unsigned, signed := build(nil, from...), build(own, from...)
		later := require.Value(kernelmodules.SignImage(t.Context(), r.b.Layers(), "x", unsigned, kernelmodules.SignaturesBy(own)))(t)
		layers[digestOf(t, modulesOf(t, signed))] = true
		layers[digestOf(t, modulesOf(t, later))] = true
		assert.Equalf(t, 0, len(findingsOf(t, r, signed, "module-signature", own.Certificate)), "findings: all modules are signed")
		assert.Equalf(t, 0, len(findingsOf(t, r, signed, "modules")), "findings: %v", findingsOf(t, r, signed, "modules"))
		found := require.Value(examiner(r.b).Inspect(t.Context(), "x", signed))(t)
		var names []string
		for _, m := range found.Modules[0].Modules {
			names = append(names, m.Name)
		}
		for _, name := range driverinfo.Companions() {
			assert.Equalf(t, true, slices.Contains(names, name), "%s is among %v", name, names)
		}
	}
	assert.Equalf(t, 1, len(layers), "layers with signed modules: %v", layers)
	assert.Equalf(t, int32(2), f.runs.Load(), "compiles")
}

// TestToolkitMoved: what was planned is compiled in, or nothing.
func TestToolkitMoved(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	dir := t.TempDir()
	write := func(releases ...string) {
		path := require.Value(layout.Write(dir, empty.Index))(t)
		require.NoError(t, path.AppendImage(r.ToolkitImage("amd64", imagetest.ToolkitFiles(releases...)...)))
	}
	write(imagetest.Kernel, imagetest.OldKernel)
	o := recipe.Options{Kernels: []string{imagetest.Kernel}, KernelFrom: []string{"oci:" + dir}}
	planned := r.plan(t, pair("debian12", newDriver), o)
	assert.Equal(t, "", planned.Kernels[0].Toolkit.Name)
	write(imagetest.Kernel)
	assert.ErrorContains(t, assert.Err(r.b.Build(t.Context(), planned)), "was planned as "+planned.Kernels[0].Toolkit.Digest)
	assert.Equal(t, int32(0), f.runs.Load())

	pins := planned.Pins()
	assert.Equalf(t, "", pins.Toolkits[imagetest.Kernel].Location, "a path of this machine in the pins")
	target := r.target(t, pair("debian12", newDriver))
	again := require.Value(recipe.New(target, o))(t)
	require.NoError(t, again.Pin(o, pins))
	assert.Equal(t, "oci:"+dir, again.Kernels[0].Toolkit.Location)
	o.KernelFrom = []string{"oci:" + dir, "oci:/elsewhere"}
	again = require.Value(recipe.New(target, o))(t)
	assert.ErrorContains(t, again.Pin(o, pins), "give --kernel-from")
}

// TestToolkitAlias: an image of a release of Flatcar says by which name the operator asks for its modules,
// unless the matrix has this name already.
func TestToolkitAlias(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	const release = "6.6.54-flatcar"
	osRelease := func(text string) repotest.File { return repotest.File{Name: "usr/lib/os-release", Body: text} }
	for n, c := range []struct {
		file    repotest.File
		aliases []string
		want    string
	}{
		{osRelease("ID=flatcar\nVERSION_ID=4081.2.0\n"), nil, "add it to aliases of flatcar in the matrix (aliases: [flatcar4081.2.0])"},
		{osRelease("ID=flatcar\nVERSION_ID=4081.2.0\n"), []string{"flatcar4081.2.0"}, ""},
		{osRelease("ID=debian\nVERSION_ID=13\n"), nil, ""},
		{osRelease("ID=flatcar\nVERSION_ID='4081.2.0, example.com'\n"), nil, ""},
		{repotest.File{Name: "etc/os-release", Link: "../gone"}, nil, ""},
	} {
		ref := r.PushToolkit(fmt.Sprint("system", n), "amd64", append(imagetest.ToolkitFiles(release), c.file)...)
		target := r.target(t, pair("debian12", newDriver))
		target.System.ID, target.System.Aliases = "flatcar", c.aliases
		target.Distro = require.Value(distros.Lookup("flatcar"))(t)
		var notes []string
		step := progress.Observer(func(e progress.Event) { notes = append(notes, e.Note) }).Begin("t", "s")
		_, err := r.b.headersImages(t.Context(), target, recipe.Options{Kernels: []string{release}, KernelFrom: []string{ref}}, step)
		require.NoError(t, err)
		got := strings.Join(notes, "\n")
		if strings.Contains(got, "aliases") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: notes %q, want %q", c.file.Body, got, c.want)
		}
	}
}
