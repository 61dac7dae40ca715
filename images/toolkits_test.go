package images

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/toolkit"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// modulesLayerOf is the digest of the layer with an image's modules.
func modulesLayerOf(t *testing.T, r *rig, o recipe.Options) string {
	t.Helper()
	img := r.build(t, pair("debian12", newDriver), o)
	config := require.Value(img.ConfigFile())(t)
	for i, l := range layersOf(t, img) {
		if strings.Contains(config.History[i].CreatedBy, ": modules ") {
			return digestOf(t, l)
		}
	}
	t.Fatal("the image has no modules")
	return ""
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
	moved := r.plan(t, pair("debian12", newDriver), o)
	if moved.Kernels[0].Toolkit.Digest == k.Toolkit.Digest {
		t.Error("a new plan has the image that the tag named before")
	}
	one, two := require.Value(planned.Describe())(t), require.Value(moved.Describe())(t)
	assert.Equalf(t, false, one.ID == two.ID, "the content of images from two toolkits is the same")
	require.Value(r.b.Build(t.Context(), moved))(t)
	assert.Equalf(t, int32(3), f.runs.Load(), "compiles: another image is another key")
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
	_, err := r.b.Build(t.Context(), planned)
	assert.ErrorContains(t, err, "was planned as "+planned.Kernels[0].Toolkit.Digest)
	assert.Equal(t, int32(0), f.runs.Load())

	pins := planned.Pins()
	assert.Equalf(t, "", pins.Toolkits[imagetest.Kernel].Location, "a path of this machine in the pins")
	again := require.Value(r.b.Recipe(r.target(t, pair("debian12", newDriver)), o, pins))(t)
	assert.Equal(t, "oci:"+dir, again.Kernels[0].Toolkit.Location)
	o.KernelFrom = []string{"oci:" + dir, "oci:/elsewhere"}
	assert.ErrorContains(t, assert.Err(r.b.Recipe(r.target(t, pair("debian12", newDriver)), o, pins)), "give --kernel-from")
}

// TestToolkitRefused: kernels that images do not have, and images that cannot compile.
func TestToolkitRefused(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	plan := func(kernel string, refs ...string) error {
		_, err := r.b.Plan(t.Context(), r.target(t, pair("debian12", newDriver)), recipe.Options{Kernels: []string{kernel}, KernelFrom: refs})
		return err
	}
	good := r.PushToolkit("good", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	err := plan(imagetest.CloudKernel, good)
	assert.ErrorIs(t, err, recipe.ErrKernel)
	assert.ErrorContains(t, err, "they have "+imagetest.Kernel)
	assert.ErrorIs(t, plan(imagetest.Kernel, r.PushToolkit("none", "amd64", imagetest.ToolkitFiles()...)), toolkit.ErrUnsuitable)
	assert.ErrorIs(t, plan(imagetest.Kernel, "oci:"+t.TempDir()), toolkit.ErrUnsuitable)
	err = plan(imagetest.Kernel, r.PushToolkit("arm", "arm64", imagetest.ToolkitFiles(imagetest.Kernel)...))
	if _, ok := errors.AsType[*oci.PlatformError](err); !ok {
		t.Errorf("an image of another architecture: %v", err)
	}
	other := r.PushToolkit("other", "amd64", imagetest.ToolkitFiles(imagetest.CloudKernel)...)
	assert.NoError(t, plan(imagetest.CloudKernel, good, other))
}

// TestToolkitTags: the GPU Operator asks for images of OpenShift's nodes by the branch, the kernel as node
// feature discovery writes it, and the name of the system.
func TestToolkitTags(t *testing.T) {
	t.Parallel()
	r, _ := precompiledRig(t)
	target := r.target(t, pair("debian12", newDriver))
	target.System.ID, target.System.Aliases = "rhel9", []string{"rhcos4.18"}
	tag, aliases := recipe.KernelTags(target, "5.14.0-427.13.1.el9_4.x86_64+rt")
	assert.Equal(t, newDriver+"-5.14.0-427.13.1.el9_4.x86_64_rt-rhel9", tag)
	assert.Equal(t, "535-5.14.0-427.13.1.el9_4.x86_64_rt-rhcos4.18", aliases[len(aliases)-1])
}

// TestToolkitRealtime: a real-time kernel of an image is compiled for by its own headers, beside the
// plain one.
func TestToolkitRealtime(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	const realtime = "6.1.0-56-rt-amd64"
	ref := r.PushToolkit("rt", "amd64", imagetest.ToolkitFiles(imagetest.Kernel, realtime)...)
	o := recipe.Options{Kernels: []string{imagetest.Kernel, realtime}, KernelFrom: []string{ref}, Together: true}
	info := require.Value(driverinfo.Read(treeOf(t, r.build(t, pair("debian12", newDriver), o)).OpenFS()))(t)
	assert.Equal(t, int32(2), f.runs.Load())
	assert.Equal(t, 2, len(info.Precompiled))
	assert.Equal(t, true, info.Precompiled[0].Kernel == realtime || info.Precompiled[1].Kernel == realtime)
}

// TestToolkitInterrupted: a compile that is killed, or that the image's compiler fails, leaves no modules,
// and the next build compiles again in the same image.
func TestToolkitInterrupted(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	ref := r.PushToolkit("one", "amd64", imagetest.ToolkitFiles(imagetest.Kernel)...)
	planned := r.plan(t, pair("debian12", newDriver), recipe.Options{Kernels: []string{imagetest.Kernel}, KernelFrom: []string{ref}})
	for _, f.fails = range []error{context.Canceled, errors.New("signal: killed"), &kbuild.CompileError{}} {
		assert.ErrorIs(t, assert.Err(r.b.Build(t.Context(), planned)), f.fails)
	}
	f.fails = nil
	img := require.Value(r.b.Build(t.Context(), planned))(t)
	assert.Equal(t, int32(4), f.runs.Load())
	assert.Equal(t, 0, len(findingsOf(t, r, img, "modules")))
}
