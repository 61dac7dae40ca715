package images

import (
	"os"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestLibraries: the layers for two folders of libraries come from one pass over the archive, have the bytes
// that each has alone, and need no archive afterwards.
func TestLibraries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := Libraries{Dir: "usr/lib64", Dir32: "usr/lib"}
	r.b.Libraries = func(driver, arch string) []Libraries {
		assert.Equalf(t, newDriver+" amd64", driver+" "+arch, "asked for")
		return []Libraries{{Dir: libDir, Dir32: "usr/lib/i386-linux-gnu"}, other}
	}
	elsewhere := func(b *Builder) *recipe.Recipe {
		planned := *require.Value(b.Plan(t.Context(), r.target(t, pair("ubuntu18.04", newDriver)), recipe.Options{}))(t)
		planned.LibDir, planned.LibDir32 = other.Dir, other.Dir32
		return &planned
	}
	r.build(t, pair("ubuntu18.04", newDriver), recipe.Options{})
	archive := r.plan(t, pair("ubuntu18.04", newDriver), recipe.Options{}).Source.Archive()
	require.NoError(t, os.Remove(r.b.Store.Path(archive.SHA256)))
	before := r.Requests(".run")
	got := require.Value(r.b.driverLayers(t.Context(), elsewhere(r.b), true))(t)
	assert.Equalf(t, before, r.Requests(".run"), "requests for the archive")
	alone := newBuilder(t, r.World, t.TempDir())
	want := require.Value(alone.driverLayers(t.Context(), elsewhere(alone), true))(t)
	assert.Equalf(t, digestOf(t, want.user), digestOf(t, got.user), "user-mode driver")
	assert.Equalf(t, digestOf(t, want.kernel), digestOf(t, got.kernel), "kernel sources")
}
