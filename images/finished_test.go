package images

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/runner"
	"github.com/driver-container/driver-container/images/runner/auto"
)

// emptyMachine is a builder with an empty cache that takes finished layers from a repository. Its only runner
// is a BuildKit daemon that is not there.
func (r *rig) emptyMachine(t *testing.T, repository string) *Builder {
	t.Helper()
	b := newBuilder(t, r.World, t.TempDir())
	b.Finished = layer.NewFinder(t.Context(), layer.FinderOptions{Registry: b.Registry, From: []string{repository}})
	b.Runner = auto.New(auto.Options{Kind: auto.BuildKit, Address: "unix:///nonexistent/buildkitd.sock", Say: func(string) {}}).Runner
	return b
}

// leave pushes an image and makes its layers of use to later builds.
func leave(t *testing.T, b *Builder, repository, tag string, img v1.Image) {
	t.Helper()
	finder := layer.NewFinder(t.Context(), layer.FinderOptions{Registry: b.Registry, From: []string{repository}})
	_, _, err := b.Registry.Push(t.Context(), repository+":"+tag, img)
	require.NoError(t, err)
	require.NoError(t, finder.Publish(t.Context(), b.Layers(), repository, tag, img, SingleLayers()...))
}

// TestModulesFound: an empty machine finds compiled modules by their key in images of other kernels, with or
// without sources and compiler. No runner is asked, so that a BuildKit daemon need not be there, and no
// headers are downloaded. A kernel that no image has modules for wants the runner.
func TestModulesFound(t *testing.T) {
	t.Parallel()
	r, f := precompiledRig(t)
	repository, s := r.Host+"/team/driver", pair("debian12", newDriver)
	for _, kernel := range []string{imagetest.Kernel, imagetest.OldKernel} {
		planned := r.plan(t, s, recipe.Options{Kernels: []string{kernel}})
		leave(t, r.b, repository, planned.Tag, require.Value(r.b.Build(t.Context(), planned))(t))
	}
	for what, o := range map[string]recipe.Options{
		"the same":  {Kernels: []string{imagetest.Kernel}},
		"together":  {Kernels: []string{imagetest.OldKernel, imagetest.Kernel}, Together: true},
		"toolchain": {Kernels: []string{imagetest.Kernel}, Toolchain: true},
		"sources":   {Kernels: []string{imagetest.Kernel}, Sources: true},
	} {
		b := r.emptyMachine(t, repository)
		planned := require.Value(b.Plan(t.Context(), r.target(t, s), o))(t)
		headers := r.Requests("linux-headers-") + r.Requests("linux-kbuild")
		img, err := b.Build(t.Context(), planned)
		require.NoErrorf(t, err, "%s", what)
		assert.Equalf(t, headers, r.Requests("linux-headers-")+r.Requests("linux-kbuild"), "%s: requests for headers", what)
		want := require.Value(r.b.Build(t.Context(), planned))(t)
		assert.Equalf(t, digestOf(t, want), digestOf(t, img), "%s", what)
	}
	assert.Equalf(t, 2, f.runs.Load(), "compiles")
	b := r.emptyMachine(t, repository)
	planned := require.Value(b.Plan(t.Context(), r.target(t, s), recipe.Options{Kernels: []string{imagetest.CloudKernel}}))(t)
	assert.ErrorIs(t, assert.Err(b.Build(t.Context(), planned)), runner.ErrUnavailable)
}
