package images

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestDescription: what the matrix says of a driver is in its image, and what the builder overrode.
func TestDescription(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := pair("ubuntu16.04", oldDriver)
	target := r.target(t, s)
	target.Driver.Kernel = driverinfo.KernelRule{Min: "2.6.32", Max: "5.1", Reason: "unpatched; fixed in 418.88"}
	fault := driverinfo.Advisory{ID: "fault", Kind: driverinfo.KnownBad, Reason: "breaks", Source: "us"}
	target.Driver.Advisories = []matrix.Advisory{{Advisory: fault}}
	target.Overridden = []string{"kernel-too-new: the lowest kernel: is 6.1", "excluded: so it is", "excluded: twice"}
	_, img := made(t, r.b, target, recipe.Options{Profile: recipe.Compute})
	got := require.Value(driverinfo.Read(treeOf(t, img).OpenFS()))(t)
	want := driverinfo.Description{
		Schema: 1, Driver: oldDriver, Branch: "R418", OS: "ubuntu16.04", Arch: "amd64", Profile: "compute", Flavours: []string{"proprietary"},
		Kernel:     driverinfo.KernelRule{Min: "2.6.32", Max: "5.1", Reason: "unpatched; fixed in 418.88"},
		Overridden: []string{"excluded", "kernel-too-new"}, ID: got.ID, Toolchain: true,
		CUDA: "10.1", Advisories: []driverinfo.Advisory{fault,
			{ID: "end-of-life-r418", Kind: driverinfo.EndOfLife, Until: "2022-03", Source: "NVIDIA, CUDA drivers support, March 2021"}},
	}
	want.Layers = got.Layers
	want.Configuration = got.Configuration
	assert.Same(t, want, got)
	assert.NoErrorf(t, got.CheckKernel("6.1.0-38-amd64"), "the node does not obey the override")
	wantFit(t, r.b, img)
}

// TestContentID: the identity follows the content and nothing else.
func TestContentID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := pair("debian12", newDriver)
	id := func(o recipe.Options, change func(*recipe.Recipe)) string {
		t.Helper()
		planned := *r.plan(t, s, o)
		planned.Entrypoint = slices.Clone(planned.Entrypoint)
		planned.Packages = slices.Clone(planned.Packages)
		if change != nil {
			change(&planned)
		}
		info := require.Value(planned.Describe())(t)
		return info.ID
	}
	base := id(recipe.Options{}, nil)
	for what, same := range map[string]string{
		"again":       id(recipe.Options{}, nil),
		"time":        id(recipe.Options{Epoch: 1700000000}, nil),
		"compression": id(recipe.Options{Compression: recipe.Zstd}, nil),
		"builder":     id(recipe.Options{}, func(r *recipe.Recipe) { r.Builder.Version = "v9" }),
		"mirror":      id(recipe.Options{}, func(r *recipe.Recipe) { r.Packages[0].URL = "http://elsewhere" }),
	} {
		assert.Equalf(t, base, same, "%s changes the identity", what)
	}
	seen := map[string]string{base: "the base"}
	for what, other := range map[string]string{
		"profile":    id(recipe.Options{Profile: recipe.Compute}, nil),
		"entrypoint": id(recipe.Options{}, func(r *recipe.Recipe) { r.Entrypoint[0].SHA256 = strings.Repeat("1", 64) }),
		"package":    id(recipe.Options{}, func(r *recipe.Recipe) { r.Packages[0] = distros.Package{SHA256: strings.Repeat("1", 64)} }),
		"base":       id(recipe.Options{}, func(r *recipe.Recipe) { r.Base.Digest = "sha256:1" }),
		"rule":       id(recipe.Options{}, func(r *recipe.Recipe) { r.Kernel.Max = "1.0" }),
		"kernel":     id(recipe.Options{Kernels: []string{imagetest.Kernel}}, nil),
		"old kernel": id(recipe.Options{Kernels: []string{imagetest.OldKernel}}, nil),
		"kernels":    id(recipe.Options{Kernels: []string{imagetest.Kernel, imagetest.OldKernel}, OneImage: true}, nil),
		"sources":    id(recipe.Options{Kernels: []string{imagetest.Kernel}, Sources: true}, nil),
		"toolchain":  id(recipe.Options{Kernels: []string{imagetest.Kernel}, Toolchain: true}, nil),
		"modules":    id(recipe.Options{Kernels: []string{imagetest.Kernel}, Modules: []string{"nvidia", "nvidia-uvm"}}, nil),
	} {
		assert.Equalf(t, "", seen[other], "%s has the identity of another", what)
		seen[other] = what
	}
}

// TestPinned: what an earlier plan found has to be enough.
func TestPinned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	target := r.target(t, pair("debian12", newDriver))
	pins := r.plan(t, pair("debian12", newDriver), recipe.Options{}).Pins()
	pin := func(o recipe.Options) error {
		return require.Value(recipe.New(target, o))(t).Pin(o, pins)
	}
	assert.ErrorContainsf(t, pin(recipe.Options{Kernels: []string{imagetest.Kernel}}), imagetest.Kernel, "headers that were not planned")
	pins.Base.Name = ""
	assert.ErrorContainsf(t, pin(recipe.Options{}), "--base", "no base")
}

// TestOffline: what is planned from the cache is planned by the same rules as with the network.
func TestOffline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	offline := require.Value(r.b.offline())(t)
	draft := require.Value(NewDraft(r.target(t, pair("debian12", newDriver)), recipe.Options{}))(t)
	assert.ErrorIsf(t, assert.Err(offline.findPins(t.Context(), draft)), fetch.ErrOffline, "from an empty cache")
	want := require.Value(r.b.findPins(t.Context(), draft))(t)
	before := r.Requests("/")
	got := require.Value(offline.findPins(t.Context(), draft))(t)
	assert.Equal(t, "", cmp.Diff(want, got))
	assert.Equalf(t, before, r.Requests("/"), "requests")
}
